"""May this file of the log still be deleted? Asked right before each request that deletes one.

A plan is made from one listing, and its maker may then be stopped for any time. Meanwhile the table may be dropped and
made anew, a backup may be put in its place, or a reader may protect a version because the announced sweep has run out.
Names tell none of that: the new files have those of the planned ones.

A delete that got no answer may arrive at any time later, when nobody looks any more. The sweep stays announced until
then, and who needs the log as it is waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from indextables import options as opt
from indextables.env import Env
from indextables.errors import LogError, ObjectNotFound, StoreUnavailable, TableNotFound, TableReplaced
from indextables.log.care.intents import SWEEP_MS, Holder, Protection, Protections, protections, store_now_ms
from indextables.log.checkpoint import find_states
from indextables.log.read import Log, clock
from indextables.log.wire import LOG_DIR, StateRef, identity, parse_key
from indextables.storage.store import ObjectMeta, Store

__all__ = [
    "Leave",
    "Sent",
    "anchors",
    "await_drops",
    "await_sweeps",
    "found_now",
    "lasting_sweep",
    "promptly",
    "why_over",
]

# A sweep is announced anew when it is older than this, long before it runs out.
_RENEW_MS = 60_000
# An answer that took longer to find is no answer any more.
_PROMPT_S = 10.0
_ATTEMPTS = 3
_PATIENCE_S = 30.0


def anchors(listing: Sequence[ObjectMeta], cut: StateRef | None) -> tuple[ObjectMeta, ...]:
    """The files that stand for the table that a plan was made for; all of them stay.

    The checkpoint that is cut at (without a cut: the newest one), and the file of the newest version. Pure.
    """
    states = find_states(listing)
    ref = cut or (states[0] if states else None)
    slots = {f.version: meta for meta in listing if (f := parse_key(meta.key)) is not None and f.kind == "version"}
    kept = set(() if ref is None else ref.keys)
    found = [meta for meta in listing if meta.key in kept]
    return (*found, slots[max(slots)]) if slots else tuple(found)


def await_sweeps(env: Env) -> None:
    """Return when nobody deletes files of the log any more who may have missed an intent that is there by now.

    Raises StoreUnavailable if that takes too long, StoreError.
    """
    sweep = lasting_sweep(env)
    if sweep is not None:
        what = f"a cleanup of {env.store.url} is at work, or got no answer to a delete that may still arrive"
        raise StoreUnavailable(f"{what}: try again in a while. {sweep}", url=env.store.url)


def lasting_sweep(env: Env) -> Holder | None:
    """As `await_sweeps`; but who still deletes after all that time is told, not raised. Raises StoreError."""
    return _lasting(env, lambda found: found.sweep)


def await_drops(env: Env) -> None:
    """Return when nobody drops a table here any more, whose deletes might take files of the next one.

    That takes one listing where nobody does. Raises StoreUnavailable if it takes too long, StoreError.
    """
    drop = _lasting(env, lambda found: found.drop)
    if drop is not None:
        what = f"{env.store.url} is being dropped, or its drop got no answer to a delete that may still arrive"
        message = f"{what}: nothing was made here. Try again in a while, or take another path. {drop}"
        raise StoreUnavailable(message, url=env.store.url)


def _lasting(env: Env, which: Callable[[Protections], Holder | None]) -> Holder | None:
    """Who is still at it after we waited for a while."""
    if which(protections(env, None)) is None:
        # Whether one is over needs the store's clock; that there is none does not.
        return None
    waited_s, pause_s = 0.0, 0.01
    while (holder := which(protections(env, store_now_ms(env)))) is not None and waited_s <= _PATIENCE_S:
        env.ambient.sleep(pause_s)
        waited_s, pause_s = waited_s + pause_s, min(2 * pause_s, 1.0)
    return holder


def promptly(env: Env, why_not: Callable[[], str]) -> str:
    """What `why_not` tells; asked again where finding a leave took so long that it may be none any more."""
    for _ in range(_ATTEMPTS):
        began_s = env.ambient.monotonic()
        reason = why_not()
        if reason or env.ambient.monotonic() - began_s <= _PROMPT_S:
            return reason
    return "the store answers too slowly to say what is there now"


def why_over(env: Env, announced: Protection) -> str:
    """Why who announced a sweep or a drop may delete no more; empty while it lasts, which it is then made to.

    Raises StoreError.
    """
    try:
        age_ms = store_now_ms(env) - env.store.head(announced.key).modified_ms
    except ObjectNotFound:
        return f"{announced.key} is gone: somebody else has deleted it"
    if age_ms > SWEEP_MS - _RENEW_MS:
        # Others may begin any moment: they take it for over.
        return f"{announced.key} is over, or nearly so: this was held up for too long"
    if _is_stale(age_ms):
        announced.renew()
    return ""


def _is_stale(age_ms: int) -> bool:
    """True if what is announced must be written again: it is old, or the store's clock has been set back since."""
    return abs(age_ms) > _RENEW_MS


