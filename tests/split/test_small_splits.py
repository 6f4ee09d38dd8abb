"""The index of a small split is read with one request and answers from memory as one in files does."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest
from tests.split.search_world import SCHEMA, World, build_world, env_of, make_rows, with_vector
from tests.world.store import CountingStore

from indextables.ambient import SystemAmbient
from indextables.errors import SplitCorrupt
from indextables.query.parse import parse
from indextables.split.file import dv
from indextables.split.index.cache import IndexCache
from indextables.split.index.remembered import IDLE_S
from indextables.split.index.small import SmallSplits, decode_section, section_range
from indextables.split.search.searcher import SearchMemory, SplitSearcher
from indextables.split.search.virtual import OpenIndexes

SMALL = 1 << 20
QUERIES = ("foo", 'message:"foo bar"', "foo AND NOT bar", "message:fo*", "status:[200 TO 404]", "title:foo bar", "*")


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return build_world(tmp_path_factory.mktemp("small"), make_rows(90), 6, deleted=frozenset({3, 40, 41}))


def cache_in(folder: Path) -> IndexCache:
    return IndexCache(folder, 1 << 30, SystemAmbient(), small_bytes=SMALL)


def searcher_of(world: World, store, cache: IndexCache, refs=None) -> SplitSearcher:
    shared = {"schema": world.searcher.schema, "index": world.searcher.index}
    return SplitSearcher(env_of(store), world.refs if refs is None else refs, memory=SearchMemory(cache), **shared)


def answers(searcher: SplitSearcher) -> list[object]:
    """Counts, rows and scores, these as exact as two ways to compute them are."""
    told: list[object] = []
    for query in QUERIES:
        hits = searcher.search(query, limit=None).hits
        rows = searcher.rows(hits, ["id"], score=True).to_pylist()
        told.append((query, searcher.count(query), {row["id"]: pytest.approx(row["_score"], rel=1e-4) for row in rows}))
    where = parse("price > 0 AND status < 500", SCHEMA)
    return [*told, searcher.rows(searcher.matches("foo", where=where).hits, ["id", "price"]).to_pylist()]


@pytest.mark.parametrize("is_local", [True, False])
def test_it_answers_as_an_index_in_files_with_a_read_for_the_index_and_one_for_rows(world, tmp_path, is_local):
    store = CountingStore(world.store, is_local=is_local)
    searcher = searcher_of(world, store, cache_in(tmp_path))
    assert searcher.count("foo") == world.searcher.count("foo")
    assert sorted(call.key for call in store.reads) == sorted(ref.key for ref in world.refs)
    assert {call.verb for call in store.calls} == {"get_range"}
    assert answers(searcher) == answers(world.searcher)


def test_what_an_object_store_gave_lies_on_disk_for_other_processes_one_file_each(world, tmp_path):
    first = CountingStore(world.store, is_local=False)
    told = answers(searcher_of(world, first, cache_in(tmp_path)))
    files = [path for path in tmp_path.glob("entries/*/*") if path.is_file()]
    assert len(files) == len(world.refs)
    store = CountingStore(world.store, is_local=False)
    assert answers(searcher_of(world, store, cache_in(tmp_path))) == told
    assert [call for call in store.reads if call.verb == "get_range"] == []
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"?")
    again = CountingStore(world.store, is_local=False)
    assert answers(searcher_of(world, again, cache_in(tmp_path))) == told
    assert len([call for call in again.reads if call.verb == "get_range"]) == 1


@pytest.mark.parametrize("part", ["term", "idx", "pos", "fieldnorm", "directory", "footer"])
def test_one_that_is_damaged_is_answered_by_what_is_left_of_it(tmp_path, part):
    world = build_world(tmp_path, make_rows(40), 2)
    told = answers(world.searcher)
    ref = world.refs[0]
    path = world.store.root / ref.key
    data = bytearray(path.read_bytes())
    component = world.searcher.states[0].cached.directory.component(part)
    start = ref.index_start + (component.offset if component is not None else 40)
    data[start if part != "footer" else ref.footer_start + 10] ^= 0x55
    path.write_bytes(data)
    searcher = searcher_of(world, world.store, cache_in(tmp_path / "small"))
    assert answers(searcher) == told


def test_the_bytes_of_another_split_are_not_taken_for_it(world):
    ref, other = world.refs[:2]
    data = world.store.get_range(other.key, *section_range(other, SMALL))
    with pytest.raises(SplitCorrupt):
        decode_section(data, ref, world.store.url)


def test_those_that_are_kept_are_bounded_by_bytes(world):
    kept = SmallSplits(max_bytes=40_000)
    for ref in world.refs:
        data = world.store.get_range(ref.key, *section_range(ref, SMALL))
        kept.keep(world.store.url, ref, decode_section(data, ref, world.store.url))
    assert 0 < len(kept) < len(world.refs)
    assert kept.size_bytes <= 40_000
    assert kept.get(world.store.url, world.refs[0]) is None
    assert kept.get(world.store.url, world.refs[-1]) is not None
    assert kept.get("file:///elsewhere", world.refs[-1]) is None


def test_those_that_nobody_asked_for_go_after_a_while_and_what_a_split_holds_is_found(world):
    now = [0.0]
    kept = SmallSplits(clock=lambda: now[0])
    for ref in world.refs[:3]:
        data = world.store.get_range(ref.key, *section_range(ref, SMALL))
        kept.keep(world.store.url, ref, decode_section(data, ref, world.store.url))
    held = kept.get(world.store.url, world.refs[0])
    now[0] += IDLE_S
    kept.get(world.store.url, world.refs[2])
    gc.collect()
    assert kept.get(world.store.url, world.refs[0]) is held
    assert kept.get(world.store.url, world.refs[1]) is None
    assert len(kept) == 2


class Together(CountingStore):
    """Answers the first reads only when so many are under way at the same time."""

    def __init__(self, store, parties: int) -> None:
        super().__init__(store, is_local=False)
        self._barrier = threading.Barrier(parties, timeout=60)

    def get_range(self, key: str, start: int, end: int, **more) -> bytes:
        self._barrier.wait()
        return super().get_range(key, start, end, **more)


def test_an_object_store_is_asked_for_many_splits_at_the_same_time(world, tmp_path):
    store = Together(world.store, len(world.refs))
    assert searcher_of(world, store, cache_in(tmp_path)).count("foo") == world.searcher.count("foo")


def test_versions_with_other_vectors_share_the_index_in_memory(world, tmp_path):
    store = CountingStore(world.store, is_local=True)
    memory = SearchMemory(cache_in(tmp_path), OpenIndexes())
    shared = {"schema": world.searcher.schema, "index": world.searcher.index, "memory": memory}
    rows = sum(ref.num_rows for ref in world.refs)
    for number in range(5):
        refs = [with_vector(ref, dv.encode(range(number)) if number else None) for ref in world.refs]
        assert SplitSearcher(env_of(store), refs, **shared).count("*") == rows - number * len(refs)
    assert len(store.reads) == len(world.refs)
