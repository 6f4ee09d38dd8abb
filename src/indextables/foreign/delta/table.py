"""`DeltaTable` is a Delta table as something to read from: versions, times, history."""

from __future__ import annotations

import pyarrow as pa

from indextables.env import Env
from indextables.foreign.delta.history import delta_history, delta_version_at
from indextables.foreign.delta.log import DeltaLog
from indextables.foreign.delta.since import added_since
from indextables.foreign.delta.snapshot import DeltaSnapshot
from indextables.foreign.snapshot import Added

__all__ = ["DeltaTable"]


class DeltaTable:
    """The Delta table at the root of a store. Nothing is ever written."""

    system = "Delta"

    def __init__(self, env: Env) -> None:
        self._env = env
        self._log = DeltaLog(env)

    def snapshot(self, version: int | None = None, timestamp_ms: int | None = None) -> DeltaSnapshot:
        """A version: by its number, the newest at a time, or the newest of all. Raises as `DeltaLog.read`."""
        if timestamp_ms is not None:
            version = delta_version_at(self._log, self._log.read().metadata, timestamp_ms)
        return DeltaSnapshot(self._env, self._log.read(version))

    def history(self, limit: int | None = None) -> pa.Table:
        """The commits whose files are there, newest first. Raises LogError, StoreError."""
        return delta_history(self._log, self._log.read().metadata, limit)

    def added_since(self, since: int, upto: int) -> Added:
        """The files that brought rows after version `since`, up to `upto`. Raises as `foreign.delta.since`."""
        return added_since(self._log, since, upto)
