"""Marks the rows of a statement of Spark's with searches, by tasks, and counts them.

Two ways lead to them, and they give the same rows. A small answer is made here, by the index, from the pages that have
a hit. A large one, one of a table that is too large for the driver, and all rows with marks come from tasks, when they
are asked for. Where a search matches every row (`matches_every_row`), whoever asks had better scan the table.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.log.read import Snapshot
from indextables.log.wire import Metadata
from indextables.query.expr import Node
from indextables.spark.search.jobs import (
    answers_of,
    arrow_schema,
    fits_driver,
    lazily,
    most_rows,
    parts_of,
    statistics,
)
from indextables.spark.search.question import Shared, Splits, each_with
from indextables.spark.search.tasks import count_job, rows_of
from indextables.spark.session import spark_schema
from indextables.spark.tasks import grouped
from indextables.split.file import SplitRef
from indextables.split.search import scored_terms
from indextables.table.read import (
    SCORE,
    MarkedRows,
    live_rows,
    mark_plan,
    planned_files,
    refs_of,
    required_plan,
    searcher_over,
    still_there,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from indextables.spark.tasks import SparkHandle

__all__ = ["answer_frame", "count_marked", "found_rows", "marked_rows", "matches_every_row"]

_TASK_BYTES = 256 << 20
"""Splits of marked rows share a task up to this size: an index is read by parts, so that it can take more than a scan
can."""

_REFS_AT_ONCE = 8192

_DRIVER_BYTES = 32 << 20
"""An answer that the driver makes itself is not larger."""

_SHOWN_ROWS = 100
"""An answer of more rows is one partition, so that writing it makes one file; fewer are shown without a job instead."""


def marked_rows(
    handle: SparkHandle,
    env: Env,
    snapshot: Snapshot,
    everything: pa.Table,
    asked: MarkedRows,
    *,
    where: Node | None = None,
    limit: int | None = None,
    lasting: bool = False,
) -> DataFrame:
    """The columns of the rows that all required searches match, and a boolean column for every search.

    `everything` are the `live_files` of the version, which one statement asks more than one thing about.
    If a score is asked for, a column `_score` follows: that of the first required search, scored as one index over the
    whole table; what scores depend on is gathered now, by a job over all splits. Rows in which `where` does not hold
    may come or not. With a `limit` any so many of the rows in which it holds do. A `lasting` DataFrame keeps no rows.
    Searches are checked here: raises QueryInvalid with the position, LogError.
    """
    searcher = searcher_over(env, snapshot.metadata, [])
    plans = [mark_plan(searcher, mark) for mark in (*asked.required, *asked.marked)]
    schema = _schema(snapshot.metadata, asked)
    if asked.required and not lasting:
        rows = found_rows(env, snapshot, everything, asked, where=where, limit=limit)
        if rows is not None:
            # One partition: then Spark groups, joins and sorts so few rows without a shuffle.
            return handle.spark.createDataFrame(rows if rows.num_rows else [], schema).coalesce(1)
    shared = Shared(snapshot.metadata, snapshot.version, asked)
    if asked.score and scored_terms(plans[0]):
        shared = msgspec.structs.replace(shared, stats=statistics(handle.runner(), env, shared, everything))
    files = everything if where is None else planned_files(env, snapshot, where)
    if not env.store.outlives_process:
        # No task can see it, so its rows are sent.
        wanted = arrow_schema(schema)
        rows = pa.Table.from_batches(
            rows_of(env, shared, Splits([], refs_of(env, files, snapshot.schema)), wanted), schema=wanted
        )
        return handle.spark.createDataFrame(rows, schema)
    parts = (Splits([], group) for group in grouped(_each_ref(env, files, snapshot.schema), _TASK_BYTES))
    return lazily(handle.spark, handle.place(), shared, parts, schema)


def found_rows(
    env: Env,
    snapshot: Snapshot,
    everything: pa.Table,
    asked: MarkedRows,
    *,
    where: Node | None = None,
    limit: int | None = None,
) -> pa.Table | None:
    """The columns of the rows that all required searches match, then a boolean for every search and the score.

    In the types in which Spark takes them. None if tasks had better look for the rows. Rows in which `where` does not
    hold are left out. With a `limit` any so many rows do. Raises as `marked_rows`.
    """
    if not fits_driver(env, snapshot, everything):
        return None
    with still_there(env, snapshot.version):
        refs = refs_of(env, everything, snapshot.schema)
        shared = Shared(snapshot.metadata, snapshot.version, asked)
        wanted, most = arrow_schema(_schema(snapshot.metadata, asked)), limit
        rows = None
        if most is None or most > most_rows(env, snapshot):
            searcher = searcher_over(env, snapshot.metadata, refs)
            hits = searcher.count(required_plan(searcher, asked), where=where)
            most = hits if most is None else min(hits, most)
            if most > most_rows(env, snapshot):
                return None
        elif len(refs) > 1 and not asked.score:
            # Any rows do: those of a word that is not rare are all in one split, and close to each other.
            largest = max(refs, key=lambda ref: ref.size or 0)
            rows = _rows_here(env, shared, Splits([], [largest]), wanted, where, most)
        if rows is None or rows.num_rows < most:
            rows = _rows_here(env, shared, Splits([], list(refs)), wanted, where, most)
        return rows


def answer_frame(
    spark: SparkSession,
    metadata: Metadata,
    rows: pa.Table,
    shown: Sequence[tuple[str, str | None]],
    always: Container[str],
) -> DataFrame:
    """Rows that stand in the plan. `shown` are their columns, each with that of the table whose type it has.

    None stands for a whole number of 64 bits. Those in `always` are never null. Up to a hundred rows are collected
    without a job; Spark cuts them into as many partitions as it has cores.
    """
    from pyspark.sql.types import LongType, StructField, StructType

    whole = spark_schema(metadata.schemaString)
    kinds = [LongType() if column is None else whole[column].dataType for _, column in shown]
    fields = [StructField(name, kind, name not in always) for (name, _), kind in zip(shown, kinds, strict=True)]
    schema = StructType(fields)
    if not rows.num_rows:
        # A list without values is an RDD to Spark, unless it knows that no row is wanted.
        return spark.createDataFrame([], schema).limit(0)
    frame = spark.createDataFrame(rows, schema)
    return frame if rows.num_rows <= _SHOWN_ROWS else frame.coalesce(1)


def count_marked(
    handle: SparkHandle,
    env: Env,
    snapshot: Snapshot,
    files: pa.Table,
    asked: MarkedRows,
    *,
    where: Node | None = None,
) -> int | None:
    """How many rows of all `files` match all required searches and `where`; no row is read.

    By the driver, or by tasks where the table is too large for it: these count without `where` only, and the answer is
    None with one. Raises as `marked_rows`.
    """
    if fits_driver(env, snapshot, files):
        with still_there(env, snapshot.version):
            searcher = searcher_over(env, snapshot.metadata, refs_of(env, files, snapshot.schema))
            return searcher.count(required_plan(searcher, asked), where=where)
    if where is not None:
        return None
    required_plan(searcher_over(env, snapshot.metadata, []), asked)
    runner = handle.runner()
    shared = Shared(snapshot.metadata, snapshot.version, asked)
    units = each_with(shared, parts_of(env, files, snapshot.schema, runner.width))
    return sum(int(answer) for answer in answers_of(runner.run(count_job, units)))


def matches_every_row(env: Env, snapshot: Snapshot, files: pa.Table, asked: MarkedRows) -> bool:
    """True if the driver can tell that all required searches match each row of all `files`: they leave out none."""
    rows = live_rows(files)
    if not rows or not fits_driver(env, snapshot, files):
        return False
    with still_there(env, snapshot.version):
        searcher = searcher_over(env, snapshot.metadata, refs_of(env, files, snapshot.schema))
        return searcher.count(required_plan(searcher, asked)) == rows


def _each_ref(env: Env, files: pa.Table, schema: pa.Schema) -> Iterator[SplitRef]:
    """One reference per file, made some thousands at a time: there may be millions."""
    for start in range(0, files.num_rows, _REFS_AT_ONCE):
        yield from refs_of(env, files.slice(start, _REFS_AT_ONCE), schema)


def _rows_here(
    env: Env,
    shared: Shared,
    splits: Splits,
    wanted: pa.Schema,
    where: Node | None,
    most: int,
) -> pa.Table | None:
    """The first `most` rows, None if they are too large to be kept here."""
    left, size = most, 0
    batches = []
    for batch in rows_of(env, shared, splits, wanted, where) if most else ():
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
        size += batches[-1].nbytes
        if size > _DRIVER_BYTES:
            return None
        if left <= 0:
            break
    return pa.Table.from_batches(batches, schema=wanted)


def _schema(metadata: Metadata, asked: MarkedRows) -> StructType:
    from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

    whole = spark_schema(metadata.schemaString)
    fields = [StructField(name, whole[name].dataType) for name in asked.columns]
    fields += [StructField(mark.name, BooleanType()) for mark in (*asked.required, *asked.marked)]
    return StructType([*fields, *([StructField(SCORE, DoubleType())] if asked.score else [])])
