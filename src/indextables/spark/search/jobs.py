"""What searches and marked rows have in common: who answers, statistics, and rows that come by tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError
from indextables.log.read import Snapshot
from indextables.spark.search.question import Shared, Splits, each_with, shares
from indextables.spark.search.tasks import stats_job
from indextables.spark.tasks import Place
from indextables.split.file import SplitRef
from indextables.split.search import TermStats, merge_stats
from indextables.table.read import check_rows_readable, prune_files, refs_of
from indextables.table.running import Runner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["all_refs", "answers_of", "arrow_schema", "fits_driver", "lazily", "most_rows", "statistics"]


def all_refs(env: Env, snapshot: Snapshot) -> list[SplitRef]:
    """The live splits of a version. Raises NotSupported for tables of another system, PathEscape, DvCorrupt."""
    check_rows_readable(snapshot, env.store.url)
    return refs_of(env, prune_files(snapshot, None))


def fits_driver(env: Env, snapshot: Snapshot, refs: Sequence[SplitRef]) -> bool:
    """True if the driver's threads end a search sooner than a job would start; always where there is no cluster."""
    options = env.over(snapshot.metadata.configuration)
    few = len(refs) <= options[opt.SEARCH_DRIVER_MAX_SPLITS]
    small = sum(ref.size or 0 for ref in refs) <= options[opt.SEARCH_DRIVER_MAX_BYTES]
    return (few and small) or not env.store.outlives_process


def most_rows(env: Env, snapshot: Snapshot) -> int:
    """An answer that the driver gives itself has at most so many rows."""
    return env.over(snapshot.metadata.configuration)[opt.SEARCH_DRIVER_MAX_ROWS]


def statistics(runner: Runner, shared: Shared, refs: Sequence[SplitRef]) -> TermStats:
    """What scores depend on, over all splits."""
    units = each_with(shared, shares(list(enumerate(refs)), runner.width))
    return merge_stats(_READ_TERMSTATS.decode(answer) for answer in answers_of(runner.run(stats_job, units)))


def lazily(spark: SparkSession, place: Place, shared: Shared, parts: Sequence[Splits], schema: StructType) -> DataFrame:
    """The rows of all parts, a task for each, when they are asked for."""
    if not parts:
        return spark.createDataFrame([], schema)
    packed, common, text = msgspec.msgpack.encode(place), msgspec.msgpack.encode(shared), schema.json()
    units = [msgspec.msgpack.encode(part) for part in parts]

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from indextables.spark.search.tasks import task_rows

        yield from task_rows(packed, common, text, units, batches)

    return spark.range(0, len(units), 1, len(units)).mapInArrow(task, schema)


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
