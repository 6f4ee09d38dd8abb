"""Reads and writes Avro object container files as Arrow columns.

The frame (magic, header, blocks, sync markers) is read and written here, with every length checked before it is
believed; the records of one block are decoded and encoded natively. What holds after `read_container` returns:

1. the file was an Avro container to its last byte: magic, codec, sync markers and block lengths are right;
2. no block was decompressed beyond `MAX_BLOCK` bytes, all of them together not beyond `limit`, and there are no more
   than `MAX_ROWS` records;
3. the writer's schema is one that we know (`Shape.accepts`): names and types, nothing recursive, nothing deep;
4. the number of rows is the sum of the blocks' counts.

Anything else is CheckpointCorrupt or LimitExceeded, also where the native decoder panics.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyruhvro

from indextables.errors import CheckpointCorrupt, CheckpointWriteFailed, LimitExceeded
from indextables.process import NativeThreads

__all__ = ["MAX_BLOCK", "MAX_ROWS", "Shape", "plain_container", "read_container", "write_container", "write_record"]

MAX_BLOCK = 200 << 20
"""Bytes that one decompressed block may have (the default of Avro's own library)."""

MAX_ROWS = 1_000_000
"""Records in one container: a few bytes in a file become hundreds in columns."""

MAX_FILE = 8 << 30
MAX_HEADER = 4 << 20
MAX_DEPTH = 16

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_STEP = 1 << 20
# The native decoder has no bytes; no record of ours needs them.
_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "string"}


class Shape:
    """A record that we read and write: its Avro schema, and which writer schemas are the same thing.

    A writer's schema is accepted if each of its fields, nested ones too, has a name of ours and the same type; a field
    of ours that the writer lacks must have a default. A field that we do not know is refused: its bytes cannot be
    skipped without trusting a schema that nobody checked.
    """

    def __init__(self, schema: dict[str, object]) -> None:
        self.schema = schema
        self.text = msgspec.json.encode(schema).decode()
        self._encoded = self.text.encode()
        self._kind = _kind(schema, {}, 0)
        self._block = _block_of(schema)

    def accepts(self, text: bytes, name: str) -> str:
        """The schema by which blocks of a writer whose schema is `text` are decoded. Raises CheckpointCorrupt."""
        if text == self._encoded:
            return self._block
        try:
            writer = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _corrupt(name, f"its schema is no JSON: {error}") from error
        try:
            _same(self._kind, _kind(writer, {}, 0), "$")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise _corrupt(name, f"its schema is not ours ({error})") from error
        return _block_of(writer)


def read_container(data: bytes | memoryview, shape: Shape, *, name: str, limit: int = MAX_FILE) -> pa.Table:
    """All records as columns, one batch a block. Raises CheckpointCorrupt and LimitExceeded; `name` is for messages."""
    frame = _Cursor(memoryview(data), name)
    codec, writer = _header(frame)
    schema = shape.accepts(writer, name)
    sync = frame.take(_SYNC_BYTES)
    batches = []
    total = rows = 0
    for count, block in _blocks(frame, sync, codec, name):
        total += len(block)
        rows += count
        if rows > MAX_ROWS:
            raise LimitExceeded(f"{name} holds more than {MAX_ROWS} records", path=name, limit=MAX_ROWS, actual=rows)
        if total > limit:
            raise LimitExceeded(f"{name} decompresses to more than {limit} bytes", path=name, limit=limit, actual=total)
        batches.append(_decode(count, block, schema, name))
    if not batches:
        batches.append(_decode(0, b"", schema, name))
    return pa.Table.from_batches(batches)


def plain_container(data: bytes, *, name: str, limit: int) -> bytes:
    """The same records under the same schema, whatever that is, without compression: for a reader that trusts it.

    Raises CheckpointCorrupt, and LimitExceeded for what becomes longer than `limit`.
    """
    frame = _Cursor(memoryview(data), name)
    codec, schema = _header(frame)
    sync = frame.take(_SYNC_BYTES)
    pieces = [_MAGIC + _map({"avro.schema": schema, "avro.codec": b"null"}) + sync]
    total = 0
    for count, block in _blocks(frame, sync, codec, name):
        total += len(block)
        if total > limit:
            raise LimitExceeded(f"{name} decompresses to more than {limit} bytes", path=name, limit=limit)
        pieces += [_long(count), _long(len(block)), block, sync]
    return b"".join(pieces)


