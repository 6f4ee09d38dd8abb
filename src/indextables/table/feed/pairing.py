"""Decides what a row of the feed is: an insert, a delete, or one of the two images of an update. Pure.

A row is known by its id. Ids are sorted numpy arrays: no object per row, 8 bytes for each row whose id may pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["CHANGES", "Event", "Folded", "Ids", "Judge", "Kinds", "Paired", "fold", "is_image", "texts"]

Ids = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.int8]

CHANGES = ("insert", "delete", "update_preimage", "update_postimage")
INSERT, DELETE, PREIMAGE, POSTIMAGE = range(4)
_NONE = -1


class Kinds(NamedTuple):
    """What rows are: a place in `CHANGES` for each, -1 for one that is left out, and the version that it is told of."""

    codes: _Codes
    versions: Ids


class Judge(Protocol):
    """Tells what rows of a version are."""

    def kinds(self, version: int, ids: pa.Array | None, count: int, *, is_new: bool) -> Kinds:
        """Of `count` rows with these ids, None if nobody asked for them; a row without an id is never paired."""
        ...


class Paired(NamedTuple):
    """Each version for itself: `ids`, sorted, are on both sides and updates; of `skipped` nothing is told."""

    ids: Ids
    skipped: Ids

    @classmethod
    def of(cls, old: Sequence[Ids], new: Sequence[Ids]) -> Paired:
        """The ids that are on both sides."""
        shared = np.intersect1d(_joined(old), _joined(new), assume_unique=False)
        return cls(shared, shared[:0])

    def kinds(self, version: int, ids: pa.Array | None, count: int, *, is_new: bool) -> Kinds:
        alone, image = (INSERT, POSTIMAGE) if is_new else (DELETE, PREIMAGE)
        codes = np.full(count, alone, np.int8)
        if ids is not None and len(self.ids):
            numbers, known = _numbers(ids)
            codes[known & _among(numbers, self.ids)] = image
            codes[known & _among(numbers, self.skipped)] = _NONE
        return Kinds(codes, np.full(count, version, np.int64))


class Event(NamedTuple):
    """The ids that a version took and brought."""

    version: int
    old: Ids
    new: Ids


class Folded(NamedTuple):
    """A range of versions as one: for each id, sorted, where it was first and last touched.

    `was` says that it had a row before the range, `stays` that it has one behind it.
    """

    ids: Ids
    first: Ids
    last: Ids
    was: npt.NDArray[np.bool_]
    stays: npt.NDArray[np.bool_]

    @property
    def paired(self) -> Ids:
        """The ids with a row before and behind the range."""
        return self.ids[self.was & self.stays]

    def without(self, ids: Ids) -> Folded:
        """Nothing is told of these ids."""
        kept = ~_among(self.ids, ids)
        return Folded(self.ids[kept], self.first[kept], self.last[kept], self.was[kept], self.stays[kept])

    def kinds(self, version: int, ids: pa.Array | None, count: int, *, is_new: bool) -> Kinds:
        codes, versions = np.full(count, _NONE, np.int8), np.full(count, version, np.int64)
        if ids is None or not len(self.ids):
            return Kinds(codes, versions)
        numbers, known = _numbers(ids)
        known &= _among(numbers, self.ids)
        places = np.searchsorted(self.ids, numbers[known])
        if is_new:
            told = self.stays[places] & (self.last[places] == version)
            found = np.where(self.was[places], POSTIMAGE, INSERT)
        else:
            told = self.was[places] & (self.first[places] == version)
            found = np.where(self.stays[places], PREIMAGE, DELETE)
        codes[known] = np.where(told, found, _NONE)
        versions[known] = self.last[places]
        return Kinds(codes, versions)


def fold(events: Iterable[Event]) -> Folded:
    """What a range of versions did to each id. The events ascend by version."""
    ids, versions, olds, news = [], [], [], []
    for event in events:
        both = np.union1d(event.old, event.new)
        ids.append(both)
        versions.append(np.full(len(both), event.version, np.int64))
        olds.append(_among(both, np.sort(event.old)))
        news.append(_among(both, np.sort(event.new)))
    every = _joined(ids)
    order = np.argsort(every, kind="stable")
    every = every[order]
    starts = np.flatnonzero(np.concatenate([[True], every[1:] != every[:-1]])) if len(every) else every
    ends = np.append(starts[1:], len(every)) - 1 if len(every) else every
    version = _joined(versions)[order]
    flags = [np.concatenate([np.zeros(0, bool), *told])[order] for told in (olds, news)]
    return Folded(every[starts], version[starts], version[ends], flags[0][starts], flags[1][ends])


def is_image(codes: _Codes) -> npt.NDArray[np.bool_]:
    """Which rows are images of updates."""
    return np.asarray(codes >= PREIMAGE)


def texts(codes: _Codes) -> pa.Array:
    """The names of changes, all of which are told."""
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(CHANGES)).dictionary_decode()


def _joined(parts: Sequence[Ids]) -> Ids:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _numbers(ids: pa.Array) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """The ids as numbers, and which of them are known."""
    known = ids.is_valid().to_numpy(zero_copy_only=False)
    return np.asarray(ids.fill_null(-1).to_numpy(zero_copy_only=False), np.int64), known


def _among(numbers: Ids, ordered: Ids) -> npt.NDArray[np.bool_]:
    """Which numbers are among sorted ones."""
    if not len(ordered):
        return np.zeros(len(numbers), bool)
    places = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    return np.asarray(ordered[places] == numbers)
