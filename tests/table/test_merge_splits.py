"""Merge splits as users see it: fewer files, the same rows in the same order, the same scores."""

from __future__ import annotations

import math

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.table.merge_world import (
    SCHEMA,
    as_add,
    delete_rows,
    ids,
    log_of,
    merge,
    order_by_partition,
    row,
    scores,
    splits_in_store,
    table_of,
)

import indextables
from indextables.errors import InvalidArgument, NotSupported, QueryInvalid
from indextables.log.commit.transaction import Transaction
from indextables.table.read.order import POSITION


def test_two_splits_of_500_rows_become_one_of_1000_in_one_version(tmp_path):
    table = table_of(tmp_path / "t", [500, 500])
    sources = set(table.files()["path"].to_pylist())
    before = table.to_arrow()
    report = table.merge_splits()
    assert (report.versions, report.source_splits, report.new_splits, report.rows) == ([3], 2, 1, 1000)
    assert report.plan["path"].to_pylist() == list(sources) or set(report.plan["path"].to_pylist()) == sources
    actions, values = (table.log(3)[name].to_pylist() for name in ("action", "value"))
    assert (actions.count("remove"), actions.count("add")) == (2, 1)
    moved = [value for action, value in zip(actions, values, strict=True) if action in {"add", "remove"}]
    assert all('"dataChange":false' in value for value in moved)
    assert table.to_arrow() == before
    assert table.count() == 1000
    assert table.at(version=2).to_arrow() == before


@pytest.mark.slow
def test_rows_keep_their_order_around_files_that_are_not_merged(tmp_path):
    table = table_of(tmp_path / "t", [5, 5, 3000, 5, 5, 5])
    large = max(table.files()["size"].to_pylist())
    report = table.merge_splits(target_size=large)
    assert (report.groups, report.source_splits, table.files().num_rows) == (2, 5, 3)
    assert ids(table.to_arrow()) == list(range(3025))
    table.append([row(3025)])
    table.merge_splits(target_size=large)
    table.append([row(3026)])
    assert ids(table.to_arrow()) == list(range(3027))
    table.compact()
    assert ids(indextables.open(table.url).to_arrow()) == list(range(3027))
    table.merge_splits()
    assert table.files().num_rows == 1
    assert ids(table.to_arrow()) == list(range(3027))


@pytest.mark.slow
def test_partitions_are_merged_apart_and_each_keeps_its_order(tmp_path):
    table = table_of(tmp_path / "t", [10] * 5, partitions=["a", "b", "c"], partition_by=["p"])
    before = order_by_partition(table)
    report = table.merge_splits("p <> 'b'")
    assert (report.groups, report.merged_groups, report.new_splits) == (2, 2, 2)
    assert pc.value_counts(_partition(table)).to_pylist() != []
    assert sorted(_partition(table).to_pylist()) == ["a", "b", "b", "b", "b", "b", "c"]
    assert order_by_partition(table) == before
    assert table.history(1)["operationParameters"].to_pylist()[0][1] == ("predicate", "p <> 'b'")
    for path in table.files("p = 'a'")["path"].to_pylist():
        assert path.startswith("p=a/splits/split-")


def test_a_null_partition_is_merged_too(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA, partition_by=["p"])
    for number in range(3):
        table.append([row(number, None)])
    assert table.merge_splits("p IS NULL").new_splits == 1
    assert table.to_arrow()["p"].to_pylist() == [None] * 3


def test_scores_are_the_same_before_and_after(tmp_path):
    table = table_of(tmp_path / "t", [40, 7, 20, 33])
    queries = ("timeout", "message:retry AND request", '"of request"')
    before = [scores(table, query) for query in queries]
    table.merge_splits()
    assert table.files().num_rows == 1
    for query, expected in zip(queries, before, strict=True):
        found = scores(table, query)
        assert found.keys() == expected.keys()
        assert all(math.isclose(found[key], expected[key], rel_tol=1e-6) for key in expected)


