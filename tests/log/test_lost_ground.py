"""Nobody commits on ground that is not what it was: another table, a lost version file, a file not taken back."""

from __future__ import annotations

import uuid

import msgspec
import pytest
from tests.log.commits import METADATA, SCHEMA, add
from tests.log.scripted import SLOT
from tests.log.test_commit import Place, checkpoint, clean, place
from tests.world.commits import append

from indextables.errors import CommitStateUnknown, LogCorrupt, LogGap, TableReplaced
from indextables.log.commit.create import create_table
from indextables.log.commit.resolve import resolve_token
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import CommitInfo, Metadata
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import LOG_DIR, crc_key, version_key

__all__ = ["place"]

ANOTHER = Metadata(id="another", schemaString=SCHEMA, createdTime=2)


@pytest.fixture
def table(place) -> Place:
    create_table(place.process(), METADATA)
    return place


def made_anew(place: Place, versions: int, *, checkpointed: bool, left: bool = False) -> None:
    """Another table in its place; `left`: what checkpointed the first one was asleep, and puts its file late."""
    store = place.process().env.store
    keys = [meta.key for meta in store.list_from(LOG_DIR)]
    late = {key: store.get(key) for key in keys if left and "checkpoint." in key}
    store.delete_many(keys)
    create_table(place.process(), ANOTHER)
    for number in range(versions):
        append(place.process(), [add(f"new-{number}")])
    if checkpointed:
        checkpoint(place)
    for key, data in late.items():
        store.put(key, data)


@pytest.mark.slow
@pytest.mark.parametrize("checkpointed", [True, False])
@pytest.mark.parametrize("versions", [1, 2, 3, 4])
@pytest.mark.parametrize("how", ["remembered", "loaded", "snapshot"])
def test_a_writer_of_a_dropped_table_writes_nothing_into_the_one_that_took_its_place(
    table, how, versions, checkpointed
):
    log = table.process()
    for name in "ab":
        append(log, [add(name)])
    if how == "remembered":
        tx = Transaction(log, operation="WRITE").add([add("late")])
        made_anew(table, versions, checkpointed=checkpointed)
    else:
        log = table.process()
        snapshot = log.snapshot() if how == "snapshot" else None
        tx = Transaction(log, snapshot, operation="WRITE", table_id=METADATA.id).add([add("late")])
        asleep = lambda call: (made_anew(table, versions, checkpointed=checkpointed), call())[1]  # noqa: E731
        log.env.store.play("put_if_absent", SLOT, asleep)
    with pytest.raises(TableReplaced):
        tx.commit_or_raise()
    assert table.paths() == [f"new-{number}" for number in range(versions)]
    assert append(table.process(), [add("next")]).version == versions + 1


@pytest.mark.slow
@pytest.mark.parametrize("versions", [1, 2, 3])
@pytest.mark.parametrize("how", ["remembered", "loaded", "snapshot", "snapshot before the put"])
def test_a_checkpoint_that_was_left_carries_no_commit_into_the_table_that_took_its_place(table, how, versions):
    log = table.process()
    for name in "ab":
        append(log, [add(name)])
    checkpoint(table)
    if how != "remembered":
        log = table.process()
    snapshot = log.snapshot() if how.startswith("snapshot") else None
    if snapshot is not None:
        _ = snapshot.state
    tx = Transaction(log, snapshot, operation="WRITE", table_id=METADATA.id).add([add("late")])
    if how in {"remembered", "snapshot before the put"}:
        made_anew(table, versions, checkpointed=False, left=True)
    else:
        asleep = lambda call: (made_anew(table, versions, checkpointed=False, left=True), call())[1]  # noqa: E731
        log.env.store.play("put_if_absent", SLOT, asleep)
    with pytest.raises(TableReplaced):
        tx.commit_or_raise()
    assert table.paths() == [f"new-{number}" for number in range(versions)]
    assert append(table.process(), [add("next")]).version == versions + 1


