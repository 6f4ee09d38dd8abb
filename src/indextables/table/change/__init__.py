"""Rows change: this room finds them, writes what comes in their place, and commits both in one version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.change import delete, update
    from indextables.table.change.landing import Terms
    from indextables.table.change.statement import ChangeReport

__all__ = ["ChangeReport", "Terms", "delete", "update"]

if not TYPE_CHECKING:
    __getattr__ = surface(__name__, {"landing": ("Terms",), "statement": ("ChangeReport",)})
