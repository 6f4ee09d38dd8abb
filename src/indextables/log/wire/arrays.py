"""Makes Arrow columns of numpy arrays and back, through their buffers.

`pa.array` and `to_numpy` import pandas wherever it is installed, which costs every process a fifth of a second;
buffers cost nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = [
    "bool_array",
    "bool_values",
    "combined",
    "constant",
    "int64_array",
    "int64_values",
    "map_entries",
    "text_array",
    "validity",
]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def int64_array(values: Ints, valid: Bools | None = None) -> pa.Array:
    """An Arrow column over the memory of `values`."""
    values = np.ascontiguousarray(values, dtype=np.int64)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(values), [bitmap, pa.py_buffer(values)])


def bool_array(values: Bools) -> pa.Array:
    """A mask for `filter`."""
    packed = np.packbits(np.ascontiguousarray(values, dtype=np.bool_), bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(packed)])


def text_array(values: list[str]) -> pa.Array:
    """A string column."""
    encoded = [value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


def constant(value: int | None, length: int) -> pa.Array:
    """`length` times the same number, or null."""
    if value is None:
        return pa.nulls(length, pa.int64())
    return int64_array(np.full(length, value, dtype=np.int64))


def combined(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def int64_values(column: pa.Array | pa.ChunkedArray, null: int = 0) -> Ints:
    """The numbers of an int64 column, with `null` in place of nulls; a view where there are none."""
    array = combined(column)
    if len(array) == 0:
        return np.zeros(0, dtype=np.int64)
    values: Ints = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + len(array)]
    if array.null_count:
        values = np.where(validity(array), values, np.int64(null))
    return values


def validity(array: pa.Array) -> Bools:
    """True where the array has a value."""
    bitmap = array.buffers()[0]
    if bitmap is None or array.null_count == 0:
        return np.ones(len(array), dtype=np.bool_)
    bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def bool_values(array: pa.Array) -> Bools:
    """True where the array says so: a null says no. Arrow's own `fill_null` would import pandas."""
    values = array.buffers()[1]
    if values is None:
        return np.zeros(len(array), dtype=np.bool_)
    bits = np.unpackbits(np.frombuffer(values, dtype=np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_) & validity(array)


def map_entries(array: Any) -> tuple[pa.Array, pa.Array, Ints]:
    """Keys and items of a map column's visible rows, and the row each belongs to."""
    if len(array) == 0:
        return pa.nulls(0, array.type.key_type), pa.nulls(0, array.type.item_type), np.zeros(0, dtype=np.int64)
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(offsets).astype(np.int64)
    rows = np.repeat(np.arange(len(array), dtype=np.int64), lengths)
    first, last = int(offsets[0]), int(offsets[-1])
    return array.keys[first:last], array.items[first:last], rows
