"""Searches as Columns of Spark: `textsearch` and `score` are names that `enable` gives a meaning to.

Spark knows no such function. A Column that names a column can stand in any expression; where a DataFrame of ours is
given one, the search is answered first, in a column of that name. The name tells the search, and to people what is
amiss where nobody answers it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from indextables.errors import InvalidArgument
from indextables.spark.session import column_named, is_column
from indextables.table.arguments import check_text

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Asked", "asked_in", "score", "textsearch"]

_NEEDS = "needs indextables_enable(spark) and a DataFrame of a table of IndexTables"
_NAMED = re.compile(rf"(?:TEXTSEARCH|SCORE) {re.escape(_NEEDS)} \[([0-9a-f]+)\]")
_PLAIN = re.compile(r"\*|\w+(\.\w+)*")


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A search of `column` (`*` for all text columns); without a query the score of the search before."""

    column: str = ""
    query: str | None = None

    @property
    def name(self) -> str:
        """The name of the column that holds the answer."""
        what = "SCORE" if self.query is None else "TEXTSEARCH"
        return f"{what} {_NEEDS} [{msgspec.json.encode(self).hex()}]"

    @property
    def shown(self) -> str:
        """What the column is called where it is selected without a name."""
        return "_score" if self.query is None else f"textsearch({self.column}, {self.query})"


def textsearch(column: str | Column, query: str) -> Column:
    """Return a condition that is true in the rows that a search matches, as `TEXTSEARCH(column, 'query')` of SQL.

    It stands in `where`, `filter`, `select`, `withColumn` and `orderBy` of DataFrames that read tables of IndexTables,
    after `indextables.enable(spark)`, alone or with other conditions: `textsearch("message", "a") & (F.col("id") > 3)`.

    Args:
        column: A column, or a field of one (`author.name`); `*` for all text columns.
        query: Words, phrases and fields, in the language of `search`.

    Raises:
        InvalidArgument: `column` is not a name.
    """
    name = str(column)[len("Column<'") : -len("'>")] if is_column(column) else column
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise InvalidArgument(f"textsearch takes the name of a column, a field (author.name) or '*', not {column!r}")
    return column_named(Asked(name, check_text("a query", query)).name)


def score() -> Column:
    """Return the score of the one search in the `where` or `filter` before.

    It stands in `select`, `withColumn` and `orderBy` right behind it: `df.where(textsearch(...)).select("*", score())`.
    """
    return column_named(Asked().name)


def asked_in(values: Any) -> list[Asked]:
    """The searches that Columns speak of, each once; lists of Columns are looked into."""
    found: dict[str, Asked] = {}
    for value in values:
        inner = value if isinstance(value, list | tuple) else [value]
        for one in inner:
            if is_column(one):
                for code in _NAMED.findall(str(one)):
                    asked = _READ_ASKED.decode(bytes.fromhex(code))
                    found[asked.name] = asked
    return list(found.values())


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_ASKED = msgspec.json.Decoder(Asked)
