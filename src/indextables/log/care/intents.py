"""What live writers and readers protect from purge.

An intent is a small file below `_transaction_log/_intents/`. Nothing depends on one being there: without it, files are
protected by their age and versions by retention. Purge reads all of them, and leaves alone what a live one names.

How long an intent lives is told by the store alone: it ends `ttlMs` after the time at which the store last saw it
written, so that nobody's clock can stretch or cut it. Whoever needs it longer writes it again. On local files the clock
of the machine is the store's: what it wrote while it was far ahead is over, lest that lasts until the clock is there.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import re
import socket
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

import msgspec

from indextables.env import Env
from indextables.errors import IndexTablesError, InvalidArgument, ObjectNotFound, StoreError
from indextables.log.care.work import Work
from indextables.log.read import clock
from indextables.log.wire import LOG_DIR, intent_key, parse_key
from indextables.storage.store import ObjectMeta

__all__ = [
    "GRAIN_MS",
    "INTENT_DIR",
    "LEASE_ID",
    "MAX_BYTES",
    "MAX_TTL_MS",
    "SWEEP_MS",
    "Held",
    "Holder",
    "Intent",
    "Protection",
    "Protections",
    "announce_drop",
    "announce_sweep",
    "check_ttl",
    "encode",
    "forget",
    "lives_ms",
    "parse",
    "protect_keys",
    "protect_version",
    "protections",
    "seen_now_ms",
    "store_now_ms",
    "this_process",
]

INTENT_DIR = LOG_DIR + "_intents/"
MAX_TTL_MS = 7 * 24 * 3_600_000
"""No intent lives longer without being written again, whatever it says; a sweep or a drop for an hour at most."""

SWEEP_MS = 300_000
"""How long an announced sweep or drop lasts. No request that deletes arrives later than this after it was sent."""

_MOST_MS = {"sweep": 3_600_000, "drop": 3_600_000}
MAX_BYTES = 4 << 20
_MAX_KEYS = 20_000
# Object stores tell times in whole seconds.
GRAIN_MS = 1000
_LAST_MS = 253_402_300_799_000
LEASE_ID = re.compile(r"lease-([a-z][a-z0-9]{0,30})-([0-9]{12})")

_LOGGER = logging.getLogger("indextables")


class Intent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of an intent.

    `reader` protects `version`: everything that is needed to read it and what came later; `task` says for people what
    it does, where it does not only read. `writer` protects `keys`, and
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
    task: str = ""


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

    `oldest_version` is the oldest version that a reader needs, `reader` who needs it longest; `since_ms` the store's
    time from which on writers need every data file; None where nobody asks. `everything` says that an intent could not
    be understood, and why. `expired` are keys of intents that are over, `sweep` is who deletes files of the log just
    now: who does so longest. `drops` are keys of intents that tell of a drop of the table, `drop` is who drops it
    longest.
    """

    oldest_version: int | None = None
    since_ms: int | None = None
    keys: frozenset[str] = frozenset()
    everything: str | None = None
    live: int = 0
    expired: tuple[str, ...] = ()
    sweep: Holder | None = None
    reader: Holder | None = None
    drops: frozenset[str] = frozenset()
    drop: Holder | None = None

    @property
    def needs(self) -> str:
        """Who needs the oldest version, for people; empty where nobody needs one."""
        if self.oldest_version is None:
            return ""
        if self.reader is None or not self.reader.name:
            return f"a reader needs version {self.oldest_version}"
        return f"a {self.reader.name} at work keeps version {self.oldest_version} ({self.reader})"


def store_now_ms(env: Env) -> int:
    """The time by the store's clock, as far as the probe of this process knows the difference. Raises StoreUnsafe."""
    return env.ambient.now_ms() + clock.skew_ms(env)


def seen_now_ms(env: Env) -> int:
    """The same for who only looks and may not write: by our own clock where the two have not been compared."""
    return env.ambient.now_ms() + (clock.known_skew_ms(env) or 0)


