from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.options import Options
from indextables.split.file.stats import StatsBuilder, cut_maximum


def _stats(table, uncut=(), **given_options):
    options = Options({k.replace("__", "."): v for k, v in given_options.items()}, environ={})
    builder = StatsBuilder(table.schema, options, uncut=uncut)
    for start in range(0, table.num_rows, 2):
        builder.update(table.slice(start, 2))
    return builder.finish()


@given(st.text(max_size=60), st.integers(1, 12))
def test_a_cut_maximum_is_never_below_and_never_longer(text, limit):
    cut = cut_maximum(text, limit)
    if cut is not None:
        assert cut.encode("utf-8") >= text.encode("utf-8")
        assert len(cut) <= limit
    else:
        assert set(text[:limit]) == {"\U0010ffff"}


def test_a_cut_skips_what_are_no_characters():
    assert cut_maximum("\ud7ff" * 3, 1) == "\ue000"
    assert cut_maximum("a\U0010ffff\U0010ffff", 2) == "b"
    assert cut_maximum("\U0010ffff" * 3, 2) is None


def test_bounds_are_texts_and_typed_json():
    table = pa.table(
        {
            "n": pa.array([9, 10, None], pa.int32()),
            "s": ["b", "a", None],
            "x": pa.array([Decimal("1.50"), Decimal("-0.25"), None], pa.decimal128(10, 2)),
            "d": [dt.date(2024, 2, 29), dt.date(2023, 1, 1), None],
            "t": pa.array([1, 1_000_001, None], pa.timestamp("us", "Europe/Berlin")),
            "u": pa.array([1, 1_000_001, None], pa.timestamp("us")),
            "b": [True, False, None],
            "f": [0.0, 2.5, None],
        }
    )
    found = _stats(table)
    assert found.min_values == {
        "n": "9", "s": "a", "x": "-0.25", "d": "2023-01-01", "t": "1970-01-01T00:00:00.000001Z",
        "u": "1970-01-01T00:00:00.000001", "b": "false", "f": "-0.0",
    }  # fmt: skip
    assert found.max_values == {
        "n": "10", "s": "b", "x": "1.50", "d": "2024-02-29", "t": "1970-01-01T00:00:01.000001Z",
        "u": "1970-01-01T00:00:01.000001", "b": "true", "f": "2.5",
    }  # fmt: skip
    assert found.null_counts == dict.fromkeys(table.column_names, 1)
    logged = json.loads(found.json)
    assert logged["numRecords"] == 3
    assert logged["minValues"]["n"] == 9
    assert logged["maxValues"]["x"] == 1.5
    assert logged["nullCount"]["f"] == 1


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(pa.array([1.0, float("nan")]), id="NaN"),
        pytest.param(pa.array([None, None], pa.int64()), id="only nulls"),
        pytest.param(pa.array([b"a", b"b"]), id="binary"),
        pytest.param(pa.array([[1], [2]]), id="list"),
        pytest.param(pa.array([2**62, 2**62], pa.timestamp("us")), id="beyond the year 9999"),
        pytest.param(pa.array([2**62, 2**62], pa.timestamp("s")), id="beyond microseconds"),
        pytest.param(pa.array([1, 2], pa.timestamp("ns")), id="nanoseconds"),
        pytest.param(pa.array([float("inf"), float("inf")]), id="infinity"),
    ],
)
def test_what_cannot_be_said_exactly_is_not_said(values):
    found = _stats(pa.table({"c": values}))
    assert found.min_values == {}
    assert found.max_values == {}


def test_one_side_may_be_known_alone():
    found = _stats(pa.table({"c": [1.0, float("inf")]}))
    assert (found.min_values, found.max_values) == ({"c": "1.0"}, {})


def test_long_strings_are_cut_unless_they_are_partition_values_or_cutting_is_off():
    table = pa.table({"p": ["x" * 40, "y" * 40], "s": ["x" * 40, "y" * 40]})
    found = _stats(table, uncut=["p"])
    assert found.max_values == {"p": "y" * 40, "s": "y" * 31 + "z"}
    assert found.min_values == {"p": "x" * 40, "s": "x" * 32}
    assert _stats(table, stats__truncation__maxLength="2").max_values["s"] == "yz"
    assert _stats(table, stats__truncation__enabled="false").max_values["s"] == "y" * 40


def test_only_the_first_columns_have_statistics():
    table = pa.table({f"c{i:02d}": [i] for i in range(40)})
    assert len(_stats(table).min_values) == 32
    assert set(_stats(table, dataSkippingNumIndexedCols="2").null_counts) == {"c00", "c01"}


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=True)), min_size=1, max_size=8))
def test_float_bounds_hold_for_every_row(values):
    found = _stats(pa.table({"c": pa.array(values, pa.float64())}))
    numbers = [v for v in values if v is not None]
    if "c" in found.min_values:
        assert all(float(found.min_values["c"]) <= v for v in numbers)
    if "c" in found.max_values:
        assert all(float(found.max_values["c"]) >= v for v in numbers)


def test_structs_have_a_null_count_of_ours_but_none_in_the_json_that_delta_reads():
    found = _stats(pa.table({"s": [{"a": 1}, None], "l": [[1], None]}))
    assert found.null_counts == {"s": 1, "l": 1}
    assert json.loads(found.json)["nullCount"] == {"l": 1}
