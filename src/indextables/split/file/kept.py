"""Keeps pages that were decoded lately, so that hits near each other, or asked for again, cost no decoding.

What is kept are Arrow arrays as pyarrow decoded them, several pages in one; the least recently used go when their
bytes exceed the limit. Rows of a split never change, so that nothing kept is ever wrong; an `owner` names a split and
the bytes it has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.process import Lock
from indextables.split.file.fetch import (
    Part,
    by_units,
    decode_part,
    distinct,
    distinct_places,
    index_array,
    part_of,
    ranges_of,
)
from indextables.split.file.page_map import Pages, Units

__all__ = ["KeptPages", "fetch_kept"]

_Ints = npt.NDArray[np.int64]
_Place = tuple[pa.Array, int]
_Ranges = list[tuple[int, int]]

MOST_ROWS = 256
"""A fetch of more rows is a scan: it would push out what searches come back for."""
_FEW_ROWS = 64
_OBJECT_BYTES = 1 << 10
"""What an array takes beside its values."""


class KeptPages:
    """Decoded units by owner, column and number, of at most `max_bytes` together. Safe for threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._lock = Lock()
        self._places: dict[tuple[str, int], dict[int, _Place]] = {}
        self._arrays: OrderedDict[int, tuple[pa.Array, int, tuple[str, int], list[int]]] = OrderedDict()
        self._bytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        """How many arrays are kept; one may hold several units."""
        return len(self._arrays)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def find(self, owner: str, column: int, units: Sequence[int]) -> list[_Place | None]:
        """For each unit the array that holds it and where it begins there, if it is kept."""
        with self._lock:
            held = self._places.get((owner, column))
            if held is None:
                self.misses += len(units)
                return [None] * len(units)
            found = [held.get(unit) for unit in units]
            missed = found.count(None)
            self.misses += missed
            self.hits += len(units) - missed
            for place in found:
                if place is not None:
                    self._arrays.move_to_end(id(place[0]))
            return found

    def keep(self, owner: str, column: int, units: Sequence[int], array: pa.Array, starts: Sequence[int]) -> None:
        """Keep an array that holds these units, each from its start on."""
        size = array.nbytes + _OBJECT_BYTES
        if size > self.max_bytes // 4:
            return
        with self._lock:
            self._arrays[id(array)] = (array, size, (owner, column), list(units))
            held = self._places.setdefault((owner, column), {})
            held.update((unit, (array, start)) for unit, start in zip(units, starts, strict=True))
            self._bytes += size
            while self._bytes > self.max_bytes:
                self._drop_oldest()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._places.clear()
            self._arrays.clear()
            self._bytes = 0

    def forget(self, which: Callable[[str], bool]) -> int:
        """Forget what some owners have; how many arrays those are."""
        with self._lock:
            gone = [name for name, (_, _, (owner, _), _) in self._arrays.items() if which(owner)]
            for name in gone:
                self._drop(*self._arrays.pop(name))
        return len(gone)

    def _drop_oldest(self) -> None:
        self._drop(*self._arrays.popitem(last=False)[1])

    def _drop(self, array: pa.Array, size: int, home: tuple[str, int], units: list[int]) -> None:
        held = self._places.get(home, {})
        for unit in units:
            # Another thread may have decoded the same unit since: then it is that thread's array that is found.
            if unit in held and held[unit][0] is array:
                del held[unit]
        if not held:
            self._places.pop(home, None)
        self._bytes -= size


