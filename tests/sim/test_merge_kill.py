"""SIGKILL at every step of a merge on local files: what was there is there, and the next merge needs no help.

The children come from a fork server that has imported everything and run nothing.
"""

from __future__ import annotations

import shutil
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import indextables
from indextables.log.care import opening
from indextables.log.read.log import Log
from indextables.table.environment import open_env
from indextables.table.maintenance.purge.verb import purge
from indextables.table.merge.verb import merge_splits
from indextables.table.requests import MergeSplits, Purge
from indextables.table.running import Threads
from tests.sim.worker import Countdown, fork_server
from tests.table.merge_world import delete_rows, ids, log_of, table_of

OPTIONS = {"storage.fsync": "false", "checkpoint.interval": "5"}
STORE_STEPS = (
    "get",
    "get_range",
    "get_ranges",
    "put",
    "put_file",
    "put_if_absent",
    "list_from",
    "head",
    "exists",
    "delete_many",
    "probe",
)
SERVER = fork_server("tests.sim.test_merge_kill")


class Steps(Countdown):
    """Counts the calls of the store alone."""

    def watch(self, store) -> None:
        for verb in STORE_STEPS:
            self._wrap(store, verb)


def open_log(folder: Path) -> Log:
    return opening.open_log(open_env(str(folder), OPTIONS))


def live(folder: Path, step: int, system_calls: bool, told: Connection) -> None:
    """What a child does until it dies."""
    log = open_log(folder)
    countdown = Countdown(step) if system_calls else Steps(step)
    countdown.watch(log.env.store)
    merge_splits(log, MergeSplits(), runner=Threads(log.env))
    told.send(countdown.steps)


def die_at(folder: Path, step: int, *, system_calls: bool) -> int | None:
    """None if it died, else the number of steps that it took."""
    receiver, sender = SERVER.Pipe(duplex=False)
    child = SERVER.Process(target=live, args=(folder, step, system_calls, sender))
    child.start()
    sender.close()
    child.join(300)
    assert child.exitcode in {0, -signal.SIGKILL}
    with receiver:
        return receiver.recv() if child.exitcode == 0 else None


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """Three splits, one of them with a vector."""
    folder = tmp_path_factory.mktemp("killed") / "t"
    table = table_of(folder, [3] * 3, options=OPTIONS)
    delete_rows(log_of(table), {table.files()["path"].to_pylist()[1]: [0]})
    return folder


EXPECTED = [n for n in range(9) if n != 3]


def play(template: Path, tmp_path: Path, *, system_calls: bool) -> int:
    counted = tmp_path / "counted"
    shutil.copytree(template, counted)
    steps = die_at(counted, -1, system_calls=system_calls)
    assert steps is not None
    deaths = 0
    for step in range(1, steps + 1):
        folder = tmp_path / f"killed-{step}"
        shutil.copytree(template, folder)
        deaths += die_at(folder, step, system_calls=system_calls) is None
        check(folder, step)
        shutil.rmtree(folder)
    assert deaths >= steps - 5, "the steps of two runs differ by more than a retry"
    return deaths


def check(folder: Path, step: int) -> None:
    """Rows and order are as before; a second merge and a purge converge, and nothing that is needed goes."""
    table = indextables.open(folder, options=OPTIONS)
    before = table.version
    assert ids(table.to_arrow()) == EXPECTED, f"step {step}"
    assert table.verify().ok, f"step {step}"
    table.merge_splits()
    assert table.files().num_rows == 1, f"step {step}"
    log = open_log(folder)
    # Whoever died left a writer's intent behind, which ends by itself a day later.
    shutil.rmtree(folder / "_transaction_log" / "_intents", ignore_errors=True)
    purge(log, Purge(older_than_hours=0, tx_log_retention_hours=720, force=True), runner=Threads(log.env))
    for version in range(before, table.version + 1):
        assert ids(table.at(version=version).to_arrow()) == EXPECTED, f"step {step}, version {version}"


@pytest.mark.timeout(1200)
def test_a_merge_killed_at_any_call_of_the_store_loses_nothing_and_can_be_repeated(template, tmp_path, monkeypatch):
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path / "cache"))
    assert play(template, tmp_path, system_calls=False) > 20


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_merge_killed_at_any_system_call_loses_nothing_and_can_be_repeated(template, tmp_path, monkeypatch):
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path / "cache"))
    assert play(template, tmp_path, system_calls=True) > 100
