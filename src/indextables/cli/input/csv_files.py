"""Reads CSV files as batches of texts, and guesses the types that the texts suggest.

Arrow splits a file into fields and nothing more: which text is a number, a time or null is said here and in `fitting`,
so that no text changes because Arrow has its own idea of it. An empty field without quotes is null; `""` is the empty
text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.cli.input.aside import Record
from indextables.cli.input.blocks import BLOCK_BYTES, Block, blocks_of, first_bytes
from indextables.cli.input.fitting import check_distinct
from indextables.cli.input.reasons import NOT_UTF8
from indextables.cli.input.whole_numbers import InexactNumber, large_texts
from indextables.errors import InvalidArgument

__all__ = ["CsvRows", "even_rows", "open_texts", "sample_texts", "suggested_type"]

_WHOLE = pa.decimal128(38, 0)
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SPECIAL = r"(?i)^([+-]?inf(inity)?|nan)$"
_BOOLEAN = r"^(true|false|True|False|TRUE|FALSE)$"


def open_texts(stream: Any, name: str, block: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file, each column as text. Raises ArrowInvalid for a row of another width, else InvalidArgument."""
    reader = _open(stream, name, block)

    def batches() -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in reader:
            yield _decoded(batch, name, rows)
            rows += batch.num_rows

    return batches()


class CsvRows:
    """The rows of a CSV stream in blocks, each of which is read by itself below the header.

    `header` is that of the file, where the stream begins behind it, with the line `line`; else it is read.
    Raises InvalidArgument.
    """

    def __init__(self, stream: Any, name: str, header: bytes = b"", line: int = 1) -> None:
        self._name = name
        self._delimiter = _delimiter(name)
        self._stream = stream
        self._line = line
        self._first = b""
        self.header = header
        if not header:
            first = first_bytes(stream, BLOCK_BYTES)
            end = next((row.end() for row in _rows(self._delimiter).finditer(first) if row["rest"] is None), len(first))
            self.header, self._first = first[:end], first[end:]
            self._line += self.header.count(b"\n")

    def blocks(self) -> Iterator[Block]:
        """Whole rows. A quote that is never closed makes a line of what follows it, as long as a row can be."""
        rejoined = _Joined(self._first, self._stream)
        return blocks_of(rejoined, self.end, self._line, limit=BLOCK_BYTES)

    def end(self, data: bytes) -> int:
        """Where the last whole row of some bytes ends."""
        if b'"' not in data:
            return max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        rest = _rows(self._delimiter).sub(rb"\g<rest>", data)
        return len(data) - len(rest)

    def records(self, block: Block) -> list[Record]:
        """The rows of a block, each with the number of its first line."""
        found, line = [], block.line
        for row in _rows(self._delimiter).finditer(block.data + b"\n"):
            blank = len(row[0]) - len(row[0].lstrip(b"\r\n"))
            text = row[0].strip(b"\r\n")
            if text:
                found.append((line + row[0][:blank].count(b"\n"), text))
            line += row[0].count(b"\n")
        return found

    def read(self, data: bytes) -> list[pa.RecordBatch]:
        """Rows as columns of texts. Raises ArrowInvalid for a row of another width, else InvalidArgument."""
        if not data.strip():
            return []
        text = self.header.rstrip(b"\r\n") + b"\n" + data
        return list(open_texts(io.BytesIO(text), self._name, len(text) + 1))


class _Joined(io.RawIOBase):
    """Bytes that were read, then the rest of the stream."""

    def __init__(self, first: bytes, rest: Any) -> None:
        super().__init__()
        self._first = io.BytesIO(first)
        self._rest = rest

    def read(self, size: int = -1) -> bytes:
        return self._first.read(size) or bytes(self._rest.read(size))


