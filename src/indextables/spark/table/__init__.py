"""`IndexTable`, its builder and its verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.spark.table.builder import IdentityGenerator
    from indextables.spark.table.indextable import IndexTable

__all__ = [
    "IdentityGenerator",
    "IndexTable",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "builder": ("IdentityGenerator",),
            "indextable": ("IndexTable",),
        },
    )
