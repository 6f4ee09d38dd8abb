"""What others do while splits are merged is never lost, and never stopped: incidents of other systems by name."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table.merge_world import (
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
from tests.table.operate_world import Faulty
from tests.world.commits import change_metadata

from indextables.errors import MetadataChanged
from indextables.log.care.intents import INTENT_DIR
from indextables.log.care.opening import open_log
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import DeletionVector, Remove
from indextables.log.wire.names import version_key
from indextables.split.file import dv
from indextables.table.merge.landing import SourceRows, carried
from indextables.table.merge.verb import merge_splits
from indextables.table.requests import MergeSplits
from indextables.table.running import Threads


def paths(table) -> list[str]:
    return table.refresh().files()["path"].to_pylist()


def test_a_file_that_a_restore_brings_back_between_merged_ones_keeps_its_place(tmp_path):
    table = table_of(tmp_path / "t", [3, 3, 3, 3])
    rows, version = ids(table.to_arrow()), table.version
    table.delete("id >= 3 AND id < 6")
    report = merge(table, happens=lambda: table.restore(version=version))
    assert (report.merged_groups, report.given_up) == (0, 1)
    assert ids(table.refresh().to_arrow()) == rows
    assert merge(table).merged_groups == 1
    assert ids(table.refresh().to_arrow()) == rows


def test_a_restore_that_is_faster_than_the_put_of_a_merge_keeps_its_places(tmp_path):
    table = table_of(tmp_path / "t", [3, 3, 3, 3])
    rows, version = ids(table.to_arrow()), table.version
    table.delete("id >= 3 AND id < 6")
    restored: list[object] = []

    def restore_at_the_put(method: str, key: str) -> bool:
        if (method, key) == ("put_if_absent", version_key(version + 2)) and not restored:
            restored.append(table.restore(version=version))
        return False

    env = Faulty(log_of(table).env, restore_at_the_put).env
    report = merge_splits(open_log(env), MergeSplits(), runner=Threads(env))
    assert (report.merged_groups, report.given_up) == (0, 1)
    assert restored
    assert ids(table.refresh().to_arrow()) == rows


@pytest.mark.parametrize("as_file", [False, True])
def test_a_delete_during_a_merge_is_never_lost(tmp_path, as_file):
    table = table_of(tmp_path / "t", [10, 10, 10])
    first, second, third = paths(table)
    delete_rows(log_of(table), {second: [3]})
    gone = {first: [0], second: [9], third: [1, 2]}
    report = merge(table, happens=lambda: delete_rows(log_of(table), gone, as_file=as_file))
    assert (report.merged_groups, report.carried_vectors, report.given_up) == (1, 1, 0)
    left = [n for n in range(30) if n not in {0, 13, 19, 21, 22}]
    assert ids(table.to_arrow()) == left
    assert sorted(scores(table, "request")) == left
    assert table.files().num_rows == 1
    assert table.count() == len(left)


def test_a_large_vector_moves_into_a_file_of_its_own(tmp_path):
    table = table_of(tmp_path / "t", [4000, 4000])
    first = paths(table)[0]
    gone = range(0, 4000, 3)
    merge(table, happens=lambda: delete_rows(log_of(table), {first: gone}))
    (file,) = table.files().to_pylist()
    assert file["deletionVector"]["storageType"] == "u"
    assert ids(table.to_arrow()) == [n for n in range(8000) if n >= 4000 or n % 3]


def test_a_delete_during_a_merge_that_sorts_is_never_lost(tmp_path):
    table = table_of(tmp_path / "t", [10, 10], partitions=["a", "b"], partition_by=["p"])
    hit = table.files("p = 'a'")["path"].to_pylist()[0]
    delete_rows(log_of(table), {hit: [4]})
    done = []

    def happens():
        if not done:
            done.append(delete_rows(log_of(table), {hit: [1]}))

    report = merge(table, happens=happens, cluster_by=["message"])
    assert (report.merged_groups, report.carried_vectors, report.given_up) == (2, 1, 0)
    order = [n for n in ids(table.to_arrow()) if n % 2 == 0]
    assert order != sorted(order), "rows that stay where they were would prove nothing"
    left = [n for n in range(20) if n not in (2, 8)]
    assert sorted(ids(table.to_arrow())) == left
    assert sorted(scores(table, "request")) == left
    assert table.count() == len(left)


def test_rows_that_were_restored_during_a_merge_come_back(tmp_path):
    table = table_of(tmp_path / "t", [5, 5])
    files = table.files().to_pylist()
    log = log_of(table)
    delete_rows(log, {files[0]["path"]: [0, 1]})

    def restore():
        snapshot = log_of(table).snapshot()
        again = as_add(files[0], (1, 1))
        Transaction(log_of(table), snapshot, operation="RESTORE").remove([_remove_of(snapshot, files[0]["path"])]).add(
            [again]
        ).commit_or_raise()

    report = merge(table, happens=restore)
    assert report.given_up == 1
    assert sorted(ids(table.to_arrow())) == list(range(10))


def test_of_two_merges_of_the_same_splits_one_is_given_up(tmp_path):
    table = table_of(tmp_path / "t", [5] * 4)
    report = merge(table, happens=lambda: merge(table))
    assert (report.merged_groups, report.given_up, report.versions) == (0, 1, [])
    assert ids(table.to_arrow()) == list(range(20))
    assert set(paths(table)) <= splits_in_store(table)
    assert len(splits_in_store(table)) == 5


def test_merges_of_other_partitions_do_not_touch_each_other(tmp_path):
    table = table_of(tmp_path / "t", [10] * 3, partitions=["a", "b"], partition_by=["p"])
    order = order_by_partition(table)
    report = merge(table, happens=lambda: merge(table, where="p = 'b'"))
    assert (report.merged_groups, report.given_up) == (1, 1)
    assert table.files().num_rows == 2
    assert order_by_partition(table) == order


def test_the_history_counts_the_groups_that_a_commit_really_merged(tmp_path):
    table = table_of(tmp_path / "t", [10] * 3, partitions=["a", "b"], partition_by=["p"])
    hit = table.files("p = 'a'")["path"].to_pylist()[0]
    log, done = log_of(table), []

    def delete_at_the_commit(method: str, key: str) -> bool:
        if method == "put_if_absent" and key == version_key(4) and not done:
            done.append(delete_rows(log_of(table), {hit: [0]}))
        return False

    env = Faulty(log.env, delete_at_the_commit).env
    report = merge_splits(open_log(env), MergeSplits(), runner=Threads(env))
    assert (report.merged_groups, report.given_up, report.versions) == (2, 0, [5, 6])
    merges = [dict(told["operationMetrics"]) for told in table.refresh().history(2).to_pylist()]
    assert [(told["numGroups"], told["numRemovedFiles"], told["numOutputRows"]) for told in merges] == [
        ("1", "3", "15"),
        ("1", "3", "15"),
    ]
    assert ids(table.to_arrow()).count(0) == 0
    assert table.count() == 29


def test_appends_during_a_merge_stay_behind_what_was_there(tmp_path):
    table = table_of(tmp_path / "t", [5] * 3)
    other = table.at(version=3)
    report = merge(table, happens=lambda: [other.append([row(15 + n)]) for n in range(12)])
    assert report.merged_groups == 1
    assert ids(table.to_arrow()) == list(range(27))


def test_an_overwrite_during_a_merge_wins(tmp_path):
    table = table_of(tmp_path / "t", [5] * 3)
    before = splits_in_store(table)
    report = merge(table, happens=lambda: table.overwrite([row(99)]))
    assert (report.given_up, ids(table.to_arrow())) == (1, [99])
    assert splits_in_store(table) == before | set(paths(table))


def test_a_property_that_is_set_during_a_merge_stays(tmp_path):
    table = table_of(tmp_path / "t", [5] * 3)

    def happens():
        log = log_of(table)
        metadata = log.snapshot().metadata
        changed = msgspec.structs.replace(metadata, configuration={**metadata.configuration, "owner": "me"})
        change_metadata(log, changed)

    assert merge(table, happens=happens).merged_groups == 1
    assert table.metadata.configuration["owner"] == "me"
    assert ids(table.to_arrow()) == list(range(15))


def test_a_schema_that_changes_during_a_merge_ends_it_with_nothing_left(tmp_path):
    table = table_of(tmp_path / "t", [5] * 3)
    before = splits_in_store(table)

    def happens():
        log = log_of(table)
        metadata = log.snapshot().metadata
        schema = metadata.schemaString.replace('"name":"v"', '"name":"w"')
        change_metadata(log, msgspec.structs.replace(metadata, schemaString=schema))

    with pytest.raises(MetadataChanged, match="schema"):
        merge(table, happens=happens)
    assert splits_in_store(table) == before
    store = log_of(table).env.store
    assert list(store.list_from(INTENT_DIR)) == []


def test_a_reader_of_an_old_version_reads_on_while_splits_are_merged(tmp_path):
    table = table_of(tmp_path / "t", [5] * 3)
    old = table.at(version=3)
    reading = old.scan()
    merge(table)
    assert ids(reading.read_all()) == list(range(15))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_vector_finds_its_rows_in_the_merged_files(data):
    sources, live, survivors = [], [], []
    for number in range(data.draw(st.integers(1, 5))):
        rows = data.draw(st.integers(1, 30))
        read = data.draw(st.sets(st.integers(0, rows - 1)))
        now = read | data.draw(st.sets(st.integers(0, rows - 1)))
        sources.append(
            SourceRows(f"s{number}", rows, dv.encode(read) if read else None, dv.encode(now) if now else None)
        )
        live += [(number, n) for n in range(rows) if n not in read]
        survivors += [(number, n) for n in range(rows) if n not in now]
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(live) - 1)), max_size=3))) if len(live) > 1 else []
    bounds = [0, *cuts, len(live)]
    outputs = [end - start for start, end in itertools.pairwise(bounds)]
    found = carried(sources, outputs)
    kept = [
        live[start + n]
        for start, size, gone in zip(bounds, outputs, found, strict=False)
        for n in range(size)
        if n not in set(gone.tolist())
    ]
    assert kept == survivors


def test_rows_that_came_back_are_in_no_merged_file():
    assert carried([SourceRows("s", 5, dv.encode([1]), None)], [4]) is None
    assert carried([SourceRows("s", 5, None, dv.encode([1]))], [4]) is None


def _remove_of(snapshot, path):
    (file,) = [f for f in snapshot.files.to_pylist() if f["path"] == path]
    vector = None if file["deletionVector"] is None else msgspec.convert(file["deletionVector"], DeletionVector)
    return Remove(path, dataChange=True, deletionVector=vector)
