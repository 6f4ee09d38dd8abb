"""Declares what the index cache gives and counts, and what names an entry of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from indextables.errors import SplitCorrupt
from indextables.split.file import Component, Directory, SplitRef
from indextables.storage.store import Store

__all__ = ["CacheStats", "CachedSplit", "component_of", "entry_key"]

_FORMAT = "2"


class CacheStats(msgspec.Struct):
    """What a cache did in this process, and what the folder holds now."""

    hits: int = 0
    misses: int = 0
    dropped: int = 0
    evicted: int = 0
    requests: int = 0
    bytes_read: int = 0
    entries: int = 0
    size_bytes: int = 0
    rows_bytes: int = 0


class CachedSplit(msgspec.Struct, frozen=True, weakref=True):
    """The index of one split on local disk, or in memory.

    `files` has every segment part, `whole` names those without a hole. `pages` are the page locations as they are
    stored, where they are known already.
    """

    ref: SplitRef
    key: str
    directory: Directory
    files: Mapping[str, Path | bytes]
    whole: frozenset[str]
    pages: bytes | None = None


def entry_key(store: Store, ref: SplitRef) -> str:
    """What names an entry: equal for equal bytes only. Local files may be replaced, so that their time counts."""
    facts: list[object] = [_FORMAT, store.url, ref.key, ref.id, ref.size, ref.num_rows]
    facts += [ref.index_start, ref.range1_length]
    if store.is_local:
        meta = store.head(ref.key)
        facts += [meta.size, meta.modified_ms]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:40]


def component_of(directory: Directory, name: str, ref: SplitRef) -> Component:
    """The component of a directory. Raises SplitCorrupt if it lacks that."""
    component = directory.component(name)
    if component is None:
        message = f"{ref.key}: its index lacks the component {name}; reindex rebuilds it from the rows"
        raise SplitCorrupt(message, path=ref.key, part=name, reason="missing")
    return component
