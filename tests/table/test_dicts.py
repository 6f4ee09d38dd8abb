"""Rows given as dicts keep their values, or are refused by the name of the column."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import indextables
from indextables.errors import SchemaMismatch
from indextables.table.rows.rows import read_rows

UTC = pa.timestamp("us", "UTC")
NAIVE = pa.timestamp("us")
NOON = dt.datetime.fromisoformat("2024-01-01T12:00:00.000005")
TOKYO = dt.timezone(dt.timedelta(hours=9))


def column(data_type: pa.DataType, *values: object) -> list[object]:
    rows = read_rows([{"v": value} for value in values], pa.schema([("v", data_type)]))
    return pa.Table.from_batches(rows.batches, rows.schema)["v"].to_pylist()


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int32(), -2.9),
        (pa.int64(), float("nan")),
        (pa.int64(), 2**64),
        (pa.int64(), "1"),
        (pa.float32(), 1e300),
        (pa.float32(), 1e-300),
        (pa.float64(), 2**53 + 1),
        (pa.date32(), NOON),
        (UTC, pd.Timestamp("2024-01-01 00:00:00.000000001", tz="UTC")),
        (NAIVE, pd.Timestamp("2024-01-01 00:00:00.000000001")),
        (NAIVE, dt.datetime(2024, 1, 1, tzinfo=TOKYO)),
        (UTC, 5),
        (UTC, dt.date(2024, 1, 1)),
        (pa.string(), b"ab"),
        (pa.string(), b"\xff"),
        (pa.string(), "\ud800"),
        (pa.binary(), "é"),
        (pa.struct([("a", pa.int32())]), {"a": 1.7}),
        (pa.struct([("a", pa.int32())]), {"zz": 1}),
        (pa.struct([("a", pa.int32())]), {"a": 1, "zz": None}),
        (pa.list_(pa.int32()), [1.9]),
        (pa.list_(pa.int32()), [1, [2]]),
        (pa.list_(pa.struct([("a", pa.date32())])), [{"a": NOON}]),
        (pa.map_(pa.string(), pa.int32()), {"a": 1.5}),
        (pa.decimal128(10, 2), decimal.Decimal("1.123")),
        (pa.decimal128(10, 2), 1.1),
        (pa.duration("us"), pd.Timedelta(1, "ns")),
    ],
)
def test_a_value_that_would_change_is_refused(tmp_path, data_type, value):
    with pytest.raises(SchemaMismatch, match="'v'"):
        column(data_type, None, value)
    table = indextables.create(tmp_path / "t", pa.schema([("k", pa.int64()), ("v", data_type)]))
    with pytest.raises(SchemaMismatch, match="'v'"):
        table.append([{"k": 1, "v": value}])
    assert indextables.open(tmp_path / "t").version == 0


@pytest.mark.parametrize(
    ("data_type", "value", "kept"),
    [
        (pa.int64(), 1.0, 1),
        (pa.int64(), np.int32(7), 7),
        (pa.float64(), float("inf"), float("inf")),
        (pa.float32(), 0.1, np.float32(0.1)),
        (pa.float32(), 0, 0.0),
        (UTC, NOON, NOON.replace(tzinfo=dt.UTC)),
        (UTC, NOON.replace(tzinfo=TOKYO), NOON.replace(tzinfo=TOKYO)),
        (NAIVE, NOON, NOON),
        (NAIVE, np.datetime64("2024-01-01T12:00:00", "us"), NOON.replace(microsecond=0)),
        (pa.date32(), dt.date(2024, 1, 1), dt.date(2024, 1, 1)),
        (pa.decimal128(10, 2), 5, decimal.Decimal("5.00")),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1}, {"a": 1, "b": None}),
        (pa.list_(pa.int32()), np.array([1, 2]), [1, 2]),
        (pa.list_(pa.float64()), (1, None), [1.0, None]),
        (pa.map_(pa.string(), pa.int32()), {"a": 1}, [("a", 1)]),
        (pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", None)], [("a", 1), ("b", None)]),
    ],
)
def test_a_value_of_the_type_is_kept(data_type, value, kept):
    assert column(data_type, value, None) == [kept, None]


def test_not_a_number_stays_one():
    assert str(column(pa.float64(), float("nan"), np.float64("nan"))) == "[nan, nan]"
    assert str(column(pa.float32(), float("nan"))) == "[nan]"


@given(st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1), st.floats(width=64)), min_size=1))
def test_numbers_are_kept_exactly_or_refused(values):
    try:
        kept = column(pa.int32(), *values)
    except SchemaMismatch:
        assert any(isinstance(value, float) for value in values)
    else:
        assert kept == values


def test_rows_without_any_value_are_rows(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    table = indextables.create(tmp_path / "t", schema)
    table.append([{}, {}])
    table.append(pa.table({"x": [1]}).select([]))
    table.append(pa.record_batch({"x": [1, 2, 3]}).select([]))
    table.append(pd.DataFrame(index=range(2)))
    assert table.count() == 8
    assert table.to_arrow().to_pylist() == [{"id": None, "s": None}] * 8


def test_rows_without_any_value_do_not_fit_where_one_is_needed(tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string())])
    table = indextables.create(tmp_path / "t", schema)
    with pytest.raises(SchemaMismatch, match="id is missing"):
        table.append([{}, {}])


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (
            pa.timestamp("us", "UTC"),
            "2025-01-01",
            r"'2025-01-01' is a str, and .* takes a datetime\.datetime, as datetime",
        ),
        (pa.timestamp("us"), dt.date(2025, 1, 1), r"is a date, and .* takes a datetime\.datetime"),
        (pa.date32(), "2025-01-01", r"takes a datetime\.date, as date\.fromisoformat"),
        (pa.struct([("x", pa.date32())]), {"x": "2025-01-01"}, r"takes a datetime\.date,"),
        (pa.list_(pa.timestamp("us")), [None, "2025-01-01"], r"takes a datetime\.datetime,"),
    ],
)
def test_a_text_where_a_time_belongs_is_answered_with_what_to_give(kind, value, words):
    with pytest.raises(SchemaMismatch, match=rf"the values of 'v' do not fit: .*{words}"):
        column(kind, None, value)


OF_ARROW = [
    "Expected bytes",
    "Could not convert",
    "tried to convert",
    "too large to convert",
    "object",
    "C int",
    "C long",
]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (pa.string(), 5, "5 is an int, and string takes a str"),
        (pa.binary(), 5, "5 is an int, and binary takes bytes"),
        (pa.bool_(), "x", "'x' is a str, and bool takes a bool"),
        (pa.int32(), "x", "'x' is a str, and int32 takes an int"),
        (pa.int64(), True, "True is a bool, and int64 takes an int"),
        (pa.int32(), 2**31, "2147483648 is outside of int32, which holds -2147483648 to 2147483647"),
        (pa.int8(), -129, "-129 is outside of int8, which holds -128 to 127"),
        (pa.int64(), 2**63, "9223372036854775808 is outside of int64"),
        (pa.int64(), 10**30, "is outside of int64"),
        (pa.float64(), "x", "'x' is a str, and double takes a float"),
        (pa.float64(), 10**400, "double takes a float"),
        (pa.decimal128(5, 2), "x", "takes a decimal.Decimal"),
        (pa.decimal128(5, 2), decimal.Decimal(1234567), "takes a decimal.Decimal"),
        (pa.list_(pa.string()), ["a", 5], "5 is an int, and string takes a str"),
        (pa.list_(pa.string()), 5, "takes a list"),
        (pa.struct([("x", pa.int8())]), {"x": 300}, "x: 300 is outside of int8"),
        (pa.struct([("x", pa.int8())]), 7, "takes a dict"),
        (pa.map_(pa.string(), pa.int8()), {"k": 300}, "300 is outside of int8"),
        (pa.map_(pa.string(), pa.int8()), {7: 3}, "7 is an int, and string takes a str"),
        (None, [1, "a"], "'a' is a str, 1 before it an int"),
        (None, [10**30], "needs more than 64 bits"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_told_in_our_words(kind, value, words):
    with pytest.raises(SchemaMismatch, match="the values of 'v' do not fit") as caught:
        read_rows([{"v": one} for one in (value if kind is None else [None, value])], kind and pa.schema([("v", kind)]))
    assert words in str(caught.value)
    assert not [word for word in OF_ARROW if word in str(caught.value)], str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("piecewise", [list, iter], ids=["list", "iterator"])
@pytest.mark.parametrize(
    ("kind", "value", "becomes"),
    [
        (pa.int32(), 3_000_000_000, pa.int64()),
        (pa.int8(), 300, pa.int16()),
        (pa.int8(), 70_000, pa.int32()),
        (pa.int16(), -(2**63), pa.int64()),
        (pa.float32(), 1e300, pa.float64()),
        (pa.int32(), 5, pa.int32()),
        (pa.float32(), 0.1, pa.float32()),
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", ["append", "overwrite"])
def test_dicts_widen_a_column_where_the_schema_may_merge(tmp_path, verb, kind, value, becomes, piecewise):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("V", kind)]))
    table.append([{"id": 1, "V": 1}])
    if becomes != kind:
        with pytest.raises(SchemaMismatch):
            getattr(table, verb)(piecewise([{"id": 2, "v": value}]))
    getattr(table, verb)(piecewise([{"id": 2, "v": value}, {"id": 3, "v": None, "new": "x"}]), merge_schema=True)
    assert table.schema.field("V").type == becomes
    assert table.schema.names == ["id", "V", "new"]
    rows = {row["id"]: row["V"] for row in table.to_arrow().to_pylist()}
    assert rows[2] == pa.scalar(value, becomes).as_py()
    assert rows.get(1, 1) == 1


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.int32(), 1.5), (pa.int32(), 2**63), (pa.int64(), 10**30), (pa.int8(), "x")]
)
def test_dicts_whose_values_no_wider_type_holds_are_refused(tmp_path, kind, value):
    table = indextables.create(tmp_path / "t", pa.schema([("v", kind)]))
    with pytest.raises(SchemaMismatch, match="'v'"):
        table.append([{"v": value}], merge_schema=True)
    assert table.refresh().version == 0
