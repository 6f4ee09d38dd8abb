"""Deletion vectors: which rows of a split are gone, as roaring bitmaps in Delta's binary format.

    payload    u32 1681511377, then the portable 64-bit roaring format: u64 number of maps, per map u32 high bits and a
               32-bit roaring bitmap; all little endian
    inline     the payload in Z85 text (`i`)
    file       byte 1 (version), then per vector (`u`): i32 length, payload, u32 CRC-32 of it, both big endian, and 28
               bytes that bind it: "ITDV", u32 rows, 16 bytes of the SHA-256 of the split's key, u32 CRC-32C

Others read and write the same files without the binding, which Delta's readers never look at. A payload is decoded by
code of ours that checks every container: the native one trusts what it is given.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from indextables.errors import DvCorrupt, InvalidArgument
from indextables.split.file import layout
from indextables.storage.store import Store

__all__ = [
    "DvDescriptor",
    "VectorLike",
    "alive_mask",
    "alive_words",
    "cardinality",
    "decode",
    "encode",
    "file_key",
    "inline",
    "load",
    "union",
    "write_file",
]

_Rows = npt.NDArray[np.int64]

_MAGIC = 1_681_511_377
_BINDING = struct.Struct("<4sI16sI")
_BINDING_MAGIC = b"ITDV"
_COOKIE_PLAIN = 12_346
_COOKIE_RUNS = 12_347
_NO_OFFSETS_BELOW = 4
_ARRAY_MAX = 4_096
_BITMAP_BYTES = 8_192
_MAX_PAYLOAD = 1 << 30
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_CHARS = np.frombuffer(_Z85, np.uint8)
_Z85_VALUES = np.full(256, -1, np.int64)
_Z85_VALUES[_Z85_CHARS] = np.arange(85)
_Z85_POWERS = 85 ** np.arange(4, -1, -1, dtype=np.int64)


class VectorLike(Protocol):
    """What the log keeps about a vector; `indextables.log.wire.actions.DeletionVector` is one."""

    @property
    def storageType(self) -> str: ...  # noqa: N802 - the log's name

    @property
    def pathOrInlineDv(self) -> str: ...  # noqa: N802 - the log's name

    @property
    def sizeInBytes(self) -> int: ...  # noqa: N802 - the log's name

    @property
    def cardinality(self) -> int: ...

    @property
    def offset(self) -> int | None: ...


class DvDescriptor(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a vector is and how many rows it has, under the log's names."""

    storageType: str
    pathOrInlineDv: str
    sizeInBytes: int
    cardinality: int
    offset: int | None = None


def encode(rows: Iterable[int] | _Rows | BitMap) -> bytes:
    """The payload for these row numbers. Raises InvalidArgument if one is negative or above 2^31."""
    if isinstance(rows, BitMap):
        bitmap = rows.copy()
    else:
        numbers = np.asarray(rows if isinstance(rows, np.ndarray) else list(rows), np.int64)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= 1 << 31):
            raise InvalidArgument("a deletion vector holds row numbers from 0 to 2^31 - 1", value=str(numbers.max()))
        bitmap = BitMap(numbers.astype(np.uint32))
    bitmap.run_optimize()
    head = struct.pack("<IQ", _MAGIC, 1 if bitmap else 0)
    return head + (struct.pack("<I", 0) + bitmap.serialize() if bitmap else b"")


def decode(payload: bytes, num_rows: int, path: str) -> BitMap:
    """The rows of a payload, all below `num_rows`. Raises DvCorrupt that names `path`, the split."""
    rows = _decode(payload, path)
    if len(rows) and int(rows[-1]) >= num_rows:
        raise _corrupt(path, f"row {int(rows[-1])} is deleted in a split of {num_rows} rows")
    return BitMap(rows.astype(np.uint32))


def cardinality(payload: bytes, path: str) -> int:
    """How many rows a payload deletes. Raises DvCorrupt."""
    return len(_decode(payload, path))


def union(payloads: Iterable[bytes], num_rows: int, path: str) -> bytes:
    """One payload with the rows of all. Raises DvCorrupt."""
    result = BitMap()
    for payload in payloads:
        result |= decode(payload, num_rows, path)
    return encode(result)


def alive_mask(payload: bytes | None, num_rows: int, path: str) -> npt.NDArray[np.bool_]:
    """True for every row that is there. Raises DvCorrupt."""
    mask = np.ones(num_rows, bool)
    if payload is not None:
        rows = _decode(payload, path)
        if len(rows) and int(rows[-1]) >= num_rows:
            raise _corrupt(path, f"row {int(rows[-1])} is deleted in a split of {num_rows} rows")
        mask[rows] = False
    return mask


def alive_words(payload: bytes | None, num_rows: int, path: str) -> bytes:
    """The live rows as little-endian 64-bit words, unused bits zero: the body of Tantivy's `.del` files."""
    bits = np.packbits(alive_mask(payload, num_rows, path), bitorder="little").tobytes()
    return bits + bytes(-len(bits) % 8)


