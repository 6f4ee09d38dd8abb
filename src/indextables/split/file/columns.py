"""`Columns` is how the columns of a table stand in its files: under which name, and with what value where they do not.

A `SplitRef` carries it, and `SplitReader` applies it: whoever reads a split sees the columns of the table, by the names
that the table has for them. A column of the file that is none of the table's is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import pyarrow as pa

from indextables.query.stored import OF_ONE_TABLE, exists_default, has_stored_name, stored_name
from indextables.split.file.groups import without_columns
from indextables.split.file.row_ids import place_of_ids

__all__ = ["Columns", "View", "stored_schema"]


class _Column(msgspec.Struct, frozen=True, array_like=True):
    """A column: its name, its name in files, and the value of rows in files without it (a batch in Arrow's IPC)."""

    name: str
    stored: str
    default: bytes | None = None


class View(NamedTuple):
    """The columns of one file as the table has them; `places` says where each is in the file, None for a constant."""

    schema: pa.Schema
    places: list[int | None]
    constants: dict[int, pa.Scalar]

    def stored(self, wanted: Sequence[int]) -> list[int]:
        """The places in the file of those that are there, each once."""
        return list(dict.fromkeys(place for one in wanted if (place := self.places[one]) is not None))

    def of_table(self, read: pa.Table, wanted: Sequence[int]) -> pa.Table:
        """The columns wanted, from a table with the columns `stored(wanted)`."""
        if not len(wanted):
            return without_columns(read.num_rows)
        return pa.Table.from_arrays(self._arrays(read, wanted), schema=self._schema(wanted))

    def of_batch(self, read: pa.RecordBatch, wanted: Sequence[int]) -> pa.RecordBatch:
        """The same of a batch, of one column at least."""
        return pa.RecordBatch.from_arrays(self._arrays(read, wanted), schema=self._schema(wanted))

    def _arrays(self, read: pa.Table | pa.RecordBatch, wanted: Sequence[int]) -> list[pa.Array | pa.ChunkedArray]:
        there = {place: number for number, place in enumerate(self.stored(wanted))}
        return [
            pa.repeat(self.constants[one], read.num_rows)
            if (place := self.places[one]) is None
            else read.column(there[place])
            for one in wanted
        ]

    def _schema(self, wanted: Sequence[int]) -> pa.Schema:
        return pa.schema([self.schema.field(one) for one in wanted])


class Columns(msgspec.Struct, frozen=True):
    """How the columns of one version of a table stand in its files. Hashable, and it can travel."""

    columns: tuple[_Column, ...]

    @staticmethod
    def of(schema: pa.Schema) -> Columns | None:
        """That of a table with this schema; None where every file has them as the table does."""
        defaults = {field.name: value for field in schema if (value := exists_default(field)) is not None}
        if not defaults and not any(map(has_stored_name, schema)):
            return None
        packed = {name: _packed(value) for name, value in defaults.items()}
        return Columns(tuple(_Column(f.name, stored_name(f), packed.get(f.name)) for f in schema))

    def name(self, stored: str) -> str | None:
        """What the table calls a column of its files; None if it is none of the table's."""
        wanted = stored.lower()
        return next((one.name for one in self.columns if one.stored.lower() == wanted), None)

    def stored(self, name: str) -> str:
        """What files call a column of the table."""
        wanted = name.lower()
        return next((one.stored for one in self.columns if one.name.lower() == wanted), name)

    def view(self, file: pa.Schema) -> View:
        """The columns of a file with this schema as the table has them; the ids of rows stay the last."""
        named = {one.stored.lower(): one for one in self.columns}
        ids = place_of_ids(file)
        fields: list[pa.Field] = []
        places: list[int | None] = []
        for place, field in enumerate(file):
            if place != ids and (one := named.pop(field.name.lower(), None)) is not None:
                fields.append(field.with_name(one.name))
                places.append(place)
        constants: dict[int, pa.Scalar] = {}
        for one in named.values():
            if one.default is not None:
                value = _unpacked(one.default)
                constants[len(fields)] = value
                fields.append(pa.field(one.name, value.type))
                places.append(None)
        if ids is not None:
            fields.append(file.field(ids))
            places.append(ids)
        return View(pa.schema(fields), places, constants)


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of the files of a table with this schema: stored names, and no metadata about them."""
    return pa.schema([_as_stored(field) for field in schema])


def _as_stored(field: pa.Field) -> pa.Field:
    told = field.metadata or {}
    if not OF_ONE_TABLE & told.keys():
        return field
    kept = {key: value for key, value in told.items() if key not in OF_ONE_TABLE}
    return field.with_name(stored_name(field)).with_metadata(kept or None)


def _packed(value: pa.Scalar) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array([value.as_py()], value.type)], names=["value"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


@lru_cache(maxsize=256)
def _unpacked(packed: bytes) -> pa.Scalar:
    return pa.ipc.open_stream(packed).read_all().column(0)[0]
