"""What a commit promises, whatever the store answers."""

from __future__ import annotations

import errno
import json
import os
import stat
import uuid

import msgspec
import pytest
from tests.log.commits import METADATA, SCHEMA, add, open_log
from tests.log.scripted import (
    SLOT,
    Scripted,
    conflict_out_of_nothing,
    lost,
    not_landed,
    refused_although_landed,
    unavailable,
)
from tests.world.clock import Clock
from tests.world.commits import append, overwrite

from indextables.env import Env
from indextables.errors import (
    ClockSkew,
    CommitConflict,
    CommitError,
    CommitStateUnknown,
    InvalidArgument,
    LogCorrupt,
    LogGap,
    NotSupported,
    ProtocolUnsupported,
    StoreFull,
    StorePermissionDenied,
    TableNotFound,
    TableReplaced,
)
from indextables.log.care.cleanup import clean_up
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit.create import create_table
from indextables.log.commit.resolve import resolve_token
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import CommitInfo, Metadata, Protocol
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import LOG_DIR, crc_key, version_key
from indextables.log.wire.outcome import Committed, Unknown
from indextables.options import Options
from indextables.storage import open_store

NOW_MS = 1_700_000_000_000


class Place:
    """One table, and as many processes at it as a test wants."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = Clock(NOW_MS)

    def process(self, **options: object):
        """A log as a process of its own has it, on a store that plays tricks."""
        given = {"storage.fsync": "false", **{key.replace("__", "."): value for key, value in options.items()}}
        resolved = Options(given, environ={})
        return open_log(Env(Scripted(open_store(self.url, resolved)), self.clock, resolved))

    def paths(self) -> list[str]:
        return sorted(self.process().snapshot().files["path"].to_pylist())

    def tokens(self) -> list[str]:
        log = self.process()
        return [log.read_version(v).token for v in log.versions()]


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path) -> Place:
    return Place(str(tmp_path / "table") if request.param == "local" else f"memory://{uuid.uuid4().hex}/table")


@pytest.fixture
def table(place) -> Place:
    create_table(place.process(), METADATA)
    return place


def checkpoint(place: Place, **options: object) -> int:
    log = place.process(state__format="json", **options)
    snapshot = log.snapshot()
    write_checkpoint(log.env, snapshot.state)
    return snapshot.version


def clean(place: Place, upto: int) -> None:
    """A real cleanup that keeps nothing but what it has to keep, after the checkpoint of version `upto`."""
    env = place.process(
        logRetention__duration=0, state__retention__hours=0, checkpointRetention__duration=0, state__format="json"
    ).env
    report = clean_up(msgspec.structs.replace(env, ambient=Clock(NOW_MS + 10**12)))
    assert (report.cut, report.failed) == (upto, {})


@pytest.mark.parametrize("answer", [lost, refused_although_landed])
def test_an_answer_lost_after_the_put_landed_neither_doubles_nor_loses_the_commit(table, answer):
    # delta-rs, Trino and Hudi repeated such a put in the next version; ClickHouse and Iceberg took it for a conflict
    # and deleted the files of the live snapshot.
    log = table.process()
    log.env.store.play("put_if_absent", SLOT, answer)
    outcome = Transaction(log, operation="WRITE").add([add("a")]).commit()
    assert isinstance(outcome, Committed)
    assert outcome.version == 1
    assert table.paths() == ["a"]
    assert table.tokens().count(outcome.token) == 1
    assert log.env.store.count("delete") == 0


def test_a_commit_that_the_disk_does_not_keep_is_not_reported_as_one(tmp_path, monkeypatch):
    """The version file has its name, but a power failure could still take it."""
    create_table(Place(str(tmp_path / "table")).process(), METADATA)
    log = open_log(Env(open_store(tmp_path / "table"), Clock(NOW_MS), Options({}, environ={})))
    append(log, [add("a")])
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        outcome = Transaction(log, operation="WRITE").add([add("b")]).commit()
    assert isinstance(outcome, Unknown)
    assert resolve_token(log, outcome.token, outcome.version) == 2
    assert append(log, [add("c")]).version == 3


@pytest.mark.parametrize("answer", [not_landed, conflict_out_of_nothing])
@pytest.mark.parametrize("times", [1, 3])
def test_a_put_that_did_not_land_is_put_into_the_same_slot_again(table, answer, times):
    log = table.process()
    log.env.store.play("put_if_absent", SLOT, answer, times=times)
    assert append(log, [add("a")]).version == 1
    assert table.process().latest_version() == 1
    assert len(table.clock.slept) == times


def test_a_refusal_that_names_nobody_is_no_conflict(table):
    """A 409 does not prove that the slot is taken, even with a winner about to take it."""
    log = table.process()
    log.env.store.play("put_if_absent", SLOT, lambda _call: (append(table.process(), [add("b")]), not_landed(_call))[1])
    assert append(log, [add("a")]).version == 2
    assert table.paths() == ["a", "b"]


def test_a_store_that_never_answers_gives_unknown_and_the_token_tells_later(table):
    log = table.process()
    log.env.store.play("put_if_absent", SLOT, not_landed, times=100)
    with pytest.raises(CommitStateUnknown) as caught:
        append(log, [add("a")])
    assert not isinstance(caught.value, CommitError)
    assert log.env.store.count("delete") == 0
    with pytest.raises(CommitStateUnknown, match="delayed request"):
        resolve_token(table.process(), caught.value.token, caught.value.version)
    append(table.process(), [add("b")])
    assert resolve_token(table.process(), caught.value.token, caught.value.version) is None


def test_a_commit_that_landed_but_cannot_be_read_back_is_unknown_until_it_can(table):
    log = table.process()
    log.env.store.play("put_if_absent", SLOT, lost)
    log.env.store.play("get", version_key(1), unavailable, times=9)
    outcome = Transaction(log, operation="WRITE").add([add("a")]).commit()
    assert isinstance(outcome, Unknown)
    assert resolve_token(table.process(), outcome.token, outcome.version) == 1


@pytest.mark.parametrize("earlier", [(), ("first",)], ids=["first commit", "later commit"])
def test_a_stalled_writer_is_not_told_that_a_cleaned_slot_is_its_commit(table, earlier):
    # SlateDB's writer re-created a slot that cleanup had deleted, and was told that it had committed. A writer that has
    # committed before knows the file below its slot, and asks for it instead of listing.
    log = table.process()
    for name in earlier:
        append(log, [add(name)])

    def stall(call):
        for name in ("b", "c", "d"):
            append(table.process(), [add(name)])
        clean(table, checkpoint(table))
        return call()

    log.env.store.play("put_if_absent", SLOT, stall)
    assert append(log, [add("a")]).version == 4 + len(earlier)
    assert table.paths() == ["a", "b", "c", "d", *earlier]


def test_a_commit_whose_slot_was_checkpointed_and_cleaned_before_it_was_read_back_is_found_by_its_token(table):
    log = table.process()

    def lost_and_cleaned(call):
        call()
        append(table.process(), [add("b")])
        clean(table, checkpoint(table))
        return not_landed(call)

    log.env.store.play("put_if_absent", SLOT, lost_and_cleaned)
    outcome = append(log, [add("a")])
    assert outcome.version == 1
    assert table.paths() == ["a", "b"]


def test_a_slot_that_was_cleaned_and_refilled_by_another_sleeper_does_not_double_the_commit(table):
    log = table.process()

    def lost_cleaned_and_refilled(call):
        call()
        append(table.process(), [add("b")])
        clean(table, checkpoint(table))
        info = CommitInfo(inCommitTimestamp=9, operation="SLEEPER", token="f" * 32, tableId=METADATA.id)
        table.process().env.store.put_if_absent(version_key(1), encode_version([info, add("z")], compress=True))
        return not_landed(call)

    log.env.store.play("put_if_absent", SLOT, lost_cleaned_and_refilled)
    assert append(log, [add("a")]).version == 1
    assert table.paths() == ["a", "b"]


def test_a_conflict_check_does_not_believe_a_slot_below_a_checkpoint(table):
    append(table.process(), [add("f1")])
    log = table.process()
    snapshot = log.snapshot()

    def overtaken(call):
        winner = table.process()
        Transaction(winner, winner.snapshot(), operation="DELETE").remove([_remove("f1")]).commit_or_raise()
        append(table.process(), [add("other")])
        upto = checkpoint(table)
        append(table.process(), [add("newer")])
        clean(table, upto)
        info = CommitInfo(inCommitTimestamp=9, operation="SLEEPER", token="f" * 32, tableId=METADATA.id)
        table.process().env.store.put_if_absent(version_key(2), encode_version([info], compress=True))
        return call()

    log.env.store.play("put_if_absent", SLOT, overtaken)
    tx = Transaction(log, snapshot, operation="UPDATE").read_files(["f1"]).remove([_remove("f1")]).add([add("f1b")])
    with pytest.raises(CommitConflict):
        tx.commit_or_raise()
    assert table.paths() == ["newer", "other"]


def test_a_token_list_that_ends_above_the_slot_gives_unknown(table):
    log = table.process()

    def stall(call):
        for name in ("b", "c", "d"):
            append(table.process(), [add(name)])
        clean(table, checkpoint(table, commit__tokenWindow=1))
        return call()

    log.env.store.play("put_if_absent", SLOT, stall)
    with pytest.raises(CommitStateUnknown, match="does not tell"):
        append(log, [add("a")])
    assert table.paths() == ["b", "c", "d"]


def test_a_checkpoint_that_cannot_be_read_gives_unknown(table):
    log = table.process()

    def stall(call):
        for name in ("b", "c"):
            append(table.process(), [add(name)])
        upto = checkpoint(table)
        clean(table, upto)
        log.env.store.play("get", r"checkpoint\.json$", lambda _call: b"not a checkpoint", times=9)
        return call()

    log.env.store.play("put_if_absent", SLOT, stall)
    with pytest.raises(CommitStateUnknown):
        append(log, [add("a")])


def test_a_process_that_died_after_the_put_finds_its_batch_when_it_is_run_again(table):
    log = table.process()

    class Death(BaseException):
        pass

    def die(call):
        call()
        raise Death

    log.env.store.play("put_if_absent", SLOT, die)
    with pytest.raises(Death):
        append(log, [add("a")], txn=("job", 7))
    again = append(table.process(), [add("a2")], txn=("job", 7))
    assert again.repeated
    assert again.version == 1
    assert table.paths() == ["a"]
    append(table.process(), [add("later")])
    assert append(table.process(), [add("a3")], txn=("job", 7)).version == 1
    assert append(table.process(), [add("a4")], txn=("job", 8)).version == 3


def test_a_batch_that_loses_against_itself_is_not_written_twice(table):
    log = table.process()
    log.env.store.play(
        "put_if_absent", SLOT, lambda call: (append(table.process(), [add("b")], txn=("job", 1)), call())[1]
    )
    outcome = append(log, [add("a")], txn=("job", 1))
    assert outcome.repeated
    assert outcome.version == 1
    assert table.paths() == ["b"]


@pytest.mark.parametrize("error", [StorePermissionDenied, StoreFull])
def test_a_put_that_the_store_refuses_for_good_leaves_the_table_as_it_was(table, error):
    log = table.process()

    def refuse(_call):
        raise error("no", key="k")

    log.env.store.play("put_if_absent", SLOT, refuse)
    with pytest.raises(error):
        append(log, [add("a")])
    assert table.process().latest_version() == 0
    assert append(log, [add("a")]).version == 1


def test_a_refusal_after_a_put_in_doubt_is_still_a_doubt(table):
    log = table.process()

    def refuse(_call):
        raise StorePermissionDenied("no", key="k")

    log.env.store.play("put_if_absent", SLOT, not_landed)
    log.env.store.play("put_if_absent", SLOT, refuse)
    with pytest.raises(CommitStateUnknown):
        append(log, [add("a")])


def test_a_lost_race_that_cannot_be_looked_into_is_a_doubt(table):
    """The slot holds somebody else's file; only the log can tell whether ours had been there before."""
    log = table.process()
    log.env.store.play("put_if_absent", SLOT, lambda call: (append(table.process(), [add("b")]), call())[1])
    log.env.store.play("get", version_key(2), unavailable, times=9)
    with pytest.raises(CommitStateUnknown):
        append(log, [add("a")])
    assert table.paths() == ["b"]


