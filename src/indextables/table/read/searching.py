"""Search over a snapshot: all its splits as one index, so that scores do not depend on how rows are spread.

Files are not pruned by `where` here: the statistics that scores are made of are those of the whole table. A predicate
becomes part of the query instead and is answered exactly.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from indextables.ambient import Ambient
from indextables.env import Env
from indextables.errors import InvalidArgument, ObjectNotFound, VersionExpired
from indextables.log.read import Snapshot
from indextables.options import Options
from indextables.query.expr import Node, columns_of
from indextables.split.index import IndexCache
from indextables.split.search import OpenIndexes, OrderBy, SplitSearcher, States, open_cache
from indextables.table.read.inspect import live_rows
from indextables.table.read.plan import check_rows_readable, column_names, prune_files, refs_of
from indextables.table.read.scan import plain_schema, scan_table
from indextables.table.writing import target_of

__all__ = ["Searchers", "aggregate_rows", "count", "explain_search", "order_of", "search", "shared_index_cache"]

SCORE = "_score"


class Searchers:
    """Keeps the searcher of the version last searched, and shares caches between versions. Safe for threads.

    A forked child starts anew: a thread of its parent may have been at work on what is kept, holding a lock.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._opened = OpenIndexes()
        self._states = States()
        self._current: tuple[Snapshot, SplitSearcher] | None = None
        self._process = os.getpid()

    def of(self, snapshot: Snapshot) -> SplitSearcher:
        """The searcher over all live splits. Raises NotSupported, PathEscape, DvCorrupt, StoreError."""
        if self._process != os.getpid():
            self._start()
        with self._lock:
            if self._current is not None and self._current[0] is snapshot:
                return self._current[1]
            check_rows_readable(snapshot, self._env.store.url)
            options = self._env.over(snapshot.metadata.configuration)
            target = target_of(snapshot.metadata, options)
            try:
                searcher = SplitSearcher(
                    self._env.store,
                    refs_of(self._env, prune_files(snapshot, None)),
                    schema=plain_schema(snapshot.schema, snapshot.schema.names),
                    index=target.plan,
                    options=options,
                    cache=shared_index_cache(self._env.options, self._env.ambient),
                    ambient=self._env.ambient,
                    opened=self._opened,
                    states=self._states,
                )
            except ObjectNotFound as cause:
                raise gone(self._env, snapshot, cause) from cause
            self._current = (snapshot, searcher)
            return searcher


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
    searcher = searchers.of(snapshot)
    try:
        found = searcher.search(query, where=where, limit=limit, offset=offset, order_by=order_by)
        rows = searcher.rows(found.hits, [*names, *(n for n in marked if n not in names)], score=order_by is None)
    except ObjectNotFound as cause:
        raise gone(env, snapshot, cause) from cause
    if not marked:
        return rows
    from indextables.split.search import snippets

    shown = rows.select([*names, *([SCORE] if order_by is None else [])])
    plan = searcher.plan(query)
    for name in marked:
        shown = shown.append_column(f"_highlight_{name}", snippets(plan, rows, name))
    return shown


def count(env: Env, searchers: Searchers, snapshot: Snapshot, query: str | None, where: Node | None) -> int:
    """How many rows match; from the log alone where nothing is asked."""
    if query is not None:
        try:
            return searchers.of(snapshot).count(query, where=where)
        except ObjectNotFound as cause:
            raise gone(env, snapshot, cause) from cause
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

    try:
        return aggregate(searchers.of(snapshot), query, aggregations, where=where)
    except ObjectNotFound as cause:
        raise gone(env, snapshot, cause) from cause


def explain_search(
    env: Env, searchers: Searchers, snapshot: Snapshot, query: str | None, where: Node | None
) -> dict[str, Any]:
    """How a query is understood and who answers it. Raises as `search`."""
    from indextables.split.search import explain_query

    try:
        return explain_query(searchers.of(snapshot), query, where)
    except ObjectNotFound as cause:
        raise gone(env, snapshot, cause) from cause


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


def gone(env: Env, snapshot: Snapshot, cause: ObjectNotFound) -> VersionExpired:
    """A file of the pinned version is not there any more."""
    message = (
        f"a file of version {snapshot.version} is gone from {env.store.url}: purge was faster, then refresh() and "
        "repeat; or somebody deleted it, then verify() tells what else is missing"
    )
    return VersionExpired(message, version=snapshot.version, key=cause.details.get("key"), url=env.store.url)


_CACHES: dict[tuple[str, ...], IndexCache] = {}
_CACHES_LOCK = threading.Lock()


def shared_index_cache(options: Options, ambient: Ambient) -> IndexCache:
    """One cache object per folder and process, because it remembers which files it has checked."""
    key = tuple(f"{name}={value}" for name, value in sorted(options.below("cache.").items()))
    with _CACHES_LOCK:
        if key not in _CACHES:
            _CACHES[key] = open_cache(options, ambient)
        return _CACHES[key]


def _forget_after_fork() -> None:
    """A thread of the parent that held the lock, or one of a cache, is not here to let go of it."""
    global _CACHES_LOCK  # noqa: PLW0603 - renewed once, before the child runs anything
    _CACHES_LOCK = threading.Lock()
    _CACHES.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


def _words(text: str) -> tuple[str, str]:
    column, _, direction = text.strip().rpartition(" ")
    return (column.strip(), direction) if column and direction.lower() in ("asc", "desc") else (text.strip(), "asc")
