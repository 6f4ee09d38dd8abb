"""The plan of a merge that is made some partitions at a time is the plan of all files at once."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests.state.logs import RandomLog, add_row, adds_table, environment, with_options

from indextables.log.care.opening import open_log
from indextables.log.care.schedule import checkpoint
from indextables.log.checkpoint.avro.bounds import bounds_of
from indextables.log.checkpoint.avro.manifests import ManifestInfo
from indextables.log.checkpoint.avro.ranges import partition_ranges
from indextables.log.read.cache import LogCache
from indextables.table.merge.batch import GROUPED, groups_of
from indextables.table.merge.in_parts import plan_in_parts
from indextables.table.merge.plan import FULL, Limits, MergePlan, clustering_groups, most_sources, plan_groups
from indextables.table.merge.verb import merge_splits
from indextables.table.read.order import POSITION
from indextables.table.requests import MergeSplits
from indextables.table.running import Threads

PARTS = {"state.entriesPerManifest": 8, "transaction.cache.enabled": False}
NAMES = ["path", "size", "numRecords"]


class Placed(RandomLog):
    """Some files stand where others did, some were closed because memory ran out, some are sorted."""

    def _fresh(self) -> dict[str, object]:
        row = super()._fresh()
        kind = self.chance.random()
        if kind < 0.2:
            row["tags"] = [(POSITION, f"{self.chance.randrange(20)}.{self.chance.randrange(9)}")]
        elif kind < 0.25:
            row["tags"] = [(FULL, "1000")]
        elif kind < 0.4:
            row["tags"] = [("indextables.clusterBy", "zorder(id)")]
        return row


def told(plan: MergePlan) -> list[list[dict[str, object]]]:
    return [plan.files.select(NAMES).take(pa.array(group)).to_pylist() for group in plan.groups]


def planner_of(partitions, cooling, limits, *, is_sorted):
    if is_sorted:
        return lambda files: clustering_groups(files, partitions, cooling, limits, "zorder(id)")
    return lambda files: plan_groups(files, partitions, cooling, limits)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [(), ("day",), ("shard", "day")])
@pytest.mark.parametrize("seed", range(2))
def test_a_plan_in_parts_is_the_plan_at_once(partitions, seed):
    env = environment(PARTS)
    log = Placed(env, seed, partitions=partitions)
    log.append(70)
    checkpoint(env)
    seen = 0
    for step in range(6):
        log.step()
        if step == 3:
            checkpoint(env)
        files = open_log(env, cache=LogCache()).snapshot().files
        cooling = set(log.chance.sample(sorted(log.live), 3))
        most = log.chance.choice([None, 1, 2, 4])
        target, sources = log.chance.randrange(1, 40_000), log.chance.randrange(2, 7)
        limits = Limits(target_bytes=target, max_sources=sources, memory_bytes=900, fold_above=0.3)
        for is_sorted, many in ((False, 1), (False, 150), (True, 60)):
            planner = planner_of(partitions, cooling, limits, is_sorted=is_sorted)
            once = planner(files)
            snapshot = open_log(with_options(env, state_filesInMemory=many), cache=LogCache()).snapshot()
            plan = plan_in_parts(snapshot, planner, GROUPED, cooling, most)
            chosen = most_sources(once.groups, most)
            assert told(plan) == told(MergePlan(once.files, chosen, 0)), (step, many)
            assert plan.cooling == once.cooling
            assert groups_of(plan.files, plan.groups, partitions) == groups_of(once.files, chosen, partitions)
            seen += len(once.groups)
    assert seen > 20


def test_a_merge_of_very_many_files_is_planned_as_of_few():
    env = environment(PARTS)
    log = RandomLog(env, 3)
    log.append(60)
    checkpoint(env)
    log.append(30)
    checkpoint(env)
    log.append(5)
    for request in (MergeSplits(dry_run=True), MergeSplits(dry_run=True, max_dest_splits=2)):
        parts = merge_splits(open_log(with_options(env, state_filesInMemory=1)), request, runner=Threads(env))
        whole = merge_splits(open_log(env, cache=LogCache()), request, runner=Threads(env))
        assert parts.plan.equals(whole.plan)
        assert parts.groups == whole.groups > 1


def test_what_is_in_memory_are_some_partitions():
    env = environment({**PARTS, "state.filesInMemory": 100})
    log = RandomLog(env, 4)
    for _ in range(4):
        log.append(60)
        checkpoint(env, compact="full")
    log.append(9)
    sizes: list[int] = []

    def plan(files: pa.Table) -> MergePlan:
        sizes.append(files.num_rows)
        return plan_groups(files, log.partitions, (), Limits(10**6, 100, 1000))

    plan_in_parts(open_log(env, cache=LogCache()).snapshot(), plan, NAMES, (), None)
    assert sum(sizes) == 249
    assert len(sizes) > 4
    assert max(sizes) < 125


@pytest.mark.parametrize("kind", [pa.float64(), pa.string()])
def test_every_entry_lies_in_one_range(kind):
    """What is not a number is neither above nor below any."""
    values = ["1", "NaN", "-3", "7e5", None, "12", "-inf", "no number", "0.5"]
    # The second of these lies above the first range but for what is not a number.
    held = [["1", "2"], ["5", "NaN"], ["9", "10"]]
    for drawn in (held, [values] * 30):
        check_ranges(drawn, kind)


def check_ranges(drawn: list[list[str | None]], kind: pa.DataType) -> None:
    infos, every = [], []
    chance = random.Random(1)
    for number, values in enumerate(drawn):
        rows = [
            add_row(number * 10 + at, chance)
            | {"partitionValues": [("shard", chance.choice(values)), ("day", chance.choice(values))]}
            for at in range(8)
        ]
        entries = adds_table(rows)
        every.append(entries)
        types = {"shard": kind, "day": kind}
        bounds = bounds_of(entries.column("partitionValues"), types)
        infos.append(ManifestInfo(str(number), 8, 0, 0, bounds=bounds))
    found = [
        path
        for within, chosen in partition_ranges(infos, types, 8)
        for info in chosen
        for path in every[int(info.path)].filter(within(every[int(info.path)]))["path"].to_pylist()
    ]
    assert sorted(found) == sorted(path for entries in every for path in entries["path"].to_pylist())
