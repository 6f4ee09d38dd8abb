"""What live writers and readers protect from purge, and who may do long work alone.

An intent is a small file below `_transaction_log/_intents/`. Nothing depends on one being there: without it, files are
protected by their age and versions by retention. Purge reads all of them, and leaves alone what a live one names.

How long an intent lives is told by the store alone: it ends `ttlMs` after the time at which the store last saw it
written, so that nobody's clock can stretch or cut it. Whoever needs it longer writes it again.

A lease makes long work exclusive. Its files are numbered: the holder is who created the newest number, and to take over
from a holder that is gone is to create the next one, which the store lets only one succeed at. No store lets a delete
or a commit depend on another object, so that a holder which stalls past its time can still do the one thing that it
was about to do: whoever must not be late looks at the lease right before (`holds`), with time to spare.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

import msgspec

from indextables.env import Env
from indextables.errors import IndexTablesError, InvalidArgument, ObjectNotFound, StoreError
from indextables.log.care.work import Work, failed
from indextables.log.read import clock
from indextables.log.wire import LOG_DIR, intent_key, parse_key
from indextables.storage.store import ObjectMeta

__all__ = [
    "INTENT_DIR",
    "MAX_TTL_MS",
    "Holder",
    "Intent",
    "Lease",
    "Protection",
    "Protections",
    "Ticket",
    "acquire",
    "announce_drop",
    "announce_sweep",
    "holds",
    "last_work",
    "leases",
    "protect_keys",
    "protect_version",
    "protections",
    "seen_now_ms",
    "store_now_ms",
    "who_holds",
]

INTENT_DIR = LOG_DIR + "_intents/"
MAX_TTL_MS = 7 * 24 * 3_600_000
"""No intent lives longer without being written again, whatever it says."""

_NEVER_ENDED = "the process that did it ended before its work did, or was too slow for its lease"
_SPARE = 3  # times as long as work took, since the next may be slower
_SWEEP_MS = 300_000
_MAX_BYTES = 4 << 20
_MAX_KEYS = 20_000
# Object stores tell times in whole seconds.
_GRAIN_MS = 1000
_LAST_MS = 253_402_300_799_000
_LEASE = re.compile(r"lease-([a-z][a-z0-9]{0,30})-([0-9]{12})")
_NAME = re.compile(r"[a-z][a-z0-9]{0,30}")

_LOGGER = logging.getLogger("indextables")


class Intent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of an intent.

    `reader` protects `version`: everything that is needed to read it and what came later. `writer` protects `keys`, and
    every data file that the store saw from `sinceMs` on. `lease` and `sweep` protect nothing; a `sweep` says that files
    of the log are being deleted. `drop` says that all of them are, and protects everything from anybody else, as a kind
    that is not known does.
    """

    kind: str
    ttlMs: int
    token: str
    holder: str = ""
    tableId: str | None = None
    version: int | None = None
    sinceMs: int | None = None
    keys: list[str] = []
    released: bool = False
    work: Work | None = None


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lease: `holder` is the machine and the process; it ends at `until_ms` unless it is renewed."""

    name: str
    holder: str
    until_ms: int

    def __str__(self) -> str:
        until = dt.datetime.fromtimestamp(min(max(self.until_ms, 0), _LAST_MS) // 1000, dt.UTC)
        gone = f"should that process be gone, its hold ends by itself at {until:%Y-%m-%dT%H:%M:%SZ}"
        return f"{self.holder} holds it; {gone}"


class Protections(msgspec.Struct, frozen=True):
    """What the live intents of a table protect together.

    `oldest_version` is the oldest version that a reader needs, `since_ms` the store's time from which on writers need
    every data file; None where nobody asks. `everything` says that an intent could not be understood, and why.
    `expired` are keys of intents that are over, `sweep` is who deletes files of the log just now: who does so longest.
    """

    oldest_version: int | None = None
    since_ms: int | None = None
    keys: frozenset[str] = frozenset()
    everything: str | None = None
    live: int = 0
    expired: tuple[str, ...] = ()
    sweep: Holder | None = None


class Ticket(msgspec.Struct, frozen=True):
    """A lease as another process may look at it: its name and the number of its holder."""

    name: str
    number: int


def store_now_ms(env: Env) -> int:
    """The time by the store's clock, as far as the probe of this process knows the difference. Raises StoreUnsafe."""
    return env.ambient.now_ms() + clock.skew_ms(env)


def seen_now_ms(env: Env) -> int:
    """The same for who only looks and may not write: by our own clock where the two have not been compared."""
    return env.ambient.now_ms() + (clock.known_skew_ms(env) or 0)


