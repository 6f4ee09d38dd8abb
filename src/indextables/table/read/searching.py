"""Search over a snapshot: all its splits as one index, so that scores do not depend on how rows are spread.

Files are not pruned by `where` here: the statistics that scores are made of are those of the whole table. A predicate
becomes part of the query instead and is answered exactly.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cachetools
import msgspec
import numpy as np
import pyarrow as pa

from indextables import process
from indextables.ambient import Ambient
from indextables.env import Env
from indextables.errors import InvalidArgument
from indextables.log.read import Snapshot
from indextables.log.wire import Metadata
from indextables.options import Options
from indextables.query.expr import Node, columns_of
from indextables.split.file import SplitRef
from indextables.split.index import IndexCache
from indextables.split.search import Hits, OrderBy, SearchMemory, SplitSearcher, TermStats, open_cache
from indextables.table.environment import table_env
from indextables.table.read.inspect import live_rows
from indextables.table.read.plan import check_rows_readable, column_names, prune_files, refs_of, still_there
from indextables.table.read.scan import plain_schema, scan_table
from indextables.table.writing import target_of

__all__ = [
    "SCORE",
    "Searchers",
    "aggregate_rows",
    "count",
    "explain_search",
    "found_batches",
    "order_of",
    "search",
    "searcher_for",
    "searcher_over",
    "shared_index_cache",
    "show_hits",
]

SCORE = "_score"
_BATCH_ROWS = 8192
_MOST_SPLITS = 16_384
"""Splits of all searchers that are kept for who has no handle."""
_LEAST_WEIGHT = 512
"""A searcher counts as so many splits at least."""


class Searchers:
    """Keeps the searcher of the version last searched, and shares memory between versions. Safe for threads.

    A forked child starts anew: a thread of its parent may have been at work on what is kept, holding a lock.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._memory: SearchMemory | None = None
        self._current: tuple[Snapshot, SplitSearcher] | None = None
        self._process = os.getpid()

    def of(self, snapshot: Snapshot) -> SplitSearcher:
        """The searcher over all live splits. Raises NotSupported, PathEscape, DvCorrupt, VersionExpired, StoreError."""
        if self._process != os.getpid():
            self._start()
        with self._lock:
            if self._current is not None and self._current[0] is snapshot:
                return self._current[1]
            check_rows_readable(snapshot, self._env.store.url)
            if self._memory is None:
                self._memory = _new_memory(self._env)
            with still_there(self._env, snapshot.version):
                refs = refs_of(self._env, prune_files(snapshot, None))
                searcher = searcher_for(self._env, snapshot.metadata, refs, self._memory)
            self._current = (snapshot, searcher)
            return searcher


def searcher_for(env: Env, metadata: Metadata, refs: Sequence[SplitRef], memory: SearchMemory) -> SplitSearcher:
    """A searcher over some splits of a table, with the table's columns, index and properties."""
    env = table_env(env, metadata)
    target = target_of(metadata, env.options)
    schema = plain_schema(target.schema, target.schema.names)
    return SplitSearcher(env, refs, schema=schema, index=target.plan, memory=memory)


def searcher_over(env: Env, metadata: Metadata, refs: Sequence[SplitRef]) -> SplitSearcher:
    """A searcher over some splits, for who has no handle to keep one: drivers and workers of Spark.

    It is the one that was asked for them before, if this process has it still. What is kept of a table is found by its
    URL and all options, credentials among them; of a table in memory nothing is kept, since it may be another one of
    the same name. Raises SplitCorrupt, StoreError, ObjectNotFound where a file is gone.
    """
    if not env.store.outlives_process:
        return searcher_for(env, metadata, refs, _new_memory(env))
    table = (env.store.url, tuple(sorted((name, env.options[name]) for name in env.options)))
    key = (table, msgspec.msgpack.encode((metadata, refs))) if len(refs) <= _MOST_SPLITS else None
    with _SEARCHERS_MEMORY.lock:
        known = None if key is None else _SEARCHERS.get(key)
    if known is None:
        with _TABLES_MEMORY.lock:
            # With the store of who asked first: what is known of splits is bound to it.
            kept = _TABLES.get(table)
        kept_env, memory = kept or (env, _new_memory(env))
        known = searcher_for(kept_env, metadata, refs, memory)
        with _TABLES_MEMORY.lock:
            _TABLES[table] = (kept_env, memory)
        if key is not None:
            with _SEARCHERS_MEMORY.lock:
                _SEARCHERS[key] = known
    return known


