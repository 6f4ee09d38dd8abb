"""Rows of odd values, predicates about them, and what plain Python says of both."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

Row = dict[str, Any]
Truth = bool | None


class Case(NamedTuple):
    """One predicate: for `where`, for `sql` (None if that dialect cannot say it), and its meaning."""

    where: str
    sql: str | None
    holds: Callable[[Row], Truth]


UTC = dt.UTC
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.decimal128(20, 4)),
        ("b", pa.bool_()),
        ("st", pa.struct([("x", pa.string()), ("y", pa.float64())])),
    ]
)
LONG = "lang" * 500
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "abc",
    "ab\n",
    "a%b",
    "a_b",
    "a\\b",
    "'",
    '"',
    "é",
    "É",
    "e\u0301",
    "ß",
    "SS",
    "\u0130",
    "😀",
]
TEXTS += [
    "\uffff",
    "\U00010000",
    "\x00",
    "a\x00b",
    LONG,
    LONG + "x",
    "null",
    "NaN",
    "0",
    "-0.0",
    "\u03a3",
    "\ud7ff",
    "\ue000",
]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 2.0**53, 2.0**53 + 2]
INTEGERS = [0, -1, 1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]
DATES = [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
TIMES = [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)]
TIMES += [dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)]
TIMES += [dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)]
DECIMALS = [
    Decimal(text) for text in ("0", "-0.0001", "0.0001", "9999999999999999.9999", "-9999999999999999.9999", "1.5")
]
POOLS: dict[str, list[Any]] = {
    "i": INTEGERS,
    "f": FLOATS,
    "g": [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 2.0**24, 0.5],
    "s": TEXTS,
    "d": DATES,
    "t": TIMES,
    "n": DECIMALS,
}


def made_rows() -> list[Row]:
    """Every value of every pool, nulls among them; sorted so that files have bounds of their own."""
    rows = []
    for number in range(64):

        def pick(pool: list[Any], step: int, number: int = number) -> Any:
            place = number * step % (len(pool) + 1)
            return None if place == len(pool) else pool[place]

        row = {name: pick(pool, step) for step, (name, pool) in zip((1, 1, 3, 1, 2, 1, 5), POOLS.items(), strict=True)}
        inner = {"x": pick(TEXTS, 7), "y": pick(FLOATS, 5)}
        rows.append({"id": number, **row, "b": [True, False, None][number % 3], "st": inner if number % 4 else None})
    return rows


def quoted(text: str, *, spark: bool) -> str:
    """A text as a literal of `where` or of `sql`."""
    if spark:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if "\\" in text:
        # A plain text with a backslash is refused: it means another one in `where`.
        return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"


def literal(value: Any, *, spark: bool) -> str:
    """A value of any of the pools."""
    if isinstance(value, str):
        return quoted(value, spark=spark)
    if isinstance(value, float):
        return f"cast('{value!r}' as double)"
    if isinstance(value, Decimal) and not spark and len(value.as_tuple().digits) > 15:
        return f"CAST('{value}' AS DECIMAL(20, 4))"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.strftime('%Y').zfill(4)}{value.strftime('-%m-%dT%H:%M:%S.%f')}Z'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return str(value)


def key(value: Any) -> Any:
    """What values compare by: texts by their bytes, NaN above every number."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def sayable(value: Any) -> bool:
    """False for times that a literal of `sql`, which counts nanoseconds, refuses."""
    return not isinstance(value, dt.datetime) or 1700 < value.year < 2200


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def compared(column: str, op: str, value: Any) -> Case:
    """A column against a constant."""

    def holds(row: Row) -> Truth:
        found = row[column]
        return None if found is None else COMPARE[op](key(found), key(value))

    where, sql = (f"{column} {op} {literal(value, spark=spark)}" for spark in (True, False))
    return Case(where, sql if sayable(value) else None, holds)


def field_compared(field: str, op: str, value: Any) -> Case:
    """A field of a struct against a constant; `sql` says it in brackets."""

    def holds(row: Row) -> Truth:
        found = None if row["st"] is None else row["st"][field]
        return None if found is None else COMPARE[op](key(found), key(value))

    return Case(
        f"st.{field} {op} {literal(value, spark=True)}", f"st['{field}'] {op} {literal(value, spark=False)}", holds
    )


