"""`Keys` joins rows of the table with rows of a source by equal keys: numbers of both sides, no object per row. Pure.

Keys are equal as SQL compares them: null equals nothing, NaN equals NaN, -0.0 equals 0.0, texts by their bytes. Each
column of the key has its distinct values of the source numbered; a key is the number of a combination of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.query.convert import as_array
from indextables.query.floats import one_pattern

__all__ = ["Ints", "Keys"]

Ints = npt.NDArray[np.int64]

_MOST_PAIRS = 1 << 20
"""Pairs that are made at a time, where keys are not unique; all those of one row always come together."""


class Keys:
    """The keys of the rows of a source, one array for each column of the key, all of one length."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self.columns = [_plain(values) for values in columns]
        self._values = [pc.unique(values).drop_null() for values in self.columns]
        self._known: list[Ints] = []
        """For each further column, the combinations with those before it that the source has, in order."""
        codes = self._numbers(self.columns, learn=True)
        rows = np.flatnonzero(codes >= 0)
        self._order = rows[np.argsort(codes[rows], kind="stable")]
        self._counts = np.bincount(codes[rows]).astype(np.int64)
        self._starts = np.cumsum(self._counts) - self._counts

    def values(self, column: int) -> pa.Array:
        """The distinct values of a column of the key, without null."""
        return self._values[column]

    def twice(self) -> tuple[int, int] | None:
        """Two rows of the source that have the same key; None if there are none."""
        several = np.flatnonzero(self._counts > 1)
        if not len(several):
            return None
        start = int(self._starts[several[0]])
        return int(self._order[start]), int(self._order[start + 1])

    def pairs(self, columns: Sequence[pa.Array]) -> Iterator[tuple[Ints, Ints]]:
        """The places of rows with these keys, in order, each with a row of the source that has the same key."""
        codes = self._numbers([_plain(values) for values in columns], learn=False)
        found = np.flatnonzero(codes >= 0)
        codes = codes[found]
        counts = self._counts[codes]
        ends = np.cumsum(counts)
        start = 0
        while start < len(found):
            before = ends[start] - counts[start]
            stop = max(int(np.searchsorted(ends, before + _MOST_PAIRS, side="right")), start + 1)
            part = slice(start, stop)
            within = np.arange(ends[stop - 1] - before) - np.repeat(ends[part] - counts[part] - before, counts[part])
            sources = self._order[np.repeat(self._starts[codes[part]], counts[part]) + within]
            yield np.repeat(found[part], counts[part]), sources
            start = stop

    def _numbers(self, columns: Sequence[pa.Array], *, learn: bool) -> Ints:
        """The number of each row's key, -1 where the source has none like it."""
        codes = _index(columns[0], self._values[0])
        for place, values in enumerate(columns[1:], start=1):
            more = _index(values, self._values[place])
            both = np.where((codes >= 0) & (more >= 0), codes * max(len(self._values[place]), 1) + more, -1)
            if learn:
                self._known.append(np.unique(both[both >= 0]))
            known = self._known[place - 1]
            where = np.searchsorted(known, both)
            hit = np.zeros(len(both), bool) if not len(known) else known[np.minimum(where, len(known) - 1)] == both
            codes = np.where(hit, where, -1)
        return codes


def _plain(values: pa.Array) -> pa.Array:
    """Values that are equal in SQL, with equal bits."""
    values = as_array(values)
    return one_pattern(pc.cast(values, pa.float32()) if pa.types.is_float16(values.type) else values)


def _index(values: pa.Array, known: pa.Array) -> Ints:
    if pa.types.is_null(values.type) or not len(known):
        return np.full(len(values), -1, np.int64)
    places = pc.index_in(values, value_set=known)
    return np.asarray(pc.fill_null(places, -1).to_numpy(zero_copy_only=False), np.int64)
