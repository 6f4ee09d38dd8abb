"""Follows files that grow: which bytes of each are in the table, by what the log says, and which come next.

A file is known by its content, whatever it is called and wherever it lies: its first line, and the bytes that were
taken. Each part of a file is a batch of an application of its own; beside its number the log keeps how far the part
reached, with a few bits of the hash of everything up to there. A file that begins with all that was taken of another
is that file, grown; unless that other one is still there and goes on in another way. A file with which one that is
there begins is a copy of it, and has nothing of its own.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from indextables.cli.input.blocks import end_of_lines, first_bytes
from indextables.cli.input.csv_files import CsvRows
from indextables.cli.input.sources import Format, is_compressed, open_bytes

__all__ = ["Follower", "Part", "PartChanged"]

_PREFIX = "indextables-follow:"
_CHECK_BITS = 22
_CHECK_MASK = (1 << _CHECK_BITS) - 1
_READ = 2**20
_TAIL = 4096
_FIRST = 64 * 2**10
_REST_NS = 10 * 10**9
"""A last line without its end is taken when its file has not changed for so long."""


class PartChanged(Exception):
    """The bytes of a part are no longer those that were found: it is looked for again."""


_Held = Callable[[str], int | None]


class _Known(NamedTuple):
    """How far a file has been taken."""

    application: str
    batch: int
    """The number of the last batch; 0 if there is none."""
    offset: int
    lines: int
    digest: Any
    """The hash of everything up to `offset`, to go on with."""
    tail: bytes
    """The last bytes before `offset`: if they are others now, it is another file."""


class _Copy(NamedTuple):
    """A file with which another one begins, that is there."""

    is_taken: bool
    """All of it was taken of the other one."""


class Part(NamedTuple):
    """The bytes of a file that come next: whole lines, the first of which has the number `line`."""

    name: str
    header: bytes
    line: int
    size: int
    txn: tuple[str, int]
    along: tuple[str, int]
    """How far the part reaches, as the log keeps it."""
    before: Any
    """The hash of everything before it."""
    after: _Known
    start: int
    key: tuple[int, int]

    def stream(self) -> Any:
        """Its bytes. Raises OSError."""
        return _Limited(_at(self.name, self.start), self.size)

    def check(self) -> None:
        """Raises PartChanged if the file no longer has the bytes that the part was made of."""
        digest = self.before.copy()
        with _at(self.name, self.start) as stream:
            _advance(stream, self.size, digest)
        if digest.digest() != self.after.digest.digest():
            raise PartChanged(self.name)


class Follower:
    """Knows of each file how far it was taken.

    `newest` looks at the newest version of the table, and gives a function that tells the number which that version has
    for an application: two numbers that belong together come from one version.
    """

    def __init__(self, newest: Callable[[], _Held], now_ns: Callable[[], int]) -> None:
        self._newest = newest
        self._now_ns = now_ns
        self._known: dict[tuple[int, int], _Known] = {}
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}
        """Size and time of each file when there was nothing more to take of it."""
        self._names: dict[tuple[int, int], str] = {}

    def forget_gone(self, names: list[str]) -> None:
        """Forget files that are not among these any more."""
        self._names = {key: name for name in names if (key := _key(name)) is not None}
        for key in set(self._known) - set(self._names):
            self._drop(key)

    def _drop(self, key: tuple[int, int]) -> None:
        """A file is not there any more, or has lost what was taken of it: its copies are looked at again."""
        if self._known.pop(key, None) is not None:
            self._seen.clear()

    def next_part(self, name: str, kind: Format) -> Part | None:
        """What comes next of a file; None if there is nothing. Raises OSError."""
        status = Path(name).stat()
        key, stamp = (status.st_dev, status.st_ino), (status.st_size, status.st_mtime_ns)
        if not status.st_size:
            # It was emptied: what was taken of it may go on in a copy.
            self._drop(key)
            return None
        if self._seen.get(key) == stamp:
            return None
        is_whole = is_compressed(name) or self._now_ns() - status.st_mtime_ns > _REST_NS
        known: _Known | _Copy | None = self._known.get(key)
        if not isinstance(known, _Known) or not _goes_on(name, known):
            self._drop(key)
            known = self._identify(name, is_whole=is_whole)
        if known is None or isinstance(known, _Copy):
            if known is not None and known.is_taken:
                self._seen[key] = stamp
            return None
        found = self._part(name, kind, key, known, is_whole=is_whole)
        if found is None and known.batch:
            self._known[key] = known
        if found is None and is_whole:
            self._seen[key] = stamp
        return found

    def taken(self, part: Part) -> None:
        """The rows of this part are in the table."""
        self._known[part.key] = part.after

    def lost(self, part: Part) -> None:
        """Somebody else took this part, or its bytes changed: ask the log again."""
        self._known.pop(part.key, None)

    def _identify(self, name: str, *, is_whole: bool) -> _Known | _Copy | None:
        """Which of the files that the log knows this is, a copy of a file that is there, or a new one.

        None if its first line is not complete.
        """
        with _at(name, 0) as stream:
            first = first_bytes(stream, _FIRST)
        end = first.find(b"\n")
        if end < 0 and len(first) < _FIRST and not is_whole:
            return None
        identity = hashlib.sha256(first[: end + 1] if end >= 0 else first).hexdigest()
        numbers = self._newest()
        holders = {known.application: key for key, known in self._known.items()}
        places: dict[str, int] = {}
        new, number = "", 0
        while not new:
            application = f"{_PREFIX}{identity}:{number}"
            held = numbers(_place_of(application))
            number += 1
            if application in holders:
                beside = self._beside(name, holders[application])
                if isinstance(beside, _Copy):
                    return beside
                if beside == "other":
                    continue
            if held is None:
                new = application
            else:
                places[application] = held
        return _furthest(name, places, numbers) or _Known(new, 0, 0, 0, hashlib.sha256(), b"")

    def _beside(self, name: str, key: tuple[int, int]) -> _Copy | Literal["other", "heir"]:
        """What a file is beside one of which something was taken; its heir if that one has lost it. Raises OSError."""
        known, holder = self._known[key], self._names[key]
        if not _goes_on(holder, known):
            self._drop(key)
            return "heir"
        length = _length_if_beginning(name, holder)
        # A file that is shorter than what was taken may be one that begins alike.
        return _Copy(length == known.offset) if length is not None and length >= known.offset else "other"

    def _part(self, name: str, kind: Format, key: tuple[int, int], known: _Known, *, is_whole: bool) -> Part | None:
        header = b""
        end = end_of_lines
        if kind == "csv":
            with _at(name, 0) as stream:
                rows = CsvRows(stream, name)
            header, end = rows.header, rows.end
        with _at(name, known.offset) as stream:
            size = _whole(stream, end, is_whole=is_whole)
        digest = known.digest.copy()
        with _at(name, known.offset) as stream:
            read, lines, tail = _advance(stream, size, digest, known.tail)
        reached = known.offset + size
        if not size or read < size or (kind == "csv" and reached <= len(header)):
            return None
        after = _Known(known.application, known.batch + 1, reached, known.lines + lines, digest, tail)
        place = reached << _CHECK_BITS | _check_of(digest)
        return Part(
            name,
            header if known.offset else b"",
            known.lines + 1,
            size,
            (known.application, known.batch + 1),
            (_place_of(known.application), place),
            known.digest,
            after,
            known.offset,
            key,
        )


def _furthest(name: str, places: dict[str, int], numbers: _Held) -> _Known | None:
    """The application whose taken bytes the file begins with, of several the one with the most."""
    found = None
    digest, at, lines, tail = hashlib.sha256(), 0, 0, b""
    with _at(name, 0) as stream:
        for application, held in sorted(places.items(), key=lambda one: one[1]):
            offset = held >> _CHECK_BITS
            read, more, tail = _advance(stream, offset - at, digest, tail)
            at, lines = at + read, lines + more
            if at < offset:
                break
            if _check_of(digest) == held & _CHECK_MASK:
                batch = numbers(application) or 0
                found = _Known(application, batch, offset, lines, digest.copy(), tail)
    return found


def _place_of(application: str) -> str:
    return f"{application}@"


def _key(name: str) -> tuple[int, int] | None:
    try:
        status = Path(name).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _check_of(digest: Any) -> int:
    first: bytes = digest.digest()[:4]
    return int.from_bytes(first) & _CHECK_MASK


def _goes_on(name: str, known: _Known) -> bool:
    """Whether a file still has what was taken of it, as far as a look at the end of that tells."""
    start = known.offset - len(known.tail)
    with _at(name, start) as stream:
        return first_bytes(stream, len(known.tail)) == known.tail


def _length_if_beginning(name: str, other: str) -> int | None:
    """How many bytes a file has, if another one begins with all of them."""
    length = 0
    with _at(name, 0) as stream, _at(other, 0) as others:
        while data := bytes(stream.read(_READ)):
            if first_bytes(others, len(data)) != data:
                return None
            length += len(data)
    return length


def _at(name: str, offset: int) -> Any:
    """The bytes of a file from a place on."""
    file, stream = open_bytes(name)
    if stream is file:
        file.seek(offset)
    else:
        _advance(stream, offset)
    return stream


def _advance(stream: Any, size: int, digest: Any = None, tail: bytes = b"") -> tuple[int, int, bytes]:
    """Read so many bytes, or to the end: how many they were, how many lines end in them, and the last of them."""
    done = lines = 0
    while done < size and (data := bytes(stream.read(min(_READ, size - done)))):
        done += len(data)
        lines += data.count(b"\n")
        tail = (tail + data)[-_TAIL:]
        if digest is not None:
            digest.update(data)
    return done, lines, tail


def _whole(stream: Any, end: Callable[[bytes], int], *, is_whole: bool) -> int:
    """How many bytes there are up to the end of the last whole line; all of them, if the last one is whole as it is."""
    done, rest = 0, b""
    while data := bytes(stream.read(_READ)):
        rest += data
        cut = end(rest)
        done, rest = done + cut, rest[cut:]
    return done + len(rest) if is_whole else done


class _Limited(io.RawIOBase):
    """The first bytes of a stream."""

    def __init__(self, stream: Any, size: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = size

    def read(self, size: int = -1) -> bytes:
        data = bytes(self._stream.read(self._left if size < 0 else min(size, self._left)))
        self._left -= len(data)
        return data
