"""Reads the rows of one Parquet file of another system as rows of the table that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from indextables.errors import SplitCorrupt
from indextables.foreign.calendar import check_calendar, is_old_calendar
from indextables.foreign.columns import Match, absent, fit_column, place_of, plain_field
from indextables.foreign.vectors import Vector, load_vector
from indextables.log.wire import bool_array
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.split.file import SplitReader, SplitRef, dv, without_columns
from indextables.storage.store import Store

__all__ = ["ForeignFile", "footer_of", "live_rows_of", "read_rows_of"]

_BATCH_ROWS = 131_072


class ForeignFile(NamedTuple):
    """A data file of a version: where it is, and what the log knows of it that the file does not hold."""

    key: str
    size: int
    rows: int | None
    partition: Mapping[str, pa.Scalar]
    """The values of partition columns, by the table's names."""
    vector: Vector | None = None
    alive: Callable[[int], Any] | None = None
    """Tells of a file with so many rows which are not deleted, as an array of bool: where no vector does."""


def read_rows_of(
    store: Store, file: ForeignFile, schema: pa.Schema, match: Match, names: Sequence[str], where: Node | None
) -> Iterator[pa.RecordBatch]:
    """The rows that are not deleted and for which `where` is true, in the columns `names`.

    `schema` is the table's, with what the log says of each field. Raises SplitCorrupt, DvCorrupt, PathEscape,
    ObjectNotFound, StoreError.
    """
    reader = SplitReader(store, SplitRef(file.key, file.size, file.rows))
    wanted = list(dict.fromkeys([*names, *(columns_of(where) if where is not None else ())]))
    output = pa.schema([plain_field(schema.field(name)) for name in names])
    alive = _alive(store, file, reader.num_rows)
    start = 0
    for batch in _whole_batches(reader, file, schema, match, wanted):
        mask = None if alive is None else alive[start : start + batch.num_rows]
        start += batch.num_rows
        kept = batch if mask is None or mask.all() else batch.filter(bool_array(mask))
        if where is not None and kept.num_rows:
            kept = kept.filter(evaluate(where, kept))
        if kept.num_rows:
            yield _selected(kept, output)


def _whole_batches(
    reader: SplitReader, file: ForeignFile, schema: pa.Schema, match: Match, wanted: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """All rows of the file, deleted ones too, in the columns that are wanted."""
    there = list(reader.footer.schema)
    stored = [schema.field(name) for name in wanted if name not in file.partition]
    places = {field.name: place_of(field, there, match, file.key) for field in stored}
    found = [place for place in places.values() if place is not None]
    _check_names(there, found, file.key)
    fields = [schema.field(name) for name in wanted]
    plain = pa.schema([plain_field(field) for field in fields])
    is_old = is_old_calendar(reader.footer.metadata.metadata)
    for columns, rows in _stored(reader, found):
        arrays = []
        for field in fields:
            if field.name in file.partition:
                arrays.append(_repeated(file.partition[field.name], rows))
                continue
            place = places[field.name]
            if is_old and place is not None:
                check_calendar(columns[place], field.name, file.key)
            if place is None:
                arrays.append(_missing(field, rows, file.key))
            else:
                arrays.append(fit_column(columns[place], there[place], field, match, file.key))
        yield pa.RecordBatch.from_arrays(arrays, schema=plain) if arrays else _lengths(rows)


def _stored(reader: SplitReader, places: Sequence[int]) -> Iterator[tuple[dict[int, pa.Array], int]]:
    """What the file holds of these columns, by their places in it, and the number of rows, some rows at a time."""
    meta = reader.footer.metadata
    if not places:
        for start in range(0, reader.num_rows, _BATCH_ROWS):
            yield {}, min(_BATCH_ROWS, reader.num_rows - start)
        return
    for group in range(meta.num_row_groups):
        if not meta.row_group(group).num_rows:
            continue
        for batch in reader.read_pieces(group, places):
            yield dict(zip(places, batch.columns, strict=True)), batch.num_rows


def _check_names(there: list[pa.Field], places: Sequence[int], path: str) -> None:
    """Raises SplitCorrupt where a name means two columns of the file: it cannot be told which is read."""
    names = [field.name for field in there]
    twice = next((names[place] for place in places if names.count(names[place]) > 1), None)
    if twice is not None:
        raise SplitCorrupt(f"{path} has two columns {twice!r}", path=path, part="rows", reason="a name stands twice")


def _repeated(value: pa.Scalar, rows: int) -> pa.Array:
    return pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, value.type)


def _missing(field: pa.Field, rows: int, path: str) -> pa.Array:
    values = absent(field, rows)
    if values is None:
        reason = f"it has no column {field.name}, which the table says is never null"
        raise SplitCorrupt(f"{path}: {reason}", path=path, part="rows", reason=reason)
    return values


def _lengths(rows: int) -> pa.RecordBatch:
    return without_columns(rows).to_batches()[0] if rows else pa.RecordBatch.from_arrays([], names=[])


def _selected(batch: pa.RecordBatch, output: pa.Schema) -> pa.RecordBatch:
    if not len(output):
        return _lengths(batch.num_rows)
    return pa.RecordBatch.from_arrays([batch.column(name) for name in output.names], schema=output)


def footer_of(store: Store, key: str, size: int) -> tuple[int, pa.Schema]:
    """The number of rows and the columns of a Parquet file. Raises SplitCorrupt, ObjectNotFound, StoreError."""
    reader = SplitReader(store, SplitRef(key, size))
    return reader.num_rows, reader.footer.schema


def live_rows_of(store: Store, file: ForeignFile) -> int:
    """The rows of a file that no vector deletes, by its footer."""
    reader = SplitReader(store, SplitRef(file.key, file.size, file.rows))
    alive = _alive(store, file, reader.num_rows)
    return reader.num_rows if alive is None else int(np.count_nonzero(alive))


def _alive(store: Store, file: ForeignFile, rows: int) -> Any:
    """Which rows of a file are not deleted; None if none is."""
    if file.alive is not None:
        return file.alive(rows)
    if file.vector is None:
        return None
    return dv.alive_mask(load_vector(store, file.vector, file.key, rows), rows, file.key)
