"""SIGKILL at every call of the store while rows change: all of a statement or nothing, and its repetition ends it.

So it is where nobody else writes, and where another deletes rows of the same file just before the commit.
"""

from __future__ import annotations

import shutil
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import indextables
from indextables.log.wire.names import LOG_DIR
from tests.sim.test_merge_kill import OPTIONS, Steps
from tests.sim.worker import fork_server
from tests.table.merge_world import SCHEMA, ids, row, table_of

SERVER = fork_server("tests.sim.test_change_kill")
JOB = ("job", 1)
BIG = 1_600
"""Every other row of so many is a vector that does not stand in the log."""


def delete(table) -> None:
    table.delete("id % 2 = 1", txn=JOB)


def update(table) -> None:
    table.update({"message": "'changed'"}, "id < 4", txn=JOB)


def upsert(table) -> None:
    table.upsert([row(2) | {"message": "changed"}, row(BIG + 9)], "id", txn=JOB)


VERBS = {
    "delete": (delete, [n for n in range(BIG) if n % 2 == 0], 0),
    "update": (update, list(range(BIG)), 4),
    "upsert": (upsert, [*range(BIG), BIG + 9], 1),
}


class Beside(Steps):
    """As `Steps`; before the commit somebody else deletes the last row."""

    def __init__(self, kill_at: int, folder: Path) -> None:
        super().__init__(kill_at)
        self._folder = folder
        self._is_done = False

    def watch(self, store) -> None:
        super().watch(store)
        put = store.put_if_absent

        def late(key, *args, **more):
            if not self._is_done and key.startswith(LOG_DIR) and key.endswith(".json"):
                self._is_done = True
                indextables.open(self._folder, options=OPTIONS).delete(f"id = {BIG - 2}")
            return put(key, *args, **more)

        store.put_if_absent = late


def live(folder: Path, verb: str, step: int, beside: bool, told: Connection) -> None:
    """What a child does until it dies."""
    table = indextables.open(folder, options=OPTIONS)
    countdown = Beside(step, folder) if beside else Steps(step)
    countdown.watch(table._log.env.store)
    VERBS[verb][0](table)
    told.send(countdown.steps)


def die_at(folder: Path, verb: str, step: int, *, beside: bool) -> int | None:
    """None if it died, else the number of steps that it took."""
    receiver, sender = SERVER.Pipe(duplex=False)
    child = SERVER.Process(target=live, args=(folder, verb, step, beside, sender))
    child.start()
    sender.close()
    child.join(300)
    assert child.exitcode in {0, -signal.SIGKILL}
    with receiver:
        return receiver.recv() if child.exitcode == 0 else None


def state(folder: Path) -> tuple[list[int], int]:
    """The ids, and how many rows say that they changed, by a search too."""
    table = indextables.open(folder, options=OPTIONS)
    data = table.to_arrow(["id", "message"])
    changed = data["message"].to_pylist().count("changed")
    assert table.count("message:changed") == changed
    assert table.count() == data.num_rows
    return sorted(ids(data)), changed


def check(folder: Path, verb: str, before: tuple[list[int], int], lost: set[int]) -> None:
    run, whole, changed = VERBS[verb]
    after = ([n for n in whole if n not in lost], changed)
    without = ([n for n in before[0] if n not in lost], 0)
    assert state(folder) in (before, without, after)
    table = indextables.open(folder, options=OPTIONS)
    run(table)
    if lost:
        table.delete(f"id = {BIG - 2}")
    # Whoever died left a writer's intent behind, which ends by itself a day later.
    shutil.rmtree(folder / "_transaction_log" / "_intents", ignore_errors=True)
    table.purge(older_than_hours=0, tx_log_retention_hours=0, force=True)
    assert indextables.open(folder, options=OPTIONS).verify().ok
    assert state(folder) == after


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """Two splits, one of them with a vector."""
    folder = tmp_path_factory.mktemp("killed") / "t"
    table = table_of(folder, [BIG, 1], options=OPTIONS)
    table.delete(f"id = {BIG}")
    assert table.schema == SCHEMA
    return folder


def play(template: Path, tmp_path: Path, verb: str, *, beside: bool, every: int) -> int:
    """Die at each of these steps; the number of deaths."""
    before, lost = state(template), {BIG - 2} if beside else set()
    counted = tmp_path / "counted"
    shutil.copytree(template, counted)
    steps = die_at(counted, verb, -1, beside=beside)
    assert steps is not None
    check(counted, verb, before, lost)
    deaths = 0
    for step in range(1, steps + 1, every):
        folder = tmp_path / f"killed-{step}"
        shutil.copytree(template, folder)
        deaths += die_at(folder, verb, step, beside=beside) is None
        check(folder, verb, before, lost)
        shutil.rmtree(folder)
    assert deaths >= steps // every - 5, "the steps of two runs differ by more than a retry"
    return deaths


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("verb", "beside"), [("delete", False), ("upsert", True)])
def test_a_statement_killed_at_some_calls_of_the_store_is_done_or_not(template, tmp_path, monkeypatch, verb, beside):
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path / "cache"))
    assert play(template, tmp_path, verb, beside=beside, every=9) > 1


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
@pytest.mark.parametrize("verb", list(VERBS))
def test_a_statement_killed_at_any_call_of_the_store_is_done_or_not(template, tmp_path, monkeypatch, verb, beside):
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path / "cache"))
    assert play(template, tmp_path, verb, beside=beside, every=1) > 10
