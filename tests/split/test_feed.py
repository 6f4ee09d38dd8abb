"""Every row becomes the document that its values say, however the batch was cut."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.options import Options
from indextables.split.file.reader import SplitReader
from indextables.split.file.scanning import scan
from indextables.split.index.fields import plan_fields
from indextables.split.write.feed import Feeder
from indextables.split.write.merge import RowDigest
from indextables.split.write.writer import write_splits
from indextables.storage import open_store

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.just("2024-01-31T23:59:59Z")
_TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))  # noqa: DTZ001 - made aware below

LEAVES = {
    "string": (pa.string(), _TEXT),
    "large": (pa.large_string(), _TEXT),
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "double": (pa.float64(), st.floats()),
    "date": (pa.date32(), st.dates()),
    "stamp": (pa.timestamp("us", tz="UTC"), _TIMES.map(lambda t: t.replace(tzinfo=dt.UTC))),
    "ntz": (pa.timestamp("us"), _TIMES),
    "binary": (pa.binary(), st.binary(max_size=8)),
    "decimal": (pa.decimal128(12, 3), st.decimals(-(10**6), 10**6, places=3)),
}


def _columns(depth: int):
    """An Arrow type with a strategy for its values."""
    leaf = st.sampled_from(sorted(LEAVES)).map(lambda name: LEAVES[name])
    if depth == 0:
        return leaf
    inner = _columns(depth - 1)

    def nullable(values):
        return st.one_of(st.none(), values)

    lists = inner.map(lambda c: (pa.list_(c[0]), st.lists(nullable(c[1]), max_size=3)))
    structs = st.tuples(inner, inner).map(
        lambda c: (
            pa.struct([("a", c[0][0]), ("b", c[1][0])]),
            st.fixed_dictionaries({"a": nullable(c[0][1]), "b": nullable(c[1][1])}),
        )
    )
    maps = inner.map(
        lambda c: (
            pa.map_(pa.string(), c[0]),
            st.dictionaries(_TEXT, nullable(c[1]), max_size=3).map(lambda found: list(found.items())),
        )
    )
    return st.one_of(leaf, lists, structs, maps)


@st.composite
def tables(draw):
    columns = draw(st.lists(_columns(2), min_size=1, max_size=4))
    rows = draw(st.integers(1, 12))
    arrays = []
    for kind, values in columns:
        arrays.append(pa.array(draw(st.lists(st.one_of(st.none(), values), min_size=rows, max_size=rows)), kind))
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])


def _document_value(kind, value):
    """What the index is told of one value of a plain kind."""
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (aware - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days
    return value


_SOME_TEXT = object()
"""A time or a decimal inside JSON: some text of it."""


def _json_value(value):
    """What the index is told of a value inside a JSON field, without what says nothing: nulls and empty containers."""
    if isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, list) and value and all(isinstance(v, tuple) for v in value):
        value = dict(value)
    if isinstance(value, dict):
        told = {k: _json_value(v) for k, v in value.items()}
        return {k: v for k, v in told.items() if not _silent(v)}
    if isinstance(value, list):
        return [v for v in map(_json_value, value) if not _silent(v)]
    return _SOME_TEXT if isinstance(value, dt.date | Decimal) else value


def _silent(value):
    return value is None or value in ([], {})


def _says(found, expected):
    if expected is _SOME_TEXT:
        return isinstance(found, str)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_says(found[k], v) for k, v in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(_says, found, expected))
    if isinstance(expected, str):
        # A text that looks like a time gets a blank at its end, lest it is indexed as one.
        return found in (expected, f"{expected} ")
    return found == expected and type(found) is type(expected)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(tables(), st.data())
def test_lines_say_what_the_rows_say_wherever_the_batch_begins(table, data):
    start = data.draw(st.integers(0, table.num_rows - 1))
    length = data.draw(st.integers(1, table.num_rows - start))
    plan = plan_fields(table.schema, Options({}, environ={}))
    batch = table.slice(start, length).to_batches()[0]
    lines = [json.loads(line) for line in Feeder(plan, table.schema).lines(batch)]
    assert len(lines) == length
    for field in plan.fields:
        values = batch.column(field.column).to_pylist()
        for line, value in zip(lines, values, strict=True):
            found = line.get(field.id)
            if field.kind == "json":
                expected = _json_value(value)
                assert _says(_json_value(found), expected) or (_silent(_json_value(found)) and _silent(expected))
            elif field.multi:
                assert (found or []) == [_document_value(field.kind, v) for v in value or [] if v is not None]
            else:
                assert found == _document_value(field.kind, value)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(tables(), st.data())
def test_any_table_is_written_and_read_bit_for_bit(table, data):
    store = open_store("memory://any-table")
    cut = data.draw(st.integers(0, table.num_rows))
    parts = [t for t in (table.slice(0, cut), table.slice(cut)) if t.num_rows]
    (split,) = write_splits(store, parts, table.schema, Options({}, environ={}))
    reader = SplitReader(store, split.ref)
    rows = data.draw(st.lists(st.integers(0, table.num_rows - 1), min_size=1, max_size=6))
    for found, expected in (
        (pa.Table.from_batches(scan(reader)), table),
        (reader.fetch(rows), table.take(rows)),
    ):
        digests = [RowDigest(), RowDigest()]
        for digest, side in zip(digests, (found, expected), strict=True):
            for batch in side.combine_chunks().to_batches():
                digest.update(batch)
        assert digests[0].value() == digests[1].value()
    store.delete_many([split.key])
