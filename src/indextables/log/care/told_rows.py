"""Checks that a version tells the truth about ids and deletions of rows, as far as the log knows. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from indextables.errors import LogCorrupt
from indextables.lazy import pc
from indextables.log.commit import next_row_id
from indextables.log.wire import TableState, combined, tracks_rows

__all__ = ["wrong_ids", "wrong_vectors"]


def wrong_ids(state: TableState) -> Iterator[tuple[str | None, str]]:
    """The paths of live files whose rows have ids of others, or ids that will be given again; each with the reason.

    Ids that rows bring along stand in the files: here it is about those that are counted from `baseRowId` on.
    """
    if not tracks_rows(state.protocol):
        return
    files = state.files.select(["path", "baseRowId", "numRecords"])
    files = files.filter(pc.and_(files["baseRowId"].is_valid(), files["numRecords"].is_valid()))
    files = files.sort_by("baseRowId")
    starts, rows = (np.asarray(files[name].to_numpy(), np.int64) for name in ("baseRowId", "numRecords"))
    ends = starts + rows
    before = np.maximum.accumulate(ends)[:-1] if len(ends) else ends
    for place in (np.flatnonzero(starts[1:] < before) + 1).tolist():
        path = files["path"][place].as_py()
        told = f"{path} begins with row id {starts[place]}, but another live file has ids up to {before[place - 1] - 1}"
        yield path, f"{told}: changes of rows would be told of the wrong ones; restore the log from a copy"
    try:
        following = next_row_id(state.domains.values())
    except LogCorrupt as error:
        yield None, str(error)
        return
    highest = int(ends.max(initial=0))
    if highest > (following or 0):
        told = "is not there" if following is None else f"stands at {following}"
        path = files["path"][int(ends.argmax())].as_py()
        yield path, f"{path} has row ids up to {highest - 1}, but their counter {told}: they would be given again"


def wrong_vectors(state: TableState) -> Iterator[tuple[str, str]]:
    """The paths of live files of which more rows are deleted than there are, or nobody knows how many; with reasons."""
    files = state.files
    vectors = files["deletionVector"]
    if vectors.null_count == files.num_rows:
        return
    files = files.filter(vectors.is_valid())
    gone = pc.struct_field(combined(files["deletionVector"]), "cardinality").to_pylist()
    for path, rows, deleted in zip(files["path"].to_pylist(), files["numRecords"].to_pylist(), gone, strict=True):
        if rows is None:
            yield path, f"{path} has a deletion vector, but the log does not tell its rows: rebuild the log"
        elif not 0 <= deleted <= rows:
            yield (
                path,
                f"{path} has {rows} rows, and its deletion vector deletes {deleted}: restore the log from a copy",
            )
