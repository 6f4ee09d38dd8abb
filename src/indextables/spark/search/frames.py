"""Searches on a cluster as DataFrames: statistics first, then the best rows of each task, then the best of all.

Statistics are gathered when the search is asked for, in one job over all splits; the rows are a DataFrame that runs
when it is used, over the splits that `where` leaves. Scores are those of the embedded engine, because every task
scores with the statistics of the whole table. A small table whose answer is small is searched by the driver's own
threads instead, since a job of Spark takes longer to start than such a search takes to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError, InvalidArgument
from indextables.log.read import Snapshot
from indextables.log.wire import Metadata
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.spark.search.question import PLACE, ROW, Question, Shared, Splits, each_with, shares
from indextables.spark.search.tasks import count_job, rows_of, stats_job
from indextables.spark.session import spark_schema
from indextables.spark.tasks import Place, grouped
from indextables.split.file import SplitRef
from indextables.split.search import TermStats, merge_stats, scored_terms
from indextables.table.read import (
    SCORE,
    MarkedRows,
    check_rows_readable,
    column_names,
    mark_plan,
    prune_files,
    refs_of,
    searcher_over,
    show_hits,
    still_there,
)
from indextables.table.running import Runner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from indextables.spark.tasks import SparkHandle

__all__ = ["count_matches", "marked_rows", "search_rows"]

_DRIVER_ROWS = 10_000
"""An answer that the driver gives itself has at most so many rows."""
_TASK_BYTES = 256 << 20
"""Splits of marked rows share a task up to this size: an index is read by parts, so that it can take more than a scan
can."""


def search_rows(
    spark: SparkSession, env: Env, snapshot: Snapshot, question: Question, runner: Runner, place: Place
) -> DataFrame:
    """The matching rows with `_score`, best first where a limit is given.

    Raises QueryInvalid, InvalidArgument, NotSupported, VersionExpired and what else a search of the embedded engine
    raises; what goes wrong in a task later ends the query that uses the DataFrame.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
    from pyspark.sql.types import LongType, StructField, StructType

    question = _checked(snapshot, question)
    schema = _schema_of(snapshot, question)
    refs = _all_refs(env, snapshot)
    where = _predicate(env, snapshot.schema, question.where)
    if _fits_driver(env, snapshot, refs):
        answer = _by_driver(env, snapshot, refs, question, where)
        if answer is not None:
            return spark.createDataFrame(answer.cast(_arrow(schema)), schema)
    shared = Shared(snapshot.metadata, snapshot.version, question)
    plan = searcher_over(env, snapshot.metadata, []).plan(question.query, where)
    if scored_terms(plan):
        shared = msgspec.structs.replace(shared, stats=_statistics(runner, shared, refs))
    parts = shares(_pruned(env, snapshot, refs, where), runner.width)
    wide = StructType([*schema.fields, StructField(PLACE, LongType()), StructField(ROW, LongType())])
    found = _lazily(spark, place, shared, parts, wide)
    if question.limit is not None:
        found = found.orderBy(F.col(SCORE).desc(), PLACE, ROW).limit(question.limit)
    return found.drop(PLACE, ROW)


def count_matches(env: Env, snapshot: Snapshot, question: Question, runner: Runner) -> int:
    """How many rows match; a task per group of splits that may hold one. Raises as `search_rows`."""
    refs = _all_refs(env, snapshot)
    where = _predicate(env, snapshot.schema, question.where)
    if _fits_driver(env, snapshot, refs):
        with still_there(env, snapshot.version):
            return searcher_over(env, snapshot.metadata, refs).count(question.query, where=where)
    searcher_over(env, snapshot.metadata, []).plan(question.query, where)
    shared = Shared(snapshot.metadata, snapshot.version, question)
    parts = shares(_pruned(env, snapshot, refs, where), runner.width)
    return sum(int(answer) for answer in _answers(runner.run(count_job, each_with(shared, parts))))


def marked_rows(
    handle: SparkHandle, env: Env, snapshot: Snapshot, asked: MarkedRows, *, where: Node | None = None
) -> DataFrame:
    """The columns of the rows that all required searches match, and a boolean column for every search.

    If a score is asked for, a column `_score` follows: that of the first required search, scored as one index over the
    whole table; what scores depend on is gathered now, by a job over all splits. `where` may leave out splits that
    cannot hold what is wanted; it does not filter rows. Searches are checked here: raises QueryInvalid with the
    position, NotSupported for tables of another system, LogError.
    """
    check_rows_readable(snapshot, env.store.url)
    searcher = searcher_over(env, snapshot.metadata, [])
    plans = [mark_plan(searcher, mark) for mark in (*asked.required, *asked.marked)]
    shared = Shared(snapshot.metadata, snapshot.version, asked)
    if asked.score and scored_terms(plans[0]):
        stats = _statistics(handle.runner(), shared, _all_refs(env, snapshot))
        shared = msgspec.structs.replace(shared, stats=stats)
    refs = refs_of(env, prune_files(snapshot, where))
    schema = _marked_schema(snapshot.metadata, asked)
    if not env.store.outlives_process:
        # No task can see it, so its rows are sent.
        wanted = _arrow(schema)
        rows = pa.Table.from_batches(rows_of(env, shared, Splits([], refs), wanted), schema=wanted)
        return handle.spark.createDataFrame(rows, schema)
    parts = [Splits([], group) for group in grouped(refs, _TASK_BYTES)]
    return _lazily(handle.spark, handle.place(), shared, parts, schema)


