"""What the commands of IndexTables ask for, as values. Pure."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from indextables.errors import InvalidArgument
from indextables.table.requests import Request

__all__ = [
    "Ask",
    "Checkpoint",
    "Command",
    "CreateTable",
    "DescribeDetail",
    "DescribeHealth",
    "DescribeHistory",
    "DescribeLog",
    "DescribeSkips",
    "DescribeState",
    "FlushCache",
    "InvalidateCache",
    "OnlyIfOurs",
    "Repair",
    "Target",
    "Verify",
]


class Target(msgspec.Struct, frozen=True):
    """The table that is meant: a path or URL, or a name (parts joined by dots, without backticks)."""

    text: str
    is_path: bool
    position: int = 0


class _Command(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Ask(_Command, frozen=True):
    """A verb of an operator with its parameters, and the table that it is for."""

    target: Target
    request: Request


class Checkpoint(_Command, frozen=True):
    """`compact` lays the state out anew."""

    target: Target
    compact: bool = False


class DescribeState(_Command, frozen=True):
    """The newest checkpoint."""

    target: Target


class DescribeLog(_Command, frozen=True):
    """The actions of the newest version, or of all versions that are left."""

    target: Target
    include_all: bool = False


class DescribeHistory(_Command, frozen=True):
    """Who did what when; `limit` None for all."""

    target: Target
    limit: int | None = None


class DescribeDetail(_Command, frozen=True):
    """Sizes and counts of the newest version."""

    target: Target


class DescribeHealth(_Command, frozen=True):
    """What an operator should look at, with advice."""

    target: Target


class DescribeSkips(_Command, frozen=True):
    """Splits that merges leave alone."""

    target: Target


class Verify(_Command, frozen=True):
    """Check the log and that data files are there."""

    target: Target


class Repair(_Command, frozen=True):
    """`at` is where the new log goes; None where the table has no log left and gets one in its own place."""

    target: Target
    at: Target | None = None


class InvalidateCache(_Command, frozen=True):
    """`target` None means all tables."""

    target: Target | None = None


class FlushCache(_Command, frozen=True):
    """`target` None means all tables."""

    target: Target | None = None


class CreateTable(_Command, frozen=True):
    """`columns` is the text between the parentheses. `location` is None where the target itself is a path."""

    target: Target
    columns: str
    if_not_exists: bool = False
    partition_by: tuple[str, ...] = ()
    location: str | None = None
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
    | Verify
    | Repair
    | InvalidateCache
    | FlushCache
    | CreateTable
)


class OnlyIfOurs(msgspec.Struct, frozen=True):
    """A statement that other systems know too (OPTIMIZE, VACUUM, RESTORE): ours only if its table is.

    `fault` is what is wrong with it, to be raised only then; `command` is None in that case.
    """

    target: Target
    command: Command | None = None
    fault: InvalidArgument | None = None
