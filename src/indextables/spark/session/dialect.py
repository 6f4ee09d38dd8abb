"""Does a session of Spark read a predicate in another way than `indextables.query` does?

Settings of a session change what a text in quotes is and how it meets other types. Where they do, a predicate of
Spark's says nothing about which files may be left out, and one of ours is not for Spark to answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indextables.query.evaluate import can_fail

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from indextables.query.expr import Node

__all__ = ["computes_otherwise", "reads_otherwise"]

_WORD = re.compile(r"\w+")
_DOUBLED = re.compile("''|\"\"")
_IN = re.compile(r"\bIN\b", re.IGNORECASE)


def reads_otherwise(spark: SparkSession, text: str, schema: pa.Schema, written: str | None = None) -> bool:
    """True if the session may mean other rows by `text`; `written` is how the user wrote it, if that is longer.

    Errs to True: a predicate that has no text in quotes is the same everywhere.
    """
    written = text if written is None else written
    if "'" not in text and '"' not in text:
        return False
    if "\\" in written and _is_on(spark, "spark.sql.parser.escapedStringLiterals"):
        return True
    if '"' in written and _is_on(spark, "spark.sql.ansi.doubleQuotedIdentifiers"):
        return True
    if _DOUBLED.search(written) and _is_on(spark, "spark.sql.legacy.consecutiveStringLiterals.enabled"):
        return True
    return _meets_texts(text, schema) and not _is_on(spark, "spark.sql.ansi.enabled")


def computes_otherwise(spark: SparkSession, node: Node) -> bool:
    """True if the session has a value where this library has an error: a quotient of 0, a text that is no number."""
    return can_fail(node) and not _is_on(spark, "spark.sql.ansi.enabled")


def _meets_texts(text: str, schema: pa.Schema) -> bool:
    """True if a text may meet a column in another type without ANSI SQL: `float`, and any other in an IN list."""
    import pyarrow as pa

    lower = text.lower()
    words = set(_WORD.findall(lower))

    def is_named(name: str) -> bool:
        return name in words if _WORD.fullmatch(name) else name in lower

    others = [field.type for field in schema if not _is_text(field.type) and is_named(field.name.lower())]
    return any(pa.types.is_float32(kind) or pa.types.is_nested(kind) for kind in others) or (
        bool(others) and _IN.search(text) is not None
    )


def _is_text(data_type: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _is_on(spark: SparkSession, key: str) -> bool:
    return str(spark.conf.get(key, "false")).lower() == "true"
