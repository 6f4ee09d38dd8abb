"""A shard answers a plan for some rows: an opened index, or a set of rows that is the whole answer."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import tantivy

from indextables.process import Lock
from indextables.split.index import RowMask, native_read
from indextables.split.query import Boosted, Plan, Terms, Unscored, scored_leaves
from indextables.split.search.carrier import TermStats, boost_of
from indextables.split.search.components import needed
from indextables.split.search.hits import Hits, SearchMetrics, no_hits
from indextables.split.search.tantivy import BoostOf, QueryBuilder
from indextables.split.search.virtual import VirtualIndex

_MOST_KEPT = 1_000
"""Hits that are kept with a plan."""
_AT_ONCE = 4_096
"""Hits that are asked for with their count; more take a second search, which knows how many there are."""

_SMALLEST = 1e-30
"""Factors from here to its inverse keep a score what it is, a number above 0."""


class Shard(Protocol):
    """Answers a plan for some rows."""

    @property
    def held_bytes(self) -> int:
        """What keeping it costs beyond what others hold too."""
        ...

    def count(self) -> int: ...

    def top(self, limit: int) -> Hits:
        """The best `limit` hits; equal scores by split and row."""
        ...

    def everything(self) -> Hits:
        """All hits, by split and row, with the score 0."""
        ...


class RowsShard:
    """Rows that are known already, each with the score 0."""

    def __init__(self, places: Sequence[int], masks: Sequence[RowMask]) -> None:
        found = [np.flatnonzero(mask) for mask in masks]
        splits = np.repeat(np.array(places, dtype=np.int64), [len(rows) for rows in found])
        rows = np.concatenate(found) if found else np.zeros(0, np.int64)
        self._hits = Hits(splits, rows.astype(np.int64), np.zeros(len(rows), np.float32))

    @property
    def held_bytes(self) -> int:
        return self._hits.splits.nbytes + self._hits.rows.nbytes + self._hits.scores.nbytes

    def count(self) -> int:
        return len(self._hits)

    def top(self, limit: int) -> Hits:
        return self._hits.take(np.arange(min(limit, len(self._hits))))

    def everything(self) -> Hits:
        return self._hits


class IndexShard:
    """A plan on an opened index."""

    def __init__(self, index: VirtualIndex, places: Sequence[int], plan: Plan, everywhere: TermStats | None) -> None:
        self.index = index
        self.places = np.array([*places, -1], dtype=np.int64)
        self.plan = plan
        self._queries: dict[bool, tantivy.Query] = {}
        self._boosts: BoostOf | None = None
        self._counted: int | None = None
        self._best: tuple[int, Hits] | None = None
        if everywhere is not None:
            self._boosts = partial(boost_of, everywhere=everywhere, here=index.counted(plan))
        self._builder = QueryBuilder(index.index, index.searcher, self._boosts)

    @property
    def held_bytes(self) -> int:
        return self.index.alive_bytes

    def query(self, *, scored: bool) -> tantivy.Query:
        """The plan as Tantivy takes it."""
        found = self._queries.get(scored)
        if found is not None:
            return found
        with native_read("a split"):
            found = self._builder.scored(self.plan) if scored else self._builder.unscored(self.plan)
            self._queries[scored] = found
        return found

    def count(self) -> int:
        # The index never changes, so that an answer stays one. Two threads that ask at once both work.
        counted = self._counted
        if counted is None:
            counted = self._counted = self._count()
        return counted

    def top(self, limit: int) -> Hits:
        # Kept for the same question again and for its earlier pages; a longer list is asked for anew.
        best = self._best
        if best is None or best[0] < limit:
            found = self._ranked(limit)
            best = limit if len(found) == limit else sys.maxsize, found
            if limit <= _MOST_KEPT:
                self._best = best
        found = best[1]
        return found if len(found) <= limit else found.take(np.arange(limit))

    def _ranked(self, limit: int) -> Hits:
        factor, leaf = self._one_factor()
        if leaf is None:
            scored = any(True for _ in scored_leaves(self.plan))
            return self.hits(self.run(self.query(scored=scored), limit=limit, count=False).hits)
        with native_read("a split"):
            query = self._builder.plain(leaf)
        found = self.hits(self.run(query, limit=limit, count=False).hits)
        # Twice as wide as what Tantivy gives, so that no two scores become one and the order stays.
        return Hits(found.splits, found.rows, found.scores.astype(np.float64) * factor)

    def _one_factor(self) -> tuple[float, Terms | None]:
        """The words that are all of the plan, if they are, and what their scores are multiplied by.

        Tantivy scores a bare term by a loop made for it, and one in a boost by calls for each row, which takes half as
        long again.
        """
        factor, plan = 1.0, self.plan
        while isinstance(plan, Boosted):
            factor, plan = factor * plan.factor, plan.plan
        if not isinstance(plan, Terms):
            return 1.0, None
        factor *= 1.0 if self._boosts is None else self._boosts(plan)
        return (factor, plan) if _SMALLEST < factor < 1 / _SMALLEST and factor != 1.0 else (1.0, None)

    def _count(self) -> int:
        term = self._only_term()
        if term is not None:
            with native_read("a split"):
                return int(self.index.searcher.doc_freq(term.target.address, term.terms[0][1]))
        # Scoring as usual is quicker than giving everything the score 0, if what it reads is here.
        ready = needed(self.plan, scored=True) <= self.index.whole
        query = self._counting() if ready else self.query(scored=False)
        return int(self.run(query, limit=1).count)

    def everything(self) -> Hits:
        query = self.query(scored=False)
        found = self.run(query, limit=_AT_ONCE)
        total = int(found.count)
        # Tantivy makes room for as many as it may find: few are found at once, and how many there are with them.
        return self.hits(found.hits if total <= _AT_ONCE else self.run(query, limit=total, count=False).hits)

    def _only_term(self) -> Terms | None:
        """The term whose document frequency is the answer: nothing else is asked, and no row is hidden."""
        plan = self.plan.plan if isinstance(self.plan, Unscored | Boosted) else self.plan
        if not isinstance(plan, Terms) or len(plan.terms) > 1 or self.index.carrier is not None:
            return None
        return plan if all(member.alive is None for member in self.index.members) else None

    def _counting(self) -> tantivy.Query:
        with native_read("a split"):
            return self._builder.plain(self.plan)

    def run(self, query: tantivy.Query, **settings: Any) -> Any:
        """Search; what Tantivy refuses or dies of is IndexUnavailable. The GIL is released meanwhile."""
        with native_read("a split"):
            return self.index.searcher.search(query, **settings)

    def hits(self, found: list[tuple[Any, tantivy.DocAddress]]) -> Hits:
        """Columns of what Tantivy gives as objects."""
        if not found:
            return no_hits()
        orders = np.fromiter((address.segment_ord for _, address in found), np.int64, len(found))
        rows = np.fromiter((address.doc for _, address in found), np.int64, len(found))
        scores = np.fromiter((score for score, _ in found), np.float32, len(found))
        return Hits(self.places[orders], rows, scores)


class ReadyShards:
    """The shards of the plans asked last: the next page of hits, the count, the same question again. Thread-safe.

    At most `most` plans, whose shards hold at most `max_bytes` together.
    """

    def __init__(self, most: int = 64, max_bytes: int = 256 << 20) -> None:
        self._most = most
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._kept: OrderedDict[object, tuple[list[Shard], SearchMetrics, int]] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: object) -> tuple[list[Shard], SearchMetrics] | None:
        """The shards kept under this key, and what it cost to make them."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[:2]

    def keep(self, key: object, shards: list[Shard], metrics: SearchMetrics) -> None:
        """Keep them, unless they hold more than all may."""
        size = sum(shard.held_bytes for shard in shards)
        if size > self._max_bytes or any(index.is_closed for index in map(_index_of, shards) if index is not None):
            return
        with self._lock:
            before = self._kept.pop(key, None)
            self.size_bytes += size - (0 if before is None else before[2])
            self._kept[key] = (shards, metrics, size)
            while len(self._kept) > self._most or self.size_bytes > self._max_bytes:
                self.size_bytes -= self._kept.popitem(last=False)[1][2]

    def let_go(self, index: VirtualIndex) -> None:
        """Forget what was made of an index that is closed."""
        with self._lock:
            gone = [key for key, kept in self._kept.items() if any(_index_of(shard) is index for shard in kept[0])]
            for key in gone:
                self.size_bytes -= self._kept.pop(key)[2]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept.clear()
            self.size_bytes = 0


def _index_of(shard: Shard) -> VirtualIndex | None:
    return shard.index if isinstance(shard, IndexShard) else None
