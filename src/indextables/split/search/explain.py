"""How is a query understood, and who answers it? For people, not for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from indextables.query.expr import Node as Predicate
from indextables.query.expr import columns_of
from indextables.split.query import Leaf, Plan, Where, leaves
from indextables.split.search.answer import IndexShard, Shard
from indextables.split.search.components import needed
from indextables.split.search.hits import SearchMetrics
from indextables.split.search.searcher import SplitSearcher
from indextables.split.search.tantivy import answerable


def explain_query(searcher: SplitSearcher, query: str | Plan | None, where: Predicate | None = None) -> dict[str, Any]:
    """How a query is understood and answered: its conditions, the components read, opened indexes, fallbacks."""
    plan = searcher.plan(query, where)
    metrics = SearchMetrics()

    def opened() -> list[Shard]:
        return searcher.shards(plan, metrics, scored=True)

    shards = [shard for shard in searcher.guarded(plan, metrics, opened) if isinstance(shard, IndexShard)]
    return {
        "conditions": [_condition(leaf) for leaf in leaves(plan)],
        "components": sorted(needed(plan, scored=True)),
        "indexes": len(shards),
        "segments": sum(shard.index.searcher.num_segments for shard in shards),
        "splits": metrics.splits,
        "splits_loaded": metrics.splits_loaded,
        "rows_scanned": metrics.rows_scanned,
        "fallbacks": [msgspec.to_builtins(fallback) for fallback in metrics.fallbacks],
    }


def answerers(plan: Plan) -> list[str]:
    """Who answers the conditions of a plan: the index, the columns, or both."""
    found = {_condition(leaf)["answered_by"] for leaf in leaves(plan)}
    return [who for who in ("index", "columns") if who in found] or ["index"]


def _condition(leaf: Leaf) -> dict[str, Any]:
    return {
        "kind": type(leaf).__name__,
        "columns": list(columns_of(leaf.predicate)) if isinstance(leaf, Where) else [leaf.target.column],
        "answered_by": "index" if answerable(leaf) else "columns",
    }
