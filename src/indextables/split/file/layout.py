"""Describes the bytes between the last row group and the Parquet footer, and the key that points at them.

    header      "ITIX", u16 version, u16 zero, u32 stored length, u32 raw length, u32 crc32c of the stored bytes
    directory   zstd of a MessagePack map (`Directory`)
    components  in the order of need, each stored by itself: range 1 ends after `term`

`docs/PROTOCOL.md` specifies it for others; this module is the only one that reads or writes it. Integers are little
endian. Every length is checked against what is there before anything is decompressed or handed to native code.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable

import google_crc32c
import msgspec
import pyarrow as pa

from indextables.errors import InvariantViolated, SplitCorrupt

__all__ = [
    "COMPONENT_ORDER",
    "FORMAT",
    "HEADER_BYTES",
    "KEY",
    "KEY_BYTES",
    "PAGES",
    "SEGMENT_PARTS",
    "Component",
    "Directory",
    "IndexPointer",
    "SplitKey",
    "StoredPart",
    "check_id",
    "crc32c",
    "decode_directory",
    "decode_key",
    "directory_length",
    "encode_section",
    "fill_key",
    "key_value",
    "pack",
    "unpack",
    "verify_footer",
]

FORMAT = 1
KEY = b"indextables.split"
KEY_BYTES = 200
"""The length of the key's value: fixed, because it is filled in after the footer was written."""
HEADER_BYTES = 20
SEGMENT_PARTS = ("term", "idx", "fieldnorm", "pos", "fast", "store")
"""The files of a Tantivy segment, by extension. Of `store` only the tail is kept: nothing is stored in Tantivy."""
PAGES = "pages"
COMPONENT_ORDER = ("term", "idx", "fieldnorm", PAGES, "pos", "fast")

_KNOWN = (*COMPONENT_ORDER, "store")
_MAGIC = b"ITIX"
_HEADER = struct.Struct("<4sHHIII")
_MAX_DIRECTORY = 64 << 20
_MAX_RAW = 4 << 30
_LEVEL = 3

_WORTH_PACKING = 512
"""Raw bytes below which zstd saves a hundred bytes at the most, and costs writer and reader more than they do."""


class Component(msgspec.Struct, frozen=True, omit_defaults=True):
    """One component of the index section.

    `[offset, offset + length)` counts from the start of the section. `crc32c` is of the stored bytes. `tail` holds the
    last bytes of the raw component: what Tantivy reads when it opens the file; the rest may be a hole until needed.
    """

    name: str
    offset: int
    length: int
    raw_length: int
    codec: str
    crc32c: int
    tail: bytes = b""

    @property
    def end(self) -> int:
        return self.offset + self.length


class Directory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a split's index section holds.

    1. `num_rows` is both the number of rows and of documents; the document id is the row number.
    2. `segment` is the segment's id in Tantivy (32 hexadecimal digits), empty if no column is indexed: then only the
       page locations are there.
    3. `schema` is Tantivy's schema as it stands in `meta.json`; `doc_mapping` is the `IndexPlan` it was built by.
    4. `tokens` has the token total of every indexed field, by field id, as BM25 needs it.
    5. `incomplete` names the fields, by id, whose terms do not cover every row, each with the reasons (`longToken`,
       `longValue`, `badValue`): a search on such a field scans this split.
    6. `id` is the split's, the same as in its `SplitKey`; empty in splits that were written without one.
    """

    num_rows: int
    tantivy: str
    index_format: int
    segment: str
    schema: str
    doc_mapping: str
    components: tuple[Component, ...]
    tokens: dict[str, int] = {}
    incomplete: dict[str, list[str]] = {}
    null_counts: dict[str, int] = {}
    id: str = ""

    def component(self, name: str) -> Component | None:
        """The component of this name, if the section has it."""
        return next((c for c in self.components if c.name == name), None)


class IndexPointer(msgspec.Struct, frozen=True):
    """Where the index section is in the file, and how much of it is the first range."""

    start: int
    length: int
    range1: int


class SplitKey(msgspec.Struct, frozen=True):
    """The value of `indextables.split` in the Parquet key-value metadata, padded with blanks to `KEY_BYTES`.

    `footer_crc32c` is of the footer with this value blanked out, so that a damaged footer cannot pass for another one.
    `id` (32 hexadecimal digits) tells the split from every other; the `add` of the log carries the same.
    """

    format: int
    rows: int
    footer_crc32c: int
    index: IndexPointer | None = None
    id: str | None = None


class StoredPart(msgspec.Struct, frozen=True):
    """A component ready to be written: its bytes at rest and the facts about its raw form."""

    name: str
    stored: bytes | memoryview
    raw_length: int
    codec: str
    tail: bytes = b""


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C (Castagnoli) of the bytes."""
    # The native code takes no views but Arrow's buffers, which copy nothing.
    return int(google_crc32c.value(data if isinstance(data, bytes) else pa.py_buffer(data)))


