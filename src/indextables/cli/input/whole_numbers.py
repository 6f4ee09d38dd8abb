"""Refuses whole numbers that a column of floating-point numbers cannot hold. Pure.

Arrow's readers round such a number in silence. Digits in a row are looked for in the text; only lines that have enough
of them are read a second time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.cli.input.json_lines import count_rows

__all__ = ["InexactNumber", "check_numbers", "check_texts", "large_numbers", "large_texts"]

_WHOLE = r"^\s*[+-]?[0-9]{8,}\s*$"
_ADVICE = "; make the table first, with --schema and a type that holds it, such as decimal(38, 9) or string"


class InexactNumber(ValueError):
    """A whole number that its column cannot hold exactly."""

    def __init__(self, path: str, value: int | str, kind: pa.DataType, row: int | None = None) -> None:
        place = "" if row is None else f", in row {row:,}"
        super().__init__(f"column {path}: {str(value)[:60]} is not exact as {kind}{place}{_ADVICE}")
        self.path = path
        self.value = value
        self.kind = kind
        self.row = row


def check_numbers(text: bytes, schema: pa.Schema) -> None:
    """Raises InexactNumber for a whole number of these JSON lines that its column cannot hold."""
    kind = pa.struct(list(schema))
    for _, value in _lines_with(_digits_of(kind), text):
        for path, number, inner in _numbers(value, kind, ""):
            if not _is_exact(number, inner):
                raise InexactNumber(path, number, inner)


def check_texts(texts: pa.Array, column: str, kind: pa.DataType, row_of: Callable[[int], int]) -> None:
    """Raises InexactNumber for the first text that is a whole number and not exact as `kind`."""
    for place in pc.indices_nonzero(pc.match_substring_regex(texts, _WHOLE)).to_pylist():
        text = texts[place].as_py().strip()
        try:
            exact = _is_exact(int(text), kind)
        except ValueError:
            # More digits than Python turns into a number.
            exact = False
        if not exact:
            raise InexactNumber(column, text, kind, row_of(place))


def large_numbers(text: bytes, schema: pa.Schema) -> dict[str, tuple[int, int]]:
    """Of each column that these JSON lines suggest to be a double: the largest whole number beyond 64 bits or inexact.

    With the row that it stands in, the first of which is 1.
    Raises InexactNumber for one that is deeper than that, where nothing but a double is ever suggested.
    """
    kind = pa.struct(list(schema))
    digits = _digits_of(kind)
    found: dict[str, tuple[int, int]] = {}
    for start, value in () if digits is None else _lines_with(digits, text):
        for path, number, inner in _numbers(value, kind, ""):
            if path not in schema.names:
                if not _is_exact(number, inner):
                    raise InexactNumber(path, number, inner, count_rows(text[:start]) + 1)
            elif _is_large(number, inner):
                found[path] = max(found.get(path, (0, 0)), (number, start), key=lambda one: abs(one[0]))
    return {path: (number, count_rows(text[:start]) + 1) for path, (number, start) in found.items()}


def large_texts(texts: Mapping[str, pa.Array], kind: pa.DataType) -> dict[str, int]:
    """The same of columns of texts."""
    found: dict[str, int] = {}
    for column, values in texts.items():
        whole = values.filter(pc.fill_null(pc.match_substring_regex(values, _WHOLE), False))  # noqa: FBT003
        numbers = [_read(text, column, kind) for text in whole.to_pylist()]
        large = [number for number in numbers if _is_large(number, kind)]
        if large:
            found[column] = max(large, key=abs)
    return found


def _read(text: str, column: str, kind: pa.DataType) -> int:
    try:
        return int(text)
    except ValueError:
        # More digits than Python turns into a number.
        raise InexactNumber(column, text.strip(), kind) from None


def _is_large(number: int, kind: pa.DataType) -> bool:
    return not -(2**63) <= number < 2**63 or not _is_exact(number, kind)


def _is_exact(number: int, kind: pa.DataType) -> bool:
    try:
        near = float(number)
    except OverflowError:
        return False
    if pa.types.is_float32(kind):
        with np.errstate(over="ignore"):
            near = float(np.float32(near))
    return np.isfinite(near) and int(near) == number


def _digits_of(kind: pa.DataType) -> re.Pattern[bytes] | None:
    """Digits that may be too many for a floating-point number inside of `kind`; None if there is none in it."""
    floats = list(_floats(kind))
    if not floats:
        return None
    least = 16 if all(pa.types.is_float64(one) for one in floats) else 8
    return re.compile(rb"(?<![0-9.])[0-9]{%d,}(?![0-9.eE])" % least)


def _floats(kind: pa.DataType) -> Iterator[pa.DataType]:
    if pa.types.is_floating(kind):
        yield kind
    elif pa.types.is_nested(kind):
        for place in range(kind.num_fields):
            yield from _floats(kind.field(place).type)


def _lines_with(digits: re.Pattern[bytes] | None, text: bytes) -> Iterator[tuple[int, Any]]:
    """Of each line with such digits: where it begins, and its value. What is no JSON is for Arrow to complain about."""
    seen = -1
    for found in digits.finditer(text) if digits is not None else ():
        if found.start() < seen:
            continue
        start = text.rfind(b"\n", 0, found.start()) + 1
        end = text.find(b"\n", found.end())
        seen = len(text) if end < 0 else end
        try:
            yield start, json.loads(text[start:seen])
        except UnicodeDecodeError:
            continue
        except ValueError as cause:
            if "digits" in str(cause):
                raise InexactNumber("a line", found.group().decode(), pa.float64()) from cause


def _numbers(value: Any, kind: pa.DataType, path: str) -> Iterator[tuple[str, int, pa.DataType]]:
    """The whole numbers of a JSON value that go into floating-point numbers, each with its path."""
    if isinstance(value, bool):
        return
    if isinstance(value, int) and pa.types.is_floating(kind):
        yield path, value, kind
    elif isinstance(value, dict) and pa.types.is_struct(kind):
        for field in kind:
            if field.name in value:
                yield from _numbers(value[field.name], field.type, f"{path}.{field.name}" if path else field.name)
    elif isinstance(value, dict) and pa.types.is_map(kind):
        for inner in value.values():
            yield from _numbers(inner, kind.item_type, f"{path}{{}}")
    elif isinstance(value, list) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        for item in value:
            yield from _numbers(item, kind.value_type, f"{path}[]")