def leave_over(place: Place, version: int) -> None:
    """Put a checkpoint of a table that was dropped here, as its sleeping checkpointer does."""
    dropped = Place(f"memory://{uuid.uuid4().hex}/dropped")
    create_table(dropped.process(), ANOTHER)
    for number in range(version):
        append(dropped.process(), [add(f"old-{number}")])
    checkpoint(dropped)
    source, target = dropped.process().env.store, place.process().env.store
    for meta in source.list_from(LOG_DIR):
        if "checkpoint." in meta.key:
            target.put(meta.key, source.get(meta.key))


@pytest.mark.slow
@pytest.mark.parametrize("lost", [[3], [3, 4]], ids=["one file", "two files"])
@pytest.mark.parametrize("older", [False, True], ids=["", "files of older writers"])
@pytest.mark.parametrize("stale", ["remembered", "snapshot"])
@pytest.mark.parametrize("left", [None, 3, 7], ids=["", "a state left over at it", "a state left over above"])
def test_nobody_commits_into_a_slot_whose_file_was_lost(table, lost, older, stale, left):
    log = table.process()
    for name in "ab":
        append(log, [add(name)])
    snapshot = None
    if stale == "snapshot":
        log = table.process()
        snapshot = log.snapshot()
    for name in "cde":
        append(table.process(), [add(name)])
    store = table.process().env.store
    if older:
        for version in (4, 5):
            without_links(table, version)
    kept = {version: store.get(version_key(version)) for version in lost}
    store.delete_many([version_key(version) for version in lost])
    if left is not None:
        leave_over(table, left)
    table.clock.ms += 60_000
    with pytest.raises(LogGap) as caught:
        Transaction(log, snapshot, operation="WRITE").add([add("z")]).commit_or_raise()
    assert caught.value.version == 3
    assert not store.exists(version_key(3))
    for version, data in kept.items():
        store.put(version_key(version), data)
    assert table.paths() == ["a", "b", "c", "d", "e"]
    assert append(log, [add("z")]).version == 6


def strangers_file(place: Place, version: int) -> None:
    """Put a version of a table that was dropped here, as its writer does that has been asleep."""
    info = CommitInfo(inCommitTimestamp=9, operation="LATE", token="f" * 32, tableId=ANOTHER.id, version=version)
    place.process().env.store.put(version_key(version), encode_version([info, add("late")], compress=True))


def test_a_commit_below_the_file_of_a_dropped_tables_writer_stands():
    """It shows no lost version: a commit that were taken back for it could be one that others have gone on from."""
    table = Place(f"memory://{uuid.uuid4().hex}/t")
    create_table(table.process(), METADATA)
    log = table.process()
    for name in "ab":
        append(log, [add(name)])
    strangers_file(table, 4)
    assert append(log, [add("c")]).version == 3
    table.process().env.store.delete_many([version_key(4)])
    assert table.paths() == ["a", "b", "c"]


def test_a_writer_that_lists_one_table_and_reads_the_next_one_takes_nothing_back():
    """It has listed the log when the table is made anew, and reads as many versions of that one by their names."""
    table = Place(f"memory://{uuid.uuid4().hex}/t")
    create_table(table.process(), METADATA)
    for name in "ab":
        append(table.process(), [add(name)])
    log = table.process()

    def anew(call):
        made_anew(table, 2, checkpointed=False)
        return call()

    log.env.store.play("head", version_key(3), anew)
    assert append(log, [add("z")]).version == 3
    assert table.paths() == ["new-0", "new-1", "z"]


def test_the_file_of_a_dropped_tables_writer_hides_no_gap():
    table = Place(f"memory://{uuid.uuid4().hex}/t")
    create_table(table.process(), METADATA)
    log = table.process()
    for name in "ab":
        append(log, [add(name)])
    for name in "cde":
        append(table.process(), [add(name)])
    store = table.process().env.store
    store.delete_many([version_key(3), version_key(4)])
    strangers_file(table, 4)
    with pytest.raises(LogGap):
        append(log, [add("z")])
    assert not store.exists(version_key(3))


