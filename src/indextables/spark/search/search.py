"""Search on a cluster: the statistics that scores need first, then the best rows of each task, then the best of all.

Statistics are gathered when the search is asked for, in one job over all splits; the rows are a DataFrame that runs
when it is used, over the splits that `where` leaves. Scores are those of the embedded engine, because every task
scores with the statistics of the whole table. A small table whose answer is small is searched by the driver's own
threads instead, since a job of Spark takes longer to start than such a search takes to end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import cachetools
import msgspec
import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError, InvalidArgument, ObjectNotFound
from indextables.log.read import Snapshot
from indextables.log.wire import Metadata, schema_from_json
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.spark.search.found import searcher_of
from indextables.spark.session import spark_schema
from indextables.spark.tasks import Place
from indextables.split.file import SplitRef
from indextables.split.search import Hits, SplitSearcher, TermStats, merge_stats, scored_terms, snippets
from indextables.table.read import (
    SCORE,
    Searchers,
    check_rows_readable,
    column_names,
    gone,
    prune_files,
    refs_of,
    search,
)
from indextables.table.running import Runner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Question", "count_matches", "search_rows"]

_PLACE, _ROW = "_it_place", "_it_row"
_FEW_SPLITS, _MOST_SPLITS = 32, 512
"""Splits of a task: more tasks than run at once above the first, never more splits than the second."""
_ROWS_PER_BATCH = 4096
_DRIVER_ROWS = 10_000
"""An answer that the driver gives itself has at most so many rows."""


class Question(msgspec.Struct, frozen=True):
    """What is asked, as text, so that it can travel."""

    query: str
    where: str | None = None
    columns: tuple[str, ...] = ()
    highlight: tuple[str, ...] = ()
    limit: int | None = None


class Shared(msgspec.Struct, frozen=True):
    """What all units of a search have in common."""

    metadata: Metadata
    version: int
    question: Question
    stats: TermStats | None = None


class Unit(msgspec.Struct, frozen=True):
    """The splits of one task, and where each stands among all."""

    shared: Shared
    places: list[int]
    refs: list[SplitRef]


def search_rows(
    spark: SparkSession, env: Env, snapshot: Snapshot, question: Question, runner: Runner, place: Place
) -> DataFrame:
    """The matching rows with `_score`, best first where a limit is given.

    Raises QueryInvalid, InvalidArgument, NotSupported, VersionExpired and what else a search of the embedded engine
    raises; what goes wrong in a task later ends the query that uses the DataFrame.
    """
    question = _checked(snapshot, question)
    schema = _schema_of(snapshot, question)
    refs = _all_refs(env, snapshot)
    where = _predicate(env, snapshot.schema, question.where)
    if fits_driver(env, snapshot, refs):
        found = _by_driver(env, snapshot, question, where)
        if found is not None:
            return spark.createDataFrame(_in_types_of(found, schema), schema)
    shared = Shared(snapshot.metadata, snapshot.version, question)
    plan = _searcher(env, snapshot.metadata, []).plan(question.query, where)
    if scored_terms(plan):
        shared = msgspec.structs.replace(shared, stats=_statistics(runner, shared, refs))
    chosen = _pruned(env, snapshot, refs, where)
    if not chosen:
        return spark.createDataFrame([], schema)
    return _lazily(spark, place, [_pack(unit) for unit in _units(shared, chosen, runner.width)], schema, question.limit)


def count_matches(env: Env, snapshot: Snapshot, question: Question, runner: Runner) -> int:
    """How many rows match; a task per group of splits that may hold one. Raises as `search_rows`."""
    refs = _all_refs(env, snapshot)
    where = _predicate(env, snapshot.schema, question.where)
    if fits_driver(env, snapshot, refs):
        try:
            searchers, snapshot = _searchers(env, snapshot)
            return searchers.of(snapshot).count(question.query, where=where)
        except ObjectNotFound as cause:
            raise gone(env, snapshot, cause) from cause
    _searcher(env, snapshot.metadata, []).plan(question.query, where)
    shared = Shared(snapshot.metadata, snapshot.version, question)
    units = _units(shared, _pruned(env, snapshot, refs, where), runner.width)
    return sum(int(answer) for answer in _answers(runner.run(count_job, [_pack(unit) for unit in units])))


def stats_job(env: Env, unit: bytes) -> bytes:
    """In a task: what scores depend on, for its splits."""
    searcher, asked, where = _opened(env, _unpack(unit))
    return msgspec.msgpack.encode(searcher.collect_stats(asked.shared.question.query, where=where))


def count_job(env: Env, unit: bytes) -> bytes:
    """In a task: how many rows of its splits match."""
    searcher, asked, where = _opened(env, _unpack(unit))
    return str(searcher.count(asked.shared.question.query, where=where)).encode()


def rows_of(env: Env, unit: bytes, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """In a task: the best rows of its splits, with place and row number behind the columns of `schema`."""
    searcher, asked, where = _opened(env, _unpack(unit))
    question = asked.shared.question
    hits = searcher.search(question.query, where=where, limit=question.limit, stats=asked.shared.stats).hits
    names = [*question.columns, *(name for name in question.highlight if name not in question.columns)]
    plan = searcher.plan(question.query)
    numbers = np.asarray(asked.places, dtype=np.int64)
    for start in range(0, len(hits), _ROWS_PER_BATCH):
        part: Hits = hits.take(np.arange(start, min(start + _ROWS_PER_BATCH, len(hits))))
        rows = searcher.rows(part, names, score=True)
        shown = rows.select([*question.columns, SCORE])
        for name in question.highlight:
            shown = shown.append_column(f"_highlight_{name}", snippets(plan, rows, name))
        placed = shown.append_column(_PLACE, pa.array(numbers[part.splits])).append_column(_ROW, pa.array(part.rows))
        yield from placed.cast(schema).to_batches()


def fits_driver(env: Env, snapshot: Snapshot, refs: Sequence[SplitRef]) -> bool:
    """True if the driver's threads end a search sooner than a job would start; always where there is no cluster."""
    options = env.over(snapshot.metadata.configuration)
    few = len(refs) <= options[opt.SEARCH_DRIVER_MAX_SPLITS]
    small = sum(ref.size or 0 for ref in refs) <= options[opt.SEARCH_DRIVER_MAX_BYTES]
    return (few and small) or env.store.url.startswith("memory:")