def protect_version(env: Env, version: int, *, ttl_ms: int, table_id: str | None = None) -> Protection:
    """Keep a version readable for `ttl_ms` from now, or from the last `renew()`. Raises StoreError, InvalidArgument."""
    return _write(env, Intent("reader", ttl_ms, env.ambient.token(), _holder(), table_id, version=version))


def announce_sweep(env: Env) -> Protection:
    """Say that files of the log are going to be deleted, before the intents are read that forbid it. Raises StoreError.

    Whoever protects a version looks for sweeps afterwards: either they see each other's file, or the later one sees
    the other's. `renew()` it before each batch.
    """
    return _write(env, Intent("sweep", _SWEEP_MS, env.ambient.token(), _holder()))


def announce_drop(env: Env) -> Protection:
    """Say that the table is going to be dropped: no cleanup begins while this is there. Raises StoreError.

    Whoever drops waits for those that are at work (`sweeping.await_sweeps`), lest one of their deletes finds a file of
    the table that is made here next.
    """
    return _write(env, Intent("drop", _SWEEP_MS, env.ambient.token(), _holder()))


def protect_keys(
    env: Env, keys: Sequence[str] = (), *, since_ms: int | None = None, ttl_ms: int, table_id: str | None = None
) -> Protection:
    """Keep data files that no version names yet: these, and all that the store saw from `since_ms` on.

    Raises StoreError, and InvalidArgument for more keys than an intent holds (name a time instead).
    """
    if len(keys) > _MAX_KEYS:
        raise InvalidArgument(f"an intent names at most {_MAX_KEYS} keys, not {len(keys)}: name a time instead")
    intent = Intent("writer", ttl_ms, env.ambient.token(), _holder(), table_id, sinceMs=since_ms, keys=list(keys))
    return _write(env, intent)


def protections(env: Env, now_ms: int, *, table_id: str | None = None) -> Protections:
    """What is protected at `now_ms`, the store's time. Raises StoreError if that cannot be found out.

    An intent that cannot be read as one protects everything as long as any intent may live.
    """
    found: list[tuple[ObjectMeta, Intent | str]] = []
    for meta in env.store.list_from(INTENT_DIR):
        file = parse_key(meta.key)
        if file is None or file.kind != "intent" or _LEASE.fullmatch(file.id or "") is not None:
            continue
        try:
            found.append((meta, _parse(env.store.get(meta.key) if meta.size <= _MAX_BYTES else b"")))
        except ObjectNotFound:
            continue
    return united(found, now_ms, table_id)


def united(found: Iterable[tuple[ObjectMeta, Intent | str]], now_ms: int, table_id: str | None) -> Protections:
    """The protections of intents, each with what the store tells about its file; a text says why one is none. Pure."""
    versions: list[int] = []
    times: list[int] = []
    keys: set[str] = set()
    expired: list[str] = []
    everything: str | None = None
    live = 0
    sweep: Holder | None = None
    for meta, intent in found:
        if now_ms - meta.modified_ms > _ttl_ms(intent) + _GRAIN_MS or (isinstance(intent, Intent) and intent.released):
            expired.append(meta.key)
            continue
        if isinstance(intent, str):
            everything = f"{meta.key} cannot be understood: {intent}"
            continue
        if table_id is not None and intent.tableId not in {None, table_id}:
            continue
        if intent.kind == "sweep":
            until_ms = meta.modified_ms + _ttl_ms(intent) + _GRAIN_MS
            if sweep is None or until_ms > sweep.until_ms:
                sweep = Holder("sweep", intent.holder or "a process that does not tell its name", until_ms)
            continue
        live += 1
        if intent.kind == "reader" and intent.version is not None:
            versions.append(intent.version)
        elif intent.kind == "writer":
            times += [] if intent.sinceMs is None else [intent.sinceMs - _GRAIN_MS]
            keys.update(intent.keys)
        elif intent.kind == "drop":
            everything = f"{intent.holder or 'somebody'} is dropping the table"
        else:
            everything = f"{meta.key} is of the kind {intent.kind!r}, which this library does not know"
    return Protections(
        oldest_version=min(versions, default=None),
        since_ms=min(times, default=None),
        keys=frozenset(keys),
        everything=everything,
        live=live,
        expired=tuple(expired),
        sweep=sweep,
    )


