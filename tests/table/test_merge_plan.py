"""Which splits are merged with which, and where their rows stand: pure decisions over file tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.log.wire.files import FILES_SCHEMA
from indextables.table.merge.plan import CLUSTERED, FULL, Limits, clustering_groups, plan_groups
from indextables.table.read.order import POSITION, in_order, position_tag, positions


def files_of(rows: list[dict]) -> pa.Table:
    whole = [
        {
            "path": f"f{n:03d}",
            "size": 10,
            "dataChange": True,
            "partitionValues": [],
            "addedAtVersion": n,
            "addedAtLine": 1,
            **row,
        }
        for n, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(whole, FILES_SCHEMA)


def groups(rows: list[dict], cooling=(), **limits) -> list[list[str]]:
    given_limits = Limits(**{"target_bytes": 100, "max_sources": 100, "memory_bytes": 1000, **limits})
    plan = plan_groups(files_of(rows), ["p"], cooling, given_limits)
    return [plan.files["path"].take(pa.array(group)).to_pylist() for group in plan.groups]


def sizes(*numbers: int) -> list[dict]:
    return [{"size": number} for number in numbers]


def test_neighbours_are_packed_up_to_the_target():
    assert groups(sizes(40, 40, 40, 60, 10)) == [["f000", "f001"], ["f002", "f003"]]
    assert groups(sizes(50, 50)) == [["f000", "f001"]]
    assert groups(sizes(50, 51)) == []
    assert groups(sizes(10, 10, 10), max_sources=2) == [["f000", "f001"]]


def test_a_file_that_is_large_full_or_cooling_ends_a_run():
    assert groups(sizes(10, 10, 100, 10, 10)) == [["f000", "f001"], ["f003", "f004"]]
    assert groups(sizes(10, 10, 10), cooling={"f001"}) == []
    full = [{}, {}, {"tags": [(FULL, "1000")]}, {}, {"tags": [(FULL, "999")]}]
    assert groups(full) == [["f000", "f001"], ["f003", "f004"]]
    assert groups(full, memory_bytes=1001) == [["f000", "f001", "f002", "f003", "f004"]]
    assert groups([{"tags": [(FULL, "x")]}, {"tags": [(FULL, "")]}]) == [["f000", "f001"]]


def test_partitions_do_not_mix_and_null_is_one_of_its_own():
    rows = [{"partitionValues": [("p", value)]} for value in ("a", "b", None, "a", None, "")]
    assert groups(rows) == [["f000", "f003"], ["f002", "f004"]]


def test_the_groups_with_the_most_sources_are_chosen_and_run_in_order():
    rows = sizes(10, 10, 100, 10, 10, 10, 100, 10, 10, 10, 10)
    assert [len(group) for group in groups(rows, max_groups=2)] == [3, 4]


def test_places_come_from_tags_where_they_can_be_read():
    rows = [
        {"tags": [(POSITION, "5.2")]},
        {"tags": [("other", "x")]},
        {"tags": [(POSITION, "0.0")]},
        {"tags": [(POSITION, "-1.0")]},
        {},
        {"tags": [(POSITION, "99999999999999999999.1")]},
    ]
    version, line, part = positions(files_of(rows))
    assert part.tolist() == [0] * 6
    assert version.tolist() == [5, 1, 0, 3, 4, 5]
    assert line.tolist() == [2, 1, 0, 1, 1, 1]
    assert in_order(files_of(rows))["path"].to_pylist() == ["f002", "f001", "f003", "f004", "f005", "f000"]
    assert in_order(files_of([{}, {}]))["path"].to_pylist() == ["f000", "f001"]
    assert in_order(files_of([])).num_rows == 0
    parts = [{"tags": [(POSITION, tag)]} for tag in ("7.1.10", "7.1.9", "7.1", "7.1.", "7.1.x")]
    assert positions(files_of(parts))[2].tolist() == [10, 9, 0, 0, 0]
    assert in_order(files_of(parts))["path"].to_pylist() == ["f003", "f004", "f002", "f001", "f000"]


def test_a_partition_that_is_sorted_already_is_left_alone():
    rows = [
        {"partitionValues": [("p", "a")], "tags": [(CLUSTERED, "zorder(x)")]},
        {"partitionValues": [("p", "b")], "tags": [(CLUSTERED, "zorder(x)")]},
        {"partitionValues": [("p", "b")]},
        {"partitionValues": [("p", "c")], "tags": [(CLUSTERED, "hilbert(x)")]},
    ]
    limits = Limits(target_bytes=100, max_sources=100, memory_bytes=1000)
    plan = clustering_groups(files_of(rows), ["p"], {"f003"}, limits, "zorder(x)")
    assert [plan.files["path"].take(pa.array(group)).to_pylist() for group in plan.groups] == [["f001", "f002"]]
    assert plan.cooling == 1


def test_of_a_partition_with_more_files_than_a_group_may_have_what_is_not_sorted_yet_is():
    """Whoever begins with the first files each time sorts the same ones for ever."""
    done = [(CLUSTERED, "zorder(x)")]
    rows = [{"tags": done if n in (0, 1, 4) else None} for n in range(6)]
    limits = Limits(target_bytes=100, max_sources=2, memory_bytes=1000)
    plan = clustering_groups(files_of(rows), [], (), limits, "zorder(x)")
    found = [plan.files["path"].take(pa.array(group)).to_pylist() for group in plan.groups]
    assert found == [["f002", "f003"], ["f005"]]
    plan = clustering_groups(files_of([{"tags": done}] * 6), [], (), limits, "zorder(x)")
    assert plan.groups == []


def with_deleted(file: dict, gone: int) -> dict:
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": gone}
    return {**file, "numRecords": 100, "deletionVector": vector}


def test_a_file_that_lost_many_rows_is_written_anew_alone_or_with_neighbours_by_what_is_left_of_it():
    alone = [with_deleted({"size": 100}, 6), with_deleted({"size": 100}, 5), {"size": 100}]
    assert groups(alone, fold_above=0.05) == [["f000"]]
    assert groups(alone, fold_above=0.05, cooling={"f000"}) == []
    beside = [{"size": 40}, with_deleted({"size": 100}, 50), {"size": 40}]
    assert groups(beside, fold_above=0.05) == [["f000", "f001"]]
    assert groups(beside) == []
    full = [with_deleted({"tags": [(FULL, "1000")]}, 10), {}]
    assert groups(full, fold_above=0.05) == [["f000"]]
    order = [with_deleted({"size": 100}, 6), *sizes(10, 10), with_deleted({"size": 100}, 6)]
    assert groups(order, fold_above=0.05) == [["f000"], ["f001", "f002"], ["f003"]]


def test_a_sorted_file_that_lost_many_rows_is_sorted_again_alone():
    done = {"tags": [(CLUSTERED, "zorder(x)")]}
    limits = Limits(target_bytes=100, max_sources=2, memory_bytes=1000, fold_above=0.05)

    def planned(rows: list[dict]) -> list[list[str]]:
        plan = clustering_groups(files_of(rows), [], (), limits, "zorder(x)")
        return [plan.files["path"].take(pa.array(group)).to_pylist() for group in plan.groups]

    assert planned([with_deleted(done, 6), done, with_deleted(done, 5)]) == [["f000"]]
    assert planned([with_deleted(done, 6), {}]) == [["f000", "f001"]]
    assert planned([{}, with_deleted(done, 6), {}, {}]) == [["f000", "f002"], ["f003"], ["f001"]]


@pytest.mark.slow
@settings(deadline=None)
@given(st.data())
def test_groups_are_neighbours_of_one_partition_within_the_limits(data):
    count = data.draw(st.integers(0, 40))
    rows = []
    for n in range(count):
        place = data.draw(st.integers(0, 50))
        rows.append(
            {
                "size": data.draw(st.integers(0, 120)),
                "partitionValues": [("p", data.draw(st.sampled_from(["a", "b", None])))],
                "tags": dict(position_tag(place, n)).items() if data.draw(st.booleans()) else None,
                "addedAtVersion": n,
            }
        )
    rows = [{**row, "tags": None if row["tags"] is None else list(row["tags"])} for row in rows]
    cooling = {f"f{n:03d}" for n in data.draw(st.sets(st.integers(0, max(0, count - 1)), max_size=4))}
    limits = Limits(
        target_bytes=data.draw(st.integers(1, 200)),
        max_sources=data.draw(st.integers(2, 6)),
        memory_bytes=1000,
        max_groups=data.draw(st.one_of(st.none(), st.integers(1, 3))),
    )
    files = files_of(rows)
    plan = plan_groups(files, ["p"], cooling, limits)
    ordered = in_order(files).to_pylist()
    seen: set[str] = set()
    for group in plan.groups:
        chosen = plan.files.take(pa.array(group)).to_pylist()
        partition = chosen[0]["partitionValues"]
        neighbours = [file["path"] for file in ordered if file["partitionValues"] == partition]
        paths = [file["path"] for file in chosen]
        start = neighbours.index(paths[0])
        assert neighbours[start : start + len(paths)] == paths
        assert 2 <= len(paths) <= limits.max_sources
        assert sum(file["size"] for file in chosen) <= limits.target_bytes
        assert not seen.intersection(paths)
        assert not cooling.intersection(paths)
        seen.update(paths)
    assert limits.max_groups is None or len(plan.groups) <= limits.max_groups
    assert all((np.diff(group) == 1).all() for group in plan.groups)
