"""Purge deletes data files that no readable version names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.maintenance.purge import verb
    from indextables.table.maintenance.purge.keys import Hashes, Keys, hashes_of
    from indextables.table.maintenance.purge.plan import LOG_END, Names, listed_table
    from indextables.table.maintenance.purge.verb import PurgeReport, purge

__all__ = [
    "LOG_END",
    "Hashes",
    "Keys",
    "Names",
    "PurgeReport",
    "hashes_of",
    "listed_table",
    "purge",
    "verb",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "keys": ("Hashes", "Keys", "hashes_of"),
            "plan": ("LOG_END", "Names", "listed_table"),
            "verb": ("PurgeReport", "purge"),
        },
    )
