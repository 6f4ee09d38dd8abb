"""SELECT in Spark: this room finds our tables in a statement and rewrites it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.sql.spark.session import disable, enable, run_sql

__all__ = [
    "disable",
    "enable",
    "run_sql",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "session": ("disable", "enable", "run_sql"),
        },
    )
