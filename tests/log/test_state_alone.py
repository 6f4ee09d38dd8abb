"""A checkpoint without a version file at or above it: its table was dropped while it was written, or lost its files.

Cleanup leaves the file of the newest version, so that a log that lives always has one. Who wrote such a checkpoint may
be about to take it back: it is read, and nobody goes on from it.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable

import pytest
from tests.log.commits import METADATA, SCHEMA, add
from tests.log.scripted import SLOT
from tests.log.test_commit import Place, clean
from tests.world.commits import append

from indextables.errors import CheckpointInvalid, LogGap, TableNotFound
from indextables.log.care.repair import repair_log
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit.create import create_table
from indextables.log.commit.transaction import Transaction
from indextables.log.read import Log
from indextables.log.wire.actions import Metadata
from indextables.log.wire.names import LOG_DIR, parse_key, version_key
from indextables.table.maintenance.dropping import drop_table

ANOTHER = Metadata(id="another", schemaString=SCHEMA, createdTime=2)
FIRST = r"_transaction_log/(manifests/|state-v|\d{20}\.checkpoint\.)"
"""What a checkpointer puts first, in any format."""
STATE = r"_transaction_log/(state-v\d{20}/_manifest\.avro|\d{20}\.checkpoint\.)"


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path) -> Place:
    return Place(str(tmp_path / "table") if request.param == "local" else f"memory://{uuid.uuid4().hex}/table")


@pytest.fixture(params=["avro", "json", "parquet"])
def form(request) -> str:
    return str(request.param)


def keys_of(place: Place) -> list[str]:
    return [meta.key for meta in place.process().env.store.list_from(LOG_DIR)]


def versions_of(place: Place) -> list[str]:
    return [key for key in keys_of(place) if (file := parse_key(key)) is not None and file.kind == "version"]


def filled(place: Place, **options: object) -> Log:
    """A table at version 3, and the handle that wrote it."""
    log = place.process(**options)
    create_table(log, METADATA)
    for name in "abc":
        append(log, [add(name)])
    return log


def wiped(place: Place) -> None:
    """The log is gone, as after a drop."""
    place.process().env.store.delete_many(keys_of(place))


@pytest.fixture
def alone(place, form) -> Place:
    """Nothing but a checkpoint of version 3 is left of the table."""
    log = filled(place, state__format=form)
    write_checkpoint(log.env, log.snapshot().state)
    kept = [key for key in keys_of(place) if "state-v" in key or "manifests/" in key or ".checkpoint." in key]
    place.process().env.store.delete_many([key for key in keys_of(place) if key not in kept])
    return place


def appended(log: Log) -> object:
    return append(log, [add("z")])


def as_a_batch(log: Log) -> object:
    return Transaction(log, operation="WRITE").add([add("z")]).set_txn("app", 1).commit_or_raise()


def on_a_snapshot(log: Log) -> object:
    return Transaction(log, log.snapshot(), operation="WRITE").add([add("z")]).commit_or_raise()


def made(log: Log) -> object:
    return create_table(log, ANOTHER)


@pytest.mark.parametrize("how", [appended, as_a_batch, on_a_snapshot, made])
def test_nobody_goes_on_from_a_checkpoint_that_stands_alone(alone, how: Callable[[Log], object]):
    before = keys_of(alone)
    assert alone.paths() == ["a", "b", "c"]
    with pytest.raises(LogGap, match="stands alone") as caught:
        how(alone.process())
    assert caught.value.version == 3
    assert keys_of(alone) == before
    assert alone.paths() == ["a", "b", "c"]


@pytest.mark.parametrize("how", [appended, as_a_batch, on_a_snapshot, made])
def test_a_table_that_was_cleaned_up_is_gone_on_from(place, form, how: Callable[[Log], object]):
    log = filled(place, state__format=form)
    write_checkpoint(place.process(state__format="json").env, log.snapshot().state)
    append(log, [add("d")])
    clean(place, 3)
    assert versions_of(place) == [version_key(4)]
    how(place.process())
    assert place.paths()[:4] == ["a", "b", "c", "d"]


def test_what_stands_alone_goes_with_another_drop(alone):
    assert drop_table(alone.process()) > 0
    assert create_table(alone.process(), ANOTHER).is_new
    assert append(alone.process(), [add("new")]).version == 1
    assert alone.paths() == ["new"]


def test_what_stands_alone_is_repaired_into_another_place(alone, tmp_path):
    for path in "abc":
        alone.process().env.store.put(path, b"0123456789")
    target = Place(str(tmp_path / "repaired"))
    report = repair_log(alone.process().env, target.process().env)
    assert (report.source_version, report.num_files, report.missing) == (3, 3, ())
    assert append(target.process(), [add("z")]).version == report.version + 1
    assert target.paths() == ["a", "b", "c", "z"]


def test_a_restored_version_file_ends_it(place):
    log = filled(place, state__format="json")
    write_checkpoint(log.env, log.snapshot().state)
    store = place.process().env.store
    kept = store.get(version_key(3))
    store.delete_many(versions_of(place))
    with pytest.raises(LogGap, match="stands alone"):
        appended(place.process())
    store.put(version_key(3), kept)
    assert append(place.process(), [add("z")]).version == 4
    assert place.paths() == ["a", "b", "c", "z"]


def late(place: Place, form: str, meanwhile: Callable[[], object], *, before: str = "delete") -> CheckpointInvalid:
    """A checkpointer is asleep while its table is dropped; it puts its state, and does that before a call after it."""
    log = filled(place, state__format=form)
    state, store = log.snapshot().state, log.env.store

    def asleep(call):
        wiped(place)
        answer = call()

        def then(call):
            meanwhile()
            return call()

        store.play(before, STATE, then)
        return answer

    store.play("put_if_absent", FIRST, asleep)
    with pytest.raises(CheckpointInvalid, match="dropped or replaced") as caught:
        write_checkpoint(log.env, state)
    return caught.value


def test_a_creator_beside_a_checkpoint_that_is_taken_back_makes_its_table_afterwards(place, form):
    """It neither takes the dropped table for its own nor loses what it writes with the checkpoint."""
    seen: list[object] = []

    def meanwhile():
        for how in (made, appended):
            with contextlib.suppress(LogGap):
                seen.append(how(place.process()))

    late(place, form, meanwhile)
    assert seen == []
    with pytest.raises(TableNotFound):
        place.process().snapshot()
    assert create_table(place.process(), ANOTHER).is_new
    assert append(place.process(), [add("new")]).version == 1
    assert place.paths() == ["new"]


def test_a_commit_that_found_the_checkpoint_before_it_was_taken_back_can_be_read(form):
    """A writer of the dropped table that remembers its version does not look before it puts."""
    place = Place(f"memory://{uuid.uuid4().hex}/table")
    writer: list[Log] = []

    def meanwhile():
        assert append(writer[0], [add("z")]).version == 4

    log = filled(place, state__format=form)
    writer.append(log)
    state = log.snapshot().state
    slow = place.process(state__format=form)
    store = slow.env.store

    def asleep(call):
        wiped(place)
        answer = call()
        store.play("delete", STATE, lambda call: (meanwhile(), call())[1])
        return answer

    store.play("put_if_absent", FIRST, asleep)
    with contextlib.suppress(CheckpointInvalid):
        write_checkpoint(slow.env, state)
    assert place.paths() == ["a", "b", "c", "z"]
    assert append(place.process(), [add("y")]).version == 5


def test_a_commit_that_comes_after_the_checkpoint_was_taken_back_is_refused(form):
    place = Place(f"memory://{uuid.uuid4().hex}/table")
    log = filled(place, state__format=form)
    state = log.snapshot().state
    slow = place.process(state__format=form)
    slow.env.store.play("put_if_absent", FIRST, lambda call: (wiped(place), call())[1])
    log.env.store.play("put_if_absent", SLOT, lambda call: (_quietly(slow, state), call())[1])
    with pytest.raises(TableNotFound):
        append(log, [add("z")])
    assert versions_of(place) == []


def _quietly(slow: Log, state: object) -> None:
    with pytest.raises(CheckpointInvalid):
        write_checkpoint(slow.env, state)  # type: ignore[arg-type]
