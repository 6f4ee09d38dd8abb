"""The data source `indextables`: batch and streaming reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.spark.source.save import write
    from indextables.spark.source.source import IndexTablesSource

__all__ = [
    "IndexTablesSource",
    "write",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "save": ("write",),
            "source": ("IndexTablesSource",),
        },
    )
