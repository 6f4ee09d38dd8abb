"""Which predicates can the index answer? Trees of `indextables.query` as plans that never score.

Exact where the index keeps whole values (`string`, numbers, times); for the rest a `Where` leaf evaluates the predicate
itself on the column, behind whatever narrows the candidates. SQL keeps a row if its predicate is true, and "not" of
unknown is unknown: negations are pushed down to comparisons, each of which implies that there is a value.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from indextables.lazy import pc
from indextables.query import expr
from indextables.query.evaluate import can_fail
from indextables.split.index import IndexPlan
from indextables.split.query.plan import (
    HasValue,
    Interval,
    LeafTarget,
    Nothing,
    Plan,
    TermPrefix,
    TermRange,
    Terms,
    TermSet,
    Where,
    boolean,
    unscored,
)
from indextables.split.query.target import target_of_column

_FLIPPED: dict[str, expr.CompareOp] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED: dict[str, expr.CompareOp] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PREFIX_LIKE = re.compile(r"([^%_\\]+)%\Z", re.DOTALL)


def plan_predicate(predicate: expr.Node, schema: pa.Schema, index: IndexPlan) -> Plan:
    """The plan that matches exactly the rows for which `predicate` is true."""
    return unscored(_Translator(schema, index).true(predicate))


class _Translator:
    def __init__(self, schema: pa.Schema, index: IndexPlan) -> None:
        self._schema = schema
        self._index = index

    def true(self, node: expr.Node) -> Plan:
        match node:
            case expr.And(terms=terms) if can_fail(node):
                # The whole is evaluated, so that its terms guard each other; those that need no guard narrow the rows.
                return boolean(must=(*(self.true(term) for term in terms if not can_fail(term)), Where(node)))
            case expr.Or() if can_fail(node):
                return Where(node)
            case expr.And(terms=terms):
                return boolean(must=tuple(map(self.true, terms))) if terms else Where(node)
            case expr.Or(terms=terms):
                return boolean(should=tuple(map(self.true, terms))) if terms else Nothing()
            case expr.Not(child=child):
                return self.false(child)
            case expr.Comparison():
                return self.comparison(node)
            case expr.In():
                return self.one_of(node)
            case expr.IsNull(child=child):
                target = self.target(child)
                return Where(node) if target is None else boolean(must_not=(HasValue(target),))
            case expr.Like(kind="like", pattern=pattern) | expr.TextMatch(kind="startswith", text=pattern):
                return self.prefix(node, pattern)
            case _:
                return Where(node)

    def false(self, node: expr.Node) -> Plan:
        match node:
            case expr.And() | expr.Or() if can_fail(node):
                return Where(expr.Not(node))
            case expr.And(terms=terms) if terms:
                return boolean(should=tuple(map(self.false, terms)))
            case expr.Or(terms=terms) if terms:
                return boolean(must=tuple(map(self.false, terms)))
            case expr.Not(child=child):
                return self.true(child)
            case expr.Comparison(op=op) if op in _FLIPPED:
                return self.comparison(expr.Comparison(_FLIPPED[op], node.left, node.right), node)
            case expr.In(child=child, has_null=False):
                target = self.target(child)
                found = self.one_of(node)
                if target is None or isinstance(found, Where):
                    return Where(expr.Not(node))
                return boolean(must=(HasValue(target),), must_not=(found,))
            case expr.IsNull(child=child):
                target = self.target(child)
                return Where(expr.Not(node)) if target is None else HasValue(target)
            case _:
                return Where(expr.Not(node))

    def target(self, node: expr.Node) -> LeafTarget | None:
        """What a plain column is in the index; None for anything that only its own evaluation can answer."""
        if not isinstance(node, expr.Column) or node.path:
            return None
        try:
            target = target_of_column(self._schema, self._index, node.name)
        except (LookupError, KeyError):
            return None
        return None if target.multi or target.nested or target.kind == "other" else target

    def comparison(self, node: expr.Comparison, original: expr.Node | None = None) -> Plan:
        left, op, right = node.left, node.op, node.right
        if isinstance(left, expr.Literal) and op in _MIRRORED:
            left, op, right = right, _MIRRORED[op], left
        fallback = Where(node if original is None else expr.Not(original))
        target = self.target(left)
        if target is None or not isinstance(right, expr.Literal) or op == "<=>":
            return fallback
        if not right.value.is_valid:
            return Nothing()
        if target.kind == "string":
            return self.on_string(target, op, right.value.as_py()) if target.field is not None else fallback
        if target.kind == "text":
            return self.on_text(target, op, right.value.as_py(), fallback)
        number = as_number(target, right.value)
        if number is None or target.field is None:
            return fallback
        return _on_number(target, op, number)

    def on_string(self, target: LeafTarget, op: str, value: str) -> Plan:
        match op:
            case "=":
                return Terms(target, ((0, value),))
            case "<>":
                return boolean(must=(HasValue(target),), must_not=(Terms(target, ((0, value),)),))
            case "<" | "<=":
                return TermRange(target, None, value, include_upper=op == "<=")
            case _:
                return TermRange(target, value, None, include_lower=op == ">=")

    def on_text(self, target: LeafTarget, op: str, value: str, exactly: Where) -> Plan:
        """Words say which rows may be equal; the column says which are."""
        if op != "=" or target.analyzer is None or not target.indexed:
            return exactly
        words = [t for t in dict.fromkeys(target.analyzer.terms(value)) if target.analyzer.surely_indexed(t)][:64]
        return boolean(must=(*(Terms(target, ((0, word),)) for word in words), exactly))

    def one_of(self, node: expr.In) -> Plan:
        target = self.target(node.child)
        if target is None or target.field is None:
            return Where(node)
        if target.kind == "string":
            return TermSet(target, tuple(v.as_py() for v in node.values)) if node.values else Nothing()
        numbers = [as_number(target, value) for value in node.values]
        points = tuple((n, n + 1) for n in numbers if n is not None)
        if len(points) < len(numbers):
            return Where(node)
        return Interval(target, points) if points else Nothing()

    def prefix(self, node: expr.Like | expr.TextMatch, pattern: str) -> Plan:
        target = self.target(node.child)
        if target is None or target.kind != "string" or target.field is None:
            return Where(node)
        if isinstance(node, expr.TextMatch):
            return TermPrefix(target, pattern) if pattern else HasValue(target)
        found = _PREFIX_LIKE.match(pattern)
        if found is None or node.escape in pattern:
            return Where(node)
        return TermPrefix(target, found[1])


def as_number(target: LeafTarget, value: Any) -> int | None:
    """A scalar as the integer that `Interval` compares; None if the kind has none."""
    match target.kind:
        case "int":
            return int(value.as_py()) if pa.types.is_integer(value.type) else None
        case "bool":
            return int(value.as_py()) if pa.types.is_boolean(value.type) else None
        case "date" if pa.types.is_date32(value.type):
            return int(value.cast(pa.int32()).as_py())
        case "timestamp" if pa.types.is_timestamp(value.type) and value.type.unit != "ns":
            try:
                return int(pc.cast(pc.cast(value, pa.timestamp("us", value.type.tz)), pa.int64()).as_py())
            except pa.ArrowInvalid:
                return None
        case _:
            return None


def _on_number(target: LeafTarget, op: str, number: int) -> Plan:
    match op:
        case "=":
            return Interval(target, ((number, number + 1),))
        case "<>":
            return Interval(target, ((None, number), (number + 1, None)))
        case "<":
            return Interval(target, ((None, number),))
        case "<=":
            return Interval(target, ((None, number + 1),))
        case ">":
            return Interval(target, ((number + 1, None),))
        case _:
            return Interval(target, ((number, None),))
