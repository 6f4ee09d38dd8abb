"""Reads what we need of the files of a Tantivy segment: their footers, their tails, and the token totals in them.

Every file ends with a footer: JSON with version and CRC, u32 length of it, u32 1337. Before that, `.idx`, `.pos`,
`.term` and `.fieldnorm` are composite files (a part per field, then where each begins), `.fast` ends with the
dictionary of its columns and `.store` with its skip list.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pyarrow as pa

from indextables.errors import SplitCorrupt

__all__ = ["Version", "composite_parts", "field_bytes", "file_version", "tail_start", "token_totals"]

_MAGIC = 1337
_STORE_FOOTER = struct.Struct("<IQ16s")
_FAST_FOOTER = struct.Struct("<QIII")
_LONG_KEY = 1
"""Says that the lengths of a key are numbers of their own, not halves of a byte."""
_MOST_BLOCK = 1 << 24


class Version(msgspec.Struct, frozen=True):
    """The version of Tantivy that wrote a file."""

    major: int
    minor: int
    patch: int
    index_format_version: int

    @property
    def release(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class _Footer(msgspec.Struct, frozen=True):
    version: Version
    crc: int


def file_version(data: memoryview, name: str) -> Version:
    """Who wrote this file, from its footer. Raises SplitCorrupt."""
    end = _body_end(data, name)
    try:
        return _FOOTER.decode(bytes(data[end:-8])).version
    except msgspec.MsgspecError as error:
        raise _corrupt(name, f"its footer cannot be read: {error}") from error


def tail_start(data: memoryview, name: str) -> int:
    """Where the bytes begin that Tantivy reads when it opens this file; before them may be a hole.

    Raises SplitCorrupt.
    """
    end = _body_end(data, name)
    if name == "fast":
        length, _, _, _ = _unpack(_FAST_FOOTER, data, end - _FAST_FOOTER.size, name)
        start = end - _FAST_FOOTER.size - length
    elif name == "store":
        _, start, _ = _unpack(_STORE_FOOTER, data, end - _STORE_FOOTER.size, name)
    else:
        start = end - 4 - _footer_length(data, end, name)
    if not 0 <= start <= end:
        raise _corrupt(name, "its tail begins outside the file")
    return int(start)


def composite_parts(data: memoryview, name: str) -> Iterator[tuple[int, int, int]]:
    """(field ordinal, start, end) of the first part of each field in a composite file. Raises SplitCorrupt."""
    return ((field, begin, stop) for field, index, begin, stop in _composite(data, len(data), name) if index == 0)


def field_bytes(tail: memoryview, length: int, name: str) -> dict[int | str, int]:
    """How many bytes of a file each field takes, from its tail alone; `length` is the file's.

    Fields go by ordinal, those of `fast` by name. Raises SplitCorrupt.
    """
    found: dict[int | str, int] = {}
    if name == "fast":
        for field, begin, stop in _fast_columns(tail, length):
            found[field] = found.get(field, 0) + stop - begin
    else:
        for ordinal, _, begin, stop in _composite(tail, length, name):
            found[ordinal] = found.get(ordinal, 0) + stop - begin
    return found


def token_totals(idx: memoryview) -> dict[int, int]:
    """The number of tokens of each indexed field, by ordinal: the u64 at the start of its part of `.idx`."""
    totals = {}
    for field, begin, stop in composite_parts(idx, "idx"):
        if stop - begin >= 8:
            totals[field] = int.from_bytes(idx[begin : begin + 8], "little")
    return totals


def _composite(tail: memoryview, length: int, name: str) -> list[tuple[int, int, int, int]]:
    """(field ordinal, number of the part, start, end) of each part; offsets are of the file that ends with `tail`."""
    end = _body_end(tail, name)
    begin = end - 4 - _footer_length(tail, end, name)
    footer = bytes(tail[begin : end - 4])
    start = length - len(tail) + begin
    count, at = _vint(footer, 0, name)
    places: list[tuple[int, int, int]] = []
    offset = 0
    for _ in range(count):
        delta, at = _vint(footer, at, name)
        if at + 4 > len(footer):
            raise _corrupt(name, "its list of fields ends too early")
        field = int.from_bytes(footer[at : at + 4], "little")
        index, at = _vint(footer, at + 4, name)
        offset += delta
        places.append((offset, field, index))
    found = []
    for number, (first, field, index) in enumerate(places):
        stop = places[number + 1][0] if number + 1 < len(places) else start
        if not 0 <= first <= stop <= start:
            raise _corrupt(name, "a field's part lies outside the file")
        found.append((field, index, first, stop))
    return found


def _fast_columns(tail: memoryview, length: int) -> list[tuple[str, int, int]]:
    """(field, start, end) of each fast column, from the dictionary that the file ends with.

    The dictionary is blocks of a length, a flag for zstd and the bytes: where the columns begin and end, as steps, then
    their keys, each the bytes it shares with the one before and those it adds. A key is the field's name, for a path
    in JSON a 1 and the path, then a 0 and the column's type.
    """
    end = _body_end(tail, "fast")
    size, _, _, _ = _unpack(_FAST_FOOTER, tail, end - _FAST_FOOTER.size, "fast")
    at = end - _FAST_FOOTER.size - size
    if at < 0:
        raise _corrupt("fast", "its dictionary is longer than what is kept of it")
    limit = length - len(tail) + at
    dictionary = bytes(tail[at : end - _FAST_FOOTER.size])
    found: list[tuple[str, int, int]] = []
    for block in _blocks(dictionary):
        bounds, place = _steps(block)
        if bounds and bounds[-1] > limit:
            raise _corrupt("fast", "a column lies outside the file")
        key = b""
        for begin, stop in pairwise(bounds):
            key, place = _next_key(block, place, key)
            found.append((re.split(rb"[\0\1]", key, maxsplit=1)[0].decode(errors="replace"), begin, stop))
    return found


def _blocks(dictionary: bytes) -> Iterator[bytes]:
    at = 0
    while at + 4 <= len(dictionary):
        size = int.from_bytes(dictionary[at : at + 4], "little")
        if size == 0:
            return
        block = dictionary[at + 5 : at + 4 + size]
        if len(block) != size - 1:
            raise _corrupt("fast", "a block of its dictionary is cut off")
        if dictionary[at + 4]:
            try:
                with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
                    block = stream.read(_MOST_BLOCK)
            except OSError as error:
                raise _corrupt("fast", f"a block of its dictionary cannot be unpacked: {error}") from error
        yield block
        at += 4 + size


def _steps(block: bytes) -> tuple[list[int], int]:
    """Where columns begin, and at last where the last one ends; and the place behind these numbers."""
    count, at = _varint(block, 0)
    if count > len(block):
        raise _corrupt("fast", f"a block of its dictionary claims {count} columns")
    bounds: list[int] = []
    for _ in range(count):
        step, at = _varint(block, at)
        bounds.append(step + (bounds[-1] if bounds else 0))
    return bounds, at


def _next_key(block: bytes, at: int, before: bytes) -> tuple[bytes, int]:
    if at >= len(block):
        raise _corrupt("fast", "a block of its dictionary has too few keys")
    head = block[at]
    at += 1
    shared, added = head & 0x0F, head >> 4
    if head == _LONG_KEY:
        shared, at = _varint(block, at)
        added, at = _varint(block, at)
    return before[:shared] + block[at : at + added], at + added


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, low ones first; the last byte has no high bit."""
    value = shift = 0
    while at < len(data) and shift <= 63:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
    raise _corrupt("fast", "a number in its dictionary does not end")


