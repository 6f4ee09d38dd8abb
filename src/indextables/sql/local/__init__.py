"""SELECT over pinned snapshots in one process, by DataFusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.sql.local.session import LocalSession, split_statements
    from indextables.sql.local.snapshots import SnapshotSource, select

__all__ = [
    "LocalSession",
    "SnapshotSource",
    "select",
    "split_statements",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "session": ("LocalSession", "split_statements"),
            "snapshots": ("SnapshotSource", "select"),
        },
    )
