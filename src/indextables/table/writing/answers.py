"""Decides which files of the tasks of a distributed write are committed, by what the tasks answer.

A task may run more than once (retries, speculation, a stage that is repeated), and an attempt that everybody has given
up may answer late. Exactly one attempt of every partition counts; what the others wrote is left for purge.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from indextables.errors import InvariantViolated
from indextables.log.wire import Add

__all__ = ["Answer", "accepted", "heard"]


class Answer(msgspec.Struct, frozen=True):
    """The files of one attempt. `write` tells one write of a table from another, `attempt` one attempt from another.

    `session` is what the task saw of the session's configuration, for a commit that cannot see it.
    """

    write: str
    partition: int
    attempt: int
    adds: list[Add]
    session: dict[str, str] = {}


def accepted(write: str, answers: Sequence[Answer | None]) -> list[Add]:
    """The files to commit: those of one attempt per partition, whatever is doubled and in whatever order.

    Raises InvariantViolated if an answer is missing, belongs to another write, or two partitions claim one file: then
    rows would be lost or doubled.
    """
    chosen: dict[int, Answer] = {}
    for answer in answers:
        if answer is None:
            raise InvariantViolated("a task of this write has not answered: nothing was committed")
        if answer.write != write:
            message = f"an answer of the write {answer.write} arrived at the commit of {write}: nothing was committed"
            raise InvariantViolated(message)
        chosen.setdefault(answer.partition, answer)
    if sorted(chosen) != list(range(len(chosen))):
        missing = sorted(set(range(max(chosen) + 1)) - set(chosen))
        raise InvariantViolated(f"tasks {missing} of this write have not answered: nothing was committed")
    adds = [add for partition in sorted(chosen) for add in chosen[partition].adds]
    if len({add.path for add in adds}) != len(adds):
        raise InvariantViolated("two tasks of this write answered with the same file: nothing was committed")
    return adds


def heard(write: str, answers: Sequence[Answer | None]) -> list[Add]:
    """Every file that some attempt of this write has answered with, each once."""
    found = {add.path: add for a in answers if a is not None and a.write == write for add in a.adds}
    return list(found.values())
