"""Rows change on a cluster: Spark finds them and computes what comes in their place, tasks write it, one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.spark.change.conditions import Text, check_text_or_column
    from indextables.spark.change.door import Door
    from indextables.spark.change.merging import MergeAsked, merge_rows, upsert_rows
    from indextables.spark.change.selecting import delete_rows, update_rows
    from indextables.spark.change.source import Source

__all__ = [
    "Door",
    "MergeAsked",
    "Source",
    "Text",
    "check_text_or_column",
    "delete_rows",
    "merge_rows",
    "update_rows",
    "upsert_rows",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "conditions": ("Text", "check_text_or_column"),
            "door": ("Door",),
            "merging": ("MergeAsked", "merge_rows", "upsert_rows"),
            "selecting": ("delete_rows", "update_rows"),
            "source": ("Source",),
        },
    )
