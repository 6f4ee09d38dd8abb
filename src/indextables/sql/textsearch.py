"""What both SQL engines know of `TEXTSEARCH`: a call becomes a hidden column, and `_score` belongs to one call."""

from __future__ import annotations

import msgspec

__all__ = ["NEEDS_ONE", "SCORE", "Search"]

SCORE = "_score"
NEEDS_ONE = f"{SCORE} needs exactly one TEXTSEARCH beside AND in the WHERE of its table"


class Search(msgspec.Struct, frozen=True):
    """One call: the hidden column `name` is true where `query` matches; `column` is its default field, None for all."""

    name: str
    column: str | None
    query: str
