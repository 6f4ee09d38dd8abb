"""A plan is answered over many splits: this room finds rows, scores, aggregates and highlights them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.split.search.aggregates import aggregate
    from indextables.split.search.carrier import TermStats, merge_stats, scored_terms
    from indextables.split.search.components import FAST, FIELDNORM, IDX, POS, TERM
    from indextables.split.search.explain import answerers, explain_query
    from indextables.split.search.highlight import snippets
    from indextables.split.search.hits import Hits, Ints, SearchMetrics
    from indextables.split.search.searcher import OrderBy, SearchMemory, SplitSearcher, open_cache
    from indextables.split.search.state import States
    from indextables.split.search.virtual import OpenIndexes

__all__ = [
    "FAST",
    "FIELDNORM",
    "IDX",
    "POS",
    "TERM",
    "Hits",
    "Ints",
    "OpenIndexes",
    "OrderBy",
    "SearchMemory",
    "SearchMetrics",
    "SplitSearcher",
    "States",
    "TermStats",
    "aggregate",
    "answerers",
    "explain_query",
    "merge_stats",
    "open_cache",
    "scored_terms",
    "snippets",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "aggregates": ("aggregate",),
            "carrier": ("TermStats", "merge_stats", "scored_terms"),
            "components": ("FAST", "FIELDNORM", "IDX", "POS", "TERM"),
            "explain": ("answerers", "explain_query"),
            "highlight": ("snippets",),
            "hits": ("Hits", "Ints", "SearchMetrics"),
            "searcher": ("OrderBy", "SearchMemory", "SplitSearcher", "open_cache"),
            "state": ("States",),
            "virtual": ("OpenIndexes",),
        },
    )
