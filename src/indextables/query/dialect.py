"""Tells sqlglot how our predicates are read: as Spark 4 does, where a doubled quote inside a text is one quote."""

from __future__ import annotations

from sqlglot.dialects.spark import Spark

__all__ = ["DIALECT"]


class _IndexTables(Spark):
    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - as sqlglot declares it


DIALECT = _IndexTables()
