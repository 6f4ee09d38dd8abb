"""Decides who answers a search, gathers statistics, and brings rows by tasks: what searches and marked rows share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError
from indextables.log.read import Snapshot
from indextables.log.wire import schema_from_json
from indextables.spark.search.question import Shared, Splits, each_with, shares
from indextables.spark.search.tasks import stats_job, task_rows
from indextables.spark.tasks import Place, for_each
from indextables.split.search import TermStats, merge_stats
from indextables.table.read import check_rows_readable, planned_files, refs_of
from indextables.table.running import Runner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["answers_of", "arrow_schema", "fits_driver", "lazily", "live_files", "most_rows", "parts_of", "statistics"]


def live_files(env: Env, snapshot: Snapshot) -> pa.Table:
    """All files of a version, as `planned_files`. Raises NotSupported for tables of another system."""
    check_rows_readable(snapshot, env.store.url)
    return planned_files(env, snapshot, None)


def parts_of(
    env: Env, files: pa.Table, schema: pa.Schema, width: int, places: Sequence[int] | None = None
) -> Iterator[Splits]:
    """The splits of each task, made one task at a time; `places` are theirs among all, by default those in `files`.

    Raises PathEscape, DvCorrupt, StoreError.
    """
    everywhere = range(files.num_rows) if places is None else places
    for start, end in shares(files.num_rows, width):
        yield Splits(list(everywhere[start:end]), refs_of(env, files.slice(start, end - start), schema))


def fits_driver(env: Env, snapshot: Snapshot, files: pa.Table) -> bool:
    """True if the driver's threads end a search sooner than a job would start; always where there is no cluster."""
    options = env.over(snapshot.metadata.configuration)
    few = files.num_rows <= options[opt.SEARCH_DRIVER_MAX_SPLITS]
    small = (pc.sum(files["size"]).as_py() or 0) <= options[opt.SEARCH_DRIVER_MAX_BYTES]
    return (few and small) or not env.store.outlives_process


def most_rows(env: Env, snapshot: Snapshot) -> int:
    """An answer that the driver gives itself has at most so many rows."""
    return env.over(snapshot.metadata.configuration)[opt.SEARCH_DRIVER_MAX_ROWS]


def statistics(runner: Runner, env: Env, shared: Shared, files: pa.Table) -> TermStats:
    """What scores depend on, over all splits."""
    units = each_with(shared, parts_of(env, files, schema_from_json(shared.metadata.schemaString), runner.width))
    return merge_stats(_READ_TERMSTATS.decode(answer) for answer in answers_of(runner.run(stats_job, units)))


def lazily(spark: SparkSession, place: Place, shared: Shared, parts: Iterable[Splits], schema: StructType) -> DataFrame:
    """The rows of all parts, a task for each, when they are asked for."""
    work = partial(task_rows, msgspec.msgpack.encode(place), msgspec.msgpack.encode(shared), schema.json())
    return for_each(spark, work, map(msgspec.msgpack.encode, parts), schema)


def arrow_schema(schema: StructType) -> pa.Schema:
    """How Arrow has the columns of a schema of Spark's."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def answers_of(given: Sequence[bytes | IndexTablesError]) -> list[bytes]:
    """What the tasks found. Raises the first error of theirs."""
    for answer in given:
        if isinstance(answer, IndexTablesError):
            raise answer
    return [answer for answer in given if isinstance(answer, bytes)]


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_TERMSTATS = msgspec.msgpack.Decoder(TermStats)
