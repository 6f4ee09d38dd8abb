"""Compares two columns row by row: null equals null, and NaN equals NaN. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.lazy import pc
from indextables.log.wire import combined

__all__ = ["same_rows"]

_Mask = npt.NDArray[np.bool_]


def same_rows(one: pa.Table, other: pa.Table) -> _Mask:
    """For each row whether all its columns are equal. Both tables have the same schema and number of rows."""
    equal = np.ones(one.num_rows, bool)
    for place in range(one.num_columns):
        equal &= _same(combined(one.column(place)), combined(other.column(place)))
    return equal


def _same(one: pa.Array, other: pa.Array) -> _Mask:
    here, there = (column.is_valid().to_numpy(zero_copy_only=False) for column in (one, other))
    kind = one.type
    if pa.types.is_struct(kind):
        equal = np.ones(len(one), bool)
        for child, match in zip(one.flatten(), other.flatten(), strict=True):
            equal &= _same(child, match)
    elif pa.types.is_nested(kind):
        equal = _same_lists(one, other)
    else:
        equal = _values(pc.equal(one, other))
        if pa.types.is_floating(kind):
            equal |= _values(pc.is_nan(one)) & _values(pc.is_nan(other))
    return np.asarray((here & there & equal) | ~(here | there))


def _same_lists(one: pa.Array, other: pa.Array) -> _Mask:
    """Lists and maps: as many elements, and each of them equal."""
    lengths, others = (_lengths(column) for column in (one, other))
    equal = np.asarray(lengths == others)
    picked = pa.array(np.flatnonzero(equal))
    left, right = (_elements(column.take(picked)) for column in (one, other))
    owners = np.repeat(np.flatnonzero(equal), lengths[equal])
    equal[owners[~_same(left, right)]] = False
    return equal


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
    return np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False), np.int64)


def _elements(column: pa.Array) -> pa.Array:
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
    return column.flatten()


def _values(flags: pa.Array) -> _Mask:
    return np.asarray(pc.fill_null(flags, fill_value=False).to_numpy(zero_copy_only=False), bool)
