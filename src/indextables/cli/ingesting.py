"""The command that appends files, once or for as long as they grow."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from indextables.cli.declared import Argument, Option, names
from indextables.cli.parameters import Settings, TablePath, counted, pairs
from indextables.cli.writing import (
    Fast,
    Index,
    PartitionBy,
    Properties,
    Text,
    check_lasts,
    check_same,
    indexing_of,
    say,
)
from indextables.errors import CommitConflict, InvalidArgument, TableNotFound
from indextables.lazy import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.cli.input import BadLines, Format, Input, Pattern
    from indextables.embedded import Table
    from indextables.table.writing import once as once_files
else:
    once_files = LazyModule("indextables.table.writing.once")

__all__ = ["ingest"]

_POLL_SECONDS = 1.0


_Files = Annotated[list[str], Argument(metavar="FILE", help="Files, folders, quoted globs, or - for standard input.")]
_Kind = Annotated[
    str | None,
    Option("--format", metavar="KIND", help="jsonl, csv, parquet or text; default: what the file name says."),
]
_Pattern = Annotated[
    str | None,
    Option(
        "--pattern",
        metavar="PATTERN",
        help="Columns of lines of text: syslog, nginx, apache, json, or a regular expression with (?P<names>...).",
    ),
]
_Schema = Annotated[
    str | None, Option("--schema", metavar="DDL", help="Columns of a new table: ts timestamp, message string, ...")
]
_MergeSchema = Annotated[
    bool, Option("--merge-schema", help="Add columns that a file has and the table does not have.")
]
_BadLines = Annotated[
    str | None,
    Option("--bad-lines", metavar="PATH", help="Keep lines that cannot be read in this file, and take the others."),
]
_Once = Annotated[bool, Option("--once", help="Leave out a file whose bytes the table has taken before.")]
_Follow = Annotated[
    bool, Option("--follow", help="Go on: take new files and the lines that files get, each once, over restarts too.")
]
_UntilIdle = Annotated[
    int | None,
    Option("--until-idle", metavar="SECONDS", least=0, help="Stop following when nothing new came for so long."),
]


def ingest(
    table: TablePath,
    files: _Files,
    kind: _Kind = None,
    pattern: _Pattern = None,
    schema: _Schema = None,
    merge_schema: _MergeSchema = False,
    bad_lines: _BadLines = None,
    once: _Once = False,
    follow: _Follow = False,
    until_idle: _UntilIdle = None,
    partition_by: PartitionBy = None,
    text: Text = None,
    index: Index = None,
    fast: Fast = None,
    table_property: Properties = None,
    option: Settings = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Say nothing unless it fails.")] = False,
) -> None:
    """Append files; each becomes one version, whole or not at all. Creates the table if there is none.

    A new table gets the columns of the first file. Files are JSON lines, CSV, Parquet or lines of text, also as .gz,
    .zst or .bz2.

    \b
    Examples:
      indextables ingest logs today.jsonl --text message
      indextables ingest logs *.jsonl.gz --once
      zcat old.csv.gz | indextables ingest logs - --format csv
      indextables ingest web '/var/log/nginx/access.log*' --pattern nginx --bad-lines bad.jsonl
      indextables ingest logs /var/log/app --follow
    """
    check_lasts(table)
    if until_idle is not None and not follow:
        raise InvalidArgument("--until-idle says when --follow stops; give --follow too")
    reading = _reading(kind, pattern, bad_lines, merges=merge_schema, quiet=quiet)
    wishes: dict[str, Any] = {
        "partition_by": names(partition_by, "--partition-by") or [],
        "indexing": indexing_of(text, index, fast),
        "properties": pairs(table_property, "--property"),
        "options": pairs(option, "--option"),
    }
    place = _Place(table, wishes, schema)
    place.open(partition_by, merges=merge_schema)
    if follow:
        _follow(place, reading, files, until_idle)
    else:
        _take_all(place, reading, files, once=once)
    if place.later:
        say(_NOT_INDEXED.format(", ".join(place.later)), quiet=quiet)


def _take_all(place: _Place, reading: _Reading, given: list[str], *, once: bool) -> None:
    """Take each file; nothing if one of them cannot be."""
    from indextables.cli.input import inputs
    from indextables.cli.input.sources import check_files, check_readable, expand

    files = expand(given)
    kinds = [reading.kind_of(name) for name in files]
    check_readable(files)
    if once:
        check_files(files)
    for name, kind in zip(files, kinds, strict=True):
        _ingest_file(place, reading, name, kind, inputs, once=once)


def _reading(kind: str | None, pattern: str | None, bad_lines: str | None, *, merges: bool, quiet: bool) -> _Reading:
    """What the flags say about how files are read. Raises InvalidArgument."""
    from indextables.cli.input import BadLines, pattern_of

    wanted = None if pattern is None else pattern_of(pattern)
    if wanted is not None and (kind or "text") != "text":
        raise InvalidArgument(f"--pattern is for lines of text, not for --format {kind}")
    aside = None if bad_lines is None else BadLines(bad_lines)
    return _Reading("text" if wanted is not None else kind, wanted, aside, merges, quiet)


class _Reading(NamedTuple):
    """How files are read."""

    kind: str | None
    pattern: Pattern | None
    aside: BadLines | None
    merges: bool
    quiet: bool

    def kind_of(self, name: str) -> Format:
        from indextables.cli.input.sources import format_of

        return format_of(name, self.kind)


def _ingest_file(place: _Place, reading: _Reading, name: str, kind: Format, inputs: Any, *, once: bool) -> None:
    from indextables.cli.input.sources import file_identity

    # Not before its turn: what is recorded are the bytes that are read.
    identity = file_identity(name) if once else None
    txn = place.batch_of(identity)
    if identity is not None and txn is None:
        say(_TAKEN.format(name), quiet=reading.quiet)
        return
    schema = place.schema_for(name, kind, reading)
    source = inputs.open_input(name, kind, schema, reading.pattern, reading.aside)
    source.identity = identity
    _ingest_one(source, schema, partial(place.take, txn=txn), reading)


def _follow(place: _Place, reading: _Reading, names_given: list[str], until_idle: int | None) -> None:
    """Take what comes, until nothing does for so long; for ever if it is not said."""
    from indextables.cli.input import Follower, inputs
    from indextables.cli.input.sources import STDIN, expand

    if STDIN in names_given:
        raise InvalidArgument("--follow is for files and folders; standard input ends by itself")
    follower = Follower(place.newest, time.time_ns)
    passed_over: set[str] = set()
    last = time.monotonic()
    while True:
        found = expand(names_given, may_be_none=True)
        follower.forget_gone(found)
        taken = [_take_next(place, reading, follower, name, passed_over, inputs) for name in found]
        if any(taken):
            last = time.monotonic()
        elif until_idle is not None and time.monotonic() - last >= until_idle:
            return
        else:
            time.sleep(_POLL_SECONDS)


def _take_next(place: _Place, reading: _Reading, follower: Any, name: str, passed_over: set[str], inputs: Any) -> bool:
    """Take what is new of one file: whether there was something."""
    from indextables.cli.input import PartChanged
    from indextables.cli.input.sources import Unreadable

    def leave(words: str) -> Literal[False]:
        if name not in passed_over:
            passed_over.add(name)
            say(words, quiet=reading.quiet)
        return False

    try:
        kind = reading.kind_of(name)
    except Unreadable as error:
        return leave(_LATER.format(error))
    except InvalidArgument as error:
        return leave(f"left out: {error}")
    try:
        if kind == "parquet":
            return _take_whole(place, reading, name, passed_over, inputs)
        part = follower.next_part(name, kind)
        if part is None:
            return False
        schema = place.schema_for(name, kind, reading)
        stream = part.stream()
    except FileNotFoundError:
        return False
    except OSError as cause:
        return leave(_LATER.format(Unreadable(name, cause)))
    source = inputs.open_lines(
        name,
        kind,
        schema,
        stream,
        pattern=reading.pattern,
        aside=reading.aside,
        line=part.line,
        header=part.header,
        size=part.size,
    )
    source.done = part.check
    try:
        version = _ingest_one(source, schema, partial(place.take, txn=part.txn, along=part.along), reading)
    except PartChanged:
        follower.lost(part)
        return True
    (follower.lost if version is None else follower.taken)(part)
    return True


def _take_whole(place: _Place, reading: _Reading, name: str, seen: set[str], inputs: Any) -> bool:
    """Take a file that is never added to, as `--once` does; `seen` are those that need no second look."""
    from pathlib import Path

    status = Path(name).stat()
    stamp = f"{name}\0{status.st_ino}\0{status.st_mtime_ns}\0{status.st_size}"
    if stamp in seen:
        return False
    if Path(name).read_bytes()[-4:] != b"PAR1":
        # Not written to its end.
        return False
    _ingest_file(place, reading, name, "parquet", inputs, once=True)
    seen.add(stamp)
    return True


_LATER = "left for later: {}; it is taken when it can be read"
_TAKEN = "{}: taken before, nothing added"
_NOT_INDEXED = "no file has a column {}: nothing was said about its index"


class _Place:
    """Where files go: a table that is there, or one that its first file makes."""

    def __init__(self, path: str, wishes: dict[str, Any], ddl: str | None) -> None:
        from indextables.table.rows import schema_from_ddl

        self._path = path
        self._wishes = wishes
        self._given = None if ddl is None else schema_from_ddl(ddl)
        self._merges = False
        self.table: Table | None = None
        self.later: dict[str, Any] = {}
        """How columns are indexed that the table gets with the file that has them."""

    def open(self, partition_by: str | None, *, merges: bool) -> None:
        """Find the table, if it is there. Raises InvalidArgument where flags ask for another one."""
        self._find()
        if self.table is None:
            return
        self.later = check_same(self.table, partition_by, self._wishes["indexing"], merges=merges)
        if self._given is not None:
            _check_types(self.table.schema, self._given)

    def _find(self) -> None:
        from indextables.embedded.first import open_to_write

        with suppress(TableNotFound):
            self.table = open_to_write(self._path, self._wishes["options"])

    def schema_for(self, name: str, kind: Format, reading: _Reading) -> pa.Schema:
        """The schema in which a file is read. Raises InvalidArgument."""
        from indextables.cli.input import infer_schema, whole_schema, with_new_columns

        has = self._given if self.table is None else self.table.schema
        tolerant = reading.aside is not None
        if reading.merges:
            found = whole_schema(name, kind, reading.pattern, tolerant=tolerant)
            schema = found if has is None else with_new_columns(has, found)
        else:
            schema = has if has is not None else infer_schema(name, kind, reading.pattern, tolerant=tolerant)
        self._merges = self.table is not None and schema != has
        if self.table is None and kind == "text":
            self._search_message(schema)
        return schema

    def _search_message(self, schema: pa.Schema) -> None:
        """Lines of text are there to be searched, unless somebody said otherwise."""
        import pyarrow as pa

        from indextables.cli.input import MESSAGE

        if MESSAGE in schema.names and pa.types.is_string(schema.field(MESSAGE).type):
            self._wishes["indexing"].setdefault(MESSAGE, {"type": "text"})

    def newest(self) -> Callable[[str], int | None]:
        """A function that gives the number which the newest version has for an application."""
        if self.table is None:
            self._find()
        return (lambda _: None) if self.table is None else self.table.refresh().txn_version

    def batch_of(self, identity: str | None) -> tuple[str, int] | None:
        """The `txn` of a file that is to be taken once; None for others, and for one that was taken."""
        if identity is None:
            return None
        name = once_files.application(identity)
        held = None if self.table is None else self.table.txn_version(name)
        return None if once_files.is_taken(held) else (name, once_files.next_batch(held))

    def take(
        self, rows: pa.RecordBatchReader, txn: tuple[str, int] | None, along: tuple[str, int] | None = None
    ) -> int | None:
        """Append the rows; the version that holds them, None if somebody else was faster with the same file.

        `along` is what else the commit records: then `txn` is a part of a file that is followed.
        Raises as `append` and `create`, and CommitConflict.
        """
        from indextables.embedded.first import append_rows, create_with_rows

        if self.table is None:
            taken = create_with_rows(self._path, rows, txn=txn, along=along, **self._wishes)
        else:
            has = {name.lower() for name in rows.schema.names}
            new = {name: kind for name, kind in self.later.items() if name.lower() in has}
            taken = append_rows(self.table, rows, txn, along=along, merge_schema=self._merges, indexing=new or None)
            self.later = {name: kind for name, kind in self.later.items() if name not in new}
        self.table = taken.table
        if txn is not None and along is None and not once_files.is_taken(self.table.txn_version(txn[0])):
            message = f"{self._path} was restored meanwhile to a version without this file: run this again"
            raise CommitConflict(message, url=self._path, reason="the table was restored meanwhile")
        return None if taken.repeated else taken.version


def _check_types(has: pa.Schema, given: pa.Schema) -> None:
    """Raises InvalidArgument if a column that --schema names is another one in the table."""
    known = {field.name.lower(): field for field in has}
    for field in given:
        there = known.get(field.name.lower())
        if there is None:
            message = f"--schema names {field.name}, which the table does not have; --merge-schema adds what files have"
            raise InvalidArgument(message, column=field.name)
        if there.type != field.type:
            message = f"the table is there, and its column {there.name} is {there.type}, not {field.type}"
            raise InvalidArgument(f"{message}; leave --schema out", column=there.name)


def _ingest_one(
    source: Input, schema: pa.Schema, take: Callable[[pa.RecordBatchReader], int | None], reading: _Reading
) -> int | None:
    began = time.monotonic()
    rows = 0

    def counting() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        with _progress(source, quiet=reading.quiet) as advance:
            for batch in source.batches():
                rows += batch.num_rows
                advance(rows)
                yield batch

    import pyarrow as pa

    try:
        version = take(pa.RecordBatchReader.from_batches(schema, counting()))
    except InvalidArgument as error:
        if not str(error).startswith(source.name):
            error.add_note(source.name)
        raise
    if version is None:
        say(_TAKEN.format(source.name), quiet=reading.quiet)
        return None
    seconds = max(time.monotonic() - began, 1e-9)
    speed = "" if source.size is None else f", {source.size / 1e6 / seconds:.1f} MB/s"
    aside = reading.aside
    bad = "" if aside is None or not aside.count else f", {counted(aside.count, 'bad line')} in {aside.path}"
    line = f"{source.name}: {counted(rows, 'row')} in {seconds:.1f} s{speed}{bad}, version {version}"
    say(line, quiet=reading.quiet)
    return version


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
