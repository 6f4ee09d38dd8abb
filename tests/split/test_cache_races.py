"""Somebody else empties or trims the shared cache folder, between any two steps of a search: answers stay exact."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from tests.split.cache_steps import interfering
from tests.split.search_world import World, build_world, env_of, make_rows, open_searcher

from indextables.ambient import SystemAmbient
from indextables.options import Options
from indextables.split.file.layout import SEGMENT_PARTS
from indextables.split.index.cache import IndexCache
from indextables.split.search.searcher import OrderBy, SearchMemory, SplitSearcher
from indextables.storage import open_store

PHRASE = 'message:"foo bar"'
TERM = "message:foo"


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return build_world(tmp_path_factory.mktemp("races"), make_rows(90), 2)


def cold(world: World, folder: Path, max_bytes: int = 1 << 30) -> SplitSearcher:
    """A searcher that works in one thread, so that its steps have one order."""
    ambient = SystemAmbient({"splits": 1})
    cache = IndexCache(folder, max_bytes, ambient)
    more = {"schema": world.searcher.schema, "index": world.searcher.index}
    return SplitSearcher(env_of(world.store, ambient), world.refs, memory=SearchMemory(cache), **more)


def empty(folder: Path) -> None:
    """What `flush` of another process does."""
    for entry in (folder / "entries").iterdir():
        shutil.rmtree(entry, ignore_errors=True)


def assert_exact(world: World, searcher, query: str) -> None:
    expected = world.searcher.search(query, limit=None)
    found = searcher.search(query, limit=None)
    assert found.hits.splits.tolist() == expected.hits.splits.tolist()
    assert found.hits.rows.tolist() == expected.hits.rows.tolist()
    assert found.hits.scores.tolist() == pytest.approx(expected.hits.scores.tolist(), rel=1e-5)
    assert not found.metrics.fallbacks


def test_what_was_emptied_before_it_was_linked_and_again_while_it_was_loaded_is_not_searched_as_a_hole(world, tmp_path):
    searcher = cold(world, tmp_path)
    turns = ["os.link", "os.utime", "os.utime"]
    searcher.search("message:alpha")

    def chosen(_: int, event: str) -> bool:
        return bool(turns) and event == turns[0] and bool(turns.pop(0))

    with interfering(str(tmp_path / "entries"), chosen, lambda: empty(tmp_path)):
        assert_exact(world, searcher, PHRASE)
    assert not turns


def test_a_dictionary_that_was_emptied_while_it_was_loaded_does_not_say_that_nothing_matches(world, tmp_path):
    turns = ["os.utime", "os.utime"]

    def chosen(_: int, event: str) -> bool:
        return bool(turns) and event == turns[0] and bool(turns.pop(0))

    with interfering(str(tmp_path / "entries"), chosen, lambda: empty(tmp_path)):
        searcher = cold(world, tmp_path)
        assert not turns
    assert_exact(world, searcher, PHRASE)


def test_a_search_does_not_lose_what_another_thread_loads_less_of(world, tmp_path):
    searcher = cold(world, tmp_path)
    searcher.search(PHRASE, limit=1)
    searcher.opened.clear()

    def less() -> None:
        """Another search of this process, which wants terms only, after the folder was emptied."""
        empty(tmp_path)
        for state in searcher.states:
            state.load(frozenset({"term"}))

    once = iter([True])
    with interfering(str(tmp_path / "entries"), lambda _, event: event == "os.link" and next(once, False), less):
        assert_exact(world, searcher, 'message:"foo bar" OR message:"alpha beta"')


def test_a_split_that_another_thread_loads_less_of_is_not_taken_for_one_without_a_hit(world, tmp_path):
    searcher = cold(world, tmp_path)
    searcher.search("message:alpha")
    loads = iter([False, True])

    def less() -> None:
        """The first split was loaded for the phrase, the second one is; somebody wants terms of the first one only."""
        empty(tmp_path)
        searcher.states[0].load(frozenset({"term"}))

    with interfering(str(tmp_path / "entries"), lambda _, event: event == "os.utime" and next(loads, False), less):
        assert_exact(world, searcher, PHRASE)
    assert next(loads, None) is None


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_a_folder_that_is_emptied_all_the_time_costs_reads_but_no_answer(world, tmp_path, every):
    searcher = cold(world, tmp_path)
    with interfering(
        str(tmp_path / "entries"), lambda number, _: number % every == 0, lambda: empty(tmp_path)
    ) as steps:
        assert_exact(world, searcher, PHRASE)
        assert searcher.count("status:200") == world.searcher.count("status:200")
    assert steps.seen > every
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("first", range(1, 40, 3))
def test_a_folder_that_is_emptied_for_a_while_at_any_step_changes_no_answer(world, tmp_path, first):
    searcher = cold(world, tmp_path)
    searcher.search("message:alpha")
    with interfering(
        str(tmp_path / "entries"), lambda number, _: number in range(first, first + 5), lambda: empty(tmp_path)
    ):
        assert_exact(world, searcher, PHRASE)


def test_a_split_without_index_is_answered_while_what_was_built_for_it_is_emptied(tmp_path):
    world = build_world(tmp_path, make_rows(60), 2)
    store = open_store(tmp_path / "bare", Options({"storage.fsync": "false"}, environ={}))
    for ref in world.refs:
        data = bytearray(world.store.get(ref.key))
        data[ref.index_start : ref.footer_start] = bytes(ref.footer_start - ref.index_start)
        store.put(ref.key, bytes(data))
    folder = tmp_path / "emptied"
    more = {"schema": world.searcher.schema, "index": world.searcher.index}
    bare = open_searcher(store, world.refs, folder, **more)
    expected = world.searcher.search(PHRASE, limit=None).hits
    with interfering(str(folder / "entries"), lambda *_: True, lambda: empty(folder)):
        found = bare.search(PHRASE, limit=None)
    assert found.hits.rows.tolist() == expected.rows.tolist()
    assert len(found.metrics.fallbacks) == 2
    assert not list((folder / "tmp").iterdir())


def test_a_folder_that_was_taken_away_is_made_again(world, tmp_path):
    folder = tmp_path / "cache"
    searcher = cold(world, folder)
    searcher.search("message:alpha")
    shutil.rmtree(folder)
    assert_exact(world, searcher, PHRASE)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_more_than_fits_in_the_cache_is_searched(world, tmp_path):
    assert_exact(world, cold(world, tmp_path, 1), PHRASE)


def damage(folder: Path, part: str) -> dict[Path, bytes]:
    """Change files of the cache so that their times do not tell; returns what they were."""
    good = {p: p.read_bytes() for p in (folder / "entries").glob(f"*/{part}-*") if not p.name.endswith("-hole")}
    for path, data in good.items():
        facts = path.stat()
        with path.open("r+b") as file:
            file.write(b"\xff" * (len(data) - 200))
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert good
    return good


def test_files_that_were_damaged_after_they_were_proven_are_loaded_again_if_tantivy_gives_up(world, tmp_path):
    cold(world, tmp_path).search(PHRASE)
    good = damage(tmp_path, "pos")
    searcher = cold(world, tmp_path)
    assert_exact(world, searcher, PHRASE)
    assert searcher.cache.measure().dropped >= 1
    assert {path: path.read_bytes() for path in good} == good


def test_all_files_are_loaded_again_if_no_split_is_to_blame_for_the_query_alone(world, tmp_path):
    """Only the order reads the damaged columns."""
    order = OrderBy("status")
    cold(world, tmp_path).search(TERM, order_by=order)
    good = damage(tmp_path, "fast")
    found = cold(world, tmp_path).search(TERM, order_by=order)
    assert found.hits.rows.tolist() == world.searcher.search(TERM, order_by=order).hits.rows.tolist()
    assert not found.metrics.fallbacks
    assert {path: path.read_bytes() for path in good} == good


def test_parts_of_two_indexes_that_were_built_at_once_are_never_mixed(tmp_path):
    cache = IndexCache(tmp_path / "cache", 1 << 30, SystemAmbient())

    def keep(text: str) -> dict[str, Path]:
        files = {part: tmp_path / f"{text}.{part}" for part in SEGMENT_PARTS}
        for part, path in files.items():
            path.write_text(f"{part} of {text}")
        return cache.keep_built("b", files)

    one, two = keep("one"), keep("two")
    assert cache.built("b") in (one, two)
    one["idx"].unlink()
    assert cache.built("b") == two
    two["pos"].unlink()
    assert cache.built("b") is None
