"""What does a statement need of each table? Read off DataFusion's optimized plan.

DataFusion has moved every filter as far down as outer joins and subqueries allow. What stands directly above a table
scan is translated into a predicate of ours that lets through *at least* the rows the filter lets through; DataFusion
still applies the filter itself, so that a translation that gives up costs time, never rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from indextables.query.expr import And, Column, CompareOp, Comparison, In, IsNull, Literal, Node, Not, Or

__all__ = ["Need", "needs_of", "row_limit"]

_OPERATORS: dict[str, CompareOp] = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED: dict[CompareOp, CompareOp] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LOOSE: dict[CompareOp, CompareOp] = {"<": "<=", ">": ">="}


class Need(msgspec.Struct, frozen=True):
    """What all scans of one table together need.

    Rows where `where` holds (None: all), and of those only the ones in which every hidden column of `required` is true.
    With a `limit`, any so many of them do.
    """

    columns: frozenset[str]
    where: Node | None = None
    required: frozenset[str] = frozenset()
    limit: int | None = None


def needs_of(plan: Any, schemas: Mapping[str, pa.Schema], hidden: Mapping[str, frozenset[str]]) -> dict[str, Need]:
    """The needs of each table of `plan`, an optimized logical plan; `hidden` names the hidden columns per table.

    `schemas` may spell the columns in another case than the plan. A table that the plan also reads where this cannot
    look (inside an expression) gets no restriction.
    """
    found: dict[str, list[Need]] = {}
    for scan, predicate in _scans(plan, None):
        name = scan.table_name()
        if name in schemas:
            columns = frozenset(column for _, column in scan.projection())
            need = _need(columns, predicate, schemas[name], hidden.get(name, frozenset()))
            # DataFusion puts a limit into a scan only where no filter stands between the two.
            limit = scan.fetch() if predicate is None else None
            found.setdefault(name, []).append(msgspec.structs.replace(need, limit=limit))
    text = plan.display_indent()
    return {
        name: _merged(needs)
        if _mentions(text, name) == len(needs)
        else Need(frozenset(schemas[name].names) | hidden.get(name, frozenset()))
        for name, needs in found.items()
    }


def row_limit(plan: Any) -> int | None:
    """How many rows a plan takes before it stops, if that is the last thing it does; None if it takes all."""
    lines = plan.display_indent().splitlines()
    last = next((line for line in lines if not line.strip().startswith(("Projection:", "SubqueryAlias:"))), "")
    found = re.match(r"\s*Limit: skip=(\d+), fetch=(\d+)$", last)
    return int(found[1]) + int(found[2]) if found else None


def _scans(plan: Any, predicate: Any) -> Iterator[tuple[Any, Any]]:
    """Every table scan, with the filter directly above it."""
    node = _variant(plan)
    kind = type(node).__name__
    if kind == "TableScan":
        yield node, predicate
        return
    below = node.predicate() if kind == "Filter" else None
    for child in plan.inputs():
        yield from _scans(child, below)


def _mentions(text: str, name: str) -> int:
    return sum(line.strip().split(" projection=")[0] == f"TableScan: {name}" for line in text.splitlines())


def _need(columns: frozenset[str], predicate: Any, schema: pa.Schema, hidden: frozenset[str]) -> Need:
    if predicate is None:
        return Need(columns)
    terms: list[Node] = []
    required: set[str] = set()
    for term in _conjuncts(predicate):
        name = _column_name(term)
        if name is not None and name in hidden:
            required.add(name)
            continue
        translated = _superset(term, schema)
        if translated is not None:
            terms.append(translated)
    where = None if not terms else terms[0] if len(terms) == 1 else And(tuple(terms))
    return Need(columns, where, frozenset(required))


def _merged(needs: list[Need]) -> Need:
    """What serves every scan: all columns, rows that any of them wants."""
    columns = frozenset().union(*(need.columns for need in needs))
    wheres = [need.where for need in needs]
    known = [where for where in wheres if where is not None]
    where = None if len(known) < len(wheres) else known[0] if len(known) == 1 else Or(tuple(known))
    required = frozenset.intersection(*(need.required for need in needs))
    limits = [need.limit for need in needs if need.limit is not None]
    return Need(columns, where, required, max(limits) if len(limits) == len(needs) else None)


def _conjuncts(expr: Any) -> list[Any]:
    """Long chains lean to the left, so they are unrolled rather than recursed into."""
    terms, stack = [], [expr]
    while stack:
        node = stack.pop()
        variant = _variant(node)
        if type(variant).__name__ == "BinaryExpr" and variant.op() == "AND":
            stack += [variant.right(), variant.left()]
        else:
            terms.append(node)
    return terms


def _superset(expr: Any, schema: pa.Schema) -> Node | None:
    """A predicate that holds wherever `expr` does, or None if there is no better one than "always"."""
    variant = _variant(expr)
    kind = type(variant).__name__
    if kind == "BinaryExpr":
        return _binary(variant, schema)
    if kind == "InList":
        return _in_list(variant, schema)
    if kind in ("IsNull", "IsNotNull"):
        column = _column(variant.expr(), schema)
        if column is None:
            return None
        return IsNull(column) if kind == "IsNull" else Not(IsNull(column))
    column = _column(expr, schema)
    if column is not None and pa.types.is_boolean(column.type):
        return Comparison("=", column, Literal(pa.scalar(value=True)))
    return None


def _binary(variant: Any, schema: pa.Schema) -> Node | None:
    op = variant.op()
    if op == "OR":
        sides = [_superset(side, schema) for side in (variant.left(), variant.right())]
        return None if None in sides else Or(tuple(side for side in sides if side is not None))
    if op == "AND":
        terms = [_superset(side, schema) for side in (variant.left(), variant.right())]
        known = tuple(term for term in terms if term is not None)
        return None if not known else And(known) if len(known) > 1 else known[0]
    if op not in _OPERATORS:
        return None
    ours = _OPERATORS[op]
    column, value = _column(variant.left(), schema), _scalar(variant.right())
    if column is None:
        column, value = _column(variant.right(), schema), _scalar(variant.left())
        ours = _MIRRORED.get(ours, ours)
    value = None if column is None or value is None else _as_narrow(value, column.type)
    if column is None or value is None or value.type != column.type or not value.is_valid:
        return None
    if pa.types.is_floating(column.type):
        # Engines differ in whether -0.0 is below 0.0: keep the border, and never say "differs".
        ours = _LOOSE.get(ours, ours)
        if ours == "<>":
            return None
    return Comparison(ours, column, Literal(value))


def _in_list(variant: Any, schema: pa.Schema) -> Node | None:
    column = _column(variant.expr(), schema)
    values = [_scalar(item) for item in variant.list()]
    if variant.negated() or column is None or pa.types.is_floating(column.type):
        return None
    narrow = [None if value is None else _as_narrow(value, column.type) for value in values]
    known = [value for value in narrow if value is not None and value.type == column.type]
    if len(known) < len(values):
        return None
    distinct = {repr(value): value for value in known if value.is_valid}
    return In(column, tuple(distinct.values()), any(not value.is_valid for value in known))


def _as_narrow(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """A whole number in the type of its column, which DataFusion may see wider; None if that cannot hold it."""
    if not (pa.types.is_integer(kind) and pa.types.is_integer(value.type)) or value.type == kind:
        return value
    try:
        return value.cast(kind)
    except pa.ArrowInvalid:
        return None


def _variant(thing: Any) -> Any:
    """A node as its own type; None for kinds that the binding cannot show, such as calls of functions."""
    try:
        return thing.to_variant()
    except ValueError:
        return None


def _column(expr: Any, schema: pa.Schema) -> Column | None:
    name = _column_name(expr)
    found = [field for field in schema if name is not None and field.name.lower() == name.lower()]
    return Column(found[0].name, found[0].type) if len(found) == 1 else None


def _column_name(expr: Any) -> str | None:
    variant = _variant(expr)
    return str(variant.name()) if type(variant).__name__ == "Column" else None


def _scalar(expr: Any) -> pa.Scalar | None:
    return expr.python_value() if type(_variant(expr)).__name__ == "Literal" else None