def search(
    env: Env,
    searchers: Searchers,
    snapshot: Snapshot,
    query: str,
    *,
    columns: Sequence[str] | None,
    where: Node | None,
    limit: int | None,
    offset: int,
    order_by: OrderBy | None,
    highlight: Sequence[str] = (),
) -> pa.Table:
    """The matching rows, best first, with their `_score`; in the order of a column instead if that is asked for.

    For each column of `highlight` a column `_highlight_<name>` follows: a piece of its text as HTML, matches in `<em>`.

    Raises QueryInvalid with the position, LimitExceeded, InvalidArgument, SplitCorrupt, VersionExpired, StoreError.
    """
    names = column_names(snapshot.schema, columns)
    marked = column_names(snapshot.schema, highlight, what="highlight")
    if SCORE in names and order_by is None:
        raise InvalidArgument(f"the table has a column {SCORE!r} of its own: name the columns to read, without it")
    with still_there(env, snapshot.version):
        searcher = searchers.of(snapshot)
        hits = searcher.search(query, where=where, limit=limit, offset=offset, order_by=order_by).hits
        return show_hits(searcher, query, hits, names, marked, score=order_by is None)


def found_batches(
    searcher: SplitSearcher,
    query: str,
    columns: Sequence[str],
    *,
    highlight: Sequence[str] = (),
    where: Node | None = None,
    limit: int | None = None,
    stats: TermStats | None = None,
) -> Iterator[tuple[Hits, pa.Table]]:
    """Matching rows of the searcher's splits, best first, some at a time: which they are, and as `show_hits`.

    `stats` are those of a larger collection that the splits are part of. Raises as `search`, but ObjectNotFound where
    a file is gone.
    """
    hits = searcher.search(query, where=where, limit=limit, stats=stats).hits
    for start in range(0, len(hits), _BATCH_ROWS):
        part = hits.take(np.arange(start, min(start + _BATCH_ROWS, len(hits))))
        yield part, show_hits(searcher, query, part, columns, highlight)


def show_hits(
    searcher: SplitSearcher,
    query: str,
    hits: Hits,
    columns: Sequence[str],
    highlight: Sequence[str] = (),
    *,
    score: bool = True,
) -> pa.Table:
    """The rows of hits, in their order: columns, `_score`, and a piece of each text of `highlight` as HTML."""
    rows = searcher.rows(hits, [*columns, *(name for name in highlight if name not in columns)], score=score)
    if not highlight:
        return rows
    from indextables.split.search import snippets

    shown = rows.select([*columns, *([SCORE] if score else [])])
    plan = searcher.plan(query)
    for name in highlight:
        shown = shown.append_column(f"_highlight_{name}", snippets(plan, rows, name))
    return shown


def count(env: Env, searchers: Searchers, snapshot: Snapshot, query: str | None, where: Node | None) -> int:
    """How many rows match; from the log alone where nothing is asked."""
    if query is not None:
        with still_there(env, snapshot.version):
            return searchers.of(snapshot).count(query, where=where)
    if where is None:
        known = live_rows(snapshot.files)
        if known is not None:
            return known
    columns = columns_of(where)[:1] if where is not None else snapshot.schema.names[:1]
    return sum(batch.num_rows for batch in scan_table(env, snapshot, columns, where, None))


def aggregate_rows(
    env: Env,
    searchers: Searchers,
    snapshot: Snapshot,
    query: str | None,
    aggregations: Mapping[str, Mapping[str, Mapping[str, Any]]],
    where: Node | None,
) -> dict[str, dict[str, Any]]:
    """What the matching rows add up to. Raises as `search`, and InvalidArgument for an aggregation that is none."""
    from indextables.split.search import aggregate

    with still_there(env, snapshot.version):
        return aggregate(searchers.of(snapshot), query, aggregations, where=where)


def explain_search(
    env: Env, searchers: Searchers, snapshot: Snapshot, query: str | None, where: Node | None
) -> dict[str, Any]:
    """How a query is understood and who answers it. Raises as `search`."""
    from indextables.split.search import explain_query

    with still_there(env, snapshot.version):
        return explain_query(searchers.of(snapshot), query, where)


