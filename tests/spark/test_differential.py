"""Both engines give the same rows: Spark's own filter is the oracle, over a table with every type and odd values."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math

import pyarrow as pa
import pytest

import indextables

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("g", pa.float32()),
        ("f", pa.float64()),
        ("n", pa.decimal128(20, 4)),
        ("s", pa.string()),
        ("y", pa.binary()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("us")),
        ("a", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("st", pa.struct([("x", pa.int32()), ("z", pa.string())])),
        ("p", pa.string()),
        ("k", pa.int32()),
    ]
)
PARTITIONS = ["a b", "a/b", "a:b", "a%20b", "%", "", None, "é", "k=1", "..", "+", "#?", "line\nbreak", '"', "\\"]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e300, 5e-324, None, 0.1]
TEXTS = ["", "abc", "ABC", "é", "zz", "a_b", "a%b", None, "\U0001f600", " ", "timeout here"]
DECIMALS = ["0.0001", "-12345678.1234", "1.0000", "9999999999999999.9999", "0", None]
DAYS = [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
TIMES = [
    dt.datetime(2024, 1, 1),  # noqa: DTZ001 - local times, and instants where a zone is added
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
    dt.datetime(2024, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
    None,
]


def made(number: int) -> dict:
    """Each column walks through its own odd values at its own pace."""
    time = TIMES[number % len(TIMES)]
    return {
        "id": number if number % 10 else 2**62 + number,
        "b": [True, False, None][number % 3],
        "i8": [-128, 127, 0, None][number % 4],
        "i16": [-32768, 32767, 7, None][number % 4],
        "i32": [-(2**31), 2**31 - 1, 1, None, 2][number % 5],
        "g": FLOATS[(number + 3) % len(FLOATS)],
        "f": FLOATS[number % len(FLOATS)],
        "n": None if DECIMALS[number % 6] is None else decimal.Decimal(DECIMALS[number % 6]),
        "s": TEXTS[number % len(TEXTS)],
        "y": [b"\x00\xff", b"", None, b"\xff"][number % 4],
        "day": DAYS[number % len(DAYS)],
        "ts": None if time is None else time.replace(tzinfo=dt.UTC),
        "ntz": TIMES[(number + 1) % len(TIMES)],
        "a": [[1, None, 3], [], None][number % 3],
        "m": [[("k", 1), ("l", None)], [], None][number % 3],
        "st": [{"x": 7, "z": "z"}, {"x": None, "z": None}, None, {"x": -1, "z": ""}][number % 4],
        "p": PARTITIONS[number % len(PARTITIONS)],
        "k": [1, None, -5][number % 3],
    }


ROWS = [made(number) for number in range(90)]

# Predicates that both engines and the embedded SQL spell alike.
SHARED = [
    *("p = 'a b'", "p = 'a/b'", "p = 'a:b'", "p = 'a%20b'", "p = '%'", "p = ''", "p = '..'", "p = 'k=1'", "p = '+'"),
    *("p = '#?'", "p IS NULL", "p IS NOT NULL", "p <> 'a b'", "p IN ('%', 'é', '')", "p NOT IN ('%', 'a b')"),
    *("p LIKE 'a%'", "p > 'a'", "p <= '%'", "k = 1 AND p IS NOT NULL", "k IS NULL OR p = '%'", "NOT (k = 1)", "k < 0"),
    *("f = 0.0", "f < 0.0", "f <= 0.0", "f > 1.0", "f >= 1e300", "f <> 1.5", "f IS NULL", "NOT (f > 1)"),
    *("f BETWEEN -1 AND 1", "f = 0.1", "g = 1.5", "g > 0", "g < 0", "g IS NOT NULL"),
    *("n = 0.0001", "n > 12345678", "n < -1.5", "n IN (0.0001, 1.0)", "n = 1", "n >= 0 AND n <= 1"),
    *("i8 = 127", "i16 < 0", "i32 >= 2147483647", "id > 4611686018427387903", "i8 > 1000", "i8 <> 0"),
    *("s = ''", "s = 'é'", "s > 'z'", "s IS NULL", "upper(s) = 'ABC'", "s IN ('', 'abc')", "s <> ''", "s LIKE '%b%'"),
    *("s LIKE 'a_c'", "s NOT LIKE 'a%'", "s >= 'a' AND s < 'b'", "length(s) = 1"),
    *("b", "NOT b", "b IS NULL", "b = true AND f > 0", "b OR f > 0", "(b AND k = 1) OR (NOT b AND k IS NULL)"),
    *("day = DATE '2024-02-29'", "day < DATE '1970-01-01'", "day IS NULL", "day > DATE '2024-02-28'"),
    *("coalesce(i32, 0) = 0", "id % 3 = 1", "id + 1 > 80", "CASE WHEN b THEN k ELSE i32 END = 1", "1 = 1", "1 = 0"),
    *("ts IS NULL", "ntz IS NOT NULL", "p = 'a b' OR s = 'zz' OR f IS NULL", "NOT (s = 'abc' OR n IS NULL)"),
]
# What only Spark's dialect has, and ours.
SPARKS = [
    *("p <=> NULL", "p <=> ''", "s <=> 'abc'", "isnan(f)", "NOT isnan(g)", "f = double('NaN')", "f >= double('NaN')"),
    *("f > double('Infinity')", "f IN (0.0D, 1.5D)", "f IS DISTINCT FROM 0.0D", "g = 0.1F", "i32 = 1.5", "i32 = '1'"),
    *("y = X'00FF'", "y > X'00'", "y = X''", "s RLIKE '^a.c$'", "startswith(s, 'a')", "contains(s, '%')"),
    *("day = '2024-02-29'", "year(day) = 2024", "month(day) = 12", "day >= DATE '0001-01-01'"),
    *("ts = TIMESTAMP '2024-01-01 00:00:00'", "ts > TIMESTAMP '2024-01-01 00:00:00'", "ts < '1970-01-01'"),
    *("ntz = TIMESTAMP_NTZ '2024-01-01 00:00:00'", "ntz <= TIMESTAMP_NTZ '1970-01-01 00:00:00'"),
    *(
        "st.x = 7",
        "st.x IS NULL",
        "st.z = ''",
        "st.x < 0 OR st.z IS NULL",
        "s IN ('abc', NULL)",
        "NOT (s IN ('abc', NULL))",
    ),
    *(
        "p = 'line\\nbreak'",
        "p = '\"'",
        "p = '\\\\'",
        "if(b, 1, 2) = 2",
        "nullif(s, '') IS NULL",
        "try_cast(s AS INT) IS NULL",
    ),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three commits, so that files of one partition differ in what their statistics say."""
    path = tmp_path_factory.mktemp("differential") / "t"
    table = indextables.create(path, SCHEMA, partition_by=["p", "k"], indexing={"s": "text"})
    for start in (0, 30, 60):
        table.append(pa.Table.from_pylist(ROWS[start : start + 30], schema=SCHEMA))
    return path


