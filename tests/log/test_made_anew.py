"""A table is dropped and made anew between two requests of somebody who reads it or writes to it."""

from __future__ import annotations

import contextlib
import itertools
import threading
import uuid
from collections.abc import Callable

import pytest
from tests.log.commits import METADATA, SCHEMA, add, open_log
from tests.log.scripted import Scripted
from tests.log.test_commit import Place
from tests.world.commits import append

from indextables.env import Env
from indextables.errors import LogError, StoreError, TableNotFound, TableReplaced
from indextables.log.care.verifying import verify
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit.create import create_table
from indextables.log.read import Log
from indextables.log.wire.actions import Metadata
from indextables.log.wire.codec import commit_info_of
from indextables.log.wire.names import LOG_DIR, crc_key, version_key
from indextables.options import Options
from indextables.storage import open_store

ANOTHER = Metadata(id="another", schemaString=SCHEMA, createdTime=2)
ERRORS = (LogError, StoreError, TableNotFound, TableReplaced)
HEAD = 5


class Interrupted(Scripted):
    """Something happens once, before the request number `at`."""

    def __init__(self, store, at: int, happens: Callable[[], None]) -> None:
        super().__init__(store)
        self.at, self._happens, self._happened, self._lock = at, happens, False, threading.Lock()

    def happened(self) -> bool:
        """True if it has happened, to its end: another thread may be at it while a request that was under way fails."""
        with self._lock:
            return self._happened

    def _do(self, verb, key, call):
        # Versions are read by several threads: none goes on meanwhile.
        with self._lock:
            self.at -= 1
            if self.at < 0 and not self._happened:
                self._happened = True
                self._happens()
        return super()._do(verb, key, call)


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path) -> Callable[[], Place]:
    def new() -> Place:
        name = uuid.uuid4().hex
        return Place(str(tmp_path / name) if request.param == "local" else f"memory://{name}/table")

    return new


def dropped(place: Place) -> None:
    store = place.process().env.store
    store.delete_many([meta.key for meta in store.list_from(LOG_DIR)])


def made_anew(place: Place, versions: int = HEAD) -> None:
    """Another table in its place, whose version files have the same names and sizes."""
    dropped(place)
    create_table(place.process(), ANOTHER)
    for number in range(1, versions + 1):
        append(place.process(), [add(f"new-{number}")])


def first_table(place: Place, form: str) -> None:
    """Version 5 of a table, with a checkpoint of version 3."""
    create_table(place.process(), METADATA)
    for number in range(1, HEAD + 1):
        append(place.process(), [add(f"old-{number}")])
        if number == HEAD - 2:
            log = place.process(state__format=form)
            write_checkpoint(log.env, log.snapshot().state)


def interrupted(place: Place, at: int, happens: Callable[[], None], **options: object) -> tuple[Log, Interrupted]:
    given = Options({"storage.fsync": "false", **options}, environ={})
    store = Interrupted(open_store(place.url, given), at, happens)
    return open_log(Env(store, place.clock, given)), store  # type: ignore[arg-type]


