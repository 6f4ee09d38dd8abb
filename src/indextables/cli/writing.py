"""Commands that make a table or change what it is: create, convert and alter, and flags that `ingest` has too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from indextables.cli.declared import Argument, Option, names
from indextables.cli.parameters import Settings, TablePath, column_kinds, counted, fast_columns, open_table, pairs
from indextables.errors import InvalidArgument

if TYPE_CHECKING:
    from indextables.embedded import Table

__all__ = [
    "Fast",
    "Index",
    "PartitionBy",
    "Properties",
    "Text",
    "alter",
    "check_lasts",
    "check_same",
    "convert",
    "create",
    "indexing_of",
    "say",
]

Text = Annotated[
    list[str] | None,
    Option("--text", metavar="A,B", help="Make the words of these columns searchable; can be given several times."),
]
Index = Annotated[
    list[str] | None,
    Option("--index", metavar="COLUMN=KIND", help="How a column is indexed: text, string, ip, ..."),
]
Fast = Annotated[
    list[str] | None,
    Option("--fast", metavar="A,B", help="Keep these columns in the index, for sorting and aggregation."),
]
PartitionBy = Annotated[
    str | None,
    Option("--partition-by", metavar="A,B", help="Partition columns: each combination of their values gets a folder."),
]
Properties = Annotated[
    list[str] | None,
    Option("--property", metavar="KEY=VALUE", help="A property that the table keeps."),
]


def create(
    table: TablePath,
    schema: Annotated[
        str | None, Option("--schema", metavar="DDL", help="The columns: ts timestamp, message string, ...")
    ] = None,
    like: Annotated[str | None, Option("--like", metavar="FILE", help="Take the schema of this file.")] = None,
    partition_by: PartitionBy = None,
    text: Text = None,
    index: Index = None,
    fast: Fast = None,
    table_property: Properties = None,
    option: Settings = None,
) -> None:
    """Create an empty table.

    \b
    Examples:
      indextables create logs --schema "ts timestamp, level string, message string" --text message
      indextables create logs --like today.jsonl --partition-by level
    """
    import indextables
    from indextables.cli.input import infer, sources
    from indextables.table.rows import table_from_ddl

    if (schema is None) == (like is None):
        raise InvalidArgument("give the columns with --schema, or a file that has them with --like")
    check_lasts(table)
    columns, defaults = (None, {}) if schema is None else table_from_ddl(schema)
    if columns is None and like is not None:
        columns = infer.infer_schema(like, sources.format_of(like, None))
    made = indextables.create(
        table,
        columns,
        partition_by=names(partition_by, "--partition-by") or [],
        indexing=indexing_of(text, index, fast),
        properties={**pairs(table_property, "--property"), **defaults},
        options=pairs(option, "--option"),
    )
    sys.stdout.write(f"created {table}: {len(made.schema)} columns, version {made.version}\n")


def convert(
    source: Annotated[str, Argument(metavar="SOURCE", help="The table of another system: a folder or URL.")],
    table: Annotated[str, Argument(metavar="TABLE", help="The table of ours: another folder or URL.")],
    system: Annotated[
        str | None,
        Option("--system", metavar="KIND", help="delta, parquet or indextables4spark; default: what is there."),
    ] = None,
    version: Annotated[
        int | None, Option("--version", "-v", metavar="N", help="Take this version; default: the newest.")
    ] = None,
    partition_by: PartitionBy = None,
    text: Text = None,
    index: Index = None,
    fast: Fast = None,
    table_property: Properties = None,
    option: Settings = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Say nothing unless it fails.")] = False,
) -> None:
    """Copy a table of Delta or IndexTables4Spark, or a folder of Parquet files; run it again for what is new.

    The source is only read. All rows come in one version, after they were compared with those of the source.

    \b
    Examples:
      indextables convert lake/events logs --text message
      indextables convert s3://lake/events s3://search/events --partition-by day
    """
    import indextables

    check_lasts(table)
    report = indextables.convert(
        source,
        table,
        system=system,
        version=version,
        partition_by=names(partition_by, "--partition-by"),
        indexing=indexing_of(text, index, fast),
        properties=pairs(table_property, "--property"),
        options=pairs(option, "--option"),
    )
    what = f"{report.system} version {report.source_version}" if report.system != "Parquet" else "Parquet files"
    if report.files:
        say(f"{source}: {counted(report.rows, 'row')} of {what}, version {report.version} of {table}", quiet=quiet)
    else:
        say(f"{source}: nothing new, {table} has all of {what}", quiet=quiet)


def alter(
    table: TablePath,
    change: Annotated[
        list[str], Argument(metavar="CHANGE", help="What to change, as behind ALTER TABLE: RENAME COLUMN a TO b.")
    ],
    option: Settings = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Say nothing unless it fails.")] = False,
) -> None:
    """Change columns, properties or indexes of a table. No data file is read or written.

    \b
    Examples:
      indextables alter logs "ADD COLUMNS (host string DEFAULT 'unknown' AFTER ts)"
      indextables alter logs RENAME COLUMN msg TO message
      indextables alter logs "SET INDEXING (message text)"
      indextables alter logs "SET TBLPROPERTIES ('checkpoint.interval' = '20')"
    """
    opened = open_table(table, option)
    before = opened.version
    version = opened.alter(" ".join(change))
    say(f"{table}: version {version}" if version != before else f"{table}: it is like that already", quiet=quiet)


def say(line: str, *, quiet: bool) -> None:
    """One line on standard error."""
    if not quiet:
        sys.stderr.write(line + "\n")


def check_lasts(table: str) -> None:
    """Raises InvalidArgument for a table in memory, which would be gone with this command."""
    from indextables.storage import parse_location

    if not parse_location(table).outlives_process:
        message = f"{table[:200]}: what is in memory:// ends with this command; give a folder or the URL of a store"
        raise InvalidArgument(message, path=table)


def indexing_of(text: list[str] | None, index: list[str] | None, fast: list[str] | None) -> dict[str, Any]:
    """What the flags say about each column."""
    found: dict[str, Any] = {column: {"type": "text"} for column in _each(text, "--text")}
    for column, kind in pairs(index, "--index").items():
        if found.get(column, {}).get("type", kind) != kind:
            raise InvalidArgument(f"column {column} is given as text and as {kind}")
        found[column] = {"type": kind}
    for column in _each(fast, "--fast"):
        found.setdefault(column, {})["fast"] = True
    return found


def _each(given: list[str] | None, flag: str) -> Iterator[str]:
    """The columns of a flag that takes several and can be given several times."""
    for columns in given or ():
        yield from names(columns, flag) or ()


def check_same(
    table: Table, partition_by: str | None, indexing: dict[str, Any], *, merges: bool = False
) -> dict[str, Any]:
    """Flags must not be ignored by a table that is there: columns are indexed as they say, partitions stay.

    Returns what is said about columns that the table does not have yet, which `merges` allows. Raises InvalidArgument.
    """
    wanted = names(partition_by, "--partition-by")
    if wanted is not None and [name.lower() for name in wanted] != [n.lower() for n in table.partition_columns]:
        has = ", ".join(table.partition_columns) or "none"
        raise InvalidArgument(f"the table is there and is partitioned by {has}; leave --partition-by out")
    known = {name.lower() for name in table.schema.names}
    absent = {name: kind for name, kind in indexing.items() if name.lower() not in known}
    if absent and not merges:
        message = f"the table is there and has no column {', '.join(absent)} to index"
        raise InvalidArgument(f"{message}; leave it out, or let --merge-schema add the columns that files have")
    kinds = column_kinds(table)
    fast = {name.lower() for name in fast_columns(table)}
    other = {
        name: kind
        for name, kind in indexing.items()
        if name not in absent
        and (
            kind.get("type", kinds.get(name.lower())) != kinds.get(name.lower())
            or ("fast" in kind) > (name.lower() in fast)
        )
    }
    if other:
        table.set_indexing({name: {**_said(kinds.get(name.lower())), **kind} for name, kind in other.items()})
    return absent


def _said(kind: str | None) -> dict[str, Any]:
    return {} if kind is None else {"type": kind}
