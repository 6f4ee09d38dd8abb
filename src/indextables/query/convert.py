"""Arrow values from one type to another as SQL casts them, and texts to values where some may be nonsense.

Everything is vectorised: a value that does not convert becomes null, and whoever must know compares validity.
"""

from __future__ import annotations

import decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from indextables.errors import InvalidArgument
from indextables.lazy import pc

__all__ = ["as_array", "cast_or_null", "check_zone", "instants_from_text", "is_timestamp"]

_INTEGER = r"^\s*[+-]?[0-9]{1,19}\s*$"
_NUMBER = r"(?i)^\s*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)\s*$"
_DECIMAL = r"(?i)^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,2})?\s*$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_ZONED = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]{0,9})?)?)?)?$"
_BOOLEANS = {"t": True, "true": True, "y": True, "yes": True, "1": True} | {
    "f": False,
    "false": False,
    "n": False,
    "no": False,
    "0": False,
}


def check_zone(name: str) -> str:
    """`name` if it is a time zone. Raises InvalidArgument."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as cause:
        message = f"time zone {name!r} is not known; give a name such as UTC or Europe/Berlin"
        raise InvalidArgument(message, time_zone=name) from cause
    return name


def is_timestamp(data_type: pa.DataType, *, zoned: bool) -> bool:
    """True for instants (`zoned`) or for times without a zone (not `zoned`)."""
    return pa.types.is_timestamp(data_type) and (data_type.tz is not None) == zoned


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
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        # By its digits: Arrow's own cast can be off by one in the last place.
        return pc.cast(pc.cast(values, pa.string()), target)
    if pa.types.is_decimal(source) and pa.types.is_integer(target):
        values = _rescaled(pc.trunc(values), 0)
    elif pa.types.is_decimal(source) and pa.types.is_decimal(target) and target.scale < source.scale:
        values = pc.round(values, target.scale, round_mode="half_towards_infinity")
    return _bisect(values, target, budget)


def instants_from_text(values: pa.Array, target: pa.DataType, zone: str, budget: int | None) -> pa.Array:
    """ISO texts as timestamps: an offset in the text counts for an instant, `zone` for texts without one."""
    text = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), r"(\.[0-9]{6})[0-9]+", r"\1")
    zoned = pc.match_substring_regex(pc.utf8_slice_codeunits(text, 10), _ZONED)
    bare = pc.replace_substring_regex(text, r"^(.{11,}?)" + _ZONED, r"\1")
    text = pc.if_else(pc.match_substring_regex(bare, _INSTANT), text, pa.scalar(None, text.type))
    local = _bisect(pc.if_else(zoned, bare, text), pa.timestamp("us"), budget)
    if target.tz is None:
        return pc.cast(local, target)
    absolute = _bisect(
        pc.if_else(zoned, _full_instant(text), pa.scalar(None, text.type)), pa.timestamp("us", "UTC"), budget
    )
    here = pc.assume_timezone(local, timezone=zone, ambiguous="earliest", nonexistent="latest")
    return pc.cast(pc.if_else(zoned, absolute, pc.cast(here, pa.timestamp("us", "UTC"))), target)


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
    return _bisect(text, target, budget)


def _to_text(values: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    source = values.type
    if is_timestamp(source, zoned=True):
        local = pc.local_timestamp(pc.cast(values, pa.timestamp(source.unit, zone)))
        return pc.cast(_short_fraction(pc.cast(local, pa.string())), target)
    if pa.types.is_floating(source):
        return pc.cast(_float_texts(values), target)
    text = pc.cast(values, pa.string()) if not pa.types.is_binary(source) else values
    if pa.types.is_timestamp(source):
        text = _short_fraction(text)
    if pa.types.is_binary(source) or pa.types.is_large_binary(source):
        return _bisect(values, target, None)
    return pc.cast(text, target)


def _float_texts(values: pa.Array) -> pa.Array:
    """As Java writes them, each distinct value once: `1.5`, `100.0`, `1.0E7`, `NaN`, `-Infinity`."""
    # Encoding by value would make one of 0.0 and -0.0.
    bits = (
        values.view(pa.int64()) if pa.types.is_float64(values.type) else pc.cast(values, pa.float32()).view(pa.int32())
    )
    encoded = pc.dictionary_encode(bits)
    distinct = encoded.dictionary.view(pa.float64() if pa.types.is_float64(values.type) else pa.float32())
    shortest = pc.cast(distinct, pa.string()).to_pylist()
    return pc.take(pa.array([_java_float(text) for text in shortest], pa.string()), encoded.indices)


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
        values = pc.local_timestamp(pc.cast(values, pa.timestamp(source.unit, zone)))
    if pa.types.is_date(target):
        return pc.cast(pc.floor_temporal(values, unit="day"), target) if pa.types.is_timestamp(source) else values
    if is_timestamp(target, zoned=True) and not is_timestamp(source, zoned=True):
        local = pc.cast(values, pa.timestamp("us"))
        here = pc.assume_timezone(local, timezone=zone, ambiguous="earliest", nonexistent="latest")
        return pc.cast(here, target)
    if pa.types.is_timestamp(target):
        return pc.cast(values, target, safe=False)
    return pa.nulls(len(values), target)


def _from_float(values: pa.Array, target: pa.DataType, budget: int | None) -> pa.Array:
    if pa.types.is_floating(target):
        return pc.cast(values, target, safe=False)
    usable = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
    if pa.types.is_decimal(target):
        usable = pc.round(usable, target.scale, round_mode="half_towards_infinity")
        return _bisect(usable, target, budget)
    whole = pc.trunc(usable)
    inside = pc.less(pc.abs(whole), 2.0**63)
    return _bisect(pc.if_else(inside, whole, pa.scalar(None, whole.type)), target, budget)


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
