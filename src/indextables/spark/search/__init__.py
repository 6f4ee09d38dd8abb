"""How a search travels to tasks and comes back as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.spark.search.found import found_rows, searcher_of, term_stats
    from indextables.spark.search.marked import Mark, marked_rows
    from indextables.spark.search.search import Question, count_matches, search_rows

__all__ = [
    "Mark",
    "Question",
    "count_matches",
    "found_rows",
    "marked_rows",
    "search_rows",
    "searcher_of",
    "term_stats",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "found": ("found_rows", "searcher_of", "term_stats"),
            "marked": ("Mark", "marked_rows"),
            "search": ("Question", "count_matches", "search_rows"),
        },
    )
