"""SIGKILL at every step of create, append and overwrite on local files: reopening needs no repair.

A step is a call of the store or a system call inside it. The children come from a fork server that has imported
everything and run nothing, so that hundreds of deaths take seconds.
"""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.log.commit.create import create_table
from indextables.log.wire.names import LOG_DIR
from indextables.options import Options
from indextables.storage import open_store
from tests.log.commits import METADATA, add, open_log
from tests.sim.worker import Countdown, fork_server
from tests.world.commits import append, overwrite

POINTS = int(os.environ.get("INDEXTABLES_KILL_POINTS", "300"))
OPTIONS = {"checkpoint.interval": "3"}


def log_at(folder: Path, *, fsync: bool = False):
    """What comes before and after a death need not survive a power failure, which takes most of the time."""
    options = Options({**OPTIONS, "storage.fsync": str(fsync)}, environ={})
    return open_log(Env(open_store(folder, options), SystemAmbient(), options))


def create(log) -> None:
    create_table(log, METADATA)


def append_new(log) -> None:
    append(log, [add("new")])


def overwrite_all(log) -> None:
    overwrite(log, [add("new")])


SERVER = fork_server("tests.sim.test_sigkill")

VERBS = {"create": create, "append": append_new, "overwrite": overwrite_all}


def prepare(folder: Path, verb: str) -> None:
    """A table that is due for a checkpoint with the next commit."""
    if verb != "create":
        log = log_at(folder)
        create_table(log, METADATA)
        append(log, [add("a"), add("b")])


def live(folder: Path, verb: str, step: int, told: Connection) -> None:
    """What a child does until it dies."""
    log = log_at(folder, fsync=True)
    countdown = Countdown(step)
    countdown.watch(log.env.store)
    VERBS[verb](log)
    told.send(countdown.steps)


def die_at(folder: Path, verb: str, step: int) -> tuple[bool, int]:
    """Run the verb in a child that dies at this step: whether it died, and how many steps it took if not."""
    receiver, sender = SERVER.Pipe(duplex=False)
    child = SERVER.Process(target=live, args=(folder, verb, step, sender))
    child.start()
    sender.close()
    child.join(300)
    assert child.exitcode in {0, -signal.SIGKILL}
    died = child.exitcode != 0
    with receiver:
        return died, 0 if died else receiver.recv()


def steps_of(tmp_path: Path, verb: str) -> int:
    folder = tmp_path / f"{verb}-count"
    prepare(folder, verb)
    died, steps = die_at(folder, verb, -1)
    assert not died
    return steps


def check(folder: Path, verb: str, step: int) -> None:
    """All of it or nothing; the next writer goes on without a repair; no half a file has a name."""
    if verb == "create":
        create_table(log_at(folder), METADATA)
    snapshot = log_at(folder).snapshot()
    paths = sorted(snapshot.files["path"].to_pylist())
    before, after = {"create": ([], []), "append": (["a", "b"], ["a", "b", "new"]), "overwrite": (["a", "b"], ["new"])}[
        verb
    ]
    assert paths in (before, after), f"step {step}"
    assert snapshot.version == {"create": 0}.get(verb, 2 if paths == after else 1)
    names = [entry.name for entry in (folder / LOG_DIR).iterdir()]
    assert not [name for name in names if name.startswith(".") or "#" in name]
    following = log_at(folder)
    version = append(following, [add("next")]).version
    assert version == snapshot.version + 1
    assert sorted(log_at(folder).snapshot().files["path"].to_pylist()) == sorted([*paths, "next"])


def play(tmp_path: Path, verb: str, points: int | None) -> int:
    steps = steps_of(tmp_path, verb)
    chosen = range(1, steps + 1)
    if points is not None and steps > points:
        chosen = sorted({1 + i * (steps - 1) // (points - 1) for i in range(points)})
    deaths = 0
    for step in chosen:
        folder = tmp_path / f"{verb}-{step}"
        prepare(folder, verb)
        deaths += die_at(folder, verb, step)[0]
        check(folder, verb, step)
    assert deaths >= len(chosen) - 5, "the steps of two runs differ by more than a retry"
    return deaths


@pytest.mark.parametrize("verb", VERBS)
def test_a_process_killed_at_any_step_leaves_all_or_nothing(tmp_path, verb):
    assert play(tmp_path, verb, POINTS // len(VERBS)) > 0


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("verb", VERBS)
def test_a_process_killed_at_every_single_step_leaves_all_or_nothing(tmp_path, verb):
    assert play(tmp_path, verb, None) > 0
