"""Evaluates a predicate on Arrow data, exactly: true, false or unknown (null) for each row.

As Spark with ANSI SQL: three-valued logic, NaN equal to itself and above every other number, -0.0 equal to 0.0, texts
in the order of their UTF-8 bytes. A value that a strict cast or a function has no result for is `QueryInvalid`, unless
AND or OR already knows its answer for that row.
"""

from __future__ import annotations

import re
from functools import singledispatch
from typing import Any, TypeAlias

import pyarrow as pa

from indextables.errors import InvalidArgument, QueryInvalid
from indextables.lazy import pc
from indextables.query.convert import as_array, cast_or_null
from indextables.query.expr import (
    And,
    Call,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    TextMatch,
)
from indextables.query.functions import ValueFault, apply, recased
from indextables.query.java_match import java_pattern

__all__ = ["compare", "evaluate", "evaluate_value", "like_to_regex"]

Data: TypeAlias = "pa.Table | pa.RecordBatch"
# By name, because Arrow's functions are loaded when they are first called.
_COMPARE = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def evaluate(expr: Node, data: Data) -> pa.BooleanArray:
    """One boolean per row of `data`, null where the predicate is unknown; a filter keeps the rows that are true.

    Raises QueryInvalid for values that a cast or a function refuses, InvalidArgument if `data` lacks a column.
    """
    if not pa.types.is_boolean(expr.type):
        raise QueryInvalid(f"a predicate must be true or false, this one gives {expr.type}", query="", position=0)
    return _rows(evaluate_value(expr, data), data.num_rows, pa.bool_())


def evaluate_value(expr: Node, data: Data) -> Any:
    """The values of any expression: an Arrow array, or a scalar where it is constant. Raises as `evaluate`."""
    try:
        return _value(expr, data)
    except ValueFault as fault:
        raise QueryInvalid(f"the predicate cannot be computed: {fault}", query="", position=0) from fault


def compare(op: str, left: Any, right: Any) -> Any:
    """SQL's comparison of two Arrow values of one type, at most one of them a scalar."""
    if op == "<=>":
        equal = pc.fill_null(compare("=", left, right), False)  # noqa: FBT003 - Arrow's order
        return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_boolean(left.type):
        left, right = pc.cast(left, pa.int8()), pc.cast(right, pa.int8())
    if pa.types.is_null(left.type):
        return pa.nulls(len(left), pa.bool_()) if isinstance(left, pa.Array) else pa.scalar(None, pa.bool_())
    if pa.types.is_floating(left.type):
        return _compare_floats(op, left, right)
    return getattr(pc, _COMPARE[op])(left, right)


def like_to_regex(pattern: str, escape: str) -> str:
    """A LIKE pattern as a regular expression over the whole text.

    Raises ValueError if the escape character stands before anything but `%`, `_` or itself.
    """
    parts: list[str] = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == escape:
            index += 1
            if index == len(pattern) or pattern[index] not in ("%", "_", escape):
                raise ValueError(pattern)
            parts.append(re.escape(pattern[index]))
        else:
            parts.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
        index += 1
    return "(?s)^" + "".join(parts) + r"\z"


def _compare_floats(op: str, left: Any, right: Any) -> Any:
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    plain = getattr(pc, _COMPARE[op])(left, right)
    if not (_any(left_nan) or _any(right_nan)):
        return plain
    order = pc.subtract(pc.cast(left_nan, pa.int8()), pc.cast(right_nan, pa.int8()))
    either = pc.or_(left_nan, right_nan)
    return pc.if_else(either, getattr(pc, _COMPARE[op])(order, pa.scalar(0, pa.int8())), plain)


def _shown(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):
        return f"a {value.type} outside the years 1 to 9999"


def _any(flags: Any) -> bool:
    if isinstance(flags, pa.Scalar):
        return bool(flags.as_py())
    return bool(pc.any(flags, min_count=0).as_py())


def _rows(value: Any, count: int, data_type: pa.DataType) -> pa.Array:
    """`value` as an array of `count` rows."""
    if isinstance(value, pa.Scalar):
        return pa.nulls(count, data_type) if not value.is_valid else pa.repeat(value, count)
    return as_array(value)


@singledispatch
def _value(expr: Node, data: Data) -> Any:
    raise NotImplementedError(type(expr).__name__)


