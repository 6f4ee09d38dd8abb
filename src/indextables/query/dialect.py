"""Tells sqlglot how our texts are read, and says in plain words what of its trees a predicate cannot have.

They are read as Spark 4 does, where a doubled quote inside a text is one quote.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark

__all__ = ["DIALECT", "EXPRESSIONS", "STATEMENTS", "not_offered"]

_MOVING = (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Rand)
_CUT = (exp.TimestampTrunc, exp.DateTrunc)

_MEANT = frozenset(
    (  # noqa: SIM905
        "AND AS BETWEEN CASE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DISTINCT DIV ELSE END ESCAPE "
        "EXCEPT EXISTS FALSE FOR FROM ILIKE IN INTERSECT INTERVAL IS ISNULL JOIN LIKE "
        "NOT NOTNULL NULL OR OVER REGEXP RLIKE SELECT SESSION_USER THEN TRUE UNION WHEN "
        "WHERE WITH XOR "
    ).split()
)
"""Words that mean something in an expression, or in the query inside of one that is refused as such."""
_FOREIGN_TYPES = frozenset({"LIST", "NULLABLE", "OBJECT", "RANGE"})
"""Spark has no types of these names."""
_TYPES = (
    frozenset(word for word, kind in Spark.Tokenizer.KEYWORDS.items() if kind in Spark.Parser.TYPE_TOKENS)
    - _FOREIGN_TYPES
)

STATEMENTS = frozenset(
    word.upper()
    for word, kind in Spark.Tokenizer.KEYWORDS.items()
    if kind in Spark.Parser.STATEMENT_PARSERS or kind in Spark.Tokenizer.COMMANDS
)
"""Words with which statements begin."""


class _IndexTables(Spark):
    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - as sqlglot declares it


class _Expressions(Spark):
    class Tokenizer(_IndexTables.Tokenizer):
        KEYWORDS = {  # noqa: RUF012
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            if not word.replace("_", "").isalnum() or word in _MEANT or word in _TYPES
        }
        COMMANDS = set()  # noqa: RUF012

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        NO_PAREN_FUNCTION_PARSERS = {"CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}  # noqa: RUF012


DIALECT = _IndexTables()
"""Reads statements."""
EXPRESSIONS = _Expressions()
"""Reads a single expression, in which the words that only statements have are names as any others."""


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
