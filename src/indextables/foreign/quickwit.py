"""Reads the rows of a split of IndexTables4Spark: a bundle of files of Tantivy, whose stored documents are the rows.

    files, metadata (magic, version, JSON with the offsets of the files), u32 their length, hotcache, u32 its length

All numbers are little endian. The term dictionary is of a kind that our Tantivy does not search in; documents are read.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import tantivy

from indextables.errors import IndexUnavailable, NotSupported, SplitCorrupt
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.split.index import native_read
from indextables.storage.store import Store

__all__ = ["check_types", "read_bundle_rows"]

_MAGIC, _VERSION = 0x1812BEAE, 1
_MAX_METADATA = 64 << 20
_CHUNK = 16 << 20
_BATCH_ROWS = 8192
_NAME = re.compile(r"[0-9a-f]{32}\.[a-z]{1,16}|[0-9a-f]{32}\.[0-9]{1,18}\.del|meta\.json|\.managed\.json")
_CHECKED = (".store", ".del")
"""The files that rows come from, and that take rows away; of the others nothing is read but what opens an index."""
_FOOTER_MAGIC = 1337
_COMPANION = "_parquet_manifest.json"
_KINDS = frozenset({"i64", "u64", "f64", "bool", "date", "bytes", "text", "json_object"})


class _Range(msgspec.Struct, frozen=True):
    start: int
    end: int


class _Bundle(msgspec.Struct, frozen=True):
    files: dict[str, _Range]


class _Field(msgspec.Struct, frozen=True):
    name: str
    type: str


class _Meta(msgspec.Struct, frozen=True):
    schema: list[_Field]


class _Footer(msgspec.Struct, frozen=True):
    crc: int


_BUNDLE, _META = msgspec.json.Decoder(_Bundle), msgspec.json.Decoder(_Meta)
_FOOTER = msgspec.json.Decoder(_Footer)


def read_bundle_rows(
    store: Store, key: str, size: int, rows: int | None, schema: pa.Schema, names: Sequence[str], where: Node | None
) -> Iterator[pa.RecordBatch]:
    """The rows for which `where` is true, in the columns `names`; `rows` is how many the log says there are.

    Raises NotSupported for types and bundles that are not read here, SplitCorrupt, ObjectNotFound, StoreError.
    """
    files = _files(store, key, size)
    wanted = list(dict.fromkeys([*names, *(columns_of(where) if where is not None else ())]))
    fields = [schema.field(name) for name in wanted]
    with tempfile.TemporaryDirectory(prefix="indextables-bundle-", ignore_cleanup_errors=True) as folder:
        _unpack(store, key, files, Path(folder))
        _check_fields(Path(folder), schema, key)
        for documents in _documents(folder, key, rows):
            columns = [_column(documents, field, key) for field in fields]
            plain = pa.schema([pa.field(field.name, field.type, field.nullable) for field in fields])
            batch = pa.RecordBatch.from_arrays(columns, schema=plain) if columns else _lengths(len(documents))
            kept = batch if where is None else batch.filter(evaluate(where, batch))
            if kept.num_rows:
                yield kept.select(list(names)) if names else _lengths(kept.num_rows)


def check_types(schema: pa.Schema, url: str) -> None:
    """Raises NotSupported for a column of a type that is not read out of such splits."""
    for field in schema:
        _reader(field.type, field.name, url, nested=False)


def _files(store: Store, key: str, size: int) -> dict[str, _Range]:
    """Where the files of the bundle are. Raises SplitCorrupt."""
    end = size - 4
    if end < 12:
        raise _corrupt(key, f"{size} bytes are no bundle")
    end -= 4 + int.from_bytes(store.get_range(key, size - 4, size), "little")
    if end < 8:
        raise _corrupt(key, "its hotcache is longer than the file")
    length = int.from_bytes(store.get_range(key, end, end + 4), "little")
    start = end - length
    if not 8 <= length <= _MAX_METADATA or start < 0:
        raise _corrupt(key, f"its metadata claim {length} bytes")
    data = store.get_range(key, start, end)
    if (int.from_bytes(data[:4], "little"), int.from_bytes(data[4:8], "little")) != (_MAGIC, _VERSION):
        raise _corrupt(key, "its metadata begin with other bytes")
    try:
        files = _BUNDLE.decode(data[8:]).files
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _corrupt(key, f"its metadata are no JSON: {error}") from error
    if _COMPANION in files:
        message = f"{key} is a companion split of IndexTables4Spark: its rows are in the Parquet files of another table"
        raise NotSupported(message, path=key)
    if any(not 0 <= found.start <= found.end <= start for found in files.values()):
        raise _corrupt(key, "a file of it lies outside")
    return {name: found for name, found in files.items() if _NAME.fullmatch(name)}


def _unpack(store: Store, key: str, files: dict[str, _Range], folder: Path) -> None:
    for name, found in files.items():
        with (folder / name).open("wb") as file:
            for start in range(found.start, found.end, _CHUNK):
                file.write(store.get_range(key, start, min(found.end, start + _CHUNK)))
        if name.endswith(_CHECKED):
            _check_sum(folder / name, name, key)


def _check_sum(path: Path, name: str, key: str) -> None:
    """Raises SplitCorrupt where a file is not the one that Tantivy wrote: it ends in the CRC-32 of what is before it.

    body, footer (JSON), u32 length of the footer, magic number
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - 8, 0))
        end = file.read()
        start = size - 8 - int.from_bytes(end[:4], "little")
        if start < 0 or int.from_bytes(end[4:], "little") != _FOOTER_MAGIC:
            raise _corrupt(key, f"{name} has no footer of Tantivy")
        file.seek(start)
        try:
            told = _FOOTER.decode(file.read(size - 8 - start)).crc
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise _corrupt(key, f"the footer of {name} cannot be read: {error}") from error
        file.seek(0)
        found = 0
        for at in range(0, start, _CHUNK):
            found = zlib.crc32(file.read(min(_CHUNK, start - at)), found)
    if found != told:
        raise _corrupt(key, f"{name} was changed: its checksum is another one")


