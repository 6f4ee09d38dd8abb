"""Casts of Arrow values, as SQL has them."""

from __future__ import annotations

import decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.query.convert import cast_or_null
from indextables.query.evaluate import evaluate
from indextables.query.parse import parse


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
