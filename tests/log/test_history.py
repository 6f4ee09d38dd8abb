from __future__ import annotations

import datetime as dt

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.logs import (
    METADATA,
    START_MS,
    add,
    append,
    create,
    info,
    local_env,
    memory_env,
    open_log,
    token,
)
from tests.log.scripted import Scripted
from tests.world.clock import ShiftedClock
from tests.world.store import counted

import indextables
from indextables.errors import InvalidArgument, TableNotFound, VersionExpired, VersionNotFound
from indextables.log.care.cleanup import clean_up
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.read.histories import HISTORY_SCHEMA, history, version_at
from indextables.log.wire.actions import CommitInfo
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import POINTER_KEY, version_key


def test_history_tells_who_did_what_when_newest_first():
    env = memory_env()
    create(env)
    told = info(
        1,
        operationParameters={"mode": "Append"},
        operationMetrics={"numFiles": "1"},
        isBlindAppend=True,
        readVersion=0,
        userMetadata="nightly",
        engineInfo="test",
        isolationLevel="Serializable",
    )
    env.store.put(version_key(1), encode_version([told, add("a")], compress=True))
    table = history(open_log(env))
    assert table.schema == HISTORY_SCHEMA
    newest = table.slice(0, 1).to_pylist(maps_as_pydicts="strict")[0]
    assert newest == {
        "version": 1,
        "timestamp": dt.datetime.fromtimestamp((START_MS + 1000) / 1000, dt.UTC),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "operationMetrics": {"numFiles": "1"},
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "engineInfo": "test",
        "userMetadata": "nightly",
        "user": None,
        "token": token(1),
    }
    assert table.column("version").to_pylist() == [1, 0]


def test_history_is_limited_by_reading_less():
    env = memory_env()
    create(env)
    append(env, *range(1, 20))
    counting, store = counted(env)
    assert history(open_log(counting), limit=3).column("version").to_pylist() == [19, 18, 17]
    assert [call.key for call in store.reads] == [POINTER_KEY, *(version_key(version) for version in (17, 18, 19))]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit):
    env = memory_env()
    create(env)
    with pytest.raises(InvalidArgument):
        history(open_log(env), limit=limit)


def test_history_of_nothing_is_no_table():
    with pytest.raises(TableNotFound):
        history(open_log(memory_env()))


def test_versions_of_other_systems_have_the_time_of_their_file(tmp_path):
    env = local_env(tmp_path / "t")
    env.store.put(version_key(0), encode_version([METADATA], compress=False))
    row = history(open_log(env)).to_pylist()[0]
    assert row["operation"] is None
    assert int(row["timestamp"].timestamp() * 1000) == env.store.head(version_key(0)).modified_ms


def test_history_ends_where_the_version_files_end():
    env = memory_env()
    create(env)
    append(env, 1, 2, 3)
    write_checkpoint(env, open_log(env).snapshot(2).state)
    env.store.delete_many([version_key(0), version_key(1)])
    assert history(open_log(env)).column("version").to_pylist() == [3, 2]


@settings(max_examples=25)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=12), st.integers(-10, 40_000))
def test_the_version_of_a_time_is_the_newest_that_is_not_later(steps, offset):
    env = memory_env()
    times = [START_MS]
    for step in steps:
        times.append(times[-1] + step)
    for version, time in enumerate(times):
        actions = [METADATA] if version == 0 else []
        told = CommitInfo(timestamp=1, inCommitTimestamp=time, token=token(version))
        env.store.put(version_key(version), encode_version([told, *actions], compress=True))
    asked = START_MS + offset
    expected = [version for version, time in enumerate(times) if time <= asked]
    if not expected:
        with pytest.raises(VersionNotFound):
            version_at(open_log(env), asked)
    else:
        assert version_at(open_log(env), asked) == expected[-1]
        assert open_log(env).snapshot(timestamp_ms=asked).version == expected[-1]


def test_a_time_is_found_by_reading_few_versions():
    env = memory_env()
    create(env)
    append(env, *range(1, 200))
    counting, store = counted(env)
    assert version_at(open_log(counting), START_MS + 77_500) == 77
    assert store.count("get") <= 10


def test_a_time_before_what_is_left_has_expired():
    env = memory_env()
    create(env)
    append(env, 1, 2, 3)
    write_checkpoint(env, open_log(env).snapshot(2).state)
    env.store.delete_many([version_key(0), version_key(1)])
    with pytest.raises(VersionExpired):
        version_at(open_log(env), START_MS + 1500)
    assert version_at(open_log(env), START_MS + 2500) == 2


