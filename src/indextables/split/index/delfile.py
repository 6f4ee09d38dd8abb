"""Which rows may a search see? Alive bits as the `.del` file of a Tantivy segment.

    u32 max_doc, ceil(max_doc / 64) words of 64 bits (1 = alive, row 0 is the lowest bit), footer of Tantivy

Deletion vectors become such files, and so does any filter on columns that the index does not hold. Search, count and
aggregation honour them, so that results are exact without a second pass. Bits beyond `max_doc` are 0.
"""

from __future__ import annotations

import struct
import zlib

import msgspec
import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
RowMask = npt.NDArray[np.bool_]

FOOTER_MAGIC = 1337


def words_of(mask: RowMask) -> Words:
    """Alive words of a boolean per row."""
    packed = np.packbits(mask, bitorder="little")
    padded = np.zeros(-(-len(mask) // 64) * 8, dtype=np.uint8)
    padded[: len(packed)] = packed
    return padded.view("<u8")


def mask_of(words: Words, num_rows: int) -> RowMask:
    """A boolean per row from alive words."""
    return np.unpackbits(words.view(np.uint8), bitorder="little")[:num_rows].astype(np.bool_)


def encode(words: Words, num_rows: int, version: bytes) -> tuple[bytes, int]:
    """The bytes of the file, and how many rows are not alive. `version` as in `footer_version`."""
    body = struct.pack("<I", num_rows) + words.astype("<u8", copy=False).tobytes()
    alive = int(np.bitwise_count(words).sum()) if len(words) else 0
    return with_footer(body, version), num_rows - alive


def with_footer(body: bytes, version: bytes) -> bytes:
    """A body with the footer that Tantivy puts behind each of its files."""
    footer = b'{"version":' + version + b',"crc":' + str(zlib.crc32(body)).encode() + b"}"
    return body + footer + struct.pack("<II", len(footer), FOOTER_MAGIC)


def footer_version(tail: bytes) -> bytes:
    """The `version` object of a Tantivy file, from its last bytes. Raises ValueError."""
    if len(tail) < 8:
        raise ValueError("the file has no footer")
    length, magic = struct.unpack("<II", tail[-8:])
    if magic != FOOTER_MAGIC or length > len(tail) - 8:
        raise ValueError("the file does not end with a footer of Tantivy")
    try:
        footer = _FOOTER.decode(tail[-8 - length : -8])
    except msgspec.MsgspecError as error:
        raise ValueError("the footer cannot be read") from error
    return bytes(footer.version)


class _Footer(msgspec.Struct):
    version: msgspec.Raw
    crc: int


# Made on import: msgspec publishes what it knows of a Struct before it is complete, and a second thread that decodes
# one for the first time reads a null pointer.
_FOOTER = msgspec.json.Decoder(_Footer)
