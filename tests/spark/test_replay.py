"""Distributed replay: tasks read the log, and the table is the one that the driver alone would see."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests.servers.s3 import Fault
from tests.spark.vectors import delete_rows

import indextables
from indextables import IndexTable
from indextables.errors import LogCorrupt, LogGap
from indextables.log.care.opening import open_log
from indextables.log.wire.actions import Add, CommitInfo, Metadata, Protocol, Remove
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import version_key
from indextables.log.wire.protocol import new_table_protocol
from indextables.spark.tasks.replay import DistributedTail, forget_in_workers, tasks_for
from indextables.spark.tasks.runner import Place
from indextables.table.environment import open_env

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

NO_STATES = {"checkpoint.enabled": "false"}
COLD = {"transaction.cache.enabled": "false"}


@pytest.mark.parametrize(
    ("files", "expected"), [(0, 1), (5, 1), (9, 1), (10, 5), (50, 8), (99, 8), (100, 10), (500, 16), (5000, 16)]
)
def test_how_many_tasks_read_so_many_files(files, expected):
    assert tasks_for(files, 8) == expected


def test_a_cluster_of_one_still_reads():
    assert [tasks_for(files, 1) for files in (1, 10, 50, 1000)] == [1, 1, 1, 2]


def grown(url, settings, versions, properties=None, seed=0):
    """A table with many small versions: appends, overwrites and deletions by vector."""
    chance = random.Random(seed)
    rows = pa.table({"id": list(range(8)), "part": [0, 0, 1, 1, 2, 2, 3, 3]})
    place = {"partition_by": ["part"], "options": {**settings, **NO_STATES}}
    table = indextables.create(url, rows.schema, properties=properties, **place)
    while table.version < versions:
        if chance.random() < 0.2:
            table.overwrite(rows.slice(0, 2), "part = 0")
        else:
            table.append(rows.slice(chance.randrange(8), 1 + chance.randrange(3)))
    return table


def cold(spark, url):
    """A log that remembers nothing, with its tail."""
    env = open_env(url, {**NO_STATES, **COLD})
    tail = DistributedTail(spark, env, Place(env.store.url), remote_only=False)
    return open_log(env, tail=tail), tail, open_log(env)


def assert_same(distributed, local):
    for field in ("version", "protocol", "metadata", "txns", "domains", "skips", "tokens", "in_commit_timestamp"):
        assert getattr(distributed, field) == getattr(local, field), field
    assert distributed.files.equals(local.files)


def test_tasks_and_the_driver_see_the_same_table(spark, tmp_path):
    grown(tmp_path / "t", {}, 24)
    delete_rows(tmp_path / "t", lambda number, rows: [0] if number % 3 == 0 and rows > 1 else [])
    for version in (12, 25):
        log, tail, local = cold(spark, str(tmp_path / "t"))
        assert_same(log.snapshot(version).state, local.snapshot(version).state)
        assert (tail.metrics.files, tail.metrics.tasks) == (version + 1, 2)
        assert tail.metrics.actions_kept <= tail.metrics.actions_read


def test_a_log_in_an_object_store_is_read_by_tasks_and_its_workers_remember(spark, s3, table_name):
    url, settings = s3.table_url(table_name), s3.settings()
    grown(url, settings, 14)
    env = open_env(url, {**settings, **NO_STATES, **COLD})
    here = open_log(env).snapshot().state
    hits = []
    for _ in range(4):
        tail = DistributedTail(spark, env, Place(url, settings))
        assert_same(open_log(env, tail=tail).snapshot().state, here)
        hits.append(tail.metrics.hits)
    assert hits[0] == 0
    assert max(hits) > 0
    forget_in_workers(env.store.url)
    again = DistributedTail(spark, env, Place(url, settings))
    open_log(env, tail=again).snapshot()
    assert again.metrics.hits == 0
    handle = IndexTable.forPath(spark, url, {**settings, **NO_STATES})
    assert handle.count() == indextables.open(url, settings).count()
    assert handle.invalidateCaches() is not None


def test_the_command_that_forgets_reaches_the_workers(spark, tmp_path):
    grown(tmp_path / "t", {}, 14)
    hits = []
    for _ in range(4):
        log, tail, _local = cold(spark, str(tmp_path / "t"))
        log.snapshot()
        hits.append(tail.metrics.hits)
    assert max(hits) > 0
    indextables.sql(spark, f"INVALIDATE TRANSACTION LOG CACHE FOR indextables.`{tmp_path / 't'}`")
    log, tail, _local = cold(spark, str(tmp_path / "t"))
    log.snapshot()
    assert tail.metrics.hits == 0


@pytest.mark.parametrize(
    "options",
    [
        {"transaction.distributed.enabled": "false"},
        {"transaction.distributed.minFiles": "100"},
        {"transaction.useOptimized": "false"},
    ],
    ids=["disabled", "few files", "plain replay"],
)
def test_the_driver_reads_itself_where_it_should(spark, tmp_path, options):
    grown(tmp_path / "t", {}, 12)
    env = open_env(tmp_path / "t", {**NO_STATES, **COLD, **options})
    tail = DistributedTail(spark, env, Place(env.store.url), remote_only=False)
    assert open_log(env, tail=tail).snapshot().version == 12
    assert tail.metrics is None


@pytest.mark.parametrize(
    "properties",
    [{"transaction.distributed.enabled": "false"}, {"transaction.useOptimized": "false"}],
    ids=["disabled", "plain replay"],
)
def test_the_driver_reads_itself_where_the_table_says_so(spark, tmp_path, properties):
    grown(tmp_path / "t", {}, 12, properties)
    env = open_env(tmp_path / "t", {**NO_STATES, **COLD})
    tail = DistributedTail(spark, env, Place(env.store.url), remote_only=False)
    assert open_log(env, tail=tail).snapshot().version == 12
    assert tail.metrics is None


def test_a_table_says_how_many_tasks_read_it(spark, tmp_path):
    asked = {"transaction.distributed.adaptiveParallelism": "false", "transaction.distributed.parallelism": "3"}
    grown(tmp_path / "t", {}, 12, asked)
    env = open_env(tmp_path / "t", {**NO_STATES, **COLD})
    tail = DistributedTail(spark, env, Place(env.store.url), remote_only=False)
    open_log(env, tail=tail).snapshot()
    assert tail.metrics.tasks == 3


def test_a_local_log_is_read_by_the_driver(spark, tmp_path):
    grown(tmp_path / "t", {}, 12)
    env = open_env(tmp_path / "t", {**NO_STATES, **COLD})
    tail = DistributedTail(spark, env, Place(env.store.url))
    assert open_log(env, tail=tail).snapshot().version == 12
    assert tail.metrics is None


def test_a_fixed_number_of_tasks(spark, tmp_path):
    grown(tmp_path / "t", {}, 12)
    asked = {"transaction.distributed.adaptiveParallelism": "false", "transaction.distributed.parallelism": "3"}
    env = open_env(tmp_path / "t", {**NO_STATES, **COLD, **asked})
    tail = DistributedTail(spark, env, Place(env.store.url), remote_only=False)
    open_log(env, tail=tail).snapshot()
    assert tail.metrics.tasks == 3


def test_damage_and_gaps_are_told_as_the_driver_tells_them(spark, tmp_path):
    grown(tmp_path / "t", {}, 12)
    file = tmp_path / "t" / version_key(7)
    kept = file.read_bytes()
    file.write_bytes(kept[: len(kept) // 2])
    log, tail, local = cold(spark, str(tmp_path / "t"))
    with pytest.raises(LogCorrupt, match="version 7"):
        local.snapshot().state  # noqa: B018 - loads
    with pytest.raises(LogCorrupt, match="version 7"):
        log.snapshot().state  # noqa: B018 - loads
    assert tail.metrics is None
    file.unlink()
    with pytest.raises(LogGap):
        cold(spark, str(tmp_path / "t"))[0].snapshot()
    file.write_bytes(kept)
    assert cold(spark, str(tmp_path / "t"))[0].snapshot().version == 12


def test_tasks_that_cannot_reach_the_store_leave_it_to_the_driver(spark, s3, table_name):
    url, settings = s3.table_url(table_name), s3.settings()
    grown(url, settings, 11)
    env = open_env(url, {**settings, **NO_STATES, **COLD})
    wrong = {
        **settings,
        "storage.endpoint": "http://127.0.0.1:9",
        "storage.retries": "0",
        "storage.timeoutSeconds": "2",
    }
    tail = DistributedTail(spark, env, Place(url, wrong))
    assert open_log(env, tail=tail).snapshot().state.files.num_rows > 0
    assert tail.metrics is None


def test_a_fault_of_the_store_in_a_task_changes_nothing(spark, s3, table_name):
    url, settings = s3.table_url(table_name), s3.settings()
    grown(url, settings, 11)
    env = open_env(url, {**settings, **NO_STATES, **COLD})
    here = open_log(env).snapshot().state
    forget_in_workers(env.store.url)
    s3.inject(Fault(method="GET", key=r"0005\.json", before=503, times=2))
    assert_same(open_log(env, tail=DistributedTail(spark, env, Place(url, settings))).snapshot().state, here)


def foreign(path, *, becomes_ours_at=None):
    """A table of 13 versions that logs its names as they are on disk, percent signs included, at least at first."""
    (path / "_transaction_log").mkdir(parents=True)
    schema = '{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{}}]}'
    names = [f"region=a%2Fb/part-{number}%41.split" for number in range(13)]
    for version, name in enumerate(names):
        actions = [CommitInfo(timestamp=version + 1, token=f"{version:032x}", tableId="t")]
        if version == 0:
            actions += [Protocol(2, 2), Metadata(id="t", schemaString=schema)]
        else:
            actions.append(Add(name, {}, 4, 1, dataChange=True))
        if version == becomes_ours_at:
            actions.append(new_table_protocol())
        if version == 12:
            actions.append(Remove(names[3], dataChange=True, deletionTimestamp=1))
        (path / version_key(version)).write_bytes(encode_version(actions, compress=False))
    return sorted(name for name in names[1:] if name != names[3])


def test_tasks_read_names_by_the_rule_of_the_table_that_the_driver_tells_them(spark, tmp_path):
    left = foreign(tmp_path / "t")
    log, tail, local = cold(spark, str(tmp_path / "t"))
    assert_same(log.snapshot().state, local.snapshot().state)
    assert sorted(log.snapshot().files["path"].to_pylist()) == left
    assert tail.metrics.files == 13


def test_the_driver_reads_versions_in_which_the_rule_of_names_changes(spark, tmp_path):
    foreign(tmp_path / "t", becomes_ours_at=8)
    log, tail, local = cold(spark, str(tmp_path / "t"))
    assert_same(log.snapshot().state, local.snapshot().state)
    assert tail.metrics is None