def pack(name: str, raw: bytes | memoryview | pa.Buffer, tail: bytes = b"") -> StoredPart:
    """A component as it is kept at rest: zstd where that helps, else as it is."""
    view = memoryview(raw)
    if view.nbytes < _WORTH_PACKING:
        return StoredPart(name=name, stored=bytes(view), raw_length=view.nbytes, codec="none", tail=tail)
    stored: pa.Buffer = _codec().compress(view)
    if stored.size >= view.nbytes or view.nbytes > raw_limit(stored.size):
        return StoredPart(name=name, stored=bytes(view), raw_length=view.nbytes, codec="none", tail=tail)
    return StoredPart(name=name, stored=memoryview(stored), raw_length=view.nbytes, codec="zstd", tail=tail)


def raw_limit(stored_length: int) -> int:
    """The most that `stored_length` bytes may decompress to: a longer claim is a bomb, and is never written."""
    return min(_MAX_RAW, (64 << 20) + 1024 * stored_length)


def encode_section(base: Directory, parts: Iterable[StoredPart]) -> tuple[list[bytes | memoryview], Directory, int]:
    """The pieces of the section in order, the directory as written, and the length of the first range.

    `base.components` is ignored. Parts are laid out in `COMPONENT_ORDER`; `store` has a tail and no bytes. Offsets
    depend on the length of the directory, which depends on them: they are found by laying out until they hold still.
    """
    ordered = sorted(parts, key=lambda p: _KNOWN.index(p.name))
    sums = [crc32c(p.stored) for p in ordered]
    start = HEADER_BYTES + 4096
    while True:
        directory = msgspec.structs.replace(base, components=_lay_out(ordered, sums, start))
        raw = msgspec.msgpack.encode(directory)
        stored = _codec().compress(raw, asbytes=True)
        if HEADER_BYTES + len(stored) <= start <= HEADER_BYTES + len(stored) + 64:
            break
        start = HEADER_BYTES + len(stored) + 32
    header = _HEADER.pack(_MAGIC, FORMAT, 0, len(stored), len(raw), crc32c(stored))
    pad = bytes(start - HEADER_BYTES - len(stored))
    term = directory.component("term")
    range1 = term.end if term is not None else start
    return [header, stored, pad, *(p.stored for p in ordered)], directory, range1


def directory_length(header: bytes, path: str) -> int:
    """Bytes of header and directory together, from the first `HEADER_BYTES` of a section. Raises SplitCorrupt."""
    if len(header) < HEADER_BYTES:
        raise _corrupt(path, f"the index section has {len(header)} bytes where its header needs {HEADER_BYTES}")
    magic, version, _, stored_length, _, _ = _HEADER.unpack_from(header)
    if magic != _MAGIC:
        raise _corrupt(path, "the index section does not begin with its magic bytes")
    if version != FORMAT:
        raise _corrupt(path, f"the index section has format {version}, this library reads {FORMAT}")
    if stored_length > _MAX_DIRECTORY:
        raise _corrupt(path, f"the index directory claims {stored_length} bytes")
    return HEADER_BYTES + int(stored_length)


