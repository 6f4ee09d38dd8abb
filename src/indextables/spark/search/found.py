"""Rows that a search of a `load()` finds: scored as one index over the whole table, whichever task reads them.

A search with a limit is done by one task, because only one that sees all splits can tell which rows are best. Without
one, every task searches its own splits; the statistics that scores are made of are gathered before, by the planner.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import cachetools
import numpy as np

from indextables.errors import ObjectNotFound, VersionExpired
from indextables.split.search import OpenIndexes, SplitSearcher, States
from indextables.table.read import plain_schema, shared_index_cache
from indextables.table.writing import target_of

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.env import Env
    from indextables.log.wire import Metadata
    from indextables.query.expr import Node
    from indextables.split.file import SplitRef
    from indextables.split.search import TermStats

__all__ = ["found_rows", "searcher_of", "term_stats"]

_ROWS_PER_BATCH = 8192

_LOCK = threading.Lock()
_KEPT: cachetools.LRUCache[str, tuple[OpenIndexes, States]] = cachetools.LRUCache(16)


def searcher_of(env: Env, metadata: Metadata, refs: Sequence[SplitRef]) -> SplitSearcher:
    """A searcher over some splits of a table; what this process opened before is still open."""
    with _LOCK:
        opened, states = _KEPT.setdefault(env.store.url, (OpenIndexes(), States()))
    options = env.over(metadata.configuration)
    target = target_of(metadata, options)
    return SplitSearcher(
        env.store,
        refs,
        schema=plain_schema(target.schema, target.schema.names),
        index=target.plan,
        options=options,
        cache=shared_index_cache(env.options, env.ambient),
        ambient=env.ambient,
        opened=opened,
        states=states,
    )


def term_stats(env: Env, metadata: Metadata, refs: Sequence[SplitRef], query: str) -> TermStats:
    """What scores of a query depend on, of all splits. Raises QueryInvalid, StoreError."""
    return searcher_of(env, metadata, refs).collect_stats(query)


def found_rows(
    env: Env,
    metadata: Metadata,
    version: int,
    refs: Sequence[SplitRef],
    query: str,
    columns: Sequence[str],
    *,
    where: Node | None,
    limit: int | None,
    stats: TermStats | None,
) -> Iterator[pa.Table]:
    """The rows of these splits that match, best first, with `_score` behind the columns.

    Raises QueryInvalid, SplitCorrupt, VersionExpired where purge was faster, StoreError.
    """
    try:
        searcher = searcher_of(env, metadata, refs)
        hits = searcher.search(query, where=where, limit=limit, stats=stats).hits
        for start in range(0, len(hits), _ROWS_PER_BATCH):
            part = hits.take(np.arange(start, min(start + _ROWS_PER_BATCH, len(hits))))
            yield searcher.rows(part, columns, score=True)
    except ObjectNotFound as cause:
        message = f"a file of version {version} is gone from {env.store.url}: purge was faster; load the table again"
        raise VersionExpired(message, version=version, url=env.store.url) from cause
