"""Rows with what searches say about them, as a DataFrame: the exact answer to a search anywhere in a statement.

Tasks search their own splits and read the rows that are asked for: only matching ones where a search is required, else
all of them with a boolean per search. Whether a row matches does not depend on other splits, so that no task needs to
know more than its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from indextables.errors import IndexTablesError, ObjectNotFound, VersionExpired
from indextables.log.wire import Metadata
from indextables.spark.tasks import Place, grouped
from indextables.split.file import SplitRef
from indextables.split.search import TermStats

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from indextables.env import Env
    from indextables.log.read import Snapshot
    from indextables.query.expr import Node
    from indextables.spark.tasks import SparkHandle
    from indextables.split.query import Plan
    from indextables.split.search import Floats, Ints, SplitSearcher

__all__ = ["Mark", "marked_rows"]

_TASK_BYTES = 256 << 20
"""Splits share a task up to this size: an index is read by parts, so that a task can take more than a scan."""

_BATCH_ROWS = 65_536

SCORE = "_score"


class Mark(msgspec.Struct, frozen=True):
    """One search: the column `name` is true where `query` matches; `column` is its default field, None for all."""

    name: str
    column: str | None
    query: str


class _Job(msgspec.Struct, frozen=True):
    """What every task of one DataFrame knows."""

    place: Place
    metadata: Metadata
    version: int
    columns: list[str]
    required: list[Mark]
    marked: list[Mark]
    score: bool = False
    stats: TermStats | None = None


class _StatsUnit(msgspec.Struct, frozen=True):
    metadata: Metadata
    mark: Mark
    refs: list[SplitRef]


def marked_rows(
    handle: SparkHandle,
    env: Env,
    snapshot: Snapshot,
    *,
    columns: Sequence[str],
    required: Sequence[Mark],
    marked: Sequence[Mark],
    score: bool = False,
    where: Node | None = None,
) -> DataFrame:
    """`columns` of the rows that all of `required` match, and a boolean column for every search.

    With `score` a column `_score` follows: that of the first required search, scored as one index over the whole table;
    what scores depend on is gathered now, by a job over all splits. `where` may leave out splits that cannot hold what
    is wanted; it does not filter rows. Searches are checked here: raises QueryInvalid with the position, NotSupported
    for tables of another system, LogError.
    """
    from indextables.table.read import check_rows_readable, prune_files, refs_of

    check_rows_readable(snapshot, env.store.url)
    _check(env, snapshot, [*required, *marked])
    refs = refs_of(env, prune_files(snapshot, where))
    stats = _statistics(handle, env, snapshot, required[0]) if score else None
    job = _Job(
        handle.place(),
        snapshot.metadata,
        snapshot.version,
        list(columns),
        list(required),
        list(marked),
        score,
        stats,
    )
    schema = _schema(snapshot.metadata, columns, [mark.name for mark in (*required, *marked)], score=score)
    units = [msgspec.msgpack.encode(group) for group in grouped(refs, _TASK_BYTES)]
    if handle.url.startswith("memory:"):
        # No task can see it, so its rows are sent.
        return handle.spark.createDataFrame(_in_memory(env, job, refs, schema), schema)
    if not units:
        return handle.spark.createDataFrame([], schema)
    task = _task(msgspec.msgpack.encode(job), schema.json(), units)
    return handle.spark.range(0, len(units), 1, len(units)).mapInArrow(task, schema)


def rows_of_units(
    packed: bytes, schema: str, units: list[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of the units whose numbers come in."""
    import json

    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    from indextables.table.environment import open_env, table_env

    job = _READ_JOB.decode(packed)
    wanted = to_arrow_schema(StructType.fromJson(json.loads(schema)), timezone="UTC")
    env = table_env(open_env(job.place.url, job.place.options, session=job.place.session), job.metadata)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            refs = _READ_LIST_SPLITREF.decode(units[number])
            for columns, flags in _rows(env, job, refs):
                arrays = [column.cast(field.type) for column, field in zip([*columns, *flags], wanted, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _in_memory(env: Env, job: _Job, refs: list[SplitRef], schema: StructType) -> pa.Table:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema, timezone="UTC")
    batches = [
        pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip([*columns, *flags], wanted, strict=True)], schema=wanted
        )
        for columns, flags in _rows(env, job, refs)
    ]
    return pa.Table.from_batches(batches, schema=wanted)


