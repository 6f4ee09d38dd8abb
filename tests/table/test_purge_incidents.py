"""What orphan removal did to the tables of others, each as a test: here live files survive it."""

from __future__ import annotations

import msgspec
import pytest
from tests.servers.s3 import Fault
from tests.table.operate_world import Faulty, contents, grown, keys, new_table, orphan, purge_of, rows, splits

import indextables
from indextables.errors import CommitError, IndexTablesError, LogGap, StoreError
from indextables.log.care.opening import open_log
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import Add
from indextables.log.wire.names import LOG_DIR, POINTER_KEY, parse_key, version_key
from indextables.storage.memory import MemoryStore
from indextables.table.append import commit_append
from indextables.table.rows.rows import fit, read_rows
from indextables.table.writing.purge_mark import MARK_KEY
from indextables.table.writing.splits import target_of, write_adds


def fitting(log, data):
    schema = log.snapshot().schema
    return fit(read_rows(data, schema), schema)


@pytest.mark.slow
def test_purge_that_ignored_checkpoints():
    """Files whose version files are gone are named by a checkpoint alone."""
    for state_format in ("json", "parquet", "avro"):
        table, clock = new_table(
            **{"state.format": state_format, "state.retention.hours": "0", "state.retention.versions": "1"}
        )
        table.append(rows(1))
        for number in (2, 3):
            clock.advance(days=40)
            table.append(rows(number))
            table.checkpoint()
        clock.advance(days=40)
        table.clean_up()
        names = {parse_key(key) for key in keys(table)}
        assert not any(file is not None and file.kind == "version" and file.version < 2 for file in names)
        assert table.purge().count("split") == 0
        assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.slow
def test_purge_that_ignored_the_avro_state_of_an_older_version_that_is_kept():
    table, clock = new_table(**{"cleanup.enabled": "false"})
    grown(table, clock, 60, days=1, every=10)
    before = contents(table, range(table.version + 1))
    report = table.purge()
    assert report.count("split") > 0
    for version in range(report.cut, 61):
        assert contents(table, [version])[version] == before[version]


def test_a_list_that_was_recomputed_at_a_second_instant():
    """What is deleted is what was decided, although more would be old a moment later."""
    table, clock = new_table()
    first = orphan(table, 1)
    clock.advance(days=4)
    second = orphan(table, 2)
    clock.advance(days=4)

    def time_passes(method: str, key: str) -> bool:
        if method == "list" and key.endswith("_intents/"):
            clock.advance(hours=0.05)
        return False

    dry = purge_of(table._log.env, dry_run=True)
    clock.advance(days=2.99)
    report = purge_of(Faulty(table._log.env, time_passes).env)
    assert dry.files["path"].to_pylist() == report.files["path"].to_pylist() == [first]
    assert second in keys(table)


def test_a_listing_cut_at_a_thousand_keys(s3, table_name):
    """A store that loses its page token: the rest is found, or the purge ends; live files behind it stay."""
    table = indextables.create(s3.table_url(table_name), rows(1).schema, options=dict(s3.options()))
    table.append(rows(1))
    store = table._log.env.store
    for number in range(1005):
        store.put(f"splits/split-{number:032x}.split", b"x")
    s3.loses_page_tokens = True
    report = table.purge(older_than_hours=0, force=True, dry_run=True)
    s3.loses_page_tokens = False
    assert set(report.files["path"].to_pylist()) == splits(table) - set(table.files()["path"].to_pylist())
    assert report.kept.get("named by a version") == 1


@pytest.mark.slow
def test_orphan_removal_behind_a_stale_pointer():
    """The pointer names an old checkpoint, or one that never was: the newest is found by listing."""
    table, clock = new_table()
    grown(table, clock, 20, days=3, every=5)
    store = table._log.env.store
    newest = contents(table, [table.version])
    for pointer in (b'{"version":4,"size":1}', b'{"version":999,"size":1}', b"", b"{"):
        store.put(POINTER_KEY, pointer)
        table._log.invalidate()
        table.purge()
        assert contents(table, list(newest)) == newest


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_schemes_and_escapes_that_make_live_files_look_like_orphans(s3, table_name, scheme):
    """Absolute paths, in any spelling of the scheme and with any escape, name the same file."""
    url = s3.table_url(table_name)
    table = indextables.create(url, rows(1).schema, options=dict(s3.options()))
    store, log = table._log.env.store, table._log
    plain = [f"splits/split-{number:032x}.split" for number in range(3)]
    for key in plain:
        store.put(key, b"rows")
    absolute = url.replace("s3://", f"{scheme}://", 1)
    logged = [
        f"{absolute}/{plain[0]}",
        plain[1].replace("-", "%2D"),
        f"{absolute}/{plain[2].replace('split-', 'spli%74-')}",
    ]
    adds = [Add(path, {}, 4, 1, dataChange=True, numRecords=1) for path in logged]
    Transaction(log, operation="WRITE").add(adds).commit_or_raise()
    report = table.purge(older_than_hours=0, force=True)
    assert report.count("split") == 0
    assert set(plain) <= splits(table)


