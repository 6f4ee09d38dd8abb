"""Makes predicates simpler but equivalent, by small rules, each right in three-valued logic, applied bottom up."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa

from indextables.query.evaluate import compare
from indextables.query.expr import (
    And,
    Call,
    Cast,
    Column,
    CompareOp,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    TextMatch,
)

__all__ = ["RULES", "negate", "simplify"]

_MIRROR: dict[CompareOp, CompareOp] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "<=>": "<=>",
}
_OPPOSITE: dict[CompareOp, CompareOp] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def simplify(expr: Node) -> Node:
    """`expr` after all rules, from the leaves up; the same answer for every row."""
    expr = _rebuild(expr)
    for rule in RULES:
        expr = rule(expr)
    return expr


def negate(expr: Node) -> Node:
    """NOT `expr`, pushed down as far as it goes."""
    return push_not(Not(expr))


def literal_right(expr: Node) -> Node:
    """`1 < a` is `a > 1`."""
    if isinstance(expr, Comparison) and isinstance(expr.left, Literal) and not isinstance(expr.right, Literal):
        return Comparison(_MIRROR[expr.op], expr.right, expr.left)
    return expr


def push_not(expr: Node) -> Node:
    """NOT moves to the leaves: De Morgan, double negation, the opposite comparison."""
    if not isinstance(expr, Not):
        return expr
    child = expr.child
    if isinstance(child, Not):
        return child.child
    if isinstance(child, And):
        return Or(tuple(negate(term) for term in child.terms))
    if isinstance(child, Or):
        return And(tuple(negate(term) for term in child.terms))
    if isinstance(child, Comparison) and child.op in _OPPOSITE:
        return Comparison(_OPPOSITE[child.op], child.left, child.right)
    if isinstance(child, Literal) and pa.types.is_boolean(child.type):
        value = child.value.as_py()
        return Literal(pa.scalar(None if value is None else not value, pa.bool_()))
    return expr


def flatten(expr: Node) -> Node:
    """AND inside AND and OR inside OR become one; constants that decide nothing go, one that decides all stays."""
    if not isinstance(expr, And | Or):
        return expr
    kind = type(expr)
    decides = isinstance(expr, Or)
    terms: list[Node] = []
    for term in expr.terms:
        inner = term.terms if isinstance(term, kind) else (term,)
        for part in inner:
            if isinstance(part, Literal) and part.value.is_valid:
                if part.value.as_py() is decides:
                    return part
                continue
            terms.append(part)
    terms = list(dict.fromkeys(terms))
    if not terms:
        return Literal(pa.scalar(not decides))
    return terms[0] if len(terms) == 1 else kind(tuple(terms))


def like_prefix(expr: Node) -> Node:
    """`like 'abc%'` starts with, `like '%abc'` ends with, `like '%abc%'` contains, `like 'abc'` is equality."""
    if not isinstance(expr, Like) or expr.kind != "like" or expr.escape in expr.pattern or "_" in expr.pattern:
        return expr
    body = expr.pattern.strip("%")
    if "%" in body or not body:
        return expr
    leading, trailing = expr.pattern.startswith("%"), expr.pattern.endswith("%")
    if leading and trailing:
        return TextMatch(expr.child, body, "contains")
    if trailing:
        return TextMatch(expr.child, body, "startswith")
    if leading:
        return TextMatch(expr.child, body, "endswith")
    return Comparison("=", expr.child, Literal(pa.scalar(body, expr.child.type)))


def small_in(expr: Node) -> Node:
    """IN with one value is equality."""
    if isinstance(expr, In) and len(expr.values) == 1 and not expr.has_null:
        return Comparison("=", expr.child, Literal(expr.values[0]))
    return expr


def null_comparison(expr: Node) -> Node:
    """A comparison with null is unknown; `<=> null` is IS NULL."""
    if isinstance(expr, Comparison) and isinstance(expr.right, Literal) and not expr.right.value.is_valid:
        return IsNull(expr.left) if expr.op == "<=>" else Literal(pa.scalar(None, pa.bool_()))
    return expr


def constant_comparison(expr: Node) -> Node:
    """`1 = 0` is false: two constants are compared once."""
    if isinstance(expr, Comparison) and isinstance(expr.left, Literal) and isinstance(expr.right, Literal):
        return Literal(compare(expr.op, pa.repeat(expr.left.value, 1), expr.right.value)[0])
    return expr


def useless_cast(expr: Node) -> Node:
    """A cast to the type that is there already does nothing."""
    return expr.child if isinstance(expr, Cast) and expr.child.type == expr.data_type else expr


RULES: tuple[Callable[[Node], Node], ...] = (
    useless_cast,
    literal_right,
    null_comparison,
    constant_comparison,
    like_prefix,
    small_in,
    push_not,
    flatten,
)


def _rebuild(expr: Node) -> Node:
    """The same node over simplified children."""
    if isinstance(expr, Column | Literal):
        return expr
    if isinstance(expr, And | Or):
        return type(expr)(tuple(simplify(term) for term in expr.terms))
    if isinstance(expr, Call):
        return msgspec.structs.replace(expr, args=tuple(simplify(arg) for arg in expr.args))
    if isinstance(expr, Comparison):
        return Comparison(expr.op, simplify(expr.left), simplify(expr.right))
    if isinstance(expr, Cast | In | IsNull | Like | TextMatch | Not):
        return msgspec.structs.replace(expr, child=simplify(expr.child))
    return expr
