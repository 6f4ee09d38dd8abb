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
    tells why the last time, and before `notBeforeMs` nobody tries again.
    """

    lastMs: int = 0
    failures: int = 0
    reason: str = ""
    notBeforeMs: int = 0


def failed(work: Work, reason: str, now_ms: int) -> Work:
    """The work after one more failure: nobody tries again for a while, for twice as long after each. Pure."""
    wait = min(MOST_BACK_OFF_MS, _BACK_OFF_MS << min(max(work.failures, 0), 20))
    return Work(work.lastMs, work.failures + 1, reason[:_MOST_REASON], now_ms + wait)