@pytest.mark.parametrize("kind", ["avro", "json", "parquet"])
@pytest.mark.parametrize("stays", [memory_env, local_env])
def test_every_version_that_can_be_read_after_a_cut_can_be_read_by_its_time(tmp_path, kind, stays):
    settings = {
        "state.format": kind,
        "logRetention.duration": "0",
        "state.retention.versions": "1",
        "state.retention.hours": "0",
        "checkpointRetention.duration": "0",
    }
    env = memory_env(**settings) if stays is memory_env else local_env(tmp_path, **settings)
    create(env)
    append(env, *range(1, 9))
    for version in (2, 5, 7):
        write_checkpoint(env, open_log(env).snapshot(version).state)
    cut = clean_up(msgspec.structs.replace(env, ambient=ShiftedClock(500))).cut
    assert cut == 7
    for version in range(9):
        for asked in (START_MS + 1000 * version, START_MS + 1000 * version + 999):
            if version < cut:
                with pytest.raises(VersionExpired):
                    open_log(env).snapshot(timestamp_ms=asked)
            else:
                assert open_log(env).snapshot(timestamp_ms=asked).version == version
                assert open_log(env).snapshot(timestamp_ms=asked).files.num_rows == version


def test_a_cleanup_while_a_time_is_looked_for_is_no_missing_file(tmp_path):
    env = local_env(tmp_path)
    create(env)
    append(env, *range(1, 9))
    store = Scripted(env.store)

    def cut(call):
        write_checkpoint(env, open_log(env).snapshot(6).state)
        env.store.delete_many([version_key(version) for version in range(7)])
        return call()

    store.play("get", r"\d{20}\.json$", cut)
    beside = open_log(msgspec.structs.replace(env, store=store))
    assert version_at(beside, START_MS + 6500) == 6


def test_where_only_checkpoints_are_left_a_time_is_told_by_them():
    env = memory_env()
    create(env)
    append(env, 1, 2, 3, 4)
    for version in (1, 3, 4):
        write_checkpoint(env, open_log(env).snapshot(version).state)
    env.store.delete_many([version_key(version) for version in range(5)])
    assert version_at(open_log(env), START_MS + 9000) == 4
    assert version_at(open_log(env), START_MS + 3999) == 3
    assert version_at(open_log(env), START_MS + 3000) == 3
    with pytest.raises(VersionExpired):
        version_at(open_log(env), START_MS + 500)


@pytest.mark.parametrize("asked", [1001, 1999, 2500])
def test_where_only_checkpoints_are_left_no_version_is_told_for_a_time_that_may_be_of_a_later_one(asked):
    env = memory_env()
    create(env)
    append(env, 1, 2, 3)
    for version in (1, 3):
        write_checkpoint(env, open_log(env).snapshot(version).state)
    env.store.delete_many([version_key(version) for version in range(4)])
    assert version_at(open_log(env), START_MS + 1000) == 1
    with pytest.raises(VersionExpired, match="nothing tells when version 2 was committed"):
        version_at(open_log(env), START_MS + asked)


def test_a_time_in_the_future_is_the_newest_version():
    env = memory_env()
    create(env)
    append(env, 1)
    assert version_at(open_log(env), START_MS * 2) == 1


def test_a_table_of_checkpoints_alone_has_a_row_for_each():
    env = memory_env()
    create(env)
    append(env, 1)
    for version in (0, 1):
        write_checkpoint(env, open_log(env).snapshot(version).state)
    env.store.delete_many([version_key(0), version_key(1)])
    assert history(open_log(env)).column("version").to_pylist() == [1, 0]
    assert history(open_log(env), limit=1).column("version").to_pylist() == [1]


def test_a_history_that_a_lost_file_cuts_short_says_so(tmp_path, caplog):
    table = indextables.create(
        tmp_path / "t", pa.schema([("id", pa.int64())]), properties={"checkpoint.interval": "100"}
    )
    for number in range(5):
        table.append([{"id": number}])
    table.checkpoint()
    (tmp_path / "t" / version_key(4)).unlink()
    indextables.invalidate_caches()
    assert indextables.open(tmp_path / "t").history()["version"].to_pylist() == [5]
    assert "version 4 of" in caplog.text
    caplog.clear()
    assert indextables.open(tmp_path / "t").history(1)["version"].to_pylist() == [5]
    assert "is gone" not in caplog.text, "what was asked for is all there"
