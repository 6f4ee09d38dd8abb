"""A table that is fed by small appends keeps its splits few by itself, and no append pays for it or fails of it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.table.merge_world import SCHEMA, delete_rows, ids, log_of, row
from tests.table.operate_world import new_table, rows

import indextables
from indextables.ambient import SystemAmbient
from indextables.errors import StoreUnavailable
from indextables.log.care.work import Work, failed
from indextables.table.read.tail import Limits, Place, Tail

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("with_upkeep")]

QUICK = {"storage.fsync": "false"}


class Steps(SystemAmbient):
    """A process that is old, whose background work is done when it is asked for: each test sees the same."""

    def submit(self, pool, call):
        done: Future = Future()
        done.set_result(call())
        return done

    def age(self) -> float:
        return 1e6


def make(path: Path, **more):
    return indextables.create(
        path, SCHEMA, indexing={"message": "text"}, **{"options": QUICK, "ambient": Steps(), **more}
    )


def operations(table) -> list[str]:
    return table.history()["operation"].to_pylist()


@pytest.mark.parametrize("count", [60, 300])
def test_many_small_appends_stay_few_splits_with_all_rows_in_their_order(tmp_path, count):
    table = make(tmp_path / "t")
    most = 0
    for number in range(count):
        table.append([row(number)])
        most = max(most, table.files().num_rows)
    assert most <= 24
    table.refresh()
    assert table.files().num_rows <= 20
    assert ids(table.to_arrow(["id"])) == list(range(count))
    assert table.to_arrow().to_pylist() == [row(number) for number in range(count)]
    wanted = [number for number in range(count) if number % 5 == 1]
    assert sorted(ids(table.search("disk", columns=["id"], limit=None))) == wanted
    assert table.count("disk") == len(wanted)
    assert table.search(f"r{count - 1}", columns=["id"]).num_rows == 1
    assert not table.verify().findings


@pytest.mark.parametrize("how", ["upsert", "update"])
def test_many_small_changes_of_rows_stay_few_splits_with_all_rows(tmp_path, how):
    table = make(tmp_path / "t")
    table.append([row(number) for number in range(60)])
    for number in range(60):
        if how == "upsert":
            table.upsert([{**row(number), "message": f"changed {number}"}], ["id"])
        else:
            table.update({"message": f"'changed {number}'"}, f"id = {number}")
    assert table.refresh().files().num_rows <= 20
    assert sorted(ids(table.to_arrow(["id"]))) == list(range(60))
    assert table.count("changed") == 60
    assert not table.verify().findings


@pytest.mark.parametrize(("partitions", "changes"), [(1, 8), (4, 1)])
def test_writers_whose_appends_are_in_step_with_other_versions_keep_their_splits_few(tmp_path, partitions, changes):
    """Each round is as many versions as lie between two looks, and only the first of them adds files."""
    table = make(tmp_path / "t", partition_by=["p"])
    most = 0
    for number in range(0, 1200, 20):
        table.append([row(number + each, "abcd"[each % partitions]) for each in range(20)])
        for each in range(changes):
            table.delete(f"id = {number + each}")
        most = max(most, table.health().upkeep.most_small)
    assert most <= 50
    assert sorted(ids(table.to_arrow(["id"]))) == [number for number in range(1200) if number % 20 >= changes]


def test_partitions_are_kept_each_for_itself(tmp_path):
    table = make(tmp_path / "t", partition_by=["p"])
    for number in range(40):
        table.append([row(number, "abc"[number % 3])])
    table.refresh()
    found = table.health().upkeep
    assert found.most_small <= 20
    for place, p in enumerate("abc"):
        assert ids(table.to_arrow(["id"], where=f"p = '{p}'")) == list(range(place, 40, 3))


class Beside(Steps):
    """Does something else, once, when the first merge has begun. `pools` are the threads that work was given to."""

    meanwhile = None

    def __init__(self):
        super().__init__()
        self.pools = []

    def submit(self, pool, call):
        self.pools.append(pool)
        return super().submit(pool, call)

    def map(self, pool, call, items):
        act, self.meanwhile = (self.meanwhile, None) if pool == "upkeep" else (None, self.meanwhile)
        if act is not None:
            act()
        return super().map(pool, call, items)


def test_what_becomes_due_while_it_merges_is_merged_when_that_has_ended(tmp_path):
    ambient = Beside()
    table = make(tmp_path / "t", ambient=ambient)
    done = []

    def append_many():
        done.extend(table.append([row(number)]) for number in range(1000, 1070))

    ambient.meanwhile = append_many
    number = 0
    while not done and number < 40:
        table.append([row(number)])
        number += 1
    assert len(done) == 70
    assert table.refresh().files().num_rows <= 24
    assert table.count() == 70 + number


@pytest.mark.parametrize(("meanwhile", "wanted"), [(20, {"upkeep"}), (60, {"upkeep", "overdue"})])
def test_merges_stand_back_behind_other_work_until_they_fall_behind(tmp_path, meanwhile, wanted):
    ambient = Beside()
    table = make(tmp_path / "t", ambient=ambient)
    ambient.meanwhile = lambda: [table.append([row(number)]) for number in range(1000, 1000 + meanwhile)]
    for number in range(20):
        table.append([row(number)])
    assert set(ambient.pools) == wanted
    ambient.pools.clear()
    for number in range(20, 40):
        table.append([row(number)])
    assert set(ambient.pools) == {"upkeep"}
    assert table.count() == 40 + meanwhile


VAST = {**QUICK, "state.filesInMemory": "1", "transaction.cache.enabled": "false"}
"""Every table has very many files."""


def test_of_very_many_files_those_are_looked_at_that_lie_beside_the_newest(tmp_path):
    scattered = {"mergeOnWrite.enabled": "false"}
    old = make(tmp_path / "t", partition_by=["p"], options={**QUICK, **scattered})
    for number in range(30):
        old.append([row(number, "old")])
    for number in range(30, 45):
        old.append([row(number, None)])
    old.checkpoint()
    table = indextables.open(tmp_path / "t", VAST, ambient=Steps())
    for number in range(45, 105):
        table.append([row(number, (None, "b", "c")[number % 3])])
    table.refresh()
    partitions = [dict(values).get("p") for values in table.files()["partitionValues"].to_pylist()]
    assert partitions.count("old") == 30
    assert max(partitions.count(p) for p in (None, "b", "c")) <= 15
    assert table.to_arrow(["id"], where="p = 'old'")["id"].to_pylist() == list(range(30))
    for place, where in enumerate(("p IS NULL", "p = 'b'", "p = 'c'")):
        found = [number for number in range(30, 105) if (number % 3 if number >= 45 else 0) == place]
        assert ids(table.to_arrow(["id"], where=where)) == found
    table.merge_splits("p = 'old'")
    assert table.refresh().files("p = 'old'").num_rows == 1
    assert sorted(ids(table.to_arrow(["id"]))) == list(range(105))
    assert not table.verify().findings


def test_very_many_files_in_one_partition_are_not_looked_at_unasked(tmp_path):
    make(tmp_path / "t").append([row(0)])
    table = indextables.open(tmp_path / "t", VAST, ambient=Steps())
    for number in range(1, 30):
        table.append([row(number)])
    assert table.refresh().files().num_rows == 30
    assert table.health().upkeep.failures == 0
    assert table.merge_splits().merged_groups == 1
    assert ids(table.refresh().to_arrow(["id"])) == list(range(30))


def test_a_property_turns_it_off(tmp_path):
    table = make(tmp_path / "t", properties={"mergeOnWrite.enabled": "false"})
    for number in range(20):
        assert table.append([row(number)]) == number + 1
    assert table.refresh().files().num_rows == 20
    assert not (tmp_path / "t" / "_transaction_log" / "_intents").exists()
    assert table.health().upkeep.tiers == [20]


def test_nobody_who_only_reads_merges(tmp_path):
    make(tmp_path / "t")
    quiet = indextables.open(tmp_path / "t", {**QUICK, "mergeOnWrite.enabled": "false"})
    for number in range(12):
        quiet.append([row(number)])
    reader = indextables.open(tmp_path / "t", QUICK, ambient=Steps())
    assert (reader.count(), reader.count("disk"), reader.merge_splits(dry_run=True).groups) == (12, 3, 1)
    assert reader.health().upkeep.due == 1
    assert reader.refresh().version == 12


def test_handles_of_processes_that_live_for_one_append_keep_the_bound(tmp_path):
    make(tmp_path / "t")
    most = 0
    for number in range(60):
        indextables.invalidate_caches()
        ambient = SystemAmbient()
        table = indextables.open(tmp_path / "t", QUICK, ambient=ambient)
        table.append([row(number)])
        # As the end of an interpreter: what runs is waited for.
        ambient.shutdown()
        most = max(most, table.refresh().files().num_rows)
    assert most <= 24
    assert ids(table.to_arrow(["id"])) == list(range(60))


ONE_SHOT = """
import multiprocessing, sys, indextables
from tests.table.merge_world import row

