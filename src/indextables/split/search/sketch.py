"""Estimates how many distinct values there are, in bounded memory: HyperLogLog. Pure."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["STANDARD_ERROR", "distinct_estimate"]

_BITS = 14
_REGISTERS = 1 << _BITS
STANDARD_ERROR = 1.04 / math.sqrt(_REGISTERS)


def distinct_estimate(values: pa.Array) -> int:
    """The number of distinct values, with a standard error of STANDARD_ERROR; the same for any order of the values."""
    registers = np.zeros(_REGISTERS, dtype=np.int64)
    for start in range(0, len(values), 65_536):
        hashes = _hashes(pc.unique(values.slice(start, 65_536)))
        places = (hashes >> np.uint64(64 - _BITS)).astype(np.int64)
        rest = (hashes << np.uint64(_BITS)) | np.uint64(1 << (_BITS - 1))
        # The place of the highest bit set, from the left and from 1; rest is never zero.
        ranks = 64 - np.floor(np.log2(rest.astype(np.float64))).astype(np.int64)
        np.maximum.at(registers, places, ranks)
    return _estimate(registers)


def _hashes(values: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    digests = b"".join(
        hashlib.blake2b(msgspec.msgpack.encode(value, enc_hook=str), digest_size=8).digest()
        for value in values.to_pylist()
    )
    return np.frombuffer(digests, dtype="<u8")


def _estimate(registers: np.ndarray[Any, np.dtype[np.int64]]) -> int:
    alpha = 0.7213 / (1 + 1.079 / _REGISTERS)
    raw = alpha * _REGISTERS**2 / np.sum(np.exp2(-registers.astype(np.float64)))
    zeros = int(np.sum(registers == 0))
    if raw <= 2.5 * _REGISTERS and zeros:
        raw = _REGISTERS * math.log(_REGISTERS / zeros)
    return round(float(raw))