def acquire(
    env: Env, name: str, *, ttl_ms: int = 900_000, tells: bool = False, most_ms: int | None = None
) -> Lease | None:
    """The lease of this name on this table, None while another process holds it. Raises StoreError.

    It lasts `ttl_ms` from now, or from the last `renew()`. With `tells` it keeps what came of the work (`Work`).
    With `most_ms` too it lasts several times as long as the work took the last time, where that is more, but nobody
    holds it for longer than that, whatever its file says.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidArgument(f"a lease is named by small letters and digits, not {name!r}", name=name)
    _check_ttl(ttl_ms)
    newest = max(numbers := _numbers(env, name), default=0)
    before = _content(env, numbers[newest]) if newest else None
    if before is not None and not _is_past(store_now_ms(env), numbers[newest], before, most_ms):
        return None
    work = _left_by(before, numbers.get(newest), most_ms) or Work() if tells else None
    if work is not None and most_ms is not None:
        ttl_ms = max(ttl_ms, min(most_ms, _SPARE * work.tookMs))
    intent = Intent("lease", ttl_ms, env.ambient.token(), _holder(), work=work)
    key = _lease_key(name, newest + 1)
    env.store.put_if_absent(key, _encode(intent))
    # Whatever the answer was: the holder is who is read back.
    try:
        held = _parse(env.store.get(key))
    except ObjectNotFound:
        return None
    if isinstance(held, str) or held.token != intent.token:
        return None
    if max(_numbers(env, name), default=0) != newest + 1:
        # The number was free because somebody with a higher one has tidied up.
        return None
    _forget(env, [numbers[number].key for number in numbers])
    return Lease(env, key, intent, name, newest + 1)


def holds(env: Env, ticket: Ticket, *, spare_ms: int = 0) -> bool:
    """True if nobody has taken this lease over and it lasts for `spare_ms` more at least. Raises StoreError."""
    numbers = _numbers(env, ticket.name)
    mine = numbers.get(ticket.number)
    return mine is not None and max(numbers) == ticket.number and not _is_over(env, mine, spare_ms)


def leases(env: Env) -> list[Holder]:
    """The leases that somebody holds, by name. Raises StoreError."""
    newest: dict[str, tuple[int, ObjectMeta]] = {}
    for name, number, meta in _lease_files(env, "lease-"):
        newest[name] = max(newest.get(name, (0, meta)), (number, meta), key=lambda entry: entry[0])
    found: list[Holder] = []
    for name, (_, meta) in sorted(newest.items()):
        try:
            intent = _parse(env.store.get(meta.key) if meta.size <= _MAX_BYTES else b"")
        except ObjectNotFound:
            continue
        if _is_past(seen_now_ms(env), meta, intent):
            continue
        holder = "somebody" if isinstance(intent, str) else intent.holder or "somebody"
        found.append(Holder(name, holder, meta.modified_ms + _ttl_ms(intent)))
    return found


def last_work(env: Env, name: str) -> Work | None:
    """What came of the work of the lease of this name; None where nobody has told. Raises StoreError."""
    numbers = _numbers(env, name)
    content = _content(env, numbers[max(numbers)]) if numbers else None
    return content.work if isinstance(content, Intent) else None


def who_holds(env: Env, name: str) -> Holder | None:
    """Who holds the lease of this name; None if nobody does by now. Raises StoreError."""
    return next((held for held in leases(env) if held.name == name), None)


class _Held:
    """A file of ours in the intents folder, as a context."""

    def __init__(self, env: Env, key: str, intent: Intent) -> None:
        self._env = env
        self._key = key
        self._intent = intent

    @property
    def key(self) -> str:
        """The file."""
        return self._key

    @property
    def holder(self) -> str:
        """This machine and process."""
        return self._intent.holder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def renew(self) -> None:
        """Live for the whole time to live again, from now. Raises StoreError."""
        self._env.store.put(self._key, _encode(self._intent))

    def release(self) -> None:
        """Protect nothing any more. What fails is logged: the intent ends by itself."""
        raise NotImplementedError


class Protection(_Held):
    """An intent that protects something until it is released or its time is over."""

    _outlives = False

    def outlive(self) -> None:
        """Stay for the whole time to live from now, and end by itself: nothing releases it any more."""
        self._outlives = True
        try:
            self.renew()
        except StoreError as error:
            _LOGGER.warning("the intent %s of %s ends early: %s", self._key, self._env.store.url, error)

    def release(self) -> None:
        if not self._outlives:
            _forget(self._env, [self._key])


class Lease(_Held):
    """Exclusive work, as long as it is renewed in time."""

    def __init__(self, env: Env, key: str, intent: Intent, name: str, number: int) -> None:
        super().__init__(env, key, intent)
        self.ticket = Ticket(name, number)

    @property
    def work(self) -> Work | None:
        """What came of the work of those who held it before; None where nobody has told."""
        return self._intent.work

    def tell(self, work: Work) -> None:
        """Say what came of the work: the next `renew()` or `release()` writes it down for the next holder to see."""
        self._intent = msgspec.structs.replace(self._intent, work=work)

    def renew(self) -> None:
        """Hold on for the whole time to live again. Raises StoreError, also if the time is over."""
        if not self.is_held():
            message = f"the lease {self.ticket.name} of {self._env.store.url} is over, or was taken over"
            raise StoreError(message, key=self._key)
        super().renew()

    def is_held(self, *, spare_ms: int = 0) -> bool:
        """As `holds`."""
        return holds(self._env, self.ticket, spare_ms=spare_ms)

    def modified_ms(self) -> int:
        """The store's time of the last renewal. Raises StoreError."""
        return self._env.store.head(self._key).modified_ms

    def release(self) -> None:
        """Let the next one go ahead. The file stays, so that numbers never start again."""
        try:
            self._env.store.put(self._key, _encode(msgspec.structs.replace(self._intent, released=True)))
        except IndexTablesError as error:
            _LOGGER.warning("the lease %s of %s ends by itself: %s", self.ticket.name, self._env.store.url, error)