def test_one_put_per_attempt_and_no_listing_once_the_head_is_known(table):
    log = table.process()
    append(log, [add("a")])
    store = log.env.store
    store.calls.clear()
    append(log, [add("b")])
    assert store.count("put_if_absent", SLOT) == 1
    if store.is_local:
        assert store.count("list") == 0
    else:
        assert store.count("list") == 2
    assert len(store.calls) <= (13 if store.is_local else 8)


def test_a_version_that_only_its_checkpoint_knows_is_seen_by_a_writer_that_knew_less(table):
    """Its file was lost. Who opens the table reads the checkpoint: a commit into its slot would be shown to nobody."""
    log = table.process()
    append(log, [add("a")])
    other = table.process()
    version = append(other, [add("b")]).version
    write_checkpoint(other.env, other.snapshot().state)
    other.env.store.delete_many([version_key(version)])
    assert append(log, [add("c")]).version == version + 1
    assert table.paths() == ["a", "b", "c"]


def test_a_writer_that_others_have_overtaken_puts_nothing_where_they_are(table):
    log = table.process()
    append(log, [add("a")])
    other = table.process()
    for name in "bcd":
        append(other, [add(name)])
    store = log.env.store
    store.calls.clear()
    append(log, [add("e")])
    assert table.paths() == ["a", "b", "c", "d", "e"]
    assert store.count("put_if_absent", SLOT) == (1 if store.is_local else 2)


