"""Gathers statistics, counts and finds rows in a task of a search, over its own splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.spark.search.question import PLACE, ROW, Question, Shared, Splits, Unit
from indextables.spark.tasks import Place
from indextables.split.query import Plan
from indextables.split.search import SplitSearcher
from indextables.table.environment import open_env
from indextables.table.read import (
    MarkedRows,
    found_batches,
    mark_plan,
    marked_batches,
    required_plan,
    searcher_over,
    still_there,
)

__all__ = ["asked_plan", "count_job", "rows_of", "stats_job", "task_rows"]


def stats_job(env: Env, unit: bytes) -> bytes:
    """In a task: what scores depend on, for its splits."""
    asked = _READ_UNIT.decode(unit)
    with still_there(env, asked.shared.version):
        searcher = _searcher(env, asked.shared, asked.splits)
        return msgspec.msgpack.encode(searcher.collect_stats(asked_plan(searcher, asked.shared.asked)))


def count_job(env: Env, unit: bytes) -> bytes:
    """In a task: how many rows of its splits match."""
    asked = _READ_UNIT.decode(unit)
    with still_there(env, asked.shared.version):
        searcher = _searcher(env, asked.shared, asked.splits)
        return str(searcher.count(_counted_plan(searcher, asked.shared.asked))).encode()


def task_rows(packed: bytes, shared: bytes, schema: str, _: int, splits: bytes) -> Iterator[pa.RecordBatch]:
    """In a task of a DataFrame: the rows of its splits, in the types of Spark's schema."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    place, common = _READ_PLACE.decode(packed), _READ_SHARED.decode(shared)
    wanted = to_arrow_schema(StructType.fromJson(msgspec.json.decode(schema)), timezone="UTC")
    env = open_env(place.url, place.options, session=place.session)
    yield from rows_of(env, common, _READ_SPLITS.decode(splits), wanted)


def rows_of(
    env: Env, shared: Shared, splits: Splits, wanted: pa.Schema, where: Node | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of some splits that are asked for, in the columns and types of `wanted`.

    Of marked rows those in which `where` does not hold are left out if any search is required. Raises SplitCorrupt,
    VersionExpired where purge was faster, StoreError.
    """
    with still_there(env, shared.version):
        searcher, asked = _searcher(env, shared, splits), shared.asked
        if isinstance(asked, MarkedRows):
            batches = _marked(searcher, asked, shared, where)
        else:
            batches = _ranked(searcher, asked, shared, splits.places)
        for columns in batches:
            arrays = [column.cast(field.type) for column, field in zip(columns, wanted, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def asked_plan(searcher: SplitSearcher, asked: Question | MarkedRows) -> Plan:
    """What decides the scores of the rows that match. Raises QueryInvalid with the position, LimitExceeded."""
    if isinstance(asked, MarkedRows):
        return mark_plan(searcher, asked.required[0])
    return searcher.plan(asked.query, _predicate(searcher, asked.where))


def _counted_plan(searcher: SplitSearcher, asked: Question | MarkedRows) -> Plan:
    """What decides which rows match."""
    return required_plan(searcher, asked) if isinstance(asked, MarkedRows) else asked_plan(searcher, asked)


def _ranked(
    searcher: SplitSearcher, question: Question, shared: Shared, places: Sequence[int]
) -> Iterator[list[pa.Array]]:
    """The best rows, each with its place among all behind its columns."""
    numbers = np.asarray(places, dtype=np.int64)
    for hits, rows in found_batches(
        searcher,
        question.query,
        question.columns,
        highlight=question.highlight,
        where=_predicate(searcher, question.where),
        limit=question.limit,
        stats=shared.stats,
    ):
        placed = rows.append_column(PLACE, pa.array(numbers[hits.splits])).append_column(ROW, pa.array(hits.rows))
        yield from (batch.columns for batch in placed.to_batches())


def _marked(searcher: SplitSearcher, asked: MarkedRows, shared: Shared, where: Node | None) -> Iterator[list[pa.Array]]:
    """Rows with a boolean for every search behind their columns: the required ones, then the others, then the score."""
    width = len(asked.columns)
    for batch in marked_batches(searcher, asked, shared.version, where=where, stats=shared.stats):
        always = [pa.repeat(pa.scalar(value=True), batch.num_rows)] * len(asked.required)
        yield [*batch.columns[:width], *always, *batch.columns[width:]]


def _predicate(searcher: SplitSearcher, where: str | None) -> Node | None:
    return None if where is None else parse(where, searcher.schema, time_zone=searcher.env.options[opt.TIME_ZONE])


def _searcher(env: Env, shared: Shared, splits: Splits) -> SplitSearcher:
    return searcher_over(env, shared.metadata, splits.refs)


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_PLACE = msgspec.msgpack.Decoder(Place)
_READ_SHARED = msgspec.msgpack.Decoder(Shared)
_READ_SPLITS = msgspec.msgpack.Decoder(Splits)
_READ_UNIT = msgspec.msgpack.Decoder(Unit)
