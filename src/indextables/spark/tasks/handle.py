"""What every verb of an `IndexTable` starts from: the session, the place, and fresh views of both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from indextables.env import Env
from indextables.log.care import open_log
from indextables.log.read import Log
from indextables.options import Options
from indextables.spark.tasks.replay import DistributedTail
from indextables.spark.tasks.runner import Place, SparkRunner, place_of
from indextables.storage.url import parse_location
from indextables.table.arguments import check_spelling
from indextables.table.environment import open_env
from indextables.table.progress import progress_of
from indextables.table.running import Progress, Runner, Threads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkHandle"]


class SparkHandle:
    """A table's URL and a session. It is pinned to no version: every verb looks for the newest one."""

    def __init__(
        self, spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, object] | None = None
    ) -> None:
        """Raises InvalidArgument, NotSupported for a path or option that is wrong; nothing is read."""
        self.spark = spark
        self.url = parse_location(path).url
        """Absolute, without credentials: tasks run in other folders than the driver."""
        self.options = dict(check_spelling("options", options))
        """As given by the caller; the session's are added at each use."""

    def place(self) -> Place:
        """What a task must be told to open the table: the session's configuration as it is now."""
        return place_of(self.spark, self.url, self.options)

    def env(self, place: Place | None = None) -> Env:
        """Return store, ambient and options of a place, by default with the session's configuration as it is now.

        Raises InvalidArgument.
        """
        place = self.place() if place is None else place
        return open_env(place.url, place.options, session=place.session)

    def log(self, place: Place | None = None) -> Log:
        """Return a new `Log` of the table; tasks read its tail where that is long and in an object store."""
        place = self.place() if place is None else place
        env = self.env(place)
        return open_log(env, tail=DistributedTail(self.spark, env, place))

    def reader_options(self, place: Place | None = None) -> dict[str, str]:
        """Return the options that the data source must be given, since its workers do not see the session."""
        place = self.place() if place is None else place
        resolved = Options(place.options, session=place.session, environ={})
        return {key: resolved[key] for key in resolved}

    def progress(self, given: Progress | None = None) -> Progress | None:
        """Return what a long verb reports its progress to: `given`, else a bar if a person watches, else None."""
        if given is not None:
            return given
        env = self.env()
        return progress_of(env.options, env.ambient)

    def runner(self, width: int | None = None, place: Place | None = None) -> Runner:
        """Return what runs units: tasks of the cluster, or threads of the driver for a table in its memory."""
        if not parse_location(self.url).outlives_process:
            return Threads(self.env(place), width=width or 4)
        return SparkRunner(self.spark, self.url, self.options, place=place)
