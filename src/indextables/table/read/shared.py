"""Opens what is immutable once per process: splits, indexes and searchers, shared by handles, SQL and tasks.

A *place* is a table's store as one set of options, credentials among them, reaches it. A split belongs to a place and a
table id and is found as the log names it, so that neither another table in the same folder nor other credentials meet
it. Which rows a version deleted is known to its searcher alone (`SplitState`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence

import cachetools
import msgspec

from indextables import process
from indextables.ambient import Ambient
from indextables.env import Env
from indextables.log.read import Log, RegionStats, Snapshot
from indextables.log.wire import Metadata, has_own_splits
from indextables.options import Options
from indextables.process import Lock
from indextables.split.file import KeptPages, SplitRef
from indextables.split.index import IndexCache, SmallSplits
from indextables.split.search import OpenIndexes, SearchMemory, SplitSearcher, States, open_cache
from indextables.table.environment import table_env
from indextables.table.read.plan import check_rows_readable, prune_files, refs_of, still_there
from indextables.table.read.scan import plain_schema
from indextables.table.writing import target_of

__all__ = ["Copy", "Searchers", "searcher_over", "searcher_with", "shared_index_cache"]

Copy = Callable[[Env, Snapshot], tuple[Log, Snapshot, Callable[[], object]]]
"""Makes a table of ours with the rows of a version of another system's, and what removes it."""

_MOST_SPLITS = 16_384
"""Splits of all searchers that are kept."""
_LEAST_WEIGHT = 128
"""A searcher counts as so many splits at least."""
_MOST_PLACES = 1_024


class Searchers:
    """The searchers of one handle: those that the process has, and the one that was used last. Safe for threads."""

    def __init__(self, env: Env, copy: Copy | None = None) -> None:
        """`copy` makes a table of ours of one whose own indexes cannot be asked; without it those are refused."""
        self._env = env
        self._copy = copy
        self._current: tuple[Snapshot, SplitSearcher, int] | None = None

    def of(self, snapshot: Snapshot) -> SplitSearcher:
        """The searcher over all live splits. Raises NotSupported, PathEscape, DvCorrupt, VersionExpired, StoreError."""
        current, epoch = self._current, _SHARED.epoch
        if current is not None and current[0] is snapshot and current[2] == epoch:
            return current[1]
        place = _SHARED.place(self._env)
        key = (place, snapshot.table_id, snapshot.history, snapshot.version)
        with place.lock:
            searcher = _SHARED.find(key)
            if searcher is None:
                searcher = self._over_all(place, snapshot)
                _SHARED.keep(key, searcher, epoch)
        self._current = (snapshot, searcher, epoch)
        return searcher

    def _over_all(self, place: _Place, snapshot: Snapshot) -> SplitSearcher:
        if self._copy is None or has_own_splits(snapshot.protocol):
            return _over_all(place.env, snapshot, _SHARED.memory(place, snapshot.table_id))
        log, copied, remove = self._copy(place.env, snapshot)
        searcher = _over_all(log.env, copied, _SHARED.memory(_SHARED.place(log.env), copied.table_id))
        weakref.finalize(searcher, remove)
        return searcher


def searcher_over(env: Env, metadata: Metadata, refs: Sequence[SplitRef]) -> SplitSearcher:
    """A searcher over some splits, for who has no handle: drivers and workers of Spark.

    It is the one that was asked for them before, if this process has it still. Raises SplitCorrupt, StoreError,
    ObjectNotFound where a file is gone.
    """
    place, epoch = _SHARED.place(env), _SHARED.epoch
    key = (place, msgspec.msgpack.encode((metadata, refs)))
    found = _SHARED.find(key)
    if found is None:
        found = searcher_with(place.env, metadata, refs, _SHARED.memory(place, metadata.id))
        _SHARED.keep(key, found, epoch)
    return found


def shared_index_cache(options: Options, ambient: Ambient) -> IndexCache:
    """One cache object per folder and process, because it remembers which files it has checked."""
    key = tuple(f"{name}={value}" for name, value in sorted(options.below("cache.").items()))
    with _CACHES_MEMORY.lock:
        if key not in _CACHES:
            _CACHES[key] = open_cache(options, ambient)
        return _CACHES[key]


