"""What purge deletes, what it never does, and that every version that stays reads as before."""

from __future__ import annotations

import contextlib
import gzip
import os
import time
from urllib.parse import parse_qs, urlsplit

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.s3 import S3Server
from tests.state.spy import Spy
from tests.table.operate_world import SCHEMA, Faulty, contents, grown, keys, new_table, orphan, purge_of, rows, splits

import indextables
from indextables.errors import (
    ClockSkew,
    IndexTablesError,
    InvalidArgument,
    ProtocolUnsupported,
    StoreUnavailable,
    VersionExpired,
)
from indextables.log.care.intents import protect_keys, protect_version
from indextables.log.care.leasing import acquire
from indextables.log.care.opening import open_log
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import Add, DeletionVector, Remove
from indextables.log.wire.arrays import text_array
from indextables.log.wire.names import LOG_DIR, version_key
from indextables.log.wire.protocol import new_table_protocol
from indextables.split.file import dv
from indextables.storage.store import StoreFacts
from indextables.table.maintenance.purge.keys import Keys, hashes_of
from indextables.table.maintenance.purge.plan import Claims, Names, decide, listed_table, ranges_over
from indextables.table.maintenance.purge.verb import LEASE
from indextables.table.rows.partitions import partitionings
from indextables.table.running import Step
from indextables.table.writing.keys import keys_of_paths


def test_orphans_go_when_they_are_old_and_young_ones_stay():
    table, clock = new_table()
    table.append(rows(1))
    old = orphan(table, 1)
    clock.advance(days=8)
    young = orphan(table, 2)
    report = table.purge()
    assert report.files["path"].to_pylist() == [old]
    assert (report.count("split"), report.bytes, report.kept["young"]) == (1, 6, 1)
    assert old not in keys(table)
    assert young in keys(table)
    assert table.to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("options", "asked", "hours"),
    [({}, {}, 168), ({"purge.defaultRetentionHours": "72"}, {}, 72), ({}, {"older_than_hours": 48}, 48)],
)
def test_an_orphan_stays_as_long_as_was_asked_for_and_no_longer(options, asked, hours):
    table, clock = new_table(**options)
    key = orphan(table, 1)
    clock.advance(hours=hours - 0.1)
    assert table.purge(**asked).count("split") == 0
    clock.advance(hours=0.2)
    assert table.purge(**asked).count("split") == 1
    assert key not in keys(table)


@pytest.mark.slow
def test_a_dry_run_lists_exactly_what_goes_and_writes_nothing():
    table, clock = new_table(**{"state.retention.hours": "0", "state.retention.versions": "1"})
    grown(table, clock, 30, days=2, every=5)
    orphan(table, 1)
    clock.advance(days=8)
    spy = Spy(table._log.env)
    dry = purge_of(spy.env, dry_run=True, tx_log_retention_hours=24)
    assert not spy.written
    assert not spy.deleted
    before = keys(table)
    real = purge_of(table._log.env, tx_log_retention_hours=24)
    assert sorted(real.files["path"].to_pylist()) == sorted(dry.files["path"].to_pylist())
    assert dry.cut == real.cut
    assert min(dry.count(kind) for kind in ("split", "version", "state", "manifest")) > 0
    assert before - keys(table) == set(dry.files["path"].to_pylist())


@pytest.mark.slow
def test_files_of_versions_that_stay_readable_stay():
    table, clock = new_table()
    grown(table, clock, 40, days=1, every=5)
    before = contents(table, range(table.version + 1))
    report = table.purge()
    assert report.cut is not None
    assert report.count("split") > 0
    assert contents(table, range(report.cut, 41)) == {v: before[v] for v in range(report.cut, 41)}


@pytest.mark.slow
def test_every_version_that_stays_reads_the_same_rows():
    table, clock = new_table(**{"state.retention.hours": "0", "state.retention.versions": "1"})
    for number in range(6):
        table.overwrite(rows(number, number + 100))
        clock.advance(days=5)
        table.checkpoint()
    before = {version: table.at(version).to_arrow() for version in range(7)}
    report = table.purge(tx_log_retention_hours=240)
    assert report.count("split") > 0
    table._log.invalidate()
    assert 0 < report.cut < 6
    for version in range(report.cut, 7):
        assert table.at(version).to_arrow() == before[version]


