"""Cuts a stream into blocks of whole lines or rows, with the number of the first line of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "BLOCK_BYTES",
    "BOM",
    "LINE_LIMIT",
    "Block",
    "blocks_of",
    "end_of_lines",
    "first_bytes",
    "is_blank",
    "without_bom",
]

BLOCK_BYTES = 4 * 2**20
BOM = b"\xef\xbb\xbf"
LINE_LIMIT = 64 * 2**20
"""The most bytes that one line, or one row of CSV, can have."""
_BREAK = 10


class Block(NamedTuple):
    """Whole lines, of which the first has the number `line`, counted from 1.

    Where `length` is given, it is the beginning of one line of so many bytes, which is longer than a line can be.
    """

    data: bytes
    line: int
    length: int | None = None


def blocks_of(
    stream: Any, end: Callable[[bytes], int], line: int = 1, size: int = BLOCK_BYTES, limit: int = LINE_LIMIT
) -> Iterator[Block]:
    """The blocks of a stream; `end` tells where the last whole line of some bytes ends. The last one may lack its end.

    `size`, the bytes that are read at once, is at most `limit`. Raises what the stream raises.
    """
    rest = b""
    while True:
        data = bytes(stream.read(size))
        rest += data
        cut = end(rest) if data else len(rest)
        if cut:
            whole, rest = rest[:cut], rest[cut:]
            # Only the first line can have begun in a block before, and be as long.
            first = whole.find(b"\n") + 1 or len(whole)
            if len(whole[:first].removesuffix(b"\n")) > limit:
                yield Block(whole[:200], line, first)
                whole, line = whole[first:], line + 1
            if whole:
                yield Block(whole, line)
                line += _count_breaks(whole)
        if not data:
            return
        if len(rest) > limit:
            head, length, rest = _overlong(stream, rest, size)
            yield Block(head, line, length)
            line += 1


def _overlong(stream: Any, head: bytes, size: int) -> tuple[bytes, int, bytes]:
    """The beginning of a line, its length, and what follows it: the rest of it is read and forgotten."""
    at = head.find(b"\n")
    if at >= 0:
        # A row of CSV that is open over many lines: its first line goes, the others are looked at again.
        return head[:200], at + 1, head[at + 1 :]
    length = len(head)
    while data := bytes(stream.read(size)):
        at = data.find(b"\n")
        if at >= 0:
            return head[:200], length + at + 1, data[at + 1 :]
        length += len(data)
    return head[:200], length, b""


def end_of_lines(data: bytes) -> int:
    """Where the last whole line ends."""
    return data.rfind(b"\n") + 1


def _count_breaks(data: bytes) -> int:
    """How many lines end. `bytes.count` takes five times as long, because it stops at each."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == _BREAK))


def without_bom(blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks of a file from its start on, without the mark of byte order that may stand there."""
    for place, block in enumerate(blocks):
        yield block if place else block._replace(data=block.data.removeprefix(BOM))


def is_blank(line: bytes) -> bool:
    """Whether a line is no record: it has nothing but blanks of ASCII. Blanks of other alphabets are text."""
    return not line.strip()


def first_bytes(stream: Any, size: int) -> bytes:
    """The first bytes of a stream, so many unless it ends before: a pipe gives what it has, not what was asked for."""
    parts = []
    while size > 0 and (part := bytes(stream.read(size))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
