"""A purge beside writers that clean up, too: it ends, and every version that is left can be read."""

from __future__ import annotations

import contextlib
import itertools
import re
import threading

import msgspec
import pytest
from tests.table.operate_world import Faulty, contents, grown, keys, new_table, orphan, splits
from tests.world.store import InterruptedStore

import indextables
from indextables.env import Env
from indextables.errors import CheckpointInvalid, IndexTablesError, StoreUnavailable, VersionExpired, VersionNotFound
from indextables.log.care import checkpoint, protect_version, protections
from indextables.log.care.cleanup import clean_up
from indextables.log.care.intents import INTENT_DIR, announce_sweep
from indextables.log.care.opening import open_log
from indextables.log.read.cache import LogCache
from indextables.log.wire import manifest_key, parse_key, state_key, version_key
from indextables.table.maintenance.purge.reachable import read_versions
from indextables.table.maintenance.purge.verb import purge
from indextables.table.requests import Purge
from indextables.table.running import Threads

_HALF_A_MINUTE = 1 / 2880
_BRIEF = {"logRetention.duration": "90000", "state.retention.hours": "0", "checkpointRetention.duration": "0"}


def aged():
    """A table of which all but the newest versions may go, its clock, and a file that no version names."""
    table, clock = new_table(**_BRIEF)
    grown(table, clock, 12, days=_HALF_A_MINUTE, every=1)
    lost = orphan(table, 1)
    clock.advance(hours=2)
    return table, clock, lost


def marks(table):
    """The intents that are there, but for leases."""
    return [key for key in keys(table) if re.search(r"_intents/(?!lease)", key)]


class Busy(Threads):
    """Writers commit and clean up whenever versions are read; `cuts` are where their cleanups cut the log."""

    def __init__(self, table, write, after=lambda: None):
        super().__init__(table._log.env)
        self._table, self._write, self._after, self.cuts = table, write, after, []

    def run(self, job, units):
        if job is read_versions:
            self._write()
            self.cuts.append(self._table.clean_up().cut)
            self._after()
        return super().run(job, units)


def test_writers_that_clean_up_all_the_while_do_not_keep_a_purge_from_its_end():
    table, clock, lost = aged()
    busy = Busy(table, lambda: grown(table, clock, 6, days=_HALF_A_MINUTE, every=1))
    report = purge(open_log(table._log.env), Purge(older_than_hours=0.05, force=True), runner=busy)
    assert [cut is None for cut in busy.cuts] == [False, True]
    assert report.deleted
    assert lost not in keys(table)
    newest = table.refresh().version
    assert contents(table, range(newest - 2, newest + 1))
    # Nothing is kept for longer than the plan took.
    assert not marks(table)
    assert table.clean_up().cut is not None


class Faster(Threads):
    """Writers go on and clean up once, between a plan and its end: what was to be cut at is gone by then."""

    def __init__(self, table, write):
        super().__init__(table._log.env)
        self._table, self._write, self.cut = table, write, None

    def run(self, job, units):
        answers = super().run(job, units)
        if job is read_versions and self.cut is None:
            self._write()
            self.cut = self._table.clean_up().cut
        return answers


def test_a_cleanup_that_is_faster_does_not_keep_data_from_going():
    table, clock, lost = aged()
    faster = Faster(table, lambda: grown(table, clock, 6, days=_HALF_A_MINUTE, every=1))
    report = purge(open_log(table._log.env), Purge(older_than_hours=0.05, force=True), runner=faster)
    assert faster.cut is not None
    assert (report.failed, report.reason) == ({}, "")
    assert lost in report.files["path"].to_pylist()
    assert lost not in keys(table)
    newest = table.refresh().version
    assert contents(table, range(newest - 2, newest + 1))
    assert not marks(table)


