"""What both SQL engines know of `TEXTSEARCH`: a call becomes a hidden column, and `_score` belongs to one call."""

from __future__ import annotations

from indextables.table.read import SCORE

__all__ = ["NEEDS_ONE", "SCORE"]

NEEDS_ONE = f"{SCORE} needs exactly one TEXTSEARCH beside AND in the WHERE of its table"
