"""`where`, `sql` and `search` give the same rows, and the rows that plain Python gives, also for odd values."""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from tests.table.odd_values import POOLS, SCHEMA, Case, cases, compared, field_compared, made_rows

import indextables
from indextables.errors import NotSupported, QueryInvalid

NAN, INF = math.nan, math.inf
FLOATS = [0.0, -0.0, 1.0, -1.5, NAN, INF, -INF, 5e-324, None, 1e308]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def above_all(value: float) -> tuple[bool, float]:
    """A key by which NaN is equal to itself and above every number."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> Any:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("g", pa.float32()), ("s", pa.string())])
    made = indextables.create(tmp_path_factory.mktemp("agree") / "t", schema)
    # Some files without NaN, so that bounds leave files out.
    for part in (slice(0, 4), slice(4, 7), slice(7, 10)):
        rows = list(enumerate(FLOATS))[part]
        made.append([{"id": i, "f": f, "g": {5e-324: 0.5, 1e308: 1e38}.get(f, f), "s": f"row {i}\n"} for i, f in rows])
    return made


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("bound", ["0", "-0.0", "1", "nan", "inf", "-inf", "1e308", "-1.5"])
def test_nan_is_above_every_number_in_where_sql_and_search(floats: Any, op: str, bound: str) -> None:
    wanted = [i for i, f in enumerate(FLOATS) if f is not None and OPERATORS[op](above_all(f), above_all(float(bound)))]
    literal = f"cast('{bound}' as double)"
    assert sorted(floats.to_arrow(where=f"f {op} {literal}")["id"].to_pylist()) == wanted
    assert sorted(floats.search(f"f:{op}{bound}")["id"].to_pylist()) == wanted
    if bound != "-0.0":
        sql = f"SELECT id FROM t WHERE f {op} arrow_cast('{bound}', 'Float64')"
        assert sorted(floats.sql(sql)["id"].to_pylist()) == wanted


def test_ranges_of_a_search_take_nan_for_the_greatest_number(floats: Any) -> None:
    def found(query: str) -> list[int]:
        return sorted(floats.search(query)["id"].to_pylist())

    assert found("f:[1 TO *]") == found("f:[1 TO nan]") == [2, 4, 5, 9]
    assert found("f:[1 TO inf]") == found("f:[1 TO nan}") == [2, 5, 9]
    assert found("f:[nan TO *]") == found("f:nan") == found("f:IN [nan]") == [4]
    assert found("f:{nan TO *]") == []
    assert found("g:>1") == [4, 5, 9]


def test_rlike_is_java_s_through_the_table(floats: Any) -> None:
    assert floats.count(where="s RLIKE 'row [0-3]$'") == 4
    assert floats.count(where=r"s RLIKE r'row \d\z'") == 0
    assert floats.count(where="s NOT RLIKE '[[:alpha:]]'") == 10
    with pytest.raises(QueryInvalid, match=r"write 'row \\\\d' or r'row \\d'"):
        floats.count(where=r"s RLIKE 'row \d'")


@pytest.mark.parametrize(
    "statement",
    [
        "FROM t",
        "from t where id = 1",
        "SELECT * FROM (FROM t)",
        "WITH a AS (FROM t) SELECT * FROM a",
        "SELECT id FROM t UNION ALL FROM t",
        "(FROM t)",
        "FROM t UNION SELECT id FROM t",
        "SELECT id FROM t WHERE s SIMILAR TO 'row%'",
        "SELECT id FROM t WHERE s NOT similar /* or not */ TO 'row%'",
        "SELECT id FROM t WHERE s RLIKE 'row$'",
        "SELECT id FROM t WHERE s NOT REGEXP 'row$'",
        "SELECT id FROM t WHERE id < 9999999999999999.9999",
        "SELECT id FROM t WHERE id < 18446744073709551617",
    ],
)
def test_statements_that_would_be_answered_wrong_are_refused(floats: Any, statement: str) -> None:
    with pytest.raises(NotSupported, match="write") as caught:
        floats.sql(statement)
    assert isinstance(caught.value.position, int)


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("FROM t SELECT id", 10),
        ("SELECT id FROM t WHERE s <> 'SIMILAR TO' -- FROM t", 10),
        ("SELECT count(*) AS n, trim(BOTH ' ' FROM ' x ') AS x FROM t", 1),
        ("SELECT DISTINCT (1) AS x FROM t UNION ALL SELECT (id) FROM t", 11),
        ("SELECT * EXCEPT (s) FROM t", 10),
        ("SELECT id FROM t WHERE f < 0.30000000000000004 OR f > 1.7976931348623157", 8),
        ("SELECT id FROM t WHERE id < 9223372036854775807 AND s <> '12345678901234567890.5'", 10),
        ("SELECT id FROM t WHERE id < CAST('9999999999999999.9999' AS DECIMAL(38, 4))", 10),
        ("SELECT id FROM t WHERE (s IS DISTINCT FROM 'x')", 10),
        ("SELECT extract(year FROM DATE '2020-01-01') AS y", 1),
        ('SELECT id AS "similar to" FROM t', 10),
        ("SELECT substring(s FROM 1 FOR 2) AS x FROM t WHERE s <> 'RLIKE ''x'''", 10),
        ("SELECT id FROM t WHERE s LIKE 'row 1%'", 1),
        ("WITH a AS (SELECT id FROM t) FROM a SELECT id", 10),
    ],
)
def test_statements_that_only_look_like_those_are_answered(floats: Any, statement: str, rows: int) -> None:
    assert floats.sql(statement).num_rows == rows


ROWS = made_rows()


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Eight files, so that bounds leave some out."""
    made = indextables.create(tmp_path_factory.mktemp("odd") / "t", SCHEMA)
    for start in range(0, 64, 8):
        made.append(pa.Table.from_pylist(ROWS[start : start + 8], schema=SCHEMA))
    return made


