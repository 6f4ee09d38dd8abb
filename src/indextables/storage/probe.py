"""Can commits be safe here? Asked before the first write, once per store and process.

A store that ignores the condition of a conditional put (some gateways and emulators do) answers every rival with
success, and acknowledged commits vanish. The probe puts one key twice and refuses the store unless the second put was
refused and the first bytes are still there. The time of the probe object also tells how far the clocks are apart.
"""

from __future__ import annotations

from collections.abc import Callable

from indextables.ambient import Ambient
from indextables.errors import StoreUnavailable, StoreUnsafe
from indextables.process import Memory, declare
from indextables.storage.store import LOG_DIR, PutAnswer, Store, StoreFacts

__all__ = ["forget", "once_per_process", "probe_conditional_put", "skew_between"]

PROBE_PREFIX = LOG_DIR + "_probe-"
"""Probe objects are removed at once. No reader takes this name for anything, so that one that is left does no harm."""

_ATTEMPTS = 3
_TICK_MS = 1000
"""Stores stamp objects in whole seconds, kernels in clock ticks: a smaller difference is no difference."""

_known: dict[str, StoreFacts] = {}

declare(
    Memory(
        name="probed stores",
        where=f"{__name__}._known",
        key="store: URL, endpoint and account",
        bound="one per store that was written to",
        fork="the child keeps them: it has the same machine and clock",
        ends="when the clock of this machine was set",
        clear=_known.clear,
    )
)


def once_per_process(identity: str, ask: Callable[[], StoreFacts]) -> StoreFacts:
    """The facts of this store, asked for once per process (by each of several threads that come at the same time)."""
    facts = _known.get(identity)
    if facts is None:
        facts = _known.setdefault(identity, ask())
    return facts


def forget() -> None:
    """Ask anew, every store: the clock of this machine was set."""
    _known.clear()


def probe_conditional_put(store: Store, ambient: Ambient) -> StoreFacts:
    """Prove on an object of our own that put-if-absent holds. Raises StoreUnsafe, and what the store raises."""
    for _ in range(_ATTEMPTS):
        key = PROBE_PREFIX + ambient.token()
        before_ms = ambient.now_ms()
        try:
            first = store.put_if_absent(key, b"1")
            after_ms = ambient.now_ms()
            second = store.put_if_absent(key, b"2")
            if PutAnswer.UNKNOWN in (first, second) or first is PutAnswer.REFUSED:
                # Nobody else writes this key, so that a refusal or silence is a fault of the moment: another key.
                continue
            if second is PutAnswer.CREATED or store.get(key) != b"1":
                message = (
                    f"{store.url} ignores put-if-absent: two writers could both be told that they committed. "
                    "Use a store that honours If-None-Match"
                )
                raise StoreUnsafe(message, url=store.url)
            return StoreFacts(skew_ms=skew_between(store.head(key).modified_ms, before_ms, after_ms))
        finally:
            store.delete_many([key])
    message = f"{store.url} gave no clear answer to the probe that must precede a first write: try again"
    raise StoreUnavailable(message, url=store.url)


def skew_between(stored_ms: int, before_ms: int, after_ms: int) -> int:
    """How far the store's clock provably is ahead (negative: behind), given the time it stamped in between."""
    if stored_ms > after_ms + _TICK_MS:
        return stored_ms - after_ms
    if stored_ms < before_ms - _TICK_MS:
        return stored_ms - before_ms
    return 0