def test_a_commit_into_the_slot_of_a_version_that_was_lost_meanwhile_is_refused_and_taken_back(table):
    log = table.process()
    append(log, [add("a")])

    def lose(call):
        for name in ("b", "c"):
            append(table.process(), [add(name)])
        log.env.store.delete_many([version_key(2)])
        return call()

    log.env.store.play("put_if_absent", SLOT, lose)
    with pytest.raises(LogGap, match="version 2 is missing"):
        append(log, [add("d")])
    assert not log.env.store.exists(version_key(2))


def test_a_commit_that_others_stand_on_before_it_is_looked_at_needs_no_listing_of_local_files(table):
    log = table.process()
    append(log, [add("a")])

    def follow(call):
        answer = call()
        append(table.process(), [add("c")])
        return answer

    store = log.env.store
    store.play("put_if_absent", SLOT, follow)
    store.calls.clear()
    assert append(log, [add("b")]).version == 2
    assert table.paths() == ["a", "b", "c"]
    assert not (store.is_local and store.count("list"))


def test_appends_never_give_up_unless_they_are_told_to(table):
    def overtake(call):
        append(table.process(), [add(uuid.uuid4().hex)])
        return call()

    log = table.process()
    log.env.store.play("put_if_absent", SLOT, overtake, times=25)
    assert append(log, [add("a")]).version == 26
    bounded = table.process(transaction__retry__maxAttempts=3)
    bounded.env.store.play("put_if_absent", SLOT, overtake, times=25)
    message = r"Failed to write transaction log version 29 - file already exists: .*transaction\.retry\.maxAttempts"
    with pytest.raises(CommitConflict, match=message) as caught:
        append(bounded, [add("b")])
    assert caught.value.attempts >= 3
    assert "b" not in table.paths()


