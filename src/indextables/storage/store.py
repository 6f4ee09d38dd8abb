"""The promises that everything above relies on, whatever holds the bytes."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

LOG_DIR = "_transaction_log/"
"""Where a table has its log. Stores know it for their probe, which writes nowhere else."""


class ObjectMeta(msgspec.Struct, frozen=True):
    """What a listing or a head request tells about an object: both the same about the same object.

    `etag` changes when the object is replaced by other bytes.
    """

    key: str
    size: int
    modified_ms: int
    etag: str | None = None


Guard = Callable[[Sequence[str]], str]
"""Asked for the keys of one request right before they are deleted: why they must not be; empty if they may."""


Noted = Callable[[ObjectMeta], object]
"""Told what an answer says about the object that it holds, before its bytes are handed out."""


class CallPolicy(msgspec.Struct, frozen=True):
    """How long and how often one call may try.

    `attempts` counts requests, the first included; 1 means that exactly one request is sent. The deadline spans all
    attempts and the waits between them (full jitter, doubling from `base_delay_s` up to `max_delay_s`). A put that is
    not `durable` may be lost or torn in a crash of the machine: only for what its reader can check and do without.
    """

    deadline_s: float = 30.0
    attempts: int = 5
    base_delay_s: float = 0.1
    max_delay_s: float = 5.0
    durable: bool = True


class PutAnswer(enum.Enum):
    """What the store said to one conditional put.

    Only CREATED is evidence. REFUSED (a 409 or 412) may be the answer to our own, earlier delivered request or to
    nothing at all; UNKNOWN means that no usable answer came (5xx, reset, timeout). Read the key back for both.
    """

    CREATED = "created"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class StoreFacts(msgspec.Struct, frozen=True):
    """What the probe before the first write found out: put-if-absent holds, and how far the clocks are apart."""

    skew_ms: int
    """The store's clock minus ours, in milliseconds."""


@runtime_checkable
class Store(Protocol):
    """Objects below one root. A key is relative to it: decoded Unicode, `/` between parts, no leading slash.

    1. A reader sees an object whole or not at all, and sees it as soon as the put has returned.
    2. When `put` or `put_if_absent` -> CREATED returns, the bytes survive a crash of the machine.
    3. Of any number of concurrent `put_if_absent` of a key, at most one creates it, for ever.
    4. Errors are those of `indextables.errors`, carry the key, and never a secret.
    5. `repr`, `str` and `url` hold no secret; neither does a pickle, unless the store was opened with options that
       name one (they travel because a Spark task must open the same store).
    """

    @property
    def url(self) -> str:
        """The root as a URL without credentials, no trailing slash."""
        ...

    @property
    def identity(self) -> Hashable:
        """Equal for stores that reach the same objects by the same credentials and settings. It holds no secret."""
        ...

    @property
    def is_local(self) -> bool:
        """True for files of this machine."""
        ...

    @property
    def outlives_process(self) -> bool:
        """True if every process finds the same objects at this URL, also when this one has ended."""
        ...

    def get(self, key: str, *, policy: CallPolicy | None = None, noted: Noted | None = None) -> bytes:
        """All bytes, of the object that `noted` is told about. Raises ObjectNotFound."""
        ...

    def get_range(self, key: str, start: int, end: int, *, policy: CallPolicy | None = None) -> bytes:
        """The bytes [start, end), exactly. Raises ObjectNotFound, and StoreError if the object ends before `end`."""
        ...

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, policy: CallPolicy | None = None
    ) -> list[bytes]:
        """One result per [start, end), in order; neighbours up to 1 MB apart share a request. As `get_range`."""
        ...

    def put(self, key: str, data: bytes | memoryview, *, policy: CallPolicy | None = None) -> None:
        """Create or replace. Retried freely: only for keys that no one else writes, and for the pointer."""
        ...

    def put_file(self, key: str, source: Path, *, policy: CallPolicy | None = None) -> None:
        """As `put`, from a local file of any size (multipart where the store has it).

        Where this has not returned when the machine loses power, a key that was new may hold a part of the file.
        """
        ...

    def put_if_absent(self, key: str, data: bytes | memoryview, *, policy: CallPolicy | None = None) -> PutAnswer:
        """One request, never retried, that creates the key or leaves it alone.

        Raises StoreError (StorePermissionDenied, StoreFull and others, never StoreUnavailable) only where that proves
        that nothing was written; an answer that proves nothing is UNKNOWN.
        """
        ...

    def list_from(
        self, prefix: str, after: str | None = None, *, policy: CallPolicy | None = None
    ) -> Iterator[ObjectMeta]:
        """Every object whose key starts with `prefix` and is greater than `after`, in order of the key's UTF-8 bytes.

        `prefix` ends with `/` or is empty; subfolders are included; pages are fetched as the iterator advances. A
        missing folder is an empty listing. Any error while listing is raised: a listing never ends early in silence.
        """
        ...

    def head(self, key: str, *, policy: CallPolicy | None = None) -> ObjectMeta:
        """Size and time of one object. Raises ObjectNotFound."""
        ...

    def exists(self, key: str, *, policy: CallPolicy | None = None) -> bool: ...

    def delete_many(
        self, keys: Iterable[str], *, policy: CallPolicy | None = None, guard: Guard | None = None
    ) -> dict[str, str]:
        """Delete, in the order given on local files, in bulk where the store can. A missing key counts as deleted.

        `guard` is asked right before each file, or each request, that deletes, also before one is repeated that had no
        answer; once it says no, nothing more goes.
        Returns the keys that may still be there, each with the reason. Raises what `guard` raises.
        """
        ...

    def probe(self) -> StoreFacts:
        """Prove, once per store and process, that conditional puts work here. Raises StoreUnsafe."""
        ...
