"""Evaluates a predicate on Arrow data, exactly: true, false or unknown (null) for each row.

As Spark with ANSI SQL: three-valued logic, NaN equal to itself and above every other number, -0.0 equal to 0.0, texts
in the order of their UTF-8 bytes. A value that a strict cast or a function has no result for is `QueryInvalid`, unless
its row never gets there: AND and OR leave out the rows that the terms before have decided, and each branch of CASE, IF
and COALESCE sees the rows that come to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import singledispatch
from typing import Any, TypeAlias

import numpy as np
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
    columns_of,
    walk,
)
from indextables.query.functions import ValueFault, apply, is_number, is_text, recased
from indextables.query.java_match import java_pattern

__all__ = ["can_fail", "compare", "evaluate", "evaluate_value", "like_to_regex"]

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
# Functions that have a result for every value; of the others some values may have none.
_TOTAL = frozenset(
    {
        "case",
        "coalesce",
        "concat",
        "isnan",
        "length",
        "lower",
        "ltrim",
        "reverse",
        "rtrim",
        "substring",
        "trim",
        "upper",
    }
)


def evaluate(expr: Node, data: Data) -> pa.BooleanArray:
    """One boolean per row of `data`, null where the predicate is unknown; a filter keeps the rows that are true.

    Raises QueryInvalid for values that a cast or a function refuses, InvalidArgument if `data` lacks a column.
    """
    if not pa.types.is_boolean(expr.type):
        raise QueryInvalid(f"a predicate must be true or false, this one gives {expr.type}", query="", position=0)
    if not data.num_rows:
        return pa.array([], pa.bool_())
    return _rows(evaluate_value(expr, data, what="the predicate"), data.num_rows, pa.bool_())


def evaluate_value(expr: Node, data: Data, *, what: str = "the expression") -> Any:
    """The values of any expression: an Arrow array, or a scalar where it is constant. Raises as `evaluate`.

    `what` is how an error calls the expression.
    """
    try:
        return _value(expr, data)
    except ValueFault as fault:
        raise QueryInvalid(f"{what} cannot be computed: {fault}", query="", position=0) from fault


def can_fail(expr: Node) -> bool:
    """True if there may be rows for which `expr` is an error rather than a value, so that guards before it matter."""
    return any(
        (isinstance(node, Call) and node.name not in _TOTAL and not _divides_by_constant(node))
        or (isinstance(node, Cast) and node.strict and not _is_total(node.child.type, node.type))
        for node in walk(expr)
    )


def _divides_by_constant(call: Call) -> bool:
    """True for a quotient or remainder of a constant above zero, which every number has."""
    if call.name not in {"/", "%", "div"}:
        return False
    divisor = call.args[1]
    return isinstance(divisor, Literal) and divisor.value.is_valid and divisor.value.as_py() > 0


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
    """Terms combined, left to right; a term that may fail sees only the rows that the terms before it leave open."""
    combine = pc.or_kleene if decided else pc.and_kleene
    result = pa.repeat(pa.scalar(not decided), data.num_rows)
    for term in terms:
        if can_fail(term):
            is_open = _true(pc.is_null(result)) | (_true(result) != decided)
            value = pa.repeat(pa.scalar(decided), data.num_rows)
            value = pc.replace_with_mask(value, pa.array(is_open), _on(term, _kept(term, data, is_open)))
        else:
            value = _rows(_value(term, data), data.num_rows, pa.bool_())
        result = combine(result, value)
    return result


@_value.register
def _(expr: Call, data: Data) -> Any:
    if expr.name in ("case", "coalesce") and any(map(can_fail, expr.args)):
        return pc.cast(_branches(expr, data), expr.data_type)
    args = [_value(arg, data) for arg in expr.args]
    constant_tail = expr.name == "substring"
    if any(isinstance(arg, pa.Array) for arg in args) or constant_tail:
        args[0] = _rows(args[0], data.num_rows, expr.args[0].type)
    return pc.cast(apply(expr.name, args, expr.zone), expr.data_type)


def _branches(expr: Call, data: Data) -> pa.Array:
    """CASE and COALESCE, branch by branch, each on the rows that none before it took."""
    data = _kept(expr, data, np.ones(data.num_rows, bool))
    places = np.arange(data.num_rows)
    found: list[pa.Array] = []
    order: list[Any] = []
    for condition, value in _arms(expr):
        values = None if condition is not None else _on(value, data)
        taken = _true(_on(condition, data)) if condition is not None else _true(pc.is_valid(values))
        found.append(_on(value, _kept(value, data, taken)) if values is None else values.filter(pa.array(taken)))
        order.append(places[taken])
        data, places = data.filter(pa.array(~taken)), places[~taken]
    default = expr.args[-1] if expr.name == "case" else Literal(pa.scalar(None, expr.type))
    found.append(_on(default, data))
    order.append(places)
    return pa.concat_arrays(found).take(pa.array(np.argsort(np.concatenate(order))))


def _arms(expr: Call) -> Iterator[tuple[Node | None, Node]]:
    """The values in turn, each with its condition; those of COALESCE have none, and take where they are not null."""
    if expr.name == "case":
        yield from zip(expr.args[0:-1:2], expr.args[1:-1:2], strict=True)
    else:
        yield from ((None, value) for value in expr.args)


def _on(expr: Node, data: Data) -> pa.Array:
    """The values of `expr`, one for each row; without rows nothing is computed, not even a constant."""
    if not data.num_rows:
        return pa.nulls(0, expr.type)
    return _rows(_value(expr, data), data.num_rows, expr.type)


def _kept(expr: Node, data: Data, rows: Any) -> Data:
    """Those rows of the columns that `expr` reads."""
    places = [place for name in columns_of(expr) if (place := data.schema.get_field_index(name)) >= 0]
    if not places:
        # Arrow's tables forget their length with their last column.
        return pa.table({"": pa.nulls(int(rows.sum()))})
    return data.select(places) if rows.all() else data.select(places).filter(pa.array(rows))


def _true(flags: pa.Array) -> Any:
    """Arrow booleans as a numpy mask: true, and neither false nor unknown."""
    return pc.fill_null(flags, False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's order


def _is_total(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of `source` is one of `target`."""
    if is_text(target):
        return is_text(source) or is_number(source) or bool(pa.types.is_boolean(source))
    if not pa.types.is_integer(source):
        return bool(pa.types.is_null(source) or (pa.types.is_floating(source) and pa.types.is_float64(target)))
    wider = pa.types.is_integer(target) and (
        pa.types.is_signed_integer(source) == pa.types.is_signed_integer(target)
        and target.bit_width >= source.bit_width
    )
    return wider or bool(pa.types.is_float32(target) or pa.types.is_float64(target))
