"""A writer or reader that a checkpoint and a real cleanup overtake in the midst of its work."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.log.commits import METADATA, add
from tests.log.scripted import SLOT
from tests.log.test_commit import NOW_MS, Place, checkpoint, place
from tests.world.clock import Clock
from tests.world.commits import append

from indextables.errors import CommitStateUnknown
from indextables.log.care.cleanup import clean_up
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit.create import create_table
from indextables.log.commit.resolve import resolve_token
from indextables.log.wire.actions import CommitInfo, Txn
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import LOG_DIR, crc_key, parse_key, version_key
from indextables.storage.store import ObjectMeta

__all__ = ["place"]


@pytest.fixture
def table(place) -> Place:
    create_table(place.process(), METADATA)
    return place


def clean(table: Place) -> int:
    """A real cleanup that keeps nothing but what it has to keep; where it cut."""
    env = table.process(logRetention__duration=0, state__retention__hours=0).env
    cut = clean_up(msgspec.structs.replace(env, ambient=Clock(NOW_MS + 10**12))).cut
    assert cut is not None
    return cut


def slots(table: Place) -> list[int]:
    listed = table.process().env.store.list_from(LOG_DIR)
    return [file.version for meta in listed if (file := parse_key(meta.key)) and file.kind == "version"]


def test_a_writer_that_lost_does_not_fill_a_slot_that_was_cleaned_while_it_read_the_winners(table):
    writer = table.process()
    append(writer, [add("a")])
    for name in ("b", "c", "d"):
        append(table.process(), [add(name)])

    def overtaken(call: Callable[[], Any]) -> Any:
        checkpoint(table)
        assert clean(table) == 4
        return call()

    # Slot 2 was read in time and holds what was committed, but what followed it can only be read from the checkpoint.
    writer.env.store.play("get", version_key(3), overtaken)
    assert append(writer, [add("e")]).version == 5
    assert table.paths() == ["a", "b", "c", "d", "e"]
    assert slots(table) == [4, 5]
    assert writer.env.store.count("put_if_absent", version_key(3)) == 0


def test_a_commit_whose_follower_is_cleaned_up_before_it_can_be_asked_stands(table):
    writer = table.process()

    def followed(call: Callable[[], Any]) -> Any:
        answer = call()
        append(table.process(), [add("b")])
        return answer

    def overtaken(call: Callable[[], Any]) -> Any:
        append(table.process(), [add("c")])
        checkpoint(table)
        assert clean(table) == 3
        return call()

    writer.env.store.play("put_if_absent", SLOT, followed)
    writer.env.store.play("get", version_key(2), overtaken)
    assert append(writer, [add("a")]).version == 1
    assert table.paths() == ["a", "b", "c"]
    assert slots(table) == [3]


def test_a_batch_that_somebody_else_committed_is_not_repeated_although_its_version_is_gone(table):
    writer = table.process()
    append(writer, [add("first")])

    def overtaken(call: Callable[[], Any]) -> Any:
        append(table.process(), [add("theirs")], txn=("job", 1))
        append(table.process(), [add("b")])
        checkpoint(table)
        clean(table)
        return call()

    writer.env.store.play("put_if_absent", SLOT, overtaken)
    assert append(writer, [add("ours")], txn=("job", 1)).repeated
    assert table.paths() == ["b", "first", "theirs"]


def test_a_slot_whose_own_version_is_the_cut_belongs_to_who_had_it(table):
    append(table.process(), [add("first")])
    writer = table.process()

    def overtaken(call: Callable[[], Any]) -> Any:
        append(table.process(), [add("theirs")])
        assert checkpoint(table) == 2
        append(table.process(), [add("b")])
        table.process().env.store.delete_many([version_key(version) for version in range(3)])
        return call()

    writer.env.store.play("put_if_absent", SLOT, overtaken)
    assert append(writer, [add("ours")]).version == 4
    assert table.paths() == ["b", "first", "ours", "theirs"]


def test_a_winner_below_a_checkpoint_is_believed_only_if_that_lists_it(table):
    """A sleeper has put its file into the slot of a winner that was cleaned up: what it says never happened."""
    append(table.process(), [add("first")])
    writer = table.process()

    def overtaken(call: Callable[[], Any]) -> Any:
        append(table.process(), [add("theirs")])
        append(table.process(), [add("b")])
        assert checkpoint(table) == 3
        store = table.process().env.store
        store.delete_many([version_key(version) for version in range(3)])
        info = CommitInfo(inCommitTimestamp=1, operation="SLEEPER", token="f" * 32, tableId=METADATA.id, version=2)
        store.put_if_absent(version_key(2), encode_version([info, Txn("job", 1), add("z")], compress=True))
        return call()

    writer.env.store.play("put_if_absent", SLOT, overtaken)
    outcome = append(writer, [add("ours")], txn=("job", 1))
    assert (outcome.version, outcome.repeated) == (4, False)
    assert table.paths() == ["b", "first", "ours", "theirs"]


def test_a_writer_does_not_start_from_what_a_sleeper_left_in_the_newest_slot(table):
    """Other systems delete the newest version's file too, once a checkpoint holds it."""
    truth = [append(table.process(), [add(name)]) for name in ("a", "b", "c")][-1]
    assert checkpoint(table) == 3
    store = table.process().env.store
    store.delete_many([version_key(version) for version in range(4)])
    ahead = table.clock.now_ms() + 10**9
    info = CommitInfo(inCommitTimestamp=ahead, operation="SLEEPER", token="f" * 32, tableId=METADATA.id, version=3)
    store.put_if_absent(version_key(3), encode_version([info, add("z")], compress=True))
    assert append(table.process(), [add("d")]).version == 4
    told = table.process().read_version(4).commit_info
    assert told is not None
    assert told.previous is not None
    assert told.previous.token == truth.token
    assert told.inCommitTimestamp is not None
    assert told.inCommitTimestamp < ahead
    assert table.paths() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("held", [True, False], ids=["committed", "lost"])
