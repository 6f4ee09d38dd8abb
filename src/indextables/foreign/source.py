"""Tells whose table lies at a place that has no log of ours, and gives it as something to read from."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from indextables.env import Env
from indextables.foreign.delta import DELTA_DIR, DeltaTable
from indextables.foreign.snapshot import ForeignSnapshot
from indextables.storage.store import LOG_DIR

__all__ = ["ForeignSource", "find_source"]


class ForeignSource(Protocol):
    """A table of another system."""

    @property
    def system(self) -> str:
        """Who wrote it."""
        ...

    def snapshot(self, version: int | None = None, timestamp_ms: int | None = None) -> ForeignSnapshot:
        """A version: by its number, the newest at a time, or the newest of all."""
        ...

    def history(self, limit: int | None = None) -> pa.Table:
        """The commits, newest first, in the columns of our own history."""
        ...


def find_source(env: Env) -> ForeignSource | None:
    """The table of another system at the root of the store; None if there is none, or anything of a log of ours.

    Raises StoreError.
    """
    if _has_any(env, LOG_DIR):
        return None
    return DeltaTable(env) if _has_any(env, DELTA_DIR) else None


def _has_any(env: Env, folder: str) -> bool:
    return next(iter(env.store.list_from(folder)), None) is not None