NEW = [f"new-{number}" for number in range(1, HEAD + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_who_read_one_table_while_another_took_its_place_reads_that_one_next(place, form, warm):
    for at in itertools.count():
        here = place()
        first_table(here, form)
        log, store = interrupted(here, 10**9, lambda here=here: made_anew(here))
        if warm:
            assert len(log.snapshot().files) == HEAD
        store.at = at
        with contextlib.suppress(*ERRORS):
            files = log.snapshot().files["path"].to_pylist()
            assert sorted(files) in (NEW, [name.replace("new", "old") for name in NEW])
        if not store.happened():
            break
        assert sorted(log.snapshot().files["path"].to_pylist()) == NEW, at
        append(here.process(), [add("new-6")])
        assert sorted(log.snapshot().files["path"].to_pylist()) == [*NEW, "new-6"], at
    assert at > 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("versions", [HEAD - 1, HEAD, HEAD + 1])
def test_who_opens_one_table_and_commits_while_another_takes_its_place_leaves_no_file_of_the_first(
    place, form, versions
):
    for at in itertools.count():
        here = place()
        first_table(here, form)
        log, store = interrupted(here, at, lambda here=here: made_anew(here, versions))
        with contextlib.suppress(*ERRORS):
            append(log, [add("mine")])
        if not store.happened():
            break
        raw = here.process().env.store
        there = [number for number in range(versions + 3) if raw.exists(version_key(number))]
        told = [commit_info_of(raw.get(version_key(number)), number) for number in there]
        assert {info.tableId for info in told if info is not None} == {ANOTHER.id}, at
        assert set(here.paths()) - {"mine"} == {f"new-{number}" for number in range(1, versions + 1)}, at
    assert at > 3


def test_a_cold_open_begins_above_nothing_that_was_dropped_meanwhile():
    """It has read the checkpoint and the versions above; then a writer of the table that is gone leaves its file."""
    here = Place(f"memory://{uuid.uuid4().hex}/table")
    first_table(here, "avro")
    late = late_file(here)

    def then(call):
        made_anew(here, 0)
        here.process().env.store.put(version_key(HEAD + 1), late)
        return call()

    log = here.process()
    log.env.store.play("get", version_key(HEAD + 1), then)
    with pytest.raises(ERRORS):
        append(log, [add("mine")])
    here.process().env.store.delete_many([version_key(HEAD + 1)])
    assert here.paths() == []


def late_file(place: Place) -> bytes:
    """What a writer of the first table puts on top of it."""
    append(place.process(), [add("late")])
    store = place.process().env.store
    data = store.get(version_key(HEAD + 1))
    store.delete_many([version_key(HEAD + 1), crc_key(HEAD + 1)])
    return data


def test_a_version_that_a_listing_does_not_show_is_no_newer_one_of_a_table_that_is_gone():
    """Between the listing and the look at the next slot the table goes, and a writer of it leaves its file there."""
    here = Place(f"memory://{uuid.uuid4().hex}/table")
    first_table(here, "avro")
    log = here.process()
    assert len(log.snapshot().files) == HEAD
    late = late_file(here)

    def then(call):
        found = list(call())
        made_anew(here, 2)
        here.process().env.store.put(version_key(HEAD + 1), late)
        return iter(found)

    log.env.store.play("list", LOG_DIR, then)
    with pytest.raises(ERRORS):
        _ = log.snapshot().files


def test_a_checkpoint_and_a_commit_of_a_dropped_table_hide_the_new_one_until_both_are_gone():
    """Both come late, and neither writer takes its file back: the dropped table reads as if it had never gone."""
    here = Place(f"memory://{uuid.uuid4().hex}/table")
    first_table(here, "avro")
    store = here.process().env.store
    late = {meta.key: store.get(meta.key) for meta in store.list_from(LOG_DIR) if "/state-v" in meta.key}
    manifests = {meta.key: store.get(meta.key) for meta in store.list_from(f"{LOG_DIR}manifests/")}
    late |= manifests | {version_key(HEAD - 1): store.get(version_key(HEAD - 1))}
    made_anew(here, 1)
    log = here.process()
    handle = log.of_table(ANOTHER.id)
    assert handle.snapshot().files["path"].to_pylist() == ["new-1"]
    for key, data in late.items():
        store.put(key, data)
    with pytest.raises(TableReplaced):
        here.process().of_table(ANOTHER.id).snapshot()
    assert here.paths() == [f"old-{number}" for number in range(1, HEAD)]
    found = verify(here.process().env).findings
    assert sorted(finding.key or "" for finding in found) == [version_key(0), version_key(1)]
    store.delete_many([*late])
    assert here.process().of_table(ANOTHER.id).snapshot().files["path"].to_pylist() == ["new-1"]
    assert append(here.process(), [add("new-2")]).version == 2
