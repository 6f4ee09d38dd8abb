"""Keys of a source are joined with keys of a table: against every pair, and where pairs are many."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indextables
from indextables.errors import CardinalityViolation
from indextables.table.change.keys import Keys

FLOATS = st.sampled_from([None, 0.0, -0.0, 1.0, math.nan, -math.nan, math.inf])
TEXTS = st.sampled_from([None, "", "a", "A", "é", "e\u0301", "\0"])
NUMBERS = st.sampled_from([None, 0, 1, -1, 2**63 - 1])
KEYS = st.lists(st.tuples(FLOATS, TEXTS, NUMBERS), max_size=12)
TYPES = (pa.float64(), pa.string(), pa.int64())


def columns(rows, width):
    return [pa.array([row[place] for row in rows], TYPES[place]) for place in range(width)]


def is_same(left, right):
    both_nan = isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right)
    return left is not None and right is not None and (left == right or both_nan)


@settings(max_examples=60, deadline=None)
@given(KEYS, KEYS, st.integers(1, 3))
def test_pairs_are_those_whose_columns_are_all_equal(source, target, width):
    keys = Keys(columns(source, width))
    found = [(int(t), int(s)) for part in keys.pairs(columns(target, width)) for t, s in zip(*part, strict=True)]
    expected = [
        (t, s)
        for t, left in enumerate(target)
        for s, right in enumerate(source)
        if all(map(is_same, left[:width], right[:width]))
    ]
    assert found == expected
    again = [
        (a, b)
        for a, left in enumerate(source)
        for b, right in enumerate(source[:a])
        if all(map(is_same, left[:width], right[:width]))
    ]
    assert (keys.twice() is not None) == bool(again)
    if (twice := keys.twice()) is not None:
        assert (twice[1], twice[0]) in again


def test_all_pairs_of_a_row_come_together_however_many_there_are():
    keys = Keys([pa.array([1] * 1_500 + [2])])
    parts = list(keys.pairs([pa.array([2] + [1] * 1_500)]))
    assert len(parts) > 1, "so many pairs are not made at once"
    assert sum(len(rows) for rows, _ in parts) == 1_500 * 1_500 + 1
    for rows, _ in parts:
        numbers, partners = np.unique(rows, return_counts=True)
        assert partners.tolist() == [1_500 if number else 1 for number in numbers.tolist()]


def test_a_key_that_nearly_every_row_has_is_merged(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("k", pa.int64()), ("n", pa.int64())]))
    table.append(pa.table({"k": [1] * 1_200, "n": list(range(1_200))}))
    source = pa.table({"k": [1] * 1_200, "n": list(range(1_200))})
    with pytest.raises(CardinalityViolation):
        table.merge(source, ["k"]).when_matched_update_all().execute()
    assert table.merge(source, "t.k = s.k AND t.n = s.n + 1").when_matched_update({"n": 0}).execute().updated == 1_199
    assert table.merge(source, ["k"]).when_matched_delete().execute().deleted == 1_200
    assert table.count() == 0


def test_a_table_without_rows_and_a_source_without_rows_are_merged(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("k", pa.int64()), ("n", pa.int64())]))
    assert table.upsert([], "k").version is None
    assert table.upsert([{"k": 1, "n": 1}, {"k": 2, "n": 2}], "k").inserted == 2
    assert table.merge([], ["k"]).when_matched_delete().when_not_matched_insert_all().execute().version is None
    assert table.merge([], ["k"]).when_not_matched_by_source_delete("n = 2").execute().deleted == 1
    report = table.merge([], ["k"]).when_not_matched_by_source_delete().execute()
    assert (report.deleted, report.removed_files, table.count()) == (1, 1, 0)
    assert table.upsert(pa.table({"k": pa.array([None], pa.int64()), "n": [5]}), "k").inserted == 1
