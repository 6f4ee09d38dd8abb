"""The segments of opened indexes lie on a shelf: versions share them, and what is closed is taken down."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
from tests.split.search_world import World, build_world, env_of, make_rows, words_of
from tests.table.test_forked_verbs import in_a_child

from indextables.ambient import SystemAmbient
from indextables.split.index.cache import IndexCache
from indextables.split.search import shelf as shelves
from indextables.split.search.searcher import SearchMemory, SplitSearcher
from indextables.split.search.shelf import Shelf
from indextables.split.search.virtual import OpenIndexes
from indextables.split.write.scratch import Places

PIECES = 12


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return build_world(tmp_path_factory.mktemp("shelf"), make_rows(96), PIECES)


@pytest.fixture(params=["in memory", "on disk", "more than fits in memory", "files of the cache"])
def shelf_and_cache(request, tmp_path):
    """A shelf in each place, and the folders where it may lie."""
    memory = tmp_path / "memory"
    memory.mkdir()
    places = Places(memory=lambda: None if request.param == "on disk" else memory)
    most = 30_000 if request.param == "more than fits in memory" else 1 << 28
    small = 0 if request.param == "files of the cache" else 1 << 20
    cache = IndexCache(tmp_path / "cache", 1 << 30, SystemAmbient(), small_bytes=small)
    opened = OpenIndexes(shelf=lambda: Shelf(places, most))
    return opened, cache, lambda: [*memory.rglob("*.*"), *(tmp_path / "cache" / "tmp").rglob("*.*")]


def count(world: World, opened: OpenIndexes, cache: IndexCache, splits: int) -> int:
    shared = {"schema": world.searcher.schema, "index": world.searcher.index}
    memory = SearchMemory(cache, opened)
    return SplitSearcher(env_of(world.store), world.refs[:splits], memory=memory, **shared).count("message:foo")


def rows_of(world: World, splits: int) -> int:
    rows = sum(ref.num_rows for ref in world.refs[:splits])
    return sum("foo" in words_of(row["message"]) for row in world.rows[:rows])


def test_versions_share_segments_and_the_last_user_takes_them_down(world, shelf_and_cache):
    opened, cache, files = shelf_and_cache
    for splits in range(1, PIECES + 1):
        assert count(world, opened, cache, splits) == rows_of(world, splits)
    # A split whose index is in files is opened alone too, with its dictionary.
    assert PIECES <= opened.segments <= 2 * PIECES
    names = {path.name.partition(".")[0] for path in files() if path.suffix == ".idx"}
    assert len(names) == opened.segments
    assert opened.forget(lambda _: True) >= PIECES
    assert opened.segments == 0
    assert [path for path in files() if path.suffix in {".idx", ".term", ".del"}] == []
    assert count(world, opened, cache, PIECES) == rows_of(world, PIECES)


def test_a_shelf_that_nobody_uses_any_more_leaves_nothing(world, shelf_and_cache):
    opened, cache, files = shelf_and_cache
    assert count(world, opened, cache, PIECES) == rows_of(world, PIECES)
    assert files()
    opened.clear()
    gc.collect()
    assert files() == []
    assert count(world, opened, cache, 3) == rows_of(world, 3)
    del opened
    gc.collect()


def test_a_shelf_whose_folder_was_taken_away_is_set_up_anew(world, shelf_and_cache):
    opened, cache, files = shelf_and_cache
    assert count(world, opened, cache, 2) == rows_of(world, 2)
    for folder in {path.parent for path in files()}:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    assert count(world, opened, cache, 5) == rows_of(world, 5)
    assert count(world, opened, cache, 2) == rows_of(world, 2)


def test_versions_that_are_open_are_bounded_by_the_segments_of_all(world, tmp_path):
    opened = OpenIndexes(max_readers=2 * PIECES)
    cache = IndexCache(tmp_path, 1 << 30, SystemAmbient(), small_bytes=1 << 20)
    for splits in range(1, PIECES + 1):
        assert count(world, opened, cache, splits) == rows_of(world, splits)
    assert [len(index.segments) for index in opened._open.values()] == [PIECES - 1, PIECES]


@pytest.mark.skipif(sys.platform != "linux", reason="maps are counted as Linux tells them")
def test_further_versions_map_no_segment_a_second_time(world, tmp_path):
    opened = OpenIndexes()
    cache = IndexCache(tmp_path, 1 << 30, SystemAmbient(), small_bytes=1 << 20)
    count(world, opened, cache, PIECES)
    before = _mapped_terms()
    for splits in range(2, PIECES):
        count(world, opened, cache, splits)
    # Indexes of tests before this one may be closed meanwhile.
    assert PIECES <= _mapped_terms() <= before
    assert len(opened) == PIECES - 1


def test_an_index_is_opened_anew_before_tantivy_remembers_too_many_names(world, tmp_path, monkeypatch):
    monkeypatch.setattr(shelves, "_MOST_LOADS", 2)
    opened = OpenIndexes()
    cache = IndexCache(tmp_path, 1 << 30, SystemAmbient(), small_bytes=1 << 20)
    for splits in range(1, 8):
        assert count(world, opened, cache, splits) == rows_of(world, splits)
    assert len({id(index.index) for index in opened._open.values()}) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_leaves_the_shelf_of_its_parent_alone(world, shelf_and_cache):
    opened, cache, files = shelf_and_cache
    assert count(world, opened, cache, 4) == rows_of(world, 4)
    before = sorted(files())

    def drop() -> bool:
        opened.shelf._remove()
        return True

    assert in_a_child(drop) == 0
    assert sorted(files()) == before
    assert count(world, opened, cache, 6) == rows_of(world, 6)


def _mapped_terms() -> int:
    """How many dictionaries this process has mapped, also those whose files are gone."""
    return sum(".term" in line for line in Path("/proc/self/maps").read_text().splitlines())
