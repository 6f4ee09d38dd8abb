"""Where do index components live while they are searched? In a bounded folder that all processes of a user share.

    entries/<key>/<component>-<crc32c>     one component, decompressed (`pages` as stored); the name proves the bytes
    entries/<key>/<component>-hole         as long as the component, with only its tail: opens, answers nothing
    entries/<key>/section-<crc32c>         the whole index section of a small split, as stored
    entries/<key>/sound                    which of these files were proven by their checksum (`cache_disk`)
    tmp/<token>                            files being written, folders of indexes being opened

An entry's key covers store, path, id, size and offsets of the split. Files appear by rename, whole or not at all. A
file is used if its checksum was proven since the machine started and it did not change since; one that does not match
is dropped and loaded again.
The least recently used entries go when the folder grows beyond its limit; files that are mapped stay readable.
Nobody waits for anybody: an entry may vanish, as a whole or in part, between any two steps of who uses it. A path is
therefore a hint, which counts once the file is linked or open, and `load_apart` is for those who were too slow.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import cachetools
import msgspec

from indextables.ambient import Ambient
from indextables.errors import SplitCorrupt, StoreError, StoreFull
from indextables.process import Lock
from indextables.split.file import (
    PAGES,
    SEGMENT_PARTS,
    Component,
    Directory,
    KeptPages,
    SplitRef,
    footer_range,
    layout,
    parse_footer,
)
from indextables.split.index import cache_disk
from indextables.split.index.cache_disk import children, disk_size, is_sealed, link_all, private_folder, seal, write_all
from indextables.split.index.cache_entry import CachedSplit, CacheStats, component_of, entry_key
from indextables.split.index.small import SmallSplits, decode_section, section_range
from indextables.storage.store import Store

_STALE_TMP_S = 3600.0
_RACES = 20
_WORTH_A_THREAD = 4 << 20
"""Bytes to unpack beside the largest component, from which on threads are quicker than one after the other."""
_MOST_CHECKED = 65_536
"""Files that are known to be sound without a look at their seals: a process that lives for years forgets the oldest."""
_SWEEP_FRACTION = 32
"""The folder is measured again when this share of its limit has been added."""


class IndexCache:
    """Index components by need. Threads and processes may share a folder; a process should share one object."""

    def __init__(
        self, directory: Path, max_bytes: int, ambient: Ambient, rows_bytes: int = 0, small_bytes: int = 0
    ) -> None:
        """`rows_bytes` of memory are for decoded rows; index sections up to `small_bytes` are kept in memory too.

        Raises InvalidArgument if the folder is not the user's own.
        """
        self._root = directory
        self._max_bytes = max_bytes
        self._ambient = ambient
        self.rows = KeptPages(rows_bytes)
        self.small = SmallSplits()
        self._small_bytes = small_bytes
        self._lock = Lock()
        self._checked: cachetools.LRUCache[tuple[str, int, int], bool] = cachetools.LRUCache(maxsize=_MOST_CHECKED)
        self._directories: cachetools.LRUCache[str, Directory] = cachetools.LRUCache(maxsize=4096)
        self._added = max_bytes
        self.stats = CacheStats()
        self._make_folders()
        # Nobody writes one file or opens an index for an hour: what is older was left by a crash.
        cache_disk.sweep(self._root / "tmp", ambient.now_ms() / 1000 - _STALE_TMP_S)

    def load(self, store: Store, ref: SplitRef, components: Iterable[str] = ()) -> CachedSplit:
        """The index of a split with these components; the first range comes with one request, the rest with one.

        `whole` of the answer, and nothing else, tells what is there: less than was asked for if somebody emptied the
        folder meanwhile. `ref` must have its offsets. Raises SplitCorrupt for damaged bytes, the errors of the store.
        """
        small = self._load_small(store, ref)
        if small is not None:
            return small
        key = entry_key(store, ref)
        return self._load(store, ref, components, key, self._root / "entries" / key)

    def load_apart(self, store: Store, ref: SplitRef, components: Iterable[str], folder: Path) -> CachedSplit:
        """As `load`, in a folder of the caller within a `scratch`, whom nobody empties it; `whole` has all components.

        What the cache has is linked, the rest read from the store, and nothing is added to the cache.
        """
        small = self._load_small(store, ref)
        if small is not None:
            return small
        key = entry_key(store, ref)
        folder.mkdir(mode=0o700, parents=True)
        link_all(self._root / "entries" / key, folder)
        return self._load(store, ref, components, key, folder)

    def drop(self, store: Store, ref: SplitRef) -> None:
        """Delete the entry of a split, whatever was proven of it: the next use loads it anew."""
        key = entry_key(store, ref)
        with self._exclusive():
            shutil.rmtree(self._root / "entries" / key, ignore_errors=True)
        self.small.forget(lambda url, known: (url, known) == (store.url, ref))
        with self._lock:
            self._directories.pop(key, None)
        self._count("dropped")

    def _load(self, store: Store, ref: SplitRef, components: Iterable[str], key: str, folder: Path) -> CachedSplit:
        directory, first_range = self._directory(store, ref, key, folder)
        wanted = {"term", *components} if directory.segment else set(components) & {PAGES}
        if directory.component(PAGES) is None:
            wanted.discard(PAGES)
        missing = [name for name in wanted if self._find(folder, directory, name) is None]
        if missing:
            self._fetch(store, ref, folder, directory, missing, first_range)
        else:
            self._count("hits")
        self._touch(folder)
        files: dict[str, Path] = {}
        whole = set()
        for name in SEGMENT_PARTS if directory.segment else ():
            found = self._find(folder, directory, name) if name != "store" else None
            if found is not None:
                whole.add(name)
            files[name] = found or self._hole(folder, component_of(directory, name, ref))
        return CachedSplit(ref, key, directory, files, frozenset(whole))

    def _load_small(self, store: Store, ref: SplitRef) -> CachedSplit | None:
        """The index of a small split, by one request at most; None if it is not small, or damaged."""
        place = section_range(ref, self._small_bytes)
        known = None if place is None else self.small.get(store.url, ref)
        if place is None or known is not None:
            self._count("hits", int(known is not None))
            return known
        try:
            split = decode_section(self._section(store, ref, place), ref, store.url)
        except SplitCorrupt:
            return None  # by component it turns out which of them can be used
        self.small.keep(store.url, ref, split)
        return split

    def _section(self, store: Store, ref: SplitRef, place: tuple[int, int]) -> bytes:
        """The bytes of a small section: a local file has them itself, those of other stores are kept on disk."""
        if store.is_local or not store.outlives_process:
            self._count("misses")
            return self._get(store, ref.key, [place])[0]
        folder = self._root / "entries" / entry_key(store, ref)
        for path in children(folder):
            if path.name.startswith("section-"):
                with contextlib.suppress(OSError, ValueError):
                    data = path.read_bytes()
                    if layout.crc32c(data) == int(path.name[-8:], 16):
                        self._count("hits")
                        self._touch(folder)
                        return data
                self._drop(path)
        self._count("misses")
        data = self._get(store, ref.key, [place])[0]
        self._write(folder / f"section-{layout.crc32c(data):08x}", lambda handle: write_all(handle, data))
        self._grown(len(data))
        return data

    def pages(self, store: Store, ref: SplitRef) -> bytes | None:
        """The stored bytes of the page locations of a split, if it has them. Raises as `load`."""
        small = self._load_small(store, ref)
        if small is not None:
            return small.pages
        key = entry_key(store, ref)
        folder = self._root / "entries" / key
        directory, _ = self._directory(store, ref, key, folder)
        if directory.component(PAGES) is None:
            return None
        found = self._find(folder, directory, PAGES)
        if found is None:
            self._fetch(store, ref, folder, directory, [PAGES])
            found = self._find(folder, directory, PAGES)
        with contextlib.suppress(OSError):
            if found is not None:
                return found.read_bytes()
        return None

    def prewarm(self, store: Store, refs: Sequence[SplitRef], components: Iterable[str] = SEGMENT_PARTS) -> int:
        """Load these components of many splits at once; returns how many splits could not be loaded."""
        wanted = [name for name in components if name != "store"]

        def one(ref: SplitRef) -> int:
            try:
                self.load(store, ref, wanted)
            except SplitCorrupt:
                return 1
            return 0

        return sum(self._ambient.map("splits", one, refs))

    def flush(self) -> None:
        """Delete every entry. Running searches keep what they have mapped."""
        with self._exclusive():
            for entry in children(self._root / "entries"):
                shutil.rmtree(entry, ignore_errors=True)
        self.rows.clear()
        self.small.forget(lambda _url, _ref: True)
        with self._lock:
            self._checked.clear()
            self._directories.clear()
            self._added = self._max_bytes

    def measure(self) -> CacheStats:
        """The statistics, with the folder's present size."""
        sizes = [disk_size(entry) for entry in children(self._root / "entries")]
        with self._lock:
            self.stats.entries = len(sizes) + len(self.small)
            self.stats.size_bytes = sum(sizes) + self.small.size_bytes
            self.stats.rows_bytes = self.rows.size_bytes
            return msgspec.structs.replace(self.stats)

    def scratch(self) -> Path:
        """A path for a folder of the caller, who removes it; a crash leaves it to the next start's sweep."""
        tmp = self._root / "tmp"
        if not tmp.is_dir():
            self._make_folders()  # what cleans temporary folders of the system may take them
        return tmp / self._ambient.token()

    def built(self, key: str) -> dict[str, Path] | None:
        """The files that `keep_built` kept under a key, checked, all of one making; None if there are none."""
        folder = self._root / "entries" / key
        sets: dict[str, dict[str, Path]] = {}
        for path in children(folder):
            part, _, rest = path.name.partition("-")
            sets.setdefault(rest.partition("-")[0], {})[part] = path
        for found in sets.values():
            if set(SEGMENT_PARTS) <= set(found) and all(self._sound(path) for path in found.values()):
                self._touch(folder)
                return found
        return None

    def keep_built(self, key: str, files: dict[str, Path]) -> dict[str, Path]:
        """Keep files of an index that was made here; they are moved. Raises FileNotFoundError if they were emptied."""
        folder = self._root / "entries" / key
        sums = {name: layout.crc32c(source.read_bytes()) for name, source in files.items()}
        # Two who build at once may build other bytes, and a file of one does not fit those of the other.
        making = layout.crc32c(msgspec.json.encode(sorted(sums.items())))
        kept: dict[str, Path] = {}
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        for name, source in files.items():
            target = folder / f"{name}-{making:08x}-{sums[name]:08x}"
            source.chmod(0o600)
            source.replace(target)
            kept[name] = target
        self._grown(sum(path.stat().st_size for path in kept.values()))
        return kept

    def _directory(self, store: Store, ref: SplitRef, key: str, folder: Path) -> tuple[Directory, bytes]:
        """The directory, and the bytes of the first range if that had to be read for it."""
        with self._lock:
            known = self._directories.get(key)
        if known is not None:
            return known, b""
        for path in children(folder):
            if path.name.startswith("directory-") and self._sound(path):
                with contextlib.suppress(OSError):
                    directory = layout.decode_directory(path.read_bytes(), ref.key)
                    self._remember(key, directory)
                    return directory, b""
        if ref.index_start is None or not ref.range1_length:
            message = f"{ref.key} carries no index of ours; its rows are scanned, reindex builds one"
            raise SplitCorrupt(message, path=ref.key, part="index", reason="none")
        data = self._first_range(store, ref, (ref.index_start, ref.index_start + ref.range1_length))
        directory = layout.decode_directory(data, ref.key)
        layout.check_id(directory.id, ref.id, ref.key, "index")
        if ref.num_rows is not None and directory.num_rows != ref.num_rows:
            message = f"{ref.key}: the index is of {directory.num_rows} rows, the split has {ref.num_rows}"
            raise SplitCorrupt(message, path=ref.key, part="index", reason="rows")
        head = bytes(data[: layout.directory_length(data[: layout.HEADER_BYTES], ref.key)])
        self._put(folder, "directory", head)
        self._remember(key, directory)
        return directory, data

    def _first_range(self, store: Store, ref: SplitRef, place: tuple[int, int]) -> bytes:
        """The first range; of a split whose id the log does not know, its footer tells in the same call whose it is."""
        if ref.id is not None or ref.footer_end is None:
            return self._get(store, ref.key, [place])[0]
        data, footer = self._get(store, ref.key, [place, footer_range(ref)])
        parse_footer(footer, ref)
        return data

    def _remember(self, key: str, directory: Directory) -> None:
        with self._lock:
            self._directories[key] = directory

    def _fetch(
        self,
        store: Store,
        ref: SplitRef,
        folder: Path,
        directory: Directory,
        names: list[str],
        first_range: bytes = b"",
    ) -> None:
        """Components by one request, less what the first range has already; unpacked at once as threads allow."""
        parts = sorted((component_of(directory, name, ref) for name in names), key=lambda c: c.offset)
        held = {c.name: memoryview(first_range)[c.offset : c.end] for c in parts if c.end <= len(first_range)}
        asked = [c for c in parts if c.name not in held]
        start = ref.index_start or 0
        stored: dict[str, bytes | memoryview] = dict(held)
        if asked:
            self._count("misses")
            read = self._get(store, ref.key, [(start + c.offset, start + c.end) for c in asked])
            stored |= {c.name: data for c, data in zip(asked, read, strict=True)}

        def keep(component: Component) -> None:
            data = stored.pop(component.name)
            raw = layout.unpack(component, data, ref.key)
            self._put(folder, component.name, data if component.name == PAGES else raw)

        ordered = sorted(parts, key=lambda c: -c.raw_length)
        if sum(c.raw_length for c in ordered[1:]) < _WORTH_A_THREAD:
            for component in ordered:
                keep(component)
        else:
            # The largest first: the others are done meanwhile.
            list(self._ambient.map("splits", keep, ordered))

    def _get(self, store: Store, key: str, ranges: list[tuple[int, int]]) -> list[bytes]:
        self._count("requests")
        try:
            data = store.get_ranges(key, ranges) if len(ranges) > 1 else [store.get_range(key, *ranges[0])]
        except StoreError as error:
            if type(error) is not StoreError or store.head(key).size >= max(end for _, end in ranges):
                raise
            message = f"{key}: the file is shorter than its offsets say: {error}"
            raise SplitCorrupt(message, path=key, part="index", reason="cut off") from error
        self._count("bytes_read", sum(map(len, data)))
        return data

    def _find(self, folder: Path, directory: Directory, name: str) -> Path | None:
        """The file of a whole component, its checksum proven once in this process."""
        component = directory.component(name)
        length = 0 if component is None else component.length if name == PAGES else component.raw_length
        for path in children(folder):
            if path.name.startswith(f"{name}-") and not path.name.endswith("-hole"):
                try:
                    if component is not None and path.stat().st_size == length and self._sound(path):
                        return path
                except FileNotFoundError:
                    continue
                self._drop(path)
        return None

    def _sound(self, path: Path) -> bool:
        try:
            facts = path.lstat()
            known = (str(path), facts.st_ino, facts.st_mtime_ns)
            with self._lock:
                if known in self._checked:
                    return True
            if stat.S_ISREG(facts.st_mode):
                sealed = is_sealed(path, facts)
                if sealed or layout.crc32c(path.read_bytes()) == int(path.name[-8:], 16):
                    if not sealed:
                        seal(path, facts)
                    with self._lock:
                        self._checked[known] = True
                    return True
        except (OSError, ValueError):
            return False
        self._drop(path)
        return False

    def _drop(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()
        self._count("dropped")

    def _put(self, folder: Path, name: str, data: bytes | memoryview) -> None:
        target = folder / f"{name}-{layout.crc32c(data):08x}"
        self._write(target, lambda handle: write_all(handle, data))
        with contextlib.suppress(FileNotFoundError):
            facts = target.lstat()
            seal(target, facts)
            with self._lock:
                self._checked[str(target), facts.st_ino, facts.st_mtime_ns] = True
        self._grown(len(data))

    def _hole(self, folder: Path, component: Component) -> Path:
        target = folder / f"{component.name}-hole"
        with contextlib.suppress(OSError), target.open("rb") as file:
            file.seek(max(0, component.raw_length - len(component.tail)))
            if target.stat().st_size == component.raw_length and file.read() == component.tail:
                return target

        def fill(handle: int) -> None:
            os.ftruncate(handle, component.raw_length)
            os.pwrite(handle, component.tail, component.raw_length - len(component.tail))

        self._write(target, fill)
        return target

    def _write(self, target: Path, fill: object) -> None:
        for _ in range(_RACES):
            try:
                self._write_once(target, fill)
            except FileNotFoundError:
                self._make_folders()  # another process emptied the folder under our hands
                continue
            except OSError as error:
                self._make_room(target, fill, error)
            return
        raise StoreFull("the index cache is emptied as fast as it is filled: raise cache.maxSize", key=str(target))

    def _make_room(self, target: Path, fill: object, error: OSError) -> None:
        """A second try with half of the folder gone, if it was the disk that is full."""
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"the index cache cannot be written: {error}", key=str(target)) from error
        self._evict(self._max_bytes // 2)
        try:
            self._write_once(target, fill)
        except OSError as again:
            message = f"no space left for the index cache ({again}): set cache.directory to a larger disk"
            raise StoreFull(message, key=str(target)) from again

    def _write_once(self, target: Path, fill: object) -> None:
        scratch = self.scratch()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(scratch, flags, 0o600)
        try:
            try:
                fill(handle)  # type: ignore[operator]
            finally:
                os.close(handle)
            with contextlib.suppress(FileExistsError):
                target.parent.mkdir(mode=0o700)
            scratch.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                scratch.unlink()
            raise

    def _touch(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            os.utime(folder)

    def _count(self, name: str, by: int = 1) -> None:
        with self._lock:
            setattr(self.stats, name, getattr(self.stats, name) + by)

    def _grown(self, by: int) -> None:
        with self._lock:
            self._added += by
            if self._added < self._max_bytes // _SWEEP_FRACTION:
                return
            self._added = 0
        self._evict(self._max_bytes)

    def _evict(self, limit: int) -> None:
        with self._exclusive():
            ages: list[tuple[float, int, Path]] = []
            for entry in children(self._root / "entries"):
                with contextlib.suppress(OSError):
                    ages.append((entry.stat().st_mtime, disk_size(entry), entry))
            total = sum(size for _, size, _ in ages)
            for _, size, entry in sorted(ages)[:-1]:
                if total <= limit:
                    break
                shutil.rmtree(entry, ignore_errors=True)
                total -= size
                self._count("evicted")

    def _exclusive(self) -> contextlib.AbstractContextManager[None]:
        """One process at a time deletes; readers need no lock, because what they opened stays."""
        self._make_folders()
        return cache_disk.exclusive(self._root / "lock")

    def _make_folders(self) -> None:
        for folder in (self._root, self._root / "entries", self._root / "tmp"):
            private_folder(folder)