class Slow(Threads):
    """Each job takes ten minutes."""

    def __init__(self, table, clock):
        super().__init__(table._log.env)
        self._clock = clock

    def run(self, job, units):
        answers = super().run(job, units)
        self._clock.advance(seconds=600)
        return answers


def test_a_purge_whose_plan_takes_longer_than_its_lease_keeps_the_lease():
    table, clock, lost = aged()
    report = purge(open_log(table._log.env), Purge(older_than_hours=0.05, force=True), runner=Slow(table, clock))
    assert report.reason == ""
    assert lost not in keys(table)


@pytest.mark.slow
def test_a_table_that_is_made_anew_meanwhile_loses_nothing_to_a_purge_of_the_one_before():
    for at in itertools.count(1, 5):
        table, _, _ = aged()
        env, there = table._log.env, {}

        def anew(table=table, store=env.store, there=there):
            store.delete_many([meta.key for meta in store.list_from("")])
            made = indextables.create(table._log.url, table.schema, ambient=table._log.env.ambient)
            grown(made, made._log.env.ambient, 6, every=1)
            there |= {meta.key: meta for meta in store.list_from("")}

        store = InterruptedStore(env.store, at, anew)
        with contextlib.suppress(IndexTablesError):
            seen = Env(store, env.ambient, env.options)
            purge(open_log(seen), Purge(older_than_hours=0, force=True), runner=Threads(seen))
        if store.left > 0:
            break
        left = {meta.key: meta for meta in env.store.list_from("")}
        assert {key: left.get(key) for key in there} == there, at
    assert at > 100


def test_a_cleanup_that_was_killed_lets_a_purge_say_when_to_try_again():
    table, clock, lost = aged()
    env = table._log.env
    busy = Busy(table, lambda: grown(table, clock, 6, days=_HALF_A_MINUTE, every=1), lambda: announce_sweep(env))
    report = purge(open_log(env), Purge(older_than_hours=0.05, force=True), runner=busy)
    assert (report.deleted, lost in keys(table)) == (0, True)
    assert "no data file was deleted, try again when it has ended" in report.reason
    assert not [key for key in marks(table) if '"task"' in env.store.get(key).decode()]
    clock.advance(seconds=360)
    assert lost in table.purge(older_than_hours=0.05, force=True).files["path"].to_pylist()


def test_a_purge_that_is_killed_while_it_keeps_the_log_keeps_it_no_longer_than_its_lease():
    table, clock, lost = aged()
    inner, dead = table._log.env, []

    def killed(method, key):
        """From the first look on that it takes at the sweeps, nothing that it asks for arrives."""
        if method == "list" and key == INTENT_DIR and protections(inner, clock.now_ms()).oldest_version == 0:
            dead.append(key)
        return bool(dead)

    seen = Faulty(inner, killed).env
    busy = Busy(table, lambda: grown(table, clock, 6, days=_HALF_A_MINUTE, every=1))
    with pytest.raises(StoreUnavailable):
        purge(open_log(seen, cache=LogCache()), Purge(older_than_hours=0.05, force=True), runner=busy)
    held = protections(inner, clock.now_ms())
    assert held.oldest_version == 0
    assert held.needs.startswith("a purge at work keeps version 0 (")
    clock.advance(seconds=960)
    assert lost in table.purge(older_than_hours=0.05, force=True).files["path"].to_pylist()
    assert not marks(table)


def test_a_purge_keeps_the_log_for_as_long_as_it_plans():
    table, clock, lost = aged()

    def write():
        grown(table, clock, 6, days=_HALF_A_MINUTE, every=1)

    class Slow(Busy):
        def run(self, job, units):
            if self.cuts:
                clock.advance(seconds=240)
            return super().run(job, units)

    slow = Slow(table, write)
    report = purge(open_log(table._log.env), Purge(older_than_hours=0.05, force=True), runner=slow)
    assert [cut is None for cut in slow.cuts] == [False, True]
    assert lost in report.files["path"].to_pylist()


