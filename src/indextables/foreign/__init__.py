"""What do tables of other systems hold? This room reads them; it never writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.foreign.columns import kept_field, plain_field
    from indextables.foreign.delta import DeltaTable
    from indextables.foreign.iceberg import IcebergTable
    from indextables.foreign.quickwit import check_types, read_bundle_rows
    from indextables.foreign.rows import ForeignFile, live_rows_of, read_rows_of
    from indextables.foreign.snapshot import AddedFile, ForeignSnapshot
    from indextables.foreign.source import ForeignSource, find_source

__all__ = [
    "AddedFile",
    "DeltaTable",
    "ForeignFile",
    "ForeignSnapshot",
    "ForeignSource",
    "IcebergTable",
    "check_types",
    "find_source",
    "kept_field",
    "live_rows_of",
    "plain_field",
    "read_bundle_rows",
    "read_rows_of",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "columns": ("kept_field", "plain_field"),
            "delta": ("DeltaTable",),
            "iceberg": ("IcebergTable",),
            "quickwit": ("check_types", "read_bundle_rows"),
            "rows": ("ForeignFile", "live_rows_of", "read_rows_of"),
            "snapshot": ("AddedFile", "ForeignSnapshot"),
            "source": ("ForeignSource", "find_source"),
        },
    )
