from __future__ import annotations

import threading

import msgspec
import pytest
from tests.log.logs import add, append, create, local_env, memory_env, open_log, paths, write
from tests.world.clock import Clock
from tests.world.store import counted

from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.log.care import opening
from indextables.log.read.cache import LogCache, cache_for, shared_cache
from indextables.log.read.memory import LogMemory
from indextables.log.wire.names import crc_key, version_key
from indextables.options import Options
from indextables.storage import open_store


def test_an_entry_lives_from_its_loading_and_not_from_its_last_use():
    cache = LogCache()
    cache.put("metadata", ("u", 1), "x", expires=10)
    assert cache.get("metadata", ("u", 1), 9) == "x"
    assert cache.get("metadata", ("u", 1), 9.9) == "x"
    assert cache.get("metadata", ("u", 1), 10) is None


def test_at_most_a_thousand_versions_are_kept_and_the_oldest_used_goes_first():
    cache = LogCache()
    for version in range(1000):
        cache.put("version", ("u", version), version, expires=9)
    assert cache.get("version", ("u", 0), 1) == 0
    cache.put("version", ("u", 1000), 1000, expires=9)
    assert cache.stats().regions["version"].entries == 1000
    assert cache.get("version", ("u", 1), 1) is None
    assert cache.get("version", ("u", 0), 1) == 0


def test_versions_are_also_bounded_by_their_bytes():
    cache = LogCache(max_version_bytes=100)
    for version in range(10):
        cache.put("version", ("u", version), version, expires=9, size=30)
    assert cache.stats().regions["version"].entries == 3
    cache.put("version", ("u", 11), 11, expires=9, size=101)
    assert cache.get("version", ("u", 11), 1) is None


def test_invalidating_a_table_does_not_touch_one_whose_name_begins_alike():
    cache = LogCache()
    for url in ("s3://b/tbl", "s3://b/tbl2", "s3://b/tbl/nested", "s3://b"):
        cache.put("files", (url, 1), url, expires=9)
    assert cache.invalidate("s3://b/tbl") == 2
    assert cache.get("files", ("s3://b/tbl2", 1), 1) == "s3://b/tbl2"
    assert cache.get("files", ("s3://b", 1), 1) == "s3://b"
    assert cache.get("files", ("s3://b/tbl", 1), 1) is None


def test_regions_can_be_dropped_one_by_one():
    cache = LogCache()
    cache.put("protocol", ("u", 1), "p", expires=9)
    cache.put("metadata", ("u", 1), "m", expires=9)
    cache.invalidate("u", ("metadata",))
    assert cache.get("protocol", ("u", 1), 1) == "p"
    assert cache.get("metadata", ("u", 1), 1) is None
    cache.clear()
    assert cache.get("protocol", ("u", 1), 1) is None


def test_hit_rates_are_told_per_region():
    cache = LogCache()
    cache.put("version", ("u", 1), "x", expires=9)
    for _ in range(3):
        cache.get("version", ("u", 1), 1)
    cache.get("version", ("u", 2), 1)
    rates = cache.stats().hit_rates()
    assert rates["versionHitRate"] == 0.75
    assert set(rates) == {
        "protocolHitRate",
        "metadataHitRate",
        "versionHitRate",
        "filesHitRate",
        "versionsListHitRate",
    }
    assert rates["filesHitRate"] == 0.0


def test_many_threads_can_use_one_cache():
    cache = LogCache(max_version_bytes=500)

    def work(seed):
        for i in range(500):
            cache.put("version", ("u", (seed * i) % 50), i, expires=9, size=20)
            cache.get("version", ("u", i % 50), 1)
            if i % 100 == 0:
                cache.invalidate("u")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.stats().regions["version"].entries <= 25


def test_a_second_read_opens_no_version_file_again(tmp_path):
    env = local_env(tmp_path / "t")
    create(env)
    append(env, 1, 2)
    counting, store = counted(env)
    log = open_log(counting)
    assert len(paths(log.snapshot())) == 2
    store.calls.clear()
    assert len(paths(log.snapshot())) == 2
    assert paths(log.snapshot(1)) == ["f1.split"]
    assert store.count("get") == 0
    append(env, 3)
    log.snapshot().files.num_rows  # noqa: B018 - loads the files
    assert [key for call, key, _ in store.calls if call == "get"] == [version_key(3), crc_key(3)]


def test_two_handles_of_a_process_share_what_they_have_read(tmp_path):
    env = local_env(tmp_path / "t")
    create(env)
    append(env, 1)
    cache = LogCache()
    paths(opening.open_log(env, cache=cache).snapshot())
    counting, store = counted(env)
    assert paths(opening.open_log(counting, cache=cache).snapshot()) == ["f1.split"]
    assert store.count("get") == 0
    assert store.count("list") == 0


