"""Makes frames whose rows have their address behind their columns, and brings addresses to the driver as bitmaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from indextables.env import Env
from indextables.log.read import Snapshot
from indextables.log.wire import Metadata, key_of, schema_from_json, tracks_rows
from indextables.spark.change.door import Door
from indextables.spark.scan import FILE, ROW, addressed_scan
from indextables.spark.session import spark_schema
from indextables.spark.tasks import Place, for_each, grouped
from indextables.split.file import ROW_ID, SplitRef, dv
from indextables.table.environment import open_env
from indextables.table.read import refs_of, scan_split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["CLAUSE", "Addressed", "Gathered", "addressed", "chosen_rows", "empty", "gathered"]

CLAUSE = "_it_clause"
"""The number of the clause that takes a row."""

_MOST_PLAIN = 4_000_000
"""Rows that may come as addresses; more come as bitmaps that Spark makes, which takes a stage more."""

_BUCKET_BITS = 32_768
"""Bits of a bitmap that Spark makes: positions from 0, in buckets from 1."""


class Addressed(msgspec.Struct, frozen=True):
    """Rows with `FILE`, `ROW`, and `ROW_ID` where rows have ids; `paths` tells which path of the log a file is."""

    frame: DataFrame
    paths: dict[str, str]
    rows: int


class Gathered:
    """Rows by path; `count` is how many addresses they were, so that one that came twice is noticed."""

    def __init__(self) -> None:
        self.rows: dict[str, BitMap] = {}
        self.count = 0

    def __len__(self) -> int:
        """How many rows."""
        return sum(map(len, self.rows.values()))

    def take(self, path: str, rows: BitMap, count: int) -> None:
        """More rows of a path."""
        self.rows[path] = self.rows[path] | rows if path in self.rows else rows
        self.count += count


class _Splits(msgspec.Struct, frozen=True):
    """What a task reads, where Spark cannot."""

    metadata: Metadata
    version: int
    names: list[str]
    refs: list[tuple[str, SplitRef]]
    ids: bool


def addressed(door: Door, env: Env, snapshot: Snapshot, files: pa.Table) -> Addressed:
    """The rows of these files that are alive."""
    return _read(door, env, snapshot, files, refs_of(env, files, snapshot.schema))


def chosen_rows(door: Door, env: Env, snapshot: Snapshot, rows: Mapping[str, BitMap]) -> Addressed:
    """The rows of these numbers, which are alive: all others are hidden as if they were deleted."""
    files = snapshot.files.filter(pc.is_in(snapshot.files["path"], value_set=pa.array(list(rows), pa.string())))
    refs = []
    for path, ref in zip(files["path"].to_pylist(), refs_of(env, files, snapshot.schema), strict=True):
        hidden = rows[path].flip(0, ref.num_rows or 0)
        refs.append(msgspec.structs.replace(ref, vector=dv.encode(hidden) if hidden else None))
    return _read(door, env, snapshot, files, refs)


def empty(door: Door, snapshot: Snapshot) -> DataFrame:
    """A frame like `addressed` without rows, to find out what a text means."""
    from pyspark.sql.types import LongType, StringType

    schema = _columns(snapshot).add(FILE, StringType()).add(ROW, LongType())
    return _called(door, door.spark.createDataFrame([], schema))


def _read(door: Door, env: Env, snapshot: Snapshot, files: pa.Table, refs: list[SplitRef]) -> Addressed:
    schema = _columns(snapshot)
    paths = {_name(ref.key): path for ref, path in zip(refs, files["path"].to_pylist(), strict=True)}
    frame = addressed_scan(door.spark, env, snapshot, refs, schema.fields[len(snapshot.schema) :])
    if frame is None:
        keys = {key_of(path, env.store.url): path for path in files["path"].to_pylist()}
        bases = files["baseRowId"].to_pylist()
        given = [msgspec.structs.replace(ref, base_row_id=base) for ref, base in zip(refs, bases, strict=True)]
        frame = _by_python_reader(door, env, snapshot, given, schema)
        paths = keys
    return Addressed(_called(door, frame), paths, pc.sum(files["numRecords"]).as_py() or 0)


def _columns(snapshot: Snapshot) -> StructType:
    from pyspark.sql.types import LongType

    schema = spark_schema(snapshot.metadata.schemaString)
    return schema.add(ROW_ID, LongType()) if tracks_rows(snapshot.protocol) else schema


def _called(door: Door, frame: DataFrame) -> DataFrame:
    return frame if door.alias is None else frame.alias(door.alias)


def _by_python_reader(door: Door, env: Env, snapshot: Snapshot, refs: list[SplitRef], schema: StructType) -> DataFrame:
    """The same rows where Spark cannot read the files; a row's file is then its key."""
    from pyspark.sql.types import LongType, StringType

    wanted = type(schema)([*schema.fields]).add(FILE, StringType()).add(ROW, LongType())
    names = [name for name in schema.names if name != ROW_ID]
    common = _Splits(snapshot.metadata, snapshot.version, names, [], tracks_rows(snapshot.protocol))
    parts = [msgspec.structs.replace(common, refs=[(ref.key, ref) for ref in group]) for group in grouped(refs)]
    if not env.store.outlives_process:
        arrow = _arrow_of(wanted)
        batches = [batch for part in parts for batch in _batches(env, part, arrow)]
        return door.spark.createDataFrame(pa.Table.from_batches(batches, arrow), wanted)
    work = partial(read_part, msgspec.msgpack.encode(door.place), wanted.json())
    return for_each(door.spark, work, map(msgspec.msgpack.encode, parts), wanted)