def found_now(store: Store, keys: Sequence[str], prefix: str = LOG_DIR) -> list[ObjectMeta]:
    """What is there under these keys below `prefix`: one by one where that is cheap or they are few, else listed once.

    Raises StoreError.
    """
    metas: list[ObjectMeta] = []
    if store.is_local or len(keys) == 1:
        for key in keys:
            try:
                metas.append(store.head(key))
            except ObjectNotFound:
                continue
        return metas
    wanted, last = set(keys), max(keys)
    # What lies between this and the first one is no key of ours.
    for meta in store.list_from(prefix, min(keys)[:-1]):
        if meta.key > last:
            break
        if meta.key in wanted:
            metas.append(meta)
    return metas


class Sent:
    """Requests that delete, of which some may arrive at the store when nobody waits for them any more."""

    def __init__(self, store: Store) -> None:
        self._is_local = store.is_local
        self._asked: set[str] = set()
        self._is_doubted = False

    def send(self, keys: Sequence[str]) -> None:
        """These are about to be asked for; who asks again had no answer, and that request may still be under way."""
        self._is_doubted |= not self._asked.isdisjoint(keys)
        self._asked.update(keys)

    def answered(self, failed: Collection[str]) -> None:
        """The store is done with what it was asked for, but for `failed`."""
        self._is_doubted |= not self._asked.isdisjoint(failed)
        self._asked.clear()

    @property
    def may_arrive(self) -> bool:
        """True if one may."""
        return not self._is_local and (self._is_doubted or bool(self._asked))


class Leave:
    """The leave to delete what was planned, as a store's `guard`.

    It holds while the table, the checkpoint that is cut at and the newest version's file are the planned ones, the
    sweep is alive, and nobody protects a version below the cut. A file is deleted only if it is the planned one, of the
    listing or of what another table left (`strangers`), which stands for nothing.
    """

    def __init__(
        self,
        env: Env,
        sweep: Protection,
        *,
        listing: Sequence[ObjectMeta],
        cut: StateRef | None,
        table_id: str,
        strangers: Sequence[ObjectMeta] = (),
    ) -> None:
        self._env = env
        self._sweep = sweep
        self._cut = cut
        self._table_id = table_id
        self._log = Log(env)
        self._anchors = anchors(listing, cut)
        self._planned = {meta.key: identity(meta) for meta in (*listing, *strangers)}
        self._read_s: float | None = None
        self._sent = Sent(env.store)

    def __call__(self, keys: Sequence[str]) -> str:
        """Why nothing may be deleted any more; empty if these keys may be, right now. Raises StoreError."""
        reason = promptly(self._env, lambda: self._why_not(keys))
        if not reason:
            self._sent.send(keys)
        return reason

    def answered(self, failed: Collection[str]) -> None:
        """The store is done with what it was asked for, but for `failed`."""
        self._sent.answered(failed)

    @property
    def is_in_doubt(self) -> bool:
        """True if a delete may still arrive at the store that nobody waits for any more."""
        return self._sent.may_arrive

    def _why_not(self, keys: Sequence[str]) -> str:
        skew = clock.skew_ms(self._env)
        if abs(skew) > self._env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS]:
            return f"the store's clock is {skew} ms off ours"
        return self._expired() or self._replaced() or self._other_files(keys)

    def _expired(self) -> str:
        """Announce the sweep anew in time, and read the intents after that: whoever came while it was over is there."""
        now_s = self._env.ambient.monotonic()
        try:
            announced = self._env.store.head(self._sweep.key)
        except ObjectNotFound:
            return f"{self._sweep.key} is gone: the table was dropped, or this cleanup was too late"
        is_old = _is_stale(store_now_ms(self._env) - announced.modified_ms)
        is_read = self._read_s is not None and (now_s - self._read_s) * 1000 <= _RENEW_MS
        if is_read and not is_old and self._env.store.is_local:
            return ""
        if is_old or (self._read_s is not None and not is_read):
            self._sweep.renew()
        reason = self._protected() or self._other_table()
        self._read_s = now_s
        return reason

    def _protected(self) -> str:
        found = protections(self._env, store_now_ms(self._env))
        if found.everything is not None:
            return found.everything
        at, oldest = self._cut, found.oldest_version
        return f"a reader protects version {oldest} by now" if at and oldest is not None and oldest < at.version else ""

    def _other_table(self) -> str:
        try:
            found = self._log.metadata_at().metadata.id
        except (TableNotFound, LogError) as error:
            return f"the table cannot be read any more: {error}"
        except TableReplaced:
            found = None
        return "" if found == self._table_id else "another table lives here now"

    def _replaced(self) -> str:
        """The anchors are content of the table: while they are the planned files, so are its id and its versions."""
        for planned in self._anchors:
            try:
                found = self._env.store.head(planned.key)
            except ObjectNotFound:
                return f"{planned.key} is gone since this was planned: another table or another cleanup is here"
            if identity(found) != identity(planned):
                return f"{planned.key} is another file since this was planned: another table or a backup is here"
        return ""

    def _other_files(self, keys: Sequence[str]) -> str:
        """One that is missing was deleted by somebody else."""
        for meta in found_now(self._env.store, keys):
            if identity(meta) != self._planned.get(meta.key):
                return f"{meta.key} is another file since this was planned"
        return ""