class Busier(InterruptedStore):
    """From call number `at` on others go on and clean up at each `period`-th call."""

    def __init__(self, store, at, meanwhile, period):
        super().__init__(store, at, meanwhile)
        self._period, self._lock = period, threading.Lock()

    def heard(self, verb, arguments):
        if self.left <= 0 and self.left % self._period == 0 and self._lock.acquire(blocking=False):
            try:
                self.meanwhile()
            finally:
                self._lock.release()


@pytest.mark.slow
@pytest.mark.parametrize("period", [7, 40])
@pytest.mark.parametrize("dry_run", [False, True])
def test_however_often_others_clean_up_a_purge_ends_with_a_report(period, dry_run):
    reports = []
    for at in itertools.count(1, 24):
        table, clock = new_table(**{**_BRIEF, "logRetention.duration": "1000", "state.gc.minManifestAgeHours": "0"})
        grown(table, clock, 4, days=_HALF_A_MINUTE, every=1)
        grown(table, clock, 3, days=_HALF_A_MINUTE)
        clock.advance(hours=2)

        def others(table=table, clock=clock):
            grown(table, clock, 2, days=1 / 86400, every=1)
            table.clean_up()

        store = Busier(table._log.env.store, at, others, period)
        seen = Env(store, clock, table._log.env.options)
        asked = Purge(older_than_hours=0.05, tx_log_retention_hours=0.0001, force=True, dry_run=dry_run)
        report = purge(open_log(seen, cache=LogCache()), asked, runner=Threads(seen))
        assert report.deleted or report.reason, at
        reports.append(report)
        for version in range(table.refresh().version + 1):
            with contextlib.suppress(VersionExpired, VersionNotFound):
                contents(table, [version])
        if store.left > 0:
            break
    assert len(reports) > 2
    assert any(report.deleted for report in reports)


class Overtaken(InterruptedStore):
    """Others go on before the first file of the log is deleted, right after a purge has announced that it begins."""

    def __init__(self, env, meanwhile):
        super().__init__(env.store, 0, meanwhile)
        self.is_over = False

    def heard(self, verb, arguments):
        if verb == "delete_many" and not self.is_over and any("_intents/" not in key for key in arguments[0]):
            self.is_over = True
            self.meanwhile()


@pytest.mark.parametrize("every", [1, None], ids=["busy", "idle"])
def test_a_cleanup_that_takes_only_the_file_of_the_newest_version_does_not_keep_data_from_going(every):
    """It stops a purge in the midst of its cut, whose checkpoint is still there."""
    table, clock = new_table(**_BRIEF)
    grown(table, clock, 12, days=1, every=every)
    lost = orphan(table, 1)
    clock.advance(hours=2)
    cuts = []

    def others():
        grown(table, clock, 1)
        cuts.append(table.clean_up().cut)

    store = Overtaken(table._log.env, others)
    seen = Env(store, clock, table._log.env.options)
    report = purge(open_log(seen), Purge(older_than_hours=0.05, force=True), runner=Threads(seen))
    assert len(cuts) == 1
    assert cuts[0] is not None
    assert (report.failed, report.reason) == ({}, "")
    assert lost in report.files["path"].to_pylist()
    assert lost not in keys(table)
    assert contents(table, [13])


def test_a_plan_without_a_cut_is_made_anew_too_where_a_cleanup_is_faster():
    """It has a manifest to delete that a killed cleaner left."""
    table, clock = new_table(**{**_BRIEF, "state.gc.minManifestAgeHours": "0"})
    table.checkpoint()
    lost, manifest = orphan(table, 1), manifest_key(table._log.env.ambient.token())
    table._log.env.store.put(manifest, b"of nobody")
    clock.advance(hours=2)
    cuts = []

    def others():
        grown(table, clock, 12, days=_HALF_A_MINUTE, every=1)
        cuts.append(table.clean_up().cut)

    store = Overtaken(table._log.env, others)
    seen = Env(store, clock, table._log.env.options)
    report = purge(open_log(seen), Purge(older_than_hours=0.05, force=True), runner=Threads(seen))
    assert len(cuts) == 1
    assert cuts[0] is not None
    assert (report.failed, report.reason) == ({}, "")
    assert lost in report.files["path"].to_pylist()
    assert lost not in keys(table)


