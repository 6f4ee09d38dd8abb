"""Reads JSON lines, CSV, Parquet and lines of text as Arrow batches of the table's schema, a block at a time.

A file is never read whole. Texts become dates, instants and decimals where the table has such a column; a value that
does not fit stops the file with its name, and a column that the table does not have does too, unless such lines are
kept aside: nothing is dropped or blanked in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from indextables.cli.input.aside import BadLines, BadRecords, Record, read_good
from indextables.cli.input.blocks import BLOCK_BYTES, LINE_LIMIT, Block, blocks_of, end_of_lines, is_blank, without_bom
from indextables.cli.input.csv_files import CsvRows, open_texts
from indextables.cli.input.faults import UNREADABLE, Fault, unreadable, why_bad
from indextables.cli.input.fitting import check_distinct, conform, from_texts
from indextables.cli.input.json_lines import check_objects, count_rows, first_fault, map_free, with_pairs
from indextables.cli.input.patterns import Pattern
from indextables.cli.input.sources import Format, file_identity, is_stream, open_stream, parquet_source
from indextables.cli.input.text_lines import read_text
from indextables.cli.input.whole_numbers import check_numbers
from indextables.errors import InvalidArgument

__all__ = ["Input", "open_input", "open_lines"]

_PARQUET_ROWS = 65_536
_Read = Callable[[bytes, int], list[pa.RecordBatch]]
"""Reads whole lines, before which there were so many rows."""


class Input:
    """One file being read: `batches()` once, `position()` bytes done of `size` while it runs.

    `identity` is what the file's bytes were called before it was opened, where they must be those that are read.
    """

    def __init__(
        self, name: str, size: int | None, batches: Iterator[pa.RecordBatch], position: Callable[[], int]
    ) -> None:
        self.identity: str | None = None
        self.fault: Callable[[], Fault | None] = lambda: None
        """Finds the first row, of those that did not come, that cannot be read."""
        self.done: Callable[[], None] = lambda: None
        """Is called when all rows have come; what it raises stops the file."""
        self.name = name
        self.size = size
        self.position = position
        self._batches = batches

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows. Raises InvalidArgument with the file's name for what cannot be read as its format says.

        And at their end if the file has other bytes than those of its `identity`: the rows may be of either.
        """
        rows = 0
        while True:
            # What happens to a batch that is taken is not the file's fault.
            try:
                batch = next(self._batches, None)
            except UNREADABLE as cause:
                raise unreadable(self.name, cause, rows, self.fault) from cause
            if batch is None:
                break
            rows += batch.num_rows
            yield batch
        self.done()
        if self.identity is not None and file_identity(self.name) != self.identity:
            message = f"{self.name}: it changed while it was read, and nothing of it was added: run this again"
            raise InvalidArgument(message, path=self.name)


def open_input(
    name: str, kind: Format, schema: pa.Schema, pattern: Pattern | None = None, aside: BadLines | None = None
) -> Input:
    """Open a file to be read as batches of exactly `schema`. Lines that cannot be read go `aside`, if that is given.

    Raises InvalidArgument.
    """
    try:
        if kind == "parquet":
            return _open_parquet(name, schema)
        stream, position, size = open_stream(name)
        if kind == "csv" and aside is None:
            return Input(name, size, _csv_batches(stream, name, schema), position)
    except StopIteration:
        return Input(name, 0, iter(()), lambda: 0)
    except UNREADABLE as cause:
        raise unreadable(name, cause) from cause
    return open_lines(name, kind, schema, stream, pattern=pattern, aside=aside, size=size, position=position)


def open_lines(
    name: str,
    kind: Format,
    schema: pa.Schema,
    stream: Any,
    *,
    pattern: Pattern | None = None,
    aside: BadLines | None = None,
    line: int = 1,
    header: bytes = b"",
    size: int | None = None,
    position: Callable[[], int] = lambda: 0,
) -> Input:
    """The same for a stream whose first line has the number `line`. `header` is that of a CSV file, if it is past it.

    Raises InvalidArgument.
    """
    if kind == "csv":
        rows = CsvRows(stream, name, header, line)
        found = _aside_or_first(rows.blocks(), name, rows.records, partial(_read_csv, rows, schema, name), aside)
        return Input(name, size, found, position)
    if kind == "text":
        read: _Read = lambda data, before: read_text(data, schema, name, before, pattern, partial(_read_json, name))  # noqa: E731
    else:
        read = lambda data, before: _read_json(name, data, schema, before)  # noqa: E731
    blocks = blocks_of(stream, end_of_lines, line)
    if kind == "text" and line == 1:
        blocks = without_bom(blocks)
    if aside is not None:
        return Input(name, size, _aside_or_first(blocks, name, _lines_of, read, aside), position)
    lines = _Lines(blocks, read, name, numbered=kind == "text")
    opened = Input(name, size, lines.batches(), position)
    opened.fault = lines.fault
    return opened


