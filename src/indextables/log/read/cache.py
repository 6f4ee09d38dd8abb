"""Keeps parsed log files in memory: what is immutable is keyed so that it never goes stale, all else is looked up anew.

Everything is keyed by the table's URL, its history (`newest.Known`) and a version, so that a log that was replaced
under a living process shares nothing with the one before: a table created anew, a backup put back, a repaired log
moved into place, a newest version that was lost and whose number was taken again. The only thing that can be outdated
is the answer to "what is newest": it is probed at every use. An entry still expires,
`transaction.cache.expirationSeconds` after it was loaded, to give memory back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal, overload

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.log.read.newest import Known
from indextables.log.wire import FileIdentity, TableState
from indextables.process import Lock, Memory, declare

__all__ = ["CacheStats", "KeptState", "LogCache", "Region", "RegionStats", "cache_for", "shared_cache"]

Small = Literal["protocol", "metadata", "version", "versionsList"]
Region = Small | Literal["files"]

# How many entries a region holds. Parsed versions are also bounded by their bytes.
_LIMITS: dict[Region, int] = {
    "protocol": 1000,
    "metadata": 1000,
    "version": 1000,
    "files": 16,
    "versionsList": 1000,
}
MAX_VERSION_BYTES = 256 << 20

Key = tuple[Any, ...]


class RegionStats(msgspec.Struct, frozen=True):
    """How often a region was asked, how often it knew, and what it holds."""

    hits: int
    misses: int
    entries: int
    size_bytes: int = 0
    """What is held in memory, where that is counted."""
    maps: int = 0
    """Memory maps of files."""

    @property
    def hit_rate(self) -> float:
        """Hits per question, 0 before the first."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 0.0


class CacheStats(msgspec.Struct, frozen=True):
    """The statistics of every region."""

    regions: dict[str, RegionStats]

    def hit_rates(self) -> dict[str, float]:
        """`protocolHitRate`, `metadataHitRate`, `versionHitRate`, `filesHitRate`, `versionsListHitRate`, ..."""
        return {f"{name}HitRate": stats.hit_rate for name, stats in self.regions.items()}


class KeptState(msgspec.Struct, frozen=True):
    """What the region `files` holds: a whole table, and the identity of its version file where that is known."""

    state: TableState
    anchor: FileIdentity | None = None


class LogCache:
    """A bounded, expiring, thread-safe store of parsed log files. The first element of every key is the table's URL."""

    def __init__(self, max_version_bytes: int = MAX_VERSION_BYTES) -> None:
        self._lock = Lock()
        self._entries: dict[Region, OrderedDict[Key, tuple[float, Any, int]]] = {
            name: OrderedDict() for name in _LIMITS
        }
        self._hits: dict[Region, int] = dict.fromkeys(_LIMITS, 0)
        self._misses: dict[Region, int] = dict.fromkeys(_LIMITS, 0)
        self._max_version_bytes = max_version_bytes
        self._version_bytes = 0
        self._dropped = 0
        """The largest history of which it was dropped what is newest: none up to it comes back."""

    @overload
    def get(self, region: Literal["files"], key: Key, now: float) -> KeptState | None: ...

    @overload
    def get(self, region: Small, key: Key, now: float) -> Any | None: ...

    def get(self, region: Region, key: Key, now: float) -> Any | None:
        """The entry, or None if there is none or it has expired; counted either way."""
        with self._lock:
            entries = self._entries[region]
            entry = entries.get(key)
            if entry is not None and entry[0] <= now:
                self._drop(region, key)
                entry = None
            # What nobody asks for again gives its memory back too.
            while entries and next(iter(entries.values()))[0] <= now:
                self._drop(region, next(iter(entries)))
            if entry is None:
                self._misses[region] += 1
                return None
            self._hits[region] += 1
            entries.move_to_end(key)
            return entry[1]

    @overload
    def put(self, region: Literal["files"], key: Key, value: KeptState, expires: float, size: int = 0) -> None: ...

    @overload
    def put(self, region: Small, key: Key, value: Any, expires: float, size: int = 0) -> None: ...

    def put(self, region: Region, key: Key, value: Any, expires: float, size: int = 0) -> None:
        """Keep `value` until `expires`; the entries used longest ago make room."""
        with self._lock:
            self._put(region, key, value, expires, size)

    def put_known(self, key: Key, known: Known, expires: float, unless: Callable[[Known], bool]) -> None:
        """Keep what is newest, unless `unless` is true of what is kept, or that of its history was dropped before.

        A slow thread may still hold it. What others remember by that number is of the log as it was then.
        """
        with self._lock:
            entry = self._entries["versionsList"].get(key)
            is_refused = known.history <= self._dropped if entry is None else unless(entry[1])
            if not is_refused:
                self._put("versionsList", key, known, expires, 0)

    def invalidate(self, url: str, regions: tuple[Region, ...] = tuple(_LIMITS)) -> int:
        """Drop what belongs to the table at `url` and to tables in folders below it; the number of entries."""
        url = url.rstrip("/")
        dropped = 0
        with self._lock:
            for region in regions:
                for key in [k for k in self._entries[region] if k[0] == url or str(k[0]).startswith(url + "/")]:
                    self._drop(region, key)
                    dropped += 1
        return dropped

    def clear(self) -> None:
        """Drop everything; the statistics stay."""
        with self._lock:
            for region, entries in self._entries.items():
                for key in list(entries):
                    self._drop(region, key)
            self._version_bytes = 0

    def stats(self) -> CacheStats:
        """Hits, misses and entries per region, since the process started."""
        with self._lock:
            return CacheStats(
                {
                    region: RegionStats(
                        self._hits[region],
                        self._misses[region],
                        len(entries),
                        self._version_bytes if region == "version" else 0,
                    )
                    for region, entries in self._entries.items()
                }
            )

    def _put(self, region: Region, key: Key, value: Any, expires: float, size: int) -> None:
        self._take(region, key)
        if region == "version" and size > self._max_version_bytes:
            return
        self._entries[region][key] = (expires, value, size)
        if region == "version":
            self._version_bytes += size
        entries = self._entries[region]
        while len(entries) > _LIMITS[region] or (region == "version" and self._version_bytes > self._max_version_bytes):
            self._drop(region, next(iter(entries)))

    def _drop(self, region: Region, key: Key) -> None:
        known = self._take(region, key)
        if isinstance(known, Known):
            self._dropped = max(self._dropped, known.history)

    def _take(self, region: Region, key: Key) -> Any:
        entry = self._entries[region].pop(key, None)
        if entry is None:
            return None
        if region == "version":
            self._version_bytes -= entry[2]
        return entry[1]


_SHARED = LogCache()

declare(
    Memory(
        name="parsed log files",
        where=f"{__name__}._SHARED",
        key="URL of the table, its history, version",
        bound="entries per region, bytes of versions, age (`transaction.cache.expirationSeconds`)",
        fork="the child keeps the entries; the lock is new",
        ends="never wrong; dropped by age, `invalidate_caches`, and a log that was replaced",
        clear=_SHARED.clear,
        forget=_SHARED.invalidate,
        stats=lambda: _SHARED.stats().regions,
    )
)


def shared_cache() -> LogCache:
    """The cache of this process."""
    return _SHARED


def cache_for(env: Env) -> LogCache | None:
    """The cache that reads of `env` go through, None where it is switched off.

    Stores that outlive the process share one. Two memory stores of one name need not hold the same table, so that
    theirs is private.
    """
    if not env.options[opt.TRANSACTION_CACHE_ENABLED]:
        return None
    return _SHARED if env.store.outlives_process else LogCache()