class Visited(InterruptedStore):
    """A reader of version 2 announces itself before call number `at`, and takes that back `stays` calls later."""

    def __init__(self, env, at, stays):
        super().__init__(env.store, at, lambda: setattr(self, "held", protect_version(env, 2, ttl_ms=60_000)))
        self.held, self.until = None, at + stays

    def heard(self, verb, arguments):
        super().heard(verb, arguments)
        if self.calls == self.until:
            self.held.release()


@pytest.mark.slow
def test_a_reader_that_comes_and_goes_leaves_no_version_without_its_files():
    for at in itertools.count(1, 3):
        table, clock = new_table(**{"logRetention.duration": "3600000", "checkpoint.enabled": "false"})
        grown(table, clock, 6)
        clock.advance(hours=500)
        store = Visited(table._log.env, at, 12)
        seen = Env(store, clock, table._log.env.options)
        report = purge(open_log(seen), Purge(older_than_hours=100, force=True), runner=Threads(seen))
        for version in range(7):
            with contextlib.suppress(VersionExpired):
                contents(table, [version])
        assert report.deleted or report.reason, at
        if store.left > 0:
            break
    assert at > 40


class Late:
    """A store whose listings miss a file that is there, and show newer ones."""

    def __init__(self, store, key):
        self._store, self._key = store, key

    def __getattr__(self, name):
        return getattr(self._store, name)

    def list_from(self, prefix, after=None, **more):
        return (meta for meta in self._store.list_from(prefix, after, **more) if meta.key != self._key)


def test_a_listing_that_missed_a_version_which_came_meanwhile_stops_no_purge():
    table, clock = new_table()
    grown(table, clock, 12)
    lost, env = orphan(table, 1), table._log.env
    clock.advance(hours=300)
    newest = table.refresh().version
    late = Env(Late(env.store, version_key(newest - 1)), env.ambient, env.options)
    report = purge(open_log(late), Purge(older_than_hours=250, force=True), runner=Threads(late))
    assert lost in report.files["path"].to_pylist()
    assert lost not in keys(table)


class Stalled:
    """A store whose writer of a checkpoint stops right before its list is put, until others have gone on."""

    def __init__(self, store, meanwhile):
        self._store, self._meanwhile, self.key = store, meanwhile, None

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put_if_absent(self, key, data, **more):
        if "/state-v" in key and self.key is None:
            self.key = key
            self._meanwhile()
        return self._store.put_if_absent(key, data, **more)


def published_late():
    """A table with a checkpoint below the cut whose manifest was collected before it came, and its version."""
    table, clock = new_table(**{**_BRIEF, "checkpoint.enabled": "false"})
    grown(table, clock, 3)

    def others():
        grown(table, clock, 3, days=0.1, every=1)
        clock.advance(hours=2)
        grown(table, clock, 1, every=1)
        assert table.clean_up().manifests

    store = Stalled(table._log.env.store, others)
    with contextlib.suppress(CheckpointInvalid):
        checkpoint(Env(store, clock, table._log.env.options))
    assert store.key in keys(table)
    return table, clock, parse_key(store.key).version


def test_a_checkpoint_that_came_when_its_manifests_were_gone_stops_no_purge():
    table, clock, late = published_late()
    lost = orphan(table, 1)
    clock.advance(hours=1)
    with pytest.raises(IndexTablesError):
        contents(table, [late])
    report = table.purge(older_than_hours=0.5, tx_log_retention_hours=24, force=True)
    assert report.reason == ""
    assert lost not in keys(table)
    newest = table.refresh().version
    for version in range(late + 1, newest + 1):
        with contextlib.suppress(VersionExpired):
            contents(table, [version])


