"""Which statements need no plan of Spark's over our rows: they show rows of one search, or count and group them. Pure.

What such a statement answers is known when its rows are, and a few rows are sooner answered here than given to Spark
as a view, planned and run. Only what gives the same values, names and types as Spark is taken; all else is Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.sql.command import Found, first_word
from indextables.sql.spark.filters import conditions_of, row_limit
from indextables.sql.textsearch import counts_rows

__all__ = ["NUMBERS", "Answer", "Shown", "answer_of", "grouped_rows"]

Kind: TypeAlias = Literal["value", "rows", "count", "sum", "min", "max"]

NUMBERS: frozenset[Kind] = frozenset({"rows", "count", "sum"})
"""What is a whole number of 64 bits, whatever the column is."""

_MOST_SUM = 2**63
_MOST_LIMIT = 2**31


class Shown(msgspec.Struct, frozen=True):
    """A column of the answer: what of which column of the table it shows; `rows` counts rows and has none."""

    name: str
    kind: Kind
    column: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What a statement answers about the rows that its searches and filters find.

    `groups` are the columns by which rows are grouped, none for one group of all; None where rows are not grouped. Then
    any `limit` rows do.
    """

    shown: tuple[Shown, ...]
    groups: tuple[str, ...] | None = None
    limit: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that are read, each once."""
        return tuple(dict.fromkeys([*(self.groups or ()), *(one.column for one in self.shown if one.column)]))


def answer_of(found: Found, schema: pa.Schema, conditions: int) -> Answer | None:
    """What a statement answers that is one SELECT from one table with so many conditions, all of them known.

    `schema` is that of the table. None for every other statement, and for one whose answer may not be Spark's.
    """
    from sqlglot import exp

    select, reference = found.tree, found.references[0]
    if first_word(found.text) != "SELECT" or not isinstance(select, exp.Select) or len(found.references) > 1:
        return None
    node = found.nodes[0]
    is_from = isinstance(node.parent, exp.From) and node.parent.parent is select
    if not is_from or reference.role != "read" or reference.shape != "plain" or node.args.get("joins"):
        return None
    known = {"expressions", "from_", "from", "where", "limit", "group"}
    if any(value for key, value in select.args.items() if key not in known):
        return None
    if len(conditions_of(select)) != conditions:
        return None
    has_limit, limit, columns = bool(select.args.get("limit")), row_limit(select), schema.names
    # Without a row to look for, nobody would look at the query of a search; and Spark refuses what is no INT.
    if has_limit and not 0 < (limit or 0) < _MOST_LIMIT:
        return None
    alias = node.alias_or_name if node.alias or not reference.is_path else ""
    shown = _shown(select.expressions, columns, alias)
    groups = _groups(select.args.get("group"), columns, alias)
    if shown is None or groups is None or len({one.name.lower() for one in shown}) < len(shown):
        return None
    is_grouped = bool(groups) or any(one.kind != "value" for one in shown)
    if not is_grouped:
        return Answer(shown, limit=limit)
    values = {one.column for one in shown if one.kind == "value"}
    is_same = all(_is_key(schema.field(name).type) for name in groups) and all(_is_exact(one, schema) for one in shown)
    return Answer(shown, groups) if is_same and values <= set(groups) and not has_limit else None


def _shown(items: Sequence[Any], columns: Sequence[str], alias: str) -> tuple[Shown, ...] | None:
    """What the items of a SELECT list show; None if one of them is anything else."""
    from sqlglot import exp

    if len(items) == 1 and isinstance(items[0], exp.Star) and not any(items[0].args.values()):
        return tuple(Shown(name, "value", name) for name in columns)
    found = []
    for item in items:
        inner = item.this if isinstance(item, exp.Alias) else item
        one = _item(inner, columns, alias)
        if one is None:
            return None
        if isinstance(item, exp.Alias):
            if not _is_plain(item.alias):
                return None
            one = msgspec.structs.replace(one, name=item.alias)
        found.append(one)
    return tuple(found)


def _item(node: Any, columns: Sequence[str], alias: str) -> Shown | None:
    from sqlglot import exp

    kinds: dict[type[Any], Kind] = {exp.Sum: "sum", exp.Min: "min", exp.Max: "max", exp.Count: "count"}
    name = _column(node, columns, alias)
    if name is not None:
        return Shown(name, "value", name)
    kind = kinds.get(type(node))
    if kind is None or node.expressions:
        return None
    if kind == "count" and counts_rows(node):
        return Shown("count(1)", "rows")
    name = _column(node.this, columns, alias)
    return Shown(f"{kind}({name})", kind, name) if name is not None and _is_plain(name) else None


def _is_plain(name: str) -> bool:
    """True for letters and digits: nothing that Spark could spell otherwise."""
    return name.isascii() and name.isidentifier()


def _column(node: Any, columns: Sequence[str], alias: str) -> str | None:
    """The column of the table that a node is, if it is spelled as the table has it; None for all else."""
    from sqlglot import exp

    if not isinstance(node, exp.Column) or len(node.parts) > 2:
        return None
    if node.table and node.table.lower() != alias.lower():
        return None
    return node.name if node.name in columns else None


def _groups(group: Any, columns: Sequence[str], alias: str) -> tuple[str, ...] | None:
    if group is None:
        return ()
    if any(value for key, value in group.args.items() if key != "expressions"):
        return None
    found = [_column(one, columns, alias) for one in group.expressions]
    names = tuple(name for name in found if name is not None)
    return names if len(names) == len(found) and names else None


def grouped_rows(rows: pa.Table, asked: Answer) -> pa.Table | None:
    """The groups of some rows, in the columns that are shown; None where a sum may not fit: Spark knows what to do."""
    groups = list(asked.groups or ())
    if any(one.kind == "sum" and not _fits(rows[one.column]) for one in asked.shown):
        return None
    given: list[Any] = []
    for one in asked.shown:
        if one.kind == "rows":
            given.append(([], "count_all"))
        elif one.kind == "count":
            given.append((one.column, "count", pc.CountOptions(mode="only_valid")))
        elif one.kind != "value":
            given.append((one.column, one.kind, pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)))
    made = rows.group_by(groups, use_threads=False).aggregate(given)
    # Keys stand before what was computed, which comes in the order in which it was given.
    computed = iter(range(len(groups), made.num_columns))
    places = [groups.index(one.column) if one.kind == "value" else next(computed) for one in asked.shown]
    return pa.table([made.column(place) for place in places], names=[one.name for one in asked.shown])


def _is_key(kind: pa.DataType) -> bool:
    """True for types whose values are one group exactly where their bits are: no floats, nothing nested."""
    return pa.types.is_boolean(kind) or pa.types.is_string(kind) or _is_ordered(kind)


def _is_ordered(kind: pa.DataType) -> bool:
    """True for whole numbers, days and times."""
    return any(check(kind) for check in (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp))


def _is_exact(one: Shown, schema: pa.Schema) -> bool:
    """True if Arrow computes it as Spark does: floats are added in another order, and NaN is the largest for Spark."""
    if one.kind == "sum":
        return bool(pa.types.is_integer(schema.field(one.column).type))
    return one.kind not in ("min", "max") or _is_ordered(schema.field(one.column).type)


def _fits(numbers: pa.ChunkedArray) -> bool:
    ends = pc.min_max(numbers).as_py()
    largest: int = max(abs(ends["min"] or 0), abs(ends["max"] or 0))
    return largest * len(numbers) < _MOST_SUM
