"""SIGKILL at every call of the store of purge, truncate and restore: nothing reachable is gone, a second run converges.

The table is one of local files whose splits hold no rows: what care does depends on names and times alone. The children
come from a fork server that has imported everything and run nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from indextables.env import Env
from indextables.errors import VersionExpired
from indextables.log.care.schedule import checkpoint
from indextables.log.commit.create import create_table
from indextables.log.read.log import Log
from indextables.log.wire.actions import Add
from indextables.options import Options
from indextables.storage import open_store
from indextables.table.environment import open_env
from indextables.table.maintenance.purge.verb import purge
from indextables.table.maintenance.restore import restore
from indextables.table.maintenance.truncate import truncate_time_travel
from indextables.table.requests import Purge, Restore, TruncateTimeTravel
from indextables.table.running import Threads
from tests.log.commits import METADATA, open_log
from tests.sim.test_merge_kill import Steps
from tests.sim.worker import Countdown, fork_server
from tests.world.clock import Clock
from tests.world.commits import append, overwrite

POINTS = int(os.environ.get("INDEXTABLES_CARE_KILL_POINTS", "24"))
DAY_S = 86_400
OPTIONS = {
    "storage.fsync": "false",
    "checkpoint.interval": "1000",
    "state.retention.hours": "0",
    "state.retention.versions": "1",
    "state.gc.minManifestAgeHours": "0",
}
SERVER = fork_server("tests.sim.test_care_kill")
TARGET = 4
"""The version that is restored."""


def do_purge(log: Log) -> None:
    purge(log, Purge(older_than_hours=24, tx_log_retention_hours=24), runner=Threads(log.env))


def do_truncate(log: Log) -> None:
    truncate_time_travel(log, TruncateTimeTravel())


def do_restore(log: Log) -> None:
    restore(log, Restore(version=TARGET), runner=Threads(log.env))


VERBS = {"purge": do_purge, "truncate": do_truncate, "restore": do_restore}


def fresh(folder: Path) -> Log:
    return open_log(open_env(str(folder), OPTIONS))


def live(folder: Path, verb: str, step: int, system_calls: bool, told: Connection) -> None:
    """What a child does until it dies."""
    log = fresh(folder)
    countdown = Countdown(step) if system_calls else Steps(step)
    countdown.watch(log.env.store)
    VERBS[verb](log)
    told.send(countdown.steps)


def die_at(folder: Path, verb: str, step: int, *, system_calls: bool) -> int | None:
    """None if it died, else the number of steps that it took."""
    receiver, sender = SERVER.Pipe(duplex=False)
    child = SERVER.Process(target=live, args=(folder, verb, step, system_calls, sender))
    child.start()
    sender.close()
    child.join(300)
    assert child.exitcode in {0, -signal.SIGKILL}
    with receiver:
        return receiver.recv() if child.exitcode == 0 else None


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> tuple[Path, list[list[str]]]:
    """Nine versions that are a hundred days old, checkpoints of some, orphans, a stranger; and the files of each."""
    folder = tmp_path_factory.mktemp("cared") / "t"
    clock = Clock(int((time.time() - 100 * DAY_S) * 1000), seed=0)
    options = Options({**OPTIONS, "commit.maxClockSkewMs": 10**14}, environ={})
    env = Env(open_store(str(folder), options), clock, options)
    log = open_log(env)
    create_table(log, METADATA)
    for number in range(8):
        path = f"splits/split-{number:032x}.split"
        env.store.put(path, b"rows")
        add = Add(path, {}, 4, 1, dataChange=True, numRecords=1)
        overwrite(log, [add]) if number % 2 else append(log, [add])
        clock.advance(days=1)
        if number in {2, 4, 6}:
            checkpoint(env)
    for number in (100, 101):
        env.store.put(f"splits/split-{number:032x}.split", b"nobody")
    env.store.put("notes.txt", b"mine")
    old = time.time() - 90 * DAY_S
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
    truth = [sorted(open_log(env).snapshot(version).files["path"].to_pylist()) for version in range(9)]
    return folder, truth


def check_reachable(folder: Path, truth: list[list[str]], step: int) -> dict[int, list[str]]:
    """Every version that can be read has its files, all of which are there; the newest can be read."""
    log = fresh(folder)
    newest = log.snapshot()
    found: dict[int, list[str]] = {}
    for version in range(newest.version + 1):
        try:
            paths = sorted(log.snapshot(version).files["path"].to_pylist())
        except VersionExpired:
            continue
        if version < len(truth):
            assert paths == truth[version], f"step {step}, version {version}"
        assert all((folder / path).exists() for path in paths), f"step {step}, version {version}"
        found[version] = paths
    assert newest.version in found
    assert (folder / "notes.txt").read_bytes() == b"mine"
    return found


def outlive_lease(folder: Path) -> None:
    """The lease of the dead is over an hour later."""
    old = time.time() - 3600
    for path in (folder / "_transaction_log" / "_intents").glob("lease-*"):
        os.utime(path, (old, old))


def converge_purge(folder: Path, truth: list[list[str]], step: int) -> None:
    outlive_lease(folder)
    do_purge(fresh(folder))
    found = check_reachable(folder, truth, step)
    needed = {path for paths in found.values() for path in paths}
    there = {str(path.relative_to(folder)) for path in folder.rglob("*.split")}
    assert there == needed, f"step {step}"
    log = fresh(folder)
    again = purge(log, Purge(older_than_hours=24, tx_log_retention_hours=24), runner=Threads(log.env))
    assert again.count("split") == 0, f"step {step}"


def converge_truncate(folder: Path, truth: list[list[str]], step: int) -> None:
    report = truncate_time_travel(fresh(folder), TruncateTimeTravel())
    assert report.oldest == report.version, f"step {step}"
    found = check_reachable(folder, truth, step)
    assert found == {report.version: truth[-1]}, f"step {step}"
    (folder / "splits" / "next").write_bytes(b"x")
    append(fresh(folder), [Add("splits/next", {}, 1, 1, dataChange=True, numRecords=1)])
    assert sorted(fresh(folder).snapshot().files["path"].to_pylist()) == sorted([*truth[-1], "splits/next"])


def converge_restore(folder: Path, truth: list[list[str]], step: int) -> None:
    newest = check_reachable(folder, truth, step)
    assert newest[max(newest)] in (truth[-1], truth[TARGET]), f"step {step}"
    outlive_lease(folder)
    do_restore(fresh(folder))
    assert sorted(fresh(folder).snapshot().files["path"].to_pylist()) == truth[TARGET], f"step {step}"


CONVERGE = {"purge": converge_purge, "truncate": converge_truncate, "restore": converge_restore}


def play(
    template: tuple[Path, list[list[str]]], tmp_path: Path, verb: str, points: int | None, *, system_calls: bool
) -> int:
    source, truth = template
    counted = tmp_path / "counted"
    shutil.copytree(source, counted)
    steps = die_at(counted, verb, -1, system_calls=system_calls)
    assert steps is not None
    deaths = 0
    chosen = range(1, steps + 1)
    if points is not None and steps > points:
        chosen = sorted({1 + i * (steps - 1) // (points - 1) for i in range(points)})
    for step in chosen:
        folder = tmp_path / f"killed-{step}"
        shutil.copytree(source, folder)
        deaths += die_at(folder, verb, step, system_calls=system_calls) is None
        check_reachable(folder, truth, step)
        CONVERGE[verb](folder, truth, step)
        shutil.rmtree(folder)
    assert deaths >= len(chosen) - 5, "the steps of two runs differ by more than a retry"
    return deaths


@pytest.mark.parametrize("verb", VERBS)
def test_care_that_is_killed_at_any_call_of_the_store_loses_nothing_and_can_be_repeated(template, tmp_path, verb):
    assert play(template, tmp_path, verb, POINTS, system_calls=False) > 5


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("verb", VERBS)
def test_care_that_is_killed_at_every_single_call_of_the_store_loses_nothing(template, tmp_path, verb):
    assert play(template, tmp_path, verb, None, system_calls=False) > 10


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("verb", VERBS)
def test_care_that_is_killed_at_any_system_call_loses_nothing_and_can_be_repeated(template, tmp_path, verb):
    assert play(template, tmp_path, verb, None, system_calls=True) > 50
