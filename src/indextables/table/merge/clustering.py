"""Rows that are near in several columns get near numbers: Z-order and the Hilbert curve over ranks. Pure.

A column counts by rank, not by value, so that skewed values spread evenly: a sample gives the boundaries of up to 1,024
buckets per column, and a value's bucket is how many of them it reaches. The buckets of all columns make one number, the
place on the curve; sorting by it narrows the bounds of every column in every file.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument
from indextables.table.requests import Curve

__all__ = ["Range", "Sorter", "boundaries_of", "check_columns", "codes_of", "cut"]


_BITS = 10
_CODE = "__place_on_curve__"

_Codes = npt.NDArray[np.uint64]


class Range(msgspec.Struct, frozen=True):
    """Places on a curve from `low` up to, not including, `high`; None is the end of the curve."""

    low: int
    high: int | None


def check_columns(schema: pa.Schema, partition_columns: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns as the table spells them. Raises InvalidArgument for those by which nothing can be sorted."""
    spelled = {name.lower(): name for name in schema.names}
    found: list[str] = []
    for column in columns:
        name = spelled.get(column.lower())
        if name is None:
            known = ", ".join(schema.names)
            raise InvalidArgument(f"there is no column {column} to cluster by: the table has {known}", column=column)
        if name in found:
            raise InvalidArgument(f"column {name} to cluster by is given twice", column=name)
        if name in partition_columns:
            message = f"{name} is a partition column: it has one value in every file, and cannot be clustered by"
            raise InvalidArgument(message, column=name)
        if pa.types.is_nested(schema.field(name).type) or pa.types.is_null(schema.field(name).type):
            message = f"values of column {name} ({schema.field(name).type}) have no order to cluster by"
            raise InvalidArgument(message, column=name)
        found.append(name)
    return found


def boundaries_of(sample: pa.Table) -> pa.Table:
    """For each column of a sample the values at which its buckets begin, in a table of one row of lists."""
    bits = _bits(sample.num_columns)
    columns = []
    for column in sample.columns:
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        values = values.drop_null()
        if pa.types.is_floating(values.type):
            values = values.filter(pc.invert(pc.is_nan(values)))
        ordered = values.take(pc.sort_indices(values))
        places = np.unique(np.linspace(0, len(ordered), (1 << bits) + 1, dtype=np.int64)[1:-1])
        chosen = ordered.take(pa.array(places)) if len(ordered) else ordered
        distinct = chosen.unique()
        columns.append(pa.array([distinct.to_pylist()], pa.list_(distinct.type)))
    return pa.Table.from_arrays(columns, names=sample.column_names)


def codes_of(rows: pa.RecordBatch | pa.Table, boundaries: pa.Table, curve: Curve) -> _Codes:
    """The place of each row on the curve."""
    bits = _bits(boundaries.num_columns)
    buckets = [_buckets(rows.column(name), boundaries.column(name).chunk(0).values) for name in boundaries.column_names]
    if len(buckets) == 1:
        return buckets[0]
    return _interleaved(buckets if curve == "zorder" else _transposed(buckets, bits), bits)


def cut(codes: _Codes, parts: int) -> list[Range]:
    """Up to `parts` ranges of about equally many of these places that cover the whole curve."""
    ordered = np.sort(codes)
    if parts <= 1 or not len(ordered):
        return [Range(0, None)]
    places = np.linspace(0, len(ordered), parts + 1, dtype=np.int64)[1:-1]
    edges = [int(edge) for edge in np.unique(ordered[places]) if edge > 0]
    return [Range(low, high) for low, high in zip([0, *edges], [*edges, None], strict=True)]


class Sorter:
    """The rows of one range of a curve, sorted by their place, then by the columns."""

    def __init__(self, boundaries: pa.Table, curve: Curve, within: Range) -> None:
        self._boundaries = boundaries
        self._curve = curve
        self._within = within

    def wanted(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """True for the rows in the range."""
        if self._within == Range(0, None):
            return None
        codes = codes_of(batch, self._boundaries, self._curve)
        inside = codes >= self._within.low
        if self._within.high is not None:
            inside &= codes < self._within.high
        return pa.array(inside)

    def order(self, rows: pa.Table) -> pa.Array:
        """The row numbers, sorted; rows that are equal in all columns keep their order."""
        names = self._boundaries.column_names
        keys = rows.select(names).append_column(_CODE, pa.array(codes_of(rows, self._boundaries, self._curve)))
        return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in (_CODE, *names)])


def _bits(columns: int) -> int:
    """Bits per column, so that all of them fit into 63."""
    return max(1, min(_BITS, 63 // max(1, columns)))


def _buckets(values: pa.Array | pa.ChunkedArray, boundaries: pa.Array) -> _Codes:
    """How many boundaries each value reaches; null and NaN are in the first bucket.

    Sorting values and boundaries together does it natively for every type that has an order.
    """
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    both = pa.concat_arrays([boundaries.cast(values.type), *chunks])
    order = pc.sort_indices(both, sort_keys=[("", "ascending", "at_start")]).to_numpy()
    reached = np.cumsum(order < len(boundaries))
    found = np.empty(len(both), np.uint64)
    found[order] = reached
    result = found[len(boundaries) :]
    if pa.types.is_floating(both.type):
        result[np.isnan(np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in chunks] or [[]]))] = 0
    return result


def _interleaved(buckets: Sequence[_Codes], bits: int) -> _Codes:
    code = np.zeros(len(buckets[0]), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for column in buckets:
            code = (code << np.uint64(1)) | ((column >> np.uint64(bit)) & np.uint64(1))
    return code


def _transposed(buckets: Sequence[_Codes], bits: int) -> list[_Codes]:
    """The coordinates in the form whose interleaved bits are the place on the Hilbert curve (Skilling, 2004)."""
    x = [column.copy() for column in buckets]
    top = np.uint64(1 << (bits - 1))
    q = top
    while q > 1:
        p = q - np.uint64(1)
        for axis in range(len(x)):
            flip = (x[axis] & q) != 0
            swap = np.where(flip, np.uint64(0), (x[0] ^ x[axis]) & p)
            x[0] = np.where(flip, x[0] ^ p, x[0] ^ swap)
            if axis:
                x[axis] ^= swap
        q >>= np.uint64(1)
    for axis in range(1, len(x)):
        x[axis] ^= x[axis - 1]
    last = np.zeros_like(x[0])
    q = top
    while q > 1:
        last = np.where((x[-1] & q) != 0, last ^ (q - np.uint64(1)), last)
        q >>= np.uint64(1)
    return [axis ^ last for axis in x]