def test_what_became_of_a_commit_is_unknown_where_no_list_of_tokens_reaches_down_to_it(table, held):
    log = table.process()
    outcome = append(log, [add("a")])
    for name in ("b", "c"):
        append(log, [add(name)])
    checkpoint(table, commit__tokenWindow=2)
    clean(table)
    token = outcome.token if held else "f" * 32
    with pytest.raises(CommitStateUnknown, match="no longer tells"):
        resolve_token(table.process(), token, 1)
    assert resolve_token(table.process(), token, 2) is None


@pytest.mark.parametrize("form", ["json", "parquet", "avro"])
@pytest.mark.parametrize("warm", [True, False], ids=["known before", "just opened"])
def test_a_checkpoint_above_every_listed_version_is_the_newest_version(form, warm):
    """An object store whose listing shows the checkpoint, and of version files those of before."""
    table = Place(f"memory://{uuid.uuid4().hex}/table")
    create_table(table.process(), METADATA)
    append(table.process(), [add("a")])
    reader = table.process()
    if warm:
        assert reader.snapshot().version == 1
    before = [meta for meta in table.process().env.store.list_from(LOG_DIR) if re.search(SLOT, meta.key)]
    for name in ("b", "c", "d"):
        append(table.process(), [add(name)])
    log = table.process(state__format=form)
    write_checkpoint(log.env, log.snapshot().state)
    clean(table)

    def lagging(call: Callable[[], Iterator[ObjectMeta]]) -> Iterator[ObjectMeta]:
        found = [*before, *(meta for meta in call() if not re.search(SLOT, meta.key))]
        return iter(sorted(found, key=lambda meta: meta.key))

    reader.env.store.play("list", LOG_DIR, lagging, times=99)
    assert reader.latest_version() == 4
    assert sorted(reader.snapshot().files["path"].to_pylist()) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("drops", ["invalidate", "expiry"])
def test_a_history_that_was_forgotten_does_not_come_back_with_a_slow_look(tmp_path, drops):
    """What was read of the versions above, and searched, belongs to the log that was there then."""
    table = Place(str(tmp_path / "table"))
    create_table(table.process(), METADATA)
    log = table.process()
    append(table.process(), [add("a")])
    known = log.snapshot()
    store = table.process().env.store

    def overtaken(call: Callable[[], Any]) -> Any:
        found = call()
        append(table.process(), [add("lost")])
        seen = log.of_table(METADATA.id).snapshot()
        assert (seen.version, seen.history) == (2, known.history)
        store.delete_many([version_key(2), crc_key(2)])
        append(table.process(), [add("b")])
        if drops == "invalidate":
            log.invalidate()
        else:
            table.clock.advance(hours=24)
            assert log.remembered() is None
        return found

    log.env.store.play("head", version_key(1), overtaken)
    assert log.latest_version() in {1, 2}
    now = log.snapshot()
    assert now.version == 2
    assert now.history > known.history
    assert sorted(now.files["path"].to_pylist()) == ["a", "b"]
