"""A store that does what the one below it does, except where a test says otherwise; and a clock that a test sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from indextables.errors import StoreUnavailable
from indextables.storage.store import ObjectMeta, PutAnswer, Store, StoreFacts

SLOT = r"_transaction_log/\d{20}\.json$"

Trick = Callable[[Callable[[], Any]], Any]
"""What happens in place of a call; it is given the real one."""


def lost(call: Callable[[], Any]) -> PutAnswer:
    """The put lands, its answer does not come back."""
    call()
    return PutAnswer.UNKNOWN


def refused_although_landed(call: Callable[[], Any]) -> PutAnswer:
    """A proxy repeats the put and passes on the second answer."""
    call()
    return PutAnswer.REFUSED


def not_landed(_call: Callable[[], Any]) -> PutAnswer:
    """A 5xx before anything happened."""
    return PutAnswer.UNKNOWN


def conflict_out_of_nothing(_call: Callable[[], Any]) -> PutAnswer:
    """A 409 that only means "try again"."""
    return PutAnswer.REFUSED


def unavailable(_call: Callable[[], Any]) -> Any:
    raise StoreUnavailable("no answer", key="")


class Scripted:
    """Records every call as (verb, key), and plays tricks: the next `times` calls that match are handed to one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: list[tuple[str, str]] = []
        self.skew_ms = 0
        self._tricks: list[list[Any]] = []

    def play(self, verb: str, key: str, trick: Trick, *, times: int = 1) -> None:
        self._tricks.append([verb, re.compile(key), trick, times])

    def count(self, verb: str, key: str = "") -> int:
        return sum(1 for v, k in self.calls if v == verb and re.search(key, k))

    @property
    def url(self) -> str:
        return self.store.url

    @property
    def identity(self) -> object:
        return self

    @property
    def is_local(self) -> bool:
        return self.store.is_local

    @property
    def outlives_process(self) -> bool:
        return self.store.outlives_process

    def get(self, key: str, **more: Any) -> bytes:
        return self._do("get", key, lambda: self.store.get(key, **more))

    def get_range(self, key: str, start: int, end: int, **more: Any) -> bytes:
        return self._do("get", key, lambda: self.store.get_range(key, start, end, **more))

    def get_ranges(self, key: str, ranges: Any, **more: Any) -> list[bytes]:
        return self._do("get", key, lambda: self.store.get_ranges(key, ranges, **more))

    def put(self, key: str, data: bytes, **more: Any) -> None:
        self._do("put", key, lambda: self.store.put(key, data, **more))

    def put_file(self, key: str, source: Any, **more: Any) -> None:
        self._do("put", key, lambda: self.store.put_file(key, source, **more))

    def put_if_absent(self, key: str, data: bytes, **more: Any) -> PutAnswer:
        return self._do("put_if_absent", key, lambda: self.store.put_if_absent(key, data, **more))

    def list_from(self, prefix: str, after: str | None = None, **more: Any) -> Iterator[ObjectMeta]:
        return self._do("list", prefix, lambda: self.store.list_from(prefix, after, **more))

    def head(self, key: str, **more: Any) -> ObjectMeta:
        return self._do("head", key, lambda: self.store.head(key, **more))

    def exists(self, key: str, **more: Any) -> bool:
        return self._do("exists", key, lambda: self.store.exists(key, **more))

    def delete_many(self, keys: Iterable[str], **more: Any) -> dict[str, str]:
        listed = list(keys)
        return self._do("delete", " ".join(listed), lambda: self.store.delete_many(listed, **more))

    def probe(self) -> StoreFacts:
        return StoreFacts(skew_ms=self.skew_ms)

    def _do(self, verb: str, key: str, call: Callable[[], Any]) -> Any:
        self.calls.append((verb, key))
        for trick in self._tricks:
            if trick[0] == verb and trick[3] > 0 and trick[1].search(key):
                trick[3] -= 1
                return trick[2](call)
        return call()
