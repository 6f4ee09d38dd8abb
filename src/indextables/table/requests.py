"""Declares what an operator can ask a table for: the parameters of each verb, with default, check and help. Pure.

A request that exists is valid: it checks itself when it is made. SQL commands, the methods of `Table` and `IndexTable`
and the commands of the shell make requests, and the verbs take them. The flags of the shell are read off the fields;
tests/table/test_doors.py fails where another door lacks one. What only a table can tell (is there such a column?) is
checked by the verb.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args, get_type_hints

import msgspec

from indextables.errors import InvalidArgument
from indextables.table.arguments import check_count, check_flag, check_hours, check_names, check_text, check_version

__all__ = [
    "REQUESTS",
    "ClearSkips",
    "Curve",
    "Declared",
    "DropPartitions",
    "Field",
    "Irreversible",
    "MergeSplits",
    "Mirror",
    "Moment",
    "Prewarm",
    "Purge",
    "Reindex",
    "Request",
    "Restore",
    "TruncateTimeTravel",
    "Verify",
    "fields_of",
]

Curve = Literal["zorder", "hilbert"]
"""How several columns make one order."""

Moment: TypeAlias = str | int | dt.datetime
"""A time as given: ISO text, milliseconds since the epoch, or a datetime. Each door says in which zone without one."""

_MOST_HOURS = 10_000_000

Kind = Literal["text", "size", "count", "names", "choice", "flag", "hours", "version", "time"]


class Field(NamedTuple):
    """What a field takes: a value of `kind`, as `check(name, value)` returns it.

    Where None is the default it means that nothing was given, and is not checked.
    `metavar`, `short` and `least` are for the shell: what stands for the value in help, a flag of one letter, and the
    smallest number.
    """

    kind: Kind
    help: str
    check: Callable[[str, Any], Any]
    metavar: str | None = None
    short: str | None = None
    least: int | None = None


class Declared(NamedTuple):
    """A field of a request with its default; `msgspec.NODEFAULT` where it has to be given."""

    name: str
    field: Field
    default: Any


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A verb, asked for. Raises InvalidArgument when it is made of what the verb does not take."""

    def __post_init__(self) -> None:
        for name, field, default in fields_of(type(self)):
            value = getattr(self, name)
            if value is not None or default is not None:
                msgspec.structs.force_setattr(self, name, field.check(name, value))


