"""A delete without an answer may arrive when its cleanup is long over: it takes nothing that anybody needs by then."""

from __future__ import annotations

import itertools

import msgspec
import pyarrow as pa
import pytest
from tests.table.operate_world import contents, grown, new_table, orphan, purge_of
from tests.world.clock import Clock

import indextables
from indextables.errors import StoreUnavailable, TableNotFound, VersionExpired
from indextables.log.care.intents import announce_drop, announce_sweep, protect_version
from indextables.log.care.opening import open_log
from indextables.table.environment import open_env
from indextables.table.maintenance import drop_table

SCHEMA = pa.schema([("x", pa.int64())])
SETTINGS = {
    "checkpoint.interval": "1000000",
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
    "state.gc.minManifestAgeHours": "0",
    "cleanup.enabled": "false",
}
LOST, REPEATED = "no answer", "an answer to the second one"
_NAMES = itertools.count()


class Late:
    """An object store that holds the first delete of a version file back until `arrive` is called.

    Nobody is told of it; or its caller sends it again, is answered, and knows nothing of the first one any more.
    """

    def __init__(self, store, how, within=lambda: None):
        self._store, self._how, self._within = store, how, within
        self.late = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def delete_many(self, keys, *, policy=None, guard=None):
        keys = list(keys)
        slots = [key for key in keys if key.removeprefix("_transaction_log/").removesuffix(".json").isdigit()]
        if not slots or self.late:
            return self._store.delete_many(keys, policy=policy, guard=guard)
        reason = guard(keys) if guard is not None else ""
        if reason:
            return dict.fromkeys(keys, reason)
        self.late = slots
        self._within()
        if self._how == REPEATED:
            return self._store.delete_many(keys, policy=policy, guard=guard)
        return dict.fromkeys(keys, "no answer")

    def arrive(self):
        self._store.delete_many(self.late)


class World:
    """Versions 0 to 8 with checkpoints at 2, 5 and 7, on what is no local disk."""

    def __init__(self):
        self.url, self.clock = f"memory://late-{next(_NAMES)}/t", Clock(seed=0)
        made = self.make()
        for x in range(8):
            made.append(pa.table({"x": [x]}, schema=SCHEMA))
            if x in (1, 4, 6):
                made.checkpoint()
        self.clock.advance(hours=1)

    def make(self):
        return indextables.create(self.url, SCHEMA, options=SETTINGS, ambient=self.clock)

    def open(self):
        indextables.invalidate_caches()
        return indextables.open(self.url, options=SETTINGS, ambient=self.clock)

    def log(self):
        return open_log(open_env(self.url, SETTINGS, ambient=self.clock))

    def clean_up(self, how, within=lambda: None):
        """As a process of its own; the store that holds its first delete back."""
        log = self.log()
        store = Late(log.env.store, how, within)
        table = self.open()
        table._log = open_log(msgspec.structs.replace(log.env, store=store))
        table.clean_up()
        assert store.late
        return store


def test_a_version_that_is_said_to_be_protected_is_not_taken_by_a_delete_of_before():
    world = World()
    store = world.clean_up(LOST)
    with pytest.raises(StoreUnavailable, match="no answer to a delete that may still arrive: try again in a while"):
        world.open().at(3).protect()
    world.clock.advance(seconds=400)
    store.arrive()
    with pytest.raises(VersionExpired):
        world.open().at(3).protect()
    with world.open().protect():
        assert world.open().count() == 8


def test_a_version_is_protected_again_once_no_delete_can_arrive_any_more():
    world = World()
    world.clean_up(LOST)
    world.clock.advance(seconds=400)
    with world.open().at(7).protect():
        pass


def test_a_cleanup_whose_deletes_are_all_answered_holds_nobody_up():
    world = World()
    world.open().clean_up()
    began = world.clock.ms
    with world.open().at(7).protect():
        assert world.clock.ms == began