class _Lines:
    """The rows of lines, until the first that cannot be read."""

    def __init__(self, blocks: Iterator[Block], read: _Read, name: str, *, numbered: bool) -> None:
        self._blocks = blocks
        self._read = read
        self._name = name
        self._numbered = numbered
        self._now = b""
        self._rows = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises UNREADABLE, InvalidArgument."""
        for block in self._blocks:
            if block.length is not None:
                message = (
                    f"{self._name}: line {block.line:,} has {block.length:,} bytes; a line can have {LINE_LIMIT:,}."
                    " --bad-lines FILE leaves such lines out"
                )
                raise InvalidArgument(message, path=self._name, line=block.line)
            if is_blank(block.data):
                continue
            self._now = block.data
            try:
                found = self._read(block.data, self._rows)
            except BadRecords as cause:
                raise self._bad(block, cause) from cause
            yield from found
            # Arrow counts values, of which a line may hold more than one; what is told are lines.
            self._rows += count_rows(block.data)

    def _bad(self, block: Block, cause: BadRecords) -> InvalidArgument:
        line, text = _lines_of(block)[cause.places[0]]
        excerpt = text.decode("utf-8", "replace").strip()[:80]
        message = (
            f"{self._name}: line {line:,}: {cause}: {excerpt!r}. Nothing of the file was added;"
            " --bad-lines FILE keeps such lines aside and takes the others"
        )
        return InvalidArgument(message, path=self._name, line=line)

    def fault(self) -> Fault | None:
        """The first row of the block that was read last that cannot be read."""
        lines = [line for line in self._now.split(b"\n") if not is_blank(line)]
        found = first_fault(lines, lambda text: self._read(text, 0))
        return None if found is None else (self._rows + found[0] + 1, *found[1:])


def _lines_of(block: Block) -> list[Record]:
    """The lines of a block that are not blank, each with its number."""
    lines = enumerate(block.data.split(b"\n"), start=block.line)
    return [(number, line) for number, line in lines if not is_blank(line)]


def _aside_or_first(
    blocks: Iterator[Block],
    name: str,
    records: Callable[[Block], list[Record]],
    read: _Read,
    aside: BadLines | None,
) -> Iterator[pa.RecordBatch]:
    """The rows of the records that can be read; without `aside` the first that cannot is raised."""

    def read_records(some: list[Record]) -> list[pa.RecordBatch]:
        return read(b"\n".join(record for _, record in some), 0)

    if aside is not None:
        yield from read_good(blocks, name, records, read_records, lambda cause: why_bad(cause, name), aside)
        return
    rows = 0
    for block in blocks:
        found = read(block.data, rows)
        yield from found
        rows += sum(batch.num_rows for batch in found)


def _csv_batches(stream: Any, name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in open_texts(stream, name, BLOCK_BYTES):
        yield from_texts(batch, schema, name, rows)
        rows += batch.num_rows


def _read_csv(rows: CsvRows, schema: pa.Schema, name: str, data: bytes, before: int) -> list[pa.RecordBatch]:
    return [from_texts(batch, schema, name, before) for batch in rows.read(data)]


def _read_json(name: str, data: bytes, schema: pa.Schema, before: int) -> list[pa.RecordBatch]:
    """Rows of JSON lines. Raises as Arrow does, what the lines themselves raise, and SchemaMismatch."""
    raw = {field.name: _raw_type(field.type) for field in schema}
    import pyarrow.json as pajson

    check_objects(data)
    check_numbers(data, schema)
    lines = data if map_free(pa.struct(list(schema))) else with_pairs(data, schema)
    reader = pajson.open_json(
        pa.BufferReader(lines),
        # One line must go into one block of Arrow's.
        read_options=pajson.ReadOptions(block_size=len(lines) + 1),
        parse_options=pajson.ParseOptions(
            explicit_schema=pa.schema(list(raw.items())), unexpected_field_behavior="error"
        ),
    )
    found = []
    for batch in reader:
        found.append(conform(batch, schema, name, before))
        before += batch.num_rows
    return found


def _raw_type(data_type: pa.DataType) -> pa.DataType:
    """What the reader of JSON is asked for: as text what it reads less exactly than we do.

    Numbers cannot be had as text; decimals are read from numbers and from texts.
    """
    if pa.types.is_temporal(data_type) or pa.types.is_binary(data_type):
        return pa.string()
    if pa.types.is_map(data_type):
        # As `with_pairs` writes it.
        return pa.list_(pa.struct([("key", pa.string()), ("value", _raw_type(data_type.item_type))]))
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _raw_type(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_raw_type(data_type.value_type))
    return data_type


def _open_parquet(name: str, schema: pa.Schema) -> Input:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(parquet_source(name))
    check_distinct(file.schema_arrow, name)
    total = file.metadata.num_rows
    size = None if is_stream(name) else Path(name).stat().st_size
    done = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal done
        with file:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                yield conform(batch, schema, name, done)
                done += batch.num_rows

    return Input(name, size, batches(), lambda: 0 if not total or size is None else size * done // total)
