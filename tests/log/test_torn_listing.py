"""A listing of local files is names first, then a look at each: readers survive what is deleted in between."""

from __future__ import annotations

import msgspec
import pytest
from tests.log.commits import METADATA, add, local_env, open_log
from tests.log.scripted import Scripted
from tests.world.commits import append

from indextables.log.commit.create import create_table
from indextables.log.read.newest import discover
from indextables.log.wire.names import LOG_DIR, crc_key, version_key
from indextables.storage.local import LocalStore
from indextables.storage.url import parse_location
from indextables.table.maintenance.truncate import truncate_time_travel
from indextables.table.requests import TruncateTimeTravel


class Slow(Scripted):
    """Does something once, while the first listing of the log stands before its entry number `at`."""

    def __init__(self, store, at, meanwhile):
        super().__init__(store)
        self.at, self.meanwhile = at, meanwhile

    def list_from(self, prefix, after=None, **more):
        found = self.store.list_from(prefix, after, **more)
        if self.meanwhile is None:
            yield from found
            return
        for _ in range(self.at):
            meta = next(found, None)
            if meta is None:
                break
            yield meta
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        yield from found


def table(path, **options):
    env = local_env(path, checkpoint__interval="1000000", **options)
    log = open_log(env)
    create_table(log, METADATA)
    for number in range(5):
        append(log, [add(f"splits/{number}.split")])
    return env


@pytest.mark.slow
@pytest.mark.parametrize("at", range(14))
@pytest.mark.parametrize("kind", ["avro", "json", "parquet"])
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_a_reader_beside_a_truncation_reads_the_table(tmp_path, at, kind, cache):
    env = table(tmp_path / "t", state__format=kind)
    store = Slow(env.store, at, lambda: truncate_time_travel(open_log(env), TruncateTimeTravel()))
    reader = open_log(msgspec.structs.replace(env, store=store))
    if cache == "warm":
        meanwhile, store.meanwhile = store.meanwhile, None
        reader.snapshot(0)
        store.meanwhile = meanwhile
        reader.invalidate(("versionsList",))
    snapshot = reader.snapshot()
    assert store.meanwhile is None
    assert snapshot.version == 6
    assert snapshot.files.num_rows == 5


@pytest.mark.parametrize("at", range(14))
def test_versions_that_end_below_a_truncation_are_not_taken_for_the_newest(tmp_path, at):
    env = table(tmp_path / "t")
    known = discover(
        msgspec.structs.replace(
            env, store=Slow(env.store, at, lambda: truncate_time_travel(open_log(env), TruncateTimeTravel()))
        )
    )
    assert known.head == 6


class CheckFilesOnly(Scripted):
    """The first listing was torn: of all that it named, nothing but check files was left when it was looked at."""

    torn = True

    def list_from(self, prefix, after=None, **more):
        torn, self.torn = self.torn, False
        found = self.store.list_from(prefix, after, **more)
        return (meta for meta in found if not torn or meta.key.endswith(".crc"))


def test_a_listing_of_check_files_alone_is_made_again(tmp_path):
    env = table(tmp_path / "t")
    truncate_time_travel(open_log(env), TruncateTimeTravel())
    assert list(env.store.list_from(LOG_DIR, version_key(6)[:-4]))
    env.store.put(crc_key(3), b"{}")
    assert discover(msgspec.structs.replace(env, store=CheckFilesOnly(env.store))).head == 6


def test_names_are_read_again_when_one_of_them_is_gone(tmp_path):
    store = LocalStore(parse_location(tmp_path / "t"), fsync=False)
    for number in range(6):
        store.put(version_key(number), b"old")
    listing = store.list_from(LOG_DIR)
    first = next(listing).key
    store.put(LOG_DIR + "new", b"new")
    store.delete_many([version_key(number) for number in range(6)])
    assert [first, *(meta.key for meta in listing)] == [version_key(0), LOG_DIR + "new"]


def test_a_listing_beside_deletes_tells_each_file_once_and_in_order(tmp_path):
    store = LocalStore(parse_location(tmp_path / "t"), fsync=False)
    for number in range(0, 60, 2):
        store.put(f"d/{number:03}", b"")
    seen = []
    for number, meta in enumerate(store.list_from("d/")):
        seen.append(meta.key)
        store.delete_many([f"d/{number * 4 + 2:03}"])
        store.put(f"d/{number * 4 + 3:03}", b"")
    assert seen == sorted(set(seen))
    assert {f"d/{number:03}" for number in range(0, 60, 4)} <= set(seen)