def protect_version(env: Env, version: int, *, ttl_ms: int, table_id: str | None = None, task: str = "") -> Protection:
    """Keep a version readable for `ttl_ms` from now, or from the last `renew()`. Raises StoreError, InvalidArgument.

    `task` tells people what this is for, where it is not to read that version.
    """
    intent = Intent("reader", ttl_ms, env.ambient.token(), this_process(), table_id, version=version, task=task)
    return _write(env, intent)


def announce_sweep(env: Env) -> Protection:
    """Say that files of the log are going to be deleted, before the intents are read that forbid it. Raises StoreError.

    Whoever protects a version looks for sweeps afterwards: either they see each other's file, or the later one sees
    the other's. `renew()` it before each batch.
    """
    return _write(env, Intent("sweep", SWEEP_MS, env.ambient.token(), this_process()))


def announce_drop(env: Env) -> Protection:
    """Say that the table is going to be dropped: no cleanup begins while this is there. Raises StoreError.

    Whoever drops waits for those that are at work (`sweeping.await_sweeps`), lest one of their deletes finds a file of
    the table that is made here next. No table is made here while this is there. `renew()` it before it is too late.
    """
    return _write(env, Intent("drop", SWEEP_MS, env.ambient.token(), this_process()))


def protect_keys(
    env: Env, keys: Sequence[str] = (), *, since_ms: int | None = None, ttl_ms: int, table_id: str | None = None
) -> Protection:
    """Keep data files that no version names yet: these, and all that the store saw from `since_ms` on.

    Raises StoreError, and InvalidArgument for more keys than an intent holds (name a time instead).
    """
    if len(keys) > _MAX_KEYS:
        raise InvalidArgument(f"an intent names at most {_MAX_KEYS} keys, not {len(keys)}: name a time instead")
    intent = Intent("writer", ttl_ms, env.ambient.token(), this_process(), table_id, sinceMs=since_ms, keys=list(keys))
    return _write(env, intent)


def protections(env: Env, now_ms: int | None, *, table_id: str | None = None, but: str | None = None) -> Protections:
    """What is protected at `now_ms`, the store's time; None: at any time. Raises StoreError if nobody can tell.

    The intent of the key `but` is passed over: that is the caller's own.

    An intent that cannot be read as one protects everything as long as any intent may live.
    """
    found: list[tuple[ObjectMeta, Intent | str]] = []
    for meta in env.store.list_from(INTENT_DIR):
        file = parse_key(meta.key)
        if file is None or file.kind != "intent" or LEASE_ID.fullmatch(file.id or "") is not None or meta.key == but:
            continue
        try:
            found.append((meta, parse(env.store.get(meta.key) if meta.size <= MAX_BYTES else b"")))
        except ObjectNotFound:
            continue
    return united(found, now_ms, table_id)


def united(found: Iterable[tuple[ObjectMeta, Intent | str]], now_ms: int | None, table_id: str | None) -> Protections:
    """The protections of intents, each with what the store tells about its file; a text says why one is none. Pure."""
    readers: list[tuple[int, Holder]] = []
    times: list[int] = []
    keys: set[str] = set()
    expired: list[str] = []
    everything: str | None = None
    live = 0
    sweep: Holder | None = None
    drops: dict[str, Holder] = {}
    for meta, intent in found:
        if _is_over(meta, intent, now_ms):
            expired.append(meta.key)
            continue
        if isinstance(intent, str):
            everything = f"{meta.key} cannot be understood: {intent}"
            continue
        if table_id is not None and intent.tableId not in {None, table_id}:
            continue
        if intent.kind == "sweep":
            holder = _as_holder(meta, intent, "sweep")
            if sweep is None or holder.until_ms > sweep.until_ms:
                sweep = holder
            continue
        live += 1
        if intent.kind == "reader" and intent.version is not None:
            readers.append((intent.version, _as_holder(meta, intent, intent.task)))
        elif intent.kind == "writer":
            times += [] if intent.sinceMs is None else [intent.sinceMs - GRAIN_MS]
            keys.update(intent.keys)
        elif intent.kind == "drop":
            everything = f"{intent.holder or 'somebody'} is dropping the table"
            drops[meta.key] = _as_holder(meta, intent, "drop")
        else:
            everything = f"{meta.key} is of the kind {intent.kind!r}, which this library does not know"
    oldest = min((version for version, _ in readers), default=None)
    oldest_readers = (holder for version, holder in readers if version == oldest)
    return Protections(
        oldest_version=oldest,
        since_ms=min(times, default=None),
        keys=frozenset(keys),
        everything=everything,
        live=live,
        expired=tuple(expired),
        sweep=sweep,
        reader=max(oldest_readers, key=lambda holder: holder.until_ms, default=None),
        drops=frozenset(drops),
        drop=max(drops.values(), key=lambda holder: holder.until_ms, default=None),
    )


