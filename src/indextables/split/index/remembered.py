"""`Remembered` keeps what was used lately, and finds what somebody holds besides.

What one version of a table has opened, the next one finds: its searcher, or a handle, holds it. What nobody holds any
more, as the splits that were merged away, is let go of after a while, so that it does not add up in a process that
follows a table for days.
"""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from indextables.process import Lock

__all__ = ["IDLE_S", "Remembered"]

IDLE_S = 300.0
"""What nobody holds is kept for so long after its last use."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Values by key: at most `max_weight` of them, and none that was unused for `IDLE_S`, but for what others hold.

    Thread-safe.
    """

    def __init__(self, max_weight: int, weigh: Callable[[V], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._max_weight = max_weight
        self._weigh = weigh
        self._clock = clock
        self._lock = Lock()
        self._used: OrderedDict[K, tuple[V, int, float]] = OrderedDict()
        self._weight = 0
        self._held: weakref.WeakValueDictionary[K, V] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        """How many are found, those that others hold too."""
        return len(self._held)

    @property
    def weight(self) -> int:
        """The weight of all that are found."""
        with self._lock:
            return sum(self._weigh(value) for value in list(self._held.values()))

    def get(self, key: K) -> V | None:
        """The value, which is used by that."""
        with self._lock:
            value = self._held.get(key)
            if value is not None:
                self._use(key, value)
            return value

    def setdefault(self, key: K, value: V) -> V:
        """The value that is there, or else this one, which is kept unless it is heavier than all that may be."""
        with self._lock:
            found = self._held.setdefault(key, value)
            self._use(key, found)
            return found

    def forget(self, which: Callable[[K], bool]) -> int:
        """Find these no more, whoever holds them; how many they are."""
        with self._lock:
            gone = [key for key in list(self._held) if which(key)]
            for key in gone:
                del self._held[key]
                self._let_go(key)
        return len(gone)

    def _use(self, key: K, value: V) -> None:
        now = self._clock()
        known = self._used.get(key)
        if known is None:
            weight = self._weigh(value)
            if weight <= self._max_weight:
                self._used[key] = value, weight, now
                self._weight += weight
        else:
            self._used[key] = *known[:2], now
            self._used.move_to_end(key)
        while self._used:
            oldest = next(iter(self._used))
            if self._weight <= self._max_weight and self._used[oldest][2] + IDLE_S > now:
                return
            self._let_go(oldest)

    def _let_go(self, key: K) -> None:
        known = self._used.pop(key, None)
        if known is not None:
            self._weight -= known[1]
