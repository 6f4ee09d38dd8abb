"""Whoever deletes files of the log may be stopped at any request: it takes nothing of what is there when it goes on.

Between its plan and its deletes the table is dropped and made anew, a backup is put in its place, or a version is
protected after the announced sweep has run out.
"""

from __future__ import annotations

import os
import shutil
import time

import msgspec
import pyarrow as pa
import pytest
from tests.world.store import InterruptedStore

import indextables
from indextables.ambient import SystemAmbient
from indextables.errors import IndexTablesError, StoreUnavailable, VersionExpired
from indextables.log.care.cleanup import clean_up
from indextables.log.care.opening import open_log
from indextables.log.wire.names import LOG_DIR
from indextables.table.environment import open_env
from indextables.table.maintenance.purge.verb import purge
from indextables.table.maintenance.truncate import truncate_time_travel
from indextables.table.requests import Purge, TruncateTimeTravel
from indextables.table.running import Threads

SCHEMA = pa.schema([("x", pa.int64())])
SETTINGS = {
    "checkpoint.interval": "1000000",
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
    "state.gc.minManifestAgeHours": "0",
    "cleanup.enabled": "false",
    "storage.fsync": "false",
}
STALL_S = 400
NEVER = 1_000_000


class Leaping(SystemAmbient):
    """A clock that goes on while its process is stopped."""

    passed_s = 1.0

    def now_ms(self):
        return super().now_ms() + round(1000 * self.passed_s)

    def monotonic(self):
        return super().monotonic() + self.passed_s


class Stalling(InterruptedStore):
    """A store whose caller is stopped before call number `at`.

    It knows whether a sweep was announced by then, and after which call the caller had nothing more to publish.
    """

    def __init__(self, store, at, meanwhile):
        super().__init__(store, at, meanwhile)
        self.published = 0
        self.announced = self.announced_before = False

    def heard(self, verb, arguments):
        if self.left == 0:
            self.announced_before = self.announced
        super().heard(verb, arguments)
        if verb.startswith("put"):
            is_intent = arguments[0].startswith(LOG_DIR + "_intents/")
            self.announced |= verb == "put" and is_intent
            self.published = self.published if is_intent or self.announced else self.calls


def rows(path):
    indextables.invalidate_caches()
    return sorted(indextables.open(path).to_arrow()["x"].to_pylist())


def made(path, numbers, checkpoints=()):
    table = indextables.create(path, SCHEMA, options=SETTINGS)
    for x in numbers:
        table.append(pa.table({"x": [x]}, schema=SCHEMA))
        if table.version in checkpoints:
            table.checkpoint()
    return table


