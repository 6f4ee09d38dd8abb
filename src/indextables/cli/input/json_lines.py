"""Prepares lines for Arrow's JSON reader: leaves out what it must not see, rewrites what it misreads, finds faults.

A block of JSON lines that begins with `null` ends the process inside Arrow. Blocks begin with a line, so that a line
which begins with it is refused before it gets there. Maps are rewritten for it. What it refuses it often names neither
by row nor by column: the lines of its block are looked at again, so that both can be found.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from indextables.cli.input.blocks import is_blank

__all__ = ["BadMap", "MapLines", "NullLine", "ObjectLines", "count_rows", "first_fault", "map_free"]

_NULL_LINE = re.compile(rb"\n(?:\xef\xbb\xbf)?[ \t\r]*null")
_MAY_BEGIN_NULL = np.isin(np.arange(256), [*b"\xef \t\rn"])
_BEGINNING = re.compile(rb"\n(?:\xef(?:\xbb\xbf?)?)?[ \t\r]*(?:nu?l?)?")
_BREAK, _LAST_BLANK = 10, 32
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(strict=False, parse_float=len, parse_int=len)
"""Tells where values end; what numbers are is not asked."""


class NullLine(ValueError):
    """A line is `null`, or begins with it."""

    def __init__(self) -> None:
        super().__init__("a line is null where one JSON object belongs")


class ObjectLines(io.RawIOBase):
    """The bytes of a stream; instead of the part in which a line is null, or not UTF-8, that is raised."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._line = b"\n"
        """The last line so far, if it may yet begin with null."""

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, all by default. Raises NullLine, UnicodeDecodeError, and what the stream raises."""
        data = bytes(self._stream.read(size))
        self._utf8.decode(data, final=not data)
        seen = self._line + data
        if _MAY_BEGIN_NULL[_line_starts(seen)].any() and _NULL_LINE.search(seen):
            raise NullLine
        last = seen[seen.rfind(b"\n") :] if b"\n" in data or self._line else b""
        # Spaces say nothing, and there may be any number of them.
        self._line = b"\n" + last.strip() if _BEGINNING.fullmatch(last) else b""
        return data


class BadMap(ValueError):
    """What stands where a map belongs is no object, or has a key twice."""


class MapLines(io.RawIOBase):
    """The lines of a stream with each object that goes into a map as an array of {"key": …, "value": …}.

    Arrow reads no maps. Everything else stays as it is written, to the digit. A line that is no JSON is passed on, for
    Arrow to complain about. Raises BadMap from `read`.
    """

    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        super().__init__()
        self._stream = stream
        self._kind = pa.struct(list(schema))
        self._open: list[bytes] = []
        self._ready = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, all by default. Raises BadMap, and what the stream raises."""
        while not self._ready:
            data = bytes(self._stream.read(size))
            end = data.rfind(b"\n") + 1 if data and size >= 0 else len(data)
            if end or not data:
                text = b"".join([*self._open, data[:end]])
                self._open = []
                self._ready = b"\n".join(map(self._line, text.split(b"\n")))
            self._open.append(data[end:])
            if not data or size < 0:
                break
        size = len(self._ready) if size < 0 else size
        part, self._ready = self._ready[:size], self._ready[size:]
        return part

    def _line(self, line: bytes) -> bytes:
        text = line.decode("utf-8", "surrogateescape")
        try:
            start = _SPACE.match(text, 1 if text.startswith("\ufeff") else 0).end()  # type: ignore[union-attr]
            end = _value_end(text, start)
            return (text[:start] + _without_maps(text, start, end, self._kind, "") + text[end:]).encode(
                "utf-8", "surrogateescape"
            )
        except BadMap:
            raise
        except (ValueError, RecursionError):
            return line


def map_free(kind: pa.DataType) -> bool:
    """Whether there is no map in `kind`."""
    if pa.types.is_map(kind):
        return False
    return not pa.types.is_nested(kind) or all(map_free(kind.field(place).type) for place in range(kind.num_fields))


def _members(text: str, start: int) -> Iterator[tuple[str, int, int, int, int]]:
    """Of the object that begins at `start`: each key, where it begins and ends, and where its value does.

    Raises ValueError where it is none.
    """
    for at, end in _items(text, start, "{}"):
        key, key_end = _DECODER.raw_decode(text, at)
        colon = _SPACE.match(text, key_end).end()  # type: ignore[union-attr]
        yield key, at, key_end, _SPACE.match(text, colon + 1).end(), end  # type: ignore[union-attr]


