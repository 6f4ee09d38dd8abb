"""What others do at the place of a table while it is dropped, or right after, is not lost with it."""

from __future__ import annotations

import contextlib
import itertools

import msgspec
import pyarrow as pa
import pytest
from tests.servers.s3 import Fault, S3Server
from tests.table.test_late_deletes import LOST, REPEATED, Late
from tests.world.clock import Clock, QuickAmbient
from tests.world.store import InterruptedStore

import indextables
from indextables.errors import IndexTablesError, StoreError, StoreUnavailable, TableNotFound
from indextables.log.care import announce_drop
from indextables.log.care.opening import open_log
from indextables.log.wire import parse_key, version_key
from indextables.table.create import create, create_with_rows
from indextables.table.environment import open_env
from indextables.table.maintenance import drop_table
from indextables.table.rows import read_rows

ROWS = pa.schema([("id", pa.int64())])
OPTIONS = {"mergeOnWrite.enabled": "false"}
_NAMES = itertools.count()


class Place:
    """A table of two rows, and whoever works there, each as a process of its own."""

    def __init__(self, url):
        self.url, in_memory = str(url), str(url).startswith("memory:")
        self.clock = Clock(seed=next(_NAMES)) if in_memory else QuickAmbient()

    def env(self):
        return open_env(self.url, OPTIONS, ambient=self.clock)

    def make(self, *ids):
        table = indextables.create(self.url, ROWS, options=OPTIONS, ambient=self.clock)
        for number in ids:
            table.append([{"id": number}])
        return table

    def rows(self):
        indextables.invalidate_caches()
        return sorted(indextables.open(self.url, OPTIONS, ambient=self.clock).to_arrow()["id"].to_pylist())

    def drop(self, store=None):
        env = self.env()
        return drop_table(open_log(env if store is None else msgspec.structs.replace(env, store=store)))

    def drop_interrupted(self, at, meanwhile):
        """The number of requests that were missing until then; none or less where it happened."""
        store = InterruptedStore(self.env().store, at, meanwhile)
        try:
            self.drop(store)
        except IndexTablesError:
            assert store.left <= 0
        return store.left

    def clear(self):
        store = self.env().store
        store.delete_many([meta.key for meta in store.list_from("")])


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path):
    return Place(tmp_path / "t" if request.param == "local" else f"memory://beside-{next(_NAMES)}/t")


@pytest.mark.slow
def test_rows_of_a_table_that_is_made_at_any_time_of_a_drop_are_there_afterwards(place):
    made = []

    def others():
        try:
            table = place.make()
            if table.version == 0:
                table.append([{"id": 100}])
                made.append(table)
        except IndexTablesError:
            pass

    for at in itertools.count(1):
        place.make(1, 2)
        made.clear()
        left = place.drop_interrupted(at, others)
        if made:
            assert place.rows() == [100], f"made before request {at}"
        place.clear()
        if left > 0:
            break


class AtEnd:
    """Something happens right after the file of the newest version has gone."""

    def __init__(self, store, newest, happens):
        self._store, self._newest, self._happens = store, newest, happens

    def __getattr__(self, name):
        return getattr(self._store, name)

    def delete_many(self, keys, **how):
        keys = list(keys)
        left = self._store.delete_many(keys, **how)
        if any(key.endswith(f"/{self._newest:020d}.json") for key in keys):
            self._happens()
        return left


def test_files_that_come_after_the_log_has_gone_stay_also_under_the_names_of_old_ones(place):
    """A backup is put there, or a library that does not ask makes a table."""
    table = place.make(1, 2)
    store = place.env().store
    old = sorted(table.files()["path"].to_pylist())
    new = f"{old[0].rpartition('/')[0]}/split-{'a' * 32}.split"

    def others():
        store.put(old[0], b"another's")
        store.put(new, b"another's")

    place.drop(AtEnd(store, 2, others))
    assert sorted(meta.key for meta in store.list_from("")) == sorted([old[0], new])


class SentAgain:
    """An object store that does not answer the delete of version files, which is sent again."""

    def __init__(self, store, meanwhile):
        self._store, self._meanwhile = store, meanwhile

    def __getattr__(self, name):
        return getattr(self._store, name)

    def delete_many(self, keys, **how):
        keys = list(keys)
        left = self._store.delete_many(keys, **how)
        if any(parse_key(key).kind == "version" for key in keys if parse_key(key)):
            self._meanwhile()
            left = self._store.delete_many(keys, **how)
        return left


def test_a_delete_that_is_sent_again_takes_no_version_that_came_between(place):
    place.make(1, 2)
    store = place.env().store
    with pytest.raises(StoreError, match="another file since the drop began"):
        place.drop(SentAgain(store, lambda: store.put(version_key(0), b"another's")))
    assert store.get(version_key(0)) == b"another's"


