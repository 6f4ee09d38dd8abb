"""What does a search give? Row numbers and scores as columns, and what it cost to find them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32 | np.float64]


class Hits(msgspec.Struct, frozen=True):
    """Matching rows: for each, the place of its split in the list searched, its row number and its score."""

    splits: Ints
    rows: Ints
    scores: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, order: Ints) -> Hits:
        """The hits at these places, in this order."""
        return Hits(self.splits[order], self.rows[order], self.scores[order])

    def best_first(self) -> Hits:
        """By score, then by split and row, so that equal scores have one order."""
        return self.take(np.lexsort((self.rows, self.splits, -self.scores)))

    def in_place(self) -> Hits:
        """By split and row."""
        return self.take(np.lexsort((self.rows, self.splits)))


def no_hits() -> Hits:
    """None at all."""
    return Hits(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))


def join_hits(parts: Iterable[Hits]) -> Hits:
    """All of them, one part behind the other."""
    found = [part for part in parts if len(part)]
    if len(found) <= 1:
        return found[0] if found else no_hits()
    return Hits(
        np.concatenate([p.splits for p in found]),
        np.concatenate([p.rows for p in found]),
        np.concatenate([p.scores for p in found]),
    )


class Fallback(msgspec.Struct, frozen=True):
    """A split that was answered from its rows because its index could not be used."""

    key: str
    reason: str


class SearchMetrics(msgspec.Struct):
    """What one search did. `fallbacks` is not empty if answers cost more than they should: see `reindex`."""

    splits: int = 0
    splits_loaded: int = 0
    rows_scanned: int = 0
    fallbacks: list[Fallback] = msgspec.field(default_factory=list)


class SearchResult(msgspec.Struct):
    """`total` is how many rows match in all, where that was asked for."""

    hits: Hits
    total: int | None
    metrics: SearchMetrics
