"""Where does the work of a verb run? `Runner` is the one door: threads of this process, or tasks of a cluster.

A verb plans units of work, hands them to a runner, and commits what comes back. A unit and its result are bytes, a job
is a function of a module, so that both can travel to another machine; a job gets an environment of its own there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from indextables.ambient import Pool
from indextables.env import Env
from indextables.errors import IndexTablesError

__all__ = ["Answer", "Job", "Progress", "Runner", "Step", "Threads", "batches"]

Job: TypeAlias = Callable[[Env, bytes], bytes]
"""A function of a module, never a closure: it is sent by name."""

Answer: TypeAlias = bytes | IndexTablesError


class Step(msgspec.Struct, frozen=True):
    """How far a long verb has come. `total` is None where it is not known yet."""

    what: str
    done: int
    total: int | None = None
    rows: int = 0
    bytes: int = 0
    files: int = 0


Progress: TypeAlias = Callable[[Step], None]
"""Called from the thread that called the verb, in the order of things; what it raises ends the verb."""


class Runner(Protocol):
    """Runs units of work, several at once."""

    @property
    def width(self) -> int:
        """How many units run at the same time; a verb that commits in batches makes them a small multiple of it."""
        ...

    def run(self, job: Job, units: Sequence[bytes]) -> list[Answer]:
        """The answer to every unit, in their order. A typed error of a unit is its answer and stops no other unit.

        A unit may run more than once (retries, speculation); the answer of one run is given. What is no typed error
        of this library is raised.
        """
        ...


class Threads:
    """The runner of one process: a pool of its environment's threads."""

    def __init__(self, env: Env, pool: Pool = "splits", width: int = 4) -> None:
        self._env = env
        self._pool: Pool = pool
        self._width = width

    @property
    def width(self) -> int:
        return self._width

    def run(self, job: Job, units: Sequence[bytes]) -> list[Answer]:
        def answer(unit: bytes) -> Answer:
            try:
                return job(self._env, unit)
            except IndexTablesError as error:
                return error

        return list(self._env.ambient.map(self._pool, answer, units))


def batches(units: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    """Units in runs of at most `size`, so that what is finished can be committed before the rest starts."""
    for start in range(0, len(units), size):
        yield units[start : start + size]
