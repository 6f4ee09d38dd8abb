"""Says in plain words why a predicate cannot have something, and what to write instead. Pure."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

__all__ = ["not_offered"]

_MOVING = (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Rand)
_CUT = (exp.TimestampTrunc, exp.DateTrunc)


def not_offered(tree: Any) -> str:
    """What to say after the text of `tree`, which is something that predicates do not have."""
    name = tree.name.lower() if isinstance(tree, exp.Anonymous) else ""
    if isinstance(tree, exp.AggFunc | exp.Window):
        return "is computed from many rows, and a predicate looks at one row at a time: use a SELECT with HAVING"
    if isinstance(tree, exp.Query | exp.Subquery | exp.Exists):
        return "is a query, which a predicate cannot hold: use a SELECT"
    if isinstance(tree, _CUT):
        return (
            "is not offered in a predicate: compare the time with both ends, as in ts >= '2025-06-01' and "
            "ts < '2025-07-01', or use year(ts), month(ts), day(ts)"
        )
    if isinstance(tree, exp.Extract):
        return "is not offered in a predicate: write year(ts), month(ts), day(ts), hour(ts), minute(ts) or second(ts)"
    if isinstance(tree, _MOVING) or name in ("now", "random", "uuid"):
        return "changes from one moment to the next, and is not offered in a predicate: give the value as a constant"
    if isinstance(tree, exp.Placeholder | exp.Parameter):
        return "is a parameter, and is not offered in a predicate: write the value into it"
    return "is not offered in a predicate"
