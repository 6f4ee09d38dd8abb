"""Which data fits which table (V-20): nothing is rounded, cut or guessed, and every difference is named."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from indextables.errors import InvalidArgument, SchemaMismatch
from indextables.table.rows.rows import fit, read_rows

SCHEMA = pa.schema([("id", pa.int64()), ("Name", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
MOMENT = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def fitted(data, schema=SCHEMA) -> list[dict]:
    rows = fit(read_rows(data, schema), schema)
    return pa.Table.from_batches(list(rows.batches), rows.schema).to_pylist()


ONE = [{"id": 1, "Name": "x", "ts": MOMENT}]


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"id": [1], "Name": ["x"], "ts": pa.array([MOMENT], pa.timestamp("us", "UTC"))}),
        pa.RecordBatch.from_pydict({"id": [1], "Name": ["x"], "ts": pa.array([MOMENT], pa.timestamp("us", "UTC"))}),
        pa.table({"ts": pa.array([MOMENT], pa.timestamp("ms", "Europe/Berlin")), "NAME": ["x"], "ID": [1]}),
        pa.table({"id": pa.array([1], pa.int8()), "name": pa.array(["x"], pa.large_string()), "ts": [MOMENT]}),
        pa.table(
            {
                "id": [1],
                "name": pa.array(["x"]).dictionary_encode(),
                "ts": pa.array([MOMENT], pa.timestamp("ns", "UTC")),
            }
        ),
        pd.DataFrame({"id": [1], "Name": ["x"], "ts": [pd.Timestamp(MOMENT)]}, index=[7]),
        pl.DataFrame({"id": [1], "Name": ["x"], "ts": [MOMENT]}),
        [{"id": 1, "name": "x", "ts": MOMENT}],
    ],
    ids=["table", "batch", "other-order", "narrow", "dictionary", "pandas", "polars", "dicts"],
)
def test_data_in_any_form_becomes_rows_of_the_table(data):
    assert fitted(data) == ONE


def test_a_reader_is_taken_batch_by_batch():
    schema = pa.schema([("id", pa.int64())])
    taken = []

    def batches():
        for n in range(3):
            taken.append(n)
            yield pa.RecordBatch.from_pydict({"id": [n]})

    rows = fit(read_rows(pa.RecordBatchReader.from_batches(schema, batches())), schema)
    assert next(iter(rows.batches)).to_pylist() == [{"id": 0}]
    assert taken == [0]


def test_missing_columns_become_null_where_the_table_allows_it():
    assert fitted([{"id": 1}]) == [{"id": 1, "Name": None, "ts": None}]
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())])
    with pytest.raises(SchemaMismatch, match="id is missing and must not be null"):
        fitted(pa.table({"n": pa.array([1], pa.int32())}), strict)
    with pytest.raises(SchemaMismatch, match="id must not be null, the data has 1 nulls"):
        fitted(pa.table({"id": [None, 1]}), strict)


def test_every_difference_is_named_at_once():
    data = pa.table({"id": [1.5], "Name": [1], "extra": [1], "ts": pa.array([1], pa.timestamp("us"))})
    with pytest.raises(SchemaMismatch) as caught:
        fitted(data)
    assert caught.value.differences == [
        "id is double, the table has int64",
        "Name is int64, the table has string",
        "ts is timestamp[us], the table has timestamp[us, tz=UTC]",
        "extra is not a column of the table",
    ]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.int32(), pa.int64()),
        (pa.uint32(), pa.int64()),
        (pa.int32(), pa.float64()),
        (pa.float32(), pa.float64()),
        (pa.int64(), pa.decimal128(20, 0)),
        (pa.decimal128(5, 2), pa.decimal128(10, 4)),
        (pa.null(), pa.date32()),
        (pa.date64(), pa.date32()),
        (pa.time64("ns"), pa.time64("us")),
        (pa.time32("s"), pa.time64("us")),
        (pa.duration("ns"), pa.duration("us")),
        (pa.large_binary(), pa.binary()),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
        (pa.struct([("x", pa.int8())]), pa.struct([("x", pa.int16())])),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
    ],
    ids=str,
)
def test_narrower_types_are_widened(given, wanted):
    data = pa.table({"x": pa.nulls(1, given)})
    assert fitted(data, pa.schema([("x", wanted)])) == [{"x": None}]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.int64(), pa.int32()),
        (pa.uint64(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.float64(), pa.float32()),
        (pa.float64(), pa.int64()),
        (pa.decimal128(10, 4), pa.decimal128(10, 2)),
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int64()),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.date32(), pa.timestamp("us")),
        (pa.struct([("x", pa.int8())]), pa.struct([("y", pa.int8())])),
        (pa.list_(pa.int64()), pa.int64()),
    ],
    ids=str,
)
def test_unsafe_types_are_refused(given, wanted):
    with pytest.raises(SchemaMismatch, match="x is "):
        fitted(pa.table({"x": pa.nulls(1, given)}), pa.schema([("x", wanted)]))


def test_digits_that_would_be_lost_are_refused():
    nanos = pa.table({"ts": pa.array([1], pa.timestamp("ns", "UTC"))})
    with pytest.raises(SchemaMismatch, match="ts does not fit"):
        fitted(nanos, pa.schema([("ts", pa.timestamp("us", "UTC"))]))
    for given, wanted in ((pa.time64("ns"), pa.time64("us")), (pa.duration("ns"), pa.duration("us"))):
        schema = pa.schema([("t", wanted)])
        whole = fitted(pa.table({"t": pa.array([5000], given)}), schema)
        assert whole == [{"t": pa.scalar(5, wanted).as_py()}]
        with pytest.raises(SchemaMismatch, match="t does not fit"):
            fitted(pa.table({"t": pa.array([5001], given)}), schema)


def test_dicts_get_the_types_of_the_table_and_odd_values_are_named():
    schema = pa.schema([("n", pa.decimal128(5, 2)), ("small", pa.int8())])
    assert fitted([{"n": Decimal("1.5"), "small": 3}, {}], schema) == [
        {"n": Decimal("1.50"), "small": 3},
        {"n": None, "small": None},
    ]
    with pytest.raises(SchemaMismatch, match="small"):
        fitted([{"small": 300}], schema)
    with pytest.raises(SchemaMismatch, match="small"):
        fitted([{"small": "x"}], schema)
    with pytest.raises(SchemaMismatch, match="other is not a column"):
        fitted([{"small": 1}, {"other": 1}], schema)


def test_columns_that_differ_in_case_only_are_refused():
    with pytest.raises(SchemaMismatch, match="there twice"):
        fitted(pa.table([[1], [2]], names=["id", "ID"]))


@pytest.mark.parametrize("data", [5, "text", {"id": [1]}, [1, 2], np.zeros(3), None], ids=repr)
def test_anything_else_is_refused(data):
    with pytest.raises(InvalidArgument, match="cannot be written"):
        fitted(data)
