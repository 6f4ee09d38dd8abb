"""Records what came of work that nobody asked for: when it went well, how often it failed, when it is tried again.

A lease keeps it for its next holder (`intents.py`).
"""

from __future__ import annotations

import msgspec

__all__ = ["MOST_BACK_OFF_MS", "Work", "failed"]

MOST_BACK_OFF_MS = 3_600_000
_BACK_OFF_MS = 10_000
_MOST_REASON = 500


class Work(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of the work that a lease was taken for, by whoever held it; for work that nobody asked for.

    `lastMs` is the store's time at which it last went well. `failures` counts how often it went wrong since, `reason`
    tells why the last time, and before `notBeforeMs` nobody tries again. `tookMs` is for how long a lease was held
    without being renewed, the last time: on a machine that is slow, or busy, the next one has to last longer.
    """

    lastMs: int = 0
    failures: int = 0
    reason: str = ""
    notBeforeMs: int = 0
    tookMs: int = 0


def failed(work: Work, reason: str, now_ms: int, took_ms: int | None = None) -> Work:
    """The work after one more failure: nobody tries again for a while, for twice as long after each. Pure.

    `took_ms` is told where it is known.
    """
    wait = min(MOST_BACK_OFF_MS, _BACK_OFF_MS << min(max(work.failures, 0), 20))
    took_ms = work.tookMs if took_ms is None else took_ms
    return Work(work.lastMs, work.failures + 1, reason[:_MOST_REASON], now_ms + wait, took_ms)
