"""Delta tables: this room reads their log, of every kind, into live files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.foreign.delta.names import DELTA_DIR
    from indextables.foreign.delta.snapshot import DeltaSnapshot
    from indextables.foreign.delta.table import DeltaTable

__all__ = ["DELTA_DIR", "DeltaSnapshot", "DeltaTable"]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "names": ("DELTA_DIR",),
            "snapshot": ("DeltaSnapshot",),
            "table": ("DeltaTable",),
        },
    )