def test_a_clock_that_is_ten_years_ahead_deletes_nothing(s3, table_name):
    s3.clock_offset_s = -10 * 365 * 86_400
    try:
        with pytest.raises(IndexTablesError, match=r"clock"):
            indextables.create(s3.table_url(table_name), rows(1).schema, options=dict(s3.options())).purge()
    finally:
        s3.clock_offset_s = 0


def test_a_writer_that_slept_longer_than_files_are_kept():
    """Its files are gone: its commit is refused, and no version names what is not there."""
    table, clock = new_table()
    table.append(rows(1))
    log = table._log
    metadata = log.snapshot().metadata
    adds = write_adds(log.env, target_of(metadata, log.env.options), fitting(log, rows(2)))
    clock.advance(days=8)
    assert table.purge().count("split") == 1
    with pytest.raises(CommitError, match="purge took them"):
        commit_append(log, metadata, adds)
    assert table.refresh().to_arrow()["id"].to_pylist() == [1]


def test_a_writer_that_slept_a_night_commits():
    table, clock = new_table()
    log = table._log
    metadata = log.snapshot().metadata
    adds = write_adds(log.env, target_of(metadata, log.env.options), fitting(log, rows(2)))
    clock.advance(hours=14)
    commit_append(log, metadata, adds)
    assert table.refresh().to_arrow()["id"].to_pylist() == [2]


def test_a_gap_in_the_log_ends_it_with_nothing_deleted():
    table, clock = new_table(**{"checkpoint.interval": "1000"})
    grown(table, clock, 6, days=10)
    before = splits(table)
    table._log.env.store.delete_many([version_key(3)])
    table._log.invalidate()
    with pytest.raises(LogGap):
        purge_of(table._log.env)
    assert splits(table) == before


def test_a_file_that_comes_back_to_life_while_purge_is_at_work_stays():
    """A restore that commits between the decision and the batch."""
    table, clock = new_table()
    key = orphan(table, 7)
    stays_dead = orphan(table, 8)
    clock.advance(days=8)
    env = table._log.env
    log = open_log(env)
    seen: list[str] = []

    def revive(method: str, name: str) -> bool:
        if method == "list" and name.endswith("_intents/"):
            seen.append(name)
            if len(seen) == 5:
                add = Add(key, {}, 6, 1, dataChange=True, numRecords=1)
                Transaction(log, operation="RE-ADD").add([add]).commit_or_raise()
        return False

    report = purge_of(Faulty(env, revive).env)
    assert key in keys(table)
    assert report.files["path"].to_pylist() == [stays_dead]


def test_objects_with_names_that_no_key_can_have_end_it_with_nothing_deleted(s3, table_name):
    table = indextables.create(s3.table_url(table_name), rows(1).schema, options=dict(s3.options()))
    key = orphan(table, 1)
    prefix = s3.table_url(table_name).removeprefix(f"s3://{s3.bucket}/")
    s3.put_directly(f"{prefix}/splits//double", b"x")
    with pytest.raises(StoreError):
        table.purge(older_than_hours=0, force=True)
    assert table._log.env.store.exists(key)


def test_a_listing_that_fails_in_the_middle_ends_it_with_nothing_deleted(s3, table_name):
    table = indextables.create(
        s3.table_url(table_name), rows(1).schema, options={**dict(s3.options()), "storage.retries": 0}
    )
    key = orphan(table, 1)
    s3.inject(Fault(method="GET", query="list-type", before=503, times=1000))
    with pytest.raises(StoreError):
        table.purge(older_than_hours=0, force=True)
    s3.calm()
    assert table._log.env.store.exists(key)


def test_a_sibling_whose_name_begins_alike_survives():
    table, clock = new_table()
    table.append(rows(1))
    location = msgspec.structs.replace(table._log.env.store._location, path="table2")
    sibling = MemoryStore(location, ambient=clock)
    sibling.put(f"splits/split-{1:032x}.split", b"theirs")
    clock.advance(days=60)
    table.purge()
    assert sibling.exists(f"splits/split-{1:032x}.split")


@pytest.mark.slow
def test_the_log_folder_keeps_what_is_not_of_the_protocol():
    table, clock = new_table()
    grown(table, clock, 20, days=3, every=5)
    store = table._log.env.store
    odd = [f"{LOG_DIR}{name}" for name in ("1.json", "00000000000000000001.json.bak", "state-v1/x", "manifests/m.avro")]
    for key in odd:
        store.put(key, b"x")
    clock.advance(days=60)
    table.purge()
    assert set(odd) <= keys(table)


