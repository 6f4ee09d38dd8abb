"""`SplitSearcher` searches many splits: top hits with scores, all matches, counts, order, rows.

`SplitSearcher` is made for a fixed list of splits (a snapshot) and may be used by many threads: Tantivy and Arrow let
go of the GIL while they work. Scores are those of one big index over the list, however the rows are spread over files;
processes that search parts of a list exchange `TermStats` first (`collect_stats`, `merge_stats`).
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TypeVar

import cachetools
import msgspec
import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.ambient import Ambient, Pool
from indextables.env import Env
from indextables.errors import IndexUnavailable, InvalidArgument, QueryWarning, SplitCorrupt
from indextables.process import Lock
from indextables.query.expr import Node as Predicate
from indextables.split.file import SplitRef, distinct, index_array, without_columns
from indextables.split.index import SMALL_BYTES, IndexCache, IndexPlan
from indextables.split.query import (
    Catalog,
    Everything,
    Operator,
    Plan,
    TermPrefix,
    boolean,
    doubts,
    leaves,
    plan_predicate,
    plan_query,
    unscored,
)
from indextables.split.search.answer import Shard
from indextables.split.search.carrier import TermStats
from indextables.split.search.hits import Hits, Ints, SearchMetrics, SearchResult, join_hits, no_hits
from indextables.split.search.order import OrderBy, ordered_hits
from indextables.split.search.shards import ShardMaker
from indextables.split.search.state import SplitState, States
from indextables.split.search.virtual import OpenIndexes

__all__ = ["OrderBy", "SearchMemory", "SplitSearcher", "open_cache"]

T = TypeVar("T")

SCORE = "_score"
_FEW_ROWS = 64
_MOST_KEPT = 4096
"""Characters of a query whose plan is kept."""
_LIKE_DAMAGE = ("panic", "An IO error occurred", "Data corrupted")
"""How Tantivy's words begin when it is the bytes that it does not take, and not the question."""


def open_cache(options: opt.Options, ambient: Ambient) -> IndexCache:
    """The index cache that the options name. Raises InvalidArgument for a folder that cannot be used."""
    given = options[opt.CACHE_DIRECTORY]
    # One level below the temporary folder: whoever owns a folder in between could exchange what lies in it.
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"indextables-cache-{os.getuid()}"
    return IndexCache(folder, options[opt.CACHE_MAX_SIZE], ambient, options[opt.CACHE_ROWS_SIZE], SMALL_BYTES)


class SearchMemory(msgspec.Struct, frozen=True, eq=False):
    """What searchers share: files of indexes on disk, opened indexes, what is known of splits.

    Each part has its own bound. `scope` tells the splits of one table, as one store with its credentials sees it, from
    those of others in the same memory. Safe for threads, not for a child that is forked while one of them uses it.
    """

    cache: IndexCache
    opened: OpenIndexes = msgspec.field(default_factory=OpenIndexes)
    states: States = msgspec.field(default_factory=States)
    scope: Hashable = None