def decode_directory(data: bytes | memoryview, path: str, *, section_length: int | None = None) -> Directory:
    """The directory at the start of a section; `data` may go on beyond it.

    It has the components that this library knows: whatever a later one adds beside them is left alone, and nothing of
    it is checked. With `section_length` given, no component reaches beyond it. Raises SplitCorrupt that names `path`.
    """
    view = memoryview(data)
    end = directory_length(bytes(view[:HEADER_BYTES]), path)
    if view.nbytes < end:
        raise _corrupt(path, f"the index directory ends after {view.nbytes} of {end} bytes")
    _, _, _, _, raw_length, checksum = _HEADER.unpack_from(view)
    stored = bytes(view[HEADER_BYTES:end])
    if crc32c(stored) != checksum:
        raise _corrupt(path, "the index directory does not match its checksum")
    raw = _decompress(stored, raw_length, min(_MAX_DIRECTORY, raw_limit(len(stored))), path, "index directory")
    try:
        directory = _DIRECTORY.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _corrupt(path, f"the index directory cannot be read: {error}") from error
    known = tuple(component for component in directory.components if component.name in _KNOWN)
    msgspec.structs.force_setattr(directory, "components", known)
    _check(directory, end, section_length, path)
    # Thousands of splits say the same.
    for name in ("schema", "doc_mapping", "tantivy"):
        msgspec.structs.force_setattr(directory, name, sys.intern(getattr(directory, name)))
    return directory


def unpack(component: Component, stored: bytes | memoryview, path: str) -> memoryview:
    """The raw bytes of a component, checksum and length verified. Raises SplitCorrupt that names the component."""
    view = memoryview(stored)
    if view.nbytes != component.length:
        reason = f"component {component.name} has {view.nbytes} of {component.length} bytes"
        raise _corrupt(path, reason, component.name)
    if crc32c(view) != component.crc32c:
        raise _corrupt(path, f"component {component.name} does not match its checksum", component.name)
    if component.codec == "none":
        return view
    limit = raw_limit(component.length)
    return memoryview(_decompress(view, component.raw_length, limit, path, component.name))


def fill_key(footer: bytes, rows: int, index: IndexPointer, split_id: str) -> bytes:
    """A footer whose blank value of the key is filled in. Raises InvariantViolated if it does not fit there."""
    blank = _blank_value()
    if footer.count(blank) != 1:
        raise InvariantViolated("a footer of ours has no place for the pointer at its index: please report this")
    key = SplitKey(format=FORMAT, rows=rows, footer_crc32c=crc32c(footer), index=index, id=split_id)
    value = msgspec.json.encode(key)
    if len(value) > KEY_BYTES:
        raise InvariantViolated(f"the pointer at an index takes {len(value)} of {KEY_BYTES} bytes: please report this")
    return footer.replace(blank, blank[:-KEY_BYTES] + value.ljust(KEY_BYTES))


def key_value(footer: bytes) -> bytes | None:
    """The value of the key in a footer, found without reading the rest of it; None if it is not there just once."""
    head = _blank_value()[:-KEY_BYTES]
    start = footer.find(head) + len(head)
    return footer[start : start + KEY_BYTES] if footer.count(head) == 1 else None


def verify_footer(footer: bytes, value: bytes, key: SplitKey, path: str) -> None:
    """Raises SplitCorrupt if the footer is not, byte for byte, the one that was written."""
    blank = _blank_value()
    written = blank[:-KEY_BYTES] + value
    if footer.count(written) != 1 or crc32c(footer.replace(written, blank)) != key.footer_crc32c:
        raise _corrupt(path, "the Parquet footer does not match its checksum", "footer")


def check_id(found: str | None, logged: str | None, path: str, part: str) -> None:
    """Raises SplitCorrupt if the log names a split (`logged`) and these are the bytes of another one."""
    if logged is not None and found != logged:
        reason = f"it holds the bytes of split {found or 'without an id'}, the log names {logged}"
        message = f"{path}: {reason}; restore the file from a copy, or drop it from the table"
        raise SplitCorrupt(message, path=path, part=part, reason=reason)


