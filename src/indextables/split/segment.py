"""What we know of the files of a Tantivy segment: their footers, their tails, and the token totals in them.

Every file ends with a footer: JSON with version and CRC, u32 length of it, u32 1337. Before that, `.idx`, `.pos`,
`.term` and `.fieldnorm` are composite files (a part per field, then where each begins), `.fast` ends with the
dictionary of its columns and `.store` with its skip list.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from indextables.errors import SplitCorrupt

__all__ = ["Version", "composite_parts", "file_version", "tail_start", "token_totals"]

_MAGIC = 1337
_STORE_FOOTER = struct.Struct("<IQ16s")
_FAST_FOOTER = struct.Struct("<QIII")


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
    end = _body_end(data, name)
    start = end - 4 - _footer_length(data, end, name)
    footer = bytes(data[start : end - 4])
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
    for number, (begin, field, index) in enumerate(places):
        stop = places[number + 1][0] if number + 1 < len(places) else start
        if not 0 <= begin <= stop <= start:
            raise _corrupt(name, "a field's part lies outside the file")
        if index == 0:
            yield field, begin, stop


def token_totals(idx: memoryview) -> dict[int, int]:
    """The number of tokens of each indexed field, by ordinal: the u64 at the start of its part of `.idx`."""
    totals = {}
    for field, begin, stop in composite_parts(idx, "idx"):
        if stop - begin >= 8:
            totals[field] = int.from_bytes(idx[begin : begin + 8], "little")
    return totals


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
