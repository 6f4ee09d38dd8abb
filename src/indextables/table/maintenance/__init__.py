"""The operator's verbs: restore, truncate, reindex, prewarm, health and repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.maintenance import (
        drop_partitions,
        health,
        mirror,
        prewarm,
        reindex,
        repairing,
        restore,
        truncate,
        verifying,
    )
    from indextables.table.maintenance.drop_partitions import DropReport
    from indextables.table.maintenance.dropping import check_droppable, drop_table
    from indextables.table.maintenance.health import Health
    from indextables.table.maintenance.mirror import MirrorReport
    from indextables.table.maintenance.prewarm import CacheReport, PrewarmReport
    from indextables.table.maintenance.reindex import ReindexReport
    from indextables.table.maintenance.repairing import (
        cache_stats,
        invalidate_caches,
        rebuild,
        recreate_pointer,
        repair,
        repair_table,
        verify,
    )
    from indextables.table.maintenance.restore import RestoreReport
    from indextables.table.maintenance.truncate import TruncateReport
    from indextables.table.maintenance.verifying import verify_table

__all__ = [
    "CacheReport",
    "DropReport",
    "Health",
    "MirrorReport",
    "PrewarmReport",
    "ReindexReport",
    "RestoreReport",
    "TruncateReport",
    "cache_stats",
    "check_droppable",
    "drop_partitions",
    "drop_table",
    "health",
    "invalidate_caches",
    "mirror",
    "prewarm",
    "rebuild",
    "recreate_pointer",
    "reindex",
    "repair",
    "repair_table",
    "repairing",
    "restore",
    "truncate",
    "verify",
    "verify_table",
    "verifying",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "drop_partitions": ("DropReport",),
            "dropping": ("check_droppable", "drop_table"),
            "health": ("Health",),
            "mirror": ("MirrorReport",),
            "prewarm": ("CacheReport", "PrewarmReport"),
            "reindex": ("ReindexReport",),
            "repairing": (
                "cache_stats",
                "invalidate_caches",
                "rebuild",
                "recreate_pointer",
                "repair",
                "repair_table",
                "verify",
            ),
            "restore": ("RestoreReport",),
            "truncate": ("TruncateReport",),
            "verifying": ("verify_table",),
        },
    )
