"""Tells which files a Delta table got between two versions, and whether it lost rows meanwhile."""

from __future__ import annotations

import pyarrow as pa

from indextables.errors import VersionExpired
from indextables.foreign.delta.actions import decode_commits
from indextables.foreign.delta.log import DeltaLog
from indextables.foreign.snapshot import Added, AddedFile
from indextables.lazy import pc
from indextables.log.wire import canonical_paths, combined

__all__ = ["added_since"]

_AT_ONCE = 256


def added_since(log: DeltaLog, since: int, upto: int) -> Added:
    """What versions `since + 1` to `upto` brought. Files that only hold rows of others anew (OPTIMIZE) do not count.

    Raises VersionExpired where a version file of them is gone, LogCorrupt, PathEscape, StoreError.
    """
    listing = log.list_all()
    wanted = range(since + 1, upto + 1)
    gone = next((version for version in wanted if version not in listing.commits), None)
    if gone is not None:
        message = f"version {gone} of the Delta table at {log.url} is gone, as its log was cleaned up"
        raise VersionExpired(message, version=gone, url=log.url)
    found: list[AddedFile] = []
    for at in range(0, len(wanted), _AT_ONCE):
        for version, data in log.commits(listing, wanted[at : at + _AT_ONCE]):
            actions = decode_commits([(version, data)])
            if _changing(actions["remove"]).length():
                return Added(found, version)
            paths = combined(pc.struct_field(_changing(actions["add"]), "path"))
            if len(paths):
                found += [AddedFile(version, path) for path in canonical_paths(paths, log.url).to_pylist()]
    return Added(found)


def _changing(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The actions that change the rows of the table; one that does not say whether it does, does."""
    actions = column.drop_null()
    return actions.filter(pc.fill_null(pc.struct_field(actions, "dataChange"), True))  # noqa: FBT003 - a value
