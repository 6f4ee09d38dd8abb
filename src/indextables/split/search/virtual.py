"""How are many splits searched as one? Their segments are opened as one index, with its counts and scores.

`segment_ord` is the place in the list, `doc` the row number. Where the files lie is the affair of a `Shelf`. Everything
is mapped on opening: what becomes of the files later does not matter.

Postings are found by field ordinal and fast columns by name, without a check: splits share an index only if the schema
of one begins with that of the other (`group_by_schema`). Other groups are searched apart, with carriers.
"""

from __future__ import annotations

import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from indextables.ambient import Ambient
from indextables.errors import IndexUnavailable
from indextables.process import Lock
from indextables.split.file import SEGMENT_PARTS
from indextables.split.index import IndexCache, IndexPlan, delfile, native_read
from indextables.split.query import Plan
from indextables.split.search.carrier import CarrierSegment, TermStats, scored_terms, term_key
from indextables.split.search.shelf import Deletes, Shelf, ShelfSegment

MAX_OPEN_INDEXES = 1_024
MAX_OPEN_SEGMENTS = 8_000
"""A segment holds six memory maps; a process may have 65,530 by default."""
MAX_OPEN_READERS = 16_384
"""Segments of all indexes, counted for each that has them: Tantivy takes some 5 KiB to read one."""
IDLE_S = 60.0
KEPT_IDLE = 16
"""So many stay open however long nobody has asked for them: those of versions that nobody searches any more must not
add up."""
MAX_OPEN_ALIVE_BYTES = 256 << 20
"""Every filter on a column that is in no index opens an index with the rows that it lets through, a bit for each."""
_TAIL = 4096


class Member(msgspec.Struct, frozen=True):
    """One segment of a virtual index: its files by extension, whole or with a hole, and the rows that may be seen.

    `segment` means the files: other bytes have another name. `identity` changes whenever these or the alive rows do;
    `whole` names the components without a hole.
    """

    identity: str
    segment: ShelfSegment
    whole: frozenset[str]
    tokens: dict[str, int]
    alive: delfile.Words | None = None

    @property
    def num_rows(self) -> int:
        return self.segment.num_rows


class VirtualIndex:
    """An opened index over the members of one group.

    `stats.num_docs` and `stats.tokens` are what Tantivy counts here, the carrier included.
    """

    def __init__(
        self,
        members: Sequence[Member],
        plan: IndexPlan,
        schema: str,
        shelf: Shelf,
        cache: IndexCache,
        ambient: Ambient,
        carrier: CarrierSegment | None = None,
    ) -> None:
        """Raises IndexUnavailable if Tantivy does not open it, StoreFull, FileNotFoundError if a file was evicted."""
        self.members = list(members)
        self.plan = plan
        self.carrier = carrier
        self.own = own_stats(members)
        with native_read("a split"):
            segments, deletes = self._segments(ambient)
        self.index, self.searcher = shelf.open(segments, deletes, plan, schema, cache, ambient)
        self.segments = [segment.name for segment in segments]
        self.is_closed = False
        """True when nobody new is given this index: what was made of it is better made anew."""
        self.alive_bytes = sum(member.alive.nbytes for member in self.members if member.alive is not None)
        """What is held to know which rows may be seen."""
        self.whole = frozenset.intersection(*(member.whole for member in self.members)) if members else frozenset()
        if self.searcher.num_segments != len(segments):
            message = f"an index of {len(segments)} segments opened with {self.searcher.num_segments}"
            shelf.release(self.segments)
            raise IndexUnavailable(message, path="", reason="segments")

    def counted(self, plan: Plan) -> TermStats:
        """What Tantivy will count for the scored terms of a plan: rows and frequencies, the carrier included."""
        with native_read("a split"):
            freqs = {
                term_key(target, term): int(self.searcher.doc_freq(target.address, term))
                for target, term in scored_terms(plan)
            }
        rows = self.own.num_docs + (self.carrier.num_docs if self.carrier is not None else 0)
        return TermStats(rows, self.own.tokens, freqs)

    def _segments(self, ambient: Ambient) -> tuple[list[ShelfSegment], dict[int, Deletes]]:
        segments = [member.segment for member in self.members]
        deletes: dict[int, Deletes] = {}
        version = b""
        for place, member in enumerate(self.members):
            if member.alive is not None:
                version = version or delfile.footer_version(_tail(member.segment.files["idx"]))
                deletes[place] = Deletes(*delfile.encode(member.alive, member.num_rows, version))
        if self.carrier is not None:
            deletes[len(segments)] = Deletes(self.carrier.deletions, self.carrier.num_docs)
            segments.append(ShelfSegment(ambient.token(), self.carrier.num_docs, self.carrier.files))
        return segments, deletes