def test_limits_bound_the_groups_and_a_dry_run_changes_nothing(tmp_path):
    table = table_of(tmp_path / "t", [4] * 10)
    version, files = table.version, splits_in_store(table)
    dry = table.merge_splits(max_source_splits_per_merge=4, dry_run=True)
    assert (dry.dry_run, dry.groups, dry.plan["group"].to_pylist()) == (True, 3, [0] * 4 + [1] * 4 + [2] * 2)
    assert (table.refresh().version, splits_in_store(table)) == (version, files)
    report = table.merge_splits(max_source_splits_per_merge=4, max_dest_splits=2)
    assert (report.source_splits, report.new_splits, table.files().num_rows) == (8, 2, 4)
    assert ids(table.to_arrow()) == list(range(40))


def test_nothing_to_merge_is_no_commit(tmp_path):
    table = table_of(tmp_path / "t", [3])
    assert table.merge_splits().versions == []
    assert table.version == 1
    empty = indextables.create(tmp_path / "empty", SCHEMA)
    assert empty.merge_splits().groups == 0
    assert empty.merge_splits(cluster_by=["id"]).groups == 0


def test_wrong_arguments_are_refused_before_anything_happens(tmp_path):
    table = table_of(tmp_path / "t", [3, 3], partition_by=["p"])
    with pytest.raises(NotSupported, match="id are not partition columns"):
        table.merge_splits("id = 1")
    with pytest.raises(QueryInvalid):
        table.merge_splits("p = ")
    for wrong in ({"target_size": 0}, {"max_dest_splits": 0}, {"max_source_splits_per_merge": 1}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            table.merge_splits(**wrong)
    for columns in (["nope"], ["p"], ["id", "ID"], "id"):
        with pytest.raises(InvalidArgument):
            table.merge_splits(cluster_by=columns)
    with pytest.raises(InvalidArgument, match="zorder, hilbert"):
        table.merge_splits(cluster_by=["id"], curve="peano")
    assert table.refresh().version == 2


def test_what_is_finished_is_committed_batch_by_batch(tmp_path):
    table = table_of(tmp_path / "t", [2] * 8)
    open_small = indextables.open(table.url, options={"merge.groupsPerCommit": "1"})
    steps = []

    def stop(step):
        steps.append(step)
        if step.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_small.merge_splits(max_source_splits_per_merge=2, progress=stop)
    assert [(step.done, step.total) for step in steps] == [(0, 4), (1, 4), (2, 4)]
    assert table.refresh().files().num_rows == 6
    report = open_small.merge_splits(max_source_splits_per_merge=2)
    assert ids(table.refresh().to_arrow()) == list(range(16))
    assert len(report.versions) == report.groups


def test_a_merged_file_inherits_from_its_sources(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = indextables.create(tmp_path / "t", schema)
    for number in (3, 1, 2):
        table.append(pa.table({"id": [number], "at": [number * 1_000_000]}).cast(schema))
    log = log_of(table)
    snapshot = log.snapshot()
    again = [
        msgspec.structs.replace(
            as_add(file, (file["addedAtVersion"], file["addedAtLine"])),
            splitTags=[["x", "a"], ["b"], ["a"]][place],
            numMergeOps=place,
            dataChange=False,
        )
        for place, file in enumerate(snapshot.files.to_pylist())
    ]
    Transaction(log, snapshot, operation="TAG").add(again).commit_or_raise()
    table.refresh()
    ranges = table.files().select(["timeRangeStart", "timeRangeEnd"]).to_pylist()
    table.merge_splits()
    (file,) = table.files().to_pylist()
    assert (file["numMergeOps"], file["splitTags"]) == (3, ["a", "b", "x"])
    assert file["timeRangeStart"] == min(r["timeRangeStart"] for r in ranges)
    assert file["timeRangeEnd"] == max(r["timeRangeEnd"] for r in ranges)
    assert dict(file["tags"])[POSITION].startswith("1.")
    assert ids(table.to_arrow()) == [3, 1, 2]


def test_nan_and_null_hide_no_row_after_a_merge(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA)
    for number, value in enumerate([math.nan, 1.0, None, -0.0, math.inf]):
        table.append([{"id": number, "message": "m", "p": "a", "v": value}])
    predicates = ("v > 0", "v = 0", "v IS NULL", "v <> v", "v < 5", "NOT v > 0")
    before = [ids(table.to_arrow(where=predicate)) for predicate in predicates]
    table.merge_splits()
    assert [ids(table.to_arrow(where=predicate)) for predicate in predicates] == before


def test_deleted_rows_are_dropped_for_good(tmp_path):
    table = table_of(tmp_path / "t", [10, 10])
    first, second = table.files()["path"].to_pylist()
    delete_rows(log_of(table), {first: [0, 9], second: range(10)}, as_file=True)
    table.refresh()
    before = table.to_arrow()
    report = table.merge_splits()
    assert (report.rows, report.deleted_rows) == (8, 12)
    assert table.to_arrow() == before
    assert table.files()["deletionVector"].null_count == table.files().num_rows == 1
    assert table.history(1)["operationMetrics"].to_pylist()[0][-1] == ("numDeletedRows", "12")


def test_splits_whose_rows_are_all_deleted_leave_no_file(tmp_path):
    table = table_of(tmp_path / "t", [3, 3])
    delete_rows(log_of(table), {path: range(3) for path in table.files()["path"].to_pylist()})
    report = table.merge_splits()
    assert (report.new_splits, report.rows, table.files().num_rows, table.count()) == (0, 0, 0, 0)


@pytest.mark.slow
def test_a_split_that_memory_has_closed_is_not_merged_again(tmp_path):
    options = {"split.memoryBudget": str(4 << 20)}
    table = table_of(tmp_path / "t", [30_000, 30_000, 10, 10], options=options)
    before = table.to_arrow()
    first = table.merge_splits()
    assert first.failed == []
    files = table.files().num_rows
    assert table.merge_splits().source_splits < first.source_splits
    third = table.merge_splits()
    assert (third.groups, table.files().num_rows <= files) == (0, True)
    assert table.to_arrow() == before
    assert indextables.open(table.url).merge_splits(dry_run=True).groups == 1


@pytest.mark.slow
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_merge_conserves_the_rows_that_can_be_seen(tmp_path_factory, data):
    """D5, over random appends, partitions, deletes, limits and orders."""
    counts = data.draw(st.lists(st.integers(1, 30), min_size=2, max_size=7))
    partitions = data.draw(st.sampled_from([["a"], ["a", "b"], ["a", "b", "c"]]))
    split_up = ["p"] if len(partitions) > 1 else []
    table = table_of(tmp_path_factory.mktemp("d5") / "t", counts, partitions=partitions, partition_by=split_up)
    chosen = {
        file["path"]: data.draw(st.sets(st.integers(0, file["numRecords"] - 1)))
        for file in table.files().to_pylist()
        if data.draw(st.booleans())
    }
    gone = {path: rows for path, rows in chosen.items() if rows}
    if gone:
        delete_rows(log_of(table), gone, as_file=data.draw(st.booleans()))
        table.refresh()
    rows, order = table.to_arrow().sort_by("id"), order_by_partition(table)
    columns = data.draw(st.sampled_from([[], ["v"], ["message", "id"]]))
    report = table.merge_splits(
        target_size=data.draw(st.sampled_from([None, 12_000])),
        max_source_splits_per_merge=data.draw(st.sampled_from([None, 2, 3])),
        cluster_by=columns,
        curve=data.draw(st.sampled_from(["zorder", "hilbert"])),
    )
    assert report.failed == []
    assert table.to_arrow().sort_by("id") == rows
    if not columns:
        assert order_by_partition(table) == order
    found = table.search("request", columns=["id"], limit=None)
    assert sorted(ids(found)) == ids(rows)


def _partition(table) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([dict(values)["p"] for values in table.files()["partitionValues"].to_pylist()])])


def test_the_runner_sees_the_same_as_threads(tmp_path):
    table = table_of(tmp_path / "t", [3, 3])
    assert merge(table).rows == 6
    assert ids(table.to_arrow()) == list(range(6))
