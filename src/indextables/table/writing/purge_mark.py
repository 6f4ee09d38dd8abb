"""The mark of a purge below the safe age: writers that were at work then look for their files before they commit.

A writer's files have no version yet, and their age is what protects them. A purge below that age says so before its
first delete, in one file of the log folder that no reader takes for anything. What it deletes was listed before, so
that files which are younger than the mark are safe from it.
"""

from __future__ import annotations

import msgspec

from indextables.env import Env
from indextables.errors import ObjectNotFound
from indextables.log.read import clock
from indextables.log.wire import LOG_DIR

__all__ = ["LEASE", "MARK_KEY", "is_marked_since", "leave_mark"]

LEASE = "purge"
"""The lease of whoever deletes or brings back data files."""

MARK_KEY = LOG_DIR + "_forced_purge"


def leave_mark(env: Env, retention_ms: int) -> None:
    """Say that files below the safe age may go from now on. Raises StoreError."""
    env.store.put(MARK_KEY, msgspec.json.encode({"retentionMs": retention_ms, "atMs": env.ambient.now_ms()}))


def is_marked_since(env: Env, since_ms: int) -> bool:
    """True if such a purge may have taken files that were written from `since_ms` on, by this machine's clock.

    Raises StoreError.
    """
    try:
        marked_ms = env.store.head(MARK_KEY).modified_ms
    except ObjectNotFound:
        return False
    return marked_ms + clock.allowed_ms(env) >= since_ms
