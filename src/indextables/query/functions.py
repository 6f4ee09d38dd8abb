"""The functions and operators of the predicate language: what they accept, what they give, how Arrow computes them.

`resolve` decides at parse time; `apply` computes. Errors in values (overflow, division by zero) are those of ANSI SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa

from indextables.lazy import pc
from indextables.query.convert import is_timestamp, local_times

__all__ = ["FUNCTIONS", "Function", "ValueFault", "apply", "is_decimal", "is_number", "is_text", "recased"]

Values = Any


class ValueFault(Exception):
    """A value for which a function has no result; evaluation turns it into an error of the library."""


class Function(msgspec.Struct, frozen=True):
    """`result` gives the type for given argument types, or None if it does not accept them."""

    result: Callable[[Sequence[pa.DataType]], pa.DataType | None]
    compute: Callable[[Sequence[Values], str], Values]
    monotone: bool = False
    """Never decreasing in its first argument while the others are constant."""


def apply(name: str, args: Sequence[Values], zone: str) -> Values:
    """The values of `name` over `args` (Arrow arrays or scalars). Raises ValueFault."""
    try:
        return FUNCTIONS[name].compute(args, zone)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        if "overflow" in str(cause):
            raise ValueFault(f"a result of {name} is too large for its type: cast to a wider one first") from cause
        raise ValueFault(f"{name}: {cause}") from cause


def is_text(data_type: pa.DataType) -> bool:
    """True for strings."""
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def is_decimal(data_type: pa.DataType) -> bool:
    """True for exact decimals."""
    return bool(pa.types.is_decimal(data_type))


def is_number(data_type: pa.DataType) -> bool:
    """True for integers, floating-point numbers and decimals."""
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or is_decimal(data_type))


def _is_time(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_date(data_type) or pa.types.is_timestamp(data_type))


def _text_to(result: pa.DataType | None, more: int = 0) -> Callable[[Sequence[pa.DataType]], pa.DataType | None]:
    def check(types: Sequence[pa.DataType]) -> pa.DataType | None:
        if not 1 <= len(types) <= 1 + more or not is_text(types[0]):
            return None
        return types[0] if result is None else result

    return check


def _local(values: Values, zone: str) -> Values:
    if is_timestamp(values.type, zoned=True):
        return local_times(values, zone)
    return values


def _part(compute: Callable[[Values], Values], *, of_day: bool = False, monotone: bool = False) -> Function:
    def check(types: Sequence[pa.DataType]) -> pa.DataType | None:
        accepted = len(types) == 1 and (pa.types.is_timestamp(types[0]) if of_day else _is_time(types[0]))
        return pa.int32() if accepted else None

    def run(args: Sequence[Values], zone: str) -> Values:
        return pc.cast(compute(_local(args[0], zone)), pa.int32())

    return Function(check, run, monotone)


def _same_numbers(types: Sequence[pa.DataType]) -> pa.DataType | None:
    if len(types) != 2 or types[0] != types[1] or not is_number(types[0]):
        return None
    return types[0]


def _sum_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    same = _same_numbers(types)
    return _wider(same, 1, 0) if same is not None and is_decimal(same) else same


def _product_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    same = _same_numbers(types)
    return _wider(same, same.precision + 1, same.scale) if same is not None and is_decimal(same) else same


def _wider(data_type: pa.DataType, digits: int, scale: int) -> pa.DataType | None:
    precision = data_type.precision + digits
    if precision > 76:
        return None
    make = pa.decimal256 if precision > 38 or pa.types.is_decimal256(data_type) else pa.decimal128
    return make(precision, data_type.scale + scale)


def _roomy(args: Sequence[Values], result: Callable[[Sequence[pa.DataType]], pa.DataType | None]) -> list[Values]:
    """The arguments as 256-bit decimals where the result needs that many digits."""
    target = result([arg.type for arg in args])
    if target is None or not pa.types.is_decimal256(target):
        return list(args)
    return [pc.cast(arg, pa.decimal256(arg.type.precision, arg.type.scale)) for arg in args]


def _one_number(types: Sequence[pa.DataType]) -> pa.DataType | None:
    return types[0] if len(types) == 1 and is_number(types[0]) else None


def _doubles(types: Sequence[pa.DataType]) -> pa.DataType | None:
    return pa.float64() if len(types) == 2 and all(pa.types.is_float64(t) for t in types) else None


def _integers(types: Sequence[pa.DataType]) -> pa.DataType | None:
    same = _same_numbers(types)
    return pa.int64() if same is not None and pa.types.is_integer(same) else None


def _divide(args: Sequence[Values], _: str) -> Values:
    _refuse_zero(args)
    return pc.divide(args[0], args[1])


def _quotient(args: Sequence[Values], _: str) -> Values:
    _refuse_zero(args)
    return pc.divide_checked(pc.cast(args[0], pa.int64()), pc.cast(args[1], pa.int64()))


def _remainder(args: Sequence[Values], _: str) -> Values:
    _refuse_zero(args)
    if pa.types.is_floating(args[0].type):
        return _float_remainder(args[0], args[1])
    whole = pc.divide_checked(args[0], args[1])
    return pc.subtract_checked(args[0], pc.multiply_checked(whole, args[1]))


def _float_remainder(left: Values, right: Values) -> Values:
    """Exact, as in Java; dividing, cutting and multiplying would round twice."""
    sides = [side if isinstance(side, pa.Array) else pa.array([side.as_py()], side.type) for side in (left, right)]
    numbers = [side.to_numpy(zero_copy_only=False) for side in sides]
    with np.errstate(invalid="ignore"):
        found = np.fmod(*numbers)
    known = [pc.is_valid(side).to_numpy(zero_copy_only=False) for side in sides]
    result = pa.array(found, left.type, mask=~np.logical_and(*known))
    return result if isinstance(left, pa.Array) or isinstance(right, pa.Array) else result[0]


def _refuse_zero(args: Sequence[Values]) -> None:
    """Nothing divided by zero is nothing; only a number is refused."""
    dividend, divisor = args
    if pc.any(pc.and_(pc.equal(divisor, pa.scalar(0, divisor.type)), pc.is_valid(dividend)), min_count=0).as_py():
        raise ValueFault("division by zero; compare with 0 first")


def _floor_or_ceil(compute: Callable[[Values], Values]) -> Function:
    def check(types: Sequence[pa.DataType]) -> pa.DataType | None:
        ok = len(types) == 1 and (pa.types.is_integer(types[0]) or pa.types.is_floating(types[0]))
        return pa.int64() if ok else None

    def run(args: Sequence[Values], _: str) -> Values:
        # A whole number is its own floor; Arrow would go through a double.
        return _saturated(args[0] if pa.types.is_integer(args[0].type) else compute(args[0]))

    return Function(check, run)


def _saturated(whole: Values) -> Values:
    """As Java casts: NaN is 0, what is too large is the largest."""
    if pa.types.is_integer(whole.type):
        return pc.cast(whole, pa.int64())
    inside = pc.and_(pc.less(whole, 2.0**63), pc.greater_equal(whole, -(2.0**63)))
    plain = pc.cast(pc.if_else(inside, whole, pa.scalar(0.0, whole.type)), pa.int64())
    least, most = pa.scalar(-(2**63), pa.int64()), pa.scalar(2**63 - 1, pa.int64())
    above = pc.if_else(pc.greater_equal(whole, 2.0**63), most, plain)
    return pc.if_else(pc.less(whole, -(2.0**63)), least, above)


def recased(values: Values, case: Literal["lower", "upper"]) -> Values:
    """Texts in lower or upper case as Java writes them: `STRASSE` for `straße`, a last sigma as `ς`.

    Arrow maps characters one by one, which is the same for ASCII only.
    """
    run = pc.utf8_lower if case == "lower" else pc.utf8_upper
    if isinstance(values, pa.Scalar):
        text = values.as_py()
        return pa.scalar(None if text is None else getattr(text, case)(), values.type)
    odd = pc.fill_null(pc.invert(pc.string_is_ascii(values)), False)  # noqa: FBT003 - Arrow's order
    if not pc.any(odd, min_count=0).as_py():
        return run(values)
    full = pa.array([getattr(text, case)() for text in values.filter(odd).to_pylist()], values.type)
    return pc.replace_with_mask(run(values), odd, full)


def _substring(args: Sequence[Values], _: str) -> Values:
    text, start = args[0], args[1].as_py()
    length = args[2].as_py() if len(args) > 2 else None
    if start is None or (len(args) > 2 and length is None):
        return pa.nulls(len(text), text.type)
    first = start - 1 if start > 0 else start
    if first < 0:
        end = None if length is None or first + max(length, 0) >= 0 else first + max(length, 0)
        return pc.utf8_slice_codeunits(text, first, end)
    stop = None if length is None else first + max(length, 0)
    return pc.utf8_slice_codeunits(text, first, stop)


def _substring_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    ok = 2 <= len(types) <= 3 and is_text(types[0]) and all(pa.types.is_integer(t) for t in types[1:])
    return types[0] if ok else None


def _alike(types: Sequence[pa.DataType]) -> pa.DataType | None:
    return types[0] if types and all(t == types[0] for t in types) else None


def _case_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """Condition, value, condition, value, ..., default."""
    pairs = len(types) // 2
    ok = len(types) % 2 == 1 and pairs >= 1 and all(pa.types.is_boolean(t) for t in types[0 : 2 * pairs : 2])
    return _alike([*types[1 : 2 * pairs : 2], types[-1]]) if ok else None


def _case(args: Sequence[Values], _: str) -> Values:
    result = args[-1]
    for index in range(len(args) - 3, -1, -2):
        result = pc.if_else(pc.fill_null(args[index], False), args[index + 1], result)  # noqa: FBT003 - Arrow's order
    return result


def _date_add(args: Sequence[Values], _: str) -> Values:
    days = pc.add_checked(pc.cast(args[0], pa.int32()), pc.cast(args[1], pa.int32()))
    return pc.cast(days, pa.date32())


def _arrow(name: str) -> Callable[[Values], Values]:
    """Arrow's function of this name, loaded when it is called."""

    def call(values: Values) -> Values:
        return getattr(pc, name)(values)

    return call


