"""Rows change: this room finds them, writes what comes in their place, and commits both in one version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.change import delete, merge, update
    from indextables.table.change.asked import DeleteAsked, UpdateAsked, UpsertAsked
    from indextables.table.change.clauses import Aliases, Clause
    from indextables.table.change.explaining import FilePlan, explain
    from indextables.table.change.landing import Terms, repeated, terms_of
    from indextables.table.change.statement import ChangeReport

__all__ = [
    "Aliases",
    "ChangeReport",
    "Clause",
    "DeleteAsked",
    "FilePlan",
    "Terms",
    "UpdateAsked",
    "UpsertAsked",
    "delete",
    "explain",
    "merge",
    "repeated",
    "terms_of",
    "update",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "asked": ("DeleteAsked", "UpdateAsked", "UpsertAsked"),
            "clauses": ("Aliases", "Clause"),
            "explaining": ("FilePlan", "explain"),
            "landing": ("Terms", "repeated", "terms_of"),
            "statement": ("ChangeReport",),
        },
    )
