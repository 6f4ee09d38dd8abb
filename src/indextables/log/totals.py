"""Running totals of a handful of files, without the columns that many files are worth."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from indextables.log.actions import Add, DeletionVector
from indextables.log.crcfile import Totals

__all__ = ["few_files_hash", "with_few_files"]

_MASK = 2**64 - 1


def with_few_files(before: Totals, adds: Sequence[Add]) -> Totals:
    """The totals after `adds`, none of which replaces a live file."""
    records = before.num_records
    for add in adds:
        records = None if records is None or add.numRecords is None else records + add.numRecords
    return Totals(
        size_bytes=before.size_bytes + sum(add.size for add in adds),
        num_files=before.num_files + len(adds),
        num_records=records,
        set_hash=f"{(int(before.set_hash, 16) + few_files_hash(adds)) & _MASK:016x}",
    )


def few_files_hash(adds: Sequence[Add]) -> int:
    """The set hash of `sethash.set_hash` as a number, one file after the other."""
    total = 0
    for add in adds:
        value = _text(add.path) ^ _mix(add.size + 1)
        if add.deletionVector is not None:
            value ^= _text(_vector_id(add.deletionVector))
        total += _mix(value)
    return total & _MASK


def _vector_id(vector: DeletionVector) -> str:
    offset = "" if vector.offset is None else str(vector.offset)
    return f"{vector.storageType}|{offset}|{vector.pathOrInlineDv}"


def _text(text: str) -> int:
    data = text.encode()
    words = -(-len(data) // 8)
    hashed = _mix(len(data))
    for word in struct.unpack(f"<{words}Q", data.ljust(8 * words, b"\0")):
        hashed = _mix(hashed ^ word)
    return hashed


def _mix(value: int) -> int:
    value &= _MASK
    value ^= value >> 32
    value = value * 0x9E3779B97F4A7C15 & _MASK
    value ^= value >> 29
    value = value * 0xBF58476D1CE4E5B9 & _MASK
    return value ^ value >> 32