def log_files(path):
    folder = path / "_transaction_log"
    return {p.relative_to(folder) for p in folder.rglob("*") if p.is_file() and "_intents" not in p.parts}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The planned table: versions 0 to 8, checkpoints at 2, 5 and 7. What may come in its place, by name."""
    base = tmp_path_factory.mktemp("places")
    made(base / "planned", range(5), checkpoints=(2, 5))
    shutil.copytree(base / "planned", base / "backup")
    later = indextables.open(base / "planned", options=SETTINGS)
    for x in (5, 6, 7):
        later.append(pa.table({"x": [x]}, schema=SCHEMA))
        if x == 6:
            later.checkpoint()
    indextables.open(base / "backup", options=SETTINGS).append(pa.table({"x": [50]}, schema=SCHEMA))
    made(base / "anew", range(100, 105))
    made(base / "alike", range(100, 108), checkpoints=(2, 5, 7))
    return base


def forced_purge(log):
    purge(log, Purge(older_than_hours=0, tx_log_retention_hours=0, force=True), runner=Threads(log.env))


VERBS = {
    "clean_up": lambda log: clean_up(log.env),
    "truncate": lambda log: truncate_time_travel(log, TruncateTimeTravel()),
    "purge": forced_purge,
}


def first_stop(path, places, verb):
    """The number of the first call after everything but intents was published: from there on it only deletes."""
    shutil.copytree(places / "planned", path)
    store, raised = stalled(path, verb, NEVER, lambda: None)
    assert raised is None
    assert not log_files(places / "planned") <= log_files(path), "it deletes where nobody stops it"
    return store.published + 1


def stalled(path, verb, at, meanwhile):
    """Run the verb, stopped once; its store, and what it raised."""
    ambient = Leaping()
    env = open_env(path, SETTINGS)

    def stop():
        ambient.passed_s += STALL_S
        meanwhile()

    store = Stalling(env.store, at, stop)
    raised = None
    try:
        VERBS[verb](open_log(msgspec.structs.replace(env, store=store, ambient=ambient)))
    except IndexTablesError as error:
        raised = error
    return store, raised


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "instead", "step"),
    [
        ("clean_up", "anew", 2),
        ("clean_up", "alike", 3),
        ("clean_up", "backup", 3),
        ("truncate", "backup", 7),
        ("purge", "alike", 23),
    ],
)
def test_nothing_goes_of_what_took_the_place_of_the_planned_table(tmp_path, places, verb, instead, step):
    told = rows(places / instead)
    stops = 0
    for at in range(first_stop(tmp_path / "whole", places, verb), 1000, step):
        path = tmp_path / str(at)
        shutil.copytree(places / "planned", path)
        indextables.invalidate_caches()

        def meanwhile(path=path):
            shutil.rmtree(path)
            shutil.copytree(places / instead, path, copy_function=shutil.copy)

        store, raised = stalled(path, verb, at, meanwhile)
        if store.left > 0:
            break
        stops += store.announced_before
        found = rows(path)
        assert found == told, (at, raised)
        if store.announced_before or (verb == "clean_up" and instead == "anew"):
            assert log_files(places / instead) <= log_files(path), at
        shutil.rmtree(path)
    assert store.left > 0
    assert stops > 5


@pytest.mark.slow
def test_nothing_goes_once_the_newest_version_file_is_another(tmp_path, places):
    """A copy that is put back file by file may leave the old ones as they are, and bring another newest version."""
    stops = 0
    for at in range(first_stop(tmp_path / "whole", places, "clean_up"), 1000, 4):
        path = tmp_path / str(at)
        shutil.copytree(places / "planned", path)
        indextables.invalidate_caches()
        left = set()

        def meanwhile(path=path, left=left):
            newest = max((path / "_transaction_log").glob("0*.json"))
            data = newest.read_bytes()
            newest.unlink()
            newest.write_bytes(data)
            left |= log_files(path)

        store, _ = stalled(path, "clean_up", at, meanwhile)
        if store.left > 0:
            break
        if store.announced_before:
            stops += 1
            assert left <= log_files(path), at
        shutil.rmtree(path)
    assert store.left > 0
    assert stops > 2


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "step"), [("clean_up", 2), ("truncate", 7)])
def test_a_version_that_was_protected_while_the_sweep_ran_out_stays(tmp_path, places, verb, step):
    outcomes = set()
    for at in range(first_stop(tmp_path / "whole", places, verb), 1000, step):
        path = tmp_path / str(at)
        shutil.copytree(places / "planned", path)
        indextables.invalidate_caches()
        told = []

        def meanwhile(path=path, told=told):
            ago = time.time() - STALL_S
            for file in (path / "_transaction_log" / "_intents").glob("*"):
                os.utime(file, (ago, ago))
            try:
                told.append(indextables.open(path, options=SETTINGS).at(version=1).protect(hours=1))
            except (VersionExpired, StoreUnavailable) as error:
                told.append(error)

        store, _ = stalled(path, verb, at, meanwhile)
        if store.left > 0:
            break
        held = not isinstance(told[0], IndexTablesError)
        outcomes.add((held, store.announced_before))
        if held:
            indextables.invalidate_caches()
            assert indextables.open(path).at(version=1).to_arrow()["x"].to_pylist() == [0], at
        shutil.rmtree(path)
    assert store.left > 0
    assert {(True, True), (False, True)} <= outcomes


@pytest.mark.slow
def test_an_object_store_keeps_the_table_that_took_the_place_of_the_planned_one():
    for at in range(1, 1000, 11):
        url = f"memory://stalled-{at}/t"
        made(url, range(8), checkpoints=(2, 5, 7))
        inner = open_env(url, SETTINGS).store

        def meanwhile(url=url, inner=inner):
            inner.delete_many([meta.key for meta in inner.list_from("")])
            indextables.invalidate_caches()
            made(url, range(100, 105))

        store, _ = stalled(url, "clean_up", at, meanwhile)
        if store.left > 0:
            break
        assert rows(url) == list(range(100, 105)), at
    assert store.left > 0
    assert store.announced
