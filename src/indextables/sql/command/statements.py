"""What the commands of IndexTables ask for, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from indextables.errors import InvalidArgument
from indextables.table.requests import Request

if TYPE_CHECKING:
    from indextables.table.alter import Wish
    from indextables.table.change import Clause

__all__ = [
    "AlterTable",
    "Ask",
    "Checkpoint",
    "Command",
    "ConvertTable",
    "CreateTable",
    "DeleteRows",
    "DescribeDetail",
    "DescribeHealth",
    "DescribeHistory",
    "DescribeLog",
    "DescribeSkips",
    "DescribeState",
    "DropTable",
    "Explain",
    "FlushCache",
    "InvalidateCache",
    "MergeRows",
    "OnlyIfOurs",
    "Repair",
    "RowChange",
    "SourceRows",
    "TableName",
    "UpdateRows",
]


class TableName(msgspec.Struct, frozen=True):
    """The table that is meant: a path or URL, or a name (parts joined by dots, without backticks)."""

    text: str
    is_path: bool
    position: int = 0


class _Command(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Ask(_Command, frozen=True):
    """A verb of an operator with its parameters, and the table that it is for."""

    target: TableName
    request: Request


class Checkpoint(_Command, frozen=True):
    """`compact` lays the state out anew."""

    target: TableName
    compact: bool = False


class DescribeState(_Command, frozen=True):
    """The newest checkpoint."""

    target: TableName


class DescribeLog(_Command, frozen=True):
    """The actions of the newest version, or of all versions that are left."""

    target: TableName
    include_all: bool = False


class DescribeHistory(_Command, frozen=True):
    """Who did what when; `limit` None for all."""

    target: TableName
    limit: int | None = None


class DescribeDetail(_Command, frozen=True):
    """Sizes and counts of the newest version."""

    target: TableName


class DescribeHealth(_Command, frozen=True):
    """What an operator should look at, with advice."""

    target: TableName


class DescribeSkips(_Command, frozen=True):
    """Splits that merges leave alone."""

    target: TableName


class Repair(_Command, frozen=True):
    """`at` is where the new log goes; None where the table has no log left and gets one in its own place."""

    target: TableName
    at: TableName | None = None


class InvalidateCache(_Command, frozen=True):
    """`target` None means all tables."""

    target: TableName | None = None


class FlushCache(_Command, frozen=True):
    """`target` None means all tables."""

    target: TableName | None = None


class AlterTable(_Command, frozen=True):
    """What a table becomes: its columns, properties, names or protocol."""

    target: TableName
    wish: Wish


class CreateTable(_Command, frozen=True):
    """`columns` is the text between the parentheses. `location` is None where the target itself is a path."""

    target: TableName
    columns: str
    if_not_exists: bool = False
    partition_by: tuple[str, ...] = ()
    location: str | None = None
    comment: str | None = None
    properties: dict[str, str] = {}
    indexing: dict[str, str] = {}


class DropTable(_Command, frozen=True):
    """The table goes with all its rows and versions, wherever it is; with `if_exists` there need be none."""

    target: TableName
    if_exists: bool = False


class DeleteRows(_Command, frozen=True):
    """The rows for which `where`, a text of SQL that may hold TEXTSEARCH, is true go; all rows without it.

    `alias` is what texts may put before a column: as typed, else the last part of the name, else `t`.
    """

    target: TableName
    alias: str
    where: str | None = None


class UpdateRows(_Command, frozen=True):
    """`set` has a text of SQL for each column that changes, computed from the row as it was; `where` as in a DELETE."""

    target: TableName
    alias: str
    set: dict[str, str]
    where: str | None = None


class SourceRows(msgspec.Struct, frozen=True):
    """Where the rows of a MERGE come from: `query`, a SELECT in the engine's own words, with `args` for its parameters.

    `table` is the table whose rows they are, all of them and as they are now; None for a query and an older version.
    `alias` is what texts put before a column: as typed, else the last part of the name, else `s`.
    """

    query: str
    alias: str
    args: Mapping[str, object] | Sequence[object] = ()
    table: TableName | None = None


class MergeRows(_Command, frozen=True):
    """Each clause has its texts as typed, with bound values as literals; `merge_schema` for WITH SCHEMA EVOLUTION."""

    target: TableName
    alias: str
    source: SourceRows
    on: str
    clauses: tuple[Clause, ...]
    merge_schema: bool = False


RowChange: TypeAlias = DeleteRows | UpdateRows | MergeRows
"""A statement that changes rows."""


class Explain(_Command, frozen=True):
    """What a statement would do; nothing is written."""

    statement: RowChange


class ConvertTable(_Command, frozen=True):
    """A table of another system becomes one of ours; `target` is where that is. `system` None: what is there."""

    target: TableName
    source: TableName
    system: str | None = None
    version: int | None = None
    partition_by: tuple[str, ...] | None = None
    comment: str | None = None
    properties: dict[str, str] = {}
    indexing: dict[str, str] = {}


Command: TypeAlias = (
    Ask
    | Checkpoint
    | DescribeState
    | DescribeLog
    | DescribeHistory
    | DescribeDetail
    | DescribeHealth
    | DescribeSkips
    | Repair
    | InvalidateCache
    | FlushCache
    | CreateTable
    | DropTable
    | AlterTable
    | DeleteRows
    | UpdateRows
    | MergeRows
    | Explain
    | ConvertTable
)


class OnlyIfOurs(msgspec.Struct, frozen=True):
    """A statement that other systems know too (OPTIMIZE, RESTORE, DELETE): ours only if its table is.

    `fault` is what is wrong with it, to be raised only then; `command` is None in that case. `changes_rows` for DELETE,
    UPDATE and MERGE, and EXPLAIN of them; `alters` for ALTER TABLE.
    """

    target: TableName
    command: Command | None = None
    fault: InvalidArgument | None = None
    changes_rows: bool = False
    alters: bool = False