def test_a_table_may_say_how_often_its_commits_try(table):
    log = table.process()
    bound = {"transaction.retry.maxAttempts": "3"}
    changed = Metadata(METADATA.id, SCHEMA, configuration=bound, createdTime=METADATA.createdTime)
    Transaction(log, log.snapshot(), operation="SET").set_metadata(changed).commit_or_raise()

    def overtake(call):
        append(table.process(), [add(uuid.uuid4().hex)])
        return call()

    log.env.store.play("put_if_absent", SLOT, overtake, times=99)
    with pytest.raises(CommitConflict, match=r"transaction\.retry\.maxAttempts"):
        append(log, [add("b")])
    free = table.process(transaction__retry__maxAttempts=20)
    free.env.store.play("put_if_absent", SLOT, overtake, times=10)
    append(free, [add("c")])
    assert {"b", "c"} & set(table.paths()) == {"c"}


def test_other_commits_give_up_after_ten_attempts(table):
    log = table.process()
    log.env.store.play(
        "put_if_absent", SLOT, lambda call: (append(table.process(), [add(uuid.uuid4().hex)]), call())[1], times=99
    )
    snapshot = log.snapshot()
    changed = Metadata(METADATA.id, SCHEMA, configuration={"k": "v"}, createdTime=METADATA.createdTime)
    with pytest.raises(CommitConflict, match="file already exists"):
        Transaction(log, snapshot, operation="SET").set_metadata(changed).commit_or_raise()
    assert log.env.store.count("put_if_absent", SLOT) == 10