def _fits_driver(env: Env, snapshot: Snapshot, refs: Sequence[SplitRef]) -> bool:
    """True if the driver's threads end a search sooner than a job would start; always where there is no cluster."""
    options = env.over(snapshot.metadata.configuration)
    few = len(refs) <= options[opt.SEARCH_DRIVER_MAX_SPLITS]
    small = sum(ref.size or 0 for ref in refs) <= options[opt.SEARCH_DRIVER_MAX_BYTES]
    return (few and small) or not env.store.outlives_process


def _by_driver(
    env: Env, snapshot: Snapshot, refs: Sequence[SplitRef], question: Question, where: Node | None
) -> pa.Table | None:
    """The answer, or None if it is too large to be kept here."""
    limit = question.limit
    with still_there(env, snapshot.version):
        searcher = searcher_over(env, snapshot.metadata, refs)
        may_be_large = (limit is None or limit > _DRIVER_ROWS) and env.store.outlives_process
        if may_be_large and searcher.count(question.query, where=where) > _DRIVER_ROWS:
            return None
        hits = searcher.search(question.query, where=where, limit=limit).hits
        return show_hits(searcher, question.query, hits, question.columns, question.highlight)


def _statistics(runner: Runner, shared: Shared, refs: Sequence[SplitRef]) -> TermStats:
    """What scores depend on, over all splits."""
    units = each_with(shared, shares(list(enumerate(refs)), runner.width))
    return merge_stats(_READ_TERMSTATS.decode(answer) for answer in _answers(runner.run(stats_job, units)))


def _lazily(
    spark: SparkSession, place: Place, shared: Shared, parts: Sequence[Splits], schema: StructType
) -> DataFrame:
    """The rows of all parts, a task for each, when they are asked for."""
    if not parts:
        return spark.createDataFrame([], schema)
    packed, common, text = msgspec.msgpack.encode(place), msgspec.msgpack.encode(shared), schema.json()
    units = [msgspec.msgpack.encode(part) for part in parts]

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from indextables.spark.search.tasks import task_rows

        yield from task_rows(packed, common, text, units, batches)

    return spark.range(0, len(units), 1, len(units)).mapInArrow(task, schema)


def _checked(snapshot: Snapshot, question: Question) -> Question:
    names = column_names(snapshot.schema, question.columns or None)
    marked = column_names(snapshot.schema, question.highlight, what="highlight")
    taken = {SCORE, PLACE, ROW, *(f"_highlight_{name}".lower() for name in marked)}
    clash = next((name for name in names if name.lower() in taken), None)
    if clash is not None:
        raise InvalidArgument(f"the table has a column {clash!r} of its own: name the columns to read, without it")
    return msgspec.structs.replace(question, columns=tuple(names), highlight=tuple(marked))


def _schema_of(snapshot: Snapshot, question: Question) -> StructType:
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    whole = spark_schema(snapshot.metadata.schemaString)
    fields = [StructField(name, whole[name].dataType, metadata=whole[name].metadata) for name in question.columns]
    fields.append(StructField(SCORE, DoubleType()))
    fields += [StructField(f"_highlight_{name}", StringType()) for name in question.highlight]
    return StructType(fields)


def _marked_schema(metadata: Metadata, asked: MarkedRows) -> StructType:
    from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

    whole = spark_schema(metadata.schemaString)
    fields = [StructField(name, whole[name].dataType) for name in asked.columns]
    fields += [StructField(mark.name, BooleanType()) for mark in (*asked.required, *asked.marked)]
    return StructType([*fields, *([StructField(SCORE, DoubleType())] if asked.score else [])])


def _arrow(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _all_refs(env: Env, snapshot: Snapshot) -> list[SplitRef]:
    check_rows_readable(snapshot, env.store.url)
    return refs_of(env, prune_files(snapshot, None))


def _pruned(env: Env, snapshot: Snapshot, refs: Sequence[SplitRef], where: Node | None) -> list[tuple[int, SplitRef]]:
    """The splits that may hold a match, each with its place among all."""
    if where is None:
        return list(enumerate(refs))
    left = {ref.key for ref in refs_of(env, prune_files(snapshot, where))}
    return [(place, ref) for place, ref in enumerate(refs) if ref.key in left]


def _answers(given: Sequence[bytes | IndexTablesError]) -> list[bytes]:
    """What the tasks found. Raises the first error of theirs."""
    for answer in given:
        if isinstance(answer, IndexTablesError):
            raise answer
    return [answer for answer in given if isinstance(answer, bytes)]


def _predicate(env: Env, schema: pa.Schema, where: str | None) -> Node | None:
    return None if where is None else parse(where, schema, time_zone=env.options[opt.TIME_ZONE])


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_TERMSTATS = msgspec.msgpack.Decoder(TermStats)
