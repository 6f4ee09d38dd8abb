"""Statistics in a Delta log spare opening files, and never lose a row."""

from __future__ import annotations

import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import indextables
from indextables.foreign.columns import Match
from indextables.foreign.delta.skipping import stats_mask
from indextables.query.evaluate import evaluate
from indextables.query.parse import parse

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("ratio", pa.float64()),
        ("ok", pa.bool_()),
    ]
)
START = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def row(i):
    at = START + dt.timedelta(microseconds=i * 333_333)
    return {
        "id": i,
        "text": f"{i:03d} " + "x" * (40 if i % 2 else 5) + str(i),
        "at": at,
        "local": at.replace(tzinfo=None),
        "day": dt.date(1500 + i, 1, 1),
        "price": decimal.Decimal(i) / 4,
        "ratio": float("nan") if i % 5 == 0 else i / 8,
        "ok": i % 20 < 10,
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("skipping") / "t"
    for first in range(0, 40, 5):
        write_deltalake(path, pa.Table.from_pylist([row(i) for i in range(first, first + 5)], SCHEMA), mode="append")
    DeltaTable(path).create_checkpoint()
    return indextables.open(path)


@pytest.mark.parametrize(
    ("where", "most"),
    [
        ("id > 37", 1),
        ("id BETWEEN 3 AND 6", 2),
        ("id IN (1, 39)", 2),
        ("text < '004'", 1),
        ("at >= TIMESTAMP '2026-01-01 12:00:12.999987Z'", 1),
        ("local >= TIMESTAMP_NTZ '2026-01-01 12:00:12.999987'", 1),
        ("day = DATE '1507-01-01'", 1),
        ("price >= 9.75", 1),
        ("NOT ok AND id < 20", 2),
        ("id IS NULL", 0),
        ("ratio > 1000", 8),
        ("id = 3 OR day > DATE '1538-06-01'", 2),
        ("text = '003 " + "x" * 40 + "3'", 1),
    ],
)
def test_files_that_cannot_match_are_left_out_and_no_row_is_lost(table, where, most):
    assert table.files(where).num_rows <= most
    whole = table.to_arrow()
    kept = whole.filter(evaluate(parse(where, whole.schema, time_zone="UTC"), whole))["id"].to_pylist()
    assert sorted(table.to_arrow(["id"], where=where)["id"].to_pylist()) == sorted(kept)
    assert table.count(where=where) == len(kept)


def may_match(stats, where):
    told = pa.array(
        [text if text is None or isinstance(text, str) else json.dumps(text) for text in stats], pa.string()
    )
    found = stats_mask(told, parse(where, SCHEMA, time_zone="UTC"), SCHEMA, Match.PLAIN)
    return [True] * len(told) if found is None else found.to_pylist()


def bounds(column, low, high, **more):
    return {"numRecords": 3, "minValues": {column: low}, "maxValues": {column: high}, **more}


def test_instants_are_cut_to_milliseconds_and_texts_to_32_characters():
    at = bounds("at", "2026-01-01T12:00:00.000Z", "2026-01-01T12:00:00.123Z")
    assert may_match([at], "at >= TIMESTAMP '2026-01-01 12:00:00.123999Z'") == [True]
    assert may_match([at], "at >= TIMESTAMP '2026-01-01 12:00:00.124Z'") == [False]
    day = bounds("local", "2026-01-01", "2026-01-02")
    assert may_match([day], "local >= TIMESTAMP_NTZ '2026-01-02 00:00:00'") == [True]
    assert may_match([day], "local >= TIMESTAMP_NTZ '2026-01-03 00:00:00'") == [False]
    assert may_match([bounds("text", "a", "m" * 32)], "text > 'n'") == [True]
    assert may_match([bounds("text", "a", "m" * 31)], "text > 'n'") == [False]
    assert may_match([bounds("ratio", 0.0, 1.0)], "ratio > 2") == [True]


@pytest.mark.parametrize(
    "strange",
    [
        None,
        "",
        "{}",
        "[]",
        "nothing",
        '{"minValues": 3}',
        bounds("id", "x", "y"),
        bounds("id", 9, 1),
        '{"minValues":\n{}}',
    ],
)
def test_statistics_that_tell_nothing_leave_no_file_out(strange):
    assert may_match([strange, bounds("id", 5, 9)], "id = 3")[0] is True


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 30), st.booleans()), min_size=1, max_size=6),
    st.integers(-60, 60),
)
def test_no_file_with_a_match_is_left_out(files, asked):
    stats = [bounds("id", low, low + width) if is_told else None for low, width, is_told in files]
    for sign, matches in [("=", lambda v: v == asked), ("<", lambda v: v < asked), (">=", lambda v: v >= asked)]:
        may = may_match(stats, f"id {sign} {asked}")
        for (low, width, is_told), answer in zip(files, may, strict=True):
            must = any(matches(value) for value in range(low, low + width + 1))
            assert answer >= must
            assert answer == must or not is_told
