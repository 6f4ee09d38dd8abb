"""How are many splits searched as one? A folder with links to their segments and a `meta.json` of ours.

Tantivy opens it as one index, with the counts and scores of one big index; `segment_ord` is the place in the list,
`doc` the row number. Everything is mapped on opening, so that the folder goes away at once and a crash leaves nothing
that matters.

Postings are found by field ordinal and fast columns by name, without a check: splits share an index only if the schema
of one begins with that of the other (`group_by_schema`). Other groups are searched apart, with carriers.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

import msgspec
import tantivy

from indextables.errors import IndexUnavailable, StoreFull
from indextables.split.file import SEGMENT_PARTS
from indextables.split.index import IndexPlan, delfile, native_read
from indextables.split.query import Plan
from indextables.split.search.carrier import CarrierSegment, TermStats, scored_terms, term_key

MAX_OPEN_INDEXES = 1_024
MAX_OPEN_SEGMENTS = 8_000
"""A segment holds six memory maps; a process may have 65,530 by default."""
IDLE_S = 60.0
KEPT_IDLE = 16
"""So many stay open however long nobody has asked for them. Tantivy's binding runs a thread for each open index, which
looks for a new `meta.json` twice a second: those of versions that nobody searches any more must not add up."""
MAX_OPEN_ALIVE_BYTES = 256 << 20
"""Every filter on a column that is in no index opens an index with the rows that it lets through, a bit for each."""


class Member(msgspec.Struct, frozen=True):
    """One segment of a virtual index: its files by extension, whole or with a hole, and the rows that may be seen.

    `identity` changes whenever the bytes or the alive rows do; `whole` names the components without a hole.
    """

    identity: str
    num_rows: int
    files: dict[str, Path]
    whole: frozenset[str]
    tokens: dict[str, int]
    alive: delfile.Words | None = None


class VirtualIndex:
    """An opened index over the members of one group; keeps nothing on disk.

    `stats.num_docs` and `stats.tokens` are what Tantivy counts here, the carrier included.
    """

    def __init__(
        self,
        members: Sequence[Member],
        plan: IndexPlan,
        schema: str,
        folder: Path,
        carrier: CarrierSegment | None = None,
    ) -> None:
        """Raises IndexUnavailable if Tantivy does not open it, StoreFull, FileNotFoundError if a file was evicted."""
        self.members = list(members)
        self.plan = plan
        self.carrier = carrier
        self.own = own_stats(members)
        try:
            with native_read(str(folder)):
                self._write(folder, schema)
            self.index = open_index(folder)
            with native_read(str(folder)):
                plan.register_analyzers(self.index)
                self.searcher = self.index.searcher()
        except FileNotFoundError:
            raise  # evicted between loading and linking: the caller loads it again
        except OSError as error:
            raise StoreFull(f"the cache folder {folder.parent} cannot be written: {error}", key=str(folder)) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.whole = frozenset.intersection(*(member.whole for member in self.members)) if members else frozenset()
        expected = len(self.members) + (carrier is not None)
        if self.searcher.num_segments != expected:
            message = f"an index of {expected} segments opened with {self.searcher.num_segments}"
            raise IndexUnavailable(message, path=str(folder), reason="segments")

    @property
    def num_segments(self) -> int:
        return len(self.members) + (self.carrier is not None)

    @property
    def alive_bytes(self) -> int:
        """What is held to know which rows may be seen."""
        return sum(member.alive.nbytes for member in self.members if member.alive is not None)

    def counted(self, plan: Plan) -> TermStats:
        """What Tantivy will count for the scored terms of a plan: rows and frequencies, the carrier included."""
        with native_read("a split"):
            freqs = {
                term_key(target, term): int(self.searcher.doc_freq(target.address, term))
                for target, term in scored_terms(plan)
            }
        rows = self.own.num_docs + (self.carrier.num_docs if self.carrier is not None else 0)
        return TermStats(rows, self.own.tokens, freqs)

    def _write(self, folder: Path, schema: str) -> None:
        folder.mkdir(mode=0o700)
        segments = []
        version = b""
        for place, member in enumerate(self.members):
            name = f"{place:032x}"
            for part in SEGMENT_PARTS:
                _link(member.files[part], folder / f"{name}.{part}")
            deletes = None
            if member.alive is not None:
                version = version or delfile.footer_version(_tail(member.files["idx"]))
                data, deleted = delfile.encode(member.alive, member.num_rows, version)
                _write_file(folder / f"{name}.1.del", data)
                deletes = {"num_deleted_docs": deleted, "opstamp": 1}
            segments.append(_segment(name, member.num_rows, deletes))
        if self.carrier is not None:
            name = f"{len(self.members):032x}"
            for part, data in self.carrier.files.items():
                _write_file(folder / f"{name}.{part}", data)
            _write_file(folder / f"{name}.1.del", self.carrier.deletions)
            deletes = {"num_deleted_docs": self.carrier.num_docs, "opstamp": 1}
            segments.append(_segment(name, self.carrier.num_docs, deletes))
        meta = {
            "index_settings": {"docstore_compression": "lz4", "docstore_blocksize": 16384},
            "segments": segments,
            "schema": msgspec.Raw(schema.encode()),
            "opstamp": 1,
        }
        _write_file(folder / "meta.json", msgspec.json.encode(meta))


class OpenIndexes:
    """The opened indexes of a process: the least recently used go, by number, segments, bytes and age. Thread-safe."""

    def __init__(
        self,
        max_indexes: int = MAX_OPEN_INDEXES,
        max_segments: int = MAX_OPEN_SEGMENTS,
        max_alive_bytes: int = MAX_OPEN_ALIVE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._used: dict[tuple[Hashable, ...], float] = {}
        self._max_indexes = max_indexes
        self._max_segments = max_segments
        self._max_alive_bytes = max_alive_bytes
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[Hashable, ...], VirtualIndex] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def get(
        self, key: tuple[Hashable, ...], usable: Callable[[VirtualIndex], bool], make: Callable[[], VirtualIndex]
    ) -> VirtualIndex:
        """The index of this key if it is open and `usable`, else a new one, which replaces it."""
        with self._lock:
            found = self._open.get(key)
            if found is not None and usable(found):
                self._use(key)
                self.hits += 1
                return found
            self.misses += 1
        made = make()
        with self._lock:
            self._open[key] = made
            self._use(key)
            while len(self._open) > 1 and self._too_much():
                oldest, _ = self._open.popitem(last=False)
                del self._used[oldest]
        return made

    def forget(self, which: Callable[[Hashable], bool]) -> int:
        """Close those of these scopes, with which their keys begin; how many they are."""
        with self._lock:
            gone = [key for key in self._open if which(key[0])]
            for key in gone:
                del self._open[key], self._used[key]
        return len(gone)

    def clear(self) -> None:
        """Close all; searches that run keep theirs until they end."""
        with self._lock:
            self._open.clear()
            self._used.clear()

    def __len__(self) -> int:
        return len(self._open)

    def _use(self, key: tuple[Hashable, ...]) -> None:
        self._open.move_to_end(key)
        self._used[key] = self._clock()

    def _too_much(self) -> bool:
        oldest = next(iter(self._open))
        is_idle = len(self._open) > KEPT_IDLE and self._clock() - self._used[oldest] > IDLE_S
        return (
            is_idle
            or len(self._open) > self._max_indexes
            or sum(index.num_segments for index in self._open.values()) > self._max_segments
            or sum(index.alive_bytes for index in self._open.values()) > self._max_alive_bytes
        )


def own_stats(members: Sequence[Member]) -> TermStats:
    """Rows and tokens of some members, without frequencies."""
    tokens: dict[str, int] = {}
    for member in members:
        for field, count in member.tokens.items():
            tokens[field] = tokens.get(field, 0) + count
    return TermStats(sum(member.num_rows for member in members), tokens)


def open_index(folder: Path) -> tantivy.Index:
    """Open an index; every way in which Tantivy can refuse is IndexUnavailable."""
    with native_read(str(folder)):
        index = tantivy.Index.open(str(folder))
        # The default policy would look for a new meta.json for as long as the index lives.
        index.config_reader("manual")
        return index


def group_by_schema(schemas: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Which splits may share an index: the longest schema of each group, and the places of its members in order."""
    fields = {
        text: [msgspec.json.encode(f, order="sorted") for f in msgspec.json.decode(text)] for text in set(schemas)
    }
    longest: list[str] = []
    home: dict[str, int] = {}
    for text in sorted(fields, key=lambda t: (-len(fields[t]), t)):
        for number, leader in enumerate(longest):
            if fields[leader][: len(fields[text])] == fields[text]:
                home[text] = number
                break
        else:
            home[text] = len(longest)
            longest.append(text)
    members: list[list[int]] = [[] for _ in longest]
    for place, text in enumerate(schemas):
        members[home[text]].append(place)
    return list(zip(longest, members, strict=True))


def _segment(name: str, num_rows: int, deletes: dict[str, int] | None) -> dict[str, object]:
    dashed = f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"
    return {"segment_id": dashed, "max_doc": num_rows, "deletes": deletes}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        # Another file system, or one without hard links. Eviction may take the file before Tantivy maps it: then
        # opening fails, and the caller loads it again.
        target.symlink_to(source)


def _write_file(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return file.read()
