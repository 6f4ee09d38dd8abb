"""A version that is protected while cleanup runs is readable, or nobody was told that it is protected."""

from __future__ import annotations

import os
import re
import shutil
import threading

import msgspec
import pyarrow as pa
import pytest
from tests.world.clock import ShiftedClock
from tests.world.store import InterruptedStore

import indextables
from indextables.ambient import SystemAmbient
from indextables.errors import VersionExpired
from indextables.log.care.cleanup import clean_up
from indextables.log.care.intents import announce_sweep
from indextables.log.care.opening import open_log
from indextables.table.environment import open_env

SCHEMA = pa.schema([("x", pa.int64())])
SETTINGS = {
    "checkpoint.interval": "1000000",
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
}


class Patient(SystemAmbient):
    """Who sleeps says so, and is woken by the test."""

    def __init__(self):
        super().__init__()
        self.sleeps, self.wake = threading.Event(), threading.Event()

    def sleep(self, seconds):
        self.sleeps.set()
        self.wake.wait(60)


def table(path):
    """Versions 0 to 8 with checkpoints at 2, 5 and 7."""
    made = indextables.create(path, SCHEMA, options=SETTINGS)
    for x in range(8):
        made.append(pa.table({"x": [x]}, schema=SCHEMA))
        if x in (1, 4, 6):
            made.checkpoint()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("first", ["whole", "cut"])
def test_protect_holds_at_every_step_of_a_cleanup(tmp_path, first):
    outcomes = set()
    template = tmp_path / "template"
    table(template)
    if first == "cut":
        # Version 3 then rests on a checkpoint, which goes before any version file does.
        for version in (0, 1):
            (template / "_transaction_log" / f"{version:020}.json").unlink()
    for at in range(1, 200):
        path = tmp_path / str(at)
        shutil.copytree(template, path)
        ambient = Patient()
        handle = indextables.open(path, ambient=ambient).at(3)
        told = []

        def protect(handle=handle, told=told):
            try:
                told.append(handle.protect())
            except VersionExpired as error:
                told.append(error)

        thread = threading.Thread(target=protect, daemon=True)

        def meanwhile(thread=thread, ambient=ambient):
            thread.start()
            while thread.is_alive() and not ambient.sleeps.wait(0.005):
                pass

        env = open_env(path, SETTINGS)
        store = InterruptedStore(env.store, at, meanwhile)
        clean_up(msgspec.structs.replace(env, store=store, ambient=ShiftedClock(500)))
        if store.left > 0:
            break
        ambient.wake.set()
        thread.join(60)
        clean_up(msgspec.structs.replace(env, ambient=ShiftedClock(500)))
        outcome = "gone" if isinstance(told[0], VersionExpired) else "held"
        outcomes.add(outcome)
        indextables.invalidate_caches()
        if outcome == "held":
            assert indextables.open(path).at(3).to_arrow()["x"].to_pylist() == [0, 1, 2], at
    assert store.left > 0
    assert outcomes == ({"held", "gone"} if first == "cut" else {"held"} | outcomes)


def test_a_cleanup_that_died_does_not_hold_protect_up_for_ever(tmp_path):
    made = table(tmp_path / "t")
    announce_sweep(open_env(tmp_path / "t"))
    ambient = Patient()
    ambient.wake.set()
    waiting = indextables.open(tmp_path / "t", ambient=ambient)
    with pytest.raises(indextables.errors.StoreUnavailable, match="try again") as told:
        waiting.protect()
    assert re.search(rf":{os.getpid()} holds it; .* ends by itself at \d{{4}}-\d\d-\d\dT", str(told.value))
    assert ambient.sleeps.is_set()
    assert open_log(open_env(tmp_path / "t")).latest_version() == made.version
