"""Arguments and options that several commands share, and the table they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from indextables.cli.declared import Argument, Option
from indextables.errors import InvalidArgument

if TYPE_CHECKING:
    from indextables.embedded import Table
    from indextables.table.requests import Request

__all__ = [
    "AsJson",
    "Columns",
    "Settings",
    "TablePath",
    "Where",
    "column_kinds",
    "counted",
    "fast_columns",
    "keywords_of",
    "open_table",
    "pairs",
    "text_columns",
]

TablePath = Annotated[str, Argument(metavar="TABLE", help="Folder or URL of the table.")]
Settings = Annotated[
    list[str] | None,
    Option("--option", "-o", metavar="KEY=VALUE", help="Set an option; can be given several times."),
]
AsJson = Annotated[bool, Option("--json", help="One JSON object per line instead of a table.")]
Where = Annotated[
    str | None, Option("--where", "-w", metavar="SQL", help="Only rows for which this predicate is true.")
]
Columns = Annotated[str | None, Option("--columns", "-c", metavar="A,B", help="Show these columns only.")]
AtVersion = Annotated[int | None, Option("--version", "-v", metavar="N", help="Read this version.")]
AtTime = Annotated[str | None, Option("--timestamp", metavar="TIME", help="Read the version that was the newest then.")]


def keywords_of(request: Request, **instead: object) -> dict[str, Any]:
    """The fields of a request, as a table's methods take them; some of them `instead`."""
    import msgspec

    return {**msgspec.structs.asdict(request), **instead}


def open_table(
    path: str, settings: list[str] | None, version: int | None = None, timestamp: str | None = None
) -> Table:
    """The table at `path`, as it is or as it was; older versions open also where the newest one is broken.

    Raises TableNotFound, InvalidArgument, VersionNotFound, VersionExpired, and what reading its log raises.
    """
    import indextables

    if version is not None and timestamp is not None:
        raise InvalidArgument("give --version or --timestamp, not both")
    return indextables.open(path, options=pairs(settings, "--option"), version=version, timestamp=timestamp)


def text_columns(table: Table) -> list[str]:
    """The columns that are searched by words, in the table's order."""
    kinds = column_kinds(table)
    return [name for name in table.schema.names if kinds.get(name.lower()) == "text"]


def column_kinds(table: Table) -> dict[str, str]:
    """How columns are indexed of which the table says it, by their names in lower case."""
    from indextables import options as opt

    kinds = opt.Options(table=table.metadata.configuration, environ={}).below(opt.INDEXING_TYPEMAP)
    return {name.lower(): kind.lower() for name, kind in kinds.items()}


def fast_columns(table: Table) -> list[str]:
    """The columns of which the table says that they have fast values."""
    from indextables import options as opt

    told = opt.Options(table=table.metadata.configuration, environ={})[opt.INDEXING_FAST_FIELDS]
    return [name.strip() for name in (told or "").split(",") if name.strip()]


def counted(number: int, thing: str) -> str:
    """`1 row`, `1,000 rows`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def pairs(given: list[str] | None, flag: str) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping. Raises InvalidArgument."""
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidArgument(f"{flag} takes KEY=VALUE, not {text!r}")
        found[key] = value
    return found
