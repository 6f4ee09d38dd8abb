"""`memory://name`: objects that live as long as the process, for tests, demos and scratch tables."""

from __future__ import annotations

import bisect
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path

from indextables.ambient import Ambient, SystemAmbient
from indextables.errors import InvalidArgument, NotSupported, ObjectNotFound, StoreError
from indextables.process import Lock, Memory, declare
from indextables.storage.store import CallPolicy, Guard, Noted, ObjectMeta, PutAnswer, StoreFacts
from indextables.storage.url import Location, check_key, check_prefix

__all__ = ["MemoryStore"]

_PAGE = 1000


class _Bucket:
    """All objects of one name: full key -> (bytes, modified_ms, etag), and the keys in order."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.objects: dict[str, tuple[bytes, int, int]] = {}
        self.order: list[str] = []
        self.puts = 0

    def set(self, key: str, data: bytes, now_ms: int) -> None:
        if key not in self.objects:
            bisect.insort(self.order, key)
        self.puts += 1
        self.objects[key] = (data, now_ms, self.puts)

    def drop(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.order[bisect.bisect_left(self.order, key)]


_BUCKETS: dict[str, _Bucket] = {}


def _renew_after_fork() -> None:
    """A thread of the parent that was writing is not here to finish."""
    for bucket in _BUCKETS.values():
        bucket.lock, bucket.order = Lock(), sorted(bucket.objects)


_MEMORY = declare(
    Memory(
        name="objects of `memory://`",
        where=f"{__name__}._BUCKETS",
        key="name",
        bound="none: they are the data",
        fork="the child has a copy of its own; pickles are refused in other processes",
        ends="with the process",
        after_fork=_renew_after_fork,
    )
)


class MemoryStore:
    """A Store in the memory of this process. All stores of one name share their objects.

    A pickle of it can be read by the same process only: anywhere else the objects would silently be gone.
    """

    is_local = False
    outlives_process = False

    def __init__(self, location: Location, *, ambient: Ambient | None = None) -> None:
        with _MEMORY.lock:
            self._bucket = _BUCKETS.setdefault(location.bucket, _Bucket())
        self._location = location
        self._root = f"{location.path}/" if location.path else ""
        self._ambient: Ambient = ambient or SystemAmbient()

    def __repr__(self) -> str:
        return f"MemoryStore({self.url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopen, (self._location, os.getpid()))

    @property
    def url(self) -> str:
        return self._location.url

    @property
    def identity(self) -> Hashable:
        return self.url, self._bucket

    def get(self, key: str, *, policy: CallPolicy | None = None, noted: Noted | None = None) -> bytes:
        del policy
        data, modified_ms, etag = self._find(key)
        if noted is not None:
            noted(ObjectMeta(key, len(data), modified_ms, str(etag)))
        return data

    def get_range(self, key: str, start: int, end: int, *, policy: CallPolicy | None = None) -> bytes:
        return self.get_ranges(key, [(start, end)], policy=policy)[0]

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, policy: CallPolicy | None = None
    ) -> list[bytes]:
        del policy
        data = self._find(key)[0]
        for start, end in ranges:
            if not 0 <= start <= end:
                raise InvalidArgument(f"[{start}, {end}) is not a range of {key}", key=key)
            if end > len(data):
                message = f"{key} ends at byte {len(data)}, before byte {end} that was asked for"
                raise StoreError(message, key=key, size=len(data))
        return [data[start:end] for start, end in ranges]

    def put(self, key: str, data: bytes | memoryview, *, policy: CallPolicy | None = None) -> None:
        del policy
        full = self._full(key)
        with self._bucket.lock:
            self._bucket.set(full, bytes(data), self._ambient.now_ms())

    def put_file(self, key: str, source: Path, *, policy: CallPolicy | None = None) -> None:
        self._full(key)
        try:
            data = source.read_bytes()
        except FileNotFoundError as error:
            raise InvalidArgument(f"{source} does not exist: there is nothing to put") from error
        except OSError as error:
            raise StoreError(f"{source} cannot be read: {error.strerror}", key=key) from error
        self.put(key, data, policy=policy)

    def put_if_absent(self, key: str, data: bytes | memoryview, *, policy: CallPolicy | None = None) -> PutAnswer:
        del policy
        full = self._full(key)
        with self._bucket.lock:
            if full in self._bucket.objects:
                return PutAnswer.REFUSED
            self._bucket.set(full, bytes(data), self._ambient.now_ms())
            return PutAnswer.CREATED

    def list_from(
        self, prefix: str, after: str | None = None, *, policy: CallPolicy | None = None
    ) -> Iterator[ObjectMeta]:
        del policy
        check_prefix(prefix)
        return self._pages(self._root + prefix, None if after is None else self._root + after)

    def head(self, key: str, *, policy: CallPolicy | None = None) -> ObjectMeta:
        del policy
        data, modified_ms, etag = self._find(key)
        return ObjectMeta(key, len(data), modified_ms, str(etag))

    def exists(self, key: str, *, policy: CallPolicy | None = None) -> bool:
        del policy
        return self._full(key) in self._bucket.objects

    def delete_many(
        self, keys: Iterable[str], *, policy: CallPolicy | None = None, guard: Guard | None = None
    ) -> dict[str, str]:
        del policy
        keys = list(keys)
        reason = guard(keys) if guard is not None and keys else ""
        if reason:
            return dict.fromkeys(keys, reason)
        for key in keys:
            full = self._full(key)
            with self._bucket.lock:
                self._bucket.drop(full)
        return {}

    def probe(self) -> StoreFacts:
        return StoreFacts(skew_ms=0)

    def _full(self, key: str) -> str:
        return self._root + check_key(key)

    def _find(self, key: str) -> tuple[bytes, int, int]:
        found = self._bucket.objects.get(self._full(key))
        if found is None:
            raise ObjectNotFound(f"{self.url} has no object {key}", key=key)
        return found

    def _pages(self, prefix: str, after: str | None) -> Iterator[ObjectMeta]:
        """Pages are cut under the lock, so that writers can go on between them."""
        bucket, skip = self._bucket, len(self._root)
        last = after if after is not None and after >= prefix else None
        while True:
            with bucket.lock:
                start = (
                    bisect.bisect_left(bucket.order, prefix)
                    if last is None
                    else bisect.bisect_right(bucket.order, last)
                )
                page = []
                for key in bucket.order[start : start + _PAGE]:
                    if not key.startswith(prefix):
                        break
                    data, modified_ms, etag = bucket.objects[key]
                    page.append(ObjectMeta(key[skip:], len(data), modified_ms, str(etag)))
            yield from page
            if len(page) < _PAGE:
                return
            last = self._root + page[-1].key


def _reopen(location: Location, pid: int) -> MemoryStore:
    if pid != os.getpid():
        raise NotSupported(f"{location.url} lives in another process: use files or an object store", url=location.url)
    return MemoryStore(location)
