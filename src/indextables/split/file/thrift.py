"""Reads and writes Thrift's compact protocol, as far as Parquet uses it; it knows nothing about Parquet itself.

A struct is a dict from field id to `Field`, which keeps the wire type, so that what was read can be written again
byte for byte (maps and sets excepted: Parquet has none, and they are refused). Reading checks every length against
the bytes that are left and the depth against a cap; whatever is wrong is a `ThriftError`, which the callers turn into
the error of their file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = [
    "BINARY",
    "BOOL",
    "BYTE",
    "DOUBLE",
    "I16",
    "I32",
    "I64",
    "LIST",
    "STRUCT",
    "Field",
    "ThriftError",
    "ThriftList",
    "ThriftStruct",
    "decode_struct",
    "encode_struct",
    "i32",
    "i64",
    "structs",
    "text",
    "zigzag",
]

BOOL = 1
"""True and false are the wire types 1 and 2; a `Field` of a boolean always has this one."""
BYTE = 3
I16 = 4
I32 = 5
I64 = 6
DOUBLE = 7
BINARY = 8
LIST = 9
STRUCT = 12

_FALSE = 2
_MAX_DEPTH = 32
_WIDTH = {BYTE: 8, I16: 16, I32: 32, I64: 64}


class ThriftError(ValueError):
    """Bytes that are not compact Thrift, or more of it than is allowed."""


class Field(NamedTuple):
    """A value with its wire type."""

    type: int
    value: Any


class ThriftList(NamedTuple):
    """A list: the wire type of its items, and the items."""

    type: int
    items: list[Any]


ThriftStruct = dict[int, Field]


def i32(value: int) -> Field:
    """A 32-bit integer."""
    return Field(I32, value)


def i64(value: int) -> Field:
    """A 64-bit integer."""
    return Field(I64, value)


def text(value: str | bytes) -> Field:
    """A string or binary."""
    return Field(BINARY, value.encode() if isinstance(value, str) else value)


def structs(items: Sequence[ThriftStruct | bytes]) -> Field:
    """A list of structs; one that is encoded already may stand for itself."""
    return Field(LIST, ThriftList(STRUCT, list(items)))


def decode_struct(data: bytes | memoryview, start: int = 0) -> tuple[ThriftStruct, int]:
    """The struct that begins at `start`, and the offset behind it. Raises ThriftError."""
    reader = _Reader(bytes(data), start)
    try:
        found = reader.struct(0)
    except (IndexError, struct.error) as error:
        raise ThriftError(f"the bytes end inside a value, at {len(data)}") from error
    return found, reader.at


def encode_struct(value: ThriftStruct) -> bytes:
    """The bytes of a struct; fields in ascending order of their ids."""
    out = bytearray()
    _write_struct(out, value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    """The bytes of an integer, without its field's header."""
    out = bytearray()
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.at = start

    def struct(self, depth: int) -> ThriftStruct:
        if depth > _MAX_DEPTH:
            raise ThriftError(f"structs are nested deeper than {_MAX_DEPTH}")
        fields: ThriftStruct = {}
        last = 0
        data, value = self.data, self.value
        while True:
            head = data[self.at]
            self.at += 1
            if head == 0:
                return fields
            wire = head & 0x0F
            delta = head >> 4
            last = last + delta if delta else self.zigzag(16)
            if last in fields or last < 0:
                raise ThriftError(f"field {last} appears twice or out of range, at {self.at}")
            if wire > _FALSE:
                fields[last] = Field(wire, value(wire, depth))
            elif wire:
                fields[last] = Field(BOOL, wire == BOOL)
            else:
                raise ThriftError(f"wire type {wire} is not one that Parquet uses, at {self.at}")

    def value(self, wire: int, depth: int) -> Any:
        if wire in _WIDTH and wire != BYTE:
            return self.zigzag(_WIDTH[wire])
        if wire == BINARY:
            return self.binary()
        if wire == STRUCT:
            return self.struct(depth + 1)
        if wire == LIST:
            return self.list(depth + 1)
        if wire == BYTE:
            self.at += 1
            return struct.unpack_from("<b", self.data, self.at - 1)[0]
        if wire == DOUBLE:
            self.at += 8
            return struct.unpack_from("<d", self.data, self.at - 8)[0]
        raise ThriftError(f"wire type {wire} is not one that Parquet uses, at {self.at}")

    def list(self, depth: int) -> ThriftList:
        if depth > _MAX_DEPTH:
            raise ThriftError(f"lists are nested deeper than {_MAX_DEPTH}")
        head = self.data[self.at]
        self.at += 1
        wire = head & 0x0F
        count = head >> 4
        if count == 15:
            count = self.varint()
        if count > len(self.data) - self.at:
            raise ThriftError(f"a list claims {count} items, {len(self.data) - self.at} bytes are left")
        if wire in (BOOL, _FALSE):
            items = [b == BOOL for b in self.data[self.at : self.at + count]]
            self.at += count
            return ThriftList(BOOL, items)
        return ThriftList(wire, [self.value(wire, depth) for _ in range(count)])

    def binary(self) -> bytes:
        length = self.varint()
        end = self.at + length
        if end > len(self.data):
            raise ThriftError(f"a string claims {length} bytes, {len(self.data) - self.at} are left")
        value = self.data[self.at : end]
        self.at = end
        return value

    def varint(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        if byte < 0x80:
            # Nearly all of them: footers are read by every scan.
            return byte
        result, shift = byte & 0x7F, 7
        while True:
            byte = self.data[self.at]
            self.at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7
            if shift > 63:
                raise ThriftError(f"a number is longer than 64 bits, at {self.at}")

    def zigzag(self, bits: int) -> int:
        raw = self.varint()
        value = (raw >> 1) ^ -(raw & 1)
        if raw > 0xFFFF and not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise ThriftError(f"a number does not fit {bits} bits, at {self.at}")
        return value


def _write_struct(out: bytearray, fields: ThriftStruct) -> None:
    last = 0
    for number in sorted(fields):
        wire, value = fields[number]
        if wire == BOOL:
            wire = BOOL if value else _FALSE
        delta = number - last
        if 0 < delta <= 15:
            out.append(delta << 4 | wire)
        else:
            out.append(wire)
            _write_varint(out, number << 1)
        last = number
        if wire not in (BOOL, _FALSE):
            _write_value(out, wire, value)
    out.append(0)


def _write_value(out: bytearray, wire: int, value: Any) -> None:
    if wire in (I32, I64, I16):
        _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
    elif wire == BINARY:
        _write_varint(out, len(value))
        out += value
    elif wire == STRUCT:
        if isinstance(value, bytes):
            out += value
        else:
            _write_struct(out, value)
    elif wire == LIST:
        _write_list(out, value)
    elif wire == BYTE:
        out += struct.pack("<b", value)
    elif wire == DOUBLE:
        out += struct.pack("<d", value)
    else:
        raise ThriftError(f"wire type {wire} is not one that Parquet uses")


def _write_list(out: bytearray, value: ThriftList) -> None:
    count = len(value.items)
    if count < 15:
        out.append(count << 4 | value.type)
    else:
        out.append(0xF0 | value.type)
        _write_varint(out, count)
    for item in value.items:
        if value.type == BOOL:
            out.append(BOOL if item else _FALSE)
        else:
            _write_value(out, value.type, item)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