class _Place:
    """A store as some options reach it. What is known of its splits reads by the environment of who asked first."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.lock = Lock()
        """For who makes a searcher: what one thread opens, the others wait for."""


class _Shared:
    """What searches of this process have opened. Each part has its bound. Safe for threads.

    `epoch` counts how often something was forgotten: what was begun before is not kept after, and handles do not
    believe what they have from before.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.start()

    def start(self) -> None:
        """Begin with nothing, as a forked child does."""
        self.epoch += 1
        self.lock = Lock()
        self.states = States(_MOST_SPLITS)
        self.opened = OpenIndexes()
        self._places: cachetools.LRUCache[tuple[Hashable, ...], _Place] = cachetools.LRUCache(_MOST_PLACES)
        self._searchers: cachetools.LRUCache[tuple[Hashable, ...], SplitSearcher] = cachetools.LRUCache(
            _MOST_SPLITS, getsizeof=lambda searcher: max(_LEAST_WEIGHT, len(searcher.states))
        )
        self._hits = 0
        self._misses = 0

    def place(self, env: Env) -> _Place:
        """The place of a table, whoever asked for it first."""
        # The class of a store too: what stands before one, and counts or changes what is asked, is another place.
        options = tuple(sorted((name, env.options[name]) for name in env.options))
        # The place has the ambient that is named by its address here, so that no other one gets it.
        key = (type(env.store), env.store.identity, options, id(env.ambient))
        with self.lock:
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = _Place(env)
            return place

    def memory(self, place: _Place, table_id: str) -> SearchMemory:
        """What searchers of a table share."""
        cache = shared_index_cache(place.env.options, place.env.ambient)
        return SearchMemory(cache, self.opened, self.states, (place, table_id))

    def find(self, key: tuple[Hashable, ...]) -> SplitSearcher | None:
        """The searcher that was kept under a place and what it searches."""
        with self.lock:
            found = self._searchers.get(key)
            self._hits += found is not None
            self._misses += found is None
            return found

    def keep(self, key: tuple[Hashable, ...], searcher: SplitSearcher, epoch: int) -> None:
        """Keep it, unless it is larger than all that may be, or something was forgotten since it was begun."""
        with self.lock:
            if epoch == self.epoch and len(searcher.states) <= _MOST_SPLITS:
                self._searchers[key] = searcher

    def forget(self, url: str | None = None) -> int:
        """Forget tables at a URL and below it, or all; how many entries those were."""

        def is_meant(scope: Hashable) -> bool:
            return isinstance(scope, tuple) and isinstance(scope[0], _Place) and _is_below(scope[0].env.store.url, url)

        with self.lock:
            self.epoch += 1
            places = [key for key, place in self._places.items() if _is_below(place.env.store.url, url)]
            searchers = [key for key in self._searchers if is_meant(key)]
            for key in places:
                del self._places[key]
            for key in searchers:
                del self._searchers[key]
        return len(searchers) + self.states.forget(is_meant) + self.opened.forget(is_meant)

    def clear(self) -> None:
        """Forget all tables."""
        self.forget()

    def stats(self) -> Mapping[str, RegionStats]:
        """By what is shared."""
        states, opened = self.states, self.opened
        with self.lock:
            return {
                "splits": RegionStats(states.hits, states.misses, len(states), states.size_bytes),
                "indexes": RegionStats(opened.hits, opened.misses, len(opened), opened.size_bytes, opened.maps),
                "searchers": RegionStats(self._hits, self._misses, len(self._searchers)),
            }


def _is_below(url: str, folder: str | None) -> bool:
    return folder is None or f"{url}/".startswith(folder.rstrip("/") + "/")


def _index_caches() -> list[IndexCache]:
    with _CACHES_MEMORY.lock:
        return list(_CACHES.values())


def _forget_in_memory(url: str | None = None) -> int:
    """Forget small splits and decoded rows; what lies on disk stays, for other processes too."""
    return sum(
        cache.small.forget(lambda known, _: _is_below(known, url))
        + cache.rows.forget(lambda owner: _is_below(owner, url))
        for cache in _index_caches()
    )


def _clear_in_memory() -> None:
    _forget_in_memory()


def _in_memory() -> Mapping[str, RegionStats]:
    """What the index caches hold in memory, by kind."""
    caches = _index_caches()
    kinds: dict[str, list[SmallSplits] | list[KeptPages]] = {
        "smallSplits": [cache.small for cache in caches],
        "rows": [cache.rows for cache in caches],
    }
    return {
        name: RegionStats(
            sum(part.hits for part in parts),
            sum(part.misses for part in parts),
            sum(len(part) for part in parts),
            sum(part.size_bytes for part in parts),
        )
        for name, parts in kinds.items()
    }


def _over_all(env: Env, snapshot: Snapshot, memory: SearchMemory) -> SplitSearcher:
    check_rows_readable(snapshot, env.store.url)
    with still_there(env, snapshot.version):
        return searcher_with(env, snapshot.metadata, refs_of(env, prune_files(snapshot, None), snapshot.schema), memory)


def searcher_with(env: Env, metadata: Metadata, refs: Sequence[SplitRef], memory: SearchMemory) -> SplitSearcher:
    """A searcher over some splits of a table, with the table's columns, index and properties."""
    env = table_env(env, metadata)
    target = target_of(metadata, env.options)
    schema = plain_schema(target.schema, target.schema.names)
    return SplitSearcher(env, refs, schema=schema, index=target.plan, memory=memory)


_CACHES: dict[tuple[str, ...], IndexCache] = {}
_SHARED = _Shared()

_ANEW = "the child starts anew: a thread of the parent may have held a lock of one"
_CACHES_MEMORY = process.declare(
    process.Memory(
        name="index caches",
        where=f"{__name__}._CACHES",
        key="the options `cache.*`",
        bound=(
            "one per combination that was asked for; each keeps at most `cache.maxSize`, `cache.rowsSize` and 64 MiB "
            "of small splits"
        ),
        fork=_ANEW,
        ends="never wrong: files are checked; emptied by `flush_caches`, what is in memory by `invalidate_caches` too",
        clear=_clear_in_memory,
        forget=_forget_in_memory,
        stats=_in_memory,
        after_fork=_CACHES.clear,
    )
)
process.declare(
    process.Memory(
        name="opened splits",
        where=f"{__name__}._SHARED",
        key="store with its credentials, all options, table id; a split also by path, size, id and offsets in the log",
        bound=(
            f"{_MOST_SPLITS:,} splits, and as many in searchers; splits that no searcher has go after 5 minutes; "
            "256 MiB each of indexes, vectors and files in memory; 48,000 memory maps"
        ),
        fork=_ANEW,
        ends="never wrong: splits do not change; dropped by `invalidate_caches`",
        clear=_SHARED.clear,
        forget=_SHARED.forget,
        stats=_SHARED.stats,
        after_fork=_SHARED.start,
    )
)
