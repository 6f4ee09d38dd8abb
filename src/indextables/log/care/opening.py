"""Opens a log that can commit: one that knows what follows a commit."""

from __future__ import annotations

from typing import Any

from indextables.env import Env
from indextables.log.read import Log, LogCache, ReadTail

__all__ = ["open_log"]


def open_log(env: Env, cache: LogCache | None = None, tail: ReadTail | None = None) -> Log:
    """The log of one table, to read and to commit; a commit is followed by `postcommit.after_commit`."""
    return Log(env, cache, tail, _after_commit)


def _after_commit(log: Log, landed: Any) -> None:
    # A process that only reads does not load what writes checkpoints.
    from indextables.log.care.postcommit import after_commit

    after_commit(log, landed)