def fetch_kept(
    pages: Pages,
    kept: KeptPages,
    owner: str,
    rows: _Ints,
    columns: Sequence[int],
    read: Callable[[_Ranges], Sequence[bytes]],
) -> pa.Table:
    """As `plan_fetch` and `assemble`: these rows, in this order, of these columns. Only what is not kept is read.

    `read` is called once, or not at all. Raises SplitCorrupt.
    """
    wanted, order = distinct_places(rows)
    sets = [_Wanted(units, coded, members, wanted) for (units, coded), members in by_units(pages, columns)]
    for one in sets:
        one.look_up(kept, owner)
    parts = [part for one in sets if (part := one.lacking()) is not None]
    if parts:
        ranges = ranges_of(pages, parts)
        data = read(ranges)
        for one in sets:
            part = one.lacking()
            if part is not None:
                one.fill(kept, owner, part, decode_part(pages, part, ranges, data))
    arrays = {column: array for one in sets for column, array in one.arrays(order).items()}
    schema = pa.schema([pages.schema.field(c) for c in columns])
    return pa.Table.from_arrays([arrays[c] for c in columns], schema=schema)


class _Wanted:
    """The units that hold the wanted rows, of columns that share them."""

    def __init__(self, units: Units, coded: bool, columns: list[int], wanted: _Ints) -> None:  # noqa: FBT001 - private
        self.units = units
        self.coded = coded
        self.columns = columns
        unit_of = np.searchsorted(units.starts, wanted, side="right") - 1
        self.picked = distinct(unit_of)
        self.numbers: list[int] = self.picked.tolist()
        self.place_of = np.searchsorted(self.picked, unit_of)
        self.local = wanted - units.starts[unit_of]
        self.places: dict[int, list[_Place | None]] = {}
        self._lacking: Part | None = None

    def look_up(self, kept: KeptPages, owner: str) -> None:
        """Take what is kept, and plan to read the rest."""
        lacking: set[int] = set()
        without: list[int] = []
        for column in self.columns:
            found = self.places[column] = kept.find(owner, column, self.numbers)
            if None in found:
                without.append(column)
                lacking.update(unit for unit, place in zip(self.numbers, found, strict=True) if place is None)
        if without:
            units = np.array(sorted(lacking), np.int64)
            self._lacking = part_of(without, self.units, units, coded=self.coded)

    def lacking(self) -> Part | None:
        """What has to be read."""
        return self._lacking

    def fill(self, kept: KeptPages, owner: str, part: Part, table: pa.Table) -> None:
        """Keep what was read, and use it."""
        units, starts = part.picked.tolist(), part.first_rows[:-1].tolist()
        for column, values in zip(part.columns, table.columns, strict=True):
            array = values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
            kept.keep(owner, column, units, array, starts)
            fresh: dict[int, _Place] = {unit: (array, start) for unit, start in zip(units, starts, strict=True)}
            places = self.places[column]
            self.places[column] = [fresh.get(unit, place) for unit, place in zip(self.numbers, places, strict=True)]

    def arrays(self, order: _Ints) -> dict[int, pa.Array]:
        """The wanted rows of each column, in the order asked for."""
        if len(self.numbers) == len(self.local) or len(order) <= _FEW_ROWS:
            # The few hits of a search, mostly in a unit each: slices in order, copied once. Taking rows would also
            # load Arrow's compute functions, which costs a first search more than the search itself.
            picks = list(zip(self.place_of[order].tolist(), self.local[order].tolist(), strict=True))
            return {
                column: pa.concat_arrays([array.slice(start + at, 1) for (array, start), at in _of(places, picks)])
                for column, places in self.places.items()
            }
        runs = np.split(self.local, np.flatnonzero(self.place_of[1:] != self.place_of[:-1]) + 1)
        back = index_array(order)
        return {
            column: pa.concat_arrays([_taken(place, run) for place, run in zip(places, runs, strict=True)]).take(back)
            for column, places in self.places.items()
        }


def _taken(place: _Place | None, rows: _Ints) -> pa.Array:
    if place is None:
        raise AssertionError("a unit was neither kept nor read")
    array, start = place
    return array.slice(start + int(rows[0]), 1) if len(rows) == 1 else array.take(index_array(start + rows))


def _of(places: list[_Place | None], picks: list[tuple[int, int]]) -> list[tuple[_Place, int]]:
    return [(place, at) for number, at in picks if (place := places[number]) is not None]
