"""Declares what an ALTER TABLE asks for, as values. Pure.

Methods, SQL and the shell make them, and one verb takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec
import pyarrow as pa

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
]


class NewColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column to add. `default` is SQL; it stands behind the column `after`, as the first one, or as the last."""

    field: pa.Field
    comment: str | None = None
    default: str | None = None
    first: bool = False
    after: str | None = None


class AddColumns(msgspec.Struct, frozen=True):
    """Columns that rows which are there hold their default in, or null."""

    columns: tuple[NewColumn, ...]
    operation = "ADD COLUMNS"

    @property
    def parameters(self) -> dict[str, str | None]:
        return {"columns": ", ".join(f"{new.field.name} {new.field.type}" for new in self.columns)}


class RenameColumn(msgspec.Struct, frozen=True):
    """Another name for a column."""

    column: str
    to: str
    operation = "RENAME COLUMN"

    @property
    def parameters(self) -> dict[str, str | None]:
        return {"oldColumnPath": self.column, "newColumnPath": self.to}


class DropColumns(msgspec.Struct, frozen=True):
    """Columns that the table loses; with `if_exists` one that is not there is no mistake."""

    columns: tuple[str, ...]
    if_exists: bool = False
    operation = "DROP COLUMNS"

    @property
    def parameters(self) -> dict[str, str | None]:
        return {"columns": ", ".join(self.columns)}


class AlterColumn(msgspec.Struct, frozen=True, kw_only=True):
    """What changes of a column: UNSET stays as it is. A comment or default of None is taken away; a default is SQL."""

    column: str
    type: pa.DataType | msgspec.UnsetType = msgspec.UNSET
    comment: str | msgspec.UnsetType | None = msgspec.UNSET
    nullable: bool | msgspec.UnsetType = msgspec.UNSET
    default: str | msgspec.UnsetType | None = msgspec.UNSET
    first: bool = False
    after: str | None = None
    operation = "CHANGE COLUMN"

    @property
    def parameters(self) -> dict[str, str | None]:
        told: dict[str, object] = {
            "type": self.type,
            "comment": self.comment,
            "nullable": self.nullable,
            "default": self.default,
        }
        given = {
            name: None if value is None else str(value) for name, value in told.items() if value is not msgspec.UNSET
        }
        return {"column": self.column, **given}


class AddConstraint(msgspec.Struct, frozen=True):
    """A rule that every row keeps from now on: `check` is SQL, which must be true."""

    name: str
    check: str
    operation = "ADD CONSTRAINT"

    @property
    def parameters(self) -> dict[str, str | None]:
        return {"name": self.name.lower(), "expr": self.check}


class DropConstraint(msgspec.Struct, frozen=True):
    """A rule to take away; with `if_exists` one that is not there is no mistake."""

    name: str
    if_exists: bool = False
    operation = "DROP CONSTRAINT"

    @property
    def parameters(self) -> dict[str, str | None]:
        return {"constraint": self.name.lower(), "ifExists": str(self.if_exists).lower()}


class SetProperties(msgspec.Struct, frozen=True):
    """Properties of the table, as texts."""

    properties: Mapping[str, str]
    operation = "SET TBLPROPERTIES"

    @property
    def parameters(self) -> dict[str, str | None]:
        return {"properties": msgspec.json.encode(dict(self.properties)).decode()}


class UnsetProperties(msgspec.Struct, frozen=True):
    """Properties to take away; with `if_exists` one that is not there is no mistake."""

    keys: tuple[str, ...]
    if_exists: bool = False
    operation = "UNSET TBLPROPERTIES"

    @property
    def parameters(self) -> dict[str, str | None]:
        return {"properties": ", ".join(self.keys), "ifExists": str(self.if_exists).lower()}


class SetIndexing(msgspec.Struct, frozen=True):
    """How columns are indexed from now on: a kind, `none` for not at all, or settings by name."""

    columns: Mapping[str, str | Mapping[str, object]]
    operation = "SET INDEXING"

    @property
    def parameters(self) -> dict[str, str | None]:
        return {"indexing": msgspec.json.encode(dict(self.columns)).decode()}


class SetNames(msgspec.Struct, frozen=True, kw_only=True):
    """Name and description for people to read: UNSET stays, None is taken away."""

    name: str | msgspec.UnsetType | None = msgspec.UNSET
    description: str | msgspec.UnsetType | None = msgspec.UNSET
    operation = "SET NAME AND DESCRIPTION"

    @property
    def parameters(self) -> dict[str, str | None]:
        told = {"name": self.name, "description": self.description}
        return {key: text for key, text in told.items() if not isinstance(text, msgspec.UnsetType)}


class UpgradeProtocol(msgspec.Struct, frozen=True):
    """Features, by name, that the table asks of its readers and writers from now on."""

    features: tuple[str, ...]
    operation = "UPGRADE PROTOCOL"

    @property
    def parameters(self) -> dict[str, str | None]:
        return {"features": ", ".join(self.features)}


Wish: TypeAlias = (
    AddColumns
    | RenameColumn
    | DropColumns
    | AlterColumn
    | AddConstraint
    | DropConstraint
    | SetProperties
    | UnsetProperties
    | SetIndexing
    | SetNames
    | UpgradeProtocol
)
