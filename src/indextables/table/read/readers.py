"""Parses footers and page maps of splits once per process, for who reads rows without searching them.

A split is found by whose it is (table, store and credentials) and as the log names it: key, size, id and offsets. What
a version deleted of it is not kept. The bytes of a footer are read each time and compared: pages that are read in a
row carry no proof of whose they are, so that a file which was put into the place of another is told by its footer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import cachetools
import msgspec

from indextables import process
from indextables.ambient import Ambient
from indextables.env import Env
from indextables.log.read import RegionStats
from indextables.split.file import SplitReader, SplitRef

__all__ = ["reader_of"]

_MAX_BYTES = 64 << 20
_WEIGHT = 16
"""A footer takes some times its bytes in memory: parsed by Arrow, and as the places of its column chunks."""
_LEAST_BYTES = 4 << 10

_Key = tuple[type, Hashable, int, str | None, SplitRef]
_Kept = tuple[SplitReader, bytes, Ambient]
"""With the bytes of its footer, and the ambient that the key names by its address, so that no other one gets that."""


def _size(kept: _Kept) -> int:
    ref = kept[0].ref
    return max(_LEAST_BYTES, _WEIGHT * ((ref.footer_end or 0) - (ref.footer_start or 0)))


class _Readers(cachetools.LRUCache[_Key, _Kept]):
    """Those that were used lately, and how often one was there that was asked for."""

    hits = 0
    misses = 0

    def find(self, key: _Key) -> _Kept | None:
        found: _Kept | None = self.get(key)
        self.hits += found is not None
        self.misses += found is None
        return found


_READERS = _Readers(_MAX_BYTES, getsizeof=_size)


def reader_of(env: Env, ref: SplitRef, *, pages: bool = False) -> SplitReader:
    """A reader of the split with the vector of `ref`; with `pages` for who fetches rows by page.

    Raises SplitCorrupt, StoreError, ObjectNotFound where the split is gone.
    """
    if not ref.has_offsets or ref.id is None:
        return SplitReader(env.store, ref)
    bare = ref if ref.vector is None else msgspec.structs.replace(ref, vector=None)
    key = (type(env.store), env.store.identity, id(env.ambient), env.table_id, bare)
    with _MEMORY.lock:
        known = _READERS.find(key)
    reader = SplitReader(env.store, bare)
    stored = reader.stored_footer()
    is_known = known is not None and known[1] == stored
    if known is not None and is_known:
        reader = known[0]
    else:
        reader.take_footer(stored)
    if pages:
        _ = reader.pages
    if not is_known:
        kept = reader, stored, env.ambient
        with _MEMORY.lock:
            if _size(kept) <= _MAX_BYTES:
                _READERS[key] = kept
    return reader.again(env.store, ref.vector)


def _forget(url: str) -> int:
    folder = url.rstrip("/") + "/"
    with _MEMORY.lock:
        gone = [key for key, (reader, *_) in _READERS.items() if f"{reader.store.url}/".startswith(folder)]
        for key in gone:
            del _READERS[key]
    return len(gone)


def _stats() -> Mapping[str, RegionStats]:
    with _MEMORY.lock:
        return {"footers": RegionStats(_READERS.hits, _READERS.misses, len(_READERS), int(_READERS.currsize))}


def _clear() -> None:
    with _MEMORY.lock:
        _READERS.clear()


_MEMORY = process.declare(
    process.Memory(
        name="parsed footers",
        where=f"{__name__}._READERS",
        key="store with its credentials, table id; path, size, id and offsets of the split in the log",
        bound="64 MiB, a footer counted as 16 times its bytes",
        fork="the child starts anew: a thread of the parent may have held a lock of one",
        ends="when the bytes of the footer are others; dropped by `invalidate_caches`",
        clear=_clear,
        forget=_forget,
        stats=_stats,
        after_fork=_READERS.clear,
    )
)
