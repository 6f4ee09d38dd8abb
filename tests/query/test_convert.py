"""Casts of Arrow values, as SQL has them."""

from __future__ import annotations

import decimal
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import QueryInvalid
from indextables.query.convert import cast_or_null
from indextables.query.evaluate import evaluate
from indextables.query.parse import parse
from indextables.query.stats import OURS, typed_bounds


def answer(where, values, data_type, zone="UTC"):
    data = pa.table({"c": pa.array(values, data_type)})
    return evaluate(parse(where, data.schema, time_zone=zone), data).to_pylist()


@settings(deadline=None)
@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_a_decimal_becomes_the_nearest_floating_point_number(digits, scale):
    value = decimal.Decimal(digits).scaleb(-scale, decimal.Context(prec=60))
    cast = cast_or_null(pa.array([value, None], pa.decimal128(38, scale)), pa.float64())
    assert cast.to_pylist() == [float(value), None]


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15))
def test_a_number_is_found_by_the_text_that_python_prints_for_it(number):
    data = pa.table({"d": [number]})
    assert evaluate(parse(f"d = {number!r}", data.schema), data).to_pylist() == [True]


@settings(deadline=None)
@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38), st.integers(1, 38), st.integers(0, 38))
def test_a_decimal_of_another_scale_is_rounded_half_up_or_nothing(digits, scale, precision, target_scale):
    target_scale = min(precision, target_scale)
    source, target = pa.decimal128(38, scale), pa.decimal128(precision, target_scale)
    value = decimal.Decimal(digits).scaleb(-scale, decimal.Context(prec=60))
    step = decimal.Decimal(1).scaleb(-target_scale)
    rounded = value.quantize(step, decimal.ROUND_HALF_UP, decimal.Context(prec=120))
    expected = rounded if abs(rounded) < decimal.Decimal(10) ** (precision - target_scale) else None
    assert cast_or_null(pa.array([value, None], source), target).to_pylist() == [expected, None]
    assert cast_or_null(pa.array([f"{value:f}", None]), target).to_pylist() == [expected, None]


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False).filter(bool))
def test_the_remainder_of_floating_point_numbers_is_exact(left, right):
    data = pa.table({"l": [left, None], "r": [right, right]})
    found = evaluate(parse(f"l % r = cast('{math.fmod(left, right)!r}' as double)", data.schema), data)
    assert found.to_pylist() == [True, None]


def test_nanoseconds_count_in_comparisons():
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        values = [0, 1, 1_000, -1, None]
        assert answer("c = date '1970-01-01'", values, kind) == [True, False, False, False, None]
        assert answer("c > timestamp '1970-01-01 00:00:00'", values, kind) == [False, True, True, False, None]
        assert answer("c = '1970-01-01 00:00:00.000000001'", values, kind) == [False, True, False, False, None]
        assert answer("cast(c as date) = date '1969-12-31'", values, kind) == [False, False, False, True, None]
        with pytest.raises(QueryInvalid):
            answer("c < '9999-12-31'", values, kind)


def test_times_beyond_microseconds_are_compared_in_their_own_unit_or_refused():
    far = [0, 2**62, -(2**62), None]
    for kind in (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("s", "UTC")):
        assert answer("c < '2020-01-01'", far, kind) == [True, False, True, None]
        assert answer("c in ('1970-01-01')", far, kind) == [True, False, False, None]
        for where in ("c = date '1970-01-01'", "c < timestamp '2020-01-01 00:00:00'"):
            with pytest.raises(QueryInvalid):
                answer(where, far, kind)
        assert answer("try_cast(c as timestamp_ntz) is null", far[:2], kind) == [False, True]


def test_times_at_the_ends_of_their_type_are_told_from_others():
    ends = [0, 2**63 - 1, -(2**63) + 1]
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        assert answer("c < timestamp '2020-01-01 00:00:00'", ends, kind) == [True, False, True]
        assert answer("year(c) = 1970 and cast(c as date) = date '1970-01-01'", ends, kind) == [True, False, False]
    with pytest.raises(QueryInvalid):
        answer("c < timestamp '2020-01-01 00:00:00'", ends, pa.timestamp("us"), "America/New_York")


def test_dates_that_no_time_reaches_are_refused_as_times():
    days = [0, 2**31 - 1, -(2**31)]
    assert answer("c < '2020-01-01'", days, pa.date32()) == [True, False, True]
    with pytest.raises(QueryInvalid):
        answer("c < timestamp '2020-01-01 00:00:00'", days, pa.date32())


@pytest.mark.parametrize("text", ["2024-01-01T00:00:00.123456Z", "9999-12-31", "1700000000123456", "253402300799"])
@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("ns"), pa.date32()])
def test_a_logged_bound_that_its_type_cannot_hold_is_none(text, kind):
    lower, upper = typed_bounds(pa.array([text]), pa.array([text]), kind, OURS)
    assert len(lower) == len(upper) == 1
    assert lower.type == upper.type == kind
