"""Leases: who may do long work alone.

The files of a lease are numbered: the holder is who created the newest number, and to take over from a holder that is
gone is to create the next one, which the store lets only one succeed at. No store lets a delete or a commit depend on
another object, so that a holder which stalls past its time can still do the one thing that it was about to do: whoever
must not be late looks at the lease right before (`holds`), with time to spare.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import msgspec

from indextables.env import Env
from indextables.errors import IndexTablesError, InvalidArgument, ObjectNotFound, StoreError
from indextables.log.care.intents import (
    GRAIN_MS,
    INTENT_DIR,
    LEASE_ID,
    MAX_BYTES,
    MAX_TTL_MS,
    Held,
    Holder,
    Intent,
    check_ttl,
    encode,
    forget,
    lives_ms,
    parse,
    seen_now_ms,
    store_now_ms,
    this_process,
)
from indextables.log.care.work import Work, failed
from indextables.log.wire import intent_key, parse_key
from indextables.storage.store import ObjectMeta

__all__ = ["Lease", "Ticket", "acquire", "holds", "last_work", "leases", "who_holds"]

_NEVER_ENDED = "the process that did it ended before its work did, or was too slow for its lease"
_SPARE = 3  # times as long as work took, since the next may be slower
_NAME = re.compile(r"[a-z][a-z0-9]{0,30}")

_LOGGER = logging.getLogger("indextables")


class Ticket(msgspec.Struct, frozen=True):
    """A lease as another process may look at it: its name, and the number and token of its holder.

    Numbers start again where a table is dropped and another one is made in its place; tokens do not.
    """

    name: str
    number: int
    token: str


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
    check_ttl(ttl_ms)
    newest = max(numbers := _numbers(env, name), default=0)
    before = _content(env, numbers[newest]) if newest else None
    if before is not None and not _is_past(store_now_ms(env), numbers[newest], before, most_ms):
        return None
    work = _left_by(before, numbers.get(newest), most_ms) or Work() if tells else None
    if work is not None and most_ms is not None:
        ttl_ms = max(ttl_ms, min(most_ms, _SPARE * work.tookMs))
    intent = Intent("lease", ttl_ms, env.ambient.token(), this_process(), work=work)
    key = _lease_key(name, newest + 1)
    env.store.put_if_absent(key, encode(intent))
    # Whatever the answer was: the holder is who is read back.
    try:
        held = parse(env.store.get(key))
    except ObjectNotFound:
        return None
    if isinstance(held, str) or held.token != intent.token:
        return None
    if max(_numbers(env, name), default=0) != newest + 1:
        # The number was free because somebody with a higher one has tidied up.
        return None
    forget(env, [numbers[number].key for number in numbers])
    return Lease(env, key, intent, name, newest + 1)


def holds(env: Env, ticket: Ticket, *, spare_ms: int = 0) -> bool:
    """True if nobody has taken this lease over and it lasts for `spare_ms` more at least. Raises StoreError."""
    numbers = _numbers(env, ticket.name)
    mine = numbers.get(ticket.number)
    if mine is None or max(numbers) != ticket.number:
        return False
    held = _content(env, mine)
    if not isinstance(held, Intent) or held.token != ticket.token:
        return False
    return not _is_past(store_now_ms(env) + spare_ms, mine, held)


def leases(env: Env) -> list[Holder]:
    """The leases that somebody holds, by name. Raises StoreError."""
    newest: dict[str, tuple[int, ObjectMeta]] = {}
    for name, number, meta in _lease_files(env, "lease-"):
        newest[name] = max(newest.get(name, (0, meta)), (number, meta), key=lambda entry: entry[0])
    found: list[Holder] = []
    for name, (_, meta) in sorted(newest.items()):
        try:
            intent = parse(env.store.get(meta.key) if meta.size <= MAX_BYTES else b"")
        except ObjectNotFound:
            continue
        if _is_past(seen_now_ms(env), meta, intent):
            continue
        holder = "somebody" if isinstance(intent, str) else intent.holder or "somebody"
        found.append(Holder(name, holder, meta.modified_ms + lives_ms(intent)))
    return found


def last_work(env: Env, name: str) -> Work | None:
    """What came of the work of the lease of this name; None where nobody has told. Raises StoreError."""
    numbers = _numbers(env, name)
    content = _content(env, numbers[max(numbers)]) if numbers else None
    return content.work if isinstance(content, Intent) else None


def who_holds(env: Env, name: str) -> Holder | None:
    """Who holds the lease of this name; None if nobody does by now. Raises StoreError."""
    return next((held for held in leases(env) if held.name == name), None)


class Lease(Held):
    """Exclusive work, as long as it is renewed in time."""

    def __init__(self, env: Env, key: str, intent: Intent, name: str, number: int) -> None:
        super().__init__(env, key, intent)
        self.ticket = Ticket(name, number, intent.token)

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

    def renew_if_held(self) -> None:
        """As `renew`; where somebody has taken it over, nothing is done. Raises StoreError."""
        if self.is_held():
            super().renew()

    def is_held(self, *, spare_ms: int = 0) -> bool:
        """As `holds`."""
        return holds(self._env, self.ticket, spare_ms=spare_ms)

    def modified_ms(self) -> int:
        """The store's time of the last renewal. Raises StoreError."""
        return self._env.store.head(self._key).modified_ms

    def release(self) -> None:
        """Let the next one go ahead. The file stays, so that numbers never start again; one that is gone stays gone."""
        try:
            if not self._is_ours():
                return
            self._env.store.put(self._key, encode(msgspec.structs.replace(self._intent, released=True)))
        except IndexTablesError as error:
            weight = logging.INFO if self._env.ambient.gives_up() else logging.WARNING
            _LOGGER.log(weight, "the lease %s of %s ends by itself: %s", self.ticket.name, self._env.store.url, error)

    def _is_ours(self) -> bool:
        """True if the file is there and this lease's: who took it over has deleted it, and so has who drops a table."""
        try:
            found = parse(self._env.store.get(self._key))
        except ObjectNotFound:
            return False
        return isinstance(found, Intent) and found.token == self._intent.token


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
        match = None if file is None else LEASE_ID.fullmatch(file.id or "")
        if match is not None:
            yield match[1], int(match[2]), meta


def _content(env: Env, meta: ObjectMeta) -> Intent | str | None:
    """What the file says, why it cannot be understood, or None where it is gone."""
    try:
        return parse(env.store.get(meta.key) if meta.size <= MAX_BYTES else b"")
    except ObjectNotFound:
        return None


def _left_by(before: Intent | str | None, meta: ObjectMeta | None, most_ms: int | None) -> Work | None:
    """What is known of the work when a lease goes on to its next holder: one that never let go has failed."""
    if not isinstance(before, Intent) or before.work is None or meta is None:
        return None
    if before.released:
        return before.work
    # It may be at work yet, and slow: then the next one needs a longer time.
    return failed(before.work, _NEVER_ENDED, meta.modified_ms + lives_ms(before, most_ms), lives_ms(before, most_ms))


def _is_past(now_ms: int, meta: ObjectMeta, intent: Intent | str, most_ms: int | None = None) -> bool:
    """True if a lease is over. One that was written long after now was written by a clock that was wrong."""
    age_ms = now_ms - meta.modified_ms
    is_released = isinstance(intent, Intent) and intent.released
    return is_released or age_ms > lives_ms(intent, most_ms) + GRAIN_MS or age_ms < -MAX_TTL_MS


def _lease_key(name: str, number: int) -> str:
    return intent_key(f"lease-{name}-{number:012d}")
