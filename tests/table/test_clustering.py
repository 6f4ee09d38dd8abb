"""Sorting by several columns at once: codes, ranges, and that fewer files match afterwards."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indextables
from indextables.table.merge.clustering import Range, Sorter, boundaries_of, codes_of, cut


@pytest.mark.parametrize(("columns", "side"), [(2, 8), (3, 4), (4, 4)])
def test_neighbours_on_the_hilbert_curve_are_neighbours_in_space(columns, side):
    grid = np.stack(np.meshgrid(*[np.arange(1024)[:: 1024 // side]] * columns), axis=-1).reshape(-1, columns)
    rows = pa.table({f"c{n}": pa.array(grid[:, n]) for n in range(columns)})
    every = pa.table({f"c{n}": pa.array(np.arange(1024)) for n in range(columns)})
    codes = codes_of(rows, boundaries_of(every), "hilbert")
    assert len(set(codes.tolist())) == len(codes)
    walk = grid[np.argsort(codes)] // (1024 // side)
    assert np.abs(np.diff(walk, axis=0)).sum(axis=1).max() == 1


values = {
    "int": (pa.int64(), st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))),
    "float": (pa.float64(), st.one_of(st.none(), st.floats())),
    "text": (pa.string(), st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=8))),
    "bool": (pa.bool_(), st.one_of(st.none(), st.booleans())),
    "decimal": (pa.decimal128(20, 2), st.one_of(st.none(), st.decimals(-999, 999, places=2))),
}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["zorder", "hilbert"]), st.integers(1, 5))
def test_every_row_is_in_exactly_one_range(data, curve, parts):
    kinds = data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=3))
    count = data.draw(st.integers(0, 60))
    columns = [
        pa.array(data.draw(st.lists(values[kind][1], min_size=count, max_size=count)), values[kind][0])
        for kind in kinds
    ]
    rows = pa.Table.from_arrays(columns, [f"c{n}" for n in range(len(kinds))])
    sample = rows.slice(0, data.draw(st.integers(0, count)))
    boundaries = boundaries_of(sample)
    ranges = cut(codes_of(sample, boundaries, curve), parts)
    assert 1 <= len(ranges) <= parts
    assert (ranges[0].low, ranges[-1].high) == (0, None)
    times = np.zeros(count, int)
    for within in ranges:
        sorter = Sorter(boundaries, curve, within)
        for batch in rows.combine_chunks().to_batches():
            wanted = sorter.wanted(batch)
            times += 1 if wanted is None else wanted.to_numpy(zero_copy_only=False)
    assert (times == 1).all()
    order = Sorter(boundaries, curve, Range(0, None)).order(rows).to_pylist()
    assert sorted(order) == list(range(count))


def test_one_column_is_simply_sorted():
    numbers = list(range(5000))
    random.Random(1).shuffle(numbers)
    rows = pa.table({"n": numbers})
    order = Sorter(boundaries_of(rows), "zorder", Range(0, None)).order(rows)
    assert rows.take(order)["n"].to_pylist() == sorted(numbers)


def test_sorted_rows_stay_sorted_when_some_of_their_files_are_rewritten(tmp_path):
    """One split that became several stands in one place: what is made of two of them stays before the others."""
    table = indextables.create(tmp_path / "t", pa.schema([("n", pa.int64())]))
    numbers = list(range(4000))
    random.Random(3).shuffle(numbers)
    table.append([{"n": n} for n in numbers])
    size = table.files()["size"][0].as_py()
    table.merge_splits(cluster_by=["n"], target_size=math.ceil(size / 4))
    assert table.files().num_rows >= 4
    assert table.to_arrow()["n"].to_pylist() == sorted(numbers)
    clustered = table.version
    sizes = table.files()["size"].to_pylist()
    assert table.merge_splits(target_size=sizes[0] + sizes[1], max_dest_splits=1).source_splits == 2
    assert table.to_arrow()["n"].to_pylist() == sorted(numbers)
    table.reindex("n < 10", force=True)
    assert table.to_arrow()["n"].to_pylist() == sorted(numbers)
    table.restore(clustered)
    assert table.to_arrow()["n"].to_pylist() == sorted(numbers)


def test_sorting_a_partition_of_more_files_than_fit_a_group_comes_to_an_end(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("n", pa.int64())]))
    numbers = list(range(600))
    random.Random(5).shuffle(numbers)
    for start in range(0, 600, 100):
        table.append([{"n": n} for n in numbers[start : start + 100]])
    size = table.files()["size"][0].as_py()
    first = table.merge_splits(cluster_by=["n"], max_source_splits_per_merge=2, target_size=size)
    assert (first.merged_groups, first.source_splits, first.failed) == (3, 6, [])
    assert sorted(table.to_arrow()["n"].to_pylist()) == sorted(numbers)
    assert table.merge_splits(cluster_by=["n"], max_source_splits_per_merge=2, target_size=size).groups == 0
    table.append([{"n": 600}])
    again = table.merge_splits(cluster_by=["n"], max_source_splits_per_merge=2, target_size=size)
    assert (again.merged_groups, again.source_splits) == (1, 1)
    assert table.count() == 601


@pytest.mark.slow
@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_a_predicate_on_any_clustered_column_matches_fewer_files(tmp_path, curve):
    schema = pa.schema([("x", pa.int64()), ("y", pa.string()), ("z", pa.float64())])
    table = indextables.create(tmp_path / "t", schema)
    chance = random.Random(7)
    for _ in range(16):
        rows = [(chance.randrange(1000), f"k{chance.randrange(1000):03d}", chance.random()) for _ in range(200)]
        table.append([{"x": x, "y": y, "z": z} for x, y, z in rows])
    predicates = ("x BETWEEN 100 AND 140", "y >= 'k800' AND y < 'k850'")
    assert [table.files(p).num_rows for p in predicates] == [16, 16]
    expected = [table.count(where=p) for p in predicates]
    size = sum(table.files()["size"].to_pylist())
    report = table.merge_splits(cluster_by=["x", "Y"], curve=curve, target_size=math.ceil(size / 16))
    assert (report.failed, report.merged_groups, report.rows) == ([], 1, 3200)
    assert report.new_splits == table.files().num_rows == 16
    assert all(table.files(p).num_rows <= 8 for p in predicates)
    assert [table.count(where=p) for p in predicates] == expected
    assert table.merge_splits(cluster_by=["x", "Y"], curve=curve).groups == 0
    told = dict(table.history(1)["operationParameters"].to_pylist()[0])
    assert (told["clusterBy"], told["curve"]) == ("x,y", curve)
    table.append([{"x": 1, "y": "k001", "z": 0.5}])
    assert table.merge_splits(cluster_by=["x", "y"], curve=curve).source_splits == 17
