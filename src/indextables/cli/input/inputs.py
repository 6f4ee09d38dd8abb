"""Reads JSON lines, CSV and Parquet files as Arrow batches of the table's schema, a block at a time.

A file is never read whole. Texts become dates, instants and decimals where the table has such a column; a value that
does not fit stops the file with its name, and a column that the table does not have does too: nothing is dropped or
blanked in silence.
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from indextables.cli.input.csv_files import open_texts, sample_texts, suggested_type
from indextables.cli.input.fitting import check_distinct, conform, from_texts
from indextables.cli.input.json_lines import BadMap, MapLines, NullLine, ObjectLines, RecentLines, first_fault, map_free
from indextables.cli.input.reasons import reason_of
from indextables.cli.input.whole_numbers import InexactNumber, NumberLines, large_numbers
from indextables.errors import InvalidArgument
from indextables.query.convert import cast_or_null

__all__ = ["FORMATS", "Format", "Input", "check_files", "check_readable", "file_identity", "infer_schema", "open_input"]

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv", "parquet")
STDIN = "-"

_SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".log": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".split": "parquet",
}
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_SAMPLE_BYTES = 16 * 2**20
_BLOCK_BYTES = 4 * 2**20
_PARQUET_ROWS = 65_536
_WHOLE = pa.decimal128(38, 0)
_UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError, NullLine, InexactNumber, BadMap)
_OF_A_LINE = (pa.ArrowInvalid, UnicodeDecodeError, NullLine, InexactNumber, BadMap)
_Fault = tuple[int, str | None, Exception]
"""The row, its column if it is known, and what is wrong with it."""


class Input:
    """One file being read: `batches()` once, `position()` bytes done of `size` while it runs.

    `identity` is what the file's bytes were called before it was opened, where they must be those that are read.
    """

    def __init__(
        self, name: str, size: int | None, batches: Iterator[pa.RecordBatch], position: Callable[[], int]
    ) -> None:
        self.identity: str | None = None
        self.fault: Callable[[], _Fault | None] = lambda: None
        """Finds the first row, of those that did not come, that cannot be read."""
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
            except _UNREADABLE as cause:
                raise _unreadable(self.name, cause, rows, self.fault) from cause
            if batch is None:
                break
            rows += batch.num_rows
            yield batch
        if self.identity is not None and file_identity(self.name) != self.identity:
            message = f"{self.name}: it changed while it was read, and nothing of it was added: run this again"
            raise InvalidArgument(message, path=self.name)


def format_of(name: str, given: str | None) -> Format:
    """The format of a file by `given` or by its name. Raises InvalidArgument if neither tells."""
    if given is not None:
        for known in FORMATS:
            if given == known:
                return known
        raise InvalidArgument(f"format {given!r} is not one of {', '.join(FORMATS)}", format=given)
    if Path(name).is_dir():
        raise InvalidArgument(f"{name}: it is a directory; give the files in it", path=name)
    path = Path(name)
    suffix = Path(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix
    found = _SUFFIXES.get(suffix.lower())
    if found is None:
        message = f"{name}: its name does not tell the format; give --format {' | '.join(FORMATS)}"
        raise InvalidArgument(message, path=name)
    return found


def check_readable(names: Sequence[str]) -> None:
    """Raises InvalidArgument if one of these files is not there or may not be read. Touches no stream."""
    for name in names:
        try:
            if not _is_stream(name):
                Path(name).open("rb").close()
        except OSError as cause:
            raise _unreadable(name, cause) from cause


def check_files(names: Sequence[str]) -> None:
    """Raises InvalidArgument if one of these is not a file whose bytes can be read again."""
    for name in names:
        if _is_stream(name) and not Path(name).is_file():
            raise InvalidArgument(f"--once needs a file: what comes by {name} can be read only once")


def file_identity(name: str) -> str:
    """A name for the bytes of a file, the same wherever it lies. Raises InvalidArgument if it cannot be read."""
    try:
        with Path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as cause:
        raise _unreadable(name, cause) from cause


def infer_schema(name: str, kind: Format) -> pa.Schema:
    """The schema that the first megabytes of a file suggest. Raises InvalidArgument."""
    fault: Callable[[], _Fault | None] = lambda: None  # noqa: E731
    try:
        if kind == "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(_parquet_source(name)) as file:
                check_distinct(file.schema_arrow, name)
                return _tame(file.schema_arrow)
        head = _head(name)
        if kind == "csv":
            return _suggested_by_texts(sample_texts(head, name))
        fault = partial(_fault_in, head)
        ObjectLines(io.BytesIO(head)).read()
        sample = _read_sample(head, {})
        check_distinct(sample.schema, name)
        whole = _whole_numbers(sample, head)
        return _suggested(sample, whole, lambda types: _read_sample(head, types))
    except _UNREADABLE as cause:
        raise _unreadable(name, cause, fault=fault) from cause


def _fault_in(head: bytes) -> _Fault | None:
    lines = [line for line in head.split(b"\n") if line.strip()]

    def read(text: bytes) -> None:
        ObjectLines(io.BytesIO(text)).read()
        _read_sample(text, {})

    found = first_fault(lines, read)
    return None if found is None else (found[0] + 1, *found[1:])


def open_input(name: str, kind: Format, schema: pa.Schema) -> Input:
    """Open a file to be read as batches of exactly `schema`. Raises InvalidArgument."""
    recent: RecentLines | None = None
    fault: Callable[[], _Fault | None] = lambda: None  # noqa: E731
    try:
        if kind == "parquet":
            return _open_parquet(name, schema)
        stream, position, size = _open_stream(name)
        if kind == "csv":
            reader, fit = open_texts(stream, name, _BLOCK_BYTES), from_texts
        else:
            stream = recent = RecentLines(stream)
            fault = partial(_fault_of, recent, lambda text: list(_open_json(io.BytesIO(text), schema)))
            reader, fit = _open_json(stream, schema), conform
    except StopIteration:
        return Input(name, 0, iter(()), lambda: 0)
    except _UNREADABLE as cause:
        raise _unreadable(name, cause, fault=fault) from cause
    blocks = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal blocks
        rows = 0
        for batch in reader:
            yield fit(batch, schema, name, rows)
            rows += batch.num_rows
            blocks += 1
            if recent is not None:
                recent.taken = rows

    # The reader works ahead of us; a batch is a block, unless the file is compressed.
    opened = Input(
        name, size, batches(), lambda: min(position(), blocks * _BLOCK_BYTES) if _is_plain(name) else position()
    )
    opened.fault = fault
    return opened


def _fault_of(recent: RecentLines, read: Callable[[bytes], object]) -> _Fault | None:
    before, lines = recent.untaken()
    found = first_fault(lines, read)
    return None if found is None else (before + found[0] + 1, *found[1:])


def _open_json(stream: Any, schema: pa.Schema) -> Any:
    """A reader of JSON lines. Raises as Arrow does, and what the lines themselves raise; so does what it returns."""
    raw = {field.name: _raw_type(field.type) for field in schema}
    import pyarrow.json as pajson

    lines: io.RawIOBase = NumberLines(ObjectLines(stream), schema)
    if not map_free(pa.struct(list(schema))):
        lines = MapLines(lines, schema)
    return pajson.open_json(
        pa.PythonFile(lines, mode="r"),
        read_options=pajson.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pajson.ParseOptions(
            explicit_schema=pa.schema(list(raw.items())), unexpected_field_behavior="error"
        ),
    )


def _raw_type(data_type: pa.DataType) -> pa.DataType:
    """What the reader of JSON is asked for: as text what it reads less exactly than we do.

    Numbers cannot be had as text; decimals are read from numbers and from texts.
    """
    if pa.types.is_temporal(data_type) or pa.types.is_binary(data_type):
        return pa.string()
    if pa.types.is_map(data_type):
        # As MapLines writes it.
        return pa.list_(pa.struct([("key", pa.string()), ("value", _raw_type(data_type.item_type))]))
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _raw_type(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_raw_type(data_type.value_type))
    return data_type


def _open_parquet(name: str, schema: pa.Schema) -> Input:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(_parquet_source(name))
    check_distinct(file.schema_arrow, name)
    total = file.metadata.num_rows
    size = None if _is_stream(name) else Path(name).stat().st_size
    done = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal done
        with file:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                yield conform(batch, schema, name, done)
                done += batch.num_rows

    return Input(name, size, batches(), lambda: 0 if not total or size is None else size * done // total)


def _parquet_source(name: str) -> Any:
    return pa.BufferReader(_stream(name).read()) if _is_stream(name) else name


def _open_stream(name: str) -> tuple[Any, Callable[[], int], int | None]:
    """The bytes of a file, decompressed by its suffix, and how far into it they have come."""
    if _is_stream(name):
        if not _head(name):
            raise StopIteration
        return pa.PythonFile(_Rejoined(_heads.pop(name), _stream(name)), mode="r"), lambda: 0, None
    path = Path(name)
    file = pa.OSFile(str(path))
    compression = _COMPRESSED.get(path.suffix.lower())
    stream = file if compression is None else pa.CompressedInputStream(file, compression)
    return stream, lambda: 0 if file.closed else int(file.tell()), path.stat().st_size


_heads: dict[str, bytes] = {}
"""What was read ahead of streams, which cannot be read twice."""


def _is_stream(name: str) -> bool:
    """Standard input, a pipe, a device, a file of the kernel: it has no size and may come only once."""
    path = Path(name)
    return name == STDIN or (path.exists() and not path.is_dir() and not (path.is_file() and path.stat().st_size))


def _is_plain(name: str) -> bool:
    return Path(name).suffix.lower() not in _COMPRESSED


@lru_cache(maxsize=64)
def _stream(name: str) -> Any:
    return sys.stdin.buffer if name == STDIN else Path(name).open("rb", buffering=0)


class _Rejoined(io.RawIOBase):
    """Bytes that were read ahead, then the rest of the stream."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._head.read(size)
        return data or bytes(self._rest.read(size))


