"""What a predicate about a column says of columns that are generated from it, so that partitions are pruned. Pure."""

from __future__ import annotations

import pyarrow as pa

from indextables.errors import IndexTablesError
from indextables.query.evaluate import evaluate_value
from indextables.query.expr import And, Call, Cast, Column, CompareOp, Comparison, Literal, Node, conjuncts, walk
from indextables.query.functions import FUNCTIONS
from indextables.query.parse import parse_value
from indextables.query.stored import generated_columns

__all__ = ["with_implied"]

_TURNED: dict[str, CompareOp] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WEAKER: dict[str, CompareOp] = {"=": "=", "<": "<=", "<=": "<=", ">": ">=", ">=": ">="}


def with_implied(where: Node, schema: pa.Schema) -> Node:
    """The predicate with what it implies for generated columns: true for exactly the rows for which `where` is.

    `ts < X` implies `day <= CAST(X AS DATE)` where `day` is generated as `CAST(ts AS DATE)`.
    """
    texts = generated_columns(schema)
    if not texts:
        return where
    terms = conjuncts(where)
    found: list[Node] = []
    for name, text in texts.items():
        node = parse_value(text, schema)
        for term in terms:
            said = _said(term, node, Column(name, schema.field(name).type))
            found += [] if said is None else [said]
    return And((*terms, *found)) if found else where


def _said(term: Node, node: Node, column: Column) -> Node | None:
    if not isinstance(term, Comparison) or node.type != column.type:
        return None
    left, right, op = term.left, term.right, term.op
    if isinstance(left, Literal):
        left, right, op = right, left, _TURNED.get(op, op)
    if not isinstance(left, Column) or left.path or not isinstance(right, Literal) or op not in _WEAKER:
        return None
    if not right.value.is_valid or {inner for inner in walk(node) if isinstance(inner, Column)} != {left}:
        return None
    # Zeros that are equal may give other values: -0.0 as text.
    if pa.types.is_floating(left.type) or (op != "=" and not _never_falls(node)):
        return None
    try:
        value = evaluate_value(node, pa.table({left.name: pa.array([right.value.as_py()], left.type)}))
    except (IndexTablesError, pa.ArrowException):
        return None
    bound = value if isinstance(value, pa.Scalar) else value[0]
    return Comparison(_WEAKER[op], column, Literal(bound)) if bound.is_valid else None


def _never_falls(node: Node) -> bool:
    """True if the values of a node never fall while those of its column rise."""
    if isinstance(node, Column):
        return True
    if isinstance(node, Cast):
        of_time = pa.types.is_timestamp(node.child.type) and node.zone == "UTC"
        return of_time and pa.types.is_date(node.type) and _never_falls(node.child)
    if isinstance(node, Call) and node.zone == "UTC" and node.args:
        others = node.args[1:]
        from_start = (
            node.name == "substring"
            and bool(others)
            and isinstance(others[0], Literal)
            and others[0].value.as_py() in (0, 1)
        )
        known = FUNCTIONS.get(node.name)
        rises = from_start or (known is not None and known.monotone and not others)
        return rises and all(isinstance(one, Literal) for one in others) and _never_falls(node.args[0])
    return False