def test_waits_after_a_lost_race_are_short_and_after_a_fault_longer(table):
    log = table.process()
    log.env.store.play("put_if_absent", SLOT, lambda call: (append(table.process(), [add("b")]), call())[1])
    append(log, [add("a")])
    assert max(table.clock.slept) <= 0.1
    table.clock.slept.clear()
    log.env.store.play("put_if_absent", SLOT, not_landed, times=9)
    append(log, [add("c")])
    assert len(table.clock.slept) == 9
    assert max(table.clock.slept) <= 5.0


def test_in_commit_time_only_grows_even_if_the_clock_steps_back(table):
    log = table.process()
    append(log, [add("a")])
    table.clock.ms -= 3_600_000
    append(log, [add("b")])
    append(table.process(), [add("c")])
    reader = table.process()
    times = [reader.read_version(v).commit_info.inCommitTimestamp for v in range(4)]
    assert times == sorted(set(times))
    table.clock.ms += 7_200_000
    assert append(log, [add("d")]).timestamp_ms == table.clock.ms


@pytest.mark.parametrize("skew", [300_001, -300_001])
def test_a_clock_that_is_too_far_off_the_stores_refuses_to_write(table, skew):
    log = table.process()
    log.env.store.skew_ms = skew
    with pytest.raises(ClockSkew) as caught:
        append(log, [add("a")])
    assert caught.value.skew_ms == skew
    assert log.env.store.count("put_if_absent") == 0
    log.env.store.skew_ms = 299_000
    assert append(log, [add("a")]).version == 1


def test_a_table_that_was_dropped_and_made_anew_is_not_written_to_by_old_writers(table):
    log = table.process()
    append(log, [add("a")])
    store = table.process().env.store
    store.delete_many([meta.key for meta in store.list_from(LOG_DIR)])
    with pytest.raises(TableNotFound, match="was deleted"):
        append(log, [add("b")])
    assert list(store.list_from(LOG_DIR)) == []
    create_table(table.process(), Metadata(id="another", schemaString=SCHEMA, createdTime=2))
    for name in ("x", "y", "z"):
        append(table.process(), [add(name)])
    old = table.process()
    append(old, [add("w")])
    with pytest.raises(TableReplaced):
        Transaction(old, operation="WRITE", table_id=METADATA.id).add([add("c")]).commit_or_raise()
    assert table.paths() == ["w", "x", "y", "z"]


def test_a_writer_with_an_old_head_notices_that_the_slot_below_belongs_to_another_table(table):
    log = table.process()
    append(log, [add("a")])
    store = table.process().env.store
    store.delete_many([meta.key for meta in store.list_from(LOG_DIR)])
    create_table(table.process(), Metadata(id="another", schemaString=SCHEMA, createdTime=2))
    append(table.process(), [add("x")])
    with pytest.raises(TableReplaced):
        append(log, [add("b")])
    assert table.paths() == ["x"]
    assert table.process().latest_version() == 1


def test_nothing_is_committed_on_top_of_a_file_that_a_writer_of_a_dropped_table_put_late(table):
    log = table.process()
    append(log, [add("a")])
    store = table.process().env.store
    info = CommitInfo(inCommitTimestamp=9, operation="SLEEPER", token="f" * 32, tableId="dropped")
    store.put_if_absent(version_key(2), encode_version([info, add("z")], compress=True))
    with pytest.raises(TableReplaced):
        append(log, [add("b")])
    assert not store.exists(version_key(3))
    # Its writer finds that it followed nothing, and takes it back.
    store.delete_many([version_key(2)])
    assert append(log, [add("b")]).version == 2
    assert table.paths() == ["a", "b"]