def _head(name: str) -> bytes:
    """The first whole lines of a file."""
    if _is_stream(name):
        head = _heads[name] = _heads.get(name) or _read_up_to(_stream(name), _SAMPLE_BYTES)
    else:
        compression = _COMPRESSED.get(Path(name).suffix.lower())
        with pa.input_stream(name, compression=compression) as stream:
            head = bytes(stream.read(_SAMPLE_BYTES))
    if len(head) < _SAMPLE_BYTES:
        return head
    return head[: head.rfind(b"\n") + 1] or head


def _read_up_to(stream: Any, size: int) -> bytes:
    """A pipe gives what it has, not what was asked for."""
    parts = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _read_sample(head: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The sample of JSON lines as a table; the columns of `types` as these, the others as Arrow takes them."""
    block = max(len(head), 1)
    import pyarrow.json as pajson

    parse = pajson.ParseOptions(explicit_schema=pa.schema(list(types.items())) if types else None)
    return pajson.read_json(
        pa.BufferReader(head), read_options=pajson.ReadOptions(block_size=block), parse_options=parse
    )


_Reread = Callable[[Mapping[str, pa.DataType]], pa.Table]


def _whole_numbers(sample: pa.Table, head: bytes) -> dict[str, pa.DataType]:
    """Columns that Arrow takes for doubles, and that hold whole numbers too large for them: a type that holds these.

    Raises InexactNumber for one that has fractions as well, or more than 38 digits.
    """
    large = large_numbers(head, sample.schema)
    for column, (number, row) in large.items():
        try:
            _read_sample(head, {column: _WHOLE})
        except pa.ArrowInvalid:
            raise InexactNumber(column, number, pa.float64(), row) from None
    return dict.fromkeys(large, _WHOLE)


def _suggested_by_texts(sample: pa.Table) -> pa.Schema:
    """The types that the texts of a CSV file state."""
    fields = []
    for column in sample.schema.names:
        texts = sample.column(column).combine_chunks()
        fields.append(pa.field(column, suggested_type(texts, column) or _time_type(texts)))
    return pa.schema(fields)


def _suggested(sample: pa.Table, whole: Mapping[str, pa.DataType], reread: _Reread) -> pa.Schema:
    """The sample's schema with times made out of texts where every text is one."""
    times = [field.name for field in sample.schema if pa.types.is_temporal(field.type)]
    texts = reread(dict.fromkeys(times, pa.string())) if times else sample
    fields = []
    for field in sample.schema:
        data_type = whole.get(field.name, field.type)
        if pa.types.is_string(data_type) or field.name in times:
            data_type = _time_type(texts.column(field.name).combine_chunks())
        fields.append(pa.field(field.name, data_type))
    return _tame(pa.schema(fields))


def _time_type(texts: pa.Array) -> pa.DataType:
    """The kind of time that all the texts state, or text."""
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    if texts.null_count == len(texts):
        return pa.string()
    candidates = [pa.timestamp("us", "UTC"), pa.timestamp("us")]
    if pc.all(pc.match_substring_regex(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")).as_py():
        candidates = [pa.date32()]
    for candidate in candidates:
        try:
            pc.cast(texts, candidate)
        except pa.ArrowInvalid:
            continue
        # What Arrow reads and we would not (the year 0) is not a time either.
        if cast_or_null(texts, candidate).null_count == texts.null_count:
            return candidate
    return pa.string()


def _tame(schema: pa.Schema) -> pa.Schema:
    """The types a table can have: nothing but nulls becomes text, times have microseconds."""
    return pa.schema([pa.field(field.name, _tamed(field.type)) for field in schema])


def _tamed(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_null(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", None if data_type.tz is None else "UTC")
    if pa.types.is_date(data_type):
        return pa.date32()
    if pa.types.is_dictionary(data_type):
        return _tamed(data_type.value_type)
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(f.name, _tamed(f.type)) for f in data_type.fields])
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return pa.list_(_tamed(data_type.value_type))
    return data_type


def _unreadable(
    name: str, cause: Exception, rows_before: int = 0, fault: Callable[[], _Fault | None] = lambda: None
) -> InvalidArgument:
    # Arrow counts values, of which a line may hold more than one.
    found = fault() if isinstance(cause, _OF_A_LINE) else None
    if found is None:
        return InvalidArgument(f"{name}: {reason_of(cause, rows_before)}", path=name)
    row, column, reason = found
    where = {"row": row} if column is None else {"row": row, "column": column}
    return InvalidArgument(f"{name}: {reason_of(reason, row=row, column=column)}", path=name, **where)
