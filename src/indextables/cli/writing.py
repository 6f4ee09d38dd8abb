"""Commands that write: create and ingest."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from indextables.cli.declared import Argument, Option
from indextables.cli.parameters import Settings, TablePath, names, open_table, pairs, text_columns
from indextables.errors import InvalidArgument, TableNotFound

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.cli.inputs import Input
    from indextables.embedded import Table

__all__ = ["create", "ingest"]

_ONCE = "indextables-ingest:"
"""Prefix of the application name under which the log remembers the bytes of a file."""

_Text = Annotated[
    list[str] | None,
    Option("--text", metavar="COLUMN", help="Search this column by words; may be given often."),
]
_Index = Annotated[
    list[str] | None,
    Option("--index", metavar="COLUMN=KIND", help="How a column is indexed: text, string, ip, ..."),
]
_Fast = Annotated[
    list[str] | None,
    Option("--fast", metavar="COLUMN", help="Sort and aggregate by this column in the index."),
]
_PartitionBy = Annotated[str | None, Option("--partition-by", metavar="A,B", help="One folder per value.")]
_Properties = Annotated[
    list[str] | None,
    Option("--property", metavar="KEY=VALUE", help="A property that the table keeps."),
]


def create(
    table: TablePath,
    schema: Annotated[str | None, Option("--schema", metavar="DDL", help="ts timestamp, message string, ...")] = None,
    like: Annotated[str | None, Option("--like", metavar="FILE", help="Take the schema of this file.")] = None,
    partition_by: _PartitionBy = None,
    text: _Text = None,
    index: _Index = None,
    fast: _Fast = None,
    table_property: _Properties = None,
    option: Settings = None,
) -> None:
    """Make an empty table.

    \b
    Examples:
      indextables create logs --schema "ts timestamp, level string, message string" --text message
      indextables create logs --like today.jsonl --partition-by level
    """
    from indextables.cli import inputs
    from indextables.table.ddl import schema_from_ddl

    if (schema is None) == (like is None):
        raise InvalidArgument("give the columns with --schema, or a file that has them with --like")
    columns = schema_from_ddl(schema) if schema is not None else None
    if columns is None and like is not None:
        columns = inputs.infer_schema(like, inputs.format_of(like, None))
    made = _create(table, columns, partition_by, _indexing(text, index, fast), table_property, option)
    sys.stdout.write(f"created {table}: {len(made.schema)} columns, version {made.version}\n")


def ingest(
    table: TablePath,
    files: Annotated[list[str], Argument(metavar="FILE", help="Files, or - for standard input.")],
    kind: Annotated[str | None, Option("--format", metavar="KIND", help="jsonl, csv or parquet; else by name.")] = None,
    once: Annotated[bool, Option("--once", help="Leave out a file whose bytes the table has taken before.")] = False,
    partition_by: _PartitionBy = None,
    text: _Text = None,
    index: _Index = None,
    fast: _Fast = None,
    table_property: _Properties = None,
    option: Settings = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Say nothing unless it fails.")] = False,
) -> None:
    """Append files; each becomes one version, whole or not at all. Makes the table if there is none.

    A new table gets the columns of the first file. Files are JSON lines, CSV or Parquet, also as .gz or .zst.

    \b
    Examples:
      indextables ingest logs today.jsonl --text message
      indextables ingest logs *.jsonl.gz --once
      zcat old.csv.gz | indextables ingest logs - --format csv
    """
    from indextables.cli import inputs

    kinds = [inputs.format_of(name, kind) for name in files]
    inputs.check_readable(files)
    identities = [inputs.file_identity(name) if once else None for name in files]
    indexing = _indexing(text, index, fast)
    try:
        opened = open_table(table, option)
    except TableNotFound:
        columns = inputs.infer_schema(files[0], kinds[0])
        opened = _create(table, columns, partition_by, indexing, table_property, option)
    else:
        _check_same(opened, partition_by, indexing)
    for name, file_kind, identity in zip(files, kinds, identities, strict=True):
        _ingest_one(opened, inputs.open_input(name, file_kind, opened.schema), identity, quiet=quiet)


def _ingest_one(table: Table, source: Input, identity: str | None, *, quiet: bool) -> None:
    txn = None if identity is None else (_ONCE + identity, 1)
    if txn is not None and table.txn_version(txn[0]) is not None:
        _say(f"{source.name}: taken before, nothing added", quiet=quiet)
        return
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
        version = table.append(pa.RecordBatchReader.from_batches(table.schema, counted()), txn=txn)
    except InvalidArgument as error:
        if not str(error).startswith(source.name):
            error.add_note(source.name)
        raise
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


def _create(
    path: str,
    schema: Any,
    partition_by: str | None,
    indexing: dict[str, str | dict[str, object]],
    properties: list[str] | None,
    settings: list[str] | None,
) -> Table:
    import indextables

    return indextables.create(
        path,
        schema,
        partition_by=names(partition_by, "--partition-by") or [],
        indexing=indexing,
        properties=pairs(properties, "--property"),
        options=pairs(settings, "--option"),
    )


def _indexing(text: list[str] | None, index: list[str] | None, fast: list[str] | None) -> dict[str, Any]:
    """What the flags say about each column."""
    found: dict[str, Any] = {column: {"type": "text"} for column in text or ()}
    for column, kind in pairs(index, "--index").items():
        if found.get(column, {}).get("type", kind) != kind:
            raise InvalidArgument(f"column {column} is given as text and as {kind}")
        found[column] = {"type": kind}
    for column in fast or ():
        found.setdefault(column, {})["fast"] = True
    return found


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