FUNCTIONS: dict[str, Function] = {
    "+": Function(_sum_type, lambda a, _: pc.add_checked(*_roomy(a, _sum_type))),
    "-": Function(_sum_type, lambda a, _: pc.subtract_checked(*_roomy(a, _sum_type))),
    "*": Function(_product_type, lambda a, _: pc.multiply_checked(*_roomy(a, _product_type))),
    "/": Function(_doubles, _divide),
    "%": Function(lambda t: None if t and is_decimal(t[0]) else _same_numbers(t), _remainder),
    "div": Function(_integers, _quotient),
    "negative": Function(_one_number, lambda a, _: pc.negate_checked(a[0])),
    "abs": Function(_one_number, lambda a, _: pc.abs_checked(a[0])),
    "floor": _floor_or_ceil(_arrow("floor")),
    "ceil": _floor_or_ceil(_arrow("ceil")),
    "lower": Function(_text_to(None), lambda a, _: recased(a[0], "lower")),
    "upper": Function(_text_to(None), lambda a, _: recased(a[0], "upper")),
    "trim": Function(_text_to(None), lambda a, _: pc.utf8_trim(a[0], characters=" ")),
    "ltrim": Function(_text_to(None), lambda a, _: pc.utf8_ltrim(a[0], characters=" ")),
    "rtrim": Function(_text_to(None), lambda a, _: pc.utf8_rtrim(a[0], characters=" ")),
    "reverse": Function(_text_to(None), lambda a, _: pc.utf8_reverse(a[0])),
    "length": Function(_text_to(pa.int32()), lambda a, _: pc.cast(pc.utf8_length(a[0]), pa.int32())),
    "substring": Function(_substring_type, _substring),
    "concat": Function(
        lambda t: _alike(t) if t and is_text(t[0]) else None,
        lambda a, _: pc.binary_join_element_wise(*a, pa.scalar("", a[0].type)),
    ),
    "coalesce": Function(_alike, lambda a, _: pc.coalesce(*a)),
    "case": Function(_case_type, _case),
    "isnan": Function(
        lambda t: pa.bool_() if len(t) == 1 and pa.types.is_floating(t[0]) else None,
        lambda a, _: pc.fill_null(pc.is_nan(a[0]), False),  # noqa: FBT003 - Arrow's order
    ),
    "year": _part(_arrow("year"), monotone=True),
    "month": _part(_arrow("month")),
    "day": _part(_arrow("day")),
    "quarter": _part(_arrow("quarter")),
    "hour": _part(_arrow("hour"), of_day=True),
    "minute": _part(_arrow("minute"), of_day=True),
    "second": _part(_arrow("second"), of_day=True),
    "date_add": Function(
        lambda t: pa.date32() if len(t) == 2 and pa.types.is_date(t[0]) and pa.types.is_integer(t[1]) else None,
        _date_add,
    ),
}