@_value.register
def _(expr: Column, data: Data) -> Any:
    index = data.schema.get_field_index(expr.name)
    if index < 0:
        raise InvalidArgument(f"the data has no column {expr.name!r} that the predicate reads", column=expr.name)
    values = as_array(data.column(index))
    for name in expr.path:
        position = values.type.get_field_index(name)
        values = pc.struct_field(values, [position])
    return cast_or_null(values, expr.data_type)


@_value.register
def _(expr: Literal, _: Data) -> Any:
    return expr.value


@_value.register
def _(expr: Cast, data: Data) -> Any:
    values = _value(expr.child, data)
    scalar = isinstance(values, pa.Scalar)
    source = pa.array([values.as_py()], values.type) if scalar else as_array(values)
    result = cast_or_null(source, expr.data_type, zone=expr.zone)
    if expr.strict and result.null_count > source.null_count:
        bad = source.filter(pc.and_(pc.is_null(result), pc.is_valid(source)))[0]
        raise ValueFault(f"{_shown(bad)} is no {expr.data_type}; try_cast gives null instead")
    return result[0] if scalar else result


@_value.register
def _(expr: Comparison, data: Data) -> Any:
    return compare(expr.op, _value(expr.left, data), _value(expr.right, data))


@_value.register
def _(expr: In, data: Data) -> Any:
    child = _value(expr.child, data)
    values = _rows(child, data.num_rows, expr.child.type)
    if pa.types.is_floating(expr.child.type) or pa.types.is_null(expr.child.type):
        hits = pa.repeat(pa.scalar(value=False), len(values))
        for value in expr.values:
            hits = pc.or_(hits, pc.fill_null(compare("=", values, value), False))  # noqa: FBT003 - Arrow's order
    else:
        wanted = pa.array([value.as_py() for value in expr.values], expr.child.type)
        hits = pc.is_in(values, wanted)
    unknown = pc.is_null(values)
    if expr.has_null:
        unknown = pc.or_(unknown, pc.invert(hits))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), hits)


@_value.register
def _(expr: IsNull, data: Data) -> Any:
    return pc.is_null(_value(expr.child, data))


@_value.register
def _(expr: Like, data: Data) -> Any:
    values = _rows(_value(expr.child, data), data.num_rows, expr.child.type)
    if expr.kind == "rlike":
        return java_pattern(expr.pattern).matches(values)
    if expr.kind == "ilike":
        return pc.match_substring_regex(recased(values, "lower"), like_to_regex(expr.pattern.lower(), expr.escape))
    return pc.match_substring_regex(values, like_to_regex(expr.pattern, expr.escape))


@_value.register
def _(expr: TextMatch, data: Data) -> Any:
    values = _rows(_value(expr.child, data), data.num_rows, expr.child.type)
    run = {"startswith": pc.starts_with, "endswith": pc.ends_with, "contains": pc.match_substring}[expr.kind]
    return run(values, expr.text)


@_value.register
def _(expr: Not, data: Data) -> Any:
    return pc.invert(_value(expr.child, data))


@_value.register
def _(expr: And, data: Data) -> Any:
    return _junction(expr.terms, data, decided=False)


@_value.register
def _(expr: Or, data: Data) -> Any:
    return _junction(expr.terms, data, decided=True)


def _junction(terms: tuple[Node, ...], data: Data, *, decided: bool) -> Any:
    """Terms combined; a term that fails is tried again on the rows that the terms before it leave open."""
    combine = pc.or_kleene if decided else pc.and_kleene
    result = pa.repeat(pa.scalar(not decided), data.num_rows)
    for term in terms:
        try:
            value = _rows(_value(term, data), data.num_rows, pa.bool_())
        except ValueFault:
            is_open = pc.fill_null(pc.not_equal(pc.cast(result, pa.int8()), int(decided)), True)  # noqa: FBT003
            if pc.all(is_open, min_count=0).as_py():
                raise
            narrowed = data.filter(is_open)
            value = _rows(_value(term, narrowed), narrowed.num_rows, pa.bool_())
            value = pc.replace_with_mask(pa.repeat(pa.scalar(decided), data.num_rows), is_open, value)
        result = combine(result, value)
    return result


@_value.register
def _(expr: Call, data: Data) -> Any:
    args = [_value(arg, data) for arg in expr.args]
    constant_tail = expr.name == "substring"
    if any(isinstance(arg, pa.Array) for arg in args) or constant_tail:
        args[0] = _rows(args[0], data.num_rows, expr.args[0].type)
    return pc.cast(apply(expr.name, args, expr.zone), expr.data_type)