def read_part(packed: bytes, schema: str, _: int, part: bytes) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of some splits with their addresses."""
    from pyspark.sql.types import StructType

    place = _READ_PLACE.decode(packed)
    env = open_env(place.url, place.options, session=place.session)
    wanted = _arrow_of(StructType.fromJson(msgspec.json.decode(schema)))
    yield from _batches(env, _READ_SPLITS.decode(part), wanted)


def _batches(env: Env, part: _Splits, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    schema = schema_from_json(part.metadata.schemaString)
    for key, ref in part.refs:
        for batch in scan_split(env, schema, ref, part.names, None, part.version, row_numbers=ROW, row_ids=part.ids):
            table = pa.Table.from_batches([batch]).append_column(FILE, pa.repeat(key, batch.num_rows))
            columns = [table[field.name].combine_chunks().cast(field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def gathered(found: DataFrame, where: Addressed) -> dict[int, Gathered]:
    """For each number in `CLAUSE` the rows that have it. Runs the frame, which has `FILE`, `ROW` and `CLAUSE`."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    if where.rows <= _MOST_PLAIN:
        return _grouped(found.select(FILE, ROW, CLAUSE).toArrow(), where.paths)
    position = F.col(ROW) + 1
    told = found.select(
        FILE, CLAUSE, F.bitmap_bucket_number(position).alias("bucket"), F.bitmap_bit_position(position).alias("bit")
    )
    made = told.groupBy(FILE, CLAUSE, "bucket").agg(F.bitmap_construct_agg("bit"), F.count("bit")).toArrow()
    result: dict[int, Gathered] = {}
    for file, clause, bucket, bits, count in zip(*(column.to_pylist() for column in made.columns), strict=True):
        numbers = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))
        rows = BitMap((numbers + (bucket - 1) * _BUCKET_BITS).astype(np.uint32))
        result.setdefault(clause, Gathered()).take(where.paths[file], rows, count)
    return result


def _grouped(table: pa.Table, paths: Mapping[str, str]) -> dict[int, Gathered]:
    result: dict[int, Gathered] = {}
    if not table.num_rows:
        return result
    files = table[FILE].combine_chunks().dictionary_encode()
    names = files.dictionary.to_pylist()
    numbers = np.asarray(files.indices.to_numpy(zero_copy_only=False), np.int64)
    clauses = np.asarray(table[CLAUSE].to_numpy(), np.int64)
    rows = np.asarray(table[ROW].to_numpy(), np.int64)
    order = np.lexsort((numbers, clauses))
    numbers, clauses, rows = numbers[order], clauses[order], rows[order]
    starts = np.flatnonzero(np.concatenate([[True], (numbers[1:] != numbers[:-1]) | (clauses[1:] != clauses[:-1])]))
    for start, part in zip(starts.tolist(), np.split(rows, starts[1:]), strict=True):
        one = result.setdefault(int(clauses[start]), Gathered())
        one.take(paths[names[numbers[start]]], BitMap(part.astype(np.uint32)), len(part))
    return result


def _arrow_of(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _name(key: str) -> str:
    return key.rpartition("/")[2]


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_PLACE = msgspec.msgpack.Decoder(Place)
_READ_SPLITS = msgspec.msgpack.Decoder(_Splits)
