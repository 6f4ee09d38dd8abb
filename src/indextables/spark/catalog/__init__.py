"""Tables of ours in Spark's session catalog: an entry has the path and the columns, the log is the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.spark.catalog.entries import check_free, drop_named, full_name, is_taken, make_entry, renew_entry
    from indextables.spark.catalog.making import IfThere, NewTable, make_table
    from indextables.spark.catalog.sessions import install, uninstall

__all__ = [
    "IfThere",
    "NewTable",
    "check_free",
    "drop_named",
    "full_name",
    "install",
    "is_taken",
    "make_entry",
    "make_table",
    "renew_entry",
    "uninstall",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "entries": ("check_free", "drop_named", "full_name", "is_taken", "make_entry", "renew_entry"),
            "making": ("IfThere", "NewTable", "make_table"),
            "sessions": ("install", "uninstall"),
        },
    )