def write_container(rows: pa.Table, shape: Shape, *, codec: str, level: int, sync: bytes, block_rows: int) -> bytes:
    """The bytes of a container; `rows` has the columns of `shape`, in order. `sync` is 16 random bytes.

    `codec` is one of `null`, `deflate`, `snappy`, `zstandard`; `level` counts for zstandard. Raises
    CheckpointWriteFailed for values that the records cannot hold.
    """
    pieces = [_head(shape, codec, sync)]
    for batch in rows.combine_chunks().to_batches(max_chunksize=block_rows):
        packed = _compress(_encode(batch, shape), codec, level)
        pieces += [_long(batch.num_rows), _long(len(packed)), packed, sync]
    return b"".join(pieces)


def write_record(
    record: Mapping[str, object],
    shape: Shape,
    *,
    codec: str,
    level: int,
    sync: bytes,
    notes: Mapping[str, bytes] | None = None,
) -> bytes:
    """The bytes of a container with this one record. For small ones of any shape: encoded here, value by value.

    `notes` are further entries of the header.
    """
    out = bytearray()
    _put(shape.schema, record, out)
    packed = _compress(memoryview(out), codec, level)
    return b"".join([_head(shape, codec, sync, notes), _long(1), _long(len(packed)), packed, sync])


class _Cursor:
    """A position in bytes; every read is checked against the end."""

    def __init__(self, data: memoryview, name: str) -> None:
        self.data = data
        self.at = 0
        self.name = name

    def take(self, count: int) -> bytes:
        return bytes(self.view(count))

    def view(self, count: int) -> memoryview:
        if count < 0 or count > len(self.data) - self.at:
            raise _corrupt(self.name, f"it ends {count} bytes early at offset {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def long(self) -> int:
        value = shift = 0
        while True:
            byte = self.view(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise _corrupt(self.name, f"a number at offset {self.at} is longer than 64 bits")

    @property
    def done(self) -> bool:
        return self.at == len(self.data)


def _header(frame: _Cursor) -> tuple[str, bytes]:
    """The codec and the text of the writer's schema."""
    if frame.take(4) != _MAGIC:
        raise _corrupt(frame.name, "it does not start as an Avro file")
    entries: dict[str, bytes] = {}
    while (count := frame.long()) != 0:
        if count < 0:
            count = -count
            frame.long()
        for _ in range(count):
            key = frame.take(frame.long()).decode("utf-8", "replace")
            entries[key] = frame.take(frame.long())
            if frame.at > MAX_HEADER:
                raise LimitExceeded(f"the header of {frame.name} is too long", path=frame.name, limit=MAX_HEADER)
    codec = entries.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in {"null", "deflate", "snappy", "zstandard"}:
        raise _corrupt(frame.name, f"its codec {codec!r} is none that we read")
    return codec, entries.get("avro.schema", b"")


def _blocks(frame: _Cursor, sync: bytes, codec: str, name: str) -> Iterator[tuple[int, bytes]]:
    while not frame.done:
        count = frame.long()
        packed = frame.view(frame.long())
        if frame.take(_SYNC_BYTES) != sync:
            raise _corrupt(name, f"a sync marker before offset {frame.at} is wrong")
        block = _decompress(packed, codec, name)
        if count < 0 or count > len(block):
            raise _corrupt(name, f"a block of {len(block)} bytes claims {count} records")
        if count == 0 and len(block):
            raise _corrupt(name, "a block without records has bytes")
        if count:
            yield count, block


def _decode(count: int, block: bytes, schema: str, name: str) -> pa.RecordBatch:
    """A block is what an Avro array of the record would hold: framed as one, a single native call decodes it all."""
    datum = (_long(count) + block + b"\x00") if count else b"\x00"
    try:
        batch = pyruhvro.deserialize_array([datum], schema)
    except BaseException as error:
        # The native decoder reports damage as ValueError or as a panic, which is a BaseException and nothing finer.
        if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit)):
            raise
        raise _corrupt(name, f"its records cannot be decoded ({type(error).__name__}: {error})") from error
    column = batch.column(0)
    if batch.num_rows != 1 or len(column.flatten()) != count:
        raise _corrupt(name, f"a block of {count} records decodes to {len(column.flatten())}")
    rows = pa.RecordBatch.from_struct_array(column.flatten())
    try:
        # The native decoder takes any bytes for text.
        rows.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _corrupt(name, f"its records hold what is not a text ({error})") from error
    return rows