def test_a_version_that_is_lost_but_for_its_checkpoint_is_not_committed_anew():
    """On object stores: of local files the one below vouches for the slot, and no checkpoint is looked for."""
    table = Place(f"memory://{uuid.uuid4().hex}/t")
    create_table(table.process(), METADATA)
    for name in "ab":
        append(table.process(), [add(name)])
    log = table.process()
    snapshot = log.snapshot()
    append(table.process(), [add("c")])
    checkpoint(table)
    table.process().env.store.delete_many([version_key(3)])
    Transaction(log, snapshot, operation="WRITE").add([add("z")]).commit()
    assert "c" in table.paths()


def test_a_checkpoint_of_a_copy_of_the_table_takes_no_slot_from_its_writers():
    table, copied = (Place(f"memory://{uuid.uuid4().hex}/{name}") for name in ("t", "copy"))
    create_table(table.process(), METADATA)
    for name in "ab":
        append(table.process(), [add(name)])
    store, other = table.process().env.store, copied.process().env.store
    for meta in store.list_from(LOG_DIR):
        other.put(meta.key, store.get(meta.key))
    append(table.process(), [add("x")])
    writer = table.process()
    snapshot = writer.snapshot()
    for name in "cd":
        append(copied.process(), [add(name)])
    checkpoint(copied)
    for meta in other.list_from(LOG_DIR):
        if "checkpoint." in meta.key:
            store.put(meta.key, other.get(meta.key))
    assert Transaction(writer, snapshot, operation="WRITE").add([add("y")]).commit_or_raise().version == 4
    assert table.paths() == ["a", "b", "x", "y"]


@pytest.mark.parametrize("left", [None, 5, 9])
def test_a_version_lost_below_the_head_is_a_gap_whatever_a_dropped_table_left(table, left):
    for name in "ab":
        append(table.process(), [add(name)])
    log = table.process()
    assert log.latest_version() == 2
    for name in "cdef":
        append(table.process(), [add(name)])
    table.process().env.store.delete_many([version_key(4)])
    if left is not None:
        leave_over(table, left)
    with pytest.raises(LogGap) as caught:
        log.check_unbroken(6, METADATA.id)
    assert caught.value.version == 4


def without_links(place: Place, version: int) -> None:
    """As a writer wrote it that knew nothing of them."""
    store = place.process().env.store
    content = place.process().read_version(version)
    info = msgspec.structs.replace(content.commit_info, version=None, previous=None)
    store.put(version_key(version), encode_version([info], adds=content.adds, compress=True))
    store.delete_many([crc_key(version)])


def test_a_commit_that_the_next_one_follows_at_once_stands(table):
    log = table.process()
    append(log, [add("a")])

    def followed(call):
        answer = call()
        append(table.process(), [add("c")])
        return answer

    log.env.store.play("put_if_absent", SLOT, followed)
    assert append(log, [add("b")]).version == 2
    assert table.paths() == ["a", "b", "c"]


def test_a_commit_that_others_went_on_from_while_it_was_in_doubt_stands():
    """A file far above makes it look like a commit into a gap; then that file goes, and others commit on top of it."""
    table = Place(f"memory://{uuid.uuid4().hex}/table")
    create_table(table.process(), METADATA)
    log = table.process()
    append(log, [add("a")])
    store = table.process().env.store
    store.put(version_key(7), store.get(version_key(1)))

    def not_yet_followed(call):
        try:
            return call()
        finally:
            store.delete_many([version_key(7)])
            append(table.process(), [add("c")])

    log.env.store.play("get", version_key(3), not_yet_followed)
    assert append(log, [add("b")]).version == 2
    assert table.paths() == ["a", "b", "c"]