def listed(column: str, values: list[Any], *, null: bool, negated: bool) -> Case:
    """`[NOT] IN (...)`, with a null in the list or without."""

    def holds(row: Row) -> Truth:
        found = row[column]
        if found is None:
            return None
        if any(key(found) == key(value) for value in values):
            return not negated
        return None if null else negated

    word = "NOT IN" if negated else "IN"
    texts = [
        f"{column} {word} ({', '.join([*(literal(v, spark=spark) for v in values), *(['NULL'] if null else [])])})"
        for spark in (True, False)
    ]
    return Case(texts[0], texts[1] if all(map(sayable, values)) else None, holds)


def is_null(column: str, *, negated: bool) -> Case:
    """`IS [NOT] NULL`."""
    text = f"{column} IS {'NOT ' if negated else ''}NULL"
    return Case(text, text, lambda row: (row[column] is None) != negated)


def like(pattern: str, *, negated: bool) -> Case:
    """`[NOT] LIKE`; the pattern has no escapes."""
    regex = "".join({"%": ".*", "_": "."}.get(char, re.escape(char)) for char in pattern)

    def holds(row: Row) -> Truth:
        found = row["s"]
        return None if found is None else (re.fullmatch(regex, found, re.DOTALL) is not None) != negated

    word = "NOT LIKE" if negated else "LIKE"
    return Case(*(f"s {word} {quoted(pattern, spark=spark)}" for spark in (True, False)), holds)


def function(name: str, value: str | int) -> Case:
    """`lower`, `upper` or `length` of the text against a constant."""

    def holds(row: Row) -> Truth:
        found = row["s"]
        return None if found is None else {"lower": str.lower, "upper": str.upper, "length": len}[name](found) == value

    where, sql = (f"{name}(s) = {literal(value, spark=spark)}" for spark in (True, False))
    return Case(where, sql if name == "length" else None, holds)


def joined(word: str, left: Case, right: Case) -> Case:
    """AND or OR in three-valued logic."""
    decided = word == "OR"

    def holds(row: Row) -> Truth:
        both = (left.holds(row), right.holds(row))
        return decided if decided in both else None if None in both else not decided

    sql = None if left.sql is None or right.sql is None else f"({left.sql}) {word} ({right.sql})"
    return Case(f"({left.where}) {word} ({right.where})", sql, holds)


def opposite(case: Case) -> Case:
    """NOT; unknown stays unknown."""

    def holds(row: Row) -> Truth:
        found = case.holds(row)
        return None if found is None else not found

    return Case(f"NOT ({case.where})", None if case.sql is None else f"NOT ({case.sql})", holds)


def cases() -> st.SearchStrategy[Case]:
    """Predicates of a few terms."""
    column = st.sampled_from(list(POOLS))
    signs = st.sampled_from(list(COMPARE))

    def of_pool(name: str) -> st.SearchStrategy[Any]:
        return st.sampled_from(POOLS[name])

    flags = st.booleans()
    leaves = st.one_of(
        column.flatmap(lambda name: st.builds(compared, st.just(name), signs, of_pool(name))),
        st.builds(field_compared, st.just("x"), signs, of_pool("s")),
        st.builds(field_compared, st.just("y"), signs, of_pool("f")),
        column.flatmap(
            lambda name: st.builds(
                listed, st.just(name), st.lists(of_pool(name), min_size=1, max_size=4), null=flags, negated=flags
            )
        ),
        st.builds(is_null, st.sampled_from([*POOLS, "b", "st"]), negated=flags),
        st.builds(like, st.text("aAbé😀%_ \n", max_size=5), negated=flags),
        st.builds(function, st.sampled_from(["lower", "upper"]), of_pool("s")),
        st.builds(function, st.just("length"), st.integers(0, 4)),
        st.just(Case("b", "b", lambda row: row["b"])),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(joined, st.sampled_from(["AND", "OR"]), inner, inner), st.builds(opposite, inner)
        ),
        max_leaves=5,
    )
