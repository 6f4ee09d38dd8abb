"""Statements over rows with many nulls: `sql` gives the rows that DuckDB gives, or refuses by name."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indextables as it
from indextables.errors import NotSupported, QueryInvalid

NAN = float("nan")
ROWS = pa.table(
    {
        "k": pa.array([0, 1, 2, 3, 4, 5, 6], pa.int64()),
        "i": pa.array([1, 2, 3, None, 2, 2, None], pa.int64()),
        "j": pa.array([2, None, 3, 1, None, 2, 4], pa.int32()),
        "s": pa.array(["a", "b", "", None, "c", "a", "b"]),
        "f": pa.array([0.0, -0.0, None, NAN, 1.5, -1.0, 2.0], pa.float64()),
        "b": pa.array([True, False, None, True, None, False, True]),
    }
)
NOT_OFFERED = (NotSupported, QueryInvalid)
"""A subquery that DataFusion cannot plan at all is invalid to it."""

VALUES = {
    "i": ["1", "2", "3", "4", "7", "8", "null"],
    "j": ["1", "2", "3", "4", "9", "null"],
    "s": ["'a'", "'b'", "''", "'c'", "'it''s'", "null"],
    "f": ["0.0", "-0.0", "1.5", "'NaN'::double", "2.0", "9.0", "null"],
}
COLUMNS = st.sampled_from(list(VALUES))
COMPARISONS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


@st.composite
def listed(draw, row, columns=COLUMNS):
    column = draw(columns)
    own = [f"{row}.{other}" for other in ("i", "j")] if column in ("i", "j") else [f"{row}.{column}"]
    items = draw(st.lists(st.sampled_from(VALUES[column] * 3 + own), min_size=1, max_size=6))
    return f"{row}.{column} {draw(st.sampled_from(['in', 'not in']))} ({', '.join(items)})"


@st.composite
def compared(draw, row):
    column = draw(COLUMNS)
    return f"{row}.{column} {draw(COMPARISONS)} {draw(st.sampled_from(VALUES[column][:-1]))}"


@st.composite
def equal_to_any(draw, row, columns=COLUMNS):
    column = draw(columns)
    values = draw(st.lists(st.sampled_from(VALUES[column]), min_size=2, max_size=3))
    return "(" + " or ".join(f"{row}.{column} = {value}" for value in values) + ")"


@st.composite
def asked(draw, row):
    """A subquery in a condition; `row` is the name of the outer row."""
    column, other = draw(st.sampled_from([("i", "j"), ("k", "i"), ("s", "s"), ("f", "f")]))
    about = draw(st.sampled_from(["y.k > 2", f"y.{other} is not null", f"y.k <> {row}.k", f"y.i = {row}.i", "true"]))
    query = f"select y.{other} from t y where {about}"
    form = draw(st.sampled_from(["in", "not in", "exists", "not exists", "any", "all", "max", "count"]))
    if form in ("in", "not in"):
        return f"{row}.{column} {form} ({query})"
    if form in ("any", "all"):
        return f"{row}.{column} {draw(COMPARISONS)} {form} ({query})"
    if form == "max":
        return f"{row}.{column} >= (select max(y.{other}) from t y where {about})"
    if form == "count":
        return f"exists (select count(*) from t y where {about})"
    return f"{form} ({query} and y.{other} = {row}.{column})"


def nested(leaf, leaves):
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda parts: f"({' '.join(parts)})"),
            inner.map(lambda condition: f"(not {condition})"),
            inner.map(lambda condition: f"(({condition}) is null)"),
            inner.map(lambda condition: f"(case when {condition} then true else false end)"),
        ),
        max_leaves=leaves,
    )


def conditions(row):
    leaf = st.one_of(
        listed(row), listed(row), compared(row), equal_to_any(row), asked(row), st.just(f"{row}.b"),
        COLUMNS.map(lambda column: f"{row}.{column} is null"),
    )  # fmt: skip
    return nested(leaf, 4)


@st.composite
def lists_of_one_column(draw):
    """Two or three lists over one column, which an optimizer likes to merge."""
    one = draw(COLUMNS.map(st.just))
    leaf = st.one_of(listed("x", one), listed("x", one), equal_to_any("x", one))
    both = f"{draw(leaf)} {draw(st.sampled_from(['and', 'or']))} {draw(nested(leaf, 2))}"
    around = draw(st.sampled_from(["{}", "not ({})", "({}) is null", "k > 2 or not ({})"]))
    return around.format(both)


@st.composite
def statements(draw):
    first, second = draw(conditions("x")), draw(conditions("x"))
    column = draw(COLUMNS)
    word = draw(st.sampled_from(["union", "union all", "intersect", "except", "intersect all", "except all"]))
    side = draw(st.sampled_from(["inner", "left", "right", "full"]))
    forms = [
        f"select x.k from t x where {first}",
        f"select x.k from t x where {first} and {second}",
        f"select x.k from (select * from t x where {first}) x where {second}",
        f"select x.k, y.k from t x {side} join t y on x.i = y.j and x.k <> y.k where {first}",
        f"select x.k, y.k from t x {side} join t y on x.{column} = y.{column} and {second}",
        f"select x.{column}, count(*), max(x.k) from t x where {first} group by x.{column}",
        f"select x.{column} from t x where {first} {word} select x.{column} from t x where {second}",
        f"select count(distinct x.{column}), count(distinct x.k), count(x.i) from t x where {first}",
        f"select x.k, rank() over (partition by x.{column} order by x.j) from t x where {first}",
    ]
    return draw(st.sampled_from(forms))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = it.create(tmp_path_factory.mktemp("duck") / "t", ROWS.schema)
    made.append(ROWS.slice(0, 3))
    made.append(ROWS.slice(3))
    return made


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        connection.register("t", ROWS)
        yield connection


def rows_of(found):
    """Without order; 1 and 1.0 are one, and so are the zeros."""
    return sorted(repr(tuple(v + 0.0 if isinstance(v, float) else v for v in row)) for row in found)


def answer(table, statement):
    return rows_of(zip(*(column.to_pylist() for column in table.sql(statement).columns), strict=True))


def check(table, duck, statement):
    """True if the statement was answered."""
    try:
        found = answer(table, statement)
    except NOT_OFFERED:
        return False
    assert found == rows_of(duck.execute(statement).fetchall())
    return True


WRONG_IN_DATAFUSION = [
    "select k from t where i = any (select i from t where k = 0)",
    "select k from t where i > all (select i from t where k < 2)",
    "select k from t where not i <> some (select i from t where k < 2)",
    "select k from t where i not in (select j from t where k > 1) or k = 0",
    "select k from t where not (k = 1 or i in (select j from t))",
    "select k from t where (i in (select j from t)) is null",
    "select k from t where coalesce(i in (select j from t), true)",
    "select k from t where case when i in (select j from t) then k > 1 else k < 4 end",
    "select k from t where 7 not in (select j from t)",
    "select k from t where i not in (select y.j from t y where y.k > t.k)",
    "select k from t where exists (select count(*) from t y where y.j = t.i)",
    "select k from t where 0 in (select count(*) from t y where y.j = t.i)",
    "select k from t where exists (select 1 from t y where y.j = t.i offset 1)",
    "select k from t where exists (select 1 from t y join t z on y.k = z.i and z.k = t.k)",
    "select k, (select max(y.k) from t y left join t z on y.k = z.i and z.k = t.k) from t",
    "select k, (select max(z) from (select row_number() over (order by y.k) z from t y where y.j = t.i)) from t",
    "select k, (select max(z) from (select count(*) z from t y where y.j = t.i)) from t",
    "select k from t where exists (select y.i from t y where y.j = t.i group by rollup(y.i))",
    "select k, i in (select j from t) from t",
    "select k, exists (select 1 from t y where y.j = t.i) from t",
    "select i from t intersect all select i from t where k > 2",
    "select i from t except all select i from t where k = 1",
    "select k from t tablesample (50 percent)",
    "select k from t sample (50 percent)",
    "select k from t as x tablesample bernoulli (50)",
    "select k from t prewhere k > 2",
    "select k from t start with k = 0 connect by prior k = i",
    "select k from t partition (p0)",
]


@pytest.mark.slow
@pytest.mark.parametrize("statement", WRONG_IN_DATAFUSION)
def test_what_datafusion_answers_wrong_is_refused_with_what_to_write(table, statement):
    with pytest.raises(NotSupported, match=r"not offered|write"):
        table.sql(statement)


ANSWERED = [
    "select k from t where i in (select j from t where k > 1) or k = 0",
    "select k from t where i not in (select j from t where j is not null) and k <> 2",
    "select k from t where k > 0 and not i in (select j from t where k > 1)",
    "select k from t where (k > 0 and (i in (select j from t)))",
    "select i, max(k) from t group by i having max(k) not in (select j from t where j is not null)",
    "select x.k, y.k from t x join t y on x.i = y.j and y.k in (select i from t)",
    "select k from t where k = 9 or not exists (select 1 from t y where y.j = t.i or y.j is null or t.i is null)",
    "select k, (select count(*) from t y where y.j = t.i) from t",
    "select k from t where k in (select distinct y.k from t y where y.j = t.i)",
    "select k from t where i = any (array[1, null])",
    "select i from t intersect select j from t",
    "select i from t except select j from t",
    "select k from t where s = 'tablesample (1) intersect all = any (select 1) prewhere'",
    "select k from t where i not in (1, null) and i in (1, 2, 3)",
    "select k from t where i not in (1, null) or i not in (2)",
    "select k from t where not (i in (1, 2) and i in (3, 4))",
    "select k from t where (i in (1) and i in (2)) is null",
    "select k from t where ((j = 1 or j = 2) and (3 = j or j = 4)) is null",
    "select k from t where i in (k + 1) and i in (j)",
    "select k from t where i not in (k + 1) or i not in (j)",
    "select k from t where not (s ~ '^(a|b)$' and s ~ '^(c|d)$')",
    "select k from t where not (i = any (array[1, 2]) and i = any (array[3, 4]))",
    "select x.k from (select k, i from t where i not in (1, 7, 8, 9, null)) x where x.i in (1, 2, 3, 7, 8, 9)",
    "select x.k from t x join t y on x.i = y.i where x.i in (1, 2, 7, 8, 9) and y.i not in (1, 7, 8, 9, 10, null)",
    "select * from (select i in (1, 2) a, i as z, k from t) where not (a and z in (3, 4))",
    "select i in (1, 2) and i in (3, 4), k from t",
    "select s from t where s in ('\"', ') OR t.s IN ([') and not (s in ('a') and s in ('b'))",
]


@pytest.mark.parametrize("statement", ANSWERED)
def test_what_can_be_right_is_answered(table, duck, statement):
    other = statement.replace("s ~ ", "s similar to ").replace("'^(", "'(").replace(")$'", ")'")
    assert answer(table, statement) == rows_of(duck.execute(other).fetchall())


@pytest.mark.parametrize("called", ["coalesce(i, 1) > 0", "nvl(i, 1) > 0", "now() > timestamp '2000-01-01'"])
def test_a_function_stands_beside_lists_or_is_refused_by_name(table, called):
    for lists in ("i in (1, 2) and i not in (2, 5)", "i in (1, 2) or s in ('a', 'b')", "i = 1 or i = 2 or i = 3"):
        assert table.sql(f"select k from t where ({lists}) and {called}").num_rows > 0
    with pytest.raises(NotSupported, match="beside lists of values"):
        table.sql(f"select k from t where i not in (1, null) or i not in (2) and {called}")


@pytest.mark.slow
@settings(max_examples=100)
@given(statements())
def test_a_statement_gives_the_rows_of_another_engine_or_is_refused(table, duck, statement):
    check(table, duck, statement)


@pytest.mark.slow
@settings(max_examples=100)
@given(lists_of_one_column())
def test_lists_over_one_column_are_answered_right(table, duck, condition):
    assert check(table, duck, f"select x.k from t x where {condition}")


@pytest.mark.slow
@settings(max_examples=60)
@given(nested(asked("x"), 2))
def test_a_subquery_in_a_condition_is_answered_right_or_refused(table, duck, condition):
    check(table, duck, f"select x.k from t x where {condition}")


@pytest.mark.soak
@settings(max_examples=20_000)
@given(statements())
def test_many_statements_give_the_rows_of_another_engine_or_are_refused(table, duck, statement):
    check(table, duck, statement)
