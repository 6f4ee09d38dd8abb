"""Object stores that keep the promises of a Store: S3, Azure and Google Cloud Storage through obstore.

The native client is told to send every request once: retries, waits and deadlines are ours (`retry.py`), because the
client takes its own landed request for a rival's when it repeats a conditional put.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from indextables.ambient import Ambient
from indextables.errors import (
    ForkUnsafe,
    IndexTablesError,
    InvalidArgument,
    ObjectNotFound,
    StoreError,
    StoreFull,
    StorePermissionDenied,
    StoreUnavailable,
)
from indextables.options import Options
from indextables.process import Lock
from indextables.storage.config import StoreConfig, fingerprint, given_options, read_config
from indextables.storage.fork import note_use
from indextables.storage.listing import in_key_order
from indextables.storage.probe import once_per_process, probe_conditional_put
from indextables.storage.redact import SecretMap
from indextables.storage.retry import retry
from indextables.storage.store import CallPolicy, Guard, Noted, ObjectMeta, PutAnswer, StoreFacts
from indextables.storage.url import MAX_KEY_BYTES, Location, check_key, check_prefix, is_key

__all__ = ["ObjectStore", "open_object_store"]

T = TypeVar("T")

_COALESCE = 1 << 20
_PAGE = 1000
_BULK = 1000
_PART = 8 << 20
_LARGE = 32 << 20
_SLOWEST_BYTES_PER_S = 4 << 20
"""A transfer this slow still meets its deadline, which grows with the bytes asked for."""


def open_object_store(location: Location, options: Options, *, policy: CallPolicy, ambient: Ambient) -> ObjectStore:
    """The store of an `s3`, `az` or `gs` location. Raises InvalidArgument for settings that are wrong."""
    return ObjectStore(location, given_options(options), policy=policy, ambient=ambient)


class ObjectStore:
    """A Store on S3, Azure or Google Cloud Storage. Safe for threads; after fork() see ForkUnsafe.

    A missing bucket and, on some gateways, an unknown access key are answered with "not found" as well. Where the
    answer carries a reason, that is raised; a HEAD request carries none, and then `exists` says False.
    """

    is_local = False
    outlives_process = True

    def __init__(self, location: Location, given: Mapping[str, str], *, policy: CallPolicy, ambient: Ambient) -> None:
        self._location = location
        self._given = SecretMap(given)
        self._config: StoreConfig = read_config(location, given)
        self._credentials = fingerprint(given)
        self._policy = policy
        self._ambient = ambient
        self._lock = Lock()
        self._clients: dict[tuple[float, int], Any] = {}
        # Azure orders by its own rules, and with a hierarchical namespace by folder.
        self._lists_in_order = location.scheme in ("s3", "gs")

    def __repr__(self) -> str:
        return f"ObjectStore({self.url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopen, (self._location, self._given, self._policy, self._ambient))

    @property
    def url(self) -> str:
        return self._location.url

    @property
    def identity(self) -> Hashable:
        return self.url, self._credentials

    def get(self, key: str, *, policy: CallPolicy | None = None, noted: Noted | None = None) -> bytes:
        full = self._full(key)

        def attempt(client: Any) -> tuple[bytes | None, ObjectMeta]:
            result = client.get(full)
            meta = _meta(key, result.meta)
            return None if meta.size > _LARGE else _whole(bytes(result.bytes()), meta.size, key), meta

        data, meta = self._retried(key, policy, attempt)
        if data is None:
            data, meta = self._get_in_parts(meta, policy)
        if noted is not None:
            noted(meta)
        return data

    def get_range(self, key: str, start: int, end: int, *, policy: CallPolicy | None = None) -> bytes:
        return self.get_ranges(key, [(start, end)], policy=policy)[0]

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, policy: CallPolicy | None = None
    ) -> list[bytes]:
        for start, end in ranges:
            if not 0 <= start <= end:
                raise InvalidArgument(f"[{start}, {end}) is not a range of {key}", key=key)
        filled = [(start, end) for start, end in ranges if start < end]
        if len(filled) < len(ranges):
            # HTTP has no empty range, but the object must be there and long enough all the same.
            self._check_size(key, max((end for _, end in ranges), default=0), policy)
        found = iter(self._get_ranges(key, filled, policy, coalesce=_COALESCE)) if filled else iter(())
        return [next(found) if start < end else b"" for start, end in ranges]

    def put(self, key: str, data: bytes | memoryview, *, policy: CallPolicy | None = None) -> None:
        body = memoryview(data).cast("B")
        if len(body) > _PART:
            self._put_parts(key, lambda: body, len(body), policy)
        else:
            full = self._full(key)
            self._retried(
                key, policy, lambda client: client.put(full, body, use_multipart=False), size=len(body), writing=True
            )

    def put_file(self, key: str, source: Path, *, policy: CallPolicy | None = None) -> None:
        try:
            size = source.stat().st_size
        except FileNotFoundError as error:
            raise InvalidArgument(f"{source} does not exist: there is nothing to put") from error
        self._put_parts(key, lambda: source, size, policy)

    def put_if_absent(self, key: str, data: bytes | memoryview, *, policy: CallPolicy | None = None) -> PutAnswer:
        full = self._full(key)
        body = memoryview(data).cast("B")
        deadline_s = policy.deadline_s if policy is not None else self._policy.deadline_s / 2
        client = self._client(deadline_s + len(body) / _SLOWEST_BYTES_PER_S)
        from indextables.storage.native import NATIVE_ERRORS, REFUSALS

        try:
            client.put(full, body, mode="create", use_multipart=False)
        except REFUSALS:
            return PutAnswer.REFUSED
        except NATIVE_ERRORS as caught:
            error = self._translate(caught, key, writing=True)
        else:
            return PutAnswer.CREATED
        if isinstance(error, (StoreUnavailable, StoreFull)):
            # What it is about stands in a text only, and a text proves nothing.
            return PutAnswer.UNKNOWN
        raise error

    def list_from(
        self, prefix: str, after: str | None = None, *, policy: CallPolicy | None = None
    ) -> Iterator[ObjectMeta]:
        check_prefix(prefix)
        pages = self._pages(prefix, after or "", policy)
        return in_key_order(pages if self._lists_in_order else _as_one_page(pages))

    def head(self, key: str, *, policy: CallPolicy | None = None) -> ObjectMeta:
        full = self._full(key)
        return self._retried(key, policy, lambda client: _meta(key, client.head(full)))

    def exists(self, key: str, *, policy: CallPolicy | None = None) -> bool:
        try:
            self.head(key, policy=policy)
        except ObjectNotFound:
            return False
        return True

    def delete_many(
        self, keys: Iterable[str], *, policy: CallPolicy | None = None, guard: Guard | None = None
    ) -> dict[str, str]:
        left: dict[str, str] = {}
        stream = iter(keys)
        while bulk := list(itertools.islice(stream, _BULK)):
            fulls = [self._full(key) for key in bulk]
            try:
                self._retried(bulk[0], policy, methodcaller("delete", fulls), writing=True, before=_asking(guard, bulk))
            except _NotNow as refusal:
                return left | dict.fromkeys([*bulk, *stream], refusal.reason())
            except StoreError:
                # The answer to a bulk does not say which key it is about, and a missing one fails it on Azure.
                left |= self._delete_singly(bulk, policy or self._policy, guard)
        return left

    def probe(self) -> StoreFacts:
        identity = f"{self.url} {self._config.endpoint} {self._config.account}"
        return once_per_process(identity, lambda: probe_conditional_put(self, self._ambient))

    def _delete_singly(self, keys: list[str], policy: CallPolicy, guard: Guard | None) -> dict[str, str]:
        """Each key once, until the deadline: a store that answers nobody must not be asked a thousand times."""
        left: dict[str, str] = {}
        deadline = self._ambient.monotonic() + policy.deadline_s
        once = msgspec.structs.replace(policy, attempts=1)
        for number, key in enumerate(keys):
            if self._ambient.monotonic() > deadline:
                return left | dict.fromkeys(keys[number:], "not tried: the deadline had passed")
            try:
                self._retried(key, once, methodcaller("delete", self._full(key)), before=_asking(guard, [key]))
            except _NotNow as refusal:
                return left | dict.fromkeys(keys[number:], refusal.reason())
            except ForkUnsafe:
                raise
            except ObjectNotFound:
                continue
            except StoreError as error:
                left[key] = str(error)
        return left

    def _put_parts(self, key: str, body: Callable[[], object], size: int, policy: CallPolicy | None) -> None:
        """Parts may be sent again by the client itself: the upload has an id, and nobody else writes the key."""
        full = self._full(key)
        part = max(_PART, size // 5000)
        repeats = (policy or self._policy).attempts - 1
        self._retried(
            key,
            policy,
            lambda client: client.put(full, body(), chunk_size=part),
            size=size,
            writing=True,
            repeats=repeats,
        )

    def _get_in_parts(self, meta: ObjectMeta, policy: CallPolicy | None) -> tuple[bytes, ObjectMeta]:
        """All bytes of a large object, and what it is: one request for all of it would have to fit into one timeout.

        Parts of an object that was replaced meanwhile belong to two: it is read again. Raises StoreUnavailable if
        that goes on.
        """
        for _ in range((policy or self._policy).attempts):
            ranges = [(start, min(start + _PART, meta.size)) for start in range(0, meta.size, _PART)]
            parts = self._get_ranges(meta.key, ranges, policy, coalesce=0)
            before, meta = meta, self.head(meta.key, policy=policy)
            if (meta.etag, meta.size) == (before.etag, before.size):
                return b"".join(parts), meta
        raise StoreUnavailable(f"{self.url}/{meta.key} is replaced faster than it can be read: try again", key=meta.key)

    def _get_ranges(
        self, key: str, ranges: list[tuple[int, int]], policy: CallPolicy | None, *, coalesce: int
    ) -> list[bytes]:
        full = self._full(key)
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        size = sum(ends) - sum(starts)

        def attempt(client: Any) -> list[bytes]:
            from indextables.storage.native import NATIVE_ERRORS

            try:
                found = client.get_ranges(full, starts=starts, ends=ends, coalesce=coalesce)
            except NATIVE_ERRORS as caught:
                # A range past the end is an error like any other to the client.
                if not isinstance(caught, FileNotFoundError) and int(client.head(full)["size"]) < max(ends):
                    return []
                raise
            return [bytes(data) for data in found]

        parts = self._retried(key, policy, attempt, size=size)
        if len(parts) < len(ranges):
            raise _too_short(key, max(ends))
        for (start, end), data in zip(ranges, parts, strict=True):
            if len(data) != end - start:
                raise _too_short(key, end)
        return parts

    def _check_size(self, key: str, end: int, policy: CallPolicy | None) -> None:
        if self.head(key, policy=policy).size < end:
            raise _too_short(key, end)

    def _pages(self, prefix: str, after: str, policy: CallPolicy | None) -> Iterator[list[ObjectMeta]]:
        """Pages as the store gives them, filtered. A page that fails is asked for again, from the last key on."""
        root = f"{self._location.path}/"
        cursor = _Cursor(after)

        def next_page(client: Any) -> list[ObjectMeta] | None:
            if cursor.stream is None:
                offset = root + cursor.after if cursor.after > prefix and is_key(cursor.after) else None
                cursor.stream = client.list((root + prefix)[:-1], offset=offset, chunk_size=_PAGE)
                cursor.received = 0
            # Without a stream if this fails: the next attempt makes a new one.
            stream, cursor.stream = cursor.stream, None
            found = next(stream, None)
            if found is None:
                return next_page(client) if cursor.may_have_been_cut() else None
            page = [_meta(item["path"][len(root) :], item) for item in found if item["path"].startswith(root + prefix)]
            cursor.stream = stream
            cursor.received += len(found)
            cursor.last = max((meta.key for meta in page), default=cursor.last)
            if self._lists_in_order:
                cursor.after = cursor.last
            return page

        while (page := self._foreign_names_refused(prefix, policy, next_page)) is not None:
            yield [meta for meta in page if meta.key > after]

    def _foreign_names_refused(self, prefix: str, policy: CallPolicy | None, next_page: Callable[[Any], T]) -> T:
        try:
            return self._retried(prefix, policy, next_page)
        except InvalidArgument as error:
            message = f"{error}: somebody else put an object here whose name no table can use; remove it"
        raise StoreError(message, key=prefix)

    def _retried(
        self,
        key: str,
        policy: CallPolicy | None,
        attempt: Callable[[Any], T],
        *,
        size: int = 0,
        writing: bool = False,
        repeats: int = 0,
        before: Callable[[], object] | None = None,
    ) -> T:
        """`before` is called right before each request."""
        policy = policy or self._policy
        if size:
            policy = msgspec.structs.replace(policy, deadline_s=policy.deadline_s + size / _SLOWEST_BYTES_PER_S)
        # A request that hangs must leave time for another.
        share = 1 if policy.attempts == 1 else 2
        may_refresh = self._config.login is None and not self._config.anonymous

        def once(seconds_left: float) -> T:
            nonlocal may_refresh
            client = self._client(seconds_left / share, repeats)
            from indextables.storage.native import NATIVE_ERRORS

            if before is not None:
                before()
            try:
                return attempt(client)
            except NATIVE_ERRORS as caught:
                if isinstance(caught, IndexTablesError):
                    raise
                error = self._translate(caught, key, writing=writing)
            if isinstance(error, StorePermissionDenied) and may_refresh:
                # Credentials that the client found itself may have been replaced since: look once more.
                may_refresh = False
                with self._lock:
                    self._clients.clear()
                return once(seconds_left)
            # Raised out here, so that nothing of the native error hangs on to it.
            raise error

        return retry(once, policy, self._ambient)

    def _client(self, timeout_s: float, repeats: int = 0) -> Any:
        """Clients have a fixed timeout: one for each step of 25 %, made when first needed."""
        note_use()
        step = math.floor(math.log(max(timeout_s, 0.01), 1.25) + 1e-3)
        kind = (round(1.25**step, 3), repeats)
        with self._lock:
            client = self._clients.get(kind)
            if client is None:
                from indextables.storage.native import make_client

                client = make_client(self._location, self._config, timeout_s=kind[0], retries=repeats)
                self._clients[kind] = client
        return client

    def _translate(self, caught: Exception, key: str, *, writing: bool) -> IndexTablesError:
        from indextables.storage.native import translate

        return translate(caught, f"{self.url}/{key}", key, self._config, writing=writing)

    def _full(self, key: str) -> str:
        full = f"{self._location.path}/{check_key(key)}"
        if len(full.encode()) > MAX_KEY_BYTES:
            raise InvalidArgument(f"{key!r} is too long for an object store ({MAX_KEY_BYTES} bytes)", key=key)
        return full


class _NotNow(Exception):
    """A guard says no, or cannot tell: what it told or raised."""

    def __init__(self, told: str | IndexTablesError) -> None:
        super().__init__(str(told))
        self.told = told

    def reason(self) -> str:
        """Why nothing may be deleted. Raises what the guard raised."""
        if isinstance(self.told, IndexTablesError):
            raise self.told from None
        return self.told


def _asking(guard: Guard | None, keys: Sequence[str]) -> Callable[[], object] | None:
    """Asks the guard about these keys. Raises _NotNow, which nobody takes for a failure of the request."""
    if guard is None:
        return None

    def ask() -> None:
        try:
            told: str | IndexTablesError = guard(keys)
        except IndexTablesError as error:
            told = error
        if told:
            raise _NotNow(told)

    return ask


class _Cursor:
    """Where a listing stands: the native stream, and the key to go on from when it breaks."""

    def __init__(self, after: str) -> None:
        self.after = self.last = after
        self.stream: Any = None
        self.received = 0
        self._looked_past = ""

    def may_have_been_cut(self) -> bool:
        """True, once per place, if a stream ended at the end of a full page: the mark of a lost page token.

        Then the listing must go on from the last key, to see whether there is more.
        """
        suspicious = self.received > 0 and self.received % _PAGE == 0 and self.last > self._looked_past
        self._looked_past = self.after = self.last
        return suspicious


def _reopen(location: Location, given: Mapping[str, str], policy: CallPolicy, ambient: Ambient) -> ObjectStore:
    return ObjectStore(location, given, policy=policy, ambient=ambient)


def _meta(key: str, found: Mapping[str, Any]) -> ObjectMeta:
    """Alike for the same object, whoever tells it: HEAD knows whole seconds only, Azure lists tags without quotes."""
    etag = found["e_tag"]
    return ObjectMeta(key, found["size"], int(found["last_modified"].timestamp()) * 1000, etag and etag.strip('"'))


def _as_one_page(pages: Iterable[list[ObjectMeta]]) -> Iterator[list[ObjectMeta]]:
    found = {meta.key: meta for page in pages for meta in page}
    yield [found[key] for key in sorted(found)]


def _whole(data: bytes, size: int, key: str) -> bytes:
    if len(data) != size:
        raise StoreUnavailable(f"{key}: {len(data)} of {size} bytes arrived: try again", key=key)
    return data


def _too_short(key: str, end: int) -> StoreError:
    return StoreError(f"{key} ends before byte {end} that was asked for", key=key)
