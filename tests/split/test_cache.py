"""The cache: bounded, shared, private, and never believed."""

from __future__ import annotations

import ast
import errno
import multiprocessing
import os
import shutil
import stat
from pathlib import Path

import msgspec
import pytest
from tests.split.search_world import World, build_world, env_of, make_rows, open_searcher
from tests.world.store import CountingStore

import indextables.split
from indextables.ambient import SystemAmbient
from indextables.errors import InvalidArgument, SplitCorrupt, StoreFull
from indextables.options import Options
from indextables.split.file.ref import SplitRef
from indextables.split.index.cache import IndexCache, entry_key
from indextables.split.index.cache_disk import is_sealed, seal
from indextables.split.search.searcher import open_cache
from indextables.storage import open_store

PARTS = ("term", "idx", "fieldnorm", "pos", "fast")


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return build_world(tmp_path_factory.mktemp("cache"), make_rows(150), 5)


def make_cache(folder: Path, size: int = 1 << 30) -> IndexCache:
    return IndexCache(folder, size, SystemAmbient())


def entry(cache: IndexCache, world: World, number: int = 0) -> Path:
    return cache._root / "entries" / entry_key(world.store, world.refs[number])


def test_what_was_loaded_is_not_read_again(world, tmp_path):
    store = CountingStore(world.store, is_local=False)
    first = make_cache(tmp_path)
    first.load(store, world.refs[0], PARTS)
    read = len(store.reads)
    assert read == 2
    second = make_cache(tmp_path)
    loaded = second.load(store, world.refs[0], PARTS)
    assert len(store.reads) == read
    assert loaded.whole == set(PARTS)
    assert second.measure().hits == 1


@pytest.mark.parametrize("part", ["directory", "term", "idx", "pages"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "link"])
def test_a_damaged_entry_is_dropped_and_loaded_again(world, tmp_path, part, damage):
    cache = make_cache(tmp_path)
    cache.load(world.store, world.refs[0], PARTS)
    pages = cache.pages(world.store, world.refs[0])
    (path,) = (p for p in entry(cache, world).iterdir() if p.name.startswith(f"{part}-") and "hole" not in p.name)
    good = path.read_bytes()
    match damage:
        case "flip":
            path.write_bytes(bytes([good[0] ^ 1]) + good[1:])
        case "cut":
            path.write_bytes(good[:-1])
        case "empty":
            path.write_bytes(b"")
        case "link":
            path.unlink()
            path.symlink_to("/dev/null")
    if damage != "link":
        # Some file systems tell times by the clock tick, in which the file may also have been made.
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**6))
    fresh = make_cache(tmp_path)
    loaded = fresh.load(world.store, world.refs[0], PARTS)
    assert loaded.whole == set(PARTS)
    assert fresh.pages(world.store, world.refs[0]) == pages
    assert [p.read_bytes() for p in entry(fresh, world).iterdir() if p.name == path.name] == [good]


def test_answers_are_the_same_whatever_happens_to_the_folder(world, tmp_path):
    expected = world.searcher.search("foo bar", limit=None).hits
    for trouble in ("none", "flush", "garbage", "foreign files"):
        searcher = open_searcher(world.store, world.refs, tmp_path)
        if trouble == "flush":
            searcher.cache.flush()
        if trouble == "garbage":
            for path in (tmp_path / "entries").rglob("*-*"):
                path.write_bytes(b"garbage")
            searcher = open_searcher(world.store, world.refs, tmp_path)
        if trouble == "foreign files":
            (tmp_path / "entries" / "notes.txt").write_text("mine")
            (entry(searcher.cache, world) / "term-zzzzzzzz").write_text("mine")
            searcher = open_searcher(world.store, world.refs, tmp_path)
        found = searcher.search("foo bar", limit=None).hits
        assert found.scores.tolist() == pytest.approx(expected.scores.tolist(), rel=1e-5)
        assert found.rows.tolist() == expected.rows.tolist()


def test_the_least_recently_used_entries_go_when_the_folder_is_full(world, tmp_path):
    whole = make_cache(tmp_path / "measure")
    whole.load(world.store, world.refs[0], PARTS)
    one = whole.measure().size_bytes
    cache = make_cache(tmp_path / "small", one * 3)
    for number in (0, 1, 0, 2, 3, 4):
        cache.load(world.store, world.refs[number], PARTS)
        os.utime(entry(cache, world, number), (number + 100 * (number == 0), 10**6 + number + 100 * (number == 0)))
    stats = cache.measure()
    assert stats.evicted >= 1
    assert stats.size_bytes <= one * 4
    assert entry(cache, world, 4).exists()
    assert not entry(cache, world, 1).exists()


def test_a_search_survives_that_its_entries_are_evicted(world, tmp_path):
    searcher = open_searcher(world.store, world.refs, tmp_path)
    expected = searcher.search("message:foo", limit=None).hits.rows.tolist()
    make_cache(tmp_path).flush()
    assert searcher.search("message:foo", limit=None).hits.rows.tolist() == expected
    searcher.opened.clear()
    assert searcher.search("message:foo", limit=None).hits.rows.tolist() == expected
    assert searcher.count('message:"foo bar"') == world.searcher.count('message:"foo bar"')


def test_folders_and_files_belong_to_the_user_alone(world, tmp_path):
    before = os.umask(0)
    try:
        searcher = open_searcher(world.store, world.refs, tmp_path / "cache")
        searcher.search("foo")
    finally:
        os.umask(before)
    for path in [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]:
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(InvalidArgument):
        make_cache(tmp_path / "link")
    with pytest.raises(InvalidArgument):
        make_cache(Path("/proc/nowhere"))