def decode_key(value: bytes, path: str) -> SplitKey:
    """The pointer in a Parquet footer. Raises SplitCorrupt."""
    try:
        key = _KEY.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _corrupt(path, f"the key {KEY.decode()} cannot be read: {error}", "footer") from error
    index = key.index
    if key.format != FORMAT:
        raise _corrupt(path, f"the split has format {key.format}, this library reads {FORMAT}", "footer")
    if not 0 <= key.rows < 1 << 31:
        raise _corrupt(path, f"the split claims {key.rows} rows", "footer")
    if index is not None and not (4 <= index.start < 1 << 62 and 0 <= index.range1 <= index.length < 1 << 40):
        raise _corrupt(path, "the index pointer is out of range", "footer")
    return key


def _lay_out(parts: list[StoredPart], sums: list[int], start: int) -> tuple[Component, ...]:
    components = []
    offset = start
    for part, checksum in zip(parts, sums, strict=True):
        length = memoryview(part.stored).nbytes
        components.append(
            Component(
                name=part.name,
                offset=offset,
                length=length,
                raw_length=part.raw_length,
                codec=part.codec,
                crc32c=checksum,
                tail=part.tail,
            )
        )
        offset += length
    return tuple(components)


def _check(directory: Directory, directory_end: int, section_length: int | None, path: str) -> None:
    """What no writer of ours would write is refused here, before any length is used."""
    if not 0 <= directory.num_rows < 1 << 31:
        raise _corrupt(path, f"the index directory claims {directory.num_rows} rows")
    names = [c.name for c in directory.components]
    if len(set(names)) != len(names):
        raise _corrupt(path, f"the index directory lists the components {names}")
    if directory.segment:
        if len(directory.segment) != 32 or not all(c in "0123456789abcdef" for c in directory.segment):
            raise _corrupt(path, "the segment id is not 32 hexadecimal digits")
        if not set(SEGMENT_PARTS) <= set(names):
            raise _corrupt(path, f"the index directory lists only the components {names}")
    place = directory_end
    for component in directory.components:
        if component.codec not in ("none", "zstd") or component.length < 0 or component.raw_length < 0:
            raise _corrupt(path, f"component {component.name} is described wrongly", component.name)
        hollow = component.name == "store"
        if component.codec == "none" and component.raw_length != component.length and not hollow:
            raise _corrupt(path, f"component {component.name} has two lengths", component.name)
        if component.raw_length > raw_limit(component.length) and not hollow:
            raise _corrupt(path, f"component {component.name} claims {component.raw_length} bytes", component.name)
        if component.raw_length > _MAX_RAW or len(component.tail) > component.raw_length:
            raise _corrupt(path, f"component {component.name} has an impossible tail", component.name)
        if component.offset < place:
            raise _corrupt(path, f"component {component.name} overlaps its neighbour", component.name)
        place = component.end
    if section_length is not None and place > section_length:
        raise _corrupt(path, f"the components end at {place}, the section at {section_length}")


def _decompress(data: bytes | memoryview, raw_length: int, limit: int, path: str, what: str) -> pa.Buffer:
    if raw_length > limit:
        raise _corrupt(path, f"{what} claims {raw_length} bytes from {len(data)}", what)
    try:
        raw = _codec().decompress(data, decompressed_size=raw_length)
    except (OSError, ValueError) as error:  # pyarrow's own errors derive from these
        raise _corrupt(path, f"{what} cannot be decompressed: {error}", what) from error
    if raw.size != raw_length:
        raise _corrupt(path, f"{what} decompresses to {raw.size} of {raw_length} bytes", what)
    return raw


def _blank_value() -> bytes:
    """How Thrift's compact protocol writes the key and its blank value: a string field, its length, its bytes."""
    length = bytes([KEY_BYTES & 0x7F | 0x80, KEY_BYTES >> 7])
    return KEY + b"\x18" + length + b" " * KEY_BYTES


def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=_LEVEL)


def _corrupt(path: str, reason: str, part: str = "index") -> SplitCorrupt:
    message = f"{path}: {reason}; its rows may still be readable, reindex rebuilds the index from them"
    return SplitCorrupt(message, path=path, part=part, reason=reason)


# Made on import: msgspec publishes what it knows of a Struct before it is complete, and a second thread that decodes
# one for the first time reads a null pointer.
_DIRECTORY = msgspec.msgpack.Decoder(Directory)
_KEY = msgspec.json.Decoder(SplitKey)
