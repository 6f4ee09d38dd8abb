"""Buckets of time: calendar units in a zone, or fixed lengths from the epoch."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvalidArgument

_CALENDAR = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_FIXED = re.compile(r"([1-9]\d{0,8})(ms|s|m|h|d)\Z", re.ASCII)
_MICROS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def date_buckets(values: pa.Array, options: dict[str, Any], most: int) -> list[dict[str, Any]]:
    """Non-empty buckets in time order; keys are the instant or date at which each begins. Raises InvalidArgument."""
    kind = values.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InvalidArgument(f"date_histogram: a column of type {kind} holds no times", type=str(kind))
    calendar, fixed = options.get("calendar_interval"), options.get("fixed_interval")
    if (calendar is None) == (fixed is None):
        raise InvalidArgument("date_histogram: give calendar_interval or fixed_interval", options=sorted(options))
    if calendar is not None:
        starts = _by_calendar(values, calendar, options.get("time_zone"))
    else:
        starts = _by_length(values, fixed)
    counted = pc.value_counts(starts)
    table = pa.table({"key": counted.field("values"), "count": counted.field("counts")}).sort_by("key")
    if table.num_rows > most:
        message = f"date_histogram: more than {most} buckets, use a wider interval"
        raise InvalidArgument(message, buckets=table.num_rows)
    pairs = zip(table.column("key").to_pylist(), table.column("count").to_pylist(), strict=True)
    return [{"key": key, "doc_count": count} for key, count in pairs]


def _by_calendar(values: pa.Array, unit: Any, zone: Any) -> pa.Array:
    if unit not in _CALENDAR:
        raise InvalidArgument(f"date_histogram: calendar_interval is one of {', '.join(_CALENDAR)}", given=unit)
    if zone is not None and pa.types.is_timestamp(values.type) and values.type.tz is not None:
        try:
            values = values.cast(pa.timestamp(values.type.unit, str(zone)))
            return pc.floor_temporal(values, 1, unit)
        except pa.ArrowInvalid as error:
            raise InvalidArgument(f"date_histogram: {error}", time_zone=zone) from error
    return pc.floor_temporal(values, 1, unit)


def _by_length(values: pa.Array, length: Any) -> pa.Array:
    found = _FIXED.match(str(length))
    if found is None:
        raise InvalidArgument("date_histogram: fixed_interval is a number and ms, s, m, h or d", given=length)
    step = int(found[1]) * _MICROS[found[2]]
    zone = values.type.tz if pa.types.is_timestamp(values.type) else None
    micros = values.cast(pa.timestamp("us", zone)).cast(pa.int64()).to_numpy(zero_copy_only=False)
    starts = np.ascontiguousarray(micros // step * step, dtype=np.int64)
    return pa.Array.from_buffers(pa.timestamp("us", zone), len(starts), [None, pa.py_buffer(starts)])
