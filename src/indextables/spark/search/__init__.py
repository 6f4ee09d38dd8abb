"""How a search travels to tasks and comes back as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.spark.search.frames import count_matches, search_rows
    from indextables.spark.search.functions import Asked, asked_in, score, textsearch
    from indextables.spark.search.jobs import fits_driver, live_files
    from indextables.spark.search.marked import answer_frame, count_marked, found_rows, marked_rows, matches_every_row
    from indextables.spark.search.question import Question

__all__ = [
    "Asked",
    "Question",
    "answer_frame",
    "asked_in",
    "count_marked",
    "count_matches",
    "fits_driver",
    "found_rows",
    "live_files",
    "marked_rows",
    "matches_every_row",
    "score",
    "search_rows",
    "textsearch",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "frames": ("count_matches", "search_rows"),
            "functions": ("Asked", "asked_in", "score", "textsearch"),
            "jobs": ("fits_driver", "live_files"),
            "marked": ("answer_frame", "count_marked", "found_rows", "marked_rows", "matches_every_row"),
            "question": ("Question",),
        },
    )
