"""Which conditions of a statement are about the rows of one table alone? They tell which files need not be read. Pure.

Only conditions beside AND in the WHERE of a SELECT from that one table are taken, and only comparisons of columns with
literals: what is left out here costs time, never rows, because Spark applies every condition itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from indextables.errors import InvalidArgument, QueryInvalid
from indextables.sql.command import Args, Found, Reference, Token, literal, value_of
from indextables.sql.textsearch import counts_rows

__all__ = ["WholeSelect", "conditions_of", "filters_of", "row_limit"]

_MOST_LITERALS = 10_000


def filters_of(found: Found, reference: Reference, columns: Sequence[str], args: Args | None) -> Iterator[str]:
    """Predicates, as SQL, that every row must satisfy which the statement needs from this reference."""
    from sqlglot import exp

    node = found.nodes[reference.number]
    select = node.parent.parent if isinstance(node.parent, exp.From) else None
    if reference.shape != "plain" or not isinstance(select, exp.Select) or node.args.get("joins"):
        return
    if any(select.args.get(key) for key in ("joins", "laterals")):
        return
    known = {name.lower() for name in columns}
    for condition in conditions_of(select):
        if _is_simple(condition, known, node.alias_or_name.lower()):
            try:
                yield _as_text(condition, found, args)
            except (InvalidArgument, QueryInvalid):
                continue


class WholeSelect(msgspec.Struct, frozen=True):
    """A SELECT from one table whose conditions are all known: it has no other clause that changes or orders rows.

    `counts` if it asks for nothing but `count(*)`; `limit` is how many rows do, None where all are needed.
    """

    counts: bool
    has_conditions: bool
    limit: int | None

    @classmethod
    def of(cls, found: Found, reference: Reference, *, searches: int, filters: int) -> WholeSelect | None:
        """What the SELECT around a reference is; None if it does more, or has conditions beside those counted."""
        from sqlglot import exp

        node = found.nodes[reference.number]
        select = node.parent.parent if isinstance(node.parent, exp.From) else None
        if not isinstance(select, exp.Select) or reference.shape != "plain" or node.args.get("joins"):
            return None
        plain = {"expressions", "from_", "from", "where", "limit", "with_", "with", "kind"}
        if any(value for key, value in select.args.items() if key not in plain):
            return None
        conditions = conditions_of(select)
        if len(conditions) != searches + filters:
            return None
        items = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
        call = items[0] if len(items) == 1 else None
        return cls(
            counts=isinstance(call, exp.Count) and counts_rows(call) and "start" in call.meta,
            has_conditions=bool(conditions),
            limit=row_limit(select) if all(isinstance(i, exp.Column | exp.Star | exp.Literal) for i in items) else None,
        )


def conditions_of(select: Any) -> list[Any]:
    """What stands beside AND in the WHERE of a SELECT."""
    where = select.args.get("where")
    return list(_conjuncts(None if where is None else where.this))


def row_limit(select: Any) -> int | None:
    """The limit of a SELECT, if it is written as a number."""
    from sqlglot import exp

    limit = select.args.get("limit")
    number = limit.expression if isinstance(limit, exp.Limit) else None
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        return None
    return int(number.name)


def _conjuncts(condition: Any) -> Iterator[Any]:
    from sqlglot import exp

    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    elif isinstance(condition, exp.Paren):
        yield from _conjuncts(condition.this)
    elif condition is not None:
        yield condition


def _is_simple(condition: Any, columns: set[str], alias: str) -> bool:
    """True if a condition compares columns of the table with literals, and nothing else."""
    from sqlglot import exp

    compared = (
        exp.EQ,
        exp.NEQ,
        exp.GT,
        exp.GTE,
        exp.LT,
        exp.LTE,
        exp.NullSafeEQ,
        exp.In,
        exp.Between,
        exp.Is,
        exp.Like,
    )
    values = (exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Neg, exp.Placeholder, exp.DataType)
    allowed = (*compared, *values, exp.And, exp.Or, exp.Not, exp.Paren)
    nodes = list(condition.walk())
    if len(nodes) > _MOST_LITERALS or not any(isinstance(node, exp.Column) for node in nodes):
        return False
    for node in nodes:
        if isinstance(node, exp.Column):
            if node.name.lower() not in columns or node.table.lower() not in ("", alias) or len(node.parts) > 2:
                return False
        elif isinstance(node, exp.Cast):
            if not (isinstance(node.this, exp.Literal) and node.to.this.name in ("DATE", "TIMESTAMP", "TIMESTAMPTZ")):
                return False
        elif not isinstance(node, allowed):
            return False
    return all(not isinstance(node, exp.In) or not node.args.get("query") for node in nodes)


def _as_text(condition: Any, found: Found, args: Args | None) -> str:
    """The condition as our predicate language has it: columns without their table, parameters as literals."""
    from sqlglot import exp

    def plain(node: Any) -> Any:
        if isinstance(node, exp.Column):
            return exp.Column(this=node.this.copy())
        if isinstance(node, exp.Placeholder):
            if not node.name:
                raise QueryInvalid("values by place are not followed")
            value = value_of(Token("parameter", f":{node.name}", 0), found.tokens, args)
            return exp.Var(this=literal(value))
        return node

    from indextables.query.dialect import DIALECT

    return str(condition.copy().transform(plain).sql(dialect=DIALECT))