def inline(payload: bytes) -> DvDescriptor:
    """The payload as text in the log."""
    count = len(_decode(payload, "inline"))
    return DvDescriptor("i", z85_encode(payload), len(payload), count)


def write_file(store: Store, vectors: Sequence[tuple[str, int, bytes]], token: str) -> list[DvDescriptor]:
    """Put one file with the vectors of several splits: (key, rows, payload) each; returns a descriptor for each.

    `token` is 32 hexadecimal digits that no other file has.
    """
    name = uuid.UUID(hex=token)
    body = bytearray(b"\x01")
    found = []
    for key, num_rows, payload in vectors:
        rows = decode(payload, num_rows, key)
        found.append(DvDescriptor("u", z85_encode(name.bytes), len(payload), len(rows), len(body)))
        body += struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
        body += _binding(key, num_rows)
    store.put(file_key(found[0].pathOrInlineDv, "new vector"), bytes(body))
    return found


def file_key(text: str, path: str) -> str:
    """The key of the file that a descriptor of type `u` names: an optional folder, then a UUID in Z85."""
    try:
        name = uuid.UUID(bytes=z85_decode(text[-20:]))
    except ValueError as error:
        raise _corrupt(path, f"{text!r} names no file: {error}") from error
    folder = text[:-20]
    if not folder.isalnum() and folder:
        raise _corrupt(path, f"{text!r} names a folder that no writer makes")
    return f"{folder}/deletion_vector_{name}.bin" if folder else f"deletion_vector_{name}.bin"


def load(store: Store, vector: VectorLike, key: str, num_rows: int, *, place: str | None = None) -> bytes:
    """The payload of a logged vector of the split `key`, verified against everything that is known about it.

    `place` is the key of the file with the vector, where its name does not follow from the log. Raises DvCorrupt, and
    StoreError where the file cannot be read.
    """
    size = vector.sizeInBytes
    if not 12 <= size <= _MAX_PAYLOAD:
        raise _corrupt(key, f"a vector of {size} bytes cannot be")
    if vector.storageType == "i":
        try:
            payload = z85_decode(vector.pathOrInlineDv)[:size]
        except ValueError as error:
            raise _corrupt(key, f"the inline text is not Z85: {error}") from error
    elif vector.storageType == "u" or place is not None:
        payload = _load_file(store, vector, key, num_rows, place or file_key(vector.pathOrInlineDv, key))
    else:
        raise _corrupt(key, f"vectors of type {vector.storageType!r} are not read here")
    if len(payload) != size:
        raise _corrupt(key, f"{len(payload)} of {size} bytes are there")
    rows = decode(payload, num_rows, key)
    if len(rows) != vector.cardinality:
        raise _corrupt(key, f"it has {len(rows)} rows where the log says {vector.cardinality}")
    return payload


