"""Reads adds and removes of one block of lines natively into columns, and checks for what the reader forgives."""

from __future__ import annotations

import io
from functools import cached_property
from typing import NoReturn

import numpy as np
import pyarrow as pa

from indextables.log.wire.arrays import Bools, Ints, bool_array, map_entries, validity
from indextables.log.wire.files import ADD_FIELDS, ADD_TYPE, REMOVE_FIELDS, REMOVE_TYPE, VECTOR_FIELDS
from indextables.log.wire.lines import (
    CHECKED_LINES,
    check_line,
    check_quotable,
    corrupt,
    count_keys,
    count_nulls,
    small_action,
)

__all__ = [
    "ADD",
    "ADD_REQUIRED",
    "FEW_LINES",
    "OTHER",
    "REMOVE",
    "REMOVE_REQUIRED",
    "VECTOR_REQUIRED",
    "Block",
    "Rows",
    "repeated_key",
]

# What a line is.
OTHER, ADD, REMOVE = 0, 1, 2

# Below this many lines each is checked by itself, which is cheaper than counting.
FEW_LINES = 32

ADD_REQUIRED, REMOVE_REQUIRED, VECTOR_REQUIRED = (
    tuple(field.name for field in fields if field.is_required) for fields in (ADD_FIELDS, REMOVE_FIELDS, VECTOR_FIELDS)
)

# The rows of one kind and the lines they stand in.
Rows = tuple[pa.StructArray, Ints]


class Block:
    """Whole lines of a version file whose form is checked.

    `places` are the lines that are not blank, counted from 0 in this block; `kinds` says what each of them is.
    `is_checked` says that each line was checked by itself, keys included.
    """

    def __init__(
        self, data: bytes, version: int, first_line: int, kinds: Ints, places: Ints, *, is_checked: bool
    ) -> None:
        self.data = data
        self.version = version
        self.first_line = first_line
        self.kinds = kinds
        self.places = places
        self.is_checked = is_checked

    @cached_property
    def spans(self) -> tuple[Ints, Ints]:
        """Where each line that is not blank starts and ends."""
        ends = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == 10)
        starts = np.concatenate([[0], ends[:-1] + 1])
        return starts[self.places], ends[self.places]

    def text(self, index: int) -> bytes:
        """The line, without its newline."""
        starts, ends = self.spans
        return self.data[starts[index] : ends[index]]

    def number(self, index: int) -> int:
        """The line's number in the file, from 1."""
        return self.first_line + int(self.places[index])

    def read_rows(self) -> dict[int, Rows]:
        """Adds and removes, by kind. Raises LogCorrupt, LimitExceeded."""
        wanted = [(code, name, kind) for code, name, kind in _KINDS if (self.kinds == code).any()]
        if not wanted:
            return {}
        batch = self._read_native(pa.schema([(name, kind) for _, name, kind in wanted]))
        found: dict[int, Rows] = {}
        for code, name, _ in wanted:
            chosen = self.kinds == code
            struct, lines = _chosen(batch.column(name), chosen), self.first_line + self.places[chosen]
            self._check_required(code, struct, lines)
            found[code] = (struct, lines)
        if not self.is_checked:
            self._check_keys([struct for struct, _ in found.values()])
            for struct, lines in found.values():
                self._check_maps(struct, lines)
        return found

    def _read_native(self, schema: pa.Schema) -> pa.RecordBatch:
        import arro3.io

        try:
            check_quotable(self.data, schema)
            reader = arro3.io.read_json(io.BytesIO(self.data), schema, batch_size=len(self.kinds) + 1)
            table = pa.RecordBatchReader.from_stream(reader).read_all()
        except (pa.ArrowException, ValueError, OSError) as error:
            self._bisect(schema, error)
        if table.num_rows != len(self.kinds):
            raise corrupt(self.version, None, "lines and JSON objects do not correspond")
        return table.combine_chunks().to_batches()[0]

    def _bisect(self, schema: pa.Schema, error: Exception) -> NoReturn:
        """Raise LogCorrupt for the first line that the native reader refuses."""
        import arro3.io

        lines = self.data.split(b"\n")
        low, high = 0, len(lines)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                part = b"\n".join(lines[low:middle]) + b"\n"
                check_quotable(part, schema)
                pa.RecordBatchReader.from_stream(arro3.io.read_json(io.BytesIO(part), schema)).read_all()
                low = middle
            except (pa.ArrowException, ValueError, OSError) as narrower:
                high, error = middle, narrower
        reason = str(error).rsplit("Json error: ", maxsplit=1)[-1]
        raise corrupt(self.version, self.first_line + low, reason) from None

    def _check_required(self, code: int, struct: pa.StructArray, lines: Ints) -> None:
        name, required = ("add", ADD_REQUIRED) if code == ADD else ("remove", REMOVE_REQUIRED)
        for field in required:
            column = struct.field(field)
            if column.null_count:
                line = lines[np.flatnonzero(~validity(column))[0]]
                raise corrupt(self.version, int(line), f"{name} has no {field}")
        vectors = struct.field("deletionVector")
        if vectors.null_count == len(vectors):
            return
        there = validity(vectors)
        for field in VECTOR_REQUIRED:
            missing = there & ~validity(vectors.field(field))
            if missing.any():
                line = lines[np.flatnonzero(missing)[0]]
                raise corrupt(self.version, int(line), f"the deletionVector of {name} has no {field}")

    def _check_keys(self, structs: list[pa.StructArray]) -> None:
        """Look at every line where there are other keys than were decoded: some stand twice, or nobody knows them."""
        others = [self.text(i) for i in np.flatnonzero(self.kinds == OTHER).tolist()]
        surplus = count_keys(self.data) - sum(map(count_keys, others)) - sum(map(_decoded_keys, structs))
        if surplus == 0:
            return
        nulls = count_nulls(self.data) - sum(map(count_nulls, others)) - sum(map(_null_items, structs))
        if surplus == nulls:
            return
        for i in np.flatnonzero(self.kinds).tolist():
            text = self.text(i)
            check_line(text, self.version, self.number(i))
            small_action(CHECKED_LINES.decode(text), self.version, self.number(i))

    def _check_maps(self, struct: pa.StructArray, lines: Ints) -> None:
        for field in struct.type:
            if pa.types.is_map(field.type):
                row = repeated_key(struct.field(field.name))
                if row is not None:
                    raise corrupt(self.version, int(lines[row]), f"a key of {field.name} stands twice")


