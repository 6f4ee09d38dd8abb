"""Tasks write the rows that come as durable splits, and answer with what the log is to be told.

An attempt that dies, or that Spark gives up for a faster one, leaves files that nobody names; purge takes them. The
driver counts the rows of all answers: a row that is missing or there twice ends the statement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.env import Env
from indextables.errors import IndexTablesError, InvariantViolated
from indextables.log.read import Snapshot
from indextables.log.wire import Add, Metadata, tracks_rows
from indextables.spark.change.conditions import analysed, quoted
from indextables.spark.change.door import Door
from indextables.spark.change.source import SID
from indextables.spark.scan import FILE, ROW
from indextables.spark.tasks import Place, default_parallelism, dump_error, load_error
from indextables.split.file import ROW_ID, ROW_ID_FIELD
from indextables.table.environment import open_env
from indextables.table.rows import SPARK_DOOR, Rows, fit, without_generated
from indextables.table.writing import bringing_ids, discard, target_of, write_adds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["bases_of", "write_rows"]

_DDL = "is_error boolean, answer binary"

_TASK_ROWS = 25_000
"""Rows that are worth a task of their own: indexing them takes longer than starting it."""


class _Target(msgspec.Struct, frozen=True):
    """What a task must know: the table as it will be, and the first id of each file, where rows have ids."""

    metadata: Metadata
    bases: dict[str, int | None] | None


def write_rows(
    door: Door, env: Env, metadata: Metadata, frame: DataFrame, bases: dict[str, int | None] | None, rows: int
) -> list[Add]:
    """Durable splits for the rows of `frame`, which are `rows` many, of a table with this metadata.

    The frame has the columns of the table, then `FILE`, `ROW`, and `ROW_ID` where `bases` are given; a row without a
    file is new. Raises what writing raises, InvariantViolated if rows went missing; then nothing of them stays.
    """
    if not rows:
        return []
    tasks = max(1, min(default_parallelism(door.spark), rows // _TASK_ROWS))
    columns = metadata.partitionColumns
    # By address, not in turns: a task that runs again must get the same rows.
    address = [name for name in (FILE, ROW, SID) if name in frame.columns]
    spread = frame.repartition(tasks, *(quoted(name) for name in columns or address))
    task = partial(write_part, msgspec.msgpack.encode(door.place), msgspec.msgpack.encode(_Target(metadata, bases)))
    with analysed("what rows are set to"):
        if env.store.outlives_process:
            answers = spread.mapInArrow(task, _DDL).toArrow()
        else:
            answers = pa.Table.from_batches(
                [*_answers(env, _Target(metadata, bases), iter(frame.toArrow().to_batches()))]
            )
    adds: list[Add] = []
    fault: IndexTablesError | None = None
    for is_error, answer in zip(*(column.to_pylist() for column in answers.columns), strict=True):
        if is_error:
            fault = load_error(answer)
        else:
            adds += _READ_ADDS.decode(answer)
    written = sum(add.numRecords or 0 for add in adds)
    if fault is None and (written != rows or len({add.path for add in adds}) != len(adds)):
        fault = InvariantViolated(f"tasks wrote {written} rows where {rows} change: nothing was committed")
    if fault is not None:
        discard(env, adds)
        raise fault
    return adds


def write_part(packed: bytes, target: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: its rows as splits."""
    first = next(batches, None)
    if first is None:
        return
    place = _READ_PLACE.decode(packed)
    env = open_env(place.url, place.options, session=place.session)
    yield from _answers(env, _READ_TARGET.decode(target), _all(first, batches))


def _all(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _answers(env: Env, asked: _Target, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    is_error, answer = False, b""
    try:
        answer = msgspec.msgpack.encode(_written(env, asked, batches))
    except IndexTablesError as error:
        is_error, answer = True, dump_error(error)
        # A worker that leaves rows in the pipe is of no use to the next task.
        deque(batches, maxlen=0)
    yield pa.RecordBatch.from_arrays(
        [pa.array([is_error]), pa.array([answer], pa.binary())], names=["is_error", "answer"]
    )


def _written(env: Env, asked: _Target, batches: Iterator[pa.RecordBatch]) -> list[Add]:
    target = target_of(asked.metadata, env.over(asked.metadata.configuration))
    if asked.bases is not None:
        target = bringing_ids(target)
    first = next(batches, None)
    if first is None:
        return []
    first = _plain(first, asked.bases)
    rest = (_plain(batch, asked.bases) for batch in batches)
    rows = Rows(first.schema, _all(first, rest))
    rows = without_generated(rows, target.schema)
    fitted = fit(rows, target.schema, url=env.store.url, door=SPARK_DOOR, has_numbers=True)
    return write_adds(env, target, fitted)


def _plain(batch: pa.RecordBatch, bases: dict[str, int | None] | None) -> pa.RecordBatch:
    """Rows without their addresses, with their ids: stored ones, else the first of the file and the row's number."""
    internal = (FILE, ROW, SID, ROW_ID)
    kept = [name for name in batch.schema.names if name not in internal]
    plain = batch.select(kept)
    if bases is None:
        return plain
    files = batch.column(FILE).dictionary_encode()
    known = pa.array([bases.get(name) for name in files.dictionary.to_pylist()], pa.int64())
    counted = pc.add(known.take(files.indices), batch.column(ROW))
    ids = pc.coalesce(batch.column(ROW_ID), counted)
    return pa.RecordBatch.from_arrays([*plain.columns, ids], schema=pa.schema([*plain.schema, ROW_ID_FIELD]))


def bases_of(snapshot: Snapshot, paths: dict[str, str]) -> dict[str, int | None] | None:
    """The first id of each file, by its name in frames; None in a table whose rows have no ids."""
    if not tracks_rows(snapshot.protocol):
        return None
    known = dict(zip(snapshot.files["path"].to_pylist(), snapshot.files["baseRowId"].to_pylist(), strict=True))
    return {name: known.get(path) for name, path in paths.items()}


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_PLACE = msgspec.msgpack.Decoder(Place)
_READ_TARGET = msgspec.msgpack.Decoder(_Target)
_READ_ADDS = msgspec.msgpack.Decoder(list[Add])