class OpenIndexes:
    """The opened indexes of a process: the least recently used go, by number, segments, bytes and age. Thread-safe.

    Segments are counted once, however many indexes have them, as they are mapped. Who keeps what it made of an index
    (`Holder`) lets go of it when the index is closed.
    """

    def __init__(
        self,
        max_indexes: int = MAX_OPEN_INDEXES,
        max_segments: int = MAX_OPEN_SEGMENTS,
        max_alive_bytes: int = MAX_OPEN_ALIVE_BYTES,
        max_readers: int = MAX_OPEN_READERS,
        clock: Callable[[], float] = time.monotonic,
        shelf: Callable[[], Shelf] = Shelf,
    ) -> None:
        self._clock = clock
        self._used: dict[tuple[Hashable, ...], float] = {}
        self._max_indexes = max_indexes
        self._max_segments = max_segments
        self._max_alive_bytes = max_alive_bytes
        self._max_readers = max_readers
        self._lock = Lock()
        self._open: OrderedDict[tuple[Hashable, ...], VirtualIndex] = OrderedDict()
        self._holders: weakref.WeakSet[Holder] = weakref.WeakSet()
        self._mapped: Counter[str] = Counter()
        self._new_shelf = shelf
        self.shelf = shelf()
        self.hits = 0
        self.misses = 0

    def get(
        self, key: tuple[Hashable, ...], usable: Callable[[VirtualIndex], bool], make: Callable[[Shelf], VirtualIndex]
    ) -> VirtualIndex:
        """The index of this key if it is open and `usable`, else a new one, which replaces it."""
        with self._lock:
            found = self._open.get(key)
            if found is not None and usable(found):
                self._use(key)
                self.hits += 1
                return found
            self.misses += 1
            shelf = self.shelf
        made = make(shelf)
        with self._lock:
            if shelf is not self.shelf:
                return made  # cleared meanwhile: whoever asked has it, and nobody else
            if key in self._open:
                self._drop(key)
            self._open[key] = made
            self._mapped.update(made.segments)
            self._use(key)
            while len(self._open) > 1 and self._too_much():
                self._drop(next(iter(self._open)))
        return made

    def hold(self, holder: Holder) -> None:
        """Tell this one which indexes are closed, for as long as it lives."""
        with self._lock:
            self._holders.add(holder)

    def forget(self, which: Callable[[Hashable], bool]) -> int:
        """Close those of these scopes, with which their keys begin; how many they are."""
        with self._lock:
            gone = [key for key in self._open if which(key[0])]
            for key in gone:
                self._drop(key)
        return len(gone)

    def clear(self) -> None:
        """Close all, and read what is opened from now on from its files; searches that run keep what they have."""
        with self._lock:
            while self._open:
                self._drop(next(iter(self._open)))
            self.shelf = self._new_shelf()

    def __len__(self) -> int:
        return len(self._open)

    def _use(self, key: tuple[Hashable, ...]) -> None:
        self._open.move_to_end(key)
        self._used[key] = self._clock()

    @property
    def segments(self) -> int:
        """How many segments are open."""
        return len(self._mapped)

    @property
    def maps(self) -> int:
        """How many files are mapped into memory, those with deleted rows left out."""
        return len(SEGMENT_PARTS) * len(self._mapped)

    @property
    def size_bytes(self) -> int:
        """What is held in a memory file system, and to know which rows may be seen."""
        return self.shelf.memory_bytes + sum(index.alive_bytes for index in list(self._open.values()))

    def _drop(self, key: tuple[Hashable, ...]) -> None:
        index = self._open.pop(key)
        del self._used[key]
        index.is_closed = True
        for holder in self._holders:
            holder.let_go(index)
        self.shelf.release(index.segments)
        for name in index.segments:
            self._mapped[name] -= 1
            if not self._mapped[name]:
                del self._mapped[name]

    def _too_much(self) -> bool:
        oldest = next(iter(self._open))
        is_idle = len(self._open) > KEPT_IDLE and self._clock() - self._used[oldest] > IDLE_S
        return (
            is_idle
            or len(self._open) > self._max_indexes
            or len(self._mapped) > self._max_segments
            or sum(len(index.segments) for index in self._open.values()) > self._max_readers
            or sum(index.alive_bytes for index in self._open.values()) > self._max_alive_bytes
        )


class Holder(Protocol):
    """Keeps what it made of opened indexes."""

    def let_go(self, index: VirtualIndex) -> None:
        """Forget what was made of this one. It must not ask who closes it for anything."""
        ...


def own_stats(members: Sequence[Member]) -> TermStats:
    """Rows and tokens of some members, without frequencies."""
    tokens: dict[str, int] = {}
    for member in members:
        for field, count in member.tokens.items():
            tokens[field] = tokens.get(field, 0) + count
    return TermStats(sum(member.num_rows for member in members), tokens)


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


def _tail(source: bytes | Path) -> bytes:
    if not isinstance(source, Path):
        return bytes(source[-_TAIL:])
    with source.open("rb") as file:
        file.seek(max(0, source.stat().st_size - _TAIL))
        return file.read()
