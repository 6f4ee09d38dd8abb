"""`Shelf` holds the segments of opened indexes as files, and opens them; one Tantivy index serves all versions.

Tantivy opens what a `meta.json` names. Segments lie side by side in one folder of this process, each under a name that
means its bytes. To open a list of them, a `meta.json` of ours is put in place and the index of their schema is loaded
again: segments that it has mapped already are not mapped a second time, however many versions have them. What was
opened stays as it is. The folder is in memory where the machine has a file system for that, up to a bound.
"""

# ruff: noqa: PTH108, PTH211 - an object for each path would cost as much as the call
from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import tantivy

from indextables.ambient import Ambient
from indextables.errors import IndexUnavailable, StoreFull
from indextables.process import Lock
from indextables.split.file import SEGMENT_PARTS
from indextables.split.index import IndexCache, IndexPlan, native_read
from indextables.split.write import SYSTEM, Places, Scratch, in_memory

__all__ = ["Deletes", "Shelf", "ShelfSegment", "open_index"]

Source = bytes | Path

MOST_IN_MEMORY = 256 << 20
"""Bytes of segments that lie in a memory file system; further ones go to the folder of the index cache."""
_SHARE_OF_FREE = 4
"""The bound is at most one part in so many of what is free there."""
_PAGE = 4096
_MOST_LOADS = 1_024
"""Tantivy remembers the name of each file that it ever mapped: after so many loads an index is opened anew."""


class ShelfSegment(msgspec.Struct, frozen=True):
    """A segment: a name that means its bytes (32 hexadecimal digits), and its files by extension."""

    name: str
    num_rows: int
    files: Mapping[str, Source]


class Deletes(msgspec.Struct, frozen=True):
    """The `.del` file of one segment in one index, and how many rows it hides."""

    data: bytes
    count: int


class _Family:
    """The index of one schema: everything that is opened under it shares the maps of its segments."""

    def __init__(self, index: tantivy.Index) -> None:
        self.index = index
        self.loads = 0


