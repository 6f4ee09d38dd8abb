"""SELECT over pinned snapshots in one process, by DataFusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.sql.local.provider import Source
    from indextables.sql.local.session import LocalSession, split_statements
    from indextables.sql.local.snapshots import OWN_NAME, ForeignRows, SnapshotSource, select

__all__ = [
    "OWN_NAME",
    "ForeignRows",
    "LocalSession",
    "SnapshotSource",
    "Source",
    "select",
    "split_statements",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "provider": ("Source",),
            "session": ("LocalSession", "split_statements"),
            "snapshots": ("OWN_NAME", "ForeignRows", "SnapshotSource", "select"),
        },
    )