def _items(text: str, start: int, brackets: str) -> Iterator[tuple[int, int]]:
    """Where each item of an array begins and ends, or each pair of an object."""
    if text[start : start + 1] != brackets[0]:
        raise ValueError("it begins otherwise")
    at = _SPACE.match(text, start + 1).end()  # type: ignore[union-attr]
    while text[at : at + 1] != brackets[1]:
        end = _value_end(text, at)
        if brackets == "{}":
            colon = _SPACE.match(text, end).end()  # type: ignore[union-attr]
            if text[at] != '"' or text[colon : colon + 1] != ":":
                raise ValueError("no key")
            end = _value_end(text, _SPACE.match(text, colon + 1).end())  # type: ignore[union-attr]
        yield at, end
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        if text[at : at + 1] == ",":
            at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
        elif text[at : at + 1] != brackets[1]:
            raise ValueError("no end")


def _value_end(text: str, start: int) -> int:
    return int(_DECODER.raw_decode(text, start)[1])


def _without_maps(text: str, start: int, end: int, kind: pa.DataType, path: str) -> str:
    """A value as it is written, but for the maps in it."""
    if map_free(kind) or text.startswith("null", start):
        return text[start:end]
    if pa.types.is_map(kind):
        if text[start] != "{":
            raise BadMap(f"column {path}: {text[start:end][:60]!r} is no object, and a map is one")
        seen = set()
        pairs = []
        for key, at, key_end, value, value_end in _members(text, start):
            if key in seen:
                raise BadMap(f"column {path}: a map has the key {key[:60]!r} twice")
            seen.add(key)
            inner = _without_maps(text, value, value_end, kind.item_type, f"{path}{{}}")
            pairs.append(f'{{"key":{text[at:key_end]},"value":{inner}}}')
        return f"[{','.join(pairs)}]"
    if pa.types.is_struct(kind) and text[start] == "{":
        kinds = {field.name: field.type for field in kind}
        parts = [
            f"{text[at:key_end]}:"
            + _without_maps(text, value, value_end, kinds.get(key, pa.null()), f"{path}.{key}" if path else key)
            for key, at, key_end, value, value_end in _members(text, start)
        ]
        return f"{{{','.join(parts)}}}"
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and text[start] == "[":
        items = [
            _without_maps(text, at, item_end, kind.value_type, f"{path}[]")
            for at, item_end in _items(text, start, "[]")
        ]
        return f"[{','.join(items)}]"
    return text[start:end]


def count_rows(text: bytes) -> int:
    """The lines of a text that are not blank."""
    starts = _line_starts(text)
    if text[:1].isspace() or (starts <= _LAST_BLANK).any():
        return sum(1 for line in text.split(b"\n") if not is_blank(line))
    return len(starts) + 1 if text else 0


def _line_starts(text: bytes) -> np.ndarray:
    """The first byte of each line but the first one. Looking for two bytes in a row takes many times as long."""
    data = np.frombuffer(text, np.uint8)
    return data[np.flatnonzero(data[:-1] == _BREAK) + 1]


def first_fault(lines: Sequence[bytes], read: Callable[[bytes], object]) -> tuple[int, str | None, Exception] | None:
    """The first line that cannot be `read`, its first column that cannot, and why; None if all can.

    `read` raises for a text if it raises for the beginning of that text.
    """
    if not lines or _why_not(b"\n".join(lines), read) is None:
        return None
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _why_not(b"\n".join(lines[:middle]), read) is None:
            good = middle
        else:
            bad = middle
    line = lines[good]
    try:
        text = line.decode().lstrip("\ufeff \t\r")
        for key, at, _, _, end in _members(text, 0):
            cause = _why_not(f"{{{text[at:end]}}}".encode(), read)
            if cause is not None:
                return good, key, cause
    except ValueError:
        pass
    cause = _why_not(line, read)
    return None if cause is None else (good, None, cause)


def _why_not(text: bytes, read: Callable[[bytes], object]) -> Exception | None:
    try:
        read(text)
    except (pa.ArrowException, ValueError) as cause:
        return cause
    return None
