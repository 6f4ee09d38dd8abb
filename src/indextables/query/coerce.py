"""Decides which type two types meet in: the silent casts of SQL, decided once, at parse time.

The rules are those of Spark with ANSI SQL. A text meets another type by being cast to it; numbers meet in the wider
one, and a decimal or whole number meets a floating-point number in double; a date meets an instant in the instant.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from indextables.query.convert import is_timestamp
from indextables.query.functions import is_decimal, is_number, is_text

__all__ = ["common_type", "nested_type"]

INSTANT = pa.timestamp("us", "UTC")


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of both are compared, or None if they are not comparable."""
    if left == right:
        return left if _is_comparable(left) else None
    if pa.types.is_null(left) or pa.types.is_null(right):
        other = right if pa.types.is_null(left) else left
        return other if _is_comparable(other) else None
    if is_text(left) or is_text(right):
        return _meet_text(left, right)
    if is_number(left) and is_number(right):
        return _meet_numbers(left, right)
    if _is_time(left) and _is_time(right):
        return _meet_times(left, right)
    if _is_bytes(left) and _is_bytes(right):
        return pa.large_binary()
    return None


def nested_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type of values that do not compare, lists and structs, if all are of one such type or null."""
    known = [kind for kind in types if not pa.types.is_null(kind)]
    return known[0] if known and not _is_comparable(known[0]) and all(kind == known[0] for kind in known) else None


def _is_comparable(data_type: pa.DataType) -> bool:
    return (
        is_text(data_type)
        or is_number(data_type)
        or _is_time(data_type)
        or _is_bytes(data_type)
        or bool(pa.types.is_boolean(data_type) or pa.types.is_null(data_type))
    )


def _is_time(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_date(data_type) or pa.types.is_timestamp(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def _meet_text(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if is_text(left) and is_text(right):
        return pa.large_string()
    other = right if is_text(left) else left
    if pa.types.is_integer(other):
        return pa.int64()
    if is_number(other):
        return pa.float64()
    return other if _is_comparable(other) else None


def _meet_numbers(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(left) and pa.types.is_floating(right):
        return left if left.bit_width >= right.bit_width else right
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
            return left if left.bit_width >= right.bit_width else right
        return pa.decimal128(20, 0) if 64 in (left.bit_width, right.bit_width) else pa.int64()
    (left_whole, left_scale), (right_whole, right_scale) = _digits(left), _digits(right)
    scale = max(left_scale, right_scale)
    precision = max(left_whole, right_whole) + scale
    if precision > 76:
        return pa.float64()
    return pa.decimal256(precision, scale) if precision > 38 else pa.decimal128(precision, scale)


def _digits(data_type: pa.DataType) -> tuple[int, int]:
    """Digits before and after the point."""
    if is_decimal(data_type):
        return data_type.precision - data_type.scale, data_type.scale
    return 20, 0


def _meet_times(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    times = [side for side in (left, right) if pa.types.is_timestamp(side)]
    if not times:
        return pa.date32()
    # Nanoseconds are kept: cut off, times would be equal that are not.
    unit = "ns" if any(side.unit == "ns" for side in times) else "us"
    zoned = any(is_timestamp(side, zoned=True) for side in times)
    return pa.timestamp(unit, "UTC") if zoned else pa.timestamp(unit)