_ENCODER = NativeThreads("Avro encoder in use", f"{__name__}._ENCODER")


def _encode(batch: pa.RecordBatch, shape: Shape) -> memoryview:
    """The concatenated records: the value buffer of the native encoder's answer.

    Its threads do not survive fork(): a child would wait for them for ever, and encodes value by value instead.
    """
    if _ENCODER.inherited:
        out = bytearray()
        for record in batch.to_pylist(maps_as_pydicts="strict"):
            _put(shape.schema, record, out)
        return memoryview(out)
    _ENCODER.used = True
    try:
        encoded = pyruhvro.serialize_record_batch(batch, shape.text, 1)[0]
    except BaseException as error:
        # As in `_decode`: a panic is a BaseException and nothing finer.
        if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit)):
            raise
        message = f"records cannot be encoded ({type(error).__name__}: {error})"
        raise CheckpointWriteFailed(message, reason=str(error)) from error
    offsets, values = encoded.buffers()[1:]
    ends = memoryview(offsets).cast("i")
    return memoryview(values)[ends[encoded.offset] : ends[encoded.offset + len(encoded)]]


def _decompress(packed: memoryview, codec: str, name: str) -> bytes:
    if codec == "null":
        return _capped(iter([bytes(packed)]), name)
    if codec == "deflate":
        return _inflate(packed, name)
    try:
        if codec == "snappy":
            return _unsnap(packed, name)
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            return _capped(iter(lambda: stream.read(_STEP), b""), name)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _corrupt(name, f"a block cannot be decompressed: {error}") from error


def _inflate(packed: memoryview, name: str) -> bytes:
    inflater = zlib.decompressobj(-15)
    try:
        data = inflater.decompress(packed, MAX_BLOCK + 1)
    except zlib.error as error:
        raise _corrupt(name, f"a block cannot be decompressed: {error}") from error
    if len(data) > MAX_BLOCK:
        raise _bomb(name)
    # Some writers cut their blocks out of a zlib stream and leave up to four bytes of its checksum behind.
    if not inflater.eof or len(inflater.unused_data) > 4:
        raise _corrupt(name, "a compressed block ends early or late")
    return data


