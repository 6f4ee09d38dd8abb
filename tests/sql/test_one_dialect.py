"""What `where` and `sql` both have means the same in both, or `sql` says what to write instead."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import indextables
from indextables.errors import NotSupported, QueryInvalid

ROWS = {
    "id": pa.array(range(8), pa.int64()),
    "b": pa.array([100, -128, 7, None, 127, 16, 3, 1], pa.int8()),
    "i": pa.array([50_000, 2_147_483_647, -3, None, 1, 2, 3, 4], pa.int32()),
    "d": pa.array([Decimal(v) for v in ("1.30", "1.00", "-1.50", "0.99", "2.01", "-0.50", "1.99", "3.00")]),
    "e": pa.array(
        [Decimal(v) for v in ("1.234", "1.150", "1.230", "-1.2", "2.01", "9", "1.225", "3")], pa.decimal128(12, 3)
    ),
    "s": ["a\\b", "ab", "a\tb", "a%b", None, "a_b", "\\", "x"],
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = indextables.create(str(tmp_path_factory.mktemp("dialect") / "t"), pa.table(ROWS).schema)
    made.append(pa.table(ROWS))
    return made


def of_where(table, condition):
    return sorted(table.to_arrow(["id"], where=condition)["id"].to_pylist())


def of_sql(table, condition, **params):
    return sorted(table.sql(f"SELECT id FROM t WHERE {condition}", params=params or None)["id"].to_pylist())


@pytest.mark.parametrize(
    "condition",
    [
        "CAST(b AS INT) + b > 130",
        "CAST(b AS INT) * b + 0 > 200",
        "CAST(i AS BIGINT) * 1 > 3",
        "-CAST(b AS INT) > 127 or CAST(i AS BIGINT) + 1 > 2147483647",
        "i = 3 and i < 5 and i in (3, 4)",
        "b in (7, 3, 1000) and CAST(b AS INT) - 1 > 0",
        "b < 1000 and CAST(b AS INT) * 2 > 6",
        "d * 2 > 2.5",
        "CAST(d AS DECIMAL(12, 3)) = 1.3",
        "CAST(b AS SMALLINT) = 3 and i < 10",
        "s LIKE 'a\\%b'",
        "s LIKE 'a\\_b'",
        "substring(s, 2, 1) = '%'",
    ],
)
def test_it_is_one(table, condition):
    assert of_sql(table, condition) == of_where(table, condition)


def test_narrow_whole_numbers_do_not_wrap(table):
    assert of_sql(table, "b * b > 10000") == [1, 4]
    assert of_sql(table, "i * i > 2000000000") == [0, 1]
    assert table.sql("SELECT sum(i * i) AS n FROM t WHERE id < 1")["n"].to_pylist() == [2_500_000_000]
    told = table.sql("SELECT b, b + b AS c, i - 1 AS j FROM t WHERE id = 2")
    assert (told.schema.types, told.to_pylist()) == (
        [pa.int8(), pa.int8(), pa.int64()],
        [{"b": 7, "c": 14, "j": -4}],
    )
    with pytest.raises(QueryInvalid, match="CAST"):
        table.sql("SELECT b * b AS c FROM t")


@pytest.mark.parametrize(
    "condition",
    [
        "CAST(d AS INT) = 1",
        "1 = d::bigint",
        "CAST(d AS INT) IN (1, 2)",
        "TRY_CAST(d AS SMALLINT) <> 1",
        "CAST(d AS INT) BETWEEN 1 AND 1",
        "CAST(d AS INT) IS NOT DISTINCT FROM 1",
        "CAST(e AS DECIMAL(12, 2)) = 1.23",
        "CASE WHEN CAST(e AS DECIMAL(12, 1)) >= 1.2 THEN TRUE END",
        "id IN (SELECT id FROM (SELECT id, d AS x FROM t) WHERE CAST(x AS INT) = 1)",
        "CAST(d + 0 AS INT) = 1",
    ],
)
def test_a_decimal_that_is_cast_to_fewer_digits_is_not_compared_by_datafusion(table, condition):
    with pytest.raises(NotSupported, match="CAST\\(d AS INT\\) \\+ 0 = 1"):
        of_sql(table, condition)


def test_what_is_advised_for_casts_of_decimals_is_right(table):
    assert of_sql(table, "CAST(d AS INT) + 0 = 1") == of_where(table, "CAST(d AS INT) = 1") == [0, 1, 6]
    assert of_sql(table, "round(e, 2) = 1.23") == of_where(table, "CAST(e AS DECIMAL(12, 2)) = 1.23") == [0, 2, 6]
    assert of_sql(table, "CAST(d AS INT) = id") == of_where(table, "CAST(d AS INT) = id") == [1]
    assert of_sql(table, "CAST('1' AS INT) = 1 AND id < 2") == [0, 1]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (r"s ~ '\\'", [0, 6]),
        (r"s ~ 'a\\b'", [0]),
        (r"s ~* 'A\\B'", [0]),
        (r"s !~ '\\'", [1, 2, 3, 5, 7]),
        (r"s ~ '[\\]'", [0, 6]),
        (r"s ~ '\x5c'", [0, 6]),
        (r"regexp_like(s, 'a\\b')", [0]),
        (r"s ~ 'a\tb'", [2]),
        (r"s ~ 'a\Wb'", [0, 2, 3]),
    ],
)
def test_a_pattern_finds_backslashes(table, condition, found):
    assert of_sql(table, condition) == found


def test_a_pattern_that_is_a_parameter_finds_backslashes(table):
    assert of_sql(table, "s ~ $p", p="a\\\\b") == [0]


@pytest.mark.parametrize(
    ("condition", "instead"),
    [
        (r"s = 'a\\b'", r"E'a"),
        (r"s = 'a\tb'", r"E'a"),
        (r"s LIKE 'a\\%'", r"E'a"),
        (r"s IN ('x', 'C:\new')", r"E'C"),
        (r"s = r'a\b'", r"r'\.\.\.' is not offered"),
        (r"concat(s, 'x') = 'x'", r"a \|\| b"),
        (r"substring(s, 0, 1) = 'a'", "counts from 1"),
        (r"substr(s, -1) = 'b'", "counts from 1"),
        (r"substring(s FROM 0 FOR 2) = 'b'", "counts from 1"),
    ],
)
def test_what_would_mean_something_else_is_refused(table, condition, instead):
    with pytest.raises(NotSupported, match=instead) as caught:
        of_sql(table, condition)
    assert isinstance(caught.value.details["position"], int)


def test_a_backslash_that_means_itself_in_both_is_taken(table):
    assert of_sql(table, "s = E'a\\\\b'") == of_where(table, "s = 'a\\\\b'") == [0]
    assert of_sql(table, "s = E'a\\tb'") == of_where(table, "s = 'a\\tb'") == [2]
    assert of_sql(table, "s = $s", s="a\\b") == [0]
    assert of_sql(table, "s = 'C:\\dir' OR s LIKE '%x' ESCAPE '\\'") == [7]


def test_a_time_with_fewer_digits_is_no_type_of_a_predicate(table):
    with pytest.raises(QueryInvalid, match="not offered"):
        of_where(table, "CAST('2026-01-01 00:00:00.5' AS TIMESTAMP(0)) = timestamp '2026-01-01 00:00:00'")
    assert of_where(table, "CAST('2026-01-01' AS TIMESTAMP(6)) = timestamp '2026-01-01 00:00:00' and id = 1") == [1]


def test_a_query_has_backslashes_of_its_own(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("m", pa.string())]), indexing={"m": "text"})
    table.append([{"m": "back\\slash"}, {"m": "what?"}])
    assert table.sql(r"SELECT m FROM t WHERE TEXTSEARCH(m, 'back\\slash')").num_rows == 1
    assert table.sql(r"SELECT m FROM t WHERE TEXTSEARCH(m, 'what\?') AND m ~ '\?$'")["m"].to_pylist() == ["what?"]


@pytest.mark.parametrize(
    "condition",
    [
        "b IS DISTINCT FROM 7 OR id = 2",
        "(id = 1) IS NOT DISTINCT FROM TRUE AND id > 0",
        "CASE WHEN b IS DISTINCT FROM 7 AND id = 1 THEN TRUE END",
        "NOT b IS /* AND */ DISTINCT FROM abs(b) OR id = 2",
    ],
)
def test_is_distinct_from_beside_and_or_or_stands_in_parentheses(table, condition):
    with pytest.raises(NotSupported, match="in parentheses"):
        of_sql(table, condition)


@pytest.mark.parametrize(
    "condition",
    [
        "(b IS DISTINCT FROM 7) OR id = 2",
        "id > 0 AND b IS DISTINCT FROM 7",
        "id = 1 OR (b IS NOT DISTINCT FROM 7) AND id > 1",
        "CASE WHEN b IS DISTINCT FROM 7 THEN id > 1 OR id = 0 ELSE id = 2 AND b = 7 END",
        "b <=> 7 OR id = 1",
    ],
)
def test_is_distinct_from_by_itself_means_one_thing(table, condition):
    assert of_sql(table, condition) == of_where(table, condition)


def test_is_distinct_from_in_a_join_ends_with_its_clause(table):
    text = "SELECT count(*) AS n FROM t a JOIN t x ON a.id IS NOT DISTINCT FROM x.id WHERE a.id > 1 AND x.id < 5"
    assert table.sql(text)["n"].to_pylist() == [3]