def test_a_wide_open_folder_is_closed(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o777)
    (tmp_path / "cache").chmod(0o777)
    make_cache(tmp_path / "cache")
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_a_full_disk_is_a_typed_error_and_leaves_no_half_file(world, tmp_path, monkeypatch):
    cache = make_cache(tmp_path)
    real = os.write

    def full(handle, data):
        real(handle, bytes(data)[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreFull):
        cache.load(world.store, world.refs[0], PARTS)
    monkeypatch.undo()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert cache.load(world.store, world.refs[0], PARTS).whole == set(PARTS)


def test_leftovers_of_a_crash_are_swept_once_they_are_old(tmp_path):
    make_cache(tmp_path)
    old, young, folder = tmp_path / "tmp" / "old", tmp_path / "tmp" / "young", tmp_path / "tmp" / "folder"
    for path in (old, young):
        path.write_bytes(b"half")
    folder.mkdir()
    (folder / "file").write_bytes(b"half")
    for path in (old, folder):
        os.utime(path, (10**9, 10**9))
    make_cache(tmp_path)
    assert [p.name for p in (tmp_path / "tmp").iterdir()] == ["young"]


def test_a_split_that_was_replaced_is_another_entry(world, tmp_path):
    changed = msgspec.structs.replace(world.refs[0], size=(world.refs[0].size or 0) + 1)
    assert entry_key(world.store, changed) != entry_key(world.store, world.refs[0])
    other = CountingStore(world.store, is_local=False)
    assert entry_key(other, world.refs[0]) != entry_key(world.store, world.refs[0])


def test_a_file_without_an_index_is_said_to_have_none(world, tmp_path):
    bare = msgspec.structs.replace(world.refs[0], range1_length=0)
    with pytest.raises(SplitCorrupt):
        make_cache(tmp_path).load(CountingStore(world.store, is_local=False), bare)


def test_prewarming_loads_everything_and_flushing_removes_it(world, tmp_path):
    cache = make_cache(tmp_path)
    assert cache.prewarm(world.store, world.refs) == 0
    store = CountingStore(world.store, is_local=True)
    for ref in world.refs:
        cache.load(store, ref, PARTS)
    assert store.reads == []
    assert cache.measure().entries == len(world.refs)
    cache.flush()
    assert cache.measure().entries == 0


def test_the_options_name_the_folder(tmp_path):
    options = Options({"cache.directory": str(tmp_path / "here"), "cache.maxSize": "2000000"}, environ={})
    open_cache(options, SystemAmbient())
    assert (tmp_path / "here" / "entries").is_dir()


@pytest.mark.slow
def test_processes_share_a_folder(world, tmp_path):
    refs = msgspec.msgpack.encode(world.refs)
    jobs = [(world.store.url, refs, str(tmp_path), number) for number in range(4)]
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        answers = pool.starmap(_storm, jobs)
    expected = [world.searcher.search(query, limit=None).hits.rows.tolist() for query in STORM]
    assert answers == [[expected]] * 4


STORM = ("foo bar", 'message:"foo bar"', "status:200")
"""Each needs components that the one before did not."""


def _storm(root: str, refs: bytes, folder: str, number: int) -> list[list[list[int]]]:
    """Search, with a folder so small that everybody evicts what the others need, and one who empties it."""
    splits = msgspec.msgpack.decode(refs, type=list[SplitRef])
    ambient = SystemAmbient()
    from indextables.split.search import SearchMemory, SplitSearcher

    found: list[list[list[int]]] = []
    for _ in range(3):
        cache = IndexCache(Path(folder), 1 << 16 if number % 2 else 1 << 30, ambient)
        searcher = SplitSearcher(env_of(open_store(root), ambient), splits, memory=SearchMemory(cache))
        answers = []
        for query in STORM:
            result = searcher.search(query, limit=None)
            answers.append(result.hits.rows.tolist() if not result.metrics.fallbacks else [])
            if number == 0:
                cache.flush()
        if answers not in found:
            found.append(answers)
    return found


def test_structs_are_decoded_by_decoders_made_on_import():
    """msgspec crashes the process if two threads decode a Struct by `type=` for the first time at once."""
    found = []
    for path in sorted(Path(indextables.split.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "decode":
                found += [f"{path.name}:{node.lineno}" for keyword in node.keywords if keyword.arg == "type"]
    assert found == []


def test_a_file_that_was_proven_is_not_proven_again_until_it_changes(tmp_path):
    path = tmp_path / "term-00000000"
    path.write_bytes(b"bytes")
    assert not is_sealed(path, path.lstat())
    seal(path, path.lstat())
    assert is_sealed(path, path.lstat())
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert not is_sealed(path, path.lstat())
    seal(path, path.lstat())
    copy = tmp_path / "copy"
    shutil.copy2(path, copy)
    copy.replace(path)
    assert not is_sealed(path, path.lstat())
    path.write_bytes(b"longer bytes")
    assert not is_sealed(path, path.lstat())


def test_a_torn_line_proves_nothing(tmp_path):
    path = tmp_path / "term-00000000"
    path.write_bytes(b"bytes")
    seal(path, path.lstat())
    lines = tmp_path / "sound"
    lines.write_bytes(lines.read_bytes()[:-1])
    assert not is_sealed(path, path.lstat())
    seal(path, path.lstat())
    assert not is_sealed(path, path.lstat())
    seal(path, path.lstat())
    assert is_sealed(path, path.lstat())
