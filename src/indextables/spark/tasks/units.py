"""Gives each task of a DataFrame its own unit of work, however many units there are.

A function that goes to tasks goes whole to every one of them. So units that are more than a little travel as rows
instead: they are broadcast, once to each executor, and a task gets the one row whose number it has. The driver holds
these rows more than once, each executor holds all of them: they are compressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Work", "for_each", "packed", "task_of", "unpacked"]

Work: TypeAlias = Callable[[int, bytes], Iterator[pa.RecordBatch]]
"""What a task does with the number and the bytes of a unit; a function of a module, or a `partial` of one."""

_Task: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_CARRIED_BYTES = 64 << 10
"""Units of so many bytes together go with the function: a broadcast is a job more."""

_AT_ONCE = 256

_PLACE, _UNIT = "place", "unit"

_LENGTH = 8
"""Bytes before a unit in a row that tell its length."""


def for_each(spark: SparkSession, work: Work, units: Iterable[bytes], schema: StructType | str) -> DataFrame:
    """What `work` makes of each unit, a task for each, when it is asked for."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    task, count, rows = task_of(work, units)
    if not count:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, count, 1, count)
    if rows is not None:
        told = F.broadcast(spark.createDataFrame(rows))
        numbers = numbers.join(told, numbers["id"] == told[_PLACE]).select("id", _UNIT)
    return numbers.mapInArrow(task, schema)


def task_of(work: Work, units: Iterable[bytes]) -> tuple[_Task, int, pa.Table | None]:
    """What every task is sent, how many there are, and the rows that each gets its unit from, if not from the former.

    Rows hold units as `packed`. Units are taken some at a time: there is never a Python object for each of many. Pure.
    """
    left = iter(units)
    few: list[bytes] = []
    size = 0
    for unit in left:
        few.append(unit)
        size += len(unit)
        if size > _CARRIED_BYTES:
            break
    else:
        return _Carried(work, few), len(few), None
    chunks = [pa.array(map(packed, few), pa.binary())]
    while some := [packed(unit) for unit in islice(left, _AT_ONCE)]:
        chunks.append(pa.array(some, pa.binary()))
    told = pa.chunked_array(chunks)
    return _Given(work), len(told), pa.table({_PLACE: pa.array(np.arange(len(told))), _UNIT: told})


def packed(unit: bytes) -> bytes:
    """A unit as it travels in a row: its length, then its bytes compressed."""
    compressed: bytes = pa.compress(unit, codec="zstd", asbytes=True)
    return len(unit).to_bytes(_LENGTH, "little") + compressed


def unpacked(row: bytes) -> bytes:
    """The unit of `packed`."""
    size = int.from_bytes(row[:_LENGTH], "little")
    unit: bytes = pa.decompress(memoryview(row)[_LENGTH:], decompressed_size=size, codec="zstd", asbytes=True)
    return unit


class _Carried:
    """A task that has all units and is told numbers."""

    def __init__(self, work: Work, units: list[bytes]) -> None:
        self._work = work
        self._units = units

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._work(number, self._units[number])


class _Given:
    """A task that is told numbers and units."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, unit in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield from self._work(number, unpacked(unit))
