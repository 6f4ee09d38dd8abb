"""Statistics as logged, texts in maps, turned into typed bounds one column at a time.

A bound is null where it is not known: missing, unparsable, NaN, of another type, below its own minimum. Whoever reads
a null bound must answer "may match".
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from indextables.lazy import pc
from indextables.query.convert import cast_exactly, cast_or_null, instants_from_text
from indextables.query.functions import is_text

__all__ = ["FOREIGN", "OURS", "StatsRules", "map_values", "null_counts", "typed_bounds"]

# Distinct texts that are no value of their type; the rest of such a column is then not looked at.
_BAD_TEXT_BUDGET = 1000
_EPOCH = r"^-?[0-9]{1,18}$"
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799


class StatsRules(msgspec.Struct, frozen=True):
    """What the writer of a table's statistics can be trusted with."""

    cut_max_chars: int | None = None
    """A text maximum of exactly this length may have been cut without being rounded up: no upper bound."""
    nan_hidden: bool = False
    """Maxima leave NaN out, which is above every number: floating-point columns have no upper bound."""
    escaped_partitions: bool = False
    """Partition values are written as in folder names."""


OURS = StatsRules()
FOREIGN = StatsRules(cut_max_chars=32, nan_hidden=True, escaped_partitions=True)


def map_values(maps: pa.Array | pa.ChunkedArray, key: str) -> pa.Array:
    """The value of `key` in each map, null where it is missing or there twice."""
    chunks = maps.chunks if isinstance(maps, pa.ChunkedArray) else [maps]
    found = [_chunk_values(chunk, key) for chunk in chunks if len(chunk)]
    return pa.concat_arrays(found) if found else pa.nulls(0, pa.string())


def typed_bounds(
    minimum: pa.Array, maximum: pa.Array, data_type: pa.DataType, rules: StatsRules
) -> tuple[pa.Array, pa.Array]:
    """Lower and upper bounds of `data_type` from their texts."""
    if pa.types.is_timestamp(data_type):
        lower, upper = _times(minimum, data_type)[0], _times(maximum, data_type)[1]
    elif pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type) or pa.types.is_nested(data_type):
        lower = upper = pa.nulls(len(minimum), data_type)
    else:
        lower, upper = _typed(minimum, data_type), _typed(maximum, data_type)
    if is_text(data_type) and rules.cut_max_chars is not None:
        cut = pc.equal(pc.utf8_length(maximum), rules.cut_max_chars)
        upper = _blank(upper, cut)
    if pa.types.is_floating(data_type):
        # A text too large for the type reads as infinite; as a lower bound that would prove too much.
        lower = _blank(lower, pc.or_(pc.is_nan(lower), pc.equal(lower, float("inf"))))
        upper = _blank(upper, pc.or_(pc.is_nan(upper), pc.equal(upper, float("-inf"))))
        if rules.nan_hidden:
            upper = pa.nulls(len(upper), data_type)
    crossed = pc.and_(lower, pc.invert(upper)) if pa.types.is_boolean(data_type) else pc.greater(lower, upper)
    if pc.any(crossed, min_count=0).as_py():
        lower, upper = _blank(lower, crossed), _blank(upper, crossed)
    return lower, upper


def null_counts(stats: pa.Array, column: str) -> pa.Array:
    """`nullCount` of a column from the JSON of each file; null where it is not there or not a count."""
    return pa.array([_null_count(text, column) for text in stats.to_pylist()], pa.int64())


def _null_count(text: str | None, column: str) -> int | None:
    if text is None:
        return None
    try:
        found: Any = _STATS.decode(text).nullCount.get(column)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**63 else None


class _Stats(msgspec.Struct):
    nullCount: dict[str, Any] = {}


_STATS = msgspec.json.Decoder(_Stats)


def _chunk_values(chunk: pa.MapArray, key: str) -> pa.Array:
    offsets = chunk.offsets.to_numpy(zero_copy_only=False)
    hits = np.flatnonzero(pc.fill_null(pc.equal(chunk.keys, key), False).to_numpy(zero_copy_only=False))  # noqa: FBT003
    hits = hits[(hits >= offsets[0]) & (hits < offsets[-1])]
    rows = _owners(offsets, hits)
    positions = np.zeros(len(chunk), np.int64)
    positions[rows] = hits
    missing = np.ones(len(chunk), bool)
    missing[rows] = False
    missing[rows[1:][rows[1:] == rows[:-1]]] = True
    if chunk.null_count:
        missing |= pc.is_null(chunk).to_numpy(zero_copy_only=False)
    return pc.take(chunk.items, pa.array(positions, mask=missing))


def _owners(offsets: np.ndarray[Any, Any], hits: np.ndarray[Any, Any]) -> Any:
    """The map that each entry belongs to; maps of one writer have equally many keys, which spares the search."""
    count = len(offsets) - 1
    width, rest = divmod(int(offsets[-1] - offsets[0]), count)
    if not rest and width and (np.diff(offsets) == width).all():
        return np.floor_divide(hits - offsets[0], width)
    return np.searchsorted(offsets, hits, side="right") - 1


def _typed(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    """One cast where all texts are values (hexadecimal ones, which only Arrow reads, are not), else the careful way."""
    if not (pa.types.is_integer(data_type) and _mentions(texts, "x", "X")):
        try:
            return pc.cast(texts, data_type)
        except pa.ArrowInvalid:
            pass
    return cast_or_null(texts, data_type, budget=_BAD_TEXT_BUDGET)


def _mentions(texts: pa.Array, *words: str) -> bool:
    return any(pc.any(pc.match_substring(texts, word), min_count=0).as_py() for word in words)


def _times(texts: pa.Array, data_type: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """The earliest and the latest instant a text can mean: a bare number may count seconds, milli- or microseconds."""
    is_epoch = pc.match_substring_regex(texts, _EPOCH)
    nothing = pa.scalar(None, texts.type)
    iso = instants_from_text(pc.if_else(is_epoch, nothing, texts), data_type, "UTC", _BAD_TEXT_BUDGET)
    if not pc.any(is_epoch, min_count=0).as_py():
        return iso, iso
    numbers = cast_or_null(pc.if_else(is_epoch, texts, nothing), pa.int64(), budget=_BAD_TEXT_BUDGET)
    readings = []
    for per_second in (1, 1_000, 1_000_000):
        low, high = _FIRST_SECOND * per_second, _LAST_SECOND * per_second
        inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
        usable = pc.if_else(inside, numbers, pa.scalar(None, pa.int64()))
        readings.append(pc.multiply(usable, 1_000_000 // per_second))
    earliest = _as_time(pc.min_element_wise(*readings, skip_nulls=True), data_type)
    latest = _as_time(pc.max_element_wise(*readings, skip_nulls=True), data_type)
    return pc.coalesce(iso, earliest), pc.coalesce(iso, latest)


def _as_time(micros: pa.Array, data_type: pa.DataType) -> pa.Array:
    return cast_exactly(pc.cast(micros, pa.timestamp("us", data_type.tz)), data_type, _BAD_TEXT_BUDGET)


def _blank(values: pa.Array, where: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(where, False), pa.scalar(None, values.type), values)  # noqa: FBT003 - Arrow's order
