"""Tells sqlglot how our texts are read: as Spark 4 does, where a doubled quote inside a text is one quote."""

from __future__ import annotations

from sqlglot.dialects.spark import Spark

__all__ = ["DIALECT", "EXPRESSIONS", "STATEMENTS"]

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