def _rows(env: Env, job: _Job, refs: list[SplitRef]) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
    from indextables.spark.search.found import searcher_of

    searcher = searcher_of(env, job.metadata, refs)
    try:
        scores: dict[int, Floats] = {}
        marks = [*job.required, *job.marked]
        first = [_scored(searcher, marks[0], job.stats, scores)] if job.score else []
        sets = [*first, *(_row_sets(searcher, mark) for mark in marks[len(first) :])]
        if job.required:
            yield from _matching(searcher, job, sets, scores)
        else:
            yield from _all(env, searcher, job, sets)
    except ObjectNotFound as cause:
        message = (
            f"a file of version {job.version} is gone from {job.place.url}: purge was faster; read the table again"
        )
        raise VersionExpired(message, version=job.version, url=job.place.url) from cause


def _matching(
    searcher: SplitSearcher, job: _Job, sets: list[dict[int, Ints]], scores: dict[int, Floats]
) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
    """Only the rows that match, fetched by number."""
    import pyarrow as pa

    count = len(job.required)
    for place in sets[0]:
        rows = sets[0][place]
        for other in sets[1:count]:
            rows = np.intersect1d(rows, other.get(place, rows[:0]))
        for start in range(0, len(rows), _BATCH_ROWS):
            part = rows[start : start + _BATCH_ROWS]
            found = searcher.states[place].fetch(part, job.columns) if job.columns else None
            columns = [] if found is None else [column.combine_chunks() for column in found.columns]
            flags = [pa.array(np.ones(len(part), bool))] * count
            flags += [pa.array(np.isin(part, s.get(place, part[:0]), assume_unique=True)) for s in sets[count:]]
            if job.score:
                flags.append(pa.array(scores[place][np.searchsorted(sets[0][place], part)].astype(np.float64)))
            yield columns, flags


def _all(
    env: Env, searcher: SplitSearcher, job: _Job, sets: list[dict[int, Ints]]
) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
    """Every row, with what each search says about it."""
    import pyarrow as pa

    from indextables.log.wire import schema_from_json
    from indextables.table.read import scan_split

    schema = schema_from_json(job.metadata.schemaString)
    names = job.columns or schema.names[:1]
    for place, state in enumerate(searcher.states):
        hit = np.zeros((len(sets), state.num_rows), dtype=bool)
        for number, found in enumerate(sets):
            hit[number, found.get(place, np.zeros(0, np.int64))] = True
        if state.alive is not None:
            hit = hit[:, state.alive]
        start = 0
        for batch in scan_split(env, schema, state.ref, names, None, job.version):
            flags = [pa.array(row[start : start + batch.num_rows]) for row in hit]
            start += batch.num_rows
            yield (batch.columns if job.columns else []), flags


def _row_sets(searcher: SplitSearcher, mark: Mark) -> dict[int, Ints]:
    """The matching rows of each split, ascending."""
    fields = None if mark.column is None else [mark.column]
    hits = searcher.matches(searcher.plan(mark.query, default_fields=fields)).hits
    bounds = np.flatnonzero(np.diff(hits.splits)) + 1
    places = hits.splits[np.concatenate([[0], bounds])] if len(hits) else hits.splits
    return {int(place): rows for place, rows in zip(places, np.split(hits.rows, bounds), strict=False)}


