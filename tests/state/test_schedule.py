"""When checkpoints are written, and that a commit never pays for one that fails."""

from __future__ import annotations

import contextlib
import logging
import random
from typing import Any

import msgspec
import pytest

from indextables.env import Env
from indextables.errors import StoreUnavailable
from indextables.log.care.intents import protect_version
from indextables.log.care.opening import open_log
from indextables.log.care.schedule import checkpoint, is_due, maybe_checkpoint
from indextables.log.checkpoint.avro.read import read_list
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.pointer import Pointer, read_pointer
from indextables.log.checkpoint.read import read_state
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.read.folding import replay
from indextables.log.wire.actions import CommitInfo, Protocol
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import LOG_DIR, POINTER_KEY, state_key, version_key
from indextables.log.wire.protocol import new_table_protocol
from tests.state.logs import RandomLog, add_row, adds_table, environment, metadata, same, with_options
from tests.state.spy import Spy
from tests.world import commits


def versions(env: Env) -> list[int]:
    return sorted(ref.version for ref in find_states(env.store.list_from(LOG_DIR)))


def test_a_checkpoint_every_interval_commits_since_the_newest_found():
    env = environment({"checkpoint.interval": 4})
    log = RandomLog(env, 1)
    newest = -1
    for _ in range(20):
        log.append(1)
        newest = maybe_checkpoint(env, log.version, newest=newest)
    assert versions(env) == [3, 7, 11, 15, 19]
    same(read_state(env, find_states(env.store.list_from(LOG_DIR))[0]), replay(None, log.history[:20]))


def test_a_writer_that_died_before_its_checkpoint_delays_it_by_an_interval():
    env = environment({"checkpoint.interval": 4})
    log = RandomLog(env, 1)
    for _ in range(7):
        log.append(1)
    assert maybe_checkpoint(env, log.version) == 7
    assert versions(env) == [7]


def test_who_commits_while_another_writes_the_checkpoint_writes_none_and_asks_nobody():
    env = environment({"checkpoint.interval": 4})
    log = RandomLog(env, 1)
    for _ in range(4):
        log.append(1)
    assert log.version == 4
    spy = Spy(env)
    assert maybe_checkpoint(spy.env, log.version) == -1
    assert (versions(env), spy.listed, spy.read) == ([], [], [])


def test_who_has_not_heard_of_the_newest_checkpoint_writes_the_one_that_its_commit_is_due_for():
    env = environment({"checkpoint.interval": 4})
    log = RandomLog(env, 1)
    for _ in range(3):
        log.append(1)
    checkpoint(env)
    for _ in range(4):
        log.append(1)
    assert (versions(env), log.version) == ([3], 7)
    assert maybe_checkpoint(env, log.version, newest=-1) == 7
    assert versions(env) == [3, 7]


@pytest.mark.parametrize("interval", [1, 2, 3, 10])
def test_of_writers_that_know_the_newest_checkpoint_one_writes_the_next(interval):
    due = [behind for behind in range(1, 3 * interval) if is_due(100 + behind, 100, interval)]
    assert due[0] == interval
    assert due[1:] == list(range(2 * interval, 3 * interval))


def test_a_checkpoint_of_another_writer_counts():
    env = environment({"checkpoint.interval": 4})
    log = RandomLog(env, 1)
    for _ in range(6):
        log.append(1)
    checkpoint(env)
    assert versions(env) == [6]
    log.append(1)
    assert maybe_checkpoint(env, log.version, newest=-1) == 6
    assert versions(env) == [6]


def test_a_commit_between_checkpoints_asks_the_store_nothing():
    env = environment({"checkpoint.interval": 10})
    log = RandomLog(env, 1)
    log.append(1)
    spy = Spy(env)
    assert maybe_checkpoint(spy.env, log.version, newest=0) == 0
    assert not spy.listed
    assert not spy.read