_KINDS = ((ADD, "add", ADD_TYPE), (REMOVE, "remove", REMOVE_TYPE))


def _chosen(column: pa.StructArray, chosen: Bools) -> pa.StructArray:
    """The chosen rows, without a copy where they are neighbours."""
    rows = np.flatnonzero(chosen)
    if len(rows) == rows[-1] - rows[0] + 1:
        return column.slice(int(rows[0]), len(rows))
    return column.filter(bool_array(chosen))


def _decoded_keys(struct: pa.StructArray) -> int:
    """How many keys the lines of these rows have, wrappers included, if each was decoded once."""
    keys = len(struct)
    for field in struct.type:
        column = struct.field(field.name)
        keys += len(column) - column.null_count
        if pa.types.is_map(field.type):
            keys += len(map_entries(column)[0])
        elif pa.types.is_struct(field.type) and column.null_count < len(column):
            keys += sum(len(inner) - inner.null_count for inner in column.flatten())
    return keys


def _null_items(struct: pa.StructArray) -> int:
    """How many map entries have no value: they are counted among the decoded keys already."""
    maps = (struct.field(field.name) for field in struct.type if pa.types.is_map(field.type))
    return sum(map_entries(column)[1].null_count for column in maps)


def repeated_key(column: pa.MapArray) -> int | None:
    """The first row with a repeated key, or None. Rows that share one list of keys are settled by the first."""
    keys, _, rows = map_entries(column)
    if len(keys) == 0:
        return None
    codes = np.frombuffer(keys.dictionary_encode().indices.buffers()[1], dtype=np.int32)[: len(keys)]
    counts = np.bincount(rows, minlength=len(column))
    width = int(counts.max())
    if (counts == width).all():
        grid = codes.reshape(-1, width)
        if (grid == grid[0]).all():
            return 0 if len(set(grid[0].tolist())) != width else None
    pairs = np.sort(rows << 32 | codes)
    again = np.flatnonzero(pairs[1:] == pairs[:-1])
    return int(pairs[again[0]] >> 32) if len(again) else None