def _is_over(meta: ObjectMeta, intent: Intent | str, now_ms: int | None) -> bool:
    if isinstance(intent, Intent) and intent.released:
        return True
    if now_ms is None:
        return False
    age_ms = now_ms - meta.modified_ms
    return age_ms > lives_ms(intent) + GRAIN_MS or age_ms < -_ahead_ms(intent)


def _ahead_ms(intent: Intent | str) -> int:
    """How far ahead of the store's time that of a file may be: the store's clock may have been set back since.

    Who writes an intent again every minute soon gives it the time of now. Else a file that is still further ahead was
    written by a clock that was wrong.
    """
    is_renewed = isinstance(intent, Intent) and (intent.kind in _MOST_MS or intent.task != "")
    return lives_ms(intent) if is_renewed else MAX_TTL_MS


def _as_holder(meta: ObjectMeta, intent: Intent, name: str) -> Holder:
    holder = intent.holder or "a process that does not tell its name"
    return Holder(name, holder, meta.modified_ms + lives_ms(intent) + GRAIN_MS)


class Held:
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
        self._env.store.put(self._key, encode(self._intent))

    def release(self) -> None:
        """Protect nothing any more. What fails is logged: the intent ends by itself."""
        raise NotImplementedError


class Protection(Held):
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
            forget(self._env, [self._key])


def _write(env: Env, intent: Intent) -> Protection:
    check_ttl(intent.ttlMs)
    token = intent.token
    key = intent_key("-".join((token[:8], token[8:12], token[12:16], token[16:20], token[20:])))
    env.store.put(key, encode(intent))
    return Protection(env, key, intent)


def check_ttl(ttl_ms: int) -> None:
    """Raises InvalidArgument unless an intent may live for so long."""
    if not 0 < ttl_ms <= MAX_TTL_MS:
        raise InvalidArgument(f"an intent lives for 1 ms to 7 days, not for {ttl_ms} ms: renew it", ttl_ms=ttl_ms)


def lives_ms(intent: Intent | str, most_ms: int | None = None) -> int:
    """How long an intent lives after it was written; one that cannot be understood as long as any may."""
    most_ms = min(MAX_TTL_MS, most_ms or MAX_TTL_MS)
    return most_ms if isinstance(intent, str) else min(intent.ttlMs, most_ms, _MOST_MS.get(intent.kind, MAX_TTL_MS))


def forget(env: Env, keys: list[str]) -> None:
    """Delete intents. What fails is logged: each ends by itself."""
    try:
        failed = env.store.delete_many(keys) if keys else {}
    except IndexTablesError as error:
        failed = {keys[0]: str(error)}
    for key, reason in failed.items():
        _LOGGER.warning("the intent %s of %s ends by itself: %s", key, env.store.url, reason)


def encode(intent: Intent) -> bytes:
    """The file of an intent."""
    return msgspec.json.encode(intent)


def parse(data: bytes) -> Intent | str:
    """What a file says; a text says why it is no intent."""
    try:
        intent = _INTENT.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return str(error)
    return intent if intent.ttlMs >= 0 else "its time to live is negative"


def this_process() -> str:
    """This machine and process, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_INTENT = msgspec.json.Decoder(Intent)