@pytest.mark.slow
@given(case=cases())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_where_and_sql_give_the_rows_that_python_gives(odd: Any, case: Case) -> None:
    wanted = [row["id"] for row in ROWS if case.holds(row) is True]
    assert sorted(odd.to_arrow(columns=["id"], where=case.where)["id"].to_pylist()) == wanted, case.where
    assert odd.count(where=case.where) == len(wanted), case.where
    if case.sql is not None:
        # A zero with a sign is refused there: it is written 0.0.
        text = re.sub(r"(?<![\d.])-0\.0(?!\d)", "0.0", case.sql)
        assert sorted(odd.sql(f"SELECT id FROM t WHERE {text}")["id"].to_pylist()) == wanted, text


def searched(value: Any) -> str:
    """A value as the query language spells it."""
    if isinstance(value, dt.datetime):
        return f"{value.year:04d}{value.strftime('-%m-%dT%H:%M:%S.%f')}Z"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


@pytest.mark.slow
@pytest.mark.parametrize("column", [*POOLS, "st.y"])
def test_a_search_by_value_gives_the_rows_that_python_gives(odd: Any, column: str) -> None:
    wrong = {}
    for op in ("=", "<", "<=", ">", ">="):
        for value in POOLS["f" if column == "st.y" else column]:
            inner = column.partition(".")[2]
            case = field_compared(inner, op, value) if inner else compared(column, op, value)
            query = f"{column}:{op.replace('=', '') if op == '=' else op}{searched(value)}"
            found = sorted(odd.search(query, limit=100)["id"].to_pylist())
            if found != [row["id"] for row in ROWS if case.holds(row) is True]:
                wrong[query[:60]] = found
    assert wrong == {}


@pytest.mark.parametrize("pattern", ["a.b", "a.?", r"a\\sb", "[^a]*", ".", ".*", "a[%_]b", "(é|É|.)", r"\\w*"])
def test_a_regular_expression_of_a_search_means_what_rlike_means(odd: Any, pattern: str) -> None:
    typed = pattern.replace("\\\\", "\\")
    found = sorted(odd.search(f"s:/{typed}/", limit=100)["id"].to_pylist())
    assert found == sorted(odd.to_arrow(where=f"s RLIKE r'^(?:{typed})\\z'")["id"].to_pylist())


def test_a_search_for_any_value_finds_what_is_not_null_also_where_lists_and_maps_are_empty(tmp_path: Any) -> None:
    inner = pa.struct([("s", pa.string())])
    kinds = {
        "s": pa.string(),
        "l": pa.list_(pa.string()),
        "n": pa.list_(pa.int64()),
        "m": pa.map_(pa.string(), pa.string()),
    }
    kinds |= {"st": inner, "ls": pa.list_(inner)}
    schema = pa.schema([("k", pa.int64()), *kinds.items()])
    rows = [
        {"k": 0},
        {"k": 1, "s": "", "l": [], "n": [], "m": [], "st": {"s": None}, "ls": []},
        {"k": 2, "s": "x", "l": ["x"], "n": [1], "m": [("a", "x")], "st": {"s": "x y"}, "ls": [{"s": "x"}]},
        {"k": 3, "s": "y", "l": [None], "n": [None], "m": [("a", None)], "st": {"s": "y"}, "ls": [None]},
    ]
    for indexing in ({}, {"l": {"fast": True}, "s": {"fast": True}}):
        table = indextables.create(tmp_path / f"t{len(indexing)}", schema, indexing=indexing)
        table.append(pa.Table.from_pylist(rows, schema=schema))
        for name in kinds:
            there = table.to_arrow(where=f"{name} is not null")["k"].to_pylist()
            assert sorted(table.search(f"{name}:*")["k"].to_pylist()) == there == [1, 2, 3], name
            assert table.search(f"* AND NOT {name}:*")["k"].to_pylist() == [0], name
        assert table.search("m.a:*")["k"].to_pylist() == [2]
        # Strings inside of nested columns are whole values.
        assert table.search('st.s:"x y"')["k"].to_pylist() == [2]
        assert table.search('st.s:"x-y" OR st.s:x')["k"].to_pylist() == []
