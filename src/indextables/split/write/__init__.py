"""Rows go in, splits come out: this room writes, merges and indexes splits anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.split.write.index import HEAP_CEILING, SegmentBuilder
    from indextables.split.write.merge import Broken, Merged, RowDigest, merge_splits, overridden, project
    from indextables.split.write.reindex import foreign_index, stale_fields, stale_in
    from indextables.split.write.scratch import SYSTEM, Places, Scratch, in_memory
    from indextables.split.write.writer import SplitWriter, WrittenSplit

__all__ = [
    "HEAP_CEILING",
    "SYSTEM",
    "Broken",
    "Merged",
    "Places",
    "RowDigest",
    "Scratch",
    "SegmentBuilder",
    "SplitWriter",
    "WrittenSplit",
    "foreign_index",
    "in_memory",
    "merge_splits",
    "overridden",
    "project",
    "stale_fields",
    "stale_in",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "index": ("HEAP_CEILING", "SegmentBuilder"),
            "merge": ("Broken", "Merged", "RowDigest", "merge_splits", "overridden", "project"),
            "reindex": ("foreign_index", "stale_fields", "stale_in"),
            "scratch": ("SYSTEM", "Places", "Scratch", "in_memory"),
            "writer": ("SplitWriter", "WrittenSplit"),
        },
    )
