"""An order-independent hash of a set of files, which adds and removes update without looking at the others.

    text(s)   = UTF-8 bytes padded with zeros to a multiple of 8, read as little-endian 64-bit words w1 .. wn:
                h = mix(number of bytes); for each word: h = mix(h xor w)
    file      = mix(text(path) xor mix(size + 1) xor (text(vector) if the entry has one, else 0))
    vector    = storageType "|" offset "|" pathOrInlineDv, the offset empty if there is none
    set       = sum over all files, modulo 2^64, as 16 hexadecimal digits
    mix(x)    = x xor= x >> 32; x *= 0x9E3779B97F4A7C15; x xor= x >> 29; x *= 0xBF58476D1CE4E5B9; x xor= x >> 32

All arithmetic is on unsigned 64-bit numbers. The hash finds accidents, not forgers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.log.wire.actions import Add, DeletionVector
from indextables.log.wire.arrays import combined, int64_values, validity
from indextables.log.wire.files import vector_ids

__all__ = ["EMPTY", "combine", "few_files_hash", "set_hash", "subtract", "text_hashes"]

EMPTY = "0" * 16

_MASK = 2**64 - 1

_ROWS_AT_ONCE = 1 << 16

Words = npt.NDArray[np.uint64]


def set_hash(files: pa.Table) -> str:
    """16 hexadecimal digits over (path, size, vector) of every row; `adds`, `removes` and file sets alike.

    Paths are canonical and every row has a size.
    """
    if files.num_rows == 0:
        return EMPTY
    vectors = vector_ids(files.column("deletionVector"))
    hashed = text_hashes(combined(files.column("path")))
    hashed ^= _mix(int64_values(files.column("size")).astype(np.uint64) + np.uint64(1))
    if vectors.null_count < len(vectors):
        hashed ^= np.where(validity(vectors), text_hashes(vectors.fill_null("")), np.uint64(0))
    return f"{int(np.add.reduce(_mix(hashed), dtype=np.uint64)):016x}"


def combine(left: str, right: str) -> str:
    """The hash of the union of two disjoint sets."""
    return f"{(int(left, 16) + int(right, 16)) % 2**64:016x}"


def subtract(left: str, right: str) -> str:
    """The hash of `left` without its subset `right`."""
    return f"{(int(left, 16) - int(right, 16)) % 2**64:016x}"


def text_hashes(column: pa.Array) -> Words:
    """One hash per string, equal for equal strings. Strings of equal length go through together, word by word."""
    count = len(column)
    if not count:
        return np.zeros(0, dtype=np.uint64)
    stored = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + count + 1]
    offsets = stored.astype(np.int64)
    buffer = column.buffers()[2]
    data = np.frombuffer(buffer, dtype=np.uint8) if buffer is not None else np.zeros(0, dtype=np.uint8)
    lengths = np.diff(offsets)
    if (lengths == lengths[0]).all() and count <= _ROWS_AT_ONCE:
        return _equal_length_hashes(data, offsets[:-1], int(lengths[0]))
    result = np.empty(count, dtype=np.uint64)
    order = np.argsort(lengths, kind="stable")
    bounds = np.flatnonzero(np.diff(lengths[order])) + 1
    for group in np.split(order, bounds):
        for start in range(0, len(group), _ROWS_AT_ONCE):
            rows = group[start : start + _ROWS_AT_ONCE]
            result[rows] = _equal_length_hashes(data, offsets[rows], int(lengths[rows[0]]))
    return result


def _equal_length_hashes(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], length: int) -> Words:
    width = (length + 7) // 8 * 8
    padded = np.zeros((len(starts), width), dtype=np.uint8)
    first, last = int(starts[0]), int(starts[-1])
    if length and last - first == length * (len(starts) - 1) and (starts[1:] - starts[:-1] == length).all():
        # One after the other, without a gap: no place of a byte has to be computed.
        padded[:, :length] = data[first : last + length].reshape(-1, length)
    elif length:
        padded[:, :length] = data[starts[:, None] + np.arange(length)]
    hashed = _mix(np.full(len(starts), length, dtype=np.uint64))
    for word in padded.view(np.dtype("<u8")).T if width else ():
        hashed = _mix(hashed ^ word)
    return hashed


def _mix(values: Words) -> Words:
    values = values ^ (values >> np.uint64(32))
    values = values * np.uint64(0x9E3779B97F4A7C15)
    values = values ^ (values >> np.uint64(29))
    values = values * np.uint64(0xBF58476D1CE4E5B9)
    return values ^ (values >> np.uint64(32))


def few_files_hash(adds: Sequence[Add]) -> int:
    """The set hash of `set_hash` as a number, one file after the other: a handful is not worth columns."""
    total = 0
    for add in adds:
        value = _text_of_one(add.path) ^ _mix_one(add.size + 1)
        if add.deletionVector is not None:
            value ^= _text_of_one(_vector_id(add.deletionVector))
        total += _mix_one(value)
    return total & _MASK


def _vector_id(vector: DeletionVector) -> str:
    offset = "" if vector.offset is None else str(vector.offset)
    return f"{vector.storageType}|{offset}|{vector.pathOrInlineDv}"


def _text_of_one(text: str) -> int:
    data = text.encode()
    words = -(-len(data) // 8)
    hashed = _mix_one(len(data))
    for word in struct.unpack(f"<{words}Q", data.ljust(8 * words, b"\0")):
        hashed = _mix_one(hashed ^ word)
    return hashed


def _mix_one(value: int) -> int:
    value &= _MASK
    value ^= value >> 32
    value = value * 0x9E3779B97F4A7C15 & _MASK
    value ^= value >> 29
    value = value * 0xBF58476D1CE4E5B9 & _MASK
    return value ^ value >> 32
