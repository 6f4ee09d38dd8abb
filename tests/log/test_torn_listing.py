"""A listing of local files is names first, then a look at each: readers survive what is deleted in between."""

from __future__ import annotations

import itertools
import uuid

import msgspec
import pytest
from tests.log.commits import METADATA, add, local_env, open_log
from tests.log.scripted import Scripted
from tests.world.clock import Clock
from tests.world.commits import append

from indextables.env import Env
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.commit.create import create_table
from indextables.log.read.histories import history, version_at
from indextables.log.read.newest import discover
from indextables.log.wire.names import LOG_DIR, crc_key, version_key
from indextables.options import Options
from indextables.storage import open_store
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


class Torn(Scripted):
    """An object store, of which listing number `which` stands before its entry number `at` while others go on."""

    def __init__(self, store, which, at, meanwhile):
        super().__init__(store)
        self.left, self.at, self.meanwhile = which, at, meanwhile

    def list_from(self, prefix, after=None, **more):
        last, is_torn = after, self.left == 0
        self.left -= 1
        for number in itertools.count():
            if is_torn and number == self.at:
                self.meanwhile()
            meta = next(self.store.list_from(prefix, last, **more), None)
            if meta is None:
                return
            last = meta.key
            yield meta


@pytest.fixture(params=itertools.product([1, 2], range(3)), ids=str)
def behind(request):
    """A log at versions 0 to 4; and a reader of which one listing has passed them as others commit and checkpoint.

    That listing comes to the checkpoint of version 5 afterwards. Given are the commits above 4, and which listing.
    """
    commits, which = request.param
    clock, options = Clock(1_700_000_000_000), Options({"checkpoint.interval": 1000}, environ={})
    env = Env(open_store(f"memory://{uuid.uuid4().hex}/t", options), clock, options)
    log = open_log(env)
    create_table(log, METADATA)
    times = [clock.ms]

    def commit():
        clock.ms += 1000
        times.append(clock.ms)
        append(log, [add(f"{clock.ms}.split")])

    for _ in range(4):
        commit()
    write_checkpoint(env, open_log(env).snapshot(2).state)
    numbered = [meta.key for meta in env.store.list_from(LOG_DIR) if meta.key[len(LOG_DIR)].isdigit()]

    def meanwhile():
        for _ in range(commits):
            commit()
        write_checkpoint(env, open_log(env).snapshot(5).state)

    def reader():
        # Without the pointer the whole log is listed.
        return open_log(msgspec.structs.replace(env, store=store, options=unhinted))

    unhinted = Options({"checkpoint.interval": 1000, "log.stopAtGap": True}, environ={})
    store = Torn(env.store, which, len(numbered) + 1, meanwhile)
    return reader, times


def test_a_checkpoint_that_comes_behind_a_listing_hides_no_version_of_the_history(behind):
    reader, times = behind
    versions = history(reader()).column("version").to_pylist()
    assert versions == list(range(len(times) - 1, -1, -1))


@pytest.mark.parametrize("version", range(5))
def test_a_checkpoint_that_comes_behind_a_listing_hides_no_version_of_a_time(behind, version):
    reader, times = behind
    assert version_at(reader(), times[version] + 500) == version