class Shelf:
    """Segments on a shelf, and who uses them. Safe for threads, and for children that are forked."""

    def __init__(self, places: Places = SYSTEM, most_in_memory: int = MOST_IN_MEMORY) -> None:
        self._places = places
        self._most_in_memory = most_in_memory
        self._begin()

    def _begin(self) -> None:
        """With nothing on it, as a forked child does, which leaves what its parent has there alone."""
        self._process = os.getpid()
        self._lock = Lock()
        self._opstamps = itertools.count(1)
        self._taken: list[Scratch | Path] = []
        self._memory: Scratch | None = None
        self._disk: Path | None = None
        self._room = 0
        self._start()
        weakref.finalize(self, _take_away, self._taken, self._process)

    def _start(self) -> None:
        self._families: dict[tuple[str, IndexPlan], _Family] = {}
        self._users: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.memory_bytes = 0

    def __len__(self) -> int:
        """How many segments are used."""
        return len(self._users)

    def open(
        self,
        segments: Sequence[ShelfSegment],
        deletes: Mapping[int, Deletes],
        plan: IndexPlan,
        schema: str,
        cache: IndexCache,
        ambient: Ambient,
    ) -> tuple[tantivy.Index, tantivy.Searcher]:
        """An index over these segments, in their order; `deletes` by their places. The segments have one more user.

        Raises IndexUnavailable if Tantivy does not open it, StoreFull, FileNotFoundError if a file was evicted.
        """
        folder = ""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            try:
                folder = self._folder(cache, ambient)
                for segment in segments:
                    self._place(segment, folder, cache)
                hidden = {place: (next(self._opstamps), each) for place, each in deletes.items()}
                scratch = [_del_file(folder, segments[place].name, stamp) for place, (stamp, _) in hidden.items()]
                try:
                    for path, each in zip(scratch, deletes.values(), strict=True):
                        write_file(path, each.data)
                    opened = self._load(folder, segments, hidden, plan, schema)
                finally:
                    for path in scratch:
                        with contextlib.suppress(OSError):
                            os.unlink(path)
            except FileNotFoundError:
                # Evicted between loading and linking, or the folder is gone: the caller loads it again.
                self._forget_unused(segments)
                if not Path(folder).is_dir():
                    self._remove()
                raise
            except OSError as error:
                self._forget_unused(segments)
                self._after(error, cache)
                raise FileNotFoundError(errno.ENOENT, str(error)) from error
            except BaseException:
                self._forget_unused(segments)
                raise
            for segment in segments:
                self._users[segment.name] = self._users.get(segment.name, 0) + 1
            return opened

    def release(self, names: Iterable[str]) -> None:
        """One user less of each: who is left without takes its files down. What is mapped stays so."""
        with self._lock:
            for name in names:
                users = self._users.get(name, 0) - 1
                if users > 0:
                    self._users[name] = users
                else:
                    self._users.pop(name, None)
                    self._take_down(name)

    def clear(self) -> None:
        """Take down everything, so that what is opened from now on is read from its files anew."""
        with self._lock:
            self._remove()

    def _remove(self) -> None:
        self._memory = self._disk = None
        self._start()
        _take_away(self._taken, self._process)

    def _after(self, error: OSError, cache: IndexCache) -> None:
        """What to do about a folder that cannot be written: memory that is full is given up. Raises StoreFull."""
        if self._memory is None:
            folder = cache.scratch().parent
            raise StoreFull(f"the cache folder {folder} cannot be written: {error}", key=str(folder)) from error
        self._remove()
        self._most_in_memory = 0

    def _folder(self, cache: IndexCache, ambient: Ambient) -> str:
        if self._memory is None and self._disk is None:
            if self._most_in_memory:
                self._memory = in_memory(self._places, ambient)
            if self._memory is None:
                self._on_disk(cache)
            else:
                self._taken.append(self._memory)
                free = self._places.free_bytes(self._memory.path)
                self._room = min(self._most_in_memory, free // _SHARE_OF_FREE)
        return str(self._memory.path if self._memory is not None else self._disk)

    def _on_disk(self, cache: IndexCache) -> Path:
        if self._disk is None:
            folder = cache.scratch()
            folder.mkdir(mode=0o700)
            self._disk = folder
            self._taken.append(folder)
        return self._disk

    def _place(self, segment: ShelfSegment, folder: str, cache: IndexCache) -> None:
        """Put the files of a segment on the shelf, unless they are there."""
        if segment.name in self._sizes:
            return
        size = sum(-(-len(data) // _PAGE) * _PAGE for data in segment.files.values() if not isinstance(data, Path))
        overflow = None
        if self._memory is not None and self.memory_bytes + size > self._room:
            overflow = str(self._on_disk(cache))
        self._sizes[segment.name] = 0 if overflow is not None else size
        self.memory_bytes += self._sizes[segment.name]
        for part, source in segment.files.items():
            target = f"{folder}/{segment.name}.{part}"
            if isinstance(source, Path):
                link(source, target)
            elif overflow is None:
                write_file(target, source)
            else:
                written = f"{overflow}/{segment.name}.{part}"
                write_file(written, source)
                os.symlink(written, target)

    def _forget_unused(self, segments: Sequence[ShelfSegment]) -> None:
        for segment in segments:
            if segment.name not in self._users:
                self._take_down(segment.name)

    def _take_down(self, name: str) -> None:
        if name not in self._sizes:
            return
        self.memory_bytes -= self._sizes.pop(name)
        for folder in (self._memory.path if self._memory is not None else None, self._disk):
            for part in SEGMENT_PARTS if folder is not None else ():
                with contextlib.suppress(OSError):
                    os.unlink(f"{folder}/{name}.{part}")

    def _load(
        self,
        folder: str,
        segments: Sequence[ShelfSegment],
        hidden: Mapping[int, tuple[int, Deletes]],
        plan: IndexPlan,
        schema: str,
    ) -> tuple[tantivy.Index, tantivy.Searcher]:
        family = self._families.get((schema, plan))
        if family is None or family.loads >= _MOST_LOADS:
            _write_meta(folder, schema, [])
            family = _Family(open_index(Path(folder)))
            plan.register_analyzers(family.index)
            self._families[schema, plan] = family
        named = []
        for place, segment in enumerate(segments):
            deletes = None
            if place in hidden:
                stamp, each = hidden[place]
                deletes = {"num_deleted_docs": each.count, "opstamp": stamp}
            named.append(_entry(segment.name, segment.num_rows, deletes))
        _write_meta(folder, schema, named)
        family.loads += 1
        try:
            with native_read(folder):
                family.index.reload()
                return family.index, family.index.searcher()
        except IndexUnavailable:
            gone = [path for each in segments for path in each.files.values() if isinstance(path, Path)]
            if not all(map(os.path.exists, gone)):
                raise FileNotFoundError(errno.ENOENT, "evicted while it was opened", folder) from None
            raise


def _take_away(folders: list[Scratch | Path], process: int) -> None:
    """Delete the folders of a shelf. A child that was forked leaves those of its parent alone."""
    if process != os.getpid():
        return
    while folders:
        folder = folders.pop()
        if isinstance(folder, Scratch):
            folder.remove()
        else:
            shutil.rmtree(folder, ignore_errors=True)


def open_index(folder: Path) -> tantivy.Index:
    """Open an index; every way in which Tantivy can refuse is IndexUnavailable."""
    with native_read(str(folder)):
        index = tantivy.Index.open(str(folder))
        # The default policy would look for a new meta.json for as long as the index lives.
        index.config_reader("manual")
        return index


def link(source: Path, target: str) -> None:
    """Give a file a second name. Raises FileNotFoundError if it is gone."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        # Another file system, or one without hard links. Eviction may take the file before Tantivy maps it: then
        # opening fails, and the caller loads it again.
        os.symlink(source, target)


def write_file(path: str, data: bytes | memoryview) -> None:
    """Write a file that is not there yet."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if os.write(handle, data) != len(data):
            raise OSError(errno.ENOSPC, "no space left", path)
    finally:
        os.close(handle)


def _del_file(folder: str, name: str, stamp: int) -> str:
    return f"{folder}/{name}.{stamp}.del"


def _write_meta(folder: str, schema: str, segments: list[dict[str, object]]) -> None:
    meta = {
        "index_settings": {"docstore_compression": "lz4", "docstore_blocksize": 16384},
        "segments": segments,
        "schema": msgspec.Raw(schema.encode()),
        "opstamp": 1,
    }
    path = f"{folder}/meta.json"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    write_file(path, msgspec.json.encode(meta))


def _entry(name: str, num_rows: int, deletes: dict[str, int] | None) -> dict[str, object]:
    dashed = f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"
    return {"segment_id": dashed, "max_doc": num_rows, "deletes": deletes}
