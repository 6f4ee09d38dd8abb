"""Commands that write: create, ingest and convert."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from indextables.cli.declared import Argument, Option, names
from indextables.cli.parameters import Settings, TablePath, pairs, text_columns
from indextables.errors import CommitConflict, InvalidArgument, TableNotFound
from indextables.lazy import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.cli.input import Input
    from indextables.embedded import Table
    from indextables.table.writing import once as once_files
else:
    once_files = LazyModule("indextables.table.writing.once")

__all__ = ["convert", "create", "ingest"]

_Text = Annotated[
    list[str] | None,
    Option("--text", metavar="A,B", help="Make the words of these columns searchable; can be given several times."),
]
_Index = Annotated[
    list[str] | None,
    Option("--index", metavar="COLUMN=KIND", help="How a column is indexed: text, string, ip, ..."),
]
_Fast = Annotated[
    list[str] | None,
    Option("--fast", metavar="A,B", help="Keep these columns in the index, for sorting and aggregation."),
]
_PartitionBy = Annotated[
    str | None,
    Option("--partition-by", metavar="A,B", help="Partition columns: each combination of their values gets a folder."),
]
_Properties = Annotated[
    list[str] | None,
    Option("--property", metavar="KEY=VALUE", help="A property that the table keeps."),
]


def create(
    table: TablePath,
    schema: Annotated[
        str | None, Option("--schema", metavar="DDL", help="The columns: ts timestamp, message string, ...")
    ] = None,
    like: Annotated[str | None, Option("--like", metavar="FILE", help="Take the schema of this file.")] = None,
    partition_by: _PartitionBy = None,
    text: _Text = None,
    index: _Index = None,
    fast: _Fast = None,
    table_property: _Properties = None,
    option: Settings = None,
) -> None:
    """Create an empty table.

    \b
    Examples:
      indextables create logs --schema "ts timestamp, level string, message string" --text message
      indextables create logs --like today.jsonl --partition-by level
    """
    import indextables
    from indextables.cli.input import inputs
    from indextables.table.rows import schema_from_ddl

    if (schema is None) == (like is None):
        raise InvalidArgument("give the columns with --schema, or a file that has them with --like")
    _check_lasts(table)
    columns = schema_from_ddl(schema) if schema is not None else None
    if columns is None and like is not None:
        columns = inputs.infer_schema(like, inputs.format_of(like, None))
    made = indextables.create(
        table,
        columns,
        partition_by=names(partition_by, "--partition-by") or [],
        indexing=_indexing(text, index, fast),
        properties=pairs(table_property, "--property"),
        options=pairs(option, "--option"),
    )
    sys.stdout.write(f"created {table}: {len(made.schema)} columns, version {made.version}\n")


def ingest(
    table: TablePath,
    files: Annotated[list[str], Argument(metavar="FILE", help="Files, or - for standard input.")],
    kind: Annotated[
        str | None, Option("--format", metavar="KIND", help="jsonl, csv or parquet; default: what the file name says.")
    ] = None,
    once: Annotated[bool, Option("--once", help="Leave out a file whose bytes the table has taken before.")] = False,
    partition_by: _PartitionBy = None,
    text: _Text = None,
    index: _Index = None,
    fast: _Fast = None,
    table_property: _Properties = None,
    option: Settings = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Say nothing unless it fails.")] = False,
) -> None:
    """Append files; each becomes one version, whole or not at all. Creates the table if there is none.

    A new table gets the columns of the first file. Files are JSON lines, CSV or Parquet, also as .gz, .zst or .bz2.

    \b
    Examples:
      indextables ingest logs today.jsonl --text message
      indextables ingest logs *.jsonl.gz --once
      zcat old.csv.gz | indextables ingest logs - --format csv
    """
    from indextables.cli.input import inputs
    from indextables.embedded.first import open_to_write

    _check_lasts(table)
    kinds = [inputs.format_of(name, kind) for name in files]
    inputs.check_readable(files)
    if once:
        inputs.check_files(files)
    wishes: dict[str, Any] = {
        "partition_by": names(partition_by, "--partition-by") or [],
        "indexing": _indexing(text, index, fast),
        "properties": pairs(table_property, "--property"),
        "options": pairs(option, "--option"),
    }
    place = _Place(table, wishes)
    try:
        place.table = open_to_write(table, wishes["options"])
    except TableNotFound:
        schema = inputs.infer_schema(files[0], kinds[0])
    else:
        schema = place.table.schema
        _check_same(place.table, partition_by, wishes["indexing"])
    for name, file_kind in zip(files, kinds, strict=True):
        # Not before its turn: what is recorded are the bytes that are read.
        identity = inputs.file_identity(name) if once else None
        txn = place.batch_of(identity)
        if identity is not None and txn is None:
            _say(_TAKEN.format(name), quiet=quiet)
            continue
        source = inputs.open_input(name, file_kind, schema)
        source.identity = identity
        _ingest_one(source, schema, partial(place.take, txn=txn), quiet=quiet)


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
    partition_by: _PartitionBy = None,
    text: _Text = None,
    index: _Index = None,
    fast: _Fast = None,
    table_property: _Properties = None,
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

    _check_lasts(table)
    report = indextables.convert(
        source,
        table,
        system=system,
        version=version,
        partition_by=names(partition_by, "--partition-by"),
        indexing=_indexing(text, index, fast),
        properties=pairs(table_property, "--property"),
        options=pairs(option, "--option"),
    )
    what = f"{report.system} version {report.source_version}" if report.system != "Parquet" else "Parquet files"
    if report.files:
        _say(f"{source}: {report.rows:,} rows of {what}, version {report.version} of {table}", quiet=quiet)
    else:
        _say(f"{source}: nothing new, {table} has all of {what}", quiet=quiet)


_TAKEN = "{}: taken before, nothing added"


class _Place:
    """Where files go: a table that is there, or one that its first file makes."""

    def __init__(self, path: str, wishes: dict[str, Any]) -> None:
        self._path = path
        self._wishes = wishes
        self.table: Table | None = None

    def batch_of(self, identity: str | None) -> tuple[str, int] | None:
        """The `txn` of a file that is to be taken once; None for others, and for one that was taken."""
        if identity is None:
            return None
        name = once_files.application(identity)
        held = None if self.table is None else self.table.txn_version(name)
        return None if once_files.is_taken(held) else (name, once_files.next_batch(held))

    def take(self, rows: pa.RecordBatchReader, txn: tuple[str, int] | None) -> int | None:
        """Append the rows; the version that holds them, None if somebody else was faster with the same file.

        Raises as `append` and `create`, and CommitConflict.
        """
        from indextables.embedded.first import append_rows, create_with_rows

        if self.table is None:
            taken = create_with_rows(self._path, rows, txn=txn, **self._wishes)
        else:
            taken = append_rows(self.table, rows, txn)
        self.table = taken.table
        if txn is not None and not once_files.is_taken(self.table.txn_version(txn[0])):
            message = f"{self._path} was restored meanwhile to a version without this file: run this again"
            raise CommitConflict(message, url=self._path, reason="the table was restored meanwhile")
        return None if taken.repeated else taken.version


def _ingest_one(
    source: Input, schema: pa.Schema, take: Callable[[pa.RecordBatchReader], int | None], *, quiet: bool
) -> None:
    began = time.monotonic()
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        with _progress(source, quiet=quiet) as advance:
            for batch in source.batches():
                rows += batch.num_rows
                advance(rows)
                yield batch

    import pyarrow as pa

    try:
        version = take(pa.RecordBatchReader.from_batches(schema, counted()))
    except InvalidArgument as error:
        if not str(error).startswith(source.name):
            error.add_note(source.name)
        raise
    if version is None:
        _say(_TAKEN.format(source.name), quiet=quiet)
        return
    seconds = max(time.monotonic() - began, 1e-9)
    speed = "" if source.size is None else f", {source.size / 1e6 / seconds:.1f} MB/s"
    _say(f"{source.name}: {rows:,} rows in {seconds:.1f} s{speed}, version {version}", quiet=quiet)


@contextmanager
def _progress(source: Input, *, quiet: bool) -> Iterator[Any]:
    """A bar on a terminal; a function that takes the number of rows so far."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    parts = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    rows_done = TextColumn("{task.fields[rows]:,} rows")
    with Progress(*parts, rows_done, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(source.name, total=source.size, rows=0)
        yield lambda rows: bar.update(task, completed=source.position(), rows=rows)


def _check_lasts(table: str) -> None:
    """Raises InvalidArgument for a table in memory, which would be gone with this command."""
    from indextables.storage import parse_location

    if not parse_location(table).outlives_process:
        message = f"{table[:200]}: what is in memory:// ends with this command; give a folder or the URL of a store"
        raise InvalidArgument(message, path=table)


def _indexing(text: list[str] | None, index: list[str] | None, fast: list[str] | None) -> dict[str, Any]:
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


def _check_same(table: Table, partition_by: str | None, indexing: dict[str, Any]) -> None:
    """Flags that only a new table can follow must not be ignored. Raises InvalidArgument."""
    wanted = names(partition_by, "--partition-by")
    if wanted is not None and [name.lower() for name in wanted] != [n.lower() for n in table.partition_columns]:
        has = ", ".join(table.partition_columns) or "none"
        raise InvalidArgument(f"the table is there and is partitioned by {has}; leave --partition-by out")
    texts = {name.lower() for name in text_columns(table)}
    missing = [name for name, kind in indexing.items() if kind.get("type") == "text" and name.lower() not in texts]
    if missing:
        message = f"the table is there and does not index {', '.join(missing)} as text"
        raise InvalidArgument(f"{message}; leave --text out or make a new table")


def _say(line: str, *, quiet: bool) -> None:
    if not quiet:
        sys.stderr.write(line + "\n")
