"""Merges many splits into one: rows in source order, vectors applied, the index built anew, content checked.

A source that cannot be read is named and left out; it stays where it is. What is written is read back and compared
with what was read, row by row (by digest), before the result is handed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.ambient import Ambient
from indextables.errors import DvCorrupt, InvalidArgument, InvariantViolated, ObjectNotFound, SplitCorrupt
from indextables.split.file import SplitReader, SplitRef, place_of_ids, scan, visible, with_ids
from indextables.split.index import IndexPlan, column_id, is_nested_list
from indextables.split.write.writer import SplitWriter, WrittenSplit
from indextables.storage.store import Store

__all__ = ["Arrangement", "Broken", "Merged", "RowDigest", "merge_splits", "overridden", "project"]

_SORTED_PIECE = 65_536


class Broken(msgspec.Struct, frozen=True):
    """A source that could not be merged, and why."""

    key: str
    reason: str


class Merged(msgspec.Struct, frozen=True):
    """What a merge made of its sources.

    `written` holds the rows of `merged`, in that order: one split, or more where memory did not allow one. `rows` is
    their number; `deleted` rows were dropped for good. `live` tells how many rows each of `merged` gave.
    """

    written: list[WrittenSplit]
    merged: list[str]
    broken: list[Broken]
    rows: int
    deleted: int
    live: list[int] = []


class Arrangement(Protocol):
    """Which rows of the sources are written, and in which order: for merges that sort."""

    def wanted(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """True for the rows to write; None for all of them."""
        ...

    def order(self, rows: pa.Table) -> pa.Array:
        """The row numbers of `rows`, all that were wanted, in the order in which they are written."""
        ...


def merge_splits(
    store: Store,
    sources: Sequence[SplitRef],
    options: opt.Options,
    *,
    schema: pa.Schema | None = None,
    plan: IndexPlan | None = None,
    prefix: str = "",
    partition_columns: Collection[str] = (),
    ambient: Ambient | None = None,
    arrange: Arrangement | None = None,
    stop_at_broken: bool = False,
) -> Merged:
    """Merge `sources` in their order into new objects; the sources are not touched.

    `schema` is the table's (by default that of the first source that can be read): columns that a source lacks are
    null, columns that it lost are dropped. Rows keep their ids, where a source has any. With `arrange`, the rows it
    wants are held in memory and written sorted; then `deleted` counts them by the vectors of the sources, not by what
    was left out. `stop_at_broken` merges nothing if a source cannot be read, and names it.

    Raises InvariantViolated if what was written is not what was read, and whatever the writer and the store raise;
    then nothing is left behind.
    """
    broken: list[Broken] = []
    good = list(sources)
    while True:
        work = _Merge(store, good, options, schema, plan, prefix, partition_columns, ambient, arrange)
        try:
            return work.run(broken)
        except _SourceBroken as failed:
            # Rows of it may already be in the output, which the writer has thrown away: begin again without it.
            broken.append(Broken(failed.key, failed.reason))
            good = [ref for ref in good if ref.key != failed.key]
            if stop_at_broken:
                return Merged([], [], broken, 0, 0)


def project(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the columns of `schema`, found by id, else by name in any case; missing ones are null.

    Raises InvalidArgument where a value does not fit the type.
    """
    by_id = {column_id(f): i for i, f in enumerate(batch.schema)}
    by_name = {f.name.lower(): i for i, f in enumerate(batch.schema)}
    columns = []
    for field in schema:
        place = by_id.get(column_id(field), by_name.get(field.name.lower()))
        if place is None:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        try:
            columns.append(batch.column(place).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            message = f"column {field.name} of type {batch.column(place).type} does not become {field.type}: {error}"
            raise InvalidArgument(message, column=field.name) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def overridden(options: opt.Options, option: opt.Option[int], value: int) -> opt.Options:
    """The options with one of them set to another value."""
    return opt.Options({**options, option.key.lower(): value}, environ={})


class _SourceBroken(Exception):
    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason


class _Merge(msgspec.Struct):
    """One attempt."""

    store: Store
    sources: Sequence[SplitRef]
    options: opt.Options
    schema: pa.Schema | None
    plan: IndexPlan | None
    prefix: str
    partition_columns: Collection[str]
    ambient: Ambient | None
    arrange: Arrangement | None

    def run(self, broken: list[Broken]) -> Merged:
        """Raises _SourceBroken, then nothing is left behind."""
        readers = [SplitReader(self.store, ref) for ref in self.sources]
        target = self.schema
        for reader in readers:
            found = _opened(reader)
            target = target if target is not None else found
        if target is None or not readers:
            return Merged([], [], broken, 0, 0)
        brings_ids = any(reader.ref.base_row_id is not None or _has_ids(reader) for reader in readers)
        target = with_ids(target) if brings_ids else visible(target)
        before = RowDigest()
        live = [0] * len(readers)
        whole = overridden(self.options, opt.SPLIT_TARGET_SIZE, 1 << 59)
        writer = SplitWriter(
            self.store,
            target,
            whole,
            plan=self.plan,
            prefix=self.prefix,
            partition_columns=self.partition_columns,
            ambient=self.ambient,
        )
        with writer:
            for batch in self._rows(readers, target, live):
                before.update(batch)
                writer.write(batch)
            written = writer.finish(verify=lambda splits: _verify(self.store, splits, target.names, before))
        total = sum(reader.num_rows for reader in readers)
        return Merged(
            written=written,
            merged=[reader.key for reader in readers],
            broken=broken,
            rows=before.rows,
            deleted=total - sum(live),
            live=live,
        )

    def _rows(self, readers: Sequence[SplitReader], schema: pa.Schema, live: list[int]) -> Iterator[pa.RecordBatch]:
        if self.arrange is None:
            yield from _in_turn(readers, schema, live)
            return
        kept = []
        for batch in _in_turn(readers, schema, live):
            mask = self.arrange.wanted(batch)
            chosen = batch if mask is None else batch.filter(mask)
            if chosen.num_rows:
                kept.append(chosen)
        rows = pa.Table.from_batches(kept, schema)
        order = self.arrange.order(rows)
        # One chunk per column, or every piece would join all chunks again; wide offsets, or it could not be one.
        rows = rows.cast(_wide(schema)).combine_chunks()
        for start in range(0, len(order), _SORTED_PIECE):
            piece = rows.take(order[start : start + _SORTED_PIECE])
            yield from piece.cast(schema).combine_chunks().to_batches()


def _wide(schema: pa.Schema) -> pa.Schema:
    """The schema with 64-bit offsets for texts and binaries."""
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return pa.schema([field.with_type(wide.get(field.type, field.type)) for field in schema])


def _opened(reader: SplitReader) -> pa.Schema:
    try:
        return reader.all_columns
    except (SplitCorrupt, ObjectNotFound) as error:
        raise _SourceBroken(reader.key, str(error)) from error


def _in_turn(readers: Sequence[SplitReader], schema: pa.Schema, live: list[int]) -> Iterator[pa.RecordBatch]:
    for place, reader in enumerate(readers):
        try:
            for batch in scan(reader, row_ids=place_of_ids(schema) is not None):
                live[place] += batch.num_rows
                yield project(batch, schema)
        except (SplitCorrupt, DvCorrupt, ObjectNotFound, InvalidArgument) as error:
            # The last of them is a value that the column's type cannot hold: bytes of another table.
            raise _SourceBroken(reader.key, str(error)) from error


def _has_ids(reader: SplitReader) -> bool:
    return place_of_ids(reader.all_columns) is not None


def _verify(store: Store, written: Sequence[WrittenSplit], columns: Sequence[str], before: RowDigest) -> None:
    after = RowDigest()
    for split in written:
        for batch in scan(SplitReader(store, split.ref), columns):
            after.update(batch)
    if after.value() != before.value():
        message = f"a merge read {before.rows} rows and wrote {after.rows}, or others: it is undone; please report this"
        raise InvariantViolated(message, rows_in=before.rows, rows_out=after.rows)


class RowDigest:
    """Running digests of every leaf: validity, lengths and bytes. Equal digests, equal rows, bit for bit.

    NaN with the same bits is equal to itself, 0.0 and -0.0 differ. Bytes under nulls do not count.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._streams: dict[str, hashlib.blake2b] = {}

    def update(self, batch: pa.RecordBatch) -> None:
        """Take account of the rows of a batch."""
        self.rows += batch.num_rows
        for place, column in enumerate(batch.columns):
            self._add(str(place), column)

    def value(self) -> tuple[int, bytes]:
        """The number of rows, and a digest of all of them."""
        total = hashlib.blake2b(digest_size=16)
        for name in sorted(self._streams):
            total.update(name.encode() + b"\0" + self._streams[name].digest())
        return self.rows, total.digest()

    def _add(self, path: str, values: pa.Array) -> None:
        kind = values.type
        if pa.types.is_null(kind):
            return
        self._stream(f"{path}.valid", np.asarray(values.is_valid().to_numpy(zero_copy_only=False)))
        if pa.types.is_struct(kind):
            for number, child in enumerate(values.flatten()):
                self._add(f"{path}.{number}", child)
        elif pa.types.is_map(kind) or is_nested_list(kind):
            self._add_list(path, values)
        else:
            self._add_leaf(path, values.drop_null())

    def _add_list(self, path: str, values: pa.Array) -> None:
        kept = values.drop_null()
        if pa.types.is_map(kept.type):
            offsets = kept.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
            self._stream(f"{path}.length", np.diff(offsets))
            window = slice(int(offsets[0]), int(offsets[-1])) if len(kept) else slice(0, 0)
            self._add(f"{path}.key", kept.keys[window])
            self._add(f"{path}.value", kept.items[window])
        else:
            lengths = pc.list_value_length(kept).cast(pa.int64())
            self._stream(f"{path}.length", lengths.to_numpy(zero_copy_only=False))
            self._add(f"{path}.item", kept.flatten())

    def _add_leaf(self, path: str, values: pa.Array) -> None:
        kind = values.type
        if pa.types.is_boolean(kind):
            self._stream(f"{path}.data", np.asarray(values.to_numpy(zero_copy_only=False)))
        elif pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
            width = kind.byte_width
            data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
            self._stream(f"{path}.data", data[values.offset * width : (values.offset + len(values)) * width])
        else:
            wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
            lengths = pc.binary_length(values).cast(pa.int64())
            self._stream(f"{path}.length", lengths.to_numpy(zero_copy_only=False))
            offsets = np.frombuffer(values.buffers()[1] or bytes(8), np.int64 if wide else np.int32)
            start, end = (
                (int(offsets[values.offset]), int(offsets[values.offset + len(values)])) if len(values) else (0, 0)
            )
            self._stream(f"{path}.data", np.frombuffer(values.buffers()[2] or b"", np.uint8)[start:end])

    def _stream(self, name: str, data: npt.NDArray[Any]) -> None:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = hashlib.blake2b(digest_size=16)
        stream.update(np.ascontiguousarray(data).view(np.uint8).data)