@pytest.mark.parametrize("damage", ["bytes", "version file"])
def test_a_checkpoint_of_which_nobody_knows_what_it_names_keeps_every_data_file(damage):
    """Bytes may be put right again, and where there is a file of the version it may be read from that."""
    table, clock, late = published_late()
    store, lost = table._log.env.store, orphan(table, 1)
    if damage == "bytes":
        store.put(state_key(late), b"no checkpoint")
    else:
        store.put(version_key(late), store.get(version_key(table.version)))
    clock.advance(hours=1)
    before = splits(table)
    report = table.purge(older_than_hours=0.5, tx_log_retention_hours=24, force=True)
    assert lost in before == splits(table)
    assert f"version {late} may be read" in report.reason


def test_a_purge_does_not_take_its_own_mark_for_a_reader():
    """A cleaner was killed between the checkpoints below its cut and the version files."""
    table, clock, lost = aged()
    table.clean_up()
    grown(table, clock, 12, days=_HALF_A_MINUTE, every=1)
    lost = orphan(table, 2)
    clock.advance(hours=2)

    def others():
        grown(table, clock, 6, days=_HALF_A_MINUTE, every=1)
        cleaner = Faulty(
            table._log.env, lambda method, key: method == "delete" and parse_key(key).kind == "version"
        ).env
        clean_up(msgspec.structs.replace(cleaner, options=cleaner.over(_BRIEF)))

    store = Overtaken(table._log.env, others)
    seen = Env(store, clock, table._log.env.options)
    report = purge(open_log(seen), Purge(older_than_hours=0.05, force=True), runner=Threads(seen))
    assert version_key(20) in keys(table)
    assert state_key(24) not in keys(table)
    assert not [reason for reason in report.kept if "reader" in reason or "keeps" in reason]
    assert lost in report.files["path"].to_pylist()


def test_a_purge_that_deletes_nothing_says_why():
    for after, why in ((0.05, ""), (100.0, "others clean up this log")):
        table, clock, _ = aged()
        store = Overtaken(
            table._log.env,
            lambda table=table, clock=clock: (
                grown(table, clock, 6, days=_HALF_A_MINUTE, every=1),
                table.clean_up(),
            ),
        )
        seen = Env(store, clock, table._log.env.options)
        report = purge(open_log(seen), Purge(older_than_hours=after, force=True), runner=Threads(seen))
        assert store.is_over
        assert (report.deleted > 0) == (not why)
        assert report.reason.startswith(why)


def test_a_purge_of_which_every_delete_fails_says_why():
    table, clock = new_table()
    orphan(table, 1)
    clock.advance(days=8)
    seen = Faulty(table._log.env, lambda method, key: method == "delete" and key.endswith(".split")).env
    report = purge(open_log(seen), Purge(), runner=Threads(seen))
    assert (report.deleted, len(report.failed)) == (0, 1)
    assert report.reason == "1 file could not be deleted"


def test_the_commit_of_a_purge_takes_no_version_that_the_purge_was_told_to_keep():
    eager = {"checkpoint.interval": "1", "checkpoint.async": "false", "cleanup.enabled": "true"}
    table, clock = new_table(**{**_BRIEF, **eager})
    with table.protect():
        grown(table, clock, 3)
    lost = orphan(table, 1)
    clock.advance(hours=2)
    asked = {"older_than_hours": 1, "tx_log_retention_hours": 100, "force": True}
    told, before = table.purge(dry_run=True, **asked), keys(table)
    report = table.purge(**asked)
    assert report.files["path"].to_pylist() == told.files["path"].to_pylist() == [lost]
    assert before - keys(table) == {lost}
    assert table.refresh().history(1)["operation"].to_pylist() == ["PURGE"]
    assert contents(table, range(table.version + 1))
