"""The mark of a purge below the safe age: writers that were at work then look for their files before they commit.

A writer's files have no version yet, and their age is what protects them. A purge below that age says so before its
first delete, in one file of the log folder that no reader takes for anything. The mark tells the store's time of the
youngest file that may go: one that was put later is safe from it, whether that purge goes on, has ended or was killed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from indextables.env import Env
from indextables.errors import ObjectNotFound
from indextables.log.read import clock
from indextables.log.wire import LOG_DIR

__all__ = ["LEASE", "MARK_KEY", "is_marked_since", "is_spared", "leave_mark"]

LEASE = "purge"
"""The lease of whoever deletes or brings back data files."""

MARK_KEY = LOG_DIR + "_forced_purge"

_ROUNDED_MS = 1_000
"""Object stores tell times in whole seconds, or in more detail."""


class _Mark(msgspec.Struct, frozen=True):
    """`youngestMs` is the store's time of the youngest file that this purge, or one before it, was to delete."""

    retentionMs: int = 0
    atMs: int = 0
    youngestMs: int | None = None


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_MARK = msgspec.json.Decoder(_Mark)


def leave_mark(env: Env, retention_ms: int, youngest_ms: int | None) -> None:
    """Say that files below the safe age may go from now on, the youngest of which has this time. Raises StoreError."""
    before = _read(env)
    if before is not None and youngest_ms is not None:
        # Deletes of the purge before may be on their way still.
        youngest_ms = None if before.youngestMs is None else max(youngest_ms, before.youngestMs)
    env.store.put(MARK_KEY, msgspec.json.encode(_Mark(retention_ms, env.ambient.now_ms(), youngest_ms)))


def is_marked_since(env: Env, since_ms: int) -> bool:
    """True if such a purge may have taken files that were written from `since_ms` on, by this machine's clock.

    Raises StoreError.
    """
    try:
        marked_ms = env.store.head(MARK_KEY).modified_ms
    except ObjectNotFound:
        return False
    return marked_ms + clock.allowed_ms(env) >= since_ms


def is_spared(env: Env, since_ms: int, keys: Sequence[str]) -> bool:
    """True if none of these files, the first of `since_ms`, is among those that the purge of the mark may take.

    The first put began after the youngest that may go was written, by the clocks as they were last compared; and by
    the store's clock each is younger than that one, which holds also where a clock was set since. A put that was tried
    twice has the time of the second one: then the first condition tells. Raises StoreError.
    """
    rounded = 0 if env.store.is_local else _ROUNDED_MS
    mark = _read(env)
    if mark is None or mark.youngestMs is None or since_ms + clock.skew_ms(env) <= mark.youngestMs + rounded:
        return False
    try:
        times = list(env.ambient.map("splits", lambda key: env.store.head(key).modified_ms, keys))
    except ObjectNotFound:
        return False
    return min(times) > mark.youngestMs + rounded


def _read(env: Env) -> _Mark | None:
    """The mark, None where there is none; one of an older writer, or that cannot be read, tells no times."""
    try:
        return _MARK.decode(env.store.get(MARK_KEY))
    except ObjectNotFound:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Mark()
