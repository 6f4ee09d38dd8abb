"""`Altering` changes what a table is: its columns, properties, names and protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from indextables.embedded.handle import Handle
from indextables.errors import InvalidArgument
from indextables.lazy import LazyModule
from indextables.query.stored import default_text
from indextables.table.arguments import check_flag, check_mapping, check_names, check_note, check_text

if TYPE_CHECKING:
    from indextables.sql import command as command_room
    from indextables.table import alter as alter_room
    from indextables.table import create as create_verb
    from indextables.table.alter import NewColumn, Wish
else:
    command_room = LazyModule("indextables.sql.command")
    alter_room = LazyModule("indextables.table.alter")
    create_verb = LazyModule("indextables.table.create")

__all__ = ["Altering"]


class Altering(Handle):
    """The methods of a table that change its metadata. They run on the newest version, and the handle follows.

    None of them writes a data file. `alter_column(nullable=False)` and `add_constraint` read those whose statistics do
    not prove that their rows keep the rule, the others read none. Each returns the version that has what was asked
    for, and raises CommitConflict and CommitStateUnknown as every write does.
    """

    def alter(self, change: str, *, user_metadata: str | None = None) -> int:
        """Change the table as the words behind ALTER TABLE say: `RENAME COLUMN a TO b`. The methods below do the same.

        Raises CommandSyntaxError for words that are none of these, and what the method for them raises.
        """
        return self._altered(command_room.wish_of(check_text("change", change)), user_metadata)

    def add_columns(
        self, columns: str | pa.Schema | pa.Field | Sequence[pa.Field], *, user_metadata: str | None = None
    ) -> int:
        """Add columns. Rows that are there hold their default in them, or null; no file is written anew.

        Args:
            columns: As text, `note string DEFAULT 'none' COMMENT 'why' AFTER id, size bigint FIRST`, or as fields of
                pyarrow, whose metadata may have a `comment`.
            user_metadata: A note for the history.

        Raises:
            InvalidArgument: A column of that name is there, or the default is none of its type.
            SchemaInvalid: No table can have such a column.
        """
        return self._altered(alter_room.AddColumns(_new_columns(columns)), user_metadata)

    def rename_column(self, column: str, to: str, *, user_metadata: str | None = None) -> int:
        """Give a column another name. What is said of it in `indexing.*` follows.

        Raises InvalidArgument for a column that is not there or partitions the table, and for a name that is taken.
        """
        wish = alter_room.RenameColumn(check_text("column", column), check_text("to", to))
        return self._altered(wish, user_metadata)

    def drop_columns(
        self, columns: str | Sequence[str], *, if_exists: bool = False, user_metadata: str | None = None
    ) -> int:
        """Take columns out of the table. Files keep the values until they are merged; older versions show them.

        Raises InvalidArgument for a column that is not there or partitions the table, and for the last one.
        """
        names = check_names("columns", [columns] if isinstance(columns, str) else columns)
        return self._altered(alter_room.DropColumns(tuple(names), check_flag("if_exists", if_exists)), user_metadata)

    def alter_column(
        self,
        column: str,
        *,
        type: str | pa.DataType | None = None,  # noqa: A002 - as SQL calls it
        comment: str | msgspec.UnsetType | None = msgspec.UNSET,
        nullable: bool | None = None,
        default: Any = msgspec.UNSET,
        user_metadata: str | None = None,
    ) -> int:
        """Change a column; what is not given stays.

        Args:
            column: The column.
            type: A wider type: byte to short to int to long, float to double, a decimal to one with more digits in
                front, byte, short and int to double. As text (`bigint`) or a type of pyarrow.
            comment: A text for people, None to have none.
            nullable: False refuses nulls from now on; rows that are there are looked at first, as far as statistics do
                not prove that none is null.
            default: What rows get that are written without the column: a text is SQL, any other value is taken as it
                is, None is none. Rows that are there keep what they have.
            user_metadata: A note for the history.

        Raises:
            InvalidArgument: The type is no wider one, the default is none of the type, or a row is null.
        """
        wish = alter_room.AlterColumn(
            column=check_text("column", column),
            type=msgspec.UNSET if type is None else _type(type),
            comment=comment if comment in (None, msgspec.UNSET) else check_text("comment", comment),
            nullable=msgspec.UNSET if nullable is None else check_flag("nullable", nullable),
            default=_default(default),
        )
        return self._altered(wish, user_metadata)

    def add_constraint(self, name: str, check: str, *, user_metadata: str | None = None) -> int:
        """Refuse rows for which a condition is not true, from now on; a row for which it is null is refused too.

        Rows that are there are looked at first, as far as statistics do not prove that they keep it.

        Args:
            name: What the constraint is called, in any case.
            check: A SQL predicate about one row: `size >= 0 AND status IN ('new', 'done')`. Times without a zone are
                in UTC.
            user_metadata: A note for the history.

        Raises:
            ConstraintViolation: It is not true for a row that is there; tells how many, and one of them.
            InvalidArgument: There is another constraint of that name, or the text is no predicate about the columns.
        """
        wish = alter_room.AddConstraint(check_text("name", name), check_text("check", check))
        return self._altered(wish, user_metadata)

    def drop_constraint(self, name: str, *, if_exists: bool = False, user_metadata: str | None = None) -> int:
        """Take a constraint away. Raises InvalidArgument for one that is not there, unless `if_exists`."""
        wish = alter_room.DropConstraint(check_text("name", name), check_flag("if_exists", if_exists))
        return self._altered(wish, user_metadata)

    def set_properties(self, properties: Mapping[str, object], *, user_metadata: str | None = None) -> int:
        """Set properties of the table: options, and anything else that you want to note.

        Raises InvalidArgument for a value that an option cannot have, for what the library keeps itself, and for what
        Delta means by a key and a table of ours does not do.
        """
        given: Any = properties
        wish = alter_room.SetProperties(create_verb.given_properties(given))
        return self._altered(wish, user_metadata)

    def unset_properties(
        self, keys: str | Sequence[str], *, if_exists: bool = False, user_metadata: str | None = None
    ) -> int:
        """Take properties away. Raises InvalidArgument for one that is not there, unless `if_exists`."""
        names = check_names("keys", [keys] if isinstance(keys, str) else keys)
        wish = alter_room.UnsetProperties(tuple(names), check_flag("if_exists", if_exists))
        return self._altered(wish, user_metadata)

    def set_indexing(
        self, indexing: Mapping[str, str | Mapping[str, object]], *, user_metadata: str | None = None
    ) -> int:
        """Index columns in another way from now on, or not any more.

        Answers are exact at once: splits whose index does not know it yet are answered from their rows, until they are
        merged, or `reindex()` gives them a new index.

        Args:
            indexing: As for `create`: `{"message": "text"}`, or `{"message": {"type": "text", "tokenizer": "en_stem",
                "fast": True}}`; `none` takes a column out of the index. What was said of a column before is over.
            user_metadata: A note for the history.

        Raises InvalidArgument for a column that is not there, and for what its type cannot be.
        """
        return self._altered(alter_room.SetIndexing(check_mapping("indexing", indexing)), user_metadata)

    def set_name(self, name: str | None, *, user_metadata: str | None = None) -> int:
        """Set the name of the table for people to read, or take it away with None; nothing finds the table by it."""
        return self._altered(
            alter_room.SetNames(name=None if name is None else check_text("name", name)), user_metadata
        )

    def set_description(self, description: str | None, *, user_metadata: str | None = None) -> int:
        """Set the description of the table for people to read, or take it away with None."""
        told = None if description is None else check_text("description", description)
        return self._altered(alter_room.SetNames(description=told), user_metadata)

    def upgrade_protocol(self, features: str | Sequence[str], *, user_metadata: str | None = None) -> int:
        """Ask readers and writers of the table for features, by name: `columnMapping`. They are never taken back.

        Verbs that need a feature ask for it themselves. Raises InvalidArgument for a feature that is not known, and for
        one that says something about files which naming it does not make true.
        """
        names = check_names("features", [features] if isinstance(features, str) else features)
        return self._altered(alter_room.UpgradeProtocol(tuple(names)), user_metadata)

    def enable_row_tracking(self, *, user_metadata: str | None = None) -> int:
        """Give the rows of a table their ids that was made before there were any; return the version that has them.

        One commit that names every file again and touches none. From then on updates are pairs in the feed of changes,
        and `net` can fold them. A table whose rows have ids stays as it is.

        Raises NotSupported for tables of another system, CommitConflict, CommitStateUnknown, LogError, StoreError.
        """
        return self._pin(alter_room.enable_row_tracking(self._log, user_metadata=check_note(user_metadata)))

    def _altered(self, wish: Wish, user_metadata: str | None) -> int:
        version = alter_room.alter(self._log, wish, user_metadata=check_note(user_metadata))
        self._pin(version)
        return version


def _new_columns(given: Any) -> tuple[NewColumn, ...]:
    if isinstance(given, str):
        return alter_room.columns_from_ddl(check_text("columns", given))
    fields = (
        [given] if isinstance(given, pa.Field) else list(given) if isinstance(given, pa.Schema | Sequence) else None
    )
    if fields is None or not all(isinstance(field, pa.Field) for field in fields):
        message = (
            f"columns are text such as 'note string, size bigint', or fields of pyarrow, not {type(given).__name__}"
        )
        raise InvalidArgument(message)
    return tuple(alter_room.NewColumn(field=field) for field in fields)


def _type(given: Any) -> pa.DataType:
    return given if isinstance(given, pa.DataType) else alter_room.type_from_ddl(check_text("type", given))


def _default(given: Any) -> str | msgspec.UnsetType | None:
    if given is None or isinstance(given, msgspec.UnsetType | str):
        return given
    try:
        return default_text(pa.scalar(given))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as cause:
        raise InvalidArgument(f"the default {given!r} is no value that a column can have: {cause}") from cause