def _unsnap(packed: memoryview, name: str) -> bytes:
    body, check = packed[:-4], packed[-4:]
    size = shift = 0
    for byte in bytes(body[:5]):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MAX_BLOCK:
        raise _bomb(name)
    data = pa.decompress(pa.py_buffer(body), decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(data) != int.from_bytes(check, "big"):
        raise _corrupt(name, "the checksum of a block is wrong")
    return bytes(data)


def _capped(chunks: Iterator[bytes], name: str) -> bytes:
    pieces, total = [], 0
    for chunk in chunks:
        total += len(chunk)
        if total > MAX_BLOCK:
            raise _bomb(name)
        pieces.append(chunk)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _compress(block: memoryview, codec: str, level: int) -> bytes:
    if codec == "null":
        return bytes(block)
    if codec == "deflate":
        deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
        return deflater.compress(block) + deflater.flush()
    if codec == "snappy":
        packed = pa.compress(pa.py_buffer(block), codec="snappy", asbytes=True)
        return bytes(packed) + zlib.crc32(block).to_bytes(4, "big")
    return bytes(pa.Codec("zstd", compression_level=level).compress(pa.py_buffer(block), asbytes=True))


def _block_of(schema: object) -> str:
    """The schema of a block: what an array of the record would be."""
    rows = {"type": "array", "items": schema}
    block = {"type": "record", "name": "Block", "fields": [{"name": "rows", "type": rows}]}
    return msgspec.json.encode(block).decode()


def _kind(schema: object, names: dict[str, object], depth: int) -> object:
    """A schema without names and documentation: primitives as text, everything else as a tuple. Raises ValueError."""
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(schema, str):
        return schema if schema in _PRIMITIVES else names[schema.rsplit(".", 1)[-1]]
    if isinstance(schema, list):
        return ("union", tuple(_kind(branch, names, depth + 1) for branch in schema))
    if not isinstance(schema, dict):
        raise TypeError(schema)
    form = schema["type"]
    if form == "map":
        return ("map", _kind(schema["values"], names, depth + 1))
    if form == "array":
        return ("array", _kind(schema["items"], names, depth + 1))
    if form == "record":
        fields = {str(f["name"]): (_kind(f["type"], names, depth + 1), "default" in f) for f in schema["fields"]}
        names[str(schema["name"]).rsplit(".", 1)[-1]] = ("record", fields)
        return ("record", fields)
    if isinstance(form, str) and form in _PRIMITIVES and "logicalType" not in schema:
        return form
    raise ValueError(f"type {form!r}")


def _same(ours: object, theirs: object, at: str) -> None:
    """Raises ValueError where a value of `theirs` is not one of `ours` on the wire. Walks along `ours`, so it ends."""
    if isinstance(ours, str) or isinstance(theirs, str) or not isinstance(ours, tuple) or not isinstance(theirs, tuple):
        if ours != theirs:
            raise ValueError(f"{at} is {theirs!s:.80}, not {ours!s:.80}")
        return
    if ours[0] != theirs[0]:
        raise ValueError(f"{at} is a {theirs[0]}, not a {ours[0]}")
    if ours[0] == "union":
        if len(ours[1]) != len(theirs[1]):
            raise ValueError(f"{at} is a union of {len(theirs[1])}, not {len(ours[1])}")
        for mine, other in zip(ours[1], theirs[1], strict=True):
            _same(mine, other, at)
    elif ours[0] == "record":
        for name, (kind, _) in theirs[1].items():
            if name not in ours[1]:
                raise ValueError(f"{at}.{name} is unknown")
            _same(ours[1][name][0], kind, f"{at}.{name}")
        missing = [name for name, (_, defaulted) in ours[1].items() if name not in theirs[1] and not defaulted]
        if missing:
            raise ValueError(f"{at} lacks {missing}")
    else:
        _same(ours[1], theirs[1], at)


def _put(schema: Any, value: Any, out: bytearray) -> None:
    """`value` as Avro; the schema is one of ours, so that a union is always null and one more."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(schema, list):
        out += b"\x00" if value is None else b"\x02"
        if value is not None:
            _put(schema[1], value, out)
    elif kind == "record":
        for field in schema["fields"]:
            _put(field["type"], value[field["name"]], out)
    elif kind in {"array", "map"}:
        if value:
            out += _long(len(value))
        for item in value.items() if kind == "map" else value:
            if kind == "map":
                _put("string", item[0], out)
            _put(schema["items"] if kind == "array" else schema["values"], item if kind == "array" else item[1], out)
        out += b"\x00"
    elif kind in {"int", "long"}:
        out += _long(value)
    elif kind == "boolean":
        out += b"\x01" if value else b"\x00"
    else:
        data = value.encode()
        out += _long(len(data))
        out += data


def _head(shape: Shape, codec: str, sync: bytes, notes: Mapping[str, bytes] | None = None) -> bytes:
    return _MAGIC + _map({"avro.schema": shape.text.encode(), "avro.codec": codec.encode(), **(notes or {})}) + sync


def _map(entries: dict[str, bytes]) -> bytes:
    pieces = [_long(len(entries))]
    for key, value in entries.items():
        pieces += [_long(len(key)), key.encode(), _long(len(value)), value]
    return b"".join(pieces) + b"\x00"


def _long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _corrupt(name: str, reason: str) -> CheckpointCorrupt:
    return CheckpointCorrupt(f"{name} is damaged: {reason}", path=name, reason=reason)


def _bomb(name: str) -> LimitExceeded:
    message = f"a block of {name} decompresses to more than {MAX_BLOCK} bytes"
    return LimitExceeded(message, path=name, limit=MAX_BLOCK)