def test_a_winner_of_another_table_stops_a_commit_prepared_for_the_old_one(table):
    append(table.process(), [add("a")])
    snapshot = table.process().snapshot()
    store = table.process().env.store
    store.delete_many([meta.key for meta in store.list_from(LOG_DIR)])
    create_table(table.process(), Metadata(id="another", schemaString=SCHEMA, createdTime=2))
    for name in ("x", "y", "z"):
        append(table.process(), [add(name)])
    with pytest.raises(TableReplaced):
        Transaction(table.process(), snapshot, operation="WRITE").add([add("b")]).commit_or_raise()
    assert table.paths() == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("protocol", "error"),
    [
        (Protocol(5, 4), ProtocolUnsupported),
        (Protocol(4, 5, ["parquetSplit"], ["parquetSplit"]), ProtocolUnsupported),
        (Protocol(4, 4, ["parquetSplit"], ["parquetSplit", "timeMachine"]), ProtocolUnsupported),
        (Protocol(4, 4, ["avroState"], ["avroState"]), NotSupported),
    ],
)
def test_a_table_that_needs_more_is_refused_before_anything_is_written(place, protocol, error):
    log = place.process()
    info = CommitInfo(inCommitTimestamp=1, operation="CREATE", token="t" * 32, tableId=METADATA.id)
    log.env.store.put_if_absent(version_key(0), encode_version([info, protocol, METADATA], compress=True))
    log.env.store.calls.clear()
    with pytest.raises(error):
        append(log, [add("a")])
    with pytest.raises(error):
        overwrite(log, [add("a")])
    assert log.env.store.count("put_if_absent") == log.env.store.count("put") == 0


def test_a_protocol_that_rises_while_a_commit_waits_stops_it(table):
    log = table.process()

    def upgrade(call):
        winner = table.process()
        raised = Protocol(4, 4, ["parquetSplit", "typeWidening"], ["parquetSplit", "typeWidening"])
        Transaction(winner, operation="UPGRADE").set_protocol(raised).commit_or_raise()
        return call()

    log.env.store.play("put_if_absent", SLOT, upgrade)
    with pytest.raises(CommitConflict, match="protocol"):
        append(log, [add("a")])


@pytest.mark.parametrize("data", [b"", b"garbage\n", b'{"commitInfo":{"token":"x"}'])
def test_a_writer_does_not_commit_past_a_broken_version_file(table, data):
    log = table.process()
    append(log, [add("a")])
    table.process().env.store.put_if_absent(version_key(2), data)
    with pytest.raises((LogCorrupt, CommitStateUnknown)):
        append(log, [add("b")])
    with pytest.raises(LogCorrupt):
        append(table.process(), [add("b")])
    assert not table.process().env.store.exists(version_key(3))


def test_what_follows_a_commit_cannot_fail_it(table):
    log = table.process(checkpoint__interval=1)
    log.env.store.play("put_if_absent", r"\.crc$", unavailable, times=99)
    log.env.store.play("put", "state|manifest|checkpoint", unavailable, times=99)
    log.env.store.play("put_if_absent", "state|manifest|checkpoint", unavailable, times=99)
    assert append(log, [add("a")]).version == 1
    assert append(log, [add("b")]).version == 2
    assert table.paths() == ["a", "b"]


def test_checkpoints_are_written_when_they_are_due(table):
    log = table.process(checkpoint__interval=4)
    for i in range(9):
        append(log, [add(f"f{i}")])
    assert [state.version for state in table.process().states()] == [7, 3]


def test_the_check_file_carries_totals_that_agree_with_replay(table):
    from indextables.log.wire.crcfile import parse_crc, totals_of

    log = table.process()
    append(log, [add("a", size=7), add("b", size=8)])
    append(table.process(), [add("c", size=9)])
    overwrite(log, [add("d", size=10)])
    append(log, [add("e", size=11)])
    reader = table.process()
    for version in range(1, 5):
        crc = parse_crc(reader.env.store.get(crc_key(version)))
        assert crc.token == reader.read_version(version).token
        assert crc.totals() == totals_of(reader.snapshot(version).state)