def written(table, *numbers):
    """The files of a write that has yet to commit, and how it does."""
    log = table._log
    metadata = log.snapshot().metadata
    adds = write_adds(log.env, target_of(metadata, log.env.options), fitting(log, rows(*numbers)))
    return adds, lambda: commit_append(log, metadata, adds)


def test_a_writer_that_was_at_work_during_a_forced_purge_notices_that_its_files_are_gone():
    table, clock = new_table()
    table.append(rows(1))
    _, commit = written(table, 2)
    clock.advance(hours=0.1)
    assert table.purge(older_than_hours=0, force=True).count("split") == 1
    with pytest.raises(CommitError, match="purge took them"):
        commit()
    assert table.refresh().to_arrow()["id"].to_pylist() == [1]


def test_a_writer_whose_files_survived_a_forced_purge_commits_and_so_does_one_that_began_later():
    table, clock = new_table()
    table.append(rows(1))
    orphan(table, 1)
    clock.advance(hours=3)
    _, commit = written(table, 2)
    assert table.purge(older_than_hours=2, force=True).count("split") == 1
    commit()
    clock.advance(hours=1)
    table.refresh().append(rows(3))
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_nobody_commits_while_a_forced_purge_is_at_work():
    """Files that are there now may be gone in a moment."""
    table, clock = new_table()
    table.append(rows(1))
    _, commit = written(table, 2)
    clock.advance(hours=0.1)
    told = []

    def beside_the_delete(call, key):
        if call == "delete" and key.endswith(".split"):
            with pytest.raises(CommitError, match="is at work") as error:
                commit()
            told.append(error.value)

    faulty = Faulty(table._log.env, beside_the_delete)
    assert purge_of(faulty.env, older_than_hours=0, force=True).count("split") == 1
    assert told
    assert table.refresh().to_arrow()["id"].to_pylist() == [1]


def test_a_writer_whose_files_are_younger_than_all_that_goes_commits_while_a_forced_purge_is_at_work():
    table, clock = new_table()
    table.append(rows(1))
    orphan(table, 1)
    clock.advance(hours=3)
    _, commit = written(table, 2)
    clock.advance(hours=0.001)
    done = []

    def beside_the_delete(call, key):
        if call == "delete" and key.endswith(".split"):
            done.append(commit())

    faulty = Faulty(table._log.env, beside_the_delete)
    assert purge_of(faulty.env, older_than_hours=2, force=True).count("split") == 1
    assert len(done) == 1
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [1, 2]


def killed_purge(table):
    """A purge without any age that is killed at its first delete: it releases nothing and deletes nothing."""
    dead = []

    def when(call, key):
        if call == "delete" and key.endswith(".split"):
            dead.append(key)
        if dead:
            raise Killed

    with pytest.raises(Killed):
        purge_of(Faulty(table._log.env, when).env, older_than_hours=0, force=True)


class Killed(BaseException):
    """The process is gone: nothing that it would still do happens."""


def test_whoever_begins_after_a_forced_purge_was_killed_need_not_wait_for_its_lease():
    table, clock = new_table()
    table.append(rows(1))
    orphan(table, 9)
    _, commit = written(table, 2)
    clock.advance(hours=0.1)
    killed_purge(table)
    clock.advance(hours=0.001)
    table.append(rows(3))
    assert table.append(rows(4)) == table.version
    # One that was at work before it is still in the way of a purge that may go on.
    with pytest.raises(CommitError, match="is at work"):
        commit()
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [1, 3, 4]


def test_a_file_that_is_put_again_after_the_mark_of_a_purge_is_not_taken_for_a_new_one():
    """A put without an answer is tried again: its file was listed before, by the same name."""
    table, clock = new_table()
    table.append(rows(1))
    adds, commit = written(table, 2)
    clock.advance(hours=0.1)
    killed_purge(table)
    clock.advance(hours=0.01)
    store = table._log.env.store
    store.put(adds[0].path, store.get(adds[0].path))
    with pytest.raises(CommitError, match="is at work"):
        commit()


def test_the_mark_of_an_older_writer_tells_no_times_and_holds_up_whoever_may_be_meant():
    table, clock = new_table()
    table.append(rows(1))
    orphan(table, 9)
    clock.advance(hours=0.1)
    killed_purge(table)
    table._log.env.store.put(MARK_KEY, b'{"retentionMs":0,"atMs":1}')
    clock.advance(hours=0.01)
    with pytest.raises(CommitError, match="is at work"):
        table.append(rows(3))
    clock.advance(hours=1)
    table.append(rows(3))


def test_a_purge_at_a_safe_age_leaves_no_mark():
    table, clock = new_table()
    orphan(table, 1)
    clock.advance(days=8)
    before = keys(table)
    assert table.purge(older_than_hours=24).count("split") == 1
    assert not [key for key in keys(table) - before if "forced" in key]