def _scored(searcher: SplitSearcher, mark: Mark, stats: TermStats | None, scores: dict[int, Floats]) -> dict[int, Ints]:
    """As `_row_sets`; fills `scores` with those of the rows, in the same order."""
    fields = None if mark.column is None else [mark.column]
    hits = searcher.search(searcher.plan(mark.query, default_fields=fields), limit=None, stats=stats).hits
    order = np.lexsort((hits.rows, hits.splits))
    splits, rows, values = hits.splits[order], hits.rows[order], hits.scores[order]
    bounds = np.flatnonzero(np.diff(splits)) + 1
    places = splits[np.concatenate([[0], bounds])] if len(hits) else splits
    parts = zip(places, np.split(rows, bounds), np.split(values, bounds), strict=False)
    found = {}
    for place, part, part_scores in parts:
        found[int(place)] = part
        scores[int(place)] = part_scores
    return found


def _statistics(handle: SparkHandle, env: Env, snapshot: Snapshot, mark: Mark) -> TermStats | None:
    """What the scores of a search depend on, over all splits; None where they depend on nothing."""
    from indextables.split.search import merge_stats, scored_terms
    from indextables.table.read import prune_files, refs_of

    if not scored_terms(_planned(env, snapshot, mark)):
        return None
    groups = grouped(refs_of(env, prune_files(snapshot, None)), _TASK_BYTES)
    units = [msgspec.msgpack.encode(_StatsUnit(snapshot.metadata, mark, group)) for group in groups]
    parts = []
    for answer in handle.runner().run(stats_unit, units):
        if isinstance(answer, IndexTablesError):
            raise answer
        parts.append(_READ_TERMSTATS.decode(answer))
    return merge_stats(parts)


def stats_unit(env: Env, unit: bytes) -> bytes:
    """Job: what the scores of a search depend on, for some splits. Raises SplitError, StoreError."""
    from indextables.spark.search.found import searcher_of

    asked = _READ_STATSUNIT.decode(unit)
    searcher = searcher_of(env, asked.metadata, asked.refs)
    fields = None if asked.mark.column is None else [asked.mark.column]
    plan = searcher.plan(asked.mark.query, default_fields=fields)
    return msgspec.msgpack.encode(searcher.collect_stats(plan))


def _check(env: Env, snapshot: Snapshot, marks: Sequence[Mark]) -> None:
    """Raises QueryInvalid here rather than in a task."""
    for mark in marks:
        _planned(env, snapshot, mark)


def _planned(env: Env, snapshot: Snapshot, mark: Mark) -> Plan:
    """What a search asks for, without a look at any split."""
    from indextables.split.search import SplitSearcher
    from indextables.table.read import plain_schema
    from indextables.table.writing import target_of

    options = env.over(snapshot.metadata.configuration)
    target = target_of(snapshot.metadata, options)
    schema = plain_schema(target.schema, target.schema.names)
    searcher = SplitSearcher(env.store, [], schema=schema, index=target.plan, options=options, ambient=env.ambient)
    return searcher.plan(mark.query, default_fields=None if mark.column is None else [mark.column])


def _schema(metadata: Metadata, columns: Sequence[str], flags: Sequence[str], *, score: bool) -> StructType:
    from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

    from indextables.spark.session import spark_schema

    whole = spark_schema(metadata.schemaString)
    kept = [StructField(name, whole[name].dataType, True) for name in columns]  # noqa: FBT003 - Spark's signature
    hits = [StructField(name, BooleanType(), True) for name in flags]  # noqa: FBT003
    return StructType([*kept, *hits, *([StructField(SCORE, DoubleType(), True)] if score else [])])  # noqa: FBT003


def _task(
    packed: bytes, schema: str, units: list[bytes]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from indextables.spark.search.marked import rows_of_units

        yield from rows_of_units(packed, schema, units, batches)

    return rows


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_JOB = msgspec.msgpack.Decoder(_Job)
_READ_LIST_SPLITREF = msgspec.msgpack.Decoder(list[SplitRef])
_READ_TERMSTATS = msgspec.msgpack.Decoder(TermStats)
_READ_STATSUNIT = msgspec.msgpack.Decoder(_StatsUnit)
