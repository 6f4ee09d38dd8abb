"""A branch is computed for the rows that reach it: CASE, IF, COALESCE, AND and OR against an evaluation row by row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indextables
from indextables.errors import QueryInvalid
from indextables.query.evaluate import evaluate
from indextables.query.parse import parse

SCHEMA = pa.schema([("n", pa.int64()), ("m", pa.int64()), ("s", pa.string())])
ROWS = pa.table({"n": [0, 2, 5, None], "m": [1, 0, None, 0], "s": ["x", "10", None, "7"]}, SCHEMA)
T, F, N = True, False, None

GUARDED = [
    ("case when n <> 0 then 10 / n > 3 end", [N, T, F, N]),
    ("case when n = 0 then false else 10 / n > 3 end", [F, T, F, N]),
    ("case n when 0 then false else 10 % n = 0 end", [F, T, T, N]),
    ("if(n = 0, false, 10 div n > 3)", [F, T, F, N]),
    ("if(n = 0, 1, 10 / n) > 3", [F, T, F, N]),
    ("case when s rlike '^[0-9]+$' then cast(s as int) > 8 end", [N, T, N, F]),
    ("case when n = 0 then true when 10 / n > 3 then m / m = 1 else false end", None),
    ("case when n = 0 then true when 10 / n < 3 then m / m = 1 else false end", [T, F, N, F]),
    ("coalesce(n > 1, m = 0, 10 / 0 > 1)", [F, T, T, T]),
    ("coalesce(n, 10 div m) > 1", None),
    ("coalesce(n > 1, 10 / 0 > 1)", None),
    ("nullif(n, 0) > 1 and 10 / nullif(n, 0) > 3", [N, T, F, N]),
    ("n = 0 or case when m = 0 then true else 10 / n > 3 end", [T, T, F, T]),
    ("case when false then 10 / 0 > 1 else true end", [T, T, T, T]),
    ("n / 0 is null or n is not null", None),
    ("n is not null or n / 0 is null", [T, T, T, T]),
    ("not (n = 0 or not (10 / n > 3))", [F, T, F, N]),
    ("not if(n = 0, true, 10 / n > 3)", [F, F, T, N]),
]


def outcome(text: str, rows: pa.Table) -> list[bool | None] | None:
    """One answer per row, or None where there is none for some row."""
    try:
        return evaluate(parse(text, SCHEMA), rows).to_pylist()
    except QueryInvalid:
        return None


@pytest.mark.parametrize(("text", "expected"), GUARDED, ids=[text for text, _ in GUARDED])
def test_a_branch_is_computed_for_the_rows_that_reach_it(text, expected):
    assert outcome(text, ROWS) == expected


@pytest.fixture(scope="module", params=[[], ["n"]], ids=["plain", "partitioned"])
def table(request, tmp_path_factory):
    table = indextables.create(str(tmp_path_factory.mktemp("guards")), SCHEMA, partition_by=request.param)
    table.append(ROWS)
    return table.refresh()


@pytest.mark.slow
@pytest.mark.parametrize(("text", "expected"), GUARDED, ids=[text for text, _ in GUARDED])
def test_counting_reading_and_searching_guard_branches(text, expected, table):
    hits = None if expected is None else expected.count(True)
    for answer in (
        lambda: table.count(where=text),
        lambda: len(table.to_arrow(where=text)),
        lambda: len(table.search("*", where=text)),
        lambda: table.count("*", where=text),
    ):
        if hits is None:
            with pytest.raises(QueryInvalid, match="cannot be computed"):
                answer()
        else:
            assert answer() == hits


class NoAnswer(Exception):
    """A row for which a value does not exist."""


Row = dict[str, Any]


def value_of(tree: tuple[Any, ...], row: Row) -> Any:
    """What SQL says about one row: lazily, left to right."""
    kind, *args = tree
    if kind == "column":
        return row[args[0]]
    if kind == "number":
        return args[0]
    if kind == "case":
        chosen = args[1] if value_of(args[0], row) is True else args[2]
        return value_of(chosen, row)
    if kind == "coalesce":
        first = value_of(args[0], row)
        return first if first is not None else value_of(args[1], row)
    if kind in ("and", "or"):
        left = value_of(args[0], row)
        if left is (kind == "or"):
            return left
        right = value_of(args[1], row)
        return right if right is (kind == "or") or left is not None else None
    if kind == "cast":
        if row["s"] is None:
            return None
        if not row["s"].isdigit():
            raise NoAnswer
        return int(row["s"])
    if kind == "isnull":
        return value_of(args[0], row) is None
    left, right = value_of(args[0], row), value_of(args[1], row)
    if left is None or right is None:
        return None
    if kind == "%" and right == 0:
        raise NoAnswer
    return {"%": lambda: left % right, "=": lambda: left == right, "<": lambda: left < right}[kind]()


def text_of(tree: tuple[Any, ...]) -> str:
    kind, *args = tree
    if kind in ("column", "number"):
        return str(args[0])
    parts = [text_of(arg) for arg in args]
    if kind == "case":
        return f"case when {parts[0]} then {parts[1]} else {parts[2]} end"
    if kind == "coalesce":
        return f"coalesce({', '.join(parts)})"
    if kind == "cast":
        return "cast(s as bigint)"
    return f"({parts[0]} is null)" if kind == "isnull" else f"({f' {kind} '.join(parts)})"


LEAVES = st.sampled_from([("column", "n"), ("column", "m"), ("number", 0), ("number", 3), ("cast",)])


def _numbers(depth: int) -> st.SearchStrategy[Any]:
    if not depth:
        return LEAVES
    less = _numbers(depth - 1)
    return st.one_of(
        LEAVES,
        st.tuples(st.just("%"), less, less),
        st.tuples(st.just("coalesce"), less, less),
        st.tuples(st.just("case"), _conditions(depth - 1), less, less),
    )


def _conditions(depth: int) -> st.SearchStrategy[Any]:
    numbers = _numbers(max(depth - 1, 0))
    # Two constants are compared before any row is seen, so that `10 % n = 0 and 0 = 3` has an answer for every row.
    compared = st.tuples(st.sampled_from(["=", "<"]), numbers, numbers).filter(
        lambda tree: not tree[1][0] == tree[2][0] == "number"
    )
    plain = st.one_of(compared, st.tuples(st.just("isnull"), numbers))
    if not depth:
        return plain
    less = _conditions(depth - 1)
    return st.one_of(
        plain,
        st.tuples(st.sampled_from(["and", "or"]), less, less),
        st.tuples(st.just("coalesce"), less, less),
        st.tuples(st.just("case"), less, less, less),
    )


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    _conditions(3),
    st.lists(
        st.tuples(
            st.sampled_from([0, 2, 5, None]), st.sampled_from([0, 1, None]), st.sampled_from(["x", "10", "7", None])
        ),
        max_size=6,
    ),
)
def test_many_rows_at_once_answer_as_each_row_alone(tree, rows):
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    try:
        expected = [value_of(tree, row) for row in rows]
    except NoAnswer:
        expected = None
    text = text_of(tree)
    try:
        found = evaluate(parse(text, SCHEMA), pa.Table.from_pylist(rows, SCHEMA)).to_pylist()
    except QueryInvalid:
        found = None
    assert found == expected, text
