"""A store that writes down what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indextables.storage import Store


class CountingStore:
    """Passes everything on to a real store; `reads` lists (key, bytes) per call. Says that it is not local."""

    def __init__(self, store: Store, *, is_local: bool = False) -> None:
        self._store = store
        self.is_local = is_local
        self.reads: list[tuple[str, int]] = []
        self.heads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get_range(self, key: str, start: int, end: int, **more: Any) -> bytes:
        self.reads.append((key, end - start))
        return self._store.get_range(key, start, end, **more)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]], **more: Any) -> list[bytes]:
        self.reads.append((key, sum(end - start for start, end in ranges)))
        return self._store.get_ranges(key, ranges, **more)

    def get(self, key: str, **more: Any) -> bytes:
        data = self._store.get(key, **more)
        self.reads.append((key, len(data)))
        return data

    def head(self, key: str, **more: Any) -> Any:
        self.heads += 1
        return self._store.head(key, **more)
