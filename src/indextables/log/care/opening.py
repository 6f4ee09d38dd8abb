"""Opens a log that can commit: one that knows what follows a commit."""

from __future__ import annotations

from typing import Any

from indextables.env import Env
from indextables.log.read import Log, LogCache, ReadTail

__all__ = ["open_log"]


def open_log(env: Env, cache: LogCache | None = None, tail: ReadTail | None = None) -> Log:
    """The log of one table, to read and to commit; a commit is followed by `postcommit.after_commit`.

    A table is made only where nobody drops one.
    """
    return Log(env, cache, tail, _after_commit, _before_create)


def _after_commit(log: Log, landed: Any) -> None:
    # A process that only reads does not load what writes checkpoints.
    from indextables.log.care.postcommit import after_commit

    after_commit(log, landed)


def _before_create(env: Env) -> None:
    from indextables.log.care.sweeping import await_drops

    await_drops(env)