def even_rows(head: bytes, name: str) -> bytes:
    """The rows of the beginning of a file that have as many fields as the first, and are UTF-8."""
    rows = CsvRows(io.BytesIO(head), name)
    mark = _delimiter(name)
    found = [rows.header.rstrip(b"\r\n")]
    width = len(next(csv.reader(io.StringIO(found[0].decode("utf-8", "replace"), newline=""), delimiter=mark), []))
    for block in rows.blocks():
        for _, record in rows.records(block):
            if _is_utf8(record) and not _is_open(record, mark):
                fields = next(csv.reader(io.StringIO(record.decode(), newline=""), delimiter=mark), [])
                found += [record] if len(fields) == width else []
    return b"\n".join(found) + b"\n"


def sample_texts(head: bytes, name: str) -> pa.Table:
    """The whole rows of the beginning of a file for a new table, each column as text.

    Raises as `open_texts`, and InvalidArgument for a name that no table should get.
    """
    rest, rows = _rows(_delimiter(name)).subn(rb"\g<rest>", head) if b'"' in head else (b"", 0)
    if rows > 1 and _is_open(rest, _delimiter(name)):
        # The beginning ends inside of a value; if the file does too, reading it says so.
        head = head[: len(head) - len(rest)]
    reader = _open(io.BytesIO(head), name, max(len(head), 1))
    for place, column in enumerate(reader.schema.names, start=1):
        if column != column.strip():
            message = f"{name}: column {place} of the header is {column!r}: take the blanks around the name out of it"
            raise InvalidArgument(message, path=name, column=column)
    schema = pa.schema([(column, pa.string()) for column in reader.schema.names])
    return pa.Table.from_batches([_decoded(batch, name, 0) for batch in reader], schema)


