"""Searches on a cluster as DataFrames: statistics first, then the best rows of each task, then the best of all.

Statistics are gathered when the search is asked for, in one job over all splits; the rows are a DataFrame that runs
when it is used, over the splits that `where` leaves. Scores are those of the embedded engine, because every task
scores with the statistics of the whole table. A small table whose answer is small is searched by the driver's own
threads instead, since a job of Spark takes longer to start than such a search takes to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import InvalidArgument
from indextables.log.read import Snapshot
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.spark.search.jobs import (
    answers_of,
    arrow_schema,
    fits_driver,
    lazily,
    live_files,
    most_rows,
    parts_of,
    statistics,
)
from indextables.spark.search.question import PLACE, ROW, Question, Shared, each_with
from indextables.spark.search.tasks import count_job
from indextables.spark.session import spark_schema
from indextables.spark.tasks import Place
from indextables.split.file import SplitRef
from indextables.split.search import scored_terms
from indextables.table.read import (
    SCORE,
    column_names,
    planned_files,
    refs_of,
    searcher_over,
    show_hits,
    still_there,
)
from indextables.table.running import Runner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["count_matches", "search_rows"]


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
    files = live_files(env, snapshot)
    where = _predicate(env, snapshot.schema, question.where)
    if fits_driver(env, snapshot, files):
        answer = _by_driver(env, snapshot, refs_of(env, files, snapshot.schema), question, where)
        if answer is not None:
            return spark.createDataFrame(answer.cast(arrow_schema(schema)), schema)
    shared = Shared(snapshot.metadata, snapshot.version, question)
    plan = searcher_over(env, snapshot.metadata, []).plan(question.query, where)
    if scored_terms(plan):
        shared = msgspec.structs.replace(shared, stats=statistics(runner, env, shared, files))
    left, places = _pruned(env, snapshot, files, where)
    parts = parts_of(env, left, snapshot.schema, runner.width, places)
    wide = StructType([*schema.fields, StructField(PLACE, LongType()), StructField(ROW, LongType())])
    found = lazily(spark, place, shared, parts, wide)
    if question.limit is not None:
        found = found.orderBy(F.col(SCORE).desc(), PLACE, ROW).limit(question.limit)
    return found.drop(PLACE, ROW)


def count_matches(env: Env, snapshot: Snapshot, question: Question, runner: Runner) -> int:
    """How many rows match; a task per group of splits that may hold one. Raises as `search_rows`."""
    files = live_files(env, snapshot)
    where = _predicate(env, snapshot.schema, question.where)
    if fits_driver(env, snapshot, files):
        with still_there(env, snapshot.version):
            return searcher_over(env, snapshot.metadata, refs_of(env, files, snapshot.schema)).count(
                question.query, where=where
            )
    searcher_over(env, snapshot.metadata, []).plan(question.query, where)
    shared = Shared(snapshot.metadata, snapshot.version, question)
    left, places = _pruned(env, snapshot, files, where)
    parts = parts_of(env, left, snapshot.schema, runner.width, places)
    return sum(int(answer) for answer in answers_of(runner.run(count_job, each_with(shared, parts))))


def _by_driver(
    env: Env, snapshot: Snapshot, refs: Sequence[SplitRef], question: Question, where: Node | None
) -> pa.Table | None:
    """The answer, or None if it is too large to be kept here."""
    limit = question.limit
    with still_there(env, snapshot.version):
        searcher = searcher_over(env, snapshot.metadata, refs)
        most = most_rows(env, snapshot)
        may_be_large = (limit is None or limit > most) and env.store.outlives_process
        if may_be_large and searcher.count(question.query, where=where) > most:
            return None
        hits = searcher.search(question.query, where=where, limit=limit).hits
        return show_hits(searcher, question.query, hits, question.columns, question.highlight)


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


def _pruned(env: Env, snapshot: Snapshot, files: pa.Table, where: Node | None) -> tuple[pa.Table, Sequence[int] | None]:
    """The files that may hold a match, and the place of each among all `files`; None where these are all."""
    if where is None:
        return files, None
    left = planned_files(env, snapshot, where)
    return left, pc.index_in(left["path"], files["path"].combine_chunks()).to_pylist()


def _predicate(env: Env, schema: pa.Schema, where: str | None) -> Node | None:
    return None if where is None else parse(where, schema, time_zone=env.options[opt.TIME_ZONE])
