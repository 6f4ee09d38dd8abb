"""`Door` is what a statement of a Spark session starts from; `Distributed` is a statement whose rows Spark finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from indextables.env import Env
from indextables.log.read import Log, Snapshot
from indextables.spark.tasks import Place
from indextables.table.change import Counts, FileCounts, Located, Prepared, Run, Statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Binding", "Distributed", "Door"]

Binding: TypeAlias = Callable[[Env, Snapshot], Run]


class Door(msgspec.Struct, frozen=True):
    """A session, a table, and what tasks must be told to open it. `alias` is what texts may call the table."""

    spark: SparkSession
    log: Log
    place: Place
    alias: str | None = None


class Distributed:
    """A statement that the history tells of as of any other, and that `bind` gives another way to run."""

    def __init__(self, told: Statement, bind: Binding) -> None:
        self._told = told
        self._bind = bind

    @property
    def operation(self) -> str:
        return self._told.operation

    @property
    def parameters(self) -> dict[str, str | None]:
        return self._told.parameters

    @property
    def writes(self) -> bool:
        return self._told.writes

    def over(self, env: Env, snapshot: Snapshot) -> Run:
        return self._bind(env, snapshot)

    def counts(self, gone: int, located: Located) -> Counts:
        return self._told.counts(gone, located)

    def metrics(self, counts: Counts, prepared: Prepared, files: FileCounts) -> dict[str, str | None]:
        return self._told.metrics(counts, prepared, files)
