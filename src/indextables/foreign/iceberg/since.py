"""Tells which files an Iceberg table got between two snapshots, where they only added rows or wrote them anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from indextables.foreign.iceberg.files import Locations
from indextables.foreign.snapshot import Added, AddedFile

__all__ = ["added_since"]

_APPEND, _REPLACE = "append", "replace"


def added_since(snapshots: Iterable[Any], since: int, upto: int, reading: Any, places: Locations) -> Added | None:
    """What the snapshots after `since`, up to `upto`, brought; files that only hold rows of others anew do not count.

    None where one of them may have taken rows away, and where `since` is not one that `upto` comes from. Raises
    PathEscape, StoreError, and what pyiceberg raises.
    """
    chain = _between({int(one.snapshot_id): one for one in snapshots}, since, upto)
    if chain is None or any(_operation(one) not in (_APPEND, _REPLACE) for one in chain):
        return None
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

    found: list[AddedFile] = []
    for snapshot in chain:
        number = int(snapshot.snapshot_id)
        for manifest in snapshot.manifests(reading) if _operation(snapshot) == _APPEND else ():
            if manifest.added_snapshot_id != number:
                continue
            if manifest.content != ManifestContent.DATA:
                return None
            for entry in manifest.fetch_manifest_entry(reading, discard_deleted=False):
                if entry.status == ManifestEntryStatus.DELETED:
                    return None
                if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == number:
                    found.append(AddedFile(number, places.key(entry.data_file.file_path)))
    return Added(found)


def _between(known: dict[int, Any], since: int, upto: int) -> list[Any] | None:
    """The snapshots after one up to another, oldest first; None if the one is no ancestor that is left."""
    chain: list[Any] = []
    at: int | None = upto
    while at != since:
        snapshot = None if at is None else known.get(at)
        if snapshot is None or len(chain) == len(known):
            return None
        chain.append(snapshot)
        at = snapshot.parent_snapshot_id
    return chain[::-1]


def _operation(snapshot: Any) -> str | None:
    summary = snapshot.summary
    return None if summary is None else str(getattr(summary.operation, "value", summary.operation))
