"""Iceberg tables: pyiceberg tells what a snapshot has, and this room reads the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.foreign.iceberg.files import METADATA_DIR, is_metadata
    from indextables.foreign.iceberg.table import IcebergTable

__all__ = ["METADATA_DIR", "IcebergTable", "is_metadata"]

if not TYPE_CHECKING:
    __getattr__ = surface(__name__, {"files": ("METADATA_DIR", "is_metadata"), "table": ("IcebergTable",)})