@pytest.fixture(scope="module")
def table(place):
    return indextables.open(place)


@pytest.fixture(scope="module")
def frame(spark, place):
    return spark.read.format("indextables").load(str(place))


@pytest.fixture(scope="module")
def expected(frame):
    """The ids for which Spark says that each predicate is true, in one job over all rows."""
    texts = [*SHARED, *SPARKS]
    told = frame.selectExpr("id", *(f"({text}) AS `{number}`" for number, text in enumerate(texts))).toArrow()
    ids = told["id"].to_pylist()
    return {
        text: sorted(row for row, true in zip(ids, told[str(number)].to_pylist(), strict=True) if true)
        for number, text in enumerate(texts)
    }


def plain(rows: pa.Table) -> list[str]:
    """Rows in the order of their ids, so that NaN equals itself and -0.0 is not 0.0."""
    ordered = sorted(rows.select(SCHEMA.names).cast(SCHEMA).to_pylist(), key=lambda row: row["id"])
    return [repr(row) for row in ordered]


def test_both_engines_read_every_value_as_it_was_written(frame, table):
    written = plain(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    assert plain(table.to_arrow()) == written
    assert plain(frame.toArrow()) == written
    # SQL has one zero.
    assert plain(table.sql("SELECT * FROM t")) == [row.replace("-0.0,", "0.0,") for row in written]


def test_a_predicate_keeps_the_rows_that_spark_keeps(expected, table):
    found = {text: sorted(table.to_arrow(["id"], where=text)["id"].to_pylist()) for text in expected}
    assert {text: (found[text], ids) for text, ids in expected.items() if found[text] != ids} == {}
    assert sum(0 < len(ids) < len(ROWS) for ids in expected.values()) > len(expected) * 0.8


def test_counts_agree(expected, table):
    counted = {text: table.count(where=text) for text in expected}
    assert {text: (counted[text], len(ids)) for text, ids in expected.items() if counted[text] != len(ids)} == {}


def test_a_search_beside_a_predicate_agrees(expected, table):
    matching = {row["id"] for row in ROWS if row["s"] is not None and "timeout" in row["s"]}
    found = {text: table.search("s:timeout", ["id"], text, None)["id"].to_pylist() for text in expected}
    wrong = {t: found[t] for t, ids in expected.items() if sorted(found[t]) != sorted(matching & set(ids))}
    assert wrong == {}


def test_the_embedded_sql_agrees(expected, table):
    found = {text: sorted(table.sql(f"SELECT id FROM t WHERE {text}")["id"].to_pylist()) for text in SHARED}
    assert {text: (found[text], expected[text]) for text in SHARED if found[text] != expected[text]} == {}


def test_the_where_option_of_a_load_keeps_the_same_rows(spark, place, expected):
    texts = [*SHARED[::4], *SPARKS[::3]]
    reader = spark.read.format("indextables").option("timeZone", "UTC")
    loads = [
        reader.option("where", text).load(str(place)).selectExpr("id", f"{number} AS k")
        for number, text in enumerate(texts)
    ]
    rows = functools.reduce(lambda left, right: left.union(right), loads).toArrow().to_pylist()
    found = {text: sorted(row["id"] for row in rows if row["k"] == number) for number, text in enumerate(texts)}
    assert {text: (found[text], expected[text]) for text in texts if found[text] != expected[text]} == {}


def test_filters_of_a_dataframe_keep_the_same_rows(frame, expected):
    texts = SHARED[1::6]
    parts = [frame.where(text).selectExpr("id", f"{number} AS k") for number, text in enumerate(texts)]
    rows = functools.reduce(lambda left, right: left.union(right), parts).toArrow().to_pylist()
    found = {text: sorted(row["id"] for row in rows if row["k"] == number) for number, text in enumerate(texts)}
    assert {text: (found[text], expected[text]) for text in texts if found[text] != expected[text]} == {}