def _by_driver(env: Env, snapshot: Snapshot, question: Question, where: Node | None) -> pa.Table | None:
    """The answer, or None if it is too large to be kept here."""
    searchers, snapshot = _searchers(env, snapshot)
    limit = question.limit
    if limit is None or limit > _DRIVER_ROWS:
        try:
            total = searchers.of(snapshot).count(question.query, where=where)
        except ObjectNotFound as cause:
            raise gone(env, snapshot, cause) from cause
        if total > _DRIVER_ROWS and not env.store.url.startswith("memory:"):
            return None
    return search(
        env,
        searchers,
        snapshot,
        question.query,
        columns=question.columns,
        where=where,
        limit=limit,
        offset=0,
        order_by=None,
        highlight=question.highlight,
    )


def _statistics(runner: Runner, shared: Shared, refs: Sequence[SplitRef]) -> TermStats:
    units = _units(shared, list(enumerate(refs)), runner.width)
    answers = _answers(runner.run(stats_job, [_pack(unit) for unit in units]))
    return merge_stats(_READ_TERMSTATS.decode(answer) for answer in answers)


def _lazily(spark: SparkSession, place: Place, units: list[bytes], schema: StructType, limit: int | None) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
    from pyspark.sql.types import LongType, StructField, StructType

    wide = StructType([*schema.fields, StructField(_PLACE, LongType()), StructField(_ROW, LongType())])
    packed, text = msgspec.msgpack.encode(place), wide.json()

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from indextables.spark.search.search import task_rows

        yield from task_rows(packed, text, units, batches)

    found = spark.range(0, len(units), 1, len(units)).mapInArrow(task, wide)
    if limit is not None:
        found = found.orderBy(F.col(SCORE).desc(), _PLACE, _ROW).limit(limit)
    return found.drop(_PLACE, _ROW)


