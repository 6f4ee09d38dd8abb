"""The feed of changes: this room derives what versions took and brought from vectors, splits and row ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.feed.rows import (
        Asked,
        feed_schema,
        read_bundle,
        read_net,
    )
    from indextables.table.feed.tail import FeedTail
    from indextables.table.feed.units import Bundle, Unit
    from indextables.table.feed.verb import Changes, Feed, changes, columns_of_feed, naming_the_first, range_of

__all__ = [
    "Asked",
    "Bundle",
    "Changes",
    "Feed",
    "FeedTail",
    "Unit",
    "changes",
    "columns_of_feed",
    "feed_schema",
    "naming_the_first",
    "range_of",
    "read_bundle",
    "read_net",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "rows": (
                "Asked",
                "feed_schema",
                "read_bundle",
                "read_net",
            ),
            "tail": ("FeedTail",),
            "units": ("Bundle", "Unit"),
            "verb": ("Changes", "Feed", "changes", "columns_of_feed", "naming_the_first", "range_of"),
        },
    )