def _write(env: Env, intent: Intent) -> Protection:
    _check_ttl(intent.ttlMs)
    token = intent.token
    key = intent_key("-".join((token[:8], token[8:12], token[12:16], token[16:20], token[20:])))
    env.store.put(key, _encode(intent))
    return Protection(env, key, intent)


def _check_ttl(ttl_ms: int) -> None:
    if not 0 < ttl_ms <= MAX_TTL_MS:
        raise InvalidArgument(f"an intent lives for 1 ms to 7 days, not for {ttl_ms} ms: renew it", ttl_ms=ttl_ms)


def _numbers(env: Env, name: str) -> dict[int, ObjectMeta]:
    """The files of a lease by their numbers."""
    return {number: meta for held, number, meta in _lease_files(env, f"lease-{name}-") if held == name}


def _lease_files(env: Env, start: str) -> Iterator[tuple[str, int, ObjectMeta]]:
    """Name and number of every lease whose file begins so, with what the store tells about the file."""
    begin = INTENT_DIR + start
    for meta in env.store.list_from(INTENT_DIR, begin):
        if not meta.key.startswith(begin):
            break
        file = parse_key(meta.key)
        match = None if file is None else _LEASE.fullmatch(file.id or "")
        if match is not None:
            yield match[1], int(match[2]), meta


def _is_over(env: Env, meta: ObjectMeta, spare_ms: int = 0) -> bool:
    intent = _content(env, meta)
    return intent is None or _is_past(store_now_ms(env) + spare_ms, meta, intent)


def _content(env: Env, meta: ObjectMeta) -> Intent | str | None:
    """What the file says, why it cannot be understood, or None where it is gone."""
    try:
        return _parse(env.store.get(meta.key) if meta.size <= _MAX_BYTES else b"")
    except ObjectNotFound:
        return None


def _left_by(before: Intent | str | None, meta: ObjectMeta | None, most_ms: int | None) -> Work | None:
    """What is known of the work when a lease goes on to its next holder: one that never let go has failed."""
    if not isinstance(before, Intent) or before.work is None or meta is None:
        return None
    if before.released:
        return before.work
    # It may be at work yet, and slow: then the next one needs a longer time.
    return failed(before.work, _NEVER_ENDED, meta.modified_ms + _ttl_ms(before, most_ms), _ttl_ms(before, most_ms))


def _is_past(now_ms: int, meta: ObjectMeta, intent: Intent | str, most_ms: int | None = None) -> bool:
    """True if a lease is over. One that was written long after now was written by a clock that was wrong."""
    age_ms = now_ms - meta.modified_ms
    is_released = isinstance(intent, Intent) and intent.released
    return is_released or age_ms > _ttl_ms(intent, most_ms) + _GRAIN_MS or age_ms < -MAX_TTL_MS


def _ttl_ms(intent: Intent | str, most_ms: int | None = None) -> int:
    """How long an intent lives after it was written; one that cannot be understood as long as any may."""
    most_ms = min(MAX_TTL_MS, most_ms or MAX_TTL_MS)
    return most_ms if isinstance(intent, str) else min(intent.ttlMs, most_ms)


def _lease_key(name: str, number: int) -> str:
    return intent_key(f"lease-{name}-{number:012d}")


def _forget(env: Env, keys: list[str]) -> None:
    try:
        failed = env.store.delete_many(keys) if keys else {}
    except IndexTablesError as error:
        failed = {keys[0]: str(error)}
    for key, reason in failed.items():
        _LOGGER.warning("the intent %s of %s ends by itself: %s", key, env.store.url, reason)


def _encode(intent: Intent) -> bytes:
    return msgspec.json.encode(intent)


def _parse(data: bytes) -> Intent | str:
    try:
        intent = _INTENT.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return str(error)
    return intent if intent.ttlMs >= 0 else "its time to live is negative"


def _holder() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_INTENT = msgspec.json.Decoder(Intent)
