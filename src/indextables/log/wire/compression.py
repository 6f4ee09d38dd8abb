"""Tells plain from gzip by the first bytes, and expands it as a stream of whole lines under fixed caps."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from indextables.errors import IndexTablesError, LimitExceeded

__all__ = [
    "MAX_BYTES",
    "MAX_LINE_BYTES",
    "MAX_RATIO",
    "RATIO_FROM_BYTES",
    "compress",
    "expand",
    "expand_all",
    "first_bytes",
    "line_blocks",
]

MAX_LINE_BYTES = 32 << 20
MAX_BYTES = 8 << 30
MAX_RATIO = 200
RATIO_FROM_BYTES = 64 << 20

BLOCK_BYTES = 4 << 20

Corrupt = Callable[[str], IndexTablesError]

_GZIP = b"\x1f\x8b"
# IndexTables4Spark puts two bytes before the gzip member.
_PREFIXED_GZIP = b"\x01\x01\x1f\x8b"


def compress(data: bytes) -> bytes:
    """One gzip member, the same bytes for the same input."""
    packer = zlib.compressobj(level=4, wbits=31)
    return packer.compress(data) + packer.flush()


def expand(data: bytes | memoryview, corrupt: Corrupt) -> Iterator[bytes]:
    """The expanded bytes, in pieces.

    Raises what `corrupt` makes of a reason (truncated, damaged, bytes after the end), and LimitExceeded.
    """
    view = memoryview(data)
    if view[:4] == _PREFIXED_GZIP:
        yield from _gunzip(view[2:], corrupt)
    elif view[:2] == _GZIP:
        yield from _gunzip(view, corrupt)
    else:
        _check_size(len(view), len(view))
        for start in range(0, len(view), BLOCK_BYTES):
            yield bytes(view[start : start + BLOCK_BYTES])


def expand_all(data: bytes | memoryview, corrupt: Corrupt) -> bytes:
    """As `expand`, in one piece."""
    return b"".join(expand(data, corrupt))


def first_bytes(data: bytes | memoryview, count: int, corrupt: Corrupt) -> bytes:
    """At most `count` expanded bytes from the start, without expanding the rest. Raises what `corrupt` makes."""
    view = memoryview(data)
    start = 2 if view[:4] == _PREFIXED_GZIP else 0
    if view[start : start + 2] != _GZIP:
        return bytes(view[:count])
    try:
        return zlib.decompressobj(wbits=31).decompress(view[start:], count)
    except zlib.error as error:
        reason = f"damaged gzip data ({error})"
        raise corrupt(reason) from None


def line_blocks(data: bytes | memoryview, corrupt: Corrupt) -> Iterator[bytes]:
    """The expanded bytes in blocks that end where a line ends; the last byte of the data must be a newline.

    Raises as `expand`, and LimitExceeded for a line above MAX_LINE_BYTES.
    """
    pending: list[bytes] = []
    pending_bytes = 0
    for piece in filter(None, expand(data, corrupt)):
        cut = piece.rfind(b"\n") + 1
        if cut:
            pending.append(piece[:cut] if cut < len(piece) else piece)
            yield b"".join(pending) if len(pending) > 1 else pending[0]
            pending, pending_bytes = [], 0
        if cut < len(piece):
            pending.append(piece[cut:])
            pending_bytes += len(piece) - cut
        if pending_bytes > MAX_LINE_BYTES:
            raise line_too_long(pending_bytes)
    if pending:
        reason = "the last line does not end with a newline, so that the file is cut short"
        raise corrupt(reason)


def line_too_long(length: int) -> LimitExceeded:
    """The error for a line above the cap."""
    message = f"a line of more than {MAX_LINE_BYTES} bytes: no writer makes such lines, restore the file from a copy"
    return LimitExceeded(message, limit=MAX_LINE_BYTES, actual=length)


def _gunzip(view: memoryview, corrupt: Corrupt) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    produced = 0
    pending: bytes | memoryview = view
    # Nothing is handed out before the ratio is known, so that a bomb costs its expansion and no parsing.
    held: list[bytes] = []
    try:
        while not unpacker.eof:
            piece = unpacker.decompress(pending, BLOCK_BYTES)
            pending = unpacker.unconsumed_tail
            produced += len(piece)
            _check_size(produced, len(view) - len(pending))
            if produced <= RATIO_FROM_BYTES:
                held.append(piece)
            else:
                yield from held
                held = []
                yield piece
            if not piece and not pending and not unpacker.eof:
                raise corrupt("the gzip stream ends in the middle")
    except zlib.error as error:
        reason = f"damaged gzip data ({error})"
        raise corrupt(reason) from None
    if unpacker.unused_data:
        raise corrupt("bytes follow the end of the gzip stream")
    yield from held


def _check_size(produced: int, consumed: int) -> None:
    if produced > MAX_BYTES:
        message = f"more than {MAX_BYTES} bytes when expanded: restore the file from a copy"
        raise LimitExceeded(message, limit=MAX_BYTES, actual=produced)
    if produced > RATIO_FROM_BYTES and produced > MAX_RATIO * consumed:
        message = f"expands to more than {MAX_RATIO} times its size: restore the file from a copy"
        raise LimitExceeded(message, limit=MAX_RATIO, actual=produced // max(1, consumed))
