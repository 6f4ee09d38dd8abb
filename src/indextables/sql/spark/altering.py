"""What ALTER TABLE would do to an entry of Spark's catalog that stands for a table of ours. Pure.

Spark changes its own entry and nothing else: the table keeps its columns and properties, and the entry then names
columns that the table does not have, or properties that nobody reads.
"""

from __future__ import annotations

from indextables.options import PREFIX, known_options
from indextables.sql.command import Token, tokens, unquoted

__all__ = ["CANNOT_ALTER", "what_it_alters"]

CANNOT_ALTER = (
    "this form of ALTER TABLE would change what Spark's catalog notes of a table of IndexTables, and not the table: "
    "ADD COLUMNS, RENAME COLUMN, DROP COLUMNS, ALTER COLUMN and SET TBLPROPERTIES change the table. Nothing was changed"
)

_COLUMNS = {
    "RENAME": ("COLUMN",),
    "DROP": ("COLUMN", "COLUMNS"),
    "ADD": ("COLUMN", "COLUMNS"),
    "REPLACE": ("COLUMN", "COLUMNS"),
}


def what_it_alters(text: str) -> str | None:
    """`columns` or `properties`, if that is what an ALTER TABLE changes and our tables cannot follow; else None."""
    listed = [token for _, token in zip(range(10_000), tokens(text), strict=False)]
    if [token.upper for token in listed[:2]] != ["ALTER", "TABLE"]:
        return None
    words = [token.upper for token in listed]
    for at in range(3, len(words)):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        if following in _COLUMNS.get(word, ()) or word == "CHANGE":
            return "columns"
        if word in ("ALTER", "MODIFY") and following == "COLUMN":
            # A comment harms nobody.
            return None if "COMMENT" in words[at:] and "TYPE" not in words[at:] else "columns"
        if word in ("SET", "UNSET") and following == "TBLPROPERTIES":
            return "properties" if any(_is_ours(token) for token in listed[at:]) else None
    return None


def _is_ours(token: Token) -> bool:
    if token.kind != "text":
        return False
    key = unquoted(token).lower().removeprefix(PREFIX)
    return key.startswith("indexing.") or any(
        key in {name.lower() for name in (option.key, *option.aliases)} for option in known_options()
    )
