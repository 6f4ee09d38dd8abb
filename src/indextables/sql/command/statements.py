"""What the commands of IndexTables ask for, as values. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Literal, TypeAlias

import msgspec

from indextables.errors import CommandSyntaxError

__all__ = [
    "Checkpoint",
    "ClearSkips",
    "Command",
    "CreateTable",
    "DescribeDetail",
    "DescribeHealth",
    "DescribeHistory",
    "DescribeLog",
    "DescribeSkips",
    "DescribeState",
    "DropPartitions",
    "FlushCache",
    "InvalidateCache",
    "MergeSplits",
    "Moment",
    "OnlyIfOurs",
    "Prewarm",
    "Purge",
    "Reindex",
    "Repair",
    "Restore",
    "Target",
    "TruncateTimeTravel",
    "Verify",
]

Moment: TypeAlias = str | int | dt.datetime
"""A time as given: ISO text, milliseconds since the epoch, or a datetime. Without a zone it is the session's."""


class Target(msgspec.Struct, frozen=True):
    """The table that is meant: a path or URL, or a name (parts joined by dots, without backticks)."""

    text: str
    is_path: bool
    position: int = 0


class _Command(msgspec.Struct, frozen=True, kw_only=True):
    pass


class MergeSplits(_Command, frozen=True):
    """Make few large splits of many small ones."""

    target: Target
    where: str | None = None
    target_size: int | None = None
    max_dest_splits: int | None = None
    max_source_splits_per_merge: int | None = None
    cluster_by: tuple[str, ...] = ()
    curve: Literal["zorder", "hilbert"] = "zorder"
    dry_run: bool = False


class Purge(_Command, frozen=True):
    """Delete what no retained version needs."""

    target: Target
    older_than_hours: float | None = None
    tx_log_retention_hours: float | None = None
    dry_run: bool = False
    force: bool = False


class DropPartitions(_Command, frozen=True):
    """Remove the files of partitions."""

    target: Target
    where: str
    dry_run: bool = False


class TruncateTimeTravel(_Command, frozen=True):
    """Keep only the newest version."""

    target: Target
    dry_run: bool = False


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


class ClearSkips(_Command, frozen=True):
    """`paths` None clears all."""

    target: Target
    paths: tuple[str, ...] | None = None


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


class Prewarm(_Command, frozen=True):
    """Bring indexes into the local cache; `columns` None for all."""

    target: Target
    where: str | None = None
    columns: tuple[str, ...] | None = None


class Restore(_Command, frozen=True):
    """Exactly one of `version` and `timestamp`."""

    target: Target
    version: int | None = None
    timestamp: Moment | None = None


class Reindex(_Command, frozen=True):
    """Build indexes anew; `force` also where they are good."""

    target: Target
    where: str | None = None
    force: bool = False


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
    MergeSplits
    | Purge
    | DropPartitions
    | TruncateTimeTravel
    | Checkpoint
    | DescribeState
    | DescribeLog
    | DescribeHistory
    | DescribeDetail
    | DescribeHealth
    | DescribeSkips
    | ClearSkips
    | Verify
    | Repair
    | InvalidateCache
    | FlushCache
    | Prewarm
    | Restore
    | Reindex
    | CreateTable
)


class OnlyIfOurs(msgspec.Struct, frozen=True):
    """A statement that other systems know too (OPTIMIZE, VACUUM, RESTORE): ours only if its table is.

    `fault` is what is wrong with it, to be raised only then; `command` is None in that case.
    """

    target: Target
    command: Command | None = None
    fault: CommandSyntaxError | None = None