class SplitSearcher:
    """Searches a fixed list of splits.

    1. Every answer is exact: a split whose index is damaged, missing, of another version or analyzer is answered from
       its rows, and named in `metrics.fallbacks`.
    2. Deleted rows (the vector of each `SplitRef`) are never seen.
    3. Equal scores are ordered by place of the split, then row number.

    Raises DvCorrupt, SplitCorrupt for rows that cannot be read, the errors of the store.
    """

    def __init__(
        self,
        env: Env,
        splits: Sequence[SplitRef],
        *,
        schema: pa.Schema | None = None,
        index: IndexPlan | None = None,
        memory: SearchMemory | None = None,
    ) -> None:
        """`schema` and `index` are the table's; without them the last split's stand for it.

        `memory` is kept by whoever makes searchers of one table version after version.
        """
        memory = SearchMemory(open_cache(env.options, env.ambient)) if memory is None else memory
        self.env = env
        self.cache, self.opened = memory.cache, memory.opened
        self._options, self._ambient = env.options, env.ambient
        self._pool: Pool = "splits" if env.store.is_local else "requests"
        self.states = memory.states.load(memory.scope, env.store, self.cache, splits, self._spread)
        last = self.states[-1] if self.states else None
        self.schema = schema if schema is not None else last.schema if last is not None else pa.schema([])
        self.index = index if index is not None else _longest_plan(self.states)
        self._lock = Lock()
        self._plans: cachetools.Cache[object, Plan] = cachetools.FIFOCache(256)
        self._maker = ShardMaker(
            self.states, self.schema, self.index, self.cache, self.opened, self._ambient, memory.scope, self._pool
        )

    def plan(
        self,
        query: str | Plan | None,
        where: Predicate | None = None,
        *,
        default_fields: Sequence[str] | None = None,
        default_operator: Operator | None = None,
    ) -> Plan:
        """What a query and a predicate ask for, together. Raises QueryInvalid with the position, LimitExceeded.

        Defaults are those of the options `search.defaultFields` and `search.defaultOperator`.
        """
        if isinstance(query, str):
            given = [name.strip() for name in self._options[opt.SEARCH_DEFAULT_FIELDS].split(",") if name.strip()]
            fields = (tuple(given) or None) if default_fields is None else tuple(default_fields)
            usual: Operator = "and" if self._options[opt.SEARCH_DEFAULT_OPERATOR] == "and" else "or"
            plan = self._planned(query, fields, default_operator or usual)
        else:
            plan = Everything() if query is None else query
        if where is None:
            return plan
        return boolean(must=(plan, plan_predicate(where, self.schema, self.index)))

    def search(
        self,
        query: str | Plan | None,
        *,
        where: Predicate | None = None,
        limit: int | None = 10,
        offset: int = 0,
        order_by: OrderBy | None = None,
        stats: TermStats | None = None,
        count: bool = False,
    ) -> SearchResult:
        """The hits [offset, offset + limit), best first, or in the order of a column; all of them without a limit.

        `stats` are those of a larger collection that these splits are part of. `count` asks for the total too.
        """
        if (limit is not None and limit < 0) or offset < 0:
            raise InvalidArgument("limit and offset are at least 0", limit=limit, offset=offset)
        plan = self.plan(query, where)
        metrics = SearchMetrics()
        everyone = sum(state.num_rows for state in self.states)
        wanted = everyone if limit is None else min(offset + limit, everyone)

        def run() -> SearchResult:
            shards = self._maker.shards(plan, metrics, scored=order_by is None, everywhere=stats)
            total = sum(self._count_all(shards)) if count or limit is None else None
            most = wanted if total is None else min(wanted, total)
            if most == 0 or limit == 0:
                return SearchResult(no_hits(), total, metrics)
            if order_by is not None:
                hits = ordered_hits(self._maker, plan, order_by, most, metrics)
            else:
                hits = join_hits(self._ambient.map("splits", lambda shard: shard.top(most), shards)).best_first()
            end = len(hits) if limit is None else min(len(hits), offset + limit)
            return SearchResult(hits.take(np.arange(min(offset, end), end)), total, metrics)

        return self.guarded(plan, metrics, run)

    def count(self, query: str | Plan | None, *, where: Predicate | None = None) -> int:
        """How many rows match; no row is read."""
        plan = self.plan(query, where)
        metrics = SearchMetrics()
        return self.guarded(
            plan, metrics, lambda: sum(self._count_all(self._maker.shards(plan, metrics, scored=False)))
        )

    def matches(self, query: str | Plan | None, *, where: Predicate | None = None) -> SearchResult:
        """Every matching row, by split and row, without scores."""
        plan = unscored(self.plan(query, where))
        metrics = SearchMetrics()

        def run() -> SearchResult:
            shards = self._maker.shards(plan, metrics, scored=False)
            hits = join_hits(self._ambient.map("splits", lambda shard: shard.everything(), shards)).in_place()
            return SearchResult(hits, len(hits), metrics)

        return self.guarded(plan, metrics, run)

    def collect_stats(self, query: str | Plan | None, *, where: Predicate | None = None) -> TermStats:
        """What the scores of a query depend on, for these splits: add up those of all parts of a collection."""
        plan = self.plan(query, where)
        return self.guarded(plan, SearchMetrics(), lambda: self._maker.stats(plan))

    def rows(self, hits: Hits, columns: Sequence[str] | None = None, *, score: bool = False) -> pa.Table:
        """The rows of hits, in their order, in the types of the schema; with `score` a column `_score` in addition."""
        names = list(self.schema.names if columns is None else columns)
        unknown = [name for name in names if self.schema.get_field_index(name) < 0]
        if unknown:
            message = f"there is no column {unknown[0]!r}; there are {', '.join(self.schema.names[:20])}"
            raise InvalidArgument(message, column=unknown[0])
        schema = pa.schema([self.schema.field(name) for name in names])
        places = distinct(hits.splits)

        def one(place: np.int64) -> pa.Table:
            table = self.states[int(place)].fetch(hits.rows[hits.splits == place], names)
            return table if table.schema.equals(schema, check_metadata=True) else table.cast(schema)

        found = list(self._ambient.map(self._pool, one, list(places))) if names else []
        # Not `empty_table()`, which imports pandas where it is installed.
        nothing = [pa.nulls(0, field.type) for field in schema] if not found else []
        table = pa.concat_tables(found) if found else pa.Table.from_arrays(nothing, schema=schema)
        if len(found) > 1:
            grouped = np.argsort(hits.splits, kind="stable")
            back = np.empty(len(grouped), dtype=np.int64)
            back[grouped] = np.arange(len(grouped))
            table = _reordered(table, back)
        if score:
            scores = pa.py_buffer(hits.scores.astype(np.float64))
            values = pa.Array.from_buffers(pa.float64(), len(hits), [None, scores])
            columns = [*table.columns, values]
            return pa.Table.from_arrays(columns, schema=schema.append(pa.field(SCORE, pa.float64())))
        return table if names else without_columns(len(hits))

    def prewarm(self, components: Sequence[str] = ("term", "idx", "fieldnorm", "pos", "fast")) -> None:
        """Load these components of all splits now, and open them."""
        wanted = frozenset(components)

        def one(state: SplitState) -> None:
            if state.usable:
                state.load(wanted)

        list(self._ambient.map(self._pool, one, self.states))

    def shards(self, plan: Plan, metrics: SearchMetrics, *, scored: bool) -> list[Shard]:
        """Who answers a plan: for aggregations, which read more of an index than hits."""
        return self._maker.shards(plan, metrics, scored=scored)

    def guarded(self, plan: Plan, metrics: SearchMetrics, run: Callable[[], T]) -> T:
        """`run`; if an index gives up, again with files loaded anew once, then without the indexes that give up still.

        Raises IndexUnavailable if none of them is to blame.
        """
        failures = 0
        while True:
            known = self._unusable()
            try:
                return run()
            except IndexUnavailable as error:
                failures += 1
                self._maker.forget()
                if self._unusable() == known and not self._learned(plan, error, renew=failures == 1):
                    self._last_resort(error, failures)
                metrics.fallbacks.clear()

    def _planned(self, query: str, fields: tuple[str, ...] | None, operator: Operator) -> Plan:
        key = (query, fields, operator)
        plan = self._plans.get(key)
        if plan is None:
            catalog = Catalog(self.schema, self.index, fields, operator, self._options[opt.TIME_ZONE])
            plan = plan_query(query, catalog)
            for doubt in doubts(query, operator):
                warnings.warn(doubt, QueryWarning, stacklevel=2)
            if len(query) < _MOST_KEPT:
                with self._lock:
                    self._plans[key] = plan
        return plan

    def _learned(self, plan: Plan, error: IndexUnavailable, *, renew: bool) -> bool:
        """Find out which split or leaf was to blame; False if nothing new was found.

        With `renew` a split is to blame only if its index gives up with files that come from the split itself: those
        of the cache may have been damaged since they were proven.
        """
        if "max expansions" in str(error):
            phrases = {leaf for leaf in leaves(plan) if isinstance(leaf, TermPrefix) and leaf.before}
            if not phrases <= self._maker.refused:
                self._maker.refused |= phrases
                return True
            return False
        learned = False
        for state in self.states:
            fault = self._fault(plan, state) if state.usable else None
            if fault is None:
                continue
            learned = True
            if renew and state.usable:
                fault = self._fault(plan, state) if self._renew(state) else None
            if fault is not None:
                state.reason = str(fault.details.get("reason", fault))
        return learned

    def _fault(self, plan: Plan, state: SplitState) -> IndexUnavailable | None:
        """What one split has against a plan when it is opened alone."""
        alone = ShardMaker([state], self.schema, self.index, self.cache, OpenIndexes(), self._ambient)
        try:
            for shard in alone.shards(plan, SearchMetrics(), scored=True):
                shard.top(1)
        except IndexUnavailable as fault:
            return fault
        return None

    def _renew(self, state: SplitState) -> bool:
        """Load an index anew; False if it cannot be used."""
        try:
            state.renew()
        except SplitCorrupt as error:
            state.reason = str(error.details.get("reason", error))
        return state.usable

    def _last_resort(self, error: IndexUnavailable, failures: int) -> None:
        """No split is to blame alone: once more with all files anew, if it looks like damage. Raises `error` else."""
        if failures > 1 or not str(error.details.get("reason")).startswith(_LIKE_DAMAGE):
            raise error
        usable = [state for state in self.states if state.usable]
        list(self._ambient.map("splits", self._renew, usable))

    def _unusable(self) -> int:
        return sum(not state.usable for state in self.states)

    def _count_all(self, shards: Sequence[Shard]) -> list[int]:
        return list(self._ambient.map("splits", lambda shard: shard.count(), shards))

    def _spread(
        self, call: Callable[[tuple[int, SplitRef]], SplitState], items: Sequence[tuple[int, SplitRef]]
    ) -> list[SplitState]:
        return list(self._ambient.map(self._pool, call, items))


def _reordered(table: pa.Table, order: Ints) -> pa.Table:
    """The rows in another order. A few come piece by piece: taking them would load Arrow's compute functions."""
    if len(order) <= _FEW_ROWS:
        return pa.concat_tables([table.slice(row, 1) for row in order.tolist()]).combine_chunks()
    return table.take(index_array(order))


def _longest_plan(states: Sequence[SplitState]) -> IndexPlan:
    plans = [state.plan for state in states if state.usable]
    return max(reversed(plans), key=lambda plan: len(plan.fields)) if plans else IndexPlan(())