@pytest.mark.slow
def test_a_purge_after_a_purge_finds_nothing():
    table, clock = new_table()
    grown(table, clock, 40, days=1, every=5)
    assert table.purge().deleted > 0
    version = table.refresh().version
    again = table.purge()
    assert (again.deleted, again.failed) == (0, {})
    assert table.refresh().version == version


def test_a_purge_of_a_tidy_table_writes_nothing_but_its_lease():
    table, clock = new_table()
    table.append(rows(1))
    clock.advance(days=8)
    table.purge()
    spy = Spy(table._log.env)
    report = purge_of(spy.env)
    assert report.deleted == 0
    assert [key.rpartition("/")[2] for key in spy.written] == ["lease-purge-000000000002.json"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("commits", [1, 5, 12, 25])
@pytest.mark.parametrize("state_format", ["avro", "json"])
@pytest.mark.parametrize("usable", ["as it is", "on demand", "damaged", "none"])
def test_a_table_that_lay_idle_keeps_its_live_files_and_nothing_else(commits, state_format, usable):
    table, clock = new_table(**{"state.format": state_format})
    grown(table, clock, commits)
    live = contents(table, [commits])[commits]
    for key in keys(table):
        if usable in {"damaged", "none"} and ("checkpoint" in key or "/state-v" in key):
            table._log.env.store.put(key, b"broken") if usable == "damaged" else table._log.env.store.delete_many([key])
    clock.advance(days=400)
    if usable == "on demand":
        table.checkpoint()
        clock.advance(days=1)
    table._log.invalidate()
    before = keys(table)
    dry = purge_of(table._log.env, dry_run=True)
    assert keys(table) == before
    report = purge_of(table._log.env)
    assert sorted(report.files["path"].to_pylist()) == sorted(dry.files["path"].to_pylist())
    assert (report.cut, report.failed, report.reason) == (commits if commits > 1 or report.cut else None, {}, "")
    assert splits(table) == set(live)
    table._log.invalidate()
    assert contents(table, [commits]) == {commits: live}
    assert table.verify(data_files=False).ok


@pytest.mark.parametrize("why", ["young", "reader", "checkpoint.retention", "no removes"])
def test_a_purge_writes_no_checkpoint_that_lets_nothing_go(why):
    table, clock = new_table(**({"checkpoint.retention": "3"} if why == "checkpoint.retention" else {}))
    grown(table, clock, 3)
    if why == "no removes":
        table.checkpoint()
        for number in range(3):
            table.append(rows(number))
    clock.advance(days=20 if why == "young" else 400)
    with protect_version(table._log.env, 1, ttl_ms=1_000_000) if why == "reader" else contextlib.nullcontext():
        spy = Spy(table._log.env)
        purge_of(spy.env)
    assert not [key for key in spy.written if "state-v" in key]


def test_a_purge_of_a_table_that_rests_ends():
    """The version in which a purge tells what it did must not be the reason for the next one."""
    table, clock = new_table()
    grown(table, clock, 12)
    for _ in range(5):
        clock.advance(days=400)
        table.purge()
    version = table.refresh().version
    clock.advance(days=400)
    spy = Spy(table._log.env)
    assert purge_of(spy.env).deleted == 0
    assert not [key for key in spy.written if "_intents" not in key]
    assert table.refresh().version == version


def test_an_age_below_the_safe_one_has_to_be_forced():
    table, clock = new_table()
    key = orphan(table, 1)
    clock.advance(hours=2)
    with pytest.raises(InvalidArgument, match="below the safe age of 24 hours"):
        table.purge(older_than_hours=1)
    with pytest.raises(InvalidArgument, match="tx_log_retention_hours = 1"):
        table.purge(tx_log_retention_hours=1)
    assert key in keys(table)
    assert table.purge(older_than_hours=1, force=True).deleted == 1


@pytest.mark.parametrize("hours", [-1, float("nan"), float("inf"), True, 10**9])
def test_an_age_that_is_none_is_refused(hours):
    table, _ = new_table()
    with pytest.raises(InvalidArgument, match="number of hours"):
        table.purge(older_than_hours=hours, force=True)


def test_a_purge_that_deleted_something_is_in_the_history():
    table, clock = new_table()
    orphan(table, 1)
    clock.advance(days=8)
    table.purge()
    told = table.history(1).to_pylist()[0]
    assert told["operation"] == "PURGE"
    assert dict(told["operationMetrics"])["numSplitsDeleted"] == "1"


def test_a_table_that_asks_for_what_this_library_does_not_know_is_refused_before_anything():
    table, clock = new_table()
    key = orphan(table, 1)
    clock.advance(days=8)
    protocol = new_table_protocol()
    wanted = msgspec.structs.replace(protocol, writerFeatures=[*(protocol.writerFeatures or []), "typeWidening"])
    Transaction(table._log, table._log.snapshot(), operation="X").set_protocol(wanted).commit_or_raise()
    name = f"{LOG_DIR}{1:020d}.json"
    store = table._log.env.store
    store.put(name, gzip.compress(gzip.decompress(store.get(name)).replace(b"typeWidening", b"tyqeWidening")))
    spy = Spy(table._log.env)
    with pytest.raises(ProtocolUnsupported):
        purge_of(spy.env)
    assert not [k for k in spy.written + spy.deleted if not k.startswith(LOG_DIR + "_probe")]
    assert key in keys(table)


# Who is protected


def test_what_a_writer_announces_stays():
    table, clock = new_table()
    first, second = orphan(table, 1), orphan(table, 2)
    clock.advance(days=8)
    with protect_keys(table._log.env, [first], ttl_ms=3_600_000):
        report = table.purge()
    assert report.kept["protected by a writer"] == 1
    assert first in keys(table)
    assert second not in keys(table)


def test_what_came_after_a_writer_began_stays():
    table, clock = new_table()
    before = orphan(table, 1)
    clock.advance(days=1)
    held = protect_keys(table._log.env, since_ms=clock.now_ms(), ttl_ms=7 * 86_400_000)
    mine = orphan(table, 2)
    clock.advance(days=4)
    held.renew()
    clock.advance(days=5)
    table.purge()
    assert mine in keys(table)
    assert before not in keys(table)
    held.release()
    table.purge()
    assert mine not in keys(table)


@pytest.mark.slow
def test_the_version_of_a_live_reader_stays_with_its_files():
    table, clock = new_table()
    grown(table, clock, 40, days=1, every=5)
    reader = table.at(3)
    held = reader.protect(hours=1)
    table.purge()
    assert contents(table, [3])[3] == reader.files()["path"].to_pylist()
    held.release()
    assert table.purge().deleted > 0
    with pytest.raises(VersionExpired):
        contents(table, [3])


def test_a_reader_of_a_version_that_can_no_longer_be_read_keeps_every_file():
    """It was opened in time and announced itself too late: only it knows which files it needs."""
    table, clock = new_table()
    table.append(rows(1))
    reader = table.at(version=1)
    table.overwrite(rows(2))
    table.truncate_time_travel()
    clock.advance(days=8)
    held = protect_version(table._log.env, 1, ttl_ms=3_600_000)
    report = table.purge()
    assert report.count("split") == 0
    assert "a reader needs version 1, and 3 is the oldest that can be read" in report.kept
    assert reader.to_arrow()["id"].to_pylist() == [1]
    held.release()
    assert table.purge().count("split") == 1


@pytest.mark.parametrize(("when", "where"), [("page", "splits/"), ("put", "lease-purge")])
def test_a_reader_of_a_version_that_is_gone_stops_a_purge_that_is_at_work(when, where):
    """While the data is listed, and when everything is decided."""
    table, clock = new_table()
    table.append(rows(1))
    table.overwrite(rows(2))
    table.truncate_time_travel()
    before = splits(table)
    clock.advance(days=8)
    inner, told = table._log.env, []

    def announce(method: str, key: str) -> bool:
        if method == "put_if_absent" and "lease-purge" in key:
            told.append("leased")
        if method == when and where in key and len(told) == 1:
            told.append(protect_version(inner, 1, ttl_ms=3_600_000))
        return False

    report = purge_of(Faulty(inner, announce).env)
    assert len(told) == 2
    assert splits(table) == before
    assert "a reader needs version 1" in str(report.kept) + report.reason


def test_a_purge_that_slept_past_its_lease_leaves_the_rest_to_who_took_over():
    table, clock = new_table()
    key = orphan(table, 1)
    clock.advance(days=8)
    inner, taken = table._log.env, []

    def take_over(method: str, name: str) -> bool:
        if method == "page" and name == key and not taken:
            clock.advance(hours=1)
            taken.append(acquire(inner, "purge"))
        return False

    report = purge_of(Faulty(inner, take_over).env)
    assert taken[0] is not None
    assert report.deleted == 0
    assert "somebody else took over" in report.reason
    assert key in keys(table)


def test_an_intent_that_cannot_be_understood_stops_everything():
    table, clock = new_table()
    key = orphan(table, 1)
    clock.advance(days=8)
    table._log.env.store.put(f"{LOG_DIR}_intents/odd.json", b"{")
    report = table.purge()
    assert report.deleted == 0
    assert key in keys(table)
    assert any("odd.json" in reason for reason in report.kept)


def test_intents_that_are_over_go():
    table, clock = new_table()
    protect_version(table._log.env, 0, ttl_ms=1000)
    clock.advance(hours=1)
    assert table.purge().count("intent") == 1


def test_an_intent_that_was_over_and_is_renewed_while_purge_is_at_work_stays():
    table, clock = new_table()
    env = table._log.env
    late = protect_version(env, 0, ttl_ms=1000)
    over = protect_version(env, 0, ttl_ms=1000)
    orphan(table, 1)
    clock.advance(days=8)

    def renew_late(method: str, key: str) -> bool:
        if method == "delete" and key.endswith(".split"):
            late.renew()
        return False

    report = purge_of(Faulty(env, renew_late).env)
    assert (report.count("split"), report.count("intent")) == (1, 1)
    assert late.key in keys(table)
    assert over.key not in keys(table)


@pytest.mark.parametrize("when", ["after the plan", "after the log was cut"])
@pytest.mark.parametrize("what", ["its files", "whatever came since it began"])
def test_a_writer_that_announces_itself_while_purge_is_at_work_stops_it(when, what):
    table, clock = new_table()
    clock.advance(days=1)
    began = clock.now_ms()
    key = orphan(table, 1)
    clock.advance(days=8)
    env = table._log.env

    def announce(step: Step) -> None:
        if step.what == ("read the log" if when == "after the plan" else "log"):
            claim = {"keys": [key]} if what == "its files" else {"since_ms": began}
            protect_keys(env, **claim, ttl_ms=60_000)

    report = table.purge(progress=announce)
    assert key in keys(table)
    assert report.reason.startswith("a writer has announced itself meanwhile")
    clock.advance(days=1)
    assert table.purge().count("split") == 1


def test_one_process_at_a_time():
    table, clock = new_table()
    key = orphan(table, 1)
    clock.advance(days=8)
    with acquire(table._log.env, LEASE):
        report = table.purge()
        assert "another process" in report.reason
        assert key in keys(table)
    assert table.purge().deleted == 1


# What counts as old


def test_a_file_that_was_removed_lately_stays_although_it_is_old_and_its_versions_go():
    table, clock = new_table(**{"state.retention.hours": "0", "state.retention.versions": "1"})
    table.append(rows(1))
    clock.advance(days=300)
    table.overwrite(rows(2))
    table.checkpoint()
    clock.advance(hours=30)
    table.append(rows(3))
    table.checkpoint()
    table.append(rows(4))
    table.checkpoint()
    clock.advance(hours=30)
    report = table.purge(tx_log_retention_hours=24)
    assert report.cut is not None
    assert report.kept["removed lately"] == 1
    assert len(splits(table)) == 4
    clock.advance(days=7)
    assert table.purge(tx_log_retention_hours=24).count("split") == 1


def test_when_a_file_was_removed_is_known_for_as_long_as_the_log_tells_it():
    table, clock = new_table(**{"state.retention.hours": "0", "state.retention.versions": "1"})
    table.append(rows(1))
    clock.advance(days=300)
    table.overwrite(rows(2))
    table.checkpoint()
    clock.advance(hours=30)
    table.append(rows(3))
    cutting = table.purge(tx_log_retention_hours=24)
    assert cutting.cut == 2
    assert cutting.kept["removed lately"] == 1
    later = table.purge(tx_log_retention_hours=24)
    assert later.count("split") == 1
    contents(table, range(2, table.version + 1))


@pytest.mark.parametrize("young", ["commit", "version file"])
def test_when_a_file_was_removed_is_told_by_the_later_one_of_commit_and_version_file(young):
    table, clock = new_table()
    table.append(rows(1))
    table.overwrite(rows(2))
    table.append(rows(3))
    table.checkpoint()
    env = table._log.env
    copied = [key for key in keys(table) if young == "commit" or key == version_key(2)]
    # Every file told to be older than its commit, as by a writer whose clock was ahead; or one file told to be younger.
    clock.advance(days=-300 if young == "commit" else 300)
    for key in copied:
        env.store.put(key, env.store.get(key))
    clock.advance(days=300 if young == "commit" else 0, hours=1)
    report = table.purge(older_than_hours=24, tx_log_retention_hours=0, force=True)
    assert (report.cut, report.count("split")) == (3, 0)
    assert report.kept["removed lately"] == 1
    clock.advance(days=2)
    contents(table, [3])


def test_after_a_truncation_ages_count_from_then():
    table, clock = new_table()
    grown(table, clock, 5, days=30)
    table.truncate_time_travel()
    clock.advance(days=6)
    report = table.purge()
    assert report.count("split") == 0
    assert report.kept["history truncated lately"] == 4
    clock.advance(days=2)
    newest = contents(table, [table.version])
    assert table.purge().count("split") == 4
    assert contents(table, [table.version]) == newest


def test_clocks_that_disagree_stop_it():
    table, clock = new_table()
    key = orphan(table, 1)
    clock.advance(days=8)
    spy = Spy(table._log.env)
    spy.probe = lambda: StoreFacts(skew_ms=400_000)  # type: ignore[attr-defined]
    with pytest.raises(ClockSkew, match="no age can be judged"):
        purge_of(spy.env)
    assert key in keys(table)


def test_a_clock_that_was_set_since_it_was_compared_stops_it():
    """The probe is older than the step; the lease has just been written, and tells the store's time."""
    table, clock = new_table()
    key = orphan(table, 1)
    stepped = type(clock)()
    stepped.ms = clock.ms + 3650 * 86_400_000
    env = msgspec.structs.replace(table._log.env, ambient=stepped)
    with pytest.raises(ClockSkew, match="was set"):
        purge_of(env)
    assert key in keys(table)


# Names


def test_only_names_that_this_library_gives_are_touched():
    table, clock = new_table(partitioned=True)
    table.append(rows(1, d="a"))
    store = table._log.env.store
    own = orphan(table, 1, "d=a/")
    foreign = [
        "notes.txt",
        "splits/split-" + "0" * 32 + ".split",
        "d=a/split-" + "0" * 32 + ".split",
        "d=a/splits/split-XYZ.split",
        "d=a/splits/split-" + "0" * 32 + ".split.bak",
        "d=a/splits/deeper/split-" + "0" * 32 + ".split",
        "e=a/splits/split-" + "0" * 32 + ".split",
        "d=a/e=b/splits/split-" + "0" * 32 + ".split",
        "part-00000.parquet",
        "_hidden/splits/split-" + "0" * 32 + ".split",
        ".hidden",
        "_delta_log/00000000000000000000.json",
        LOG_DIR + "notes.txt",
        LOG_DIR + "manifests/other.avro",
        LOG_DIR + "_intents/readme.md",
    ]
    for key in foreign:
        store.put(key, b"mine")
    clock.advance(days=20)
    report = table.purge()
    assert report.files["path"].to_pylist() == [own]
    assert set(foreign) <= keys(table)


@pytest.mark.parametrize("files", [0, 998, 2500])
def test_data_on_both_sides_of_a_log_of_any_length_is_seen(files):
    table, clock = new_table()
    table.append(rows(1))
    store = table._log.env.store
    before = "AB/deletion_vector_0000dead-0000-0000-0000-000000000001.bin"
    assert before < LOG_DIR
    store.put(before, b"nobody")
    behind = orphan(table, 1)
    for number in range(files):
        store.put(f"{LOG_DIR}notes-{number}.txt", b"mine")
    store.put("notes.txt", b"mine")
    clock.advance(days=8)
    report = table.purge()
    assert sorted(report.files["path"].to_pylist()) == [before, behind]
    assert report.foreign == 1


def test_listing_the_data_takes_a_request_per_thousand_keys_of_the_table():
    with S3Server() as server:
        url = server.table_url("listed")
        table = indextables.create(url, SCHEMA, options=server.settings())
        table.append(rows(1))
        for number in range(2990 - len(keys(table))):
            server.put_directly(f"listed/splits/split-{number:032x}.split", b"")
        server.requests.clear()
        report = table.purge(dry_run=True)
        assert report.kept["young"] > 2900
        pages = [parse_qs(request.query)["prefix"][0] for request in server.requests if "list-type" in request.query]
        assert pages.count(urlsplit(url).path.lstrip("/") + "/") == 3


def test_a_table_inside_a_partition_folder_of_this_one_survives():
    table, clock = new_table(partitioned=True)
    table.append(rows(1, d="a"))
    inner = indextables.create(table.url + "/d=b", pa.schema([("id", pa.int64())]), ambient=clock)
    inner.append(pa.table({"id": [7]}))
    stray = orphan(table, 5, "d=c/")
    clock.advance(days=8)
    report = table.purge()
    assert report.files["path"].to_pylist() == [stray]
    assert report.kept["inside another table"] == 1
    assert inner.refresh().to_arrow()["id"].to_pylist() == [7]


def test_files_of_a_former_partitioning_go_also_when_no_version_remembers_it():
    table, clock = new_table(partitioned=True)
    table.append(rows(1, d="a"))
    table.overwrite(rows(2), overwrite_schema=True, partition_by=[])
    table.overwrite(rows(3, d="b"), overwrite_schema=True, partition_by=["id"])
    strays = [orphan(table, 1, "d=z/"), orphan(table, 2), orphan(table, 3, "id=7/")]
    mine = "e=a/splits/split-" + "0" * 32 + ".split"
    table._log.env.store.put(mine, b"mine")
    (live,) = table.files()["path"].to_pylist()
    table.truncate_time_travel()
    clock.advance(days=8)
    assert table.health().orphans == 5
    report = table.purge()
    assert report.count("split") == 5
    assert set(strays) <= set(report.files["path"].to_pylist())
    assert splits(table) == {mine, live}
    assert table.refresh().to_arrow()["id"].to_pylist() == [3]


def test_a_restore_forgets_no_partitioning_that_the_table_had():
    table, clock = new_table(partitioned=True)
    table.append(rows(1, d="a"))
    table.overwrite(rows(2, d="b"), overwrite_schema=True, partition_by=["id"])
    table.restore(1)
    assert table.partition_columns == ["d"]
    table.restore(table.version)
    stray = orphan(table, 1, "id=7/")
    clock.advance(days=8)
    assert table.purge().files["path"].to_pylist() == [stray]
    assert partitionings(table.refresh().metadata) == [["d"], ["id"]]
    table.restore(2)
    assert partitionings(table.metadata) == [["id"], ["d"]]


def test_partition_values_that_need_escaping_do_not_make_live_files_look_like_orphans():
    table, clock = new_table(partitioned=True)
    for number, value in enumerate(["a b", "ä/ö", "50%", "x=y", "a:b", "'q'", "new\nline", "%2e%2e", "é" * 150]):
        table.append(rows(number, d=value))
    clock.advance(days=8)
    assert table.purge().deleted == 0
    table.overwrite(rows(9, d="other"))
    table.truncate_time_travel()
    clock.advance(days=8)
    assert table.purge().count("split") == 9
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [9]


def test_vectors_that_are_named_stay_and_orphans_of_them_go():
    table, clock = new_table()
    table.append(rows(1, 2, 3))
    log = table._log
    snapshot = log.snapshot()
    path = snapshot.files["path"][0].as_py()
    (told,) = dv.write_file(log.env.store, [(path, 3, dv.encode([1]))], log.env.ambient.token())
    dv.write_file(log.env.store, [(path, 3, dv.encode([2]))], log.env.ambient.token())
    vector = msgspec.convert(msgspec.to_builtins(told), DeletionVector)
    files = snapshot.files
    row = {k: v for k, v in files.to_pylist()[0].items() if k in Add.__struct_fields__ and v is not None}
    row = {k: dict(v) if isinstance(v, list) and v and isinstance(v[0], tuple) else v for k, v in row.items()}
    row["partitionValues"] = {}
    add = msgspec.structs.replace(msgspec.convert(row, Add), deletionVector=vector)
    tx = Transaction(log, snapshot, operation="DELETE")
    tx.remove([Remove(path, dataChange=True)], rows=files).add([add]).commit_or_raise()
    clock.advance(days=8)
    report = table.purge()
    assert report.count("vector") == 1
    assert report.count("split") == 0
    assert table.refresh().to_arrow()["id"].to_pylist() == [1, 3]


def test_local_links_and_folders_are_no_objects_and_survive(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    precious = tmp_path / "precious"
    precious.write_bytes(b"x")
    folder = tmp_path / "t" / "splits"
    link = folder / f"split-{1:032x}.split"
    link.symlink_to(precious)
    (folder / f"split-{2:032x}.split").mkdir()
    own = folder / f"split-{3:032x}.split"
    own.write_bytes(b"x")
    old = time.time() - 30 * 86_400
    os.utime(own, (old, old))
    os.utime(precious, (old, old))
    report = table.purge()
    assert report.files["path"].to_pylist() == [f"splits/split-{3:032x}.split"]
    assert precious.read_bytes() == b"x"
    assert link.is_symlink()
    assert (folder / f"split-{2:032x}.split").is_dir()


# Faults


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["list", "page", "get", "head"])
def test_anything_that_cannot_be_read_ends_it_with_nothing_deleted(fault):
    table, clock = new_table()
    grown(table, clock, 12, days=10, every=3)
    orphan(table, 1)
    env = table._log.env
    calls = []

    def fails_late(method: str, key: str) -> bool:
        if method == fault:
            calls.append(key)
        return method == fault and len(calls) > 3

    faulty = Faulty(msgspec.structs.replace(env), fails_late)
    before = splits(table)
    try:
        purge_of(faulty.env)
    except StoreUnavailable:
        assert not [key for key in faulty.deleted if "_intents/" not in key and "_probe" not in key]
    assert splits(table) <= before
    contents(table, [table.refresh().version])


def test_a_delete_that_fails_is_reported_and_done_by_the_next_run():
    table, clock = new_table()
    first, second = orphan(table, 1), orphan(table, 2)
    clock.advance(days=8)
    report = purge_of(Faulty(table._log.env, lambda method, key: method == "delete" and key == first).env)
    assert report.failed == {first: "injected"}
    assert report.files["path"].to_pylist() == [second]
    assert table.purge().files["path"].to_pylist() == [first]


@pytest.mark.slow
def test_where_the_log_cannot_be_cut_no_data_goes():
    table, clock = new_table()
    grown(table, clock, 40, days=1, every=5)
    before = splits(table)
    report = purge_of(Faulty(table._log.env, lambda method, key: method == "delete" and "state-v" in key).env)
    assert report.failed
    assert "no data file was" in report.reason
    assert splits(table) == before


def test_progress_is_told():
    table, clock = new_table()
    orphan(table, 1)
    clock.advance(days=8)
    steps = []
    table.purge(progress=steps.append)
    assert [step.what for step in steps] == ["list", "read the log", "log", "delete"]


# The decision alone


@pytest.mark.slow
@given(st.data())
def test_nothing_that_anybody_needs_goes(data):
    number = st.integers(0, 30)
    listed_numbers = data.draw(st.lists(number, unique=True, max_size=20))
    times = {n: data.draw(st.integers(0, 1000)) for n in listed_numbers}
    named = data.draw(st.sets(number))
    removed = data.draw(st.dictionaries(number, st.integers(0, 1000)))
    since = data.draw(st.none() | st.integers(0, 1000))
    truncated = data.draw(st.none() | st.integers(0, 1000))
    protected = data.draw(st.sets(number))
    now, retention = 1000, data.draw(st.integers(0, 1000))

    def key(n: int) -> str:
        return f"splits/split-{n:032x}.split"

    listed = listed_table(
        [key(n) for n in listed_numbers], [1] * len(times), [times[n] for n in listed_numbers], Names.of([])
    )
    claims = Claims(
        named=Keys(hashes_of(text_array([key(n) for n in sorted(named)]))),
        removed=hashes_of(text_array([key(n) for n in removed])),
        removed_ms=np.array(list(removed.values()), np.int64),
        protected=frozenset(key(n) for n in protected),
        since_ms=since,
        truncated_ms=truncated,
    )
    decision = decide(listed, claims, now_ms=now, retention_ms=retention)
    goes = set(decision.goes["path"].to_pylist())

    def may_go(n: int) -> bool:
        return (
            n not in named
            and n not in protected
            and now - times[n] > retention
            and (n not in removed or now - removed[n] > retention)
            and (since is None or times[n] < since)
            and not (truncated is not None and now - truncated <= retention and times[n] <= truncated)
        )

    assert goes == {key(n) for n in listed_numbers if may_go(n)}
    assert sum(decision.kept.values()) + len(goes) == len(listed_numbers)


@given(st.lists(st.text("abcß/_", min_size=1, max_size=6), max_size=40, unique=True), st.integers(1, 10))
def test_ranges_cover_every_key_once(names, size):
    paths = pa.array([f"splits/{name}" for name in names if "//" not in name and not name.startswith("/")], pa.string())
    try:
        ranges = ranges_over(paths, size)
    except IndexTablesError:
        return
    in_log = ["_transaction_log/a", "_transaction_log/00000000000000000000.json", "_transaction_log/~"]
    probes = [*paths.to_pylist(), "a", "z", "_a", "_transaction_loh", "_transaction_lof/x", "~", "é", *in_log]
    for probe in probes:
        holding = [r for r in ranges if probe > r.after and (not r.until or probe <= r.until)]
        assert len(holding) == 1, probe


def test_logged_paths_and_listed_keys_meet_whatever_the_spelling():
    root = "s3://bucket/table"
    spelled = [
        "d=a%2520b/splits/split-1.split",
        "s3a://bucket/table/d=a%2520b/splits/split-2.split",
        "s3n://bucket/table/splits/split-3.split",
        "s3://bucket/table/splits/split%2D4.split",
        "d=%C3%A4/splits/split-5.split",
    ]
    assert keys_of_paths(pa.array(spelled), root).to_pylist() == [
        "d=a%20b/splits/split-1.split",
        "d=a%20b/splits/split-2.split",
        "splits/split-3.split",
        "splits/split-4.split",
        "d=ä/splits/split-5.split",
    ]
    assert len(keys_of_paths(pa.array([], pa.string()), root)) == 0


def test_reading_the_log_sees_what_was_committed_between_the_listing_and_it():
    """A file that is listed, old, and named only by a commit that lands after the listing is live."""
    table, clock = new_table()
    table.append(rows(1))
    path = table.files()["path"][0].as_py()
    table.overwrite(rows(2))
    table.truncate_time_travel()
    clock.advance(days=8)
    env = table._log.env
    log = open_log(env)

    def commit_at_the_right_time(method: str, key: str) -> bool:
        if method == "list" and key == LOG_DIR and not done:
            done.append(1)
            add = Add(path, {}, 10, 1, dataChange=True, numRecords=1)
            Transaction(log, operation="RE-ADD").add([add]).commit_or_raise()
        return False

    done: list[int] = []
    report = purge_of(Faulty(env, commit_at_the_right_time).env)
    assert done
    assert path in keys(table)
    assert path not in report.files["path"].to_pylist()


@pytest.mark.slow
def test_an_opened_table_that_asks_for_it_keeps_its_version():
    table, clock = new_table()
    grown(table, clock, 40, days=1, every=5)
    reader = indextables.open(table.url, options={"reader.leaseHours": 2}, ambient=clock).at(3)
    table.purge()
    assert contents(table, [3])[3] == reader.files()["path"].to_pylist()
    clock.advance(hours=3)
    assert table.purge().count("split") > 0


def test_a_handle_that_moves_on_lets_its_old_version_go():
    table, _ = new_table(options={"reader.leaseHours": 2})
    table.append(rows(1))
    table.append(rows(2))
    held = [key for key in keys(table) if "/_intents/" in key]
    assert len(held) == 1
    assert b'"version":2' in table._log.env.store.get(held[0])