@pytest.mark.slow
def test_rows_that_were_written_before_their_table_was_made_are_there_or_refused(place):
    """The drop of the table that was there before takes them for files of that one."""
    for at in itertools.count(1):
        place.make(1, 2)
        # Whoever makes a table for its rows has found none, and writes them; another table comes and goes meanwhile.
        place.drop()
        env = place.env()
        store = InterruptedStore(env.store, at, lambda: (place.make(3), place.drop()))
        rows = read_rows(pa.table({"id": [100]}, schema=ROWS))
        try:
            create_with_rows(open_log(msgspec.structs.replace(env, store=store)), ROWS, rows)
        except IndexTablesError:
            assert store.left <= 0
        else:
            # Or the table that was dropped is this one.
            with contextlib.suppress(TableNotFound):
                assert place.rows() == [100], f"before request {at}"
        place.clear()
        if store.left > 0:
            break


@pytest.mark.parametrize("place", ["memory"], indirect=True)
@pytest.mark.parametrize("how", [LOST, REPEATED])
def test_no_table_is_made_where_a_delete_of_a_drop_may_still_arrive(place, how):
    place.make(1, 2)
    store = Late(place.env().store, how)
    with contextlib.suppress(StoreError):
        place.drop(store)
    if how == LOST:
        place.drop()
    with pytest.raises(StoreUnavailable, match=r"may still arrive: nothing was made here. Try .* ends by itself at 20"):
        place.make()
    place.clock.advance(seconds=300)
    store.arrive()
    place.make(100)
    assert place.rows() == [100]


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_a_drop_whose_deletes_are_all_answered_holds_nobody_up(place):
    place.make(1, 2)
    place.drop()
    began_ms = place.clock.ms
    place.make(100)
    assert place.clock.ms == began_ms


def test_no_table_is_made_while_another_process_drops_one(place):
    place.make(1, 2)
    told = []

    def others():
        with pytest.raises(StoreUnavailable, match="is being dropped") as caught:
            place.make()
        told.append(caught)

    place.drop(AtEnd(place.env().store, 2, others))
    assert told
    assert place.make().version == 0


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_two_that_drop_a_table_leave_each_others_mark(place):
    """The one that is done must not let anybody make a table where the other one is at work yet."""
    place.make(1, 2)
    mark = announce_drop(place.env())
    place.drop()
    assert [meta.key for meta in place.env().store.list_from("")] == [mark.key]
    with pytest.raises(StoreUnavailable):
        place.make()
    mark.release()
    assert place.make().version == 0


def test_a_drop_on_an_object_store_that_gets_no_answer_leaves_its_mark():
    with S3Server() as server:
        options = {**server.settings(), **OPTIONS}
        url = server.table_url("t")
        indextables.create(url, ROWS, options=options).append([{"id": 1}])
        server.inject(Fault(method="POST", query="delete", before="reset"))
        indextables.LocalSession({"t": url}, options=options).run("DROP INDEXTABLE t")
        left = server.keys("t/")
        assert [key.rpartition("/")[0] for key in left] == ["t/_transaction_log/_intents"]
        log = open_log(open_env(url, options, ambient=QuickAmbient()))
        with pytest.raises(StoreUnavailable, match="may still arrive"):
            create(log, ROWS)


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_a_drop_that_slept_for_long_deletes_nothing_more(place):
    place.make(1, 2)
    store = place.env().store
    files = {meta.key for meta in store.list_from("") if meta.key.endswith(".split")}
    with pytest.raises(StoreError, match="held up for too long"):
        place.drop(AtEnd(store, 2, lambda: place.clock.advance(seconds=280)))
    assert files <= {meta.key for meta in store.list_from("")}


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_a_drop_during_which_the_clock_is_set_back_is_seen_by_others_all_the_same(place):
    place.make(1, 2)
    made = []

    class Watched(AtEnd):
        def delete_many(self, keys, **how):
            keys = list(keys)
            left = super().delete_many(keys, **how)
            if any(key.endswith(".split") for key in keys):
                with pytest.raises(StoreUnavailable, match="is being dropped") as caught:
                    place.make()
                made.append(caught)
            return left

    place.drop(Watched(place.env().store, 2, lambda: place.clock.advance(hours=-1)))
    assert made


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_a_drop_that_is_slow_goes_on(place):
    place.make(1, 2)
    place.drop(AtEnd(place.env().store, 2, lambda: place.clock.advance(seconds=100)))
    assert not list(place.env().store.list_from(""))


def test_a_table_that_another_one_drops_meanwhile_is_told_as_gone(place):
    place.make(1, 2)
    others = InterruptedStore(place.env().store, 0, lambda: None)

    def announced(verb, arguments):
        if verb == "put" and b'"drop"' in bytes(arguments[1]):
            others.heard = lambda *_: None
            place.drop()

    others.heard = announced
    with pytest.raises(TableNotFound, match="somebody else dropped it"):
        place.drop(others)