@pytest.mark.parametrize("how", [LOST, REPEATED])
def test_the_next_table_in_the_place_of_a_dropped_one_loses_nothing_to_its_cleanup(how):
    world = World()
    store = world.clean_up(how)
    with pytest.raises(StoreUnavailable, match="try again in a while"):
        drop_table(world.log())
    assert world.open().count() == 8
    world.clock.advance(seconds=400)
    store.arrive()
    drop_table(world.log())
    with pytest.raises(TableNotFound):
        world.open()
    world.make().append(pa.table({"x": [100]}, schema=SCHEMA))
    assert world.open().to_arrow()["x"].to_pylist() == [100]


def test_a_table_is_not_dropped_in_the_middle_of_a_request_that_deletes():
    world = World()
    told = []

    def drop_and_make():
        try:
            drop_table(world.log())
        except StoreUnavailable as error:
            told.append(error)
        else:
            world.make().append(pa.table({"x": [100]}, schema=SCHEMA))

    world.clean_up(LOST, drop_and_make).arrive()
    assert len(told) == 1
    assert world.open().count() == 8


def test_no_cleanup_begins_while_a_table_is_being_dropped():
    world = World()
    log = world.log()
    reports = []

    class Cleaned(Late):
        def delete_many(self, keys, **how):
            if not reports:
                reports.append(world.open().clean_up())
            return self._store.delete_many(keys, **how)

    drop_table(open_log(msgspec.structs.replace(log.env, store=Cleaned(log.env.store, LOST))))
    assert [report.deleted for report in reports] == [0]
    assert "is dropping the table" in reports[0].reason


def test_a_cleanup_that_begins_right_before_a_drop_is_announced_is_waited_for():
    world = World()
    log = world.log()

    class Slow:
        """Announces the drop late."""

        def __getattr__(self, name):
            return getattr(log.env.store, name)

        def put(self, key, data, **more):
            if b'"drop"' in bytes(data):
                world.clean_up(LOST)
            log.env.store.put(key, data, **more)

    with pytest.raises(StoreUnavailable, match="try again in a while"):
        drop_table(open_log(msgspec.structs.replace(log.env, store=Slow())))
    assert world.open().count() == 8


def test_what_a_killed_process_announced_while_the_clock_was_a_year_ahead_holds_nobody_up():
    world = World()
    env = world.log().env
    world.clock.advance(days=365)
    announce_sweep(env)
    announce_drop(env)
    protect_version(env, 0, ttl_ms=600_000, task="purge")
    world.clock.advance(days=-365)
    with world.open().protect():
        pass
    assert world.open().clean_up().deleted > 0
    drop_table(world.log())
    assert world.make().version == 0


def test_a_purge_that_waits_for_a_delete_of_its_own_reports_what_went_and_when_to_try_again():
    """Another cleanup was faster: the purge would plan anew, but its own delete may take what it reads then."""
    table, clock = new_table(
        **{"logRetention.duration": "90000", "state.retention.hours": "0", "checkpointRetention.duration": "0"}
    )
    grown(table, clock, 12, days=1 / 2880, every=1)
    lost, env = orphan(table, 1), table._log.env
    clock.advance(hours=2)

    def others():
        grown(table, clock, 6, days=1 / 2880, every=1)
        table.clean_up()

    store = Late(env.store, LOST, others)
    report = purge_of(msgspec.structs.replace(env, store=store), older_than_hours=0.05, force=True)
    assert store.late
    assert report.count("state") > 0
    assert report.count("split") == 0
    assert "no answer to a delete that may still arrive: no data file was deleted, try again" in report.reason
    assert table.refresh().history(1)["operation"].to_pylist() == ["PURGE"]
    clock.advance(seconds=400)
    store.arrive()
    assert lost in table.purge(older_than_hours=0.05, force=True).files["path"].to_pylist()
    newest = table.refresh().version
    assert contents(table, range(newest - 2, newest + 1))