def test_a_writer_does_not_go_on_from_what_took_the_place_of_the_winner_that_it_read(table):
    """A backup is put back between the read of the winner and the put on top of it, and others commit another one."""
    log = table.process()
    append(log, [add("a")])
    append(table.process(), [add("lost")])
    store = table.process().env.store

    def restored(call):
        data = call()
        store.delete_many([version_key(2), crc_key(2)])
        append(table.process(), [add("b")])
        return data

    log.env.store.play("get", version_key(2), restored)
    with pytest.raises(LogCorrupt, match="not the one that this commit was to follow"):
        append(log, [add("c")])
    assert table.paths() == ["a", "b"]
    assert append(table.process(), [add("d")]).version == 3
    assert table.paths() == ["a", "b", "d"]


@pytest.mark.parametrize("gone", ["base", "follower"])
def test_a_commit_that_cleanup_overtakes_while_it_is_checked_stands(table, gone):
    """What a listing showed may be gone when it is read, because a checkpoint covers it by now."""
    append(table.process(), [add("a")])
    log = table.process()

    def overtaken(call):
        # Cleanup never takes the file of the newest version.
        append(table.process(), [add("z")])
        clean(table, checkpoint(table))
        return call()

    def then(call):
        answer = call()
        if gone == "follower":
            append(table.process(), [add("c")])
        # The base of a local commit is known by its file, which is looked at and not read.
        verb = "head" if gone == "base" and log.env.store.is_local else "get"
        log.env.store.play(verb, version_key(1 if gone == "base" else 3), overtaken)
        return answer

    log.env.store.play("put_if_absent", SLOT, then)
    # A writer that starts from a snapshot does not know the file of its version before it has looked.
    snapshot = log.snapshot() if gone == "base" else None
    assert Transaction(log, snapshot, operation="WRITE").add([add("b")]).commit_or_raise().version == 2
    assert table.paths() == ["a", "b", *(["c"] if gone == "follower" else []), "z"]


def test_a_log_that_is_read_up_to_its_gap_is_not_written(table):
    log = table.process()
    for name in "abcd":
        append(log, [add(name)])
    store = table.process().env.store
    store.delete_many([version_key(2), version_key(3)])
    log = table.process(log__stopAtGap=True)
    assert log.snapshot().files["path"].to_pylist() == ["a"]
    for snapshot in (None, log.snapshot()):
        with pytest.raises(LogGap):
            Transaction(log, snapshot, operation="WRITE").add([add("z")]).commit_or_raise()
    assert not store.exists(version_key(2))


@pytest.mark.parametrize("answer", ["named as failed", "error"])
def test_a_file_that_may_not_have_been_taken_back_is_a_doubt(answer):
    import uuid

    from indextables.errors import StoreUnavailable

    table = Place(f"memory://{uuid.uuid4().hex}/table")
    create_table(table.process(), METADATA)
    log = table.process()
    for name in "abc":
        append(log, [add(name)])
    store = table.process().env.store
    kept = store.get(version_key(3))
    store.delete_many([version_key(3)])

    def no_answer(_call):
        if answer == "error":
            raise StoreUnavailable("no answer", key=version_key(4))
        return {version_key(4): "no answer"}

    log.env.store.play("delete", SLOT, no_answer, times=9)
    with pytest.raises(CommitStateUnknown) as caught:
        append(log, [add("x")])
    store.put(version_key(3), kept)
    assert resolve_token(table.process(), caught.value.token, caught.value.version) == 4
    assert table.paths() == ["a", "b", "c", "x"]


@pytest.mark.parametrize("compressed", [True, False])
def test_a_version_file_that_holds_another_versions_bytes_is_an_error_to_every_reader(table, compressed):
    log = table.process(transaction__compression__enabled=compressed)
    for name in "abc":
        append(log, [add(name)])
    store = table.process().env.store
    store.put(version_key(2), store.get(version_key(1)))
    with pytest.raises(LogCorrupt, match="bytes of version 1"):
        _ = table.process().snapshot().files
    with pytest.raises(LogCorrupt):
        table.process().read_version(2)
    with pytest.raises((LogCorrupt, CommitStateUnknown)):
        Transaction(table.process(), operation="WRITE").add([add("d")]).set_txn("app", 1).commit_or_raise()
