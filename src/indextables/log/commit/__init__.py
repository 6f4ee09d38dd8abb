"""A commit goes from staged changes to an outcome: this room judges conflicts and puts version files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.log.commit import head, permission
    from indextables.log.commit.claims import Claim, claim, newest_claims, reserve
    from indextables.log.commit.conflict import bring_rows, merge_registry
    from indextables.log.commit.create import Created, create_table, new_metadata
    from indextables.log.commit.head import Head
    from indextables.log.commit.personal import personal_columns
    from indextables.log.commit.resolve import retry_times, upgrade_protocol
    from indextables.log.commit.row_ids import counted, next_row_id
    from indextables.log.commit.rule import Landed
    from indextables.log.commit.sharing import Queue, queue_of, shareable
    from indextables.log.commit.staged import Files, Staged, changes_data, content_of, files_of, has_vectors, removes_of
    from indextables.log.commit.transaction import Transaction

__all__ = [
    "Claim",
    "Created",
    "Files",
    "Head",
    "Landed",
    "Queue",
    "Staged",
    "Transaction",
    "bring_rows",
    "changes_data",
    "claim",
    "content_of",
    "counted",
    "create_table",
    "files_of",
    "has_vectors",
    "head",
    "merge_registry",
    "new_metadata",
    "newest_claims",
    "next_row_id",
    "permission",
    "personal_columns",
    "queue_of",
    "removes_of",
    "reserve",
    "retry_times",
    "shareable",
    "upgrade_protocol",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "claims": ("Claim", "claim", "newest_claims", "reserve"),
            "conflict": ("bring_rows", "merge_registry"),
            "create": ("Created", "create_table", "new_metadata"),
            "head": ("Head",),
            "resolve": ("retry_times", "upgrade_protocol"),
            "personal": ("personal_columns",),
            "row_ids": ("counted", "next_row_id"),
            "rule": ("Landed",),
            "sharing": ("Queue", "queue_of", "shareable"),
            "staged": ("Files", "Staged", "changes_data", "content_of", "files_of", "has_vectors", "removes_of"),
            "transaction": ("Transaction",),
        },
    )
