"""Rows that were deleted from the sources while they were merged: which rows of the merged files are they? Pure.

A merge without sorting writes the live rows of its sources one after the other. So the row of a source that is the
n-th of those that were live then is the n-th of its part of the output.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from indextables.split.file import dv

__all__ = ["SourceRows", "carried"]

_Rows = npt.NDArray[np.int64]


class SourceRows(msgspec.Struct, frozen=True):
    """A source of a merge: its rows, the vector with which it was read, and the one that it has now."""

    path: str
    num_rows: int
    read: bytes | None
    now: bytes | None


def carried(sources: Sequence[SourceRows], outputs: Sequence[int]) -> list[_Rows] | None:
    """The rows of each output (given by its number of rows) that are deleted by now.

    None if a source had rows deleted that are there again: those rows are in no output. Raises DvCorrupt.
    """
    deleted: list[_Rows] = []
    written = 0
    for source in sources:
        was_live = dv.alive_mask(source.read, source.num_rows, source.path)
        is_live = dv.alive_mask(source.now, source.num_rows, source.path)
        if (is_live & ~was_live).any():
            return None
        deleted.append(np.flatnonzero(~is_live[was_live]) + written)
        written += int(was_live.sum())
    if written != sum(outputs):
        return None
    rows = np.concatenate(deleted) if deleted else np.empty(0, np.int64)
    ends = np.cumsum(outputs)
    starts = ends - np.asarray(outputs)
    return [rows[(rows >= start) & (rows < end)] - start for start, end in zip(starts, ends, strict=True)]