def suggested_type(texts: pa.Array, column: str) -> pa.DataType | None:
    """The type of number or truth value that all these texts state; None if they do not.

    Empty texts say nothing. A number that begins with a zero or a plus, as codes do, is text. Raises InexactNumber for
    a number that no type holds.
    """
    texts = pc.utf8_trim_whitespace(texts.filter(pc.fill_null(pc.not_equal(texts, ""), False)))  # noqa: FBT003
    if not len(texts):
        return None
    if _all(texts, _BOOLEAN):
        return pa.bool_()
    special = pc.match_substring_regex(texts, _SPECIAL)
    numbers = texts.filter(pc.invert(special))
    if not len(numbers) or not _all(numbers, _NUMBER):
        return None
    large = large_texts({column: numbers}, pa.float64())
    if len(numbers) < len(texts) or not _all(numbers, _INTEGER):
        for number in large.values():
            raise InexactNumber(column, number, pa.float64())
        return pa.float64()
    try:
        pc.cast(numbers, pa.int64())
    except pa.ArrowInvalid:
        try:
            pc.cast(numbers, _WHOLE)
        except pa.ArrowInvalid:
            raise InexactNumber(column, large[column], pa.float64()) from None
        return _WHOLE
    return pa.int64()


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _open(stream: Any, name: str, block: int) -> Any:
    import pyarrow.csv as pacsv

    first = first_bytes(stream, block)
    whole = _rows(_delimiter(name)).match(first)
    if whole is not None and whole["rest"] is not None and _is_open(first, _delimiter(name)):
        raise _never_closed(name, first, 0)
    columns = _header(first, name)
    if "" in columns:
        raise InvalidArgument(f"{name}: column {columns.index('') + 1} has an empty name in the header", path=name)
    reader = pacsv.open_csv(
        pa.PythonFile(_ClosedQuotes(first, stream, name, block), mode="r"),
        # Without threads a row of another width is named by its number.
        read_options=pacsv.ReadOptions(block_size=block, use_threads=False),
        parse_options=pacsv.ParseOptions(delimiter=_delimiter(name), newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    _check_dialect(name, reader.schema.names)
    check_distinct(reader.schema, name)
    if not all(pa.types.is_binary(kind) for kind in reader.schema.types):
        raise InvalidArgument(f"{name}: the names of the columns in its first row cannot be read", path=name)
    return reader


def _header(first: bytes, name: str) -> list[str]:
    text = io.TextIOWrapper(io.BytesIO(first), "utf-8-sig", errors="surrogateescape", newline="")
    try:
        columns = next((row for row in csv.reader(text, delimiter=_delimiter(name)) if row), [])
    except csv.Error as cause:
        raise InvalidArgument(f"{name}: its first row cannot be read as CSV: {cause}", path=name) from cause
    for place, column in enumerate(columns, start=1):
        if not column.isascii() and not _is_utf8(raw := column.encode(errors="surrogateescape")):
            message = f"{name}: column {place} of the header is {raw[:60]!r}, which is {NOT_UTF8}"
            raise InvalidArgument(message, path=name)
    return columns


def _decoded(batch: pa.RecordBatch, name: str, rows_before: int) -> pa.RecordBatch:
    columns = []
    for column, values in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns.append(values.cast(pa.string()))
        except pa.ArrowInvalid:
            place, value = next((i, v) for i, v in enumerate(values.to_pylist()) if v is not None and not _is_utf8(v))
            message = (
                f"{name}: row {rows_before + place + 1:,}: column {column} holds {value[:60]!r}, which is {NOT_UTF8}"
            )
            raise InvalidArgument(message, path=name) from None
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _delimiter(name: str) -> str:
    return "\t" if ".tsv" in Path(name).suffixes else ","


def _check_dialect(name: str, columns: list[str]) -> None:
    """One column whose name has another separator in it is not a column. Raises InvalidArgument."""
    others = [mark for mark in (";", "\t", "|", ",") if len(columns) == 1 and mark in columns[0]]
    if others:
        message = f"{name}: the columns seem to be separated by {others[0]!r}"
        raise InvalidArgument(f"{message}; commas are read, and tabs where the name ends in .tsv", path=name)


class _ClosedQuotes(io.RawIOBase):
    """The bytes of a CSV file; InvalidArgument is raised where a quote was opened and the file ends inside of it."""

    def __init__(self, first: bytes, stream: Any, name: str, longest: int) -> None:
        super().__init__()
        self._first = io.BytesIO(first)
        self._stream = stream
        self._name = name
        self._longest = longest
        """The most bytes that one row can have."""
        self._rest = b""
        """The beginning of a row whose end has not come."""
        self._rows = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, all by default. Raises InvalidArgument, and what the stream raises."""
        data = self._first.read(size) or bytes(self._stream.read(size))
        if b'"' in data or b'"' in self._rest:
            self._rest, found = _rows(_delimiter(self._name)).subn(rb"\g<rest>", self._rest + data)
            self._rows += found - bool(self._rest)
        elif data:
            end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            self._rows += data.count(b"\n", 0, end) or data.count(b"\r", 0, end)
            self._rest = data[end:] if end else self._rest + data
        if (not data or len(self._rest) > self._longest) and _is_open(self._rest, _delimiter(self._name)):
            raise _never_closed(self._name, self._rest, self._rows)
        return data


@lru_cache(maxsize=2)
def _rows(delimiter: str) -> re.Pattern[bytes]:
    """One whole row, or as `rest` what follows the last whole row. A quote opens a value only where a field begins."""
    mark = delimiter.encode()
    field = rb'(?:"(?:[^"]++|"")*+"|(?!"))[^' + mark + rb"\r\n]*+"
    return re.compile(rb"[\r\n]*+" + field + rb"(?:" + mark + field + rb")*+[\r\n]|(?P<rest>(?s:.+))")


def _is_open(rest: bytes, delimiter: str) -> bool:
    """Whether the beginning of a row ends inside of quotes."""
    return bool(rest.strip(b"\r\n")) and _rows(delimiter).sub(rb"\g<rest>", rest + b"\n") != b""


def _never_closed(name: str, rest: bytes, row: int) -> InvalidArgument:
    where = f"row {row:,}" if row else "the header"
    excerpt = rest[:60].decode(errors="replace")
    return InvalidArgument(f"{name}: {where}: a quote is opened and never closed: CSV {excerpt!r}", path=name, row=row)
