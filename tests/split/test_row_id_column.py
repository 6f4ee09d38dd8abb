"""The hidden column of row ids, as readers of one split meet it, or do not."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from indextables.options import Options
from indextables.split.file import ROW_ID, SplitReader, ids_at, scan, with_ids
from indextables.split.write.merge import merge_splits
from indextables.split.write.writer import write_splits
from indextables.storage import open_store

SCHEMA = pa.schema([("key", pa.int64()), ("word", pa.string())])
OPTIONS = Options({}, environ={})


def write(store, schema, **columns):
    (split,) = write_splits(store, [pa.table(columns, schema=schema)], schema, OPTIONS)
    return split


def numbered(split, base):
    return msgspec.structs.replace(split.ref, base_row_id=base)


@pytest.fixture
def store():
    return open_store("memory://row-id-column")


@pytest.fixture
def brought(store):
    """A split of which two rows bring an id and one has none yet."""
    schema = with_ids(SCHEMA)
    return write(store, schema, key=[1, 2, 3], word=["a", "b", "c"], **{ROW_ID: [70, None, 50]})


def test_all_columns_are_those_of_the_table(store, brought):
    reader = SplitReader(store, brought.ref)
    assert reader.schema.names == ["key", "word"]
    assert pa.Table.from_batches(scan(reader)).column_names == ["key", "word"]
    assert reader.fetch([2, 0]).column_names == ["key", "word"]
    assert brought.statistics.min_values.keys() == {"key", "word"}
    assert ROW_ID not in brought.doc_mapping
    assert ROW_ID not in brought.statistics.json


@pytest.mark.parametrize(("base", "expected"), [(None, [70, None, 50]), (1000, [70, 1001, 50])])
def test_an_id_is_what_the_row_brought_else_it_counts_from_the_base(store, brought, base, expected):
    ref = numbered(brought, base)
    assert pa.Table.from_batches(scan(SplitReader(store, ref), ["word"], row_ids=True)).to_pydict() == {
        "word": ["a", "b", "c"],
        ROW_ID: expected,
    }
    found = ids_at(SplitReader(store, ref), np.array([2, 1]), base)
    assert found.to_pylist() == [expected[2], expected[1]]


def test_a_split_without_the_column_counts_from_its_base(store):
    plain = write(store, SCHEMA, key=[1, 2, 3], word=["a", "b", "c"])
    ids = pa.Table.from_batches(scan(SplitReader(store, numbered(plain, 5)), [], row_ids=True))
    assert ids.to_pydict() == {ROW_ID: [5, 6, 7]}
    nothing = pa.Table.from_batches(scan(SplitReader(store, plain.ref), ["key"], row_ids=True))
    assert nothing[ROW_ID].null_count == 3


def test_a_merge_of_splits_with_and_without_ids_keeps_what_is_known(store, brought):
    plain = write(store, SCHEMA, key=[4, 5], word=["d", "e"])
    merged = merge_splits(store, [numbered(brought, 200), numbered(plain, 300), plain.ref], OPTIONS, schema=SCHEMA)
    (split,) = merged.written
    rows = pa.Table.from_batches(scan(SplitReader(store, split.ref), ["key"], row_ids=True))
    assert rows[ROW_ID].to_pylist() == [70, 201, 50, 300, 301, None, None]
    without = merge_splits(store, [plain.ref, plain.ref], OPTIONS, schema=SCHEMA)
    assert not SplitReader(store, without.written[0].ref).has_row_ids


def test_a_column_of_a_user_that_has_the_name_is_the_users(store):
    schema = SCHEMA.append(pa.field(ROW_ID, pa.int64()))
    split = write(store, schema, key=[1], word=["a"], **{ROW_ID: [9]})
    reader = SplitReader(store, numbered(split, 40))
    assert reader.schema.names == ["key", "word", ROW_ID]
    assert not reader.has_row_ids
    assert pa.Table.from_batches(scan(reader))[ROW_ID].to_pylist() == [9]
