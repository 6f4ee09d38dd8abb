"""ALTER TABLE as methods of an `IndexTable`: its columns, properties, names and protocol. No task runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from indextables.errors import InvalidArgument
from indextables.spark.session import arrow_schema
from indextables.spark.tasks import SparkHandle
from indextables.table.alter import (
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
    alter,
    columns_from_ddl,
    type_from_ddl,
)
from indextables.table.arguments import check_flag, check_mapping, check_names, check_text
from indextables.table.create import given_properties

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["Altering"]


class Altering:
    """Parameters, rules and errors are those of the embedded `Table`. Each method returns the version that has it."""

    _handle: SparkHandle

    def addColumns(self, columns: str | StructType) -> int:
        """Add columns: as text (`note string DEFAULT 'none' AFTER id`) or a StructType. As `Table.add_columns`."""
        if isinstance(columns, str):
            return self._altered(AddColumns(columns_from_ddl(check_text("columns", columns))))
        if not hasattr(columns, "fields"):
            message = f"columns are text such as 'note string' or a StructType, not {type(columns).__name__}"
            raise InvalidArgument(message)
        return self._altered(AddColumns(tuple(NewColumn(field=field) for field in arrow_schema(columns))))

    def renameColumn(self, column: str, to: str) -> int:
        """Give a column another name. As `Table.rename_column`."""
        return self._altered(RenameColumn(check_text("column", column), check_text("to", to)))

    def dropColumns(self, columns: str | Sequence[str], *, ifExists: bool = False) -> int:
        """Take columns out of the table. As `Table.drop_columns`."""
        names = check_names("columns", [columns] if isinstance(columns, str) else columns)
        return self._altered(DropColumns(tuple(names), check_flag("ifExists", ifExists)))

    def alterColumn(
        self,
        column: str,
        *,
        dataType: str | DataType | None = None,
        comment: str | msgspec.UnsetType | None = msgspec.UNSET,
        nullable: bool | None = None,
        default: str | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> int:
        """Change type, comment, NOT NULL or default of a column; a default is SQL. As `Table.alter_column`."""
        kind: Any = dataType if dataType is None or isinstance(dataType, str) else dataType.simpleString()
        wish = AlterColumn(
            column=check_text("column", column),
            type=msgspec.UNSET if kind is None else type_from_ddl(check_text("dataType", kind)),
            comment=comment if comment in (None, msgspec.UNSET) else check_text("comment", comment),
            nullable=msgspec.UNSET if nullable is None else check_flag("nullable", nullable),
            default=default if default in (None, msgspec.UNSET) else check_text("default", default),
        )
        return self._altered(wish)

    def addConstraint(self, name: str, check: str) -> int:
        """Refuse rows for which a condition is not true, or null, from now on. As `Table.add_constraint`."""
        return self._altered(AddConstraint(check_text("name", name), check_text("check", check)))

    def dropConstraint(self, name: str, *, ifExists: bool = False) -> int:
        """Take a constraint away. As `Table.drop_constraint`."""
        return self._altered(DropConstraint(check_text("name", name), check_flag("ifExists", ifExists)))

    def setProperties(self, properties: Mapping[str, str]) -> int:
        """Set properties of the table. As `Table.set_properties`."""
        return self._altered(SetProperties(given_properties(properties)))

    def unsetProperties(self, keys: str | Sequence[str], *, ifExists: bool = False) -> int:
        """Take properties away. As `Table.unset_properties`."""
        names = check_names("keys", [keys] if isinstance(keys, str) else keys)
        return self._altered(UnsetProperties(tuple(names), check_flag("ifExists", ifExists)))

    def setIndexing(self, indexing: Mapping[str, str | Mapping[str, object]]) -> int:
        """Index columns in another way from now on, or not any more. As `Table.set_indexing`."""
        return self._altered(SetIndexing(check_mapping("indexing", indexing)))

    def setName(self, name: str | None) -> int:
        """Set the name for people to read, None for none."""
        return self._altered(SetNames(name=None if name is None else check_text("name", name)))

    def setDescription(self, description: str | None) -> int:
        """Set the description for people to read, None for none."""
        told = None if description is None else check_text("description", description)
        return self._altered(SetNames(description=told))

    def upgradeProtocol(self, features: str | Sequence[str]) -> int:
        """Ask readers and writers for features, by name. As `Table.upgrade_protocol`."""
        names = check_names("features", [features] if isinstance(features, str) else features)
        return self._altered(UpgradeProtocol(tuple(names)))

    def _altered(self, wish: Wish) -> int:
        return alter(self._handle.log(), wish)
