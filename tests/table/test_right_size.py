"""The small splits of one write become few before its commit: the same rows, in one version, within a bound."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table.merge_world import damage, ids, log_of, row, splits_in_store, table_of

from indextables.errors import SplitCorrupt, StoreUnavailable
from indextables.log.care.opening import open_log
from indextables.log.wire.actions import Add
from indextables.options import Options
from indextables.table.append import commit_append
from indextables.table.environment import open_env
from indextables.table.right_size import plan_joining, right_sized
from indextables.table.rows.rows import Rows, fit
from indextables.table.running import Threads
from indextables.table.writing.splits import target_of, write_adds

PARTITIONS = ("a", "b/c", None)


def written(log, tasks, rows_each=6, partitions=PARTITIONS):
    """The files of as many tasks, each with rows of every partition, and the metadata they were written for."""
    metadata = log.snapshot().metadata
    target = target_of(metadata, log.env.options.over(metadata.configuration))
    adds = []
    for task in range(tasks):
        numbers = range(task * rows_each, (task + 1) * rows_each)
        data = pa.Table.from_pylist([row(n, partitions[n % len(partitions)]) for n in numbers], target.schema)
        adds += write_adds(log.env, target, fit(Rows(data.schema, data.to_batches()), target.schema))
    return metadata, adds


@pytest.fixture
def table(tmp_path):
    return table_of(tmp_path / "t", [], partition_by=["p"])


def with_options(table, **options):
    return open_log(open_env(table.url, options))


def test_the_rows_of_a_write_are_in_few_files_of_one_version(table):
    log = log_of(table)
    metadata, adds = written(log, 5)
    sized = right_sized(log.env, metadata, adds, Threads(log.env))
    assert (len(adds), len(sized.adds)) == (15, 3)
    assert {add.path for add in sized.replaced} == {add.path for add in adds}
    commit_append(log, metadata, sized.adds)
    table.refresh()
    assert (table.version, table.files().num_rows) == (1, 3)
    expected = {p: [n for n in range(30) if PARTITIONS[n % 3] == p] for p in PARTITIONS}
    found = [(line["p"], line["id"]) for line in table.to_arrow(["id", "p"]).to_pylist()]
    assert {p: [n for q, n in found if q == p] for p in PARTITIONS} == expected
    assert sorted(ids(table.search("message:timeout", columns=["id"], limit=None))) == list(range(0, 30, 5))
    assert table.verify().ok


def test_rows_come_after_those_that_were_there_and_are_new_to_a_stream(table):
    log = log_of(table)
    table.append([row(n + 1000) for n in range(4)])
    metadata, adds = written(log, 4, partitions=("a",))
    commit_append(log, metadata, right_sized(log.env, metadata, adds, Threads(log.env)).adds)
    table.refresh()
    assert ids(table.to_arrow(["id"])) == [1000, 1001, 1002, 1003, *range(24)]
    assert [file["dataChange"] for file in log.snapshot().files.to_pylist()] == [True, True]


@pytest.mark.slow
def test_files_of_a_good_size_and_lone_ones_stay(table):
    log = with_options(table, **{"split.targetSize": "1"})
    metadata, adds = written(log, 3)
    assert right_sized(log.env, metadata, adds, Threads(log.env)).adds == adds
    one = with_options(table)
    metadata, adds = written(one, 1)
    assert right_sized(one.env, metadata, adds, Threads(one.env)).adds == adds


def test_what_is_beyond_the_bound_stays_and_is_told(table, caplog):
    small = log_of(table)
    metadata, adds = written(small, 4)
    size = sum(add.size for add in adds if add.partitionValues["p"] == "a")
    log = with_options(table, **{"optimizeWrite.maxMergeSize": str(size + 100)})
    sized = right_sized(log.env, metadata, adds, Threads(log.env))
    assert len(sized.adds) == 1 + 8
    assert sum(add.size for add in sized.replaced) <= size + 100
    assert "8 small splits" in caplog.text
    assert "indextables.write(df, path, optimizeWrite=True)" in caplog.text
    assert "MERGE SPLITS" in caplog.text
    commit_append(log, metadata, sized.adds)
    assert sorted(ids(table.refresh().to_arrow(["id"]))) == list(range(24))


def test_a_file_that_cannot_be_read_back_is_not_committed(table):
    log = log_of(table)
    metadata, adds = written(log, 3, rows_each=200)
    damage(table, adds[3].path)
    before = splits_in_store(table)
    with pytest.raises(SplitCorrupt, match="write the rows again"):
        right_sized(log.env, metadata, adds, Threads(log.env))
    assert splits_in_store(table) == before


class Failing:
    """Threads whose every other unit meets a store that gives no answer."""

    width = 1

    def __init__(self, env):
        self._inner = Threads(env)

    def run(self, job, units):
        answers = self._inner.run(job, units[::2])
        lost = StoreUnavailable("no answer came", key="x")
        return [answers[number // 2] if number % 2 == 0 else lost for number in range(len(units))]


def test_a_group_that_cannot_be_merged_stays_as_it_was_written(table, caplog):
    log = log_of(table)
    metadata, adds = written(log, 4)
    sized = right_sized(log.env, metadata, adds, Failing(log.env))
    assert len(sized.adds) == 2 + 4
    assert "no answer came" in caplog.text
    commit_append(log, metadata, sized.adds)
    assert sorted(ids(table.refresh().to_arrow(["id"]))) == list(range(24))


SIZES = st.lists(st.tuples(st.sampled_from(["x", "y", None]), st.integers(1, 120)), max_size=40)


@pytest.mark.slow
@given(files=SIZES, target=st.integers(4, 100), bound=st.integers(1, 2000))
def test_a_plan_keeps_its_bounds(files, target, bound):
    adds = [
        Add(path=f"f{n}", partitionValues={"p": p}, size=size, modificationTime=0, dataChange=True)
        for n, (p, size) in enumerate(files)
    ]
    options = Options({"split.targetSize": target, "optimizeWrite.maxMergeSize": bound}, environ={})
    plan, left = plan_joining(adds, ["p"], options)
    rows = plan.files.to_pylist()
    groups = [[rows[place] for place in group] for group in plan.groups]
    for group in groups:
        assert len({dict(file["partitionValues"])["p"] for file in group}) == 1
        assert len(group) >= 2
        assert sum(file["size"] for file in group) <= target
        assert all(file["size"] < target // 2 for file in group)
        assert [file["addedAtLine"] for file in group] == sorted(file["addedAtLine"] for file in group)
    merged = [file["path"] for group in groups for file in group]
    assert len(set(merged)) == len(merged)
    assert sum(file["size"] for group in groups for file in group) <= bound
    if sum(add.size for add in adds) <= bound:
        assert left == 0
        for name in ("x", "y", None):
            small = [size for p, size in files if p == name and size < target // 2]
            mine = [group for group in groups if dict(group[0]["partitionValues"])["p"] == name]
            # As well as packing one after the other can do.
            assert len(small) - sum(len(group) - 1 for group in mine) <= 2 * sum(small) / target + 1
