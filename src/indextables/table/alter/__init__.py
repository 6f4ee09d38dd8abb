"""A table changes: this room decides what a wish makes of columns, properties and protocol, and commits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indextables.lazy import surface

if TYPE_CHECKING:
    from indextables.table.alter.columns import with_defaults
    from indextables.table.alter.ddl import columns_from_ddl, type_from_ddl
    from indextables.table.alter.properties import indexed, settled
    from indextables.table.alter.tracking import enable_row_tracking
    from indextables.table.alter.verb import alter
    from indextables.table.alter.wishes import (
        AddColumns,
        AddConstraint,
        AlterColumn,
        DropColumns,
        DropConstraint,
        NewColumn,
        RenameColumn,
        SetIndexing,
        SetNames,
        SetProperties,
        UnsetProperties,
        UpgradeProtocol,
        Wish,
    )

__all__ = [
    "AddColumns",
    "AddConstraint",
    "AlterColumn",
    "DropColumns",
    "DropConstraint",
    "NewColumn",
    "RenameColumn",
    "SetIndexing",
    "SetNames",
    "SetProperties",
    "UnsetProperties",
    "UpgradeProtocol",
    "Wish",
    "alter",
    "columns_from_ddl",
    "enable_row_tracking",
    "indexed",
    "settled",
    "type_from_ddl",
    "with_defaults",
]

if not TYPE_CHECKING:
    __getattr__ = surface(
        __name__,
        {
            "columns": ("with_defaults",),
            "ddl": (
                "columns_from_ddl",
                "type_from_ddl",
            ),
            "properties": ("indexed", "settled"),
            "tracking": ("enable_row_tracking",),
            "verb": ("alter",),
            "wishes": (
                "AddColumns",
                "AddConstraint",
                "AlterColumn",
                "DropColumns",
                "DropConstraint",
                "NewColumn",
                "RenameColumn",
                "SetIndexing",
                "SetNames",
                "SetProperties",
                "UnsetProperties",
                "UpgradeProtocol",
                "Wish",
            ),
        },
    )
