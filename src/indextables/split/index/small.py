"""Reads the index of a small split with one request, checks it, and keeps it unpacked in memory.

Files on disk would cost more than the bytes are worth: a split of one row has a thousand, in six components.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from indextables.errors import SplitCorrupt
from indextables.process import Lock
from indextables.split.file import PAGES, SEGMENT_PARTS, SplitRef, layout, parse_footer
from indextables.split.index.cache_entry import CachedSplit
from indextables.split.index.remembered import Remembered

__all__ = ["SMALL_BYTES", "SmallSplits", "decode_section", "section_range"]

SMALL_BYTES = 64 << 10
"""How long the index section of a small split may be, with the footer that follows it."""
_MOST_RAW = 1 << 20
"""How long its components may be together."""
_MOST_KEPT = 64 << 20
_OVERHEAD = 4 << 10
_FRAME = 8


def section_range(ref: SplitRef, most: int = SMALL_BYTES) -> tuple[int, int] | None:
    """The bytes from the index section to the end of the file; None if that is not small, or there is no section."""
    if not ref.has_offsets or not ref.range1_length:
        return None
    start, end = ref.index_start or 0, (ref.footer_end or 0) + _FRAME
    return (start, end) if 0 < end - start <= most else None


def decode_section(data: bytes, ref: SplitRef, url: str) -> CachedSplit:
    """The index in the bytes of `section_range`: its components are whole but for `store`, which is a hole.

    Its key is of the bytes and of the store, at `url`, that they are from.

    Raises SplitCorrupt for any that are not those of the split.
    """
    length = (ref.footer_start or 0) - (ref.index_start or 0)
    directory = layout.decode_directory(data, ref.key, section_length=length)
    layout.check_id(directory.id, ref.id, ref.key, "index")
    if ref.id is None:
        parse_footer(data[length:], ref)
    if ref.num_rows is not None and directory.num_rows != ref.num_rows:
        message = f"{ref.key}: the index is of {directory.num_rows} rows, the split has {ref.num_rows}"
        raise SplitCorrupt(message, path=ref.key, part="index", reason="rows")
    if sum(component.raw_length for component in directory.components) > _MOST_RAW:
        raise SplitCorrupt(f"{ref.key}: its index is not small", path=ref.key, part="index", reason="size")
    view = memoryview(data)
    files: dict[str, bytes] = {}
    pages = None
    for component in directory.components:
        stored = view[component.offset : component.end]
        if component.name == "store":
            files["store"] = bytes(component.raw_length - len(component.tail)) + component.tail
        elif component.name == PAGES:
            pages = bytes(stored)
        elif component.name in SEGMENT_PARTS:
            files[component.name] = bytes(layout.unpack(component, stored, ref.key))
    key = "s" + hashlib.sha256(f"{url}\0{ref.key}\0".encode() + data).hexdigest()[:39]
    files = files if directory.segment else {}
    return CachedSplit(ref, key, directory, files, frozenset(files) - {"store"}, pages)


class SmallSplits:
    """Those that were read lately, by URL of their store and reference: bounded by bytes and age. Thread-safe.

    One that an opened split holds is found besides.
    """

    def __init__(self, max_bytes: int = _MOST_KEPT, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = Lock()
        self._known: Remembered[tuple[str, SplitRef], CachedSplit] = Remembered(max_bytes, _size, clock)
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def size_bytes(self) -> int:
        return self._known.weight

    def get(self, url: str, ref: SplitRef) -> CachedSplit | None:
        """What is known of a split."""
        found = self._known.get((url, ref))
        with self._lock:
            self.hits += found is not None
            self.misses += found is None
        return found

    def keep(self, url: str, ref: SplitRef, split: CachedSplit) -> None:
        """Keep it for who asks next."""
        self._known.setdefault((url, ref), split)

    def forget(self, which: Callable[[str, SplitRef], bool]) -> int:
        """Forget those of some stores, or one of them; how many they are."""
        return self._known.forget(lambda key: which(*key))


def _size(split: CachedSplit) -> int:
    held = (len(data) for data in split.files.values() if not isinstance(data, Path))
    return sum(held) + len(split.pages or b"") + _OVERHEAD
