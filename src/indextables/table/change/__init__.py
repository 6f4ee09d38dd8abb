"""Rows change: this room finds them, writes what comes in their place, and commits both in one version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.change import delete, merge, update
    from indextables.table.change.asked import DeleteAsked, UpdateAsked, UpsertAsked
    from indextables.table.change.assigned import check_storable, is_storable
    from indextables.table.change.clauses import (
        Aliases,
        Clause,
        check_clauses,
        keys_in,
        left_by_star,
        side_of,
        source_columns,
        unused_prefix,
    )
    from indextables.table.change.delete import Delete, scope_of
    from indextables.table.change.explaining import explain
    from indextables.table.change.landing import Terms, execute, repeated, terms_of
    from indextables.table.change.located import (
        Located,
        Selection,
        Tally,
        all_rows,
        locate,
        may_select,
        selected,
        whole_files,
    )
    from indextables.table.change.losses import FileCounts
    from indextables.table.change.merge import check_known, shown
    from indextables.table.change.merge_told import merge_counts, merge_metrics, merge_parameters
    from indextables.table.change.statement import ChangeReport, Counts, Prepared, Run, Statement
    from indextables.table.change.told import CHANGED, told_of
    from indextables.table.change.update import Update, rows_at

__all__ = [
    "CHANGED",
    "Aliases",
    "ChangeReport",
    "Clause",
    "Counts",
    "Delete",
    "DeleteAsked",
    "FileCounts",
    "Located",
    "Prepared",
    "Run",
    "Selection",
    "Statement",
    "Tally",
    "Terms",
    "Update",
    "UpdateAsked",
    "UpsertAsked",
    "all_rows",
    "check_clauses",
    "check_known",
    "check_storable",
    "delete",
    "execute",
    "explain",
    "is_storable",
    "keys_in",
    "left_by_star",
    "locate",
    "may_select",
    "merge",
    "merge_counts",
    "merge_metrics",
    "merge_parameters",
    "repeated",
    "rows_at",
    "scope_of",
    "selected",
    "shown",
    "side_of",
    "source_columns",
    "terms_of",
    "told_of",
    "unused_prefix",
    "update",
    "whole_files",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "asked": ("DeleteAsked", "UpdateAsked", "UpsertAsked"),
            "assigned": ("check_storable", "is_storable"),
            "clauses": (
                "Aliases",
                "Clause",
                "check_clauses",
                "keys_in",
                "left_by_star",
                "side_of",
                "source_columns",
                "unused_prefix",
            ),
            "delete": ("Delete", "scope_of"),
            "explaining": ("explain",),
            "landing": ("Terms", "execute", "repeated", "terms_of"),
            "located": ("Located", "Selection", "Tally", "all_rows", "locate", "may_select", "selected", "whole_files"),
            "losses": ("FileCounts",),
            "merge": ("check_known", "shown"),
            "merge_told": ("merge_counts", "merge_metrics", "merge_parameters"),
            "statement": ("ChangeReport", "Counts", "Prepared", "Run", "Statement"),
            "told": ("CHANGED", "told_of"),
            "update": ("Update", "rows_at"),
        },
    )