def _body_end(data: memoryview, name: str) -> int:
    if len(data) < 8:
        raise _corrupt(name, f"it has only {len(data)} bytes")
    length, magic = struct.unpack("<II", data[-8:])
    if magic != _MAGIC or length > len(data) - 8:
        raise _corrupt(name, "it does not end with Tantivy's footer")
    return len(data) - 8 - int(length)


def _footer_length(data: memoryview, end: int, name: str) -> int:
    if end < 4:
        raise _corrupt(name, "it is too short for a composite file")
    length = int.from_bytes(data[end - 4 : end], "little")
    if length > end - 4:
        raise _corrupt(name, "its list of fields is longer than the file")
    return length


def _vint(data: bytes, at: int, name: str) -> tuple[int, int]:
    """Seven bits a byte, low ones first; the *last* byte has the high bit."""
    value = shift = 0
    while at < len(data) and shift <= 63:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            return value, at
        shift += 7
    raise _corrupt(name, "a number in its list of fields does not end")


def _unpack(form: struct.Struct, data: memoryview, at: int, name: str) -> tuple[int, ...]:
    if at < 0:
        raise _corrupt(name, "it is too short")
    return form.unpack_from(data, at)


def _corrupt(name: str, reason: str) -> SplitCorrupt:
    return SplitCorrupt(f"component {name} of an index is damaged: {reason}", part=name, reason=reason)


# Made on import: msgspec publishes what it knows of a Struct before it is complete, and a second thread that decodes
# one for the first time reads a null pointer.
_FOOTER = msgspec.json.Decoder(_Footer)