def task_rows(
    packed: bytes, schema: str, units: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of the units whose numbers come in."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    from indextables.table.environment import open_env

    place = _READ_PLACE.decode(packed)
    wanted = to_arrow_schema(StructType.fromJson(msgspec.json.decode(schema)), timezone="UTC")
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from rows_of(open_env(place.url, place.options, session=place.session), units[number], wanted)


def _checked(snapshot: Snapshot, question: Question) -> Question:
    names = column_names(snapshot.schema, question.columns or None)
    marked = column_names(snapshot.schema, question.highlight, what="highlight")
    taken = {SCORE, _PLACE, _ROW, *(f"_highlight_{name}".lower() for name in marked)}
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


def _in_types_of(rows: pa.Table, schema: StructType) -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_schema

    return rows.cast(to_arrow_schema(schema, timezone="UTC"))


def _all_refs(env: Env, snapshot: Snapshot) -> list[SplitRef]:
    check_rows_readable(snapshot, env.store.url)
    return refs_of(env, prune_files(snapshot, None))


def _pruned(env: Env, snapshot: Snapshot, refs: Sequence[SplitRef], where: Node | None) -> list[tuple[int, SplitRef]]:
    """The splits that may hold a match, each with its place among all."""
    if where is None:
        return list(enumerate(refs))
    left = {ref.key for ref in refs_of(env, prune_files(snapshot, where))}
    return [(place, ref) for place, ref in enumerate(refs) if ref.key in left]


def _units(shared: Shared, refs: Sequence[tuple[int, SplitRef]], width: int) -> list[Unit]:
    """Neighbours together, about as many groups as tasks run at once, more where a task would have too much."""
    count = len(refs)
    if not count:
        return []
    groups = min(count, max(width, min(4 * width, -(-count // _FEW_SPLITS)), -(-count // _MOST_SPLITS)))
    bounds = np.linspace(0, count, groups + 1).astype(int).tolist()
    return [
        Unit(shared, [place for place, _ in refs[start:end]], [ref for _, ref in refs[start:end]])
        for start, end in pairwise(bounds)
    ]


def _answers(given: Sequence[bytes | IndexTablesError]) -> list[bytes]:
    """What the tasks found. Raises the first error of theirs."""
    for answer in given:
        if isinstance(answer, IndexTablesError):
            raise answer
    return [answer for answer in given if isinstance(answer, bytes)]


def _predicate(env: Env, schema: pa.Schema, where: str | None) -> Node | None:
    return None if where is None else parse(where, schema, time_zone=env.options[opt.TIME_ZONE])


def _opened(env: Env, unit: Unit) -> tuple[SplitSearcher, Unit, Node | None]:
    options = env.over(unit.shared.metadata.configuration)
    env = msgspec.structs.replace(env, options=options)
    where = _predicate(env, schema_from_json(unit.shared.metadata.schemaString), unit.shared.question.where)
    return _searcher(env, unit.shared.metadata, unit.refs), unit, where


def _searcher(env: Env, metadata: Metadata, refs: Sequence[SplitRef]) -> SplitSearcher:
    """A searcher over some splits; the one that answered for the same splits before, if it is still there."""
    options = env.over(metadata.configuration)
    key = msgspec.msgpack.encode((env.store.url, metadata, refs, sorted((name, options[name]) for name in options)))
    with _LOCK:
        known = _PARTS.get(key)
    if known is not None:
        return known
    made = searcher_of(env, metadata, refs)
    with _LOCK:
        _PARTS[key] = made
    return made


_LOCK = threading.Lock()
_PARTS: cachetools.LRUCache[bytes, SplitSearcher] = cachetools.LRUCache(32)
_SEARCHERS: cachetools.LRUCache[Any, tuple[Searchers, Snapshot]] = cachetools.LRUCache(16)


def _searchers(env: Env, snapshot: Snapshot) -> tuple[Searchers, Snapshot]:
    """Those of the driver, and the snapshot of this version that they know: a handle lives shorter than what it opens.

    A table in memory may be another one of the same name, so that nothing is kept for it.
    """
    key = (env.store.url, tuple(sorted((name, env.options[name]) for name in env.options)))
    with _LOCK:
        known = _SEARCHERS.get(key)
        if known is None or env.store.url.startswith("memory:"):
            known = (Searchers(env), snapshot)
        if (known[1].table_id, known[1].version) != (snapshot.table_id, snapshot.version):
            known = (known[0], snapshot)
        _SEARCHERS[key] = known
        return known


def _pack(unit: Unit) -> bytes:
    return msgspec.msgpack.encode(unit)


def _unpack(unit: bytes) -> Unit:
    return _READ_UNIT.decode(unit)


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_TERMSTATS = msgspec.msgpack.Decoder(TermStats)
_READ_PLACE = msgspec.msgpack.Decoder(Place)
_READ_UNIT = msgspec.msgpack.Decoder(Unit)
