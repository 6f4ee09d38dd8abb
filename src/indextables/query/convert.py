"""Casts Arrow values from one type to another as SQL does, and texts to values where some may be nonsense.

Everything is vectorised: a value that does not convert becomes null, and whoever must know compares validity.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal

import numpy as np
import pyarrow as pa

from indextables import timezones
from indextables.errors import InvalidArgument
from indextables.lazy import pc

__all__ = [
    "as_array",
    "cast_exactly",
    "cast_or_null",
    "check_zone",
    "instants_from_text",
    "is_timestamp",
    "local_times",
    "zone_info",
]

_INTEGER = r"^\s*[+-]?[0-9]{1,19}\s*$"
_NUMBER = r"(?i)^\s*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)\s*$"
_DECIMAL = r"(?i)^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,2})?\s*$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_ZONED = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]{0,9})?)?)?)?$"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MOST_DIGITS = 400
"""More than any number of a type here has, also one of 300 digits before the point."""
_BOOLEANS = {"t": True, "true": True, "y": True, "yes": True, "1": True} | {
    "f": False,
    "false": False,
    "n": False,
    "no": False,
    "0": False,
}


def check_zone(name: str) -> str:
    """`name` if it is a time zone. Raises InvalidArgument."""
    zone_info(name)
    return name


def zone_info(name: str) -> dt.tzinfo:
    """The time zone of a name such as Europe/Berlin, or of an offset such as +05:30. Raises InvalidArgument."""
    try:
        return timezones.zone_info(name)
    except ValueError as cause:
        message = f"time zone {name!r} is not known; give a name such as UTC or Europe/Berlin, or an offset as +05:30"
        raise InvalidArgument(message, time_zone=name) from cause


def is_timestamp(data_type: pa.DataType, *, zoned: bool) -> bool:
    """True for instants (`zoned`) or for times without a zone (not `zoned`)."""
    return pa.types.is_timestamp(data_type) and (data_type.tz is not None) == zoned


def local_times(values: pa.Array | pa.ChunkedArray, zone: str) -> pa.Array | pa.ChunkedArray:
    """What clocks of a zone show at these instants."""
    ahead = timezones.ahead_of_utc(zone)
    if ahead is not None:
        unit = values.type.unit
        return pc.add(pc.cast(values, pa.timestamp(unit)), pa.scalar(ahead, pa.duration(unit)))
    return pc.local_timestamp(pc.cast(values, pa.timestamp(values.type.unit, zone)))


def as_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values in one chunk."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def cast_or_null(values: pa.Array, target: pa.DataType, *, zone: str = "UTC", budget: int | None = None) -> pa.Array:
    """`values` as `target`, null where one does not convert.

    `budget` bounds the work that nonsense can cause: after that many distinct bad values the rest become null
    unseen. Use it only where null means "do not know".
    """
    source = values.type
    if source == target:
        return values
    if pa.types.is_null(source):
        return pa.nulls(len(values), target)
    if _is_text(source):
        return _from_text(values, target, zone, budget)
    if _is_text(target):
        return _to_text(values, target, zone)
    if pa.types.is_boolean(source) and not pa.types.is_boolean(target):
        return pc.cast(pc.cast(values, pa.int8()), target)
    if pa.types.is_boolean(target):
        return pc.not_equal(values, pa.scalar(0, source)) if _is_number(source) else pa.nulls(len(values), target)
    if pa.types.is_timestamp(source) or pa.types.is_date(source):
        return _from_time(values, target, zone)
    if pa.types.is_floating(source):
        return _from_float(values, target, budget)
    if pa.types.is_integer(source) and pa.types.is_floating(target):
        # The nearest number, as SQL says; Arrow would refuse what is above 2^53.
        return pc.cast(values, target, safe=False)
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        # By its digits: Arrow's own cast can be off by one in the last place.
        return pc.cast(pc.cast(values, pa.string()), target)
    if pa.types.is_decimal(source) and pa.types.is_integer(target):
        values = _rescaled(pc.trunc(values), 0)
    elif pa.types.is_decimal(source) and pa.types.is_decimal(target) and target.scale < source.scale:
        values = pc.round(_one_digit_more(values), target.scale, round_mode="half_towards_infinity")
    return _bisect(values, target, budget)


def cast_exactly(values: pa.Array, target: pa.DataType, budget: int | None = None) -> pa.Array:
    """`values` as `target`, null where a value would have to change; `budget` as in `cast_or_null`."""
    return _bisect(values, target, budget)


def instants_from_text(values: pa.Array, target: pa.DataType, zone: str, budget: int | None) -> pa.Array:
    """ISO texts as timestamps: an offset in the text counts for an instant, `zone` for texts without one."""
    unit, digits = ("ns", 9) if target.unit == "ns" else ("us", 6)
    longer = rf"(\.[0-9]{{{digits}}})[0-9]+"
    text = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), longer, r"\1")
    zoned = pc.match_substring_regex(pc.utf8_slice_codeunits(text, 10), _ZONED)
    bare = pc.replace_substring_regex(text, r"^(.{11,}?)" + _ZONED, r"\1")
    text = pc.if_else(pc.match_substring_regex(bare, _INSTANT), text, pa.scalar(None, text.type))
    local = _bisect(pc.if_else(zoned, bare, text), pa.timestamp(unit), budget)
    if target.tz is None:
        return _bisect(local, target, budget)
    absolute = _bisect(
        pc.if_else(zoned, _full_instant(text), pa.scalar(None, text.type)), pa.timestamp(unit, "UTC"), budget
    )
    here = pc.cast(_at_zone(local, zone), pa.timestamp(unit, "UTC"))
    return _bisect(pc.if_else(zoned, absolute, here), target, budget)


def _full_instant(text: pa.Array) -> pa.Array:
    """Instants with an offset and at least a time of day in the form that Arrow reads."""
    return pc.replace_substring_regex(text, r"^(.{10}[ T][0-9]{2})(Z|[+-].*)$", r"\1:00\2")


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))


def _from_text(values: pa.Array, target: pa.DataType, zone: str, budget: int | None) -> pa.Array:
    if _is_text(target):
        return pc.cast(values, target)
    if pa.types.is_binary(target) or pa.types.is_large_binary(target):
        return pc.cast(values, target)
    if pa.types.is_timestamp(target):
        return instants_from_text(values, target, zone, budget)
    if pa.types.is_boolean(target):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(values))
        names = pa.array(list(_BOOLEANS), words.type)
        return pc.take(pa.array(list(_BOOLEANS.values())), pc.index_in(words, names))
    pattern = _DATE
    if pa.types.is_integer(target):
        pattern = _INTEGER
    elif pa.types.is_floating(target):
        pattern = _NUMBER
    elif pa.types.is_decimal(target):
        pattern = _DECIMAL
    elif not pa.types.is_date(target):
        return pa.nulls(len(values), target)
    plausible = pc.if_else(pc.match_substring_regex(values, pattern), values, pa.scalar(None, values.type))
    text = pc.utf8_ltrim(pc.utf8_trim_whitespace(plausible), characters="+")
    return _rounded_texts(text, target, budget) if pa.types.is_decimal(target) else _bisect(text, target, budget)


def _to_text(values: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    source = values.type
    if is_timestamp(source, zoned=True):
        return pc.cast(_short_fraction(pc.cast(_local_times(values, zone), pa.string())), target)
    if pa.types.is_floating(source):
        return pc.cast(_float_texts(values), target)
    if pa.types.is_decimal(source):
        return pc.cast(_decimal_texts(values), target)
    text = pc.cast(values, pa.string()) if not pa.types.is_binary(source) else values
    if pa.types.is_timestamp(source):
        text = _short_fraction(text)
    if pa.types.is_binary(source) or pa.types.is_large_binary(source):
        return _bisect(values, target, None)
    return pc.cast(text, target)


def _float_texts(values: pa.Array) -> pa.Array:
    """As Java writes them, each distinct value once: `1.5`, `100.0`, `1.0E7`, `NaN`, `-Infinity`."""
    shortest, places = _shortest_texts(values)
    return pc.take(pa.array([_java_float(text) for text in shortest], pa.string()), places)


def _shortest_texts(values: pa.Array) -> tuple[list[str], pa.Array]:
    """The shortest exact text of each distinct number, and for each value the place of its own."""
    # Encoding by value would make one of 0.0 and -0.0.
    bits = (
        values.view(pa.int64()) if pa.types.is_float64(values.type) else pc.cast(values, pa.float32()).view(pa.int32())
    )
    encoded = pc.dictionary_encode(bits)
    distinct = encoded.dictionary.view(pa.float64() if pa.types.is_float64(values.type) else pa.float32())
    return pc.cast(distinct, pa.string()).to_pylist(), encoded.indices


def _decimal_texts(values: pa.Array) -> pa.Array:
    """All digits, never an exponent."""
    texts = pc.cast(values, pa.string())
    if not pc.any(pc.match_substring(texts, "E"), min_count=0).as_py():
        return texts
    encoded = pc.dictionary_encode(texts)
    plain = [f"{decimal.Decimal(text):f}" for text in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(plain, pa.string()), encoded.indices)


def _java_float(text: str) -> str:
    """The shortest exact text of a number in Java's notation: plain from 0.001 up to 10,000,000, else `d.dEn`."""
    if text.lstrip("-") in {"nan", "inf"}:
        return {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text]
    sign, digits, exponent = decimal.Decimal(text).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + int(exponent)
    minus = "-" if sign else ""
    if shown == "0":
        return f"{minus}0.0"
    if -2 <= point <= 7:
        whole = shown[:point].ljust(point, "0") if point > 0 else "0"
        fraction = shown[point:] if point > 0 else "0" * -point + shown
        return f"{minus}{whole}.{fraction or '0'}"
    return f"{minus}{shown[0]}.{shown[1:] or '0'}E{point - 1}"


