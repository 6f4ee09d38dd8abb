"""Prepares lines for Arrow's JSON reader: leaves out what it must not see, rewrites what it misreads, finds faults.

A block of JSON lines that begins with `null` ends the process inside Arrow. Blocks begin with a line, so that a line
which begins with it is refused before it gets there. Maps are rewritten for it. What it refuses it often names neither
by row nor by column: the lines of its block are looked at again, so that both can be found.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from indextables.cli.input.blocks import is_blank

__all__ = ["BadMap", "NullLine", "check_objects", "count_rows", "first_fault", "map_free", "with_pairs"]

_NULL_LINE = re.compile(rb"(?:\A|\n)(?:\xef\xbb\xbf)?[ \t\r]*null")
_MAY_BEGIN_NULL = np.isin(np.arange(256), [*b"\xef \t\rn"])
_BREAK, _LAST_BLANK = 10, 32
_START = np.zeros(1, np.int64)
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(strict=False, parse_float=len, parse_int=len)
"""Tells where values end; what numbers are is not asked."""


class NullLine(ValueError):
    """A line is `null`, or begins with it."""

    def __init__(self) -> None:
        super().__init__("a line is null where one JSON object belongs")


def check_objects(text: bytes, *, ended: bool = True) -> None:
    """Raises NullLine where a line is null or begins with it, and UnicodeDecodeError where the text is not UTF-8.

    Of a text that has not `ended` the last letter may be incomplete.
    """
    codecs.utf_8_decode(text, "strict", ended)
    firsts = _first_bytes(text)
    if _MAY_BEGIN_NULL[firsts].any() and _NULL_LINE.search(text):
        raise NullLine


class BadMap(ValueError):
    """What stands where a map belongs is no object, or has a key twice."""


def with_pairs(text: bytes, schema: pa.Schema) -> bytes:
    """The lines of a text with each object that goes into a map as an array of {"key": …, "value": …}.

    Arrow reads no maps. Everything else stays as it is written, to the digit. A line that is no JSON is passed on, for
    Arrow to complain about. Raises BadMap.
    """
    kind = pa.struct(list(schema))
    return b"\n".join(_with_pairs(line, kind) for line in text.split(b"\n"))


def _with_pairs(line: bytes, kind: pa.StructType) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    try:
        start = _SPACE.match(text, 1 if text.startswith("\ufeff") else 0).end()  # type: ignore[union-attr]
        end = _value_end(text, start)
        return (text[:start] + _without_maps(text, start, end, kind, "") + text[end:]).encode(
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
    firsts = _first_bytes(text)
    if (firsts <= _LAST_BLANK).any():
        return sum(1 for line in text.split(b"\n") if not is_blank(line))
    return len(firsts)


def _first_bytes(text: bytes) -> np.ndarray:
    """The first byte of each line. Looking for two bytes in a row takes many times as long."""
    data = np.frombuffer(text, np.uint8)
    return data[np.concatenate([_START, np.flatnonzero(data[:-1] == _BREAK) + 1])] if len(data) else data


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