def z85_encode(data: bytes) -> str:
    """Z85 text of `data`, padded with zero bytes to a multiple of four."""
    words = np.frombuffer(data + bytes(-len(data) % 4), ">u4").astype(np.int64)
    return bytes(_Z85_CHARS[words[:, None] // _Z85_POWERS % 85]).decode()


def z85_decode(text: str) -> bytes:
    """The bytes of Z85 text. Raises ValueError."""
    if len(text) % 5 or not text.isascii():
        raise ValueError(f"{len(text)} characters are no multiple of five, or not ASCII")
    values = _Z85_VALUES[np.frombuffer(text.encode(), np.uint8)]
    if (values < 0).any():
        raise ValueError(f"character {text[int(np.argmin(values))]!r} is none of Z85")
    words = values.reshape(-1, 5) @ _Z85_POWERS
    if (words >> 32).any():
        raise ValueError("a group of five is above 32 bits")
    return words.astype(">u4").tobytes()


def _load_file(store: Store, vector: VectorLike, key: str, num_rows: int, name: str) -> bytes:
    offset = 1 if vector.offset is None else vector.offset
    if not 1 <= offset < 1 << 40:
        raise _corrupt(key, f"offset {offset} cannot be")
    end = offset + 8 + vector.sizeInBytes
    size = store.head(name).size
    if end > size:
        raise _corrupt(key, f"{name} has {size} bytes, the vector ends at {end}")
    version, data = store.get_ranges(name, [(0, 1), (offset, min(size, end + _BINDING.size))])
    if version != b"\x01":
        raise _corrupt(key, f"{name} begins with {version!r}, not with version 1")
    (length,) = struct.unpack_from(">i", data)
    payload = data[4 : 4 + vector.sizeInBytes]
    (checksum,) = struct.unpack_from(">I", data, 4 + vector.sizeInBytes)
    if length != vector.sizeInBytes:
        raise _corrupt(key, f"{name} says {length} bytes where the log says {vector.sizeInBytes}")
    if zlib.crc32(payload) != checksum:
        raise _corrupt(key, f"{name} does not match its checksum at {offset}")
    bound = data[8 + vector.sizeInBytes :]
    if bound[:4] == _BINDING_MAGIC and bound != _binding(key, num_rows):
        raise _corrupt(key, f"{name} holds a vector of another split at {offset}")
    return payload


def _binding(key: str, num_rows: int) -> bytes:
    head = _BINDING_MAGIC + struct.pack("<I", num_rows) + hashlib.sha256(key.encode()).digest()[:16]
    return head + struct.pack("<I", layout.crc32c(head))


def _decode(payload: bytes, path: str) -> _Rows:
    """The row numbers of a payload, ascending."""
    if len(payload) < 12 or len(payload) > _MAX_PAYLOAD:
        raise _corrupt(path, f"{len(payload)} bytes are no vector")
    magic, maps = struct.unpack_from("<IQ", payload)
    if magic != _MAGIC:
        raise _corrupt(path, f"it begins with {magic}, not with {_MAGIC}")
    if maps == 0:
        if len(payload) > 15:
            raise _corrupt(path, "bytes follow its end")
        return np.empty(0, np.int64)
    if maps != 1 or len(payload) < 16 or payload[12:16] != bytes(4):
        raise _corrupt(path, "it has rows above 2^31")
    rows, end = _decode_bitmap(payload, 16, path)
    # Z85 pads to four bytes, and some writers count the padding in.
    if len(payload) - end > 3 or any(payload[end:]):
        raise _corrupt(path, "bytes follow its end")
    if len(rows) and int(rows[-1]) >= 1 << 31:
        raise _corrupt(path, "it has rows above 2^31")
    return rows


def _decode_bitmap(data: bytes, at: int, path: str) -> tuple[_Rows, int]:
    """A 32-bit roaring bitmap in its portable format, every container checked; and the offset behind it."""
    count, runs, at = _cookie(data, at, path)
    heads = _array(data, at, "<u2", count * 2, path).reshape(count, 2)
    at += count * 4
    keys, cards = heads[:, 0], heads[:, 1] + 1
    if (np.diff(keys) <= 0).any():
        raise _corrupt(path, "its containers are not in ascending order")
    if runs is None or count >= _NO_OFFSETS_BELOW:
        _array(data, at, "<u4", count, path)
        at += count * 4
    found = []
    for number in range(count):
        if runs is not None and runs[number]:
            values, at = _run_container(data, at, path)
        elif cards[number] <= _ARRAY_MAX:
            values = _array(data, at, "<u2", int(cards[number]), path)
            at += int(cards[number]) * 2
            if (np.diff(values) <= 0).any():
                raise _corrupt(path, "a container is not in ascending order")
        else:
            words = _array(data, at, "u1", _BITMAP_BYTES, path)
            at += _BITMAP_BYTES
            values = np.flatnonzero(np.unpackbits(words.astype(np.uint8), bitorder="little"))
        if len(values) != cards[number]:
            raise _corrupt(path, f"a container has {len(values)} rows where it says {int(cards[number])}")
        found.append(values + (int(keys[number]) << 16))
    return (np.concatenate(found) if found else np.empty(0, np.int64)), at


def _cookie(data: bytes, at: int, path: str) -> tuple[int, npt.NDArray[np.uint8] | None, int]:
    """The number of containers, which of them hold runs, and where their heads begin."""
    cookie = int(_array(data, at, "<u4", 1, path)[0])
    at += 4
    if cookie == _COOKIE_PLAIN:
        count = int(_array(data, at, "<u4", 1, path)[0])
        at += 4
        runs = None
    elif cookie & 0xFFFF == _COOKIE_RUNS:
        count = (cookie >> 16) + 1
        width = (count + 7) // 8
        flags = _array(data, at, "u1", width, path).astype(np.uint8)
        runs = np.unpackbits(flags, bitorder="little")[:count]
        at += width
    else:
        raise _corrupt(path, f"its bitmap begins with {cookie}")
    if count > 1 << 16:
        raise _corrupt(path, f"it claims {count} containers")
    return count, runs, at


def _run_container(data: bytes, at: int, path: str) -> tuple[_Rows, int]:
    count = int(_array(data, at, "<u2", 1, path)[0])
    pairs = _array(data, at + 2, "<u2", count * 2, path).reshape(count, 2)
    starts, lengths = pairs[:, 0], pairs[:, 1] + 1
    ends = starts + lengths
    if count == 0 or ends[-1] > 1 << 16 or (starts[1:] <= ends[:-1] - 1).any():
        raise _corrupt(path, "the runs of a container overlap or leave it")
    total = int(lengths.sum())
    before = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.arange(total) - before + np.repeat(starts, lengths), at + 2 + count * 4


def _array(data: bytes, at: int, form: str, count: int, path: str) -> _Rows:
    end = at + count * np.dtype(form).itemsize
    if end > len(data):
        raise _corrupt(path, f"it ends after {len(data)} bytes, inside a container")
    return np.frombuffer(data[at:end], form).astype(np.int64)


def _corrupt(path: str, reason: str) -> DvCorrupt:
    message = f"the deletion vector of {path} is damaged: {reason}; restore the file or an older version of the table"
    return DvCorrupt(message, path=path, reason=reason)
