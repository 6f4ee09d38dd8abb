"""Clocks that a test sets."""

from __future__ import annotations

import itertools
import random

from indextables.ambient import SystemAmbient

__all__ = ["Clock", "QuickAmbient", "ShiftedClock"]


class Clock(SystemAmbient):
    """Time that moves only when it is told to, or slept through; sleeping takes no real time, and `slept` lists it.

    With a seed, chance and tokens are the same each time. Two processes of one table must not share a seed.
    """

    def __init__(self, ms: int = 1_800_000_000_000, *, seed: int | None = None) -> None:
        super().__init__()
        self.ms = ms
        self.slept: list[float] = []
        self._chance = None if seed is None else random.Random(seed)
        self._tokens = itertools.count(1)

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ms += int(seconds * 1000)

    def random(self) -> float:
        return super().random() if self._chance is None else self._chance.random()

    def token(self) -> str:
        return super().token() if self._chance is None else f"{next(self._tokens):032x}"

    def advance(self, *, seconds: float = 0, hours: float = 0, days: float = 0) -> None:
        self.ms += round((seconds + 3600 * (hours + 24 * days)) * 1000)


class ShiftedClock(SystemAmbient):
    """The system's clocks, each put forward by what a test says, at any time."""

    def __init__(self, off_ms: int = 0, monotonic_off_s: float = 0.0) -> None:
        super().__init__()
        self.off_ms = off_ms
        self.monotonic_off_s = monotonic_off_s

    def now_ms(self) -> int:
        return super().now_ms() + self.off_ms

    def monotonic(self) -> float:
        return super().monotonic() + self.monotonic_off_s


class QuickAmbient(SystemAmbient):
    """Real time plus the seconds that were slept through, which take none; `slept` lists them."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def monotonic(self) -> float:
        return super().monotonic() + sum(self.slept)

    def __reduce__(self) -> tuple[object, ...]:
        return (QuickAmbient, ())
