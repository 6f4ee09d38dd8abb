"""A slot that a sleeper filled after cleanup had emptied it: nobody who reads versions takes it for one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import msgspec
import pyarrow as pa
import pytest
from tests.log.commits import METADATA, add
from tests.log.scripted import SLOT
from tests.log.test_commit import Place, checkpoint, place
from tests.world.commits import append

from indextables.errors import LogCorrupt, LogError, VersionExpired
from indextables.log.care.cleanup import carry_out, plan_cleanup
from indextables.log.care.retention import Rules
from indextables.log.care.schedule import _write
from indextables.log.care.schedule import checkpoint as write_newest
from indextables.log.care.verifying import verify
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit.create import create_table
from indextables.log.commit.resolve import resolve_token
from indextables.log.read.histories import history, version_at
from indextables.log.read.log import Log
from indextables.log.wire.actions import CommitInfo
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import crc_key, version_key
from indextables.table.maintenance.purge.keys import Keys
from indextables.table.maintenance.purge.reachable import named_since
from indextables.table.read.tail import Limits, Tail
from indextables.table.read.tail import Place as Standing

__all__ = ["place"]

NOTHING_KEPT = {
    "checkpoint__interval": 1_000_000,
    "logRetention__duration": 0,
    "state__retention__versions": 1,
    "state__retention__hours": 0,
    "checkpointRetention__duration": 0,
}
START_MS = 1_600_000_000_000


class Stopped(Exception):
    pass


class World:
    """Versions 0 to 8, of which number 4 is put a second time by a sleeper, when a test wakes it."""

    def __init__(self, place: Place, *, linked: bool) -> None:
        self.place = place
        place.clock.ms = START_MS
        self.log = self.process()
        create_table(self.log, METADATA)
        for number in range(1, 4):
            self.commit(number)
        sleeper = self.process()
        self.wake: Callable[[], object] = lambda: None

        def hold(call: Callable[[], object]) -> object:
            self.wake = call
            raise Stopped

        sleeper.env.store.play("put_if_absent", SLOT, hold)
        with pytest.raises(Stopped):
            append(sleeper, [add("phantom")], operation="PHANTOM")
        for number in range(4, 9):
            self.commit(number)
        if not linked:
            self.forget_links()

    def process(self) -> Log:
        return self.place.process(**NOTHING_KEPT)

    def commit(self, number: int) -> None:
        self.place.clock.ms = START_MS + 1000 * number
        append(self.log, [add(f"true-{number}")])

    def forget_links(self) -> None:
        """As if older writers had written the log."""
        store = self.process().env.store
        contents = [self.process().read_version(version) for version in range(9)]
        for content in contents:
            info = msgspec.structs.replace(content.commit_info, version=None, previous=None)
            more = [action for action in (content.protocol, content.metadata) if action is not None]
            actions = [info, *more, *content.domains]
            store.put(version_key(content.version), encode_version(actions, adds=content.adds, compress=True))
            store.delete_many([crc_key(content.version)])

    def checkpoints(self, *versions: int) -> None:
        for version in versions:
            write_checkpoint(self.log.env, self.process().snapshot(version).state)

    def rules(self, cut: int) -> Rules:
        """Everything is old, and a reader needs `cut`."""
        rules = Rules.of(self.log.env.options, round(time.time() * 1000) + 3_600_000)
        return msgspec.structs.replace(rules, keep_from=cut)

    def refilled(self) -> None:
        """Version 4 is the cut, and its slot is filled again."""
        self.checkpoints(2, 4, 6)
        assert carry_out(self.log.env, plan_cleanup(self.log.env, self.rules(4))).cut == 4
        self.wake()

    def late(self) -> None:
        """A checkpoint below the cut comes between the listing of cleanup and its deletes; then slot 4 is refilled."""
        slow = self.process().snapshot(3).state
        self.checkpoints(2, 5, 7)
        plan = plan_cleanup(self.log.env, self.rules(5))
        assert plan.cut.at.version == 5
        write_checkpoint(self.log.env, slow)
        carry_out(self.log.env, plan)
        self.wake()


@pytest.fixture(params=[True, False], ids=["linked", "older files"])
def world(request, place) -> World:
    return World(place, linked=request.param)


def names(files: pa.Table) -> list[str]:
    return sorted(files["path"].to_pylist())


def stream(log: Log) -> list[str]:
    tail = Tail(log, METADATA)
    start = Standing(4, 0)
    end = tail.reach(start, Limits())
    return [path for _, files in tail.files_between(start, end) for path in files["path"].to_pylist()]


EXPIRED = {
    "a stream": stream,
    "a repeated piece of a stream": lambda log: list(Tail(log, METADATA).files_between(Standing(4, 0), Standing(6, 0))),
    "read_version": lambda log: log.read_version(4),
    "read_versions": lambda log: log.read_versions(range(4, 8)),
    "log()": lambda log: log.stored(4),
}

ALL = [f"true-{number}" for number in range(1, 9)]


def held(keys: Keys) -> tuple[list[str], int]:
    """Those of `ALL` that a set of keys holds, and how many it holds."""
    return pa.array(ALL).filter(keys.hold(pa.array(ALL))).to_pylist(), len(keys)


TOLD = {
    "history": (lambda log: history(log)["operation"].to_pylist(), ["WRITE"] * 4),
    "a short history": (lambda log: history(log, limit=5)["operation"].to_pylist(), ["WRITE"] * 4),
    "snapshot": (lambda log: names(log.snapshot(4).files), ALL[:4]),
    "the newest": (lambda log: names(log.snapshot().files), ALL),
    "time travel": (lambda log: version_at(log, START_MS + 4500), 4),
    "time travel later": (lambda log: version_at(log, START_MS + 6500), 6),
    "purge": (lambda log: held(named_since(log, 3)[1]), (ALL, len(ALL))),
    "checkpoint": (lambda log: names(log.snapshot(write_newest(log.env).version).files), ALL),
}


@pytest.mark.parametrize("reader", EXPIRED)
def test_a_reader_at_the_cut_is_told_that_the_version_has_expired(world, reader):
    world.refilled()
    with pytest.raises(VersionExpired) as caught:
        EXPIRED[reader](world.process())
    assert caught.value.version == 4


@pytest.mark.slow
@pytest.mark.parametrize("reader", TOLD)
def test_a_reader_at_the_cut_tells_what_happened(world, reader):
    world.refilled()
    ask, expected = TOLD[reader]
    assert ask(world.process()) == expected


@pytest.mark.parametrize("way", ["refilled", "late"])
def test_verify_finds_nothing_wrong_but_a_file_that_nobody_reads(world, way):
    getattr(world, way)()
    report = verify(world.process().env)
    assert report.ok
    assert {(finding.severity, finding.version) for finding in report.findings} == {("warning", 4)}
    assert all("nobody reads it" in finding.message for finding in report.findings)


def test_verify_takes_versions_that_a_cleanup_took_before_it_was_killed_for_no_gap(world):
    """The checkpoint of version 3 came late; the cleanup, whose cut is 7, has got as far as version 5."""
    world.checkpoints(3, 7)
    keys = [key for version in range(6) for key in (version_key(version), crc_key(version))]
    world.log.env.store.delete_many(keys)
    assert verify(world.process().env).findings == ()


def test_a_stream_that_starts_by_time_begins_above_the_refilled_slot(world):
    world.refilled()
    assert Tail(world.process(), METADATA).starting(timestamp_ms=START_MS + 4500) == Standing(5, 0)
    with pytest.raises(VersionExpired):
        Tail(world.process(), METADATA).starting(timestamp_ms=START_MS + 3500)


def test_a_checkpoint_below_the_cut_is_no_sign_that_a_slot_is_what_was_committed(world):
    world.late()
    with pytest.raises(VersionExpired):
        _ = world.process().snapshot(4).files
    assert names(world.process().snapshot(3).files) == ALL[:3]


def test_a_reader_whose_checkpoint_survives_the_cleanup_that_overtakes_it_is_not_deceived(world):
    reader = world.process()
    world.checkpoints(2)
    reader.env.store.play("get", version_key(4), lambda call: (world.late(), call())[1])
    with contextlib.suppress(VersionExpired):
        assert names(reader.snapshot(4).files) == ALL[:4]


def test_a_slow_checkpointer_publishes_no_state_of_a_refilled_slot(world):
    world.late()
    with pytest.raises(LogError):
        _write(world.log.env, 4, "auto")
    assert all(ref.version != 4 for ref in world.process().states())


def test_a_token_is_not_looked_for_in_a_refilled_slot(world):
    token = world.process().read_version(4).token
    world.refilled()
    assert resolve_token(world.process(), token, 4) == 4


@pytest.mark.parametrize("checkpointed", [None, 0, 1], ids=["without checkpoint", "above one", "beside one"])
def test_a_file_of_another_table_is_never_read_as_a_version(place, checkpointed):
    create_table(place.process(), METADATA)
    append(place.process(), [add("a")])
    if checkpointed == 1:
        checkpoint(place)
    append(place.process(), [add("b")])
    if checkpointed == 0:
        checkpoint(place)
    info = CommitInfo(inCommitTimestamp=9, operation="LATE", token="f" * 32, tableId="another")
    place.process().env.store.put_if_absent(version_key(3), encode_version([info, add("z")], compress=True))
    with pytest.raises(LogError, match="another"):
        _ = place.process().snapshot().files
    with pytest.raises(LogError):
        append(place.process(), [add("c")])
    assert place.process().snapshot(2).files.num_rows == 2


def test_changed_bytes_below_a_version_are_an_error_to_whoever_reads_both(place):
    log = place.process(transaction__compression__enabled=False)
    create_table(log, METADATA)
    for name in "abc":
        append(log, [add(name)])
    store = place.process().env.store
    store.put(version_key(2), store.get(version_key(2)).replace(b'"numRecords":5', b'"numRecords":4'))
    with pytest.raises(LogCorrupt, match="changed"):
        _ = place.process().snapshot().files
    assert place.process().snapshot(1).files.num_rows == 1


def test_a_version_of_the_same_number_from_another_history_is_an_error(place):
    create_table(place.process(), METADATA)
    append(place.process(), [add("a")])
    store = place.process().env.store
    kept = store.get(version_key(1))
    store.delete_many([version_key(1)])
    for name in "xy":
        append(place.process(), [add(name)])
    store.put(version_key(1), kept)
    with pytest.raises(LogCorrupt, match="follows"):
        _ = place.process().snapshot().files


def test_versions_that_no_list_of_tokens_reaches_are_believed_where_the_files_above_lead_to_them(place):
    world = World(place, linked=True)
    short = place.process(**NOTHING_KEPT, commit__tokenWindow=2)
    write_newest(short.env)
    for version in range(9):
        log = world.process()
        assert log.read_version(version).version == version
        assert version_at(world.process(), place_ms(version)) == version
        assert names(world.process().snapshot(version).files) == ALL[:version]


def test_a_refilled_slot_below_every_list_of_tokens_is_not_believed(place):
    world = World(place, linked=True)
    short = place.process(**NOTHING_KEPT, commit__tokenWindow=2)
    write_newest(short.env)
    world.log.env.store.delete_many([version_key(4)])
    world.wake()
    for version in (4, 3):
        with pytest.raises(LogError):
            world.process().read_version(version)


def place_ms(version: int) -> int:
    """When a version of the world was the newest."""
    return START_MS + 1000 * version + 500


@pytest.mark.timeout(60)
def test_parts_of_a_checkpoint_whose_writer_died_keep_nobody_waiting(place):
    """They are no checkpoint, and stay until cleanup: whoever looked again until they are gone would look for ever."""
    log = place.process(**NOTHING_KEPT)
    create_table(log, METADATA)
    log.env.store.put(f"_transaction_log/{1:020d}.checkpoint.{1:010d}.{2:010d}.parquet", b"half")
    assert [append(log, [add(f"true-{number}")]).version for number in (1, 2)] == [1, 2]
    for version in range(3):
        assert place.process(**NOTHING_KEPT).read_version(version).version == version


def test_a_first_version_that_a_losing_creator_put_late_is_nobodys_version(place):
    """It belongs to another table than every checkpoint, and so does the newest version: it is the stranger."""
    loser = place.process(**NOTHING_KEPT)
    kept: list[Callable[[], object]] = []

    def hold(call: Callable[[], object]) -> object:
        kept.append(call)
        raise Stopped

    loser.env.store.play("put_if_absent", SLOT, hold)
    with pytest.raises(Stopped):
        create_table(loser, msgspec.structs.replace(METADATA, id="other"))
    world = World(place, linked=True)
    world.checkpoints(2, 4, 6)
    carry_out(world.log.env, plan_cleanup(world.log.env, world.rules(4)))
    kept[0]()
    with pytest.raises(VersionExpired):
        world.process().snapshot(0)
    with pytest.raises(VersionExpired):
        world.process().read_version(0)
    assert names(world.process().snapshot().files) == ALL