def test_no_checkpoint_when_switched_off_and_on_demand_all_the_same():
    env = environment({"checkpoint.enabled": "false", "checkpoint.interval": 1})
    log = RandomLog(env, 1)
    log.append(1)
    assert maybe_checkpoint(env, log.version) == -1
    assert versions(env) == []
    checkpoint(env)
    assert versions(env) == [1]


@pytest.mark.parametrize("kind", ["json", "parquet", "avro"])
def test_commits_through_the_log_checkpoint_themselves_in_the_format_asked_for(kind):
    env = environment({"checkpoint.interval": 3, "state.format": kind})
    log = open_log(env)
    chance = random.Random(3)
    _create(env)
    for number in range(10):
        commits.append(log, adds_table([add_row(number, chance)]))
    found = find_states(env.store.list_from(LOG_DIR))
    assert found
    assert {ref.format for ref in found} == {"avro-state" if kind == "avro" else kind}
    assert len(open_log(env).snapshot().files) == 10


def _create(env: Env, protocol: Protocol | None = None) -> None:
    meta = metadata()
    info = CommitInfo(inCommitTimestamp=env.ambient.now_ms(), tableId=meta.id, token=env.ambient.token())
    data = encode_version([info, protocol or new_table_protocol(), meta], compress=True)
    env.store.put_if_absent(version_key(0), data)