def order_of(order_by: str | tuple[str, str] | None) -> OrderBy | None:
    """`"time"`, `"time desc"` or `("time", "desc")`. Raises InvalidArgument."""
    if order_by is None:
        return None
    words: object = _words(order_by) if isinstance(order_by, str) else order_by
    if isinstance(words, tuple) and len(words) == 2 and all(isinstance(word, str) for word in words):
        column, direction = words
        if direction.lower() == "asc":
            return OrderBy(column, "asc")
        if direction.lower() == "desc":
            return OrderBy(column, "desc")
    raise InvalidArgument(f"order_by {order_by!r}: give a column, or a column and asc or desc", order_by=str(order_by))


def shared_index_cache(options: Options, ambient: Ambient) -> IndexCache:
    """One cache object per folder and process, because it remembers which files it has checked."""
    key = tuple(f"{name}={value}" for name, value in sorted(options.below("cache.").items()))
    with _CACHES_MEMORY.lock:
        if key not in _CACHES:
            _CACHES[key] = open_cache(options, ambient)
        return _CACHES[key]


def _new_memory(env: Env) -> SearchMemory:
    return SearchMemory(shared_index_cache(env.options, env.ambient))


_CACHES: dict[tuple[str, ...], IndexCache] = {}
_TableKey = tuple[str, tuple[tuple[str, str], ...]]
_TABLES: cachetools.LRUCache[_TableKey, tuple[Env, SearchMemory]] = cachetools.LRUCache(16)
_SEARCHERS: cachetools.LRUCache[tuple[_TableKey, bytes], SplitSearcher] = cachetools.LRUCache(
    _MOST_SPLITS, getsizeof=lambda searcher: max(_LEAST_WEIGHT, len(searcher.states))
)


def _forget_tables(url: str | None = None) -> int:
    with _TABLES_MEMORY.lock:
        known = [table for table in _TABLES if _is_below(table[0], url)]
        for table in known:
            del _TABLES[table]
    return len(known)


def _forget_searchers(url: str | None = None) -> int:
    with _SEARCHERS_MEMORY.lock:
        known = [key for key in _SEARCHERS if _is_below(key[0][0], url)]
        for key in known:
            del _SEARCHERS[key]
    return len(known)


def _clear() -> None:
    _forget_tables()
    _forget_searchers()


def _is_below(url: str, folder: str | None) -> bool:
    return folder is None or f"{url}/".startswith(folder.rstrip("/") + "/")


_ANEW = "the child starts anew: a thread of the parent may have held a lock of one"
_CACHES_MEMORY = process.declare(
    process.Memory(
        name="index caches",
        where=f"{__name__}._CACHES",
        key="the options `cache.*`",
        bound="one per combination that was asked for; each keeps at most `cache.maxSize` and `cache.rowsSize`",
        fork=_ANEW,
        ends="never wrong: files are checked; emptied by `flush_caches`",
        after_fork=_CACHES.clear,
    )
)
_TABLES_MEMORY = process.declare(
    process.Memory(
        name="opened indexes without a handle",
        where=f"{__name__}._TABLES",
        key="URL of the table and all options",
        bound="16 tables; indexes, segments, splits and bytes of each",
        fork=_ANEW,
        ends="never wrong: splits do not change; dropped by `invalidate_caches`",
        clear=_clear,
        forget=_forget_tables,
        after_fork=_TABLES.clear,
    )
)
_SEARCHERS_MEMORY = process.declare(
    process.Memory(
        name="searchers without a handle",
        where=f"{__name__}._SEARCHERS",
        key="URL of the table and all options, metadata, splits",
        bound=f"{_MOST_SPLITS // _LEAST_WEIGHT} searchers, {_MOST_SPLITS:,} splits of all together",
        fork=_ANEW,
        ends="never wrong: splits do not change; dropped by `invalidate_caches`",
        clear=_clear,
        forget=_forget_searchers,
        after_fork=_SEARCHERS.clear,
    )
)


def _words(text: str) -> tuple[str, str]:
    column, _, direction = text.strip().rpartition(" ")
    return (column.strip(), direction) if column and direction.lower() in ("asc", "desc") else (text.strip(), "asc")