def test_without_caches_every_read_asks_the_store_and_finds_the_same(tmp_path):
    env = local_env(tmp_path / "t", transaction__cache__enabled=False)
    create(env)
    append(env, 1)
    counting, store = counted(env)
    log = opening.open_log(counting)
    assert log.invalidate() == 0
    assert paths(log.snapshot()) == ["f1.split"]
    first = store.count("get")
    append(env, 2)
    assert paths(log.snapshot()) == ["f1.split", "f2.split"]
    assert store.count("get") > first + 1
    assert log.latest_version(known=1) == 2


def test_what_has_expired_gives_its_memory_back_though_nobody_asks_for_it():
    cache = LogCache()
    for version in range(5):
        cache.put("version", ("u", version), version, expires=version, size=10)
    assert cache.get("version", ("u", "another"), now=2) is None
    assert (cache.stats().regions["version"].entries, cache.stats().regions["version"].size_bytes) == (2, 20)
    assert cache.get("version", ("u", 4), now=3) == 4
    assert cache.stats().regions["version"].entries == 1


def test_an_expired_entry_is_read_again(tmp_path):
    env = local_env(tmp_path / "t")
    clock = Clock()
    create(env)
    append(env, 1)
    counting, store = counted(Env(env.store, clock, env.options))
    log = open_log(counting)
    paths(log.snapshot())
    clock.advance(seconds=299)
    store.calls.clear()
    paths(log.snapshot())
    assert store.count("get") == 0
    clock.advance(seconds=299)
    paths(log.snapshot())
    assert store.count("get") > 0


def test_the_time_to_live_is_an_option(tmp_path):
    env = local_env(tmp_path / "t", transaction__cache__expirationSeconds=5)
    clock = Clock()
    create(env)
    counting, store = counted(Env(env.store, clock, env.options))
    log = open_log(counting)
    paths(log.snapshot())
    clock.advance(seconds=6)
    store.calls.clear()
    paths(log.snapshot())
    assert store.count("get") > 0


def test_a_process_reads_what_was_written_at_once(tmp_path):
    env = local_env(tmp_path / "t")
    create(env)
    log = open_log(env)
    for version in range(1, 5):
        append(env, version)
        assert log.snapshot().version == version
        assert len(paths(log.snapshot())) == version


class NewKind:
    """A store of a kind that nobody has heard of."""

    url = "new://somewhere/t"

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_stores_outside_the_process_share_its_cache_and_memory_stores_do_not(tmp_path):
    assert cache_for(local_env(tmp_path)) is shared_cache()
    one, other = memory_env(), memory_env()
    assert cache_for(one) is not cache_for(other)
    off = Env(one.store, one.ambient, Options({"transaction.cache.enabled": False}, environ={}))
    new = NewKind(open_store(tmp_path / "t"))
    assert cache_for(Env(new, one.ambient, one.options)) is shared_cache()
    assert cache_for(off) is None


@pytest.mark.parametrize("region", ["protocol", "metadata"])
def test_metadata_questions_are_answered_from_the_cache(tmp_path, region):
    env = local_env(tmp_path / "t")
    create(env)
    write(env, 1, add("a"))
    cache = LogCache()
    log = opening.open_log(env, cache=cache)
    log.metadata_at()
    before = cache.stats().regions[region].hits
    assert log.metadata_at().version == 1
    assert cache.stats().regions[region].hits == before + 1


def test_bounded_staleness_is_an_option(tmp_path):
    env = local_env(tmp_path / "t", maxStaleness=5000)
    clock = Clock()
    create(env)
    append(env, 1)
    log = open_log(Env(env.store, clock, env.options))
    assert log.latest_version() == 1
    append(env, 2)
    clock.advance(seconds=4.9)
    assert log.latest_version() == 1
    clock.advance(seconds=0.2)
    assert log.latest_version() == 2
    append(env, 3)
    log.invalidate()
    assert log.latest_version() == 3


def test_a_thread_that_keeps_a_state_is_not_hurt_by_one_that_switches_the_cache_off(tmp_path):
    class Meanwhile(Clock):
        """Lets another thread read the newest properties whenever this one looks at the clock."""

        other = staticmethod(lambda: None)

        def monotonic(self):
            self.other()
            return super().monotonic()

    clock = Meanwhile()
    env = Env(open_store(str(tmp_path)), clock, Options())
    create(env)
    log = opening.open_log(env)
    metadata = log.metadata_at().metadata
    off = msgspec.structs.replace(metadata, configuration={"transaction.cache.enabled": "false"})
    memory = LogMemory(env)
    state = log.snapshot().state
    clock.other = lambda: memory.heed(off)
    assert memory.keep_state(state, None, history=1) is state
    assert memory.known() is None


def test_one_url_at_two_endpoints_is_two_tables():
    """A replica of a bucket has its URL and its version numbers, and may have other rows."""
    cache, ambient = LogCache(), SystemAmbient()
    options = [Options({"storage.endpoint": f"http://127.0.0.1:{port}"}, environ={}) for port in (9001, 9002)]
    first, second = (LogMemory(Env(open_store("s3://bucket/t", given), ambient, given), cache) for given in options)
    first.keep("protocol", 1, 3, "ours")
    assert (first.recall("protocol", 1, 3), second.recall("protocol", 1, 3)) == ("ours", None)