class Broken:
    """A store on which nothing of the state can be written."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put(self, key: str, data: bytes, **more: Any) -> None:
        if "manifest" in key or "checkpoint" in key:
            raise StoreUnavailable(f"no answer for {key}", key=key)
        self._inner.put(key, data, **more)

    def put_if_absent(self, key: str, data: bytes, **more: Any) -> Any:
        if "manifest" in key or "checkpoint" in key:
            raise StoreUnavailable(f"no answer for {key}", key=key)
        return self._inner.put_if_absent(key, data, **more)


@pytest.mark.parametrize("kind", ["json", "parquet", "avro"])
def test_a_failed_checkpoint_is_reported_and_the_commit_stands(kind, caplog):
    env = environment({"checkpoint.interval": 1, "state.format": kind})
    _create(env)
    broken = msgspec.structs.replace(env, store=Broken(env.store))
    chance = random.Random(3)
    with caplog.at_level(logging.WARNING, "indextables"):
        committed = commits.append(open_log(broken), adds_table([add_row(1, chance)]))
    assert committed.version == 1
    assert "checkpoint of version 1" in caplog.text
    assert versions(env) == []
    assert len(open_log(env).snapshot().files) == 1


def test_in_the_background_the_checkpoint_arrives_after_the_commit():
    env = environment({"checkpoint.interval": 2, "checkpoint.async": "true"})
    log = RandomLog(env, 1)
    log.append(2)
    log.append(2)
    assert maybe_checkpoint(env, log.version, newest=0) == 0
    env.ambient.shutdown()
    assert versions(env) == [2]


@pytest.mark.parametrize("protocol", [Protocol(1, 1), Protocol(2, 2), Protocol(3, 3, ["checkpoints"], ["checkpoints"])])
def test_an_older_table_is_upgraded_by_its_next_checkpoint_and_old_clients_stop(protocol):
    env = environment({"checkpoint.interval": 2})
    _create(env, protocol)
    log = open_log(env)
    chance = random.Random(3)
    commits.append(log, adds_table([add_row(1, chance)]))
    commits.append(log, adds_table([add_row(2, chance)]))
    snapshot = open_log(env).snapshot()
    assert snapshot.protocol.minReaderVersion == 4
    assert {"avroState", "schemaDeduplication"} <= set(snapshot.protocol.readerFeatures or [])
    assert "parquetSplit" not in (snapshot.protocol.readerFeatures or [])
    assert len(snapshot.files) == 2
    assert open_log(env).read_version(2).protocol == snapshot.protocol
    assert versions(env) == [2]
    commits.append(log, adds_table([add_row(3, chance)]))
    assert checkpoint(env).version == 4


def test_an_older_table_keeps_its_version_while_it_is_only_read():
    env = environment()
    _create(env, Protocol(2, 2))
    assert open_log(env).snapshot().protocol == Protocol(2, 2)
    assert not [key for key in (m.key for m in env.store.list_from(LOG_DIR)) if key != version_key(0)]


def test_the_pointer_has_the_fields_of_the_protocol():
    env = environment()
    log = RandomLog(env, 2)
    log.append(5)
    ref = checkpoint(env)
    found = msgspec.json.decode(env.store.get(POINTER_KEY))
    state = read_list(env, ref)
    assert found == {
        "version": 1,
        "size": 5,
        "sizeInBytes": ref.size,
        "numFiles": 5,
        "createdTime": env.ambient.now_ms(),
        "format": "avro-state",
        "stateDir": "state-v00000000000000000001",
        "protocolVersion": 4,
        "checksum": state.totals.set_hash,
    }


@pytest.mark.parametrize(
    "content",
    [
        b'{"version":10}',
        b'{"version":10,"timestamp":5}',
        b'{"version":10,"size":5,"parts":1}',
        (
            b'{"version":10,"size":5,"sizeInBytes":1,"numFiles":2,"createdTime":3,"parts":null,"checkpointId":null,'
            b'"format":"avro-state","stateDir":"state-v00000000000000000010","unknown":{}}'
        ),
    ],
)
def test_every_form_of_the_pointer_is_read(content):
    env = environment()
    env.store.put(POINTER_KEY, content)
    pointer = read_pointer(env)
    assert pointer is not None
    assert pointer.version == 10


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b'{"version":-1}', b'{"version":"x"}', b"\xff" * 10, b"[" * 100_000, b"{}"]
)
def test_a_broken_pointer_says_nothing_and_changes_no_result(content):
    env = environment({"checkpoint.interval": 2})
    log = RandomLog(env, 3)
    for _ in range(3):
        log.append(2)
    checkpoint(env)
    log.append(2)
    env.store.put(POINTER_KEY, content)
    assert read_pointer(env) is None
    same(open_log(env).snapshot().state, log.state())
    checkpoint(env)
    assert read_pointer(env).version == 4


@pytest.mark.parametrize("version", [0, 2, 3, 9, 2**62])
def test_a_pointer_to_anything_else_changes_no_result(version):
    env = environment()
    log = RandomLog(env, 3)
    for _ in range(3):
        log.append(2)
        checkpoint(env)
    log.append(2)
    env.store.put(POINTER_KEY, msgspec.json.encode(Pointer(version=version, format="avro-state")))
    same(open_log(env).snapshot().state, log.state())
    checkpoint(env)
    same(open_log(env).snapshot().state, log.state())
    assert read_pointer(env).version == 4


def test_compacting_a_version_that_has_its_state_already_takes_effect():
    env = environment({"state.entriesPerManifest": 50})
    log = RandomLog(env, 3)
    for _ in range(5):
        log.append(20)
        ref = checkpoint(env)
    log.commit([], [], [{"path": path, "dataChange": True} for path in log.state().files["path"].to_pylist()[:5]])
    ref = checkpoint(env)
    before = read_list(env, ref)
    assert len(before.tombstones) == 5
    assert not all(info.compacted for info in before.manifests)
    again = checkpoint(env, compact="full")
    after = read_list(env, again)
    assert again.version == ref.version
    assert len(after.tombstones) == 0
    assert all(info.compacted for info in after.manifests)
    same(read_state(env, again), log.state())


def test_the_pointer_never_moves_back():
    env = environment()
    log = RandomLog(env, 3)
    log.append(1)
    log.append(1)
    checkpoint(env)
    older = with_options(env, **{"state.format": "json"})
    write_checkpoint(older, replay(None, log.history[:2]))
    assert read_pointer(env).version == 2
    assert env.store.exists(state_key(2))


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_another_format_asked_for_is_written_beside_the_state_of_the_same_version(kind):
    env = environment()
    log = RandomLog(env, 3)
    log.append(5)
    checkpoint(env)
    ref = checkpoint(with_options(env, state_format=kind))
    assert (ref.version, ref.format) == (log.version, kind)
    found = find_states(env.store.list_from(LOG_DIR))
    assert [(state.version, state.format) for state in found] == [(log.version, "avro-state"), (log.version, kind)]
    for state in found:
        same(read_state(env, state), log.state())


def test_a_checkpoint_above_the_commit_that_lists_its_token_is_believed_without_a_listing():
    env = environment({"checkpoint.interval": 4})
    log = RandomLog(env, 1)
    for _ in range(6):
        log.append(1)
    checkpoint(env)
    spy = Spy(env)
    assert maybe_checkpoint(spy.env, 3, newest=-1) == log.version
    assert spy.listed == spy.written == []


def test_a_checkpoint_above_the_commit_that_a_dropped_table_left_keeps_nobody_from_writing_one():
    env, dropped = environment({"checkpoint.interval": 4}), environment()
    before = RandomLog(dropped, 2, table_id="another")
    log = RandomLog(env, 1)
    for _ in range(9):
        before.append(1)
    checkpoint(dropped)
    for _ in range(3):
        log.append(1)
    for meta in dropped.store.list_from(LOG_DIR):
        if "state" in meta.key or meta.key == POINTER_KEY:
            env.store.put(meta.key, dropped.store.get(meta.key))
    assert maybe_checkpoint(env, log.version, newest=-1) == log.version
    assert versions(env) == [log.version, before.version]
    same(open_log(env).snapshot().state, log.state())


def test_a_log_that_was_cut_is_not_looked_through_again_before_its_checkpoint_may_go():
    asked = {"logRetention.duration": 3_600_000, "state.retention.hours": 100, "checkpoint.interval": 1}

    def listed(**more: object) -> list[int]:
        env = environment({**asked, **more})
        log = RandomLog(env, 1)
        counts = []
        for _ in range(40):
            env.ambient.advance(hours=4)
            log.time_ms = env.ambient.now_ms()
            log.append(1)
            spy = Spy(env)
            maybe_checkpoint(spy.env, log.version)
            counts.append(len(spy.listed))
        return counts

    with_cleanup, without = listed(), listed(**{"cleanup.enabled": False})
    # At first there is version 0 to take away; from the hundredth hour on there is a checkpoint.
    # Between them one listing tells the oldest version.
    assert with_cleanup[2:25] == [count + 1 for count in without[2:25]]
    assert sum(with_cleanup[25:]) > sum(without[25:])


@pytest.mark.parametrize("rested", [True, False], ids=["after a rest", "while a reader needs it"])
def test_a_log_of_which_nothing_may_be_cut_is_not_looked_through_for_each_checkpoint(rested):
    """Its checkpoints are many: what each writer of one looked at was as much as all of them."""
    asked = {"logRetention.duration": 3_600_000, "state.retention.hours": 1, "checkpoint.interval": 2}

    def listed(**more: object) -> list[int]:
        env = environment({**asked, **more})
        log = RandomLog(env, 1)
        for _ in range(1 if rested else 12):
            log.append(1)
        if not rested:
            checkpoint(env)
        env.ambient.advance(hours=2)
        counts = []
        with contextlib.nullcontext() if rested else protect_version(env, 1, ttl_ms=10_000_000):
            for _ in range(12):
                log.time_ms = env.ambient.now_ms()
                log.append(1)
                spy = Spy(env)
                maybe_checkpoint(spy.env, log.version)
                counts.append(len([prefix for prefix in spy.listed if prefix == LOG_DIR]))
        return counts

    # One listing tells the oldest version.
    for looked, without in zip(listed(), listed(**{"cleanup.enabled": False}), strict=True):
        assert looked <= without + 1
