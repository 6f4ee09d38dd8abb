"""Keeps lines that cannot be read aside, each with its file, number and reason, and reads the others."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from indextables.cli.input.blocks import LINE_LIMIT, Block
from indextables.errors import InvalidArgument

__all__ = ["BadLines", "BadRecords", "Record", "read_good"]

_HOPELESS = 1_000
_SHOWN = 100_000
_WAITING = 2**24

Record = tuple[int, bytes]
"""The number of its first line, and its bytes."""


class BadRecords(ValueError):
    """Some of the records that were to be read cannot be: their places, and why."""

    def __init__(self, places: Sequence[int], reason: str) -> None:
        super().__init__(reason)
        self.places = places


class BadLines:
    """The file into which bad lines go, as JSON lines, and how many came of the file that is being read.

    They are written when a file has been read to its end, or when they are many, before its commit: a commit that fails
    leaves them there.
    Raises InvalidArgument if it cannot be written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.count = 0
        self._waiting = io.StringIO()
        self.write()

    def begin(self) -> None:
        """A file is read from its beginning."""
        self.count = 0
        self._waiting = io.StringIO()

    def keep(self, file: str, line: int, reason: str, text: bytes) -> None:
        """Keep one line aside."""
        said = {"file": file, "line": line, "reason": reason, "text": text.decode("utf-8", "replace")[:_SHOWN]}
        self._waiting.write(json.dumps(said, ensure_ascii=False) + "\n")
        self.count += 1
        if self._waiting.tell() > _WAITING:
            self.write()

    def write(self) -> None:
        """Add what was kept to the file. Raises InvalidArgument."""
        try:
            with Path(self.path).open("a", encoding="utf-8") as file:
                file.write(self._waiting.getvalue())
            self._waiting = io.StringIO()
        except OSError as cause:
            message = f"--bad-lines {self.path}: {cause.strerror}"
            raise InvalidArgument(message, path=self.path) from cause


def read_good(
    blocks: Iterator[Block],
    name: str,
    records: Callable[[Block], list[Record]],
    read: Callable[[list[Record]], list[pa.RecordBatch]],
    why: Callable[[Exception], str | None],
    aside: BadLines,
) -> Iterator[pa.RecordBatch]:
    """The rows of all records that can be read; the others are kept `aside`.

    `why` gives the reason in words for what `read` raises, or None for what is not the fault of a record. Raises that,
    and InvalidArgument if of many records none can be read.
    """
    aside.begin()
    good = 0

    def salvaged(some: list[Record]) -> Iterator[pa.RecordBatch]:
        nonlocal good
        waiting = [some]
        while waiting:
            now = waiting.pop()
            if not now:
                continue
            try:
                found = read(now)
            except BadRecords as cause:
                bad = set(cause.places)
                for place in cause.places:
                    aside.keep(name, *_told(now[place], str(cause)))
                waiting.append([record for place, record in enumerate(now) if place not in bad])
            except Exception as cause:
                reason = why(cause)
                if reason is None:
                    raise
                if len(now) == 1:
                    aside.keep(name, *_told(now[0], reason))
                else:
                    # The first half is read first: the order of the rows stays.
                    waiting += [now[len(now) // 2 :], now[: len(now) // 2]]
            else:
                good += sum(batch.num_rows for batch in found)
                yield from found
            _check_hope(name, good, aside)

    for block in blocks:
        if block.length is not None:
            reason = f"it has {block.length:,} bytes; a line can have {LINE_LIMIT:,}"
            aside.keep(name, block.line, reason, block.data)
            continue
        yield from salvaged(records(block))
    aside.write()


def _told(record: Record, reason: str) -> tuple[int, str, bytes]:
    return record[0], reason, record[1]


def _check_hope(name: str, good: int, aside: BadLines) -> None:
    if not good and aside.count >= _HOPELESS:
        message = (
            f"{name}: none of the first {aside.count:,} lines can be read: is it the format, the pattern and the schema"
            f" of this file? The lines are not in {aside.path}"
        )
        raise InvalidArgument(message, path=name)