def _check_fields(folder: Path, schema: pa.Schema, key: str) -> None:
    """Raises NotSupported for kinds that are not read, SplitCorrupt for fields of which the table knows nothing."""
    try:
        fields = _META.decode((folder / "meta.json").read_bytes()).schema
    except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _corrupt(key, f"its meta.json cannot be read: {error}") from error
    for field in fields:
        if field.type not in _KINDS:
            message = f"{key} has a field {field.name} of the kind {field.type}, which is not read here"
            raise NotSupported(message, path=key, column=field.name)
        if field.name not in schema.names:
            raise _corrupt(key, f"it has a field {field.name!r}, and the table no such column")


def _documents(folder: str, key: str, rows: int | None) -> Iterator[list[dict[str, Any]]]:
    """The stored documents, some at a time, in the order of segments. Raises SplitCorrupt."""
    with _native(key):
        searcher = tantivy.Index.open(folder).searcher()
        count = searcher.num_docs
    if rows is not None and count != rows:
        raise _corrupt(key, f"it has {count} rows where the log says {rows}")
    with _native(key):
        hits = searcher.search(tantivy.Query.all_query(), limit=max(1, count), count=False).hits
    if len(hits) != count:
        raise _corrupt(key, f"{len(hits)} of {count} rows can be read")
    addresses = sorted((address.segment_ord, address.doc) for _, address in hits)
    for at in range(0, count, _BATCH_ROWS):
        with _native(key):
            part = [
                searcher.doc(tantivy.DocAddress(segment, doc)).to_dict()
                for segment, doc in addresses[at : at + _BATCH_ROWS]
            ]
        yield part


@contextlib.contextmanager
def _native(key: str) -> Iterator[None]:
    """What Tantivy refuses or dies of is SplitCorrupt: here the index is where the rows are."""
    try:
        with native_read(key):
            yield
    except (IndexUnavailable, OSError, RuntimeError) as error:
        raise _corrupt(key, f"its documents cannot be read: {error}") from error


def _column(documents: list[dict[str, Any]], field: pa.Field, key: str) -> pa.Array:
    read = _reader(field.type, field.name, key, nested=False)
    try:
        values = [None if not (found := document.get(field.name)) else read(_only(found)) for document in documents]
        column = pa.array(values, field.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError, KeyError) as error:
        raise _corrupt(key, f"column {field.name} holds what is no {field.type}: {error}") from error
    if column.null_count and not field.nullable:
        raise _corrupt(key, f"column {field.name} holds nulls, and the table says that it never does")
    return column


def _only(values: list[Any]) -> Any:
    if len(values) != 1:
        raise ValueError(f"{len(values)} values in one row")
    return values[0]


def _reader(kind: pa.DataType, column: str, where: str, *, nested: bool) -> Callable[[Any], Any]:
    """What makes a value for Arrow of one that Tantivy stored. Raises NotSupported for a type that nobody tried."""
    types = pa.types
    if types.is_struct(kind):
        inner = {f.name: _reader(f.type, f"{column}.{f.name}", where, nested=True) for f in kind}
        return lambda value: {n: None if (v := value.get(n)) is None else read(v) for n, read in inner.items()}
    if types.is_list(kind):
        one = _reader(kind.value_type, column, where, nested=True)
        return lambda value: [None if v is None else one(v) for v in _listed(value)]
    if types.is_map(kind) and types.is_string(kind.key_type):
        item = _reader(kind.item_type, column, where, nested=True)
        return lambda value: [(k, None if v is None else item(v)) for k, v in value.items()]
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_string(kind):
        return _exactly(bool if types.is_boolean(kind) else int if types.is_integer(kind) else str)
    if types.is_floating(kind):
        return float
    if not nested and types.is_binary(kind):
        return bytes
    if not nested and types.is_date(kind):
        return _day
    if not nested and types.is_timestamp(kind):
        return (lambda value: value) if kind.tz else (lambda value: value.replace(tzinfo=None))
    message = f"column {column} of {where} is {kind}, which is not read out of splits of IndexTables4Spark"
    raise NotSupported(message, column=column)


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is no {kind.__name__}")
        return value

    return check


def _listed(value: Any) -> list[Any]:
    found = value["_values"] if isinstance(value, dict) else value
    if not isinstance(found, list):
        raise TypeError(f"{found!r} is no list")
    return found


def _day(value: dt.datetime) -> dt.date:
    if value.time() != dt.time():
        raise ValueError(f"{value} is no day")
    return value.date()


def _lengths(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def _corrupt(path: str, reason: str) -> SplitCorrupt:
    message = f"{path}: {reason}; restore the file, or drop it from the table with the library that wrote it"
    return SplitCorrupt(message, path=path, part="bundle", reason=reason)
