"""Restore, truncate, drop partitions, reindex, prewarm, health and purge on write, as users see them."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging

import msgspec
import pyarrow as pa
import pytest
from tests.table.merge_world import as_add
from tests.table.operate_world import SCHEMA, Faulty, contents, grown, keys, new_table, orphan, rows, splits
from tests.world.commits import append as log_append
from tests.world.commits import change_metadata, overwrite, record_skip

import indextables
from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    CommitConflict,
    CommitError,
    IndexTablesError,
    InvalidArgument,
    NotSupported,
    QueryInvalid,
    VersionExpired,
    VersionNotFound,
)
from indextables.log.care.intents import protect_version
from indextables.log.care.leasing import acquire
from indextables.log.care.opening import open_log
from indextables.log.commit.transaction import Transaction
from indextables.log.read.cache import LogCache
from indextables.log.wire.actions import Add, DeletionVector, MergeSkip, Remove
from indextables.log.wire.names import LOG_DIR, version_key
from indextables.options import Options
from indextables.split.file import dv
from indextables.table.maintenance.drop_partitions import drop_partitions
from indextables.table.maintenance.health import Health, Upkeep, advise
from indextables.table.maintenance.purge.deleting import delete_keys
from indextables.table.maintenance.purge.verb import LEASE, purge
from indextables.table.maintenance.restore import restore
from indextables.table.maintenance.truncate import truncate_time_travel
from indextables.table.read.order import POSITION, in_order, positions
from indextables.table.requests import DropPartitions, Purge, Restore, TruncateTimeTravel
from indextables.table.running import Threads

TEXT = pa.schema([("id", pa.int64()), ("m", pa.string())])


def ids(table) -> list[int]:
    return table.to_arrow()["id"].to_pylist()


# Restore


def test_a_restored_table_has_the_rows_of_then_in_their_order():
    table, _ = new_table(partitioned=True)
    for number in range(4):
        table.append(rows(number, d="ab"[number % 2]))
    then = table.to_arrow()
    table.drop_partitions("d = 'a'")
    table.append(rows(9, d="c"))
    report = table.restore(4)
    assert (report.version, report.restored, report.added_files, report.removed_files) == (7, 4, 2, 1)
    assert table.version == 7
    assert table.to_arrow() == then
    assert table.history(1)["operation"].to_pylist() == ["RESTORE"]
    table.checkpoint()
    assert indextables.open(table.url).to_arrow() == then


def test_a_restore_tells_how_far_it_is_and_keeps_the_tags_of_its_files():
    table, _ = new_table()
    log, files = table._log, range(8)
    for number in files:
        log.env.store.put(f"splits/split-{number:032x}.split", b"rows")
    told = [{"team": "a", POSITION: "7.7"}, None, {}, {"x": None}]
    log_append(
        log,
        [
            Add(f"splits/split-{n:032x}.split", {}, 4, 1, dataChange=True, numRecords=1, tags=told[n % len(told)])
            for n in files
        ],
    )
    before = in_order(table.refresh().files())
    overwrite(log, [])
    steps = []
    restore(log, Restore(version=1), runner=Threads(log.env, width=1), progress=steps.append)
    assert [(step.what, step.done, step.total) for step in steps] == [
        ("check", 8, 8),
        ("commit", 1, 1),
    ]
    after = in_order(table.refresh().files())
    assert after["path"] == before["path"]
    tags = [dict(entry) for entry in after["tags"].to_pylist()]
    assert all(POSITION in entry for entry in tags)
    assert [{k: v for k, v in entry.items() if k != POSITION} for entry in tags] == [
        {k: v for k, v in entry or () if k != POSITION} for entry in before["tags"].to_pylist()
    ]


def test_a_restore_tells_the_vectors_of_a_file_apart():
    table, _ = new_table()
    table.append(rows(1, 2, 3))
    log = table._log
    path = log.snapshot().files["path"][0].as_py()
    # One file of vectors, as a delete writes it: those of one split differ by where they begin in it.
    both = dv.write_file(log.env.store, [(path, 3, dv.encode([n])) for n in (0, 1)], log.env.ambient.token())
    for made in (*both, dv.inline(dv.encode([0, 1]))):
        snapshot = log.snapshot()
        (file,) = snapshot.files.to_pylist()
        (place,) = zip(*positions(snapshot.files), strict=True)
        before = None if file["deletionVector"] is None else msgspec.convert(file["deletionVector"], DeletionVector)
        added = msgspec.structs.replace(
            as_add(file, place), deletionVector=DeletionVector(**msgspec.structs.asdict(made))
        )
        tx = Transaction(log, snapshot, operation="DELETE")
        tx.remove([Remove(path, dataChange=True, deletionVector=before)]).add([added]).commit_or_raise()
    shown = {1: [1, 2, 3], 2: [2, 3], 3: [1, 3], 4: [3]}
    for version in (3, 2, 3, 1, 4, 2):
        report = table.refresh().restore(version)
        assert (report.added_files, report.removed_files) == (1, 1)
        assert ids(table) == shown[version]
        assert ids(indextables.open(table.url)) == shown[version]


def test_a_restore_to_what_the_table_is_commits_nothing():
    table, _ = new_table()
    table.append(rows(1))
    assert table.restore(1) == msgspec.structs.replace(table.restore(1), version=1)
    assert table.version == 1


def test_a_restore_to_a_time_takes_the_version_that_was_newest_then():
    table, clock = new_table()
    table.append(rows(1))
    then = dt.datetime.fromtimestamp(clock.now_ms() / 1000 + 60, dt.UTC)
    clock.advance(hours=1)
    table.append(rows(2))
    table.restore(timestamp=then)
    assert ids(table) == [1]
    with pytest.raises(VersionNotFound):
        table.restore(timestamp=1)


def test_a_restore_brings_the_properties_back_and_keeps_index_plans():
    table, _ = new_table()
    before = table.metadata
    table.append(rows(1))
    changed = {**table._log.snapshot().metadata.configuration, "owner": "me"}
    change_metadata(table._log, msgspec.structs.replace(table._log.snapshot().metadata, configuration=changed))
    report = table.restore(0)
    assert report.changed_metadata
    assert "owner" not in table.metadata.configuration
    assert set(before.configuration) <= set(table.metadata.configuration)
    assert any(key.startswith("docMappingSchema.") for key in table.metadata.configuration)
    table.append(rows(2))
    assert ids(table) == [2]


@pytest.mark.parametrize("arguments", [{}, {"version": 1, "timestamp": 5}, {"version": -1}, {"version": "x"}])
def test_what_to_restore_is_said_once_and_exists(arguments):
    table, _ = new_table()
    with pytest.raises((InvalidArgument, VersionNotFound)):
        table.restore(**arguments)


def test_a_version_whose_files_are_gone_is_not_restored_and_the_files_are_named():
    table, _ = new_table()
    table.append(rows(1))
    lost = table.files()["path"][0].as_py()
    table.overwrite(rows(2))
    table._log.env.store.delete_many([lost])
    with pytest.raises(VersionExpired, match="Nothing was committed") as caught:
        table.restore(1)
    assert caught.value.missing == [lost]
    assert table.version == 2


def test_a_version_that_cleanup_took_is_expired():
    table, _ = new_table()
    grown(table, table._log.env.ambient, 5)
    table.truncate_time_travel()
    with pytest.raises(VersionExpired):
        table.restore(2)


def test_a_restore_waits_for_no_purge():
    table, _ = new_table()
    table.append(rows(1))
    with acquire(table._log.env, LEASE), pytest.raises(CommitConflict, match="purge"):
        table.restore(0)
    assert ids(table) == [1]


class Meanwhile(Threads):
    """Threads after whose work something happens."""

    def __init__(self, env, happens) -> None:
        super().__init__(env, width=1)
        self._happens = happens

    def run(self, job, units):
        found = super().run(job, units)
        self._happens()
        return found


def test_a_restore_whose_files_a_purge_has_taken_meanwhile_commits_nothing():
    """Looking for files takes longer than a lease: what was found then may be gone by now."""
    table, clock = new_table()
    table.append(rows(1))
    table.overwrite(rows(2))
    rival = indextables.open(table.url, ambient=clock)

    def purged() -> None:
        rival.truncate_time_travel()
        clock.advance(days=8)
        assert rival.purge().count("split") == 1

    log = open_log(table._log.env)
    with pytest.raises(CommitConflict, match="purge"):
        restore(log, Restore(version=1), runner=Meanwhile(log.env, purged))
    assert ids(table.refresh()) == [2]


@pytest.mark.slow
def test_a_restore_of_many_files_holds_its_lease_as_long_as_it_takes():
    table, clock = new_table()
    log = open_log(table._log.env)
    env = log.env
    log_append(log, [_add(env) for _ in range(8001)])
    table.overwrite(rows(2))
    reasons = []

    def slowly() -> None:
        clock.advance(hours=0.2)
        reasons.append(indextables.open(table.url, ambient=clock).purge().reason)

    steps = []
    assert restore(log, Restore(version=1), runner=Meanwhile(env, slowly), progress=steps.append).added_files == 8001
    assert len(reasons) == 3
    assert [step.done for step in steps] == [4000, 8000, 8001, 1]
    assert all("another process" in reason for reason in reasons)


def test_a_purge_that_stalls_before_a_delete_takes_nothing_of_a_restore_that_came_meanwhile():
    """Its lease is over when it wakes up: what it was about to delete may have come back to life."""
    table, clock = new_table()
    table.append(rows(1))
    (path,) = table.files()["path"].to_pylist()
    table.overwrite(rows(2))
    table.truncate_time_travel()
    clock.advance(days=8)
    env = table._log.env
    back = []

    class Stalling(Threads):
        def run(self, job, units):
            if job is delete_keys and not back:
                clock.advance(hours=0.3)
                with acquire(env, LEASE):
                    back.append(log_append(open_log(env), [Add(path, {}, 4, 1, dataChange=True, numRecords=1)]))
            return super().run(job, units)

    report = purge(open_log(env), Purge(), runner=Stalling(env))
    assert back
    assert (report.count("split"), report.reason) == (0, "it took longer than its lease lasts: run it again")
    assert path in keys(table)
    again = table.purge()
    assert (again.count("split"), again.kept["named by a version"]) == (0, 2)


def test_deletes_are_not_sent_when_the_lease_is_about_to_end():
    table, clock = new_table()
    strays = {orphan(table, number) for number in range(3)}
    clock.advance(days=8)
    env = table._log.env

    class Slow(Threads):
        def run(self, job, units):
            clock.advance(hours=0.2 if job is delete_keys else 0)
            return super().run(job, units)

    report = purge(open_log(env), Purge(), runner=Slow(env))
    assert (report.count("split"), report.failed) == (0, {})
    assert "took longer" in report.reason
    assert strays <= keys(table)
    assert table.purge().count("split") == 3


def test_a_restore_that_stalls_at_its_commit_tells_that_a_purge_has_taken_its_files():
    table, clock = new_table()
    table.append(rows(1))
    (path,) = table.files()["path"].to_pylist()
    table.overwrite(rows(2))
    rival = indextables.open(table.url, ambient=clock)
    purged = []

    def stall(method: str, key: str) -> bool:
        if method == "put_if_absent" and key == version_key(3) and not purged:
            purged.append(key)
            rival.truncate_time_travel()
            clock.advance(days=8)
            purged.append(rival.purge().count("split"))
        return False

    env = Faulty(table._log.env, stall).env
    with pytest.raises(IndexTablesError) as raised:
        restore(open_log(env), Restore(version=1), runner=Threads(env))
    assert purged[1] == 1
    assert path not in keys(table)
    if isinstance(raised.value, VersionExpired):
        assert raised.value.details["missing"] == [path]
        table.refresh().restore(raised.value.details["version"] - 1)
    assert ids(table.refresh()) == [2]


def test_a_restore_that_lands_after_a_purge_took_its_files_and_died_says_so():
    """The purge dies before it commits its own version, which would have beaten the restore."""
    table, clock = new_table()
    table.append(rows(1))
    (path,) = table.files()["path"].to_pylist()
    table.overwrite(rows(2))
    clock.advance(days=40)
    stalled = []

    def dies(method: str, key: str) -> bool:
        return method == "put_if_absent" and key == version_key(3)

    def stall(method: str, key: str) -> bool:
        if method == "put_if_absent" and key == version_key(3) and not stalled:
            stalled.append(key)
            clock.advance(hours=0.3)
            dying = Faulty(table._log.env, dies).env
            with contextlib.suppress(IndexTablesError):
                purge(open_log(dying), Purge(), runner=Threads(dying))
        return False

    env = Faulty(table._log.env, stall).env
    with pytest.raises(VersionExpired, match="this restore stalled") as raised:
        restore(open_log(env), Restore(version=1), runner=Threads(env))
    assert (raised.value.missing, raised.value.version) == ([path], 3)
    table.refresh().restore(2)
    assert ids(table.refresh()) == [2]


def test_a_restore_that_another_commit_overtakes_is_a_conflict():
    table, _ = new_table()
    table.append(rows(1))
    env = table._log.env
    log = open_log(env)
    overtaken = []

    class Overtaking(Threads):
        def run(self, job, units):
            found = super().run(job, units)
            overtaken.append(log_append(log, table.files()["path"].to_pylist() and [_add(env)]))
            return found

    table.overwrite(rows(2))
    with pytest.raises(CommitConflict):
        restore(open_log(env), Restore(version=1), runner=Overtaking(env))
    assert overtaken


def _add(env):
    path = f"splits/split-{env.ambient.token()}.split"
    env.store.put(path, b"x")
    return Add(path, {}, 1, 1, dataChange=True, numRecords=1)


# Truncate


def test_a_truncated_table_has_one_version_and_the_same_files():
    table, clock = new_table()
    grown(table, clock, 12, every=4)
    clock.advance(hours=2)
    newest = contents(table, [12])[12]
    dry = table.truncate_time_travel(dry_run=True)
    before = keys(table)
    report = table.truncate_time_travel()
    assert (report.states, report.versions, report.manifests) == (dry.states, dry.versions, dry.manifests)
    assert before - keys(table) == {*dry.states, *dry.versions, *dry.manifests}
    assert report.version == report.oldest == dry.oldest == 13
    assert contents(table, [13])[13] == newest
    assert table.history()["operation"].to_pylist() == ["TRUNCATE TIME TRAVEL"]
    with pytest.raises(VersionExpired):
        contents(table, [12])


def test_a_dry_run_of_truncate_changes_nothing():
    table, clock = new_table()
    grown(table, clock, 5)
    before = keys(table)
    assert table.truncate_time_travel(dry_run=True).deleted > 0
    assert keys(table) == before


def test_truncating_twice_does_nothing_the_second_time():
    table, clock = new_table()
    grown(table, clock, 5)
    table.truncate_time_travel()
    again = table.truncate_time_travel()
    assert (again.deleted, again.version, again.oldest) == (0, 6, 6)
    assert "no older version" in again.reason


def test_what_a_reader_protects_is_not_truncated():
    table, clock = new_table()
    grown(table, clock, 12, every=4)
    protect_version(table._log.env, 9, ttl_ms=3_600_000)
    dry = table.truncate_time_travel(dry_run=True)
    report = table.truncate_time_travel()
    assert report.versions == dry.versions
    assert report.oldest == dry.oldest == 8
    assert "reader" in report.reason
    contents(table, [9])


def test_commits_go_on_after_a_truncation():
    table, clock = new_table()
    table.append(rows(1))
    truncate_time_travel(open_log(table._log.env), TruncateTimeTravel())
    table.append(rows(2))
    assert ids(table) == [1, 2]
    clock.advance(days=8)
    table.purge()
    assert ids(table.refresh()) == [1, 2]


def test_what_came_after_the_plan_of_a_truncation_stays():
    """What goes is what a dry run tells at that moment, although a later plan would take more."""
    table, clock = new_table()
    grown(table, clock, 12, every=4)
    env = table._log.env
    dry = table.truncate_time_travel(dry_run=True)
    before = keys(table)

    def append_at_the_commit(method: str, key: str) -> bool:
        if method == "put_if_absent" and key == version_key(13) and version_key(13) not in keys(table):
            log_append(open_log(env), [_add(env)])
        return False

    report = truncate_time_travel(open_log(Faulty(env, append_at_the_commit).env), TruncateTimeTravel())
    assert (report.states, report.versions, report.manifests) == (dry.states, dry.versions, dry.manifests)
    assert before - keys(table) == {*dry.states, *dry.versions, *dry.manifests}
    assert version_key(13) in keys(table)
    assert (report.version, report.oldest) == (14, 14)
    assert len(contents(table, [14])[14]) == 2


# Drop partitions


def test_dropped_partitions_are_gone_in_one_version_and_can_be_restored():
    table, _ = new_table(partitioned=True)
    for number in range(6):
        table.append(rows(number, d="abc"[number % 3]))
    dry = table.drop_partitions("d IN ('a', 'b')", dry_run=True)
    assert (dry.dropped, dry.rows, table.version) == (4, 4, 6)
    report = table.drop_partitions("d IN ('a', 'b')")
    assert (report.dropped, report.version) == (4, 7)
    assert ids(table) == [2, 5]
    assert table.history(1)["operation"].to_pylist() == ["DROP PARTITIONS"]
    table.restore(6)
    assert ids(table) == [0, 1, 2, 3, 4, 5]


def test_partitions_that_are_not_there_are_no_commit():
    table, _ = new_table(partitioned=True)
    table.append(rows(1, d="a"))
    assert table.drop_partitions("d = 'z'").version == 1
    assert table.drop_partitions("d IS NULL").dropped == 0


def test_only_whole_partitions_are_dropped():
    table, _ = new_table(partitioned=True)
    with pytest.raises(NotSupported, match="id"):
        table.drop_partitions("id = 1")
    with pytest.raises(QueryInvalid):
        table.drop_partitions("d = ")
    with pytest.raises(InvalidArgument):
        table.drop_partitions("  ")
    plain, _ = new_table()
    with pytest.raises(NotSupported, match="none"):
        plain.drop_partitions("d = 'a'")


def test_a_table_that_was_opened_before_an_append_drops_what_that_brought():
    table, _ = new_table(partitioned=True)
    table.append(rows(1, d="a"))
    stale = indextables.open(table.url, ambient=table._log.env.ambient)
    table.append(rows(2, d="a"))
    table.append(rows(3, d="b"))
    assert stale.drop_partitions("d = 'a'").dropped == 2
    assert ids(stale.refresh()) == [3]


def _meanwhile(env, call: int | None, act) -> tuple[Env, list[str]]:
    """An environment in which `act` happens right before the store is called for that time, and what was called."""
    called: list[str] = []

    def when(method: str, key: str) -> bool:
        if method != "page":
            called.append(f"{method} {key}")
            if len(called) == call:
                act()
        return False

    return Faulty(env, when).env, called


def _two_partitions(**properties: str):
    table, _ = new_table(partitioned=True, **properties)
    table.append(rows(1, d="a"))
    table.append(rows(2, d="b"))
    more = pa.concat_tables([rows(3, 4, d="a"), rows(5, d="b")])
    return table, more


@pytest.mark.slow
def test_what_is_appended_to_a_dropped_partition_meanwhile_goes_with_it_or_stays_whole():
    """An append right before each step of the drop: both happened, one after the other, whichever was first."""
    table, _ = _two_partitions()
    quiet, calls = _meanwhile(table._log.env, None, lambda: None)
    drop_partitions(open_log(quiet, cache=LogCache()), DropPartitions(where="d = 'a'"))
    seen = set()
    for call in range(1, len(calls) + 1):
        table, more = _two_partitions()
        env, _ = _meanwhile(table._log.env, call, lambda table=table, more=more: table.append(more))
        report = drop_partitions(open_log(env, cache=LogCache()), DropPartitions(where="d = 'a'"))
        operations = table.history()["operation"].to_pylist()
        appended_first = operations[:2] == ["DROP PARTITIONS", "WRITE"]
        assert ids(table.refresh()) == ([2, 5] if appended_first else [2, 3, 4, 5])
        assert report.dropped == (2 if appended_first else 1)
        drop = next(told for told in table.history().to_pylist() if told["operation"] == "DROP PARTITIONS")
        assert dict(drop["operationMetrics"])["numRemovedFiles"] == str(report.dropped)
        seen.add((appended_first, version_key(3) in calls[call - 1]))
    assert (True, True) in seen, "no append came between the last read and the commit"


def test_a_serializable_drop_does_not_take_rows_that_it_did_not_see():
    table, more = _two_partitions(isolationLevel="serializable")

    def append_at_the_commit(method: str, key: str) -> bool:
        if method == "put_if_absent" and key == version_key(3) and table.version == 2:
            table.append(more)
        return False

    with pytest.raises(CommitConflict):
        drop_partitions(open_log(Faulty(table._log.env, append_at_the_commit).env), DropPartitions(where="d = 'a'"))
    assert ids(table.refresh()) == [1, 2, 3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["d IS NULL", "d = 'a'"])
def test_a_drop_that_a_new_partitioning_overtakes_takes_nothing(where):
    """Files of another partitioning have no value of the column: a drop of a partition means none of them."""
    table, _ = _two_partitions()
    table.append(pa.table({"id": [0], "d": [None]}, schema=SCHEMA))
    quiet, calls = _meanwhile(table._log.env, None, lambda: None)
    drop_partitions(open_log(quiet, cache=LogCache()), DropPartitions(where=where))
    committed = next(n for n, call in enumerate(calls, 1) if call.startswith("put_if_absent"))
    for call in range(1, committed + 1):
        table, _ = _two_partitions()
        table.append(pa.table({"id": [0], "d": [None]}, schema=SCHEMA))

        def repartition(table=table) -> None:
            data = pa.table({"id": [7, 8], "d": [None, None] if where == "d IS NULL" else ["a", "a"]}, schema=SCHEMA)
            table.overwrite(data, overwrite_schema=True, partition_by=[])

        env, _ = _meanwhile(table._log.env, call, repartition)
        with pytest.raises((CommitError, NotSupported)):
            drop_partitions(open_log(env, cache=LogCache()), DropPartitions(where=where))
        assert ids(table.refresh()) == [7, 8]


# Reindex


@pytest.mark.slow
def test_splits_whose_index_is_not_what_the_table_wants_get_a_new_one(tmp_path):
    table = indextables.create(tmp_path / "t", TEXT)
    for number in range(3):
        table.append(pa.table({"id": [number, number + 10], "m": [f"Alpha beta {number}", None]}))
    assert table.reindex().fresh == 3
    changed = {**table.metadata.configuration, "indexing.typemap.m": "text"}
    change_metadata(table._log, msgspec.structs.replace(table.metadata, configuration=changed))
    table = indextables.open(tmp_path / "t")
    before = table.to_arrow()
    assert table.health().index_coverage == 0
    assert "index" in [advice.code for advice in table.health().advice]
    report = table.reindex()
    assert (report.reindexed, report.rows, report.fresh, report.failed) == (3, 6, 0, {})
    assert list(report.reasons) == ["the field is indexed as string, the table wants text"]
    assert table.to_arrow() == before
    assert table.search("m:alpha")["id"].to_pylist() == [0, 1, 2]
    assert table.health().index_coverage == 1
    told = table.history(1).to_pylist()[0]
    assert told["operation"] == "REINDEX"
    assert table.reindex().fresh == 3


def test_a_split_that_cannot_be_read_is_named_and_the_others_are_done(tmp_path):
    table = indextables.create(tmp_path / "t", TEXT, indexing={"m": "text"})
    for number in range(2):
        table.append(pa.table({"id": [number], "m": ["x"]}))
    bad = table.files()["path"][0].as_py()
    file = tmp_path / "t" / bad
    file.write_bytes(b"\0" * file.stat().st_size)
    report = table.reindex(force=True)
    assert list(report.failed) == [bad]
    assert report.reindexed == 1


def test_reindex_of_some_partitions(tmp_path):
    table = indextables.create(tmp_path / "t", rows(1).schema, partition_by=["d"])
    for number in range(4):
        table.append(rows(number, d="ab"[number % 2]))
    report = table.reindex("d = 'a'", force=True)
    assert (report.splits, report.reindexed) == (2, 2)
    assert sorted(ids(table)) == [0, 1, 2, 3]


# Caches


def test_prewarmed_indexes_are_searched_without_a_request(tmp_path):
    options = {"cache.directory": str(tmp_path / "cache")}
    table = indextables.create(tmp_path / "t", TEXT, indexing={"m": "text"}, options=options)
    for number in range(3):
        table.append(pa.table({"id": [number], "m": ["hello world"]}))
    report = table.prewarm()
    assert (report.splits, report.failed) == (3, {})
    assert report.bytes > 0
    assert table.prewarm(columns=["M"]).bytes == 0
    assert "fast" not in table.prewarm(columns=["m"]).components
    assert table.search("hello")["id"].to_pylist() == [0, 1, 2]
    assert table.flush_caches().bytes > 0
    assert table.health().index_cache["entries"] == 0
    assert table.prewarm().bytes == report.bytes
    with pytest.raises(InvalidArgument):
        table.prewarm(columns=["nope"])


# Health


def test_a_new_table_is_well():
    table, _ = new_table()
    table.append(rows(1))
    found = table.health()
    assert (found.format, found.version, found.files, found.rows, found.oldest_version) == ("indextables", 1, 1, 1, 0)
    assert found.advice == []
    assert (found.orphans, found.orphans_exact) == (0, True)


@pytest.mark.slow
def test_each_problem_has_its_advice_and_the_command_that_solves_it():
    table, clock = new_table(**{"checkpoint.enabled": "false"})
    grown(table, clock, 60)
    for number in range(150):
        orphan(table, number)
    clock.advance(days=8)
    record_skip(table._log, table.files()["path"][0].as_py(), "cannot be read", "MERGE SPLITS")
    found = table.refresh().health()
    assert found.orphans == 150 + 59
    advice = {line.code: line.command for line in found.advice}
    assert {"checkpoint-late", "orphans", "skips"} <= set(advice)
    assert advice["orphans"] == f"PURGE INDEXTABLE '{table.url}'"
    assert advice["checkpoint-late"] == f"CHECKPOINT INDEXTABLES '{table.url}'"
    table.checkpoint()
    table.truncate_time_travel()
    clock.advance(days=8)
    table.purge()
    left = {line.code for line in table.refresh().health().advice}
    assert "orphans" not in left
    assert "checkpoint-late" not in left


def test_orphans_of_large_tables_are_estimated_from_a_sample():
    table, clock = new_table()
    store = table._log.env.store
    live = [f"splits/split-{number:032x}.split" for number in range(0, 6000, 2)]
    for number in range(6000):
        store.put(f"splits/split-{number:032x}.split", b"xx")
    log_append(table._log, [Add(path, {}, 2, 1, dataChange=True, numRecords=1) for path in live])
    clock.advance(days=8)
    found = table.refresh().health()
    assert not found.orphans_exact
    assert 2500 < found.orphans < 3500


def test_advice_is_for_the_worst_first_and_quotes_places():
    table, _ = new_table()
    base = table.health()
    sick = msgspec.structs.replace(
        base,
        url="s3://b/it's",
        clock_skew_ms=200_000,
        small_files=100,
        small_share=0.9,
        mergeable_files=100,
        upkeep=Upkeep(most_small=100),
        files=100,
        rows=10,
        deleted_rows=10,
        deleted_share=0.5,
        reader_version=2,
        skips=[MergeSkip("p", 1, "broken", "MERGE", retryAfter=10**15)],
        state=msgspec.structs.replace(base.state, needs_compaction=True, unusable={"x": "damaged"}),
    )
    codes = [line.code for line in advise(sick, Options(environ={}), 10)]
    assert codes == ["clock", "checkpoint-damaged", "protocol", "compaction", "small-files", "skips", "deleted-rows"]
    commands = [line.command for line in advise(sick, Options(environ={}), 10)]
    assert "MERGE SPLITS 's3://b/it''s'" in commands
    assert isinstance(sick, Health)


# Purge on write


def _quick(**more: str) -> dict[str, str]:
    return {"purgeOnWrite.enabled": "true", "purgeOnWrite.async.enabled": "false", **more}


def test_every_so_many_versions_are_followed_by_a_purge_that_the_history_tells():
    table, clock = new_table(**_quick(**{"purgeOnWrite.triggerAfterWrites": "3"}))
    first = orphan(table, 1)
    clock.advance(days=8)
    table.append(rows(1))
    table.append(rows(2))
    assert first in keys(table)
    table.append(rows(3))
    assert first not in keys(table)
    told = table.refresh().history(1).to_pylist()[0]
    assert (told["operation"], dict(told["operationParameters"])) == ("PURGE", {"auto": "purgeOnWrite"})


def test_rounds_that_end_with_versions_of_deletes_are_followed_by_a_purge_too():
    """Appends and deletes in turn: whoever deletes makes every second version, and adds no file."""
    table, clock = new_table(**_quick(**{"purgeOnWrite.triggerAfterWrites": "2"}))
    table.append(rows(*range(50)))
    table.append(rows(*range(50, 100)))
    key = orphan(table, 1)
    clock.advance(days=8)
    assert table.append(rows(101)) % 2
    assert key in keys(table)
    table.delete("id = 1")
    assert key not in keys(table)


def test_rounds_that_end_with_versions_of_merges_are_followed_by_a_purge_too():
    merges = {"mergeOnWrite.enabled": "true", "mergeOnWrite.async.enabled": "false", "mergeOnWrite.minSplits": "2"}
    rounds = {"purgeOnWrite.triggerAfterWrites": "2", "purgeOnWrite.triggerAfterMerge": "false"}
    table, clock = new_table(**_quick(**rounds, **merges))
    log = table._log
    change_metadata(log, msgspec.structs.replace(log.snapshot().metadata, description="one more version"))
    assert table.refresh().append(rows(1)) == 2
    key = orphan(table, 1)
    clock.advance(days=8)
    assert table.append(rows(2)) == 3
    assert table.history()["operation"].to_pylist()[:3] == ["PURGE", "MERGE SPLITS", "WRITE"]
    assert key not in keys(table)


@pytest.mark.parametrize("waits_for", ["merge", "purge"])
def test_a_write_waits_for_what_it_is_asked_to_wait_for_and_for_nothing_else(waits_for):
    merges = {"mergeOnWrite.enabled": "true", "mergeOnWrite.minSplits": "2"}
    purges = {"purgeOnWrite.enabled": "true", "purgeOnWrite.triggerAfterWrites": "2"}
    table, clock = new_table(**merges, **purges, **{f"{waits_for}OnWrite.async.enabled": "false"})
    key = orphan(table, 1)
    clock.advance(days=8)
    later = []
    clock.submit = lambda pool, call: later.append((pool, call))
    table.append(rows(1))
    while later:
        later.pop()[1]()
    table.append(rows(2))
    assert (key in keys(table), table.refresh().files().num_rows) == ((True, 1) if waits_for == "merge" else (False, 2))
    assert [pool for pool, _ in later] == ["upkeep"]
    later.pop()[1]()
    assert key not in keys(table)
    assert table.refresh().files().num_rows == 1


def test_without_the_option_no_write_purges():
    table, clock = new_table()
    key = orphan(table, 1)
    clock.advance(days=8)
    for number in range(12):
        table.append(rows(number))
    assert key in keys(table)


def test_a_purge_on_write_that_fails_fails_no_write(caplog):
    table, clock = new_table(**_quick(**{"purgeOnWrite.triggerAfterWrites": "1", "purge.minRetentionHours": "500"}))
    key = orphan(table, 1)
    clock.advance(days=8)
    caplog.set_level(logging.WARNING, logger="indextables")
    assert table.append(rows(1)) == 1
    assert key in keys(table)
    assert any("not purged after a write" in record.message for record in caplog.records)


def test_a_purge_on_write_in_the_background_is_waited_for_by_nobody():
    table, clock = new_table(**{"purgeOnWrite.enabled": "true", "purgeOnWrite.triggerAfterWrites": "1"})
    key = orphan(table, 1)
    clock.advance(days=8)
    table.append(rows(1))
    table._log.env.ambient.shutdown()
    assert key not in keys(table)


def test_a_purge_on_write_leaves_it_to_the_process_that_is_at_it():
    table, clock = new_table(**_quick(**{"purgeOnWrite.triggerAfterWrites": "1"}))
    key = orphan(table, 1)
    clock.advance(days=8)
    with acquire(table._log.env, LEASE):
        table.append(rows(1))
        assert key in keys(table)
    table.append(rows(2))
    assert key not in keys(table)


def test_options_of_retention_are_the_tables(tmp_path):
    table, clock = new_table(**{"purge.defaultRetentionHours": "48"})
    assert table.metadata.configuration[opt.PURGE_DEFAULT_RETENTION_HOURS.key] == "48"
    key = orphan(table, 1)
    clock.advance(hours=47)
    table.purge()
    assert key in keys(table)
    clock.advance(hours=2)
    table.purge()
    assert key not in keys(table)
    assert not [name for name in splits(table) if name.startswith(LOG_DIR)]


def test_no_folder_of_a_checkpoint_that_went_stays_on_a_disk(tmp_path):
    gone = dict.fromkeys(("logRetention.duration", "checkpointRetention.duration", "state.retention.hours"), "0")
    table = indextables.create(tmp_path / "t", SCHEMA, properties={"checkpoint.interval": "2", **gone})
    for number in range(9):
        table.append(rows(1, number))
    table.clean_up()
    log = tmp_path / "t" / LOG_DIR
    folders = {path.name for path in log.glob("state-v*")}
    assert folders
    assert folders == {path.parent.name for path in log.glob("state-v*/_manifest.avro")}
    assert indextables.open(tmp_path / "t").count() == table.count() > 0