def append(number):
    indextables.open(sys.argv[1], {"storage.fsync": "true"}).append([row(number)])

def lives(numbers):
    # This process has no threads when it forks, so that each child is as a process of its own.
    fork = multiprocessing.get_context("fork")
    for number in numbers:
        child = fork.Process(target=append, args=(number,))
        child.start()
        child.join(120)
        assert child.exitcode == 0, (number, child.exitcode)

lives(range(int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_thousands_of_processes_of_one_append_each_two_at_a_time_keep_the_bound(tmp_path):
    table = make(tmp_path / "t")
    count = int(os.environ.get("INDEXTABLES_ONE_SHOTS", "10000"))
    both = [
        writer(tmp_path / "t", 0, count // 2, ONE_SHOT),
        writer(tmp_path / "t", count // 2, count, ONE_SHOT),
    ]
    most = 0
    while running := [process for process in both if process.poll() is None]:
        # Looking at it takes a core that the two need.
        with contextlib.suppress(subprocess.TimeoutExpired):
            running[0].wait(0.5)
        most = max(most, table.refresh().health().upkeep.most_small)
    assert [process.returncode for process in both] == [0, 0]
    table.refresh()
    print(f"{count} processes, {most} small splits at the most, {table.files().num_rows} splits at the end")
    assert sorted(ids(table.to_arrow(["id"]))) == list(range(count))
    assert most <= 50
    assert not table.verify().findings


WRITER = """
import sys, indextables
from tests.table.merge_world import row
from tests.table.test_upkeep import QUICK
table = indextables.open(sys.argv[1], QUICK)
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    table.append([row(number)])
"""


def writer(path: Path, first: int, last: int, code: str = WRITER) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, str(path), str(first), str(last)])


@pytest.mark.parametrize("options", ["QUICK", "{'storage.fsync': 'true'}"])
def test_a_process_that_ends_has_done_the_piece_that_its_append_made_due(tmp_path, options):
    """Whether its files are forced to the disk, for which it needs a second thread, or not."""
    make(tmp_path / "t")
    quiet = indextables.open(tmp_path / "t", {**QUICK, "mergeOnWrite.enabled": "false"})
    for number in range(17):
        quiet.append([row(number)])
    assert writer(tmp_path / "t", 17, 18, WRITER.replace("QUICK)", f"{options})")).wait(120) == 0
    assert quiet.refresh().files().num_rows == 1
    assert ids(quiet.to_arrow(["id"])) == list(range(18))


def test_two_processes_append_at_once_and_nothing_is_lost_or_refused(tmp_path):
    table = make(tmp_path / "t")
    both = [writer(tmp_path / "t", 0, 45), writer(tmp_path / "t", 45, 90)]
    assert [process.wait(300) for process in both] == [0, 0]
    table.refresh()
    assert sorted(ids(table.to_arrow(["id"]))) == list(range(90))
    assert [number for number in ids(table.to_arrow(["id"])) if number < 45] == list(range(45))
    assert table.files().num_rows <= 50
    assert "MERGE SPLITS" in operations(table)
    assert not table.verify().findings


KILLED = """
import os, signal, sys, indextables
from indextables.ambient import SystemAmbient
from tests.table.merge_world import row
from tests.table.test_upkeep import QUICK

class Killed(SystemAmbient):
    def map(self, pool, call, items):
        if pool != "upkeep":
            return super().map(pool, call, items)
        list(map(call, items))
        os.kill(os.getpid(), signal.SIGKILL)

ambient = Killed()
table = indextables.open(sys.argv[1], QUICK, ambient=ambient)
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    table.append([row(number)])
ambient.shutdown()
"""


def test_a_process_that_is_killed_in_the_middle_of_a_merge_loses_nothing(tmp_path):
    table = make(tmp_path / "t")
    assert writer(tmp_path / "t", 0, 40, KILLED).wait(120) == -9
    there = table.refresh().count()
    assert 10 <= there <= 40
    assert ids(table.to_arrow(["id"])) == list(range(there))
    assert table.files().num_rows == there
    assert not table.verify().findings
    # Its lease holds others up for a while, and is over then.
    (lease,) = (tmp_path / "t" / "_transaction_log" / "_intents").glob("lease-merge-*")
    os.utime(lease, (lease.stat().st_mtime - 600,) * 2)
    lasted_ms = json.loads(lease.read_bytes())["ttlMs"]
    for number in range(there, there + 9):
        table.append([row(number)])
    assert table.refresh().files().num_rows < 12
    assert ids(table.to_arrow(["id"])) == list(range(there + 9))
    # It may have been too slow: the next one had more time.
    assert lease_of(tmp_path / "t")["ttlMs"] == 3 * lasted_ms


@pytest.mark.parametrize(
    ("content", "age_s"),
    [
        ('{"kind": "lease", "ttlMs": 604800000, "token": "t"}', 2000),
        ("no JSON", 2000),
        ("", 2000),
        ('{"kind": "lease", "ttlMs": 20000, "token": "t"}', -365 * 86_400),
    ],
    ids=["a week", "not readable", "empty", "by a clock of next year"],
)
def test_no_lease_holds_merges_up_for_longer_than_the_table_says(tmp_path, content, age_s):
    table = make(tmp_path / "t")
    lease = tmp_path / "t" / "_transaction_log" / "_intents" / "lease-merge-000000000005.json"
    lease.parent.mkdir(exist_ok=True)
    lease.write_text(content)
    os.utime(lease, (lease.stat().st_mtime - age_s,) * 2)
    for number in range(20):
        table.append([row(number)])
    assert table.refresh().files().num_rows < 12
    assert ids(table.to_arrow(["id"])) == list(range(20))


def test_a_lease_that_is_not_over_holds_merges_up(tmp_path):
    table = make(tmp_path / "t")
    lease = tmp_path / "t" / "_transaction_log" / "_intents" / "lease-merge-000000000005.json"
    lease.parent.mkdir(exist_ok=True)
    lease.write_text('{"kind": "lease", "ttlMs": 604800000, "token": "t"}')
    os.utime(lease, (lease.stat().st_mtime - 600,) * 2)
    for number in range(20):
        table.append([row(number)])
    assert table.refresh().files().num_rows == 20


def lease_of(path: Path) -> dict[str, object]:
    """The lease of merges that nobody asked for, as it lies in the log."""
    (lease,) = (path / "_transaction_log" / "_intents").glob("lease-merge-*")
    return json.loads(lease.read_bytes())


class Slow(Steps):
    """A merge takes 100 seconds; `lasted` are the leases under which it does, in milliseconds."""

    def __init__(self, path: Path):
        super().__init__()
        self._path, self._late_s, self.lasted = path, 0, []

    def monotonic(self) -> float:
        return super().monotonic() + self._late_s

    def map(self, pool, call, items):
        if pool == "upkeep":
            self._late_s += 100
            self.lasted.append(lease_of(self._path)["ttlMs"])
        return super().map(pool, call, items)


def test_a_lease_lasts_several_times_as_long_as_the_merge_before_it_took(tmp_path):
    ambient = Slow(tmp_path / "t")
    table = make(tmp_path / "t", ambient=ambient)
    for number in range(40):
        table.append([row(number)])
    assert ambient.lasted[0] < 60_000
    assert len(ambient.lasted) > 1
    assert all(300_000 <= lasted < 310_000 for lasted in ambient.lasted[1:])
    assert table.health().upkeep.failures == 0
    sooner = make(
        tmp_path / "sooner", ambient=Slow(tmp_path / "sooner"), properties={"mergeOnWrite.leaseSeconds": "30"}
    )
    for number in range(40):
        sooner.append([row(number)])
    assert lease_of(tmp_path / "sooner")["ttlMs"] == 30_000


def test_rows_that_were_deleted_stay_deleted(tmp_path):
    table = make(tmp_path / "t")
    for number in range(4):
        table.append([row(number), row(100 + number)])
    delete_rows(log_of(table), {path: [1] for path in table.files()["path"].to_pylist()})
    table.refresh()
    for number in range(4, 18):
        table.append([row(number)])
    assert table.refresh().files().num_rows < 12
    assert ids(table.to_arrow(["id"])) == list(range(18))
    assert table.count() == 18


def test_a_reader_of_the_stream_of_rows_sees_each_once_and_no_merge(tmp_path):
    table = make(tmp_path / "t")
    for number in range(25):
        table.append([row(number)])
    log = log_of(table)
    assert "MERGE SPLITS" in operations(table.refresh())
    tail = Tail(log, log.snapshot().metadata)
    end = tail.reach(Place(0, 0), Limits())
    read = [number for _, files in tail.files_between(Place(0, 0), end) for number in files["numRecords"].to_pylist()]
    assert read == [1] * 25


def test_an_overwrite_of_a_serializable_table_is_not_refused_for_a_merge_since(tmp_path):
    table = make(tmp_path / "t", properties={"isolationLevel": "Serializable"})
    for number in range(18):
        table.append([row(number)])
    before = indextables.open(tmp_path / "t", QUICK, version=18)
    assert operations(table.refresh())[0] == "MERGE SPLITS"
    assert before.files().num_rows == 18
    before.overwrite([row(99)])
    assert ids(table.refresh().to_arrow(["id"])) == [99]


class Failing(Steps):
    """Merges fail while `is_failing`."""

    is_failing = True
    attempts = 0

    def map(self, pool, call, items):
        if pool == "upkeep":
            self.attempts += 1
            if self.is_failing:
                raise StoreUnavailable("the disk of merges is away")
        return super().map(pool, call, items)


def put_off(path: Path, until_ms: int) -> None:
    """Change the time before which nobody tries again, by the store's clock."""
    (lease,) = (path / "_transaction_log" / "_intents").glob("lease-merge-*")
    told = json.loads(lease.read_bytes())
    told["work"]["notBeforeMs"] = until_ms
    lease.write_text(json.dumps(told))


def test_a_merge_that_fails_is_told_by_health_and_not_tried_again_at_once(tmp_path):
    ambient = Failing()
    table = make(tmp_path / "t", ambient=ambient)
    for number in range(18):
        assert table.append([row(number)]) == number + 1
    found = table.health()
    assert (ambient.attempts, found.upkeep.failures, found.upkeep.last_ms) == (1, 1, None)
    assert found.upkeep.not_before_ms > ambient.now_ms() - 60_000
    assert "away" in found.upkeep.reason
    assert [line.code for line in found.advice if "away" in line.problem] == ["upkeep"]
    put_off(tmp_path / "t", ambient.now_ms() + 1_800_000)
    for number in range(18, 27):
        assert table.append([row(number)]) == number + 1
    assert (ambient.attempts, table.refresh().health().upkeep.failures) == (1, 1)
    ambient.is_failing = False
    put_off(tmp_path / "t", 1)
    for number in range(27, 36):
        table.append([row(number)])
    found = table.refresh().health()
    assert found.upkeep.failures == 0
    assert found.upkeep.last_ms is not None
    assert found.upkeep.most_small < 16


def test_health_advises_no_more_what_was_done_about_failed_merges(tmp_path):
    table = make(tmp_path / "t", ambient=Failing())
    for number in range(18):
        table.append([row(number)])
    quiet = indextables.open(tmp_path / "t", {**QUICK, "mergeOnWrite.enabled": "false"})
    (advice,) = [line for line in table.health().advice if line.code == "upkeep"]
    assert "MERGE SPLITS" in advice.command
    quiet.merge_splits()
    assert quiet.health().upkeep.failures == 1
    assert [line.code for line in quiet.health().advice] == []


def test_each_failure_makes_the_next_attempt_wait_longer_up_to_an_hour():
    work, waits = Work(lastMs=7), []
    for _ in range(12):
        work = failed(work, "x" * 1000, 1_000)
        waits.append(work.notBeforeMs - 1_000)
    assert waits[:3] == [10_000, 20_000, 40_000]
    assert waits[-1] == 3_600_000
    assert (work.lastMs, work.failures, len(work.reason)) == (7, 12, 500)


def test_health_tells_how_small_splits_are_kept():
    table, _ = new_table(**{"mergeOnWrite.async.enabled": "false"})
    assert table.health().upkeep.most_small == 0
    for number in range(21):
        table.append(rows(number))
    found = table.refresh().health().upkeep
    assert (found.most_small, found.tiers, found.due, found.failures) == (4, [4], 0, 0)
    assert found.last_ms is not None
