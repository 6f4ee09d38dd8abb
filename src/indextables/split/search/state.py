"""`SplitState` is one split of a version: what the process knows of the split, and the rows that the version deleted.

What is known of a split is shared by all versions that name it; a vector is not: it belongs to its version.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from indextables.process import Lock
from indextables.split.file import PAGES, SplitReader, SplitRef, dv
from indextables.split.index import CachedSplit, IndexCache, IndexPlan, Remembered, delfile
from indextables.split.search.hits import Ints
from indextables.split.search.opened import OpenedSplit, Segment
from indextables.split.search.virtual import Member
from indextables.storage.store import Store

Spread = Callable[[Callable[[tuple[int, SplitRef]], "SplitState"], Sequence[tuple[int, SplitRef]]], list["SplitState"]]

_Splits = Remembered[tuple[Hashable, SplitRef], "SplitState"]

_AHEAD = frozenset({"idx", "fieldnorm", PAGES})
_MOST_AHEAD = 256 << 20


class SplitState:
    """One split of a searcher. Thread-safe. Raises DvCorrupt for a vector that does not fit."""

    def __init__(self, split: OpenedSplit, vector: bytes | None = None) -> None:
        self.split = split
        self.ref = split.ref if vector is None else msgspec.structs.replace(split.ref, vector=vector)
        self.num_rows = split.num_rows
        self._member: tuple[CachedSplit, Member] | None = None
        # A bit a row: what a process keeps of a table must not grow with every version of its vectors.
        self._alive = None if vector is None else delfile.words_of(dv.alive_mask(vector, self.num_rows, self.ref.key))
        self.vector_id = "" if vector is None else hashlib.sha256(vector).hexdigest()[:16]

    @property
    def reason(self) -> str | None:
        """Why the index cannot be used; None if it can."""
        return self.split.reason

    @reason.setter
    def reason(self, reason: str) -> None:
        self.split.reason = reason

    @property
    def usable(self) -> bool:
        return self.split.reason is None

    @property
    def cached(self) -> CachedSplit | None:
        return self.split.cached

    @property
    def plan(self) -> IndexPlan:
        return self.split.plan

    @property
    def field_ids(self) -> frozenset[str]:
        return self.split.field_ids

    @property
    def kind(self) -> str:
        """Equal for splits whose indexes answer the same leaves."""
        return self.split.kind

    @property
    def incomplete(self) -> dict[str, list[str]]:
        """The fields whose terms do not cover every row, with the reasons."""
        return self.split.incomplete

    @property
    def reader(self) -> SplitReader:
        """The rows, deleted ones too."""
        return self.split.reader

    @property
    def schema(self) -> pa.Schema:
        """The columns that the rows have."""
        return self.split.schema

    @property
    def alive(self) -> delfile.RowMask | None:
        """True for every row that is not deleted; None if none is."""
        return None if self._alive is None else delfile.mask_of(self._alive, self.num_rows)

    @property
    def alive_bytes(self) -> int:
        """What is held to know which rows are deleted."""
        return 0 if self._alive is None else self._alive.nbytes

    def load(self, components: frozenset[str], apart: Path | None = None) -> CachedSplit:
        """As `OpenedSplit.load`."""
        return self.split.load(components, apart)

    def renew(self) -> None:
        """As `OpenedSplit.renew`."""
        self.split.renew()

    def fetch(self, rows: Ints, columns: Sequence[str]) -> pa.Table:
        """As `OpenedSplit.fetch`."""
        return self.split.fetch(rows, columns)

    def all_rows(self, columns: Sequence[str]) -> pa.Table:
        """As `OpenedSplit.all_rows`."""
        return self.split.all_rows(columns)

    def member(self, mask: delfile.RowMask | None = None, cached: CachedSplit | None = None) -> Member:
        """The segment for a virtual index, with only the alive rows of `mask` (default: those without deletion).

        `cached` is what its caller has found whole: other threads load too, and may have replaced what is here.
        """
        cached = cached if cached is not None else self.cached
        if cached is None:
            raise AssertionError(self.ref.key)
        known = self._member
        if mask is None and known is not None and known[0] is cached:
            return known[1]
        made = self._as_member(self.split.segment(cached), mask)
        if mask is None:
            self._member = cached, made
        return made

    def rebuilt(
        self, plan: IndexPlan, wanted: Mapping[str, bool], mask: delfile.RowMask | None, apart: Path | None = None
    ) -> Member:
        """The same of a segment that is made from the rows: as `OpenedSplit.rebuilt`."""
        return self._as_member(self.split.rebuilt(plan, wanted, apart), mask)

    def _as_member(self, segment: Segment, mask: delfile.RowMask | None) -> Member:
        identity = f"{segment.key}:{self.vector_id}"
        words = self._alive
        if mask is not None:
            wanted = delfile.words_of(mask)
            words = wanted if words is None else wanted & words
            identity += ":" + hashlib.blake2b(wanted.tobytes(), digest_size=16).hexdigest()
        return Member(identity, segment.on_shelf, segment.whole, segment.tokens, words)


class States:
    """The splits that searchers have seen: what one version has loaded, no other one need.

    An entry is found by a scope, which says whose splits these are (table, store and credentials), and by the split as
    the log names it: key, size, id and offsets. Thread-safe.
    """

    def __init__(
        self, most: int = 16_384, max_bytes: int = 256 << 20, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """At most `most` splits with `max_bytes` of indexes, and as many vectors with as many bytes.

        Splits of searchers that somebody has are found besides; what nobody has goes after a while.
        """
        self._lock = Lock()
        least = max_bytes // most
        self._splits: _Splits = Remembered(max_bytes, lambda state: max(least, state.split.held_bytes), clock)
        self._deleted: _Splits = Remembered(max_bytes, lambda state: max(least, state.alive_bytes), clock)
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._splits) + len(self._deleted)

    @property
    def size_bytes(self) -> int:
        """What is held of indexes and vectors, or counted as held."""
        return self._splits.weight + self._deleted.weight

    def load(
        self, scope: Hashable, store: Store, cache: IndexCache, refs: Sequence[SplitRef], spread: Spread
    ) -> list[SplitState]:
        """The states of all splits, in order; `spread` maps a call over items, at once where it can.

        A scope has one store and one cache.
        """
        found = self._known(scope, refs)
        new = [(number, ref) for number, ref in enumerate(refs) if found[number] is None]
        ahead = _AHEAD if len(new) == 1 and _reads_ahead(store, new[0][1]) else frozenset()

        def one(item: tuple[int, SplitRef]) -> SplitState:
            ref = item[1]
            bare = ref if ref.vector is None else msgspec.structs.replace(ref, vector=None)
            known = self._splits.get((scope, bare))
            if known is None:
                # Who was slower takes what the other has made.
                known = self._splits.setdefault((scope, bare), SplitState(OpenedSplit(store, cache, bare, ahead)))
            if ref.vector is None:
                return known
            return self._deleted.setdefault((scope, ref), SplitState(known.split, ref.vector))

        for (number, _), state in zip(new, spread(one, new) if new else (), strict=True):
            found[number] = state
        return _apart([state for state in found if state is not None])

    def forget(self, which: Callable[[Hashable], bool]) -> int:
        """Forget the splits of these scopes; how many those are."""
        return sum(kept.forget(lambda key: which(key[0])) for kept in (self._splits, self._deleted))

    def _known(self, scope: Hashable, refs: Sequence[SplitRef]) -> list[SplitState | None]:
        found = [(self._splits if ref.vector is None else self._deleted).get((scope, ref)) for ref in refs]
        new = sum(state is None for state in found)
        with self._lock:
            self.misses += new
            self.hits += len(found) - new
        return found


def _apart(states: list[SplitState]) -> list[SplitState]:
    """The same with an object for each place, where a split is there twice."""
    if len(set(map(id, states))) == len(states):
        return states
    seen: set[int] = set()
    found = []
    for state in states:
        found.append(SplitState(state.split, state.ref.vector) if id(state) in seen else state)
        seen.add(id(state))
    return found


def _reads_ahead(store: Store, ref: SplitRef) -> bool:
    """True where what most searches need may be loaded before it is known that the split has a hit.

    That is a split that comes alone, as after an append, on a local disk, where the bytes that a miss leaves unread
    cost nothing, and small enough to be unpacked in memory all at once: two threads are done in half of the time.
    """
    section = (ref.footer_start or 0) - (ref.index_start or 0)
    return store.is_local and ref.has_offsets and 0 < section <= _MOST_AHEAD
