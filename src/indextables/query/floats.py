"""Zeros and NaNs have many bit patterns; a value has one. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["one_pattern"]

_WORDS = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}


def one_pattern(values: pa.Array) -> pa.Array:
    """`values` with -0.0 as 0.0 and every NaN with the same bits, also inside of structs and lists.

    Engines that hash or sort floating-point numbers by their bits then agree with those that compare numbers. The array
    itself comes back if there is nothing to change.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        return _plain(values)
    if not _has_floats(kind):
        return values
    if pa.types.is_struct(kind):
        fields = [one_pattern(values.field(place)) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pc.is_null(values))
    return _relisted(values)


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(_has_floats(kind.field(place).type) for place in range(kind.num_fields))


def _relisted(values: pa.Array) -> pa.Array:
    """Lists and maps: their offsets stay, their values are looked at."""
    kind = values.type
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [one_pattern(values.keys), one_pattern(values.items)], fields=[kind.key_field, kind.item_field]
        )
        return pa.Array.from_buffers(
            kind, len(values), values.buffers()[:2], values.null_count, values.offset, [entries]
        )
    held = one_pattern(values.values)
    own = values.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
    return pa.Array.from_buffers(kind, len(values), own, values.null_count, values.offset, [held])


def _plain(values: pa.Array) -> pa.Array:
    number, word = _WORDS[values.type.bit_width]
    validity, data = values.buffers()
    if data is None or not len(values):
        return values
    numbers: Any = np.frombuffer(data, dtype=number)[values.offset : values.offset + len(values)]
    bits = numbers.view(word)
    sign = word(1 << (values.type.bit_width - 1))
    nan = np.array(np.nan, dtype=number).view(word)
    is_nan = np.isnan(numbers)
    is_zero = bits == sign
    if not is_zero.any() and not (bits[is_nan] != nan).any():
        return values
    fresh = bits.copy()
    fresh[is_zero] = 0
    fresh[is_nan] = nan
    known = None if validity is None else pc.is_valid(values).buffers()[1]
    return pa.Array.from_buffers(values.type, len(values), [known, pa.py_buffer(fresh)], values.null_count)
