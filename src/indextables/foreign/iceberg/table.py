"""`IcebergTable` is an Iceberg table as something to read from: snapshots, times, history."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from indextables.env import Env
from indextables.errors import VersionNotFound
from indextables.foreign.iceberg.files import Locations, guarded, newest_metadata, read_metadata, store_io
from indextables.foreign.iceberg.since import added_since
from indextables.foreign.iceberg.snapshot import IcebergSnapshot
from indextables.foreign.snapshot import Added
from indextables.log.read import HISTORY_SCHEMA

__all__ = ["IcebergTable"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MOST_MS = 253_402_300_799_999


class IcebergTable:
    """The Iceberg table at the root of a store, as its newest metadata file tells it. Nothing is ever written."""

    system = "Iceberg"

    def __init__(self, env: Env) -> None:
        self._env = env

    def snapshot(self, version: int | None = None, timestamp_ms: int | None = None) -> IcebergSnapshot:
        """A snapshot: by its id, the one that was current at a time, or the current one.

        Raises NotInstalled without pyiceberg, VersionNotFound, LogCorrupt, NotSupported, StoreError.
        """
        metadata = self._metadata()
        url = self._env.store.url
        with guarded(url, "the list of snapshots"):
            wanted = metadata.current_snapshot_id if version is None else version
            if timestamp_ms is not None:
                wanted = _at(metadata, timestamp_ms, url)
            known = {int(one.snapshot_id): one for one in metadata.snapshots}
        if not known and wanted in (None, 0, -1):
            return IcebergSnapshot(self._env, metadata, None)
        if wanted not in known:
            if version is None and timestamp_ms is None and wanted in (None, -1):
                return IcebergSnapshot(self._env, metadata, None)
            message = f"the Iceberg table at {url} has no snapshot {wanted}: history() lists those that it has"
            raise VersionNotFound(message, version=wanted, url=url)
        return IcebergSnapshot(self._env, metadata, known[wanted])

    def history(self, limit: int | None = None) -> pa.Table:
        """The snapshots that are left, newest first; `version` is the id of each. Raises as `snapshot`."""
        metadata = self._metadata()
        with guarded(self._env.store.url, "the list of snapshots"):
            told = sorted(
                metadata.snapshots, key=lambda one: (one.sequence_number or 0, one.timestamp_ms), reverse=True
            )
            rows = [_row(one) for one in told[:limit]]
        return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)

    def added_since(self, since: int, upto: int) -> Added | None:
        """The files that brought rows after snapshot `since`, up to `upto`; None where the snapshots do not tell.

        Raises as `snapshot`.
        """
        store, metadata = self._env.store, self._metadata()
        places = Locations(store, metadata.location)
        with guarded(store.url, "the list of snapshots"):
            return added_since(metadata.snapshots, since, upto, store_io(store, places), places)

    def _metadata(self) -> Any:
        store = self._env.store
        return read_metadata(store, newest_metadata(store))


def _at(metadata: Any, timestamp_ms: int, url: str) -> int:
    before = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= timestamp_ms]
    if not before:
        message = f"the Iceberg table at {url} has no snapshot that is so old: give a later time"
        raise VersionNotFound(message, url=url, timestamp=timestamp_ms)
    return int(before[-1].snapshot_id)


def _row(snapshot: Any) -> dict[str, object]:
    summary = snapshot.summary
    told = dict(summary.additional_properties) if summary is not None else {}
    operation = None if summary is None else getattr(summary.operation, "value", str(summary.operation))
    return {
        "version": int(snapshot.snapshot_id),
        "timestamp": _EPOCH + dt.timedelta(milliseconds=min(max(snapshot.timestamp_ms, 0), _MOST_MS)),
        "operation": operation,
        "operationParameters": None,
        "operationMetrics": [(str(key), str(value)) for key, value in told.items()],
        "readVersion": snapshot.parent_snapshot_id,
        "isolationLevel": None,
        "isBlindAppend": operation == "append",
        "engineInfo": told.get("engine-name"),
        "userMetadata": None,
        "user": None,
        "token": None,
    }