def _short_fraction(text: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1"), r"\.$", "")


def _from_time(values: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    source = values.type
    if is_timestamp(source, zoned=True) and not is_timestamp(target, zoned=True):
        values = _local_times(values, zone)
    if pa.types.is_date(target):
        return _bisect(_days(values), target, None) if pa.types.is_timestamp(source) else values
    if is_timestamp(target, zoned=True) and not is_timestamp(source, zoned=True):
        return pc.cast(_at_zone(_in_unit(values, pa.timestamp(target.unit)), zone), target)
    if pa.types.is_timestamp(target):
        return _in_unit(values, target)
    return pa.nulls(len(values), target)


def _in_unit(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Dates or times as `target`: a finer unit is cut off, what is out of its reach is null."""
    names = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
    order = list(names)
    if pa.types.is_timestamp(values.type) and order.index(values.type.unit) > order.index(target.unit):
        values = pc.floor_temporal(_movable(values), unit=names[target.unit])
    return _bisect(values, target, None)


def _days(times: pa.Array) -> pa.Array:
    """The days since 1970-01-01 that local times fall on; dates where all of them are."""
    counts = times.view(pa.int64())
    days = np.floor_divide(counts.fill_null(0).to_numpy(), 86_400 * _PER_SECOND[times.type.unit])
    found = pa.array(days, mask=counts.is_null().to_numpy(zero_copy_only=False))
    return _bisect(found, pa.int32(), None).view(pa.date32())


def _local_times(values: pa.Array, zone: str) -> pa.Array:
    return local_times(values if zone == "UTC" else _movable(values), zone)


def _at_zone(local: pa.Array, zone: str) -> pa.Array:
    moved = local if zone == "UTC" else _movable(local)
    ahead = timezones.ahead_of_utc(zone)
    if ahead is not None:
        return pc.assume_timezone(pc.subtract(moved, pa.scalar(ahead, pa.duration(local.type.unit))), timezone="UTC")
    return pc.assume_timezone(moved, timezone=zone, ambiguous="earliest", nonexistent="latest")


def _movable(times: pa.Array) -> pa.Array:
    """Null for times so near to the ends of their type that they have no value in another zone or unit."""
    margin = 2 * 86_400 * _PER_SECOND[times.type.unit]
    counts = times.view(pa.int64())
    inside = pc.and_(pc.greater(counts, -(2**63) + margin), pc.less(counts, 2**63 - 1 - margin))
    if pc.all(inside, min_count=0).as_py():
        return times
    return pc.if_else(inside, times, pa.scalar(None, times.type))


def _from_float(values: pa.Array, target: pa.DataType, budget: int | None) -> pa.Array:
    if pa.types.is_floating(target):
        return pc.cast(values, target, safe=False)
    if pa.types.is_decimal(target):
        # By the digits that are shown: 1.005 becomes 1.01, although it is a little less.
        shortest, places = _shortest_texts(values)
        return pc.take(_as_decimals(shortest, target), places)
    usable = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
    whole = pc.trunc(usable)
    inside = pc.less(pc.abs(whole), 2.0**63)
    return _bisect(pc.if_else(inside, whole, pa.scalar(None, whole.type)), target, budget)


def _rounded_texts(texts: pa.Array, target: pa.DataType, budget: int | None) -> pa.Array:
    """Texts of decimals, rounded half up to the scale of `target`."""
    try:
        return pc.cast(texts, target)
    except pa.ArrowInvalid:
        encoded = pc.dictionary_encode(texts)
        distinct = encoded.dictionary.to_pylist()
        return pc.take(_as_decimals(distinct, target, len(distinct) if budget is None else budget), encoded.indices)


def _as_decimals(texts: list[str], target: pa.DataType, budget: int | None = None) -> pa.Array:
    """Numbers rounded half up; null for what is none or does not fit, and for the rest after `budget` of those."""
    step = decimal.Decimal(1).scaleb(-target.scale)
    limit = decimal.Decimal(10) ** (target.precision - target.scale)
    context = decimal.Context(prec=_MOST_DIGITS, rounding=decimal.ROUND_HALF_UP)
    found: list[decimal.Decimal | None] = []
    bad = 0
    for text in texts:
        number = None
        if budget is None or bad < budget:
            with contextlib.suppress(decimal.InvalidOperation):
                number = decimal.Decimal(text).quantize(step, context=context)
        usable = number is not None and number.is_finite() and abs(number) < limit
        bad += not usable
        found.append(number if usable else None)
    return pa.array(found, target)


def _one_digit_more(values: pa.Array) -> pa.Array:
    """The same decimals with room to round up: 9.9 becomes 10, which Arrow would make 0 of for want of a digit."""
    kind = values.type
    precision = min(76, kind.precision + 1)
    make = pa.decimal256 if precision > 38 or pa.types.is_decimal256(kind) else pa.decimal128
    return pc.cast(values, make(precision, kind.scale))


def _rescaled(values: pa.Array, scale: int) -> pa.Array:
    precision = max(1, values.type.precision - values.type.scale + scale)
    make = pa.decimal256 if pa.types.is_decimal256(values.type) else pa.decimal128
    return pc.cast(values, make(precision, scale))


def _bisect(values: pa.Array, target: pa.DataType, budget: int | None) -> pa.Array:
    """Cast; where that fails, find the bad values by halving over the distinct ones."""
    try:
        return pc.cast(values, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    encoded = pc.dictionary_encode(values)
    distinct = encoded.dictionary
    parts: list[pa.Array] = []
    left = len(distinct) if budget is None else budget
    stack = [(0, len(distinct))]
    while stack:
        start, end = stack.pop()
        part = distinct.slice(start, end - start)
        if left <= 0:
            parts.append(pa.nulls(end - start, target))
            continue
        try:
            parts.append(pc.cast(part, target))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if end - start == 1:
                parts.append(pa.nulls(1, target))
                left -= 1
                continue
            middle = (start + end) // 2
            stack.append((middle, end))
            stack.append((start, middle))
    return pc.take(pa.concat_arrays(parts) if parts else pa.nulls(0, target), encoded.indices)