@functools.cache
def fields_of(kind: type[Request]) -> tuple[Declared, ...]:
    """The fields of a request, in the order in which the shell shows them."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        Declared(info.name, get_args(hints[info.name])[1], info.default) for info in msgspec.structs.fields(kind)
    )


def _as_given(_name: str, value: Any) -> Any:
    return value


def _predicate(text: str) -> Field:
    """A predicate of SQL; the parser judges it."""
    return Field("text", text, _as_given, "SQL", "-w")


def _some_predicate(name: str, value: Any) -> str:
    if not check_text(name, value).strip():
        raise InvalidArgument(
            "where is empty: give a predicate on partition columns that says which partitions to drop", argument=name
        )
    return str(value)


def _at_least(least: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        check_count(name, value, least=least)
        return int(value)

    return check


def _version(_name: str, value: Any) -> int:
    return check_version(value)


def _hours(text: str) -> Field:
    return Field("hours", text, lambda name, value: check_hours(name, value, most=_MOST_HOURS), "HOURS")


def _names(text: str, short: str | None = None) -> Field:
    return Field("names", text, lambda name, value: tuple(check_names(name, value)), "A,B", short)


def _flag(text: str) -> Field:
    return Field("flag", text, check_flag)


def _curve(_name: str, value: Any) -> Curve:
    curves: tuple[Curve, ...] = get_args(Curve)
    for curve in curves:
        if isinstance(value, str) and value.lower().replace("-", "") == curve:
            return curve
    raise InvalidArgument(f"a curve is one of {', '.join(curves)}, not {value!r}", curve=value)


_DryRun = Annotated[bool, _flag("Only show what would be done.")]
_MayMatch = Annotated[str | None, _predicate("Only files that may hold rows for which this is true.")]


class MergeSplits(Request, frozen=True):
    """Make few large splits of many small ones."""

    where: Annotated[str | None, _predicate("Only partitions for whose values this is true.")] = None
    target_size: Annotated[int | None, Field("size", "Size of a merged file: 512M, 1G, ...", _at_least(1), "BYTES")] = (
        None
    )
    max_dest_splits: Annotated[
        int | None, Field("count", "Make at most this many merged files.", _at_least(1), least=1)
    ] = None
    max_source_splits_per_merge: Annotated[
        int | None, Field("count", "Merge at most this many files into one.", _at_least(2), least=2)
    ] = None
    cluster_by: Annotated[
        Sequence[str], _names("Sort rows by these columns, so that predicates on them read fewer files.")
    ] = ()
    curve: Annotated[
        str, Field("choice", "How several columns of --cluster-by make one order: zorder or hilbert.", _curve, "CURVE")
    ] = "zorder"
    dry_run: _DryRun = False

    @property
    def shape(self) -> Curve:
        """The curve, by type."""
        return _curve("curve", self.curve)


class Purge(Request, frozen=True):
    """Delete old versions, and the files that no remaining version needs."""

    older_than_hours: Annotated[float | None, _hours("Keep data files that are younger than this many hours.")] = None
    tx_log_retention_hours: Annotated[float | None, _hours("Keep versions readable for this many hours.")] = None
    force: Annotated[bool, _flag("Allow less than the safe age; only if nobody else uses the table.")] = False
    dry_run: _DryRun = False


class DropPartitions(Request, frozen=True):
    """Remove the partitions for whose values `where` is true, with all their rows."""

    where: Annotated[
        str,
        Field(
            "text",
            "The partitions for whose values this is true; partition columns only.",
            _some_predicate,
            "SQL",
            "-w",
        ),
    ]
    dry_run: _DryRun = False


class TruncateTimeTravel(Request, frozen=True):
    """Keep only the newest version readable."""

    dry_run: _DryRun = False


class Restore(Request, frozen=True):
    """Make the table what it was: at exactly one of `version` and `timestamp`."""

    version: Annotated[int | None, Field("version", "To this version.", _version, "N", "-v")] = None
    timestamp: Annotated[
        Moment | None, Field("time", "To the version that was the newest at this time.", _as_given, "TIME")
    ] = None

    def __post_init__(self) -> None:
        if (self.version is None) == (self.timestamp is None):
            raise InvalidArgument("give either a version or a timestamp to restore")
        super().__post_init__()


class Reindex(Request, frozen=True):
    """Give a new index to splits whose index is missing, foreign or not what the table wants."""

    where: _MayMatch = None
    force: Annotated[bool, _flag("Also splits whose index is as it should be.")] = False


class Prewarm(Request, frozen=True):
    """Bring the indexes that searches on `columns` read into the cache; None for all."""

    where: _MayMatch = None
    columns: Annotated[Sequence[str] | None, _names("Load what searches on these columns read.", "-c")] = None


class ClearSkips(Request, frozen=True):
    """Let merges try these splits again; None for all that are skipped."""

    paths: Annotated[Sequence[str] | None, _names("With --clear: only this file; can be given several times.")] = None


class Mirror(Request, frozen=True):
    """Keep a Delta table beside the log, over the same data files, or end that."""

    stop: Annotated[bool, _flag("End the mirror, and delete it.")] = False


class Verify(Request, frozen=True):
    """Check the log and, with `data_files`, that every live data file is there and is its own.

    With `rules` every row is read: does it keep NOT NULL, the constraints, the generated and identity columns?
    """

    data_files: Annotated[bool, _flag("Also look at the data files.")] = True
    rules: Annotated[bool, _flag("Also read all rows, and tell those that break a rule of the table.")] = False


REQUESTS: tuple[type[Request], ...] = (
    MergeSplits,
    Purge,
    DropPartitions,
    TruncateTimeTravel,
    Restore,
    Reindex,
    Prewarm,
    ClearSkips,
    Mirror,
    Verify,
)

Irreversible: TypeAlias = Purge | DropPartitions | TruncateTimeTravel
"""What takes something away; each can be asked what it would do."""
