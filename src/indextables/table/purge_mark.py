"""The mark of a purge below the safe age: writers that were at work then look for their files before they commit.

A writer's files have no version yet, and their age is what protects them. A purge that was forced below that age says
so before its first delete, in one file of the log folder that no reader takes for anything. What it deletes was listed
before, so that files which are younger than the mark are safe from it.
"""

from __future__ import annotations

import msgspec

from indextables import options as opt
from indextables.errors import CommitError, ObjectNotFound
from indextables.log.env import LogEnv
from indextables.log.intents import who_holds
from indextables.log.names import LOG_DIR

__all__ = ["LEASE", "MARK_KEY", "check_unforced", "leave_mark"]

LEASE = "purge"
"""The lease of whoever deletes or brings back data files."""

MARK_KEY = LOG_DIR + "_forced_purge"


def leave_mark(env: LogEnv, retention_ms: int) -> None:
    """Say that files below the safe age may go from now on. Raises StoreError."""
    env.store.put(MARK_KEY, msgspec.json.encode({"retentionMs": retention_ms, "atMs": env.ambient.now_ms()}))


def check_unforced(env: LogEnv, since_ms: int) -> bool:
    """True unless a forced purge may have taken files that were written from `since_ms` on, by this machine's clock.

    Where it has, they must be looked for. Raises CommitError while such a purge is at work: what is there now may be
    gone in a moment. Raises StoreError.
    """
    try:
        marked_ms = env.store.head(MARK_KEY).modified_ms
    except ObjectNotFound:
        return True
    if marked_ms + env.options[opt.COMMIT_MAX_CLOCK_SKEW_MS] < since_ms:
        return True
    held = who_holds(env, LEASE)
    if held is not None:
        message = (
            f"a purge below the safe age is at work at {env.store.url} ({held}) and may take the files of this commit. "
            "Nothing was committed: write the rows again when it has ended"
        )
        raise CommitError(message, url=env.store.url)
    return False