def test_a_commit_says_who_did_what(table):
    log = table.process()
    tx = Transaction(log, operation="WRITE", parameters={"mode": "Append"}, user_metadata="by hand")
    outcome = tx.add([add("a")]).commit_or_raise()
    info = table.process().read_version(1).commit_info
    assert info.operation == "WRITE"
    assert info.operationParameters == {"mode": "Append"}
    assert info.userMetadata == "by hand"
    assert info.tableId == METADATA.id
    assert info.token == outcome.token
    assert info.isBlindAppend is True
    assert info.isolationLevel == "WriteSerializable"
    assert info.engineInfo.startswith("indextables/")


def test_version_0_holds_protocol_and_metadata_and_nothing_else(place):
    created = create_table(place.process(transaction__compression__enabled="false"), METADATA)
    assert created.is_new
    lines = place.process().env.store.get(version_key(0)).splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["commitInfo", "protocol", "metaData"]


def test_a_version_is_never_rewritten(table):
    log = table.process()
    before = log.env.store.get(version_key(0))
    assert create_table(table.process(), METADATA).is_new is False
    assert log.env.store.get(version_key(0)) == before


def test_a_transaction_is_committed_once(table):
    tx = Transaction(table.process(), operation="WRITE").add([add("a")])
    tx.commit_or_raise()
    with pytest.raises(InvalidArgument):
        tx.commit()


def _remove(path: str):
    from tests.log.commits import remove

    return remove(path)


def test_a_writer_does_not_commit_past_a_base_that_is_missing(table):
    log = table.process()
    for name in "abc":
        append(log, [add(name)])
    store = table.process().env.store
    store.delete_many([version_key(3)])
    with pytest.raises(LogGap) as caught:
        append(log, [add("d")])
    assert caught.value.version == 3
    assert not store.exists(version_key(3))
    assert not store.exists(version_key(4))


@pytest.mark.parametrize("cut", [0, 30])
def test_a_writer_does_not_commit_past_a_base_that_is_cut_short(table, cut):
    log = table.process()
    for name in "abc":
        append(log, [add(name)])
    store = table.process().env.store
    store.put(version_key(3), store.get(version_key(3))[:cut])
    with pytest.raises(LogCorrupt) as caught:
        append(log, [add("d")])
    assert caught.value.version == 3
    assert not store.exists(version_key(4))


def test_a_writer_asks_again_after_the_file_of_its_base_was_restored(table):
    log = table.process()
    append(log, [add("a")])
    store = table.process().env.store
    data = store.get(version_key(1))
    store.delete_many([version_key(1)])
    with pytest.raises(LogGap):
        append(log, [add("b")])
    store.put(version_key(1), data)
    assert append(log, [add("b")]).version == 2
    assert table.paths() == ["a", "b"]


def test_a_local_writer_sees_a_missing_base_before_it_puts_anything(tmp_path):
    place = Place(str(tmp_path / "table"))
    create_table(place.process(), METADATA)
    log = place.process()
    append(log, [add("a")])
    place.process().env.store.delete_many([version_key(1)])
    puts = log.env.store.count("put_if_absent")
    with pytest.raises(LogGap):
        append(log, [add("b")])
    assert log.env.store.count("put_if_absent") == puts


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_writer_that_read_the_log_before_the_damage_stops_when_its_checkpoint_is_due(place, damage):
    log = place.process(transaction__cache__enabled=False, checkpoint__interval=5)
    create_table(log, METADATA)
    for name in "ab":
        append(log, [add(name)])
    store = place.process().env.store
    if damage == "missing":
        store.delete_many([version_key(1)])
    else:
        store.put(version_key(1), store.get(version_key(1))[:30])
    for name in "cd":
        append(log, [add(name)])
    with pytest.raises((LogGap, LogCorrupt)) as caught:
        append(log, [add("e")])
    assert caught.value.version == 1
    assert store.exists(version_key(4))
    assert not store.exists(version_key(5))
