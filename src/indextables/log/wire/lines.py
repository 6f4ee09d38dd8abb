"""Checks JSON lines strictly: finds what a native reader would let pass, and where exactly a block is broken.

arrow-rs turns lines into columns at full speed but forgives much: several objects on a line, `"5"` and `5.7` for a
number, trailing commas, a raw newline in a string, duplicate keys. msgspec forgives none of it but the last and
skips what it is not asked for, so that it checks a block in a fraction of the time that reading it takes. Duplicate
keys are found by counting keys: they are the only way to have more of them than were decoded.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import IndexTablesError, LimitExceeded, LogCorrupt
from indextables.log.wire.actions import DeletionVector
from indextables.log.wire.files import ADD_FIELDS, REMOVE_FIELDS, VECTOR_FIELDS, FileField
from indextables.log.wire.names import version_key

__all__ = [
    "CHECKED_LINES",
    "MAX_DEPTH",
    "NOTHING",
    "CheckedLine",
    "check_depth",
    "check_line",
    "check_quotable",
    "corrupt",
    "count_keys",
    "count_nulls",
    "explain",
    "small_action",
    "too_large",
    "without_nulls",
]

MAX_DEPTH = 64


def _checked(name: str, fields: Iterable[FileField]) -> Any:
    """A Struct that reads the numbers of an action, and of its vector, and knows their ranges."""
    kinds: list[tuple[str, Any, None]] = []
    for field in fields:
        if field.kind is int:
            kinds.append((field.name, Annotated[int, msgspec.Meta(ge=0, le=field.most)] | None, None))
        elif field.kind is DeletionVector:
            kinds.append((field.name, _checked("Vector", VECTOR_FIELDS) | None, None))
    return msgspec.defstruct(f"_Checked{name}", kinds, frozen=True, gc=False)


if TYPE_CHECKING:
    _CheckedAdd: TypeAlias = msgspec.Struct
    _CheckedRemove: TypeAlias = msgspec.Struct
else:
    _CheckedAdd, _CheckedRemove = _checked("Add", ADD_FIELDS), _checked("Remove", REMOVE_FIELDS)


NOTHING = msgspec.Raw(b"null")


class CheckedLine(msgspec.Struct, frozen=True, gc=False):
    """A line whose form is checked: numbers of `add` and `remove`, and the bytes of everything smaller."""

    add: _CheckedAdd | None = None
    remove: _CheckedRemove | None = None
    commitInfo: msgspec.Raw = NOTHING
    protocol: msgspec.Raw = NOTHING
    metaData: msgspec.Raw = NOTHING
    mergeskip: msgspec.Raw = NOTHING
    txn: msgspec.Raw = NOTHING
    cdc: msgspec.Raw = NOTHING
    domainMetadata: msgspec.Raw = NOTHING


CHECKED_LINES = msgspec.json.Decoder(CheckedLine)

_SMALL = tuple(name for name in CheckedLine.__struct_fields__ if name not in {"add", "remove"})

_COLON, _QUOTE, _BACKSLASH = ord(":"), ord('"'), ord("\\")
_SMALL_BLOCK = 1 << 12

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_RANGE = re.compile(r"out of range|Expected `int` [<>]=")


def corrupt(version: int, line: int | None, reason: str) -> LogCorrupt:
    """The error for bytes of version `version` that are no version file."""
    where = f"version {version}" if line is None else f"line {line} of version {version}"
    message = (
        f"{where} ({version_key(version)}) cannot be read: {reason}; restore the file from a copy, "
        "or read an earlier version"
    )
    return LogCorrupt(message, version=version, line=line, path=version_key(version), reason=reason)


def too_large(version: int, line: int | None, reason: str) -> LimitExceeded:
    """The error for a line that is well-formed but beyond a cap."""
    where = f"version {version}" if line is None else f"line {line} of version {version}"
    message = f"{where} ({version_key(version)}) is refused: {reason}; no writer makes such lines"
    return LimitExceeded(message, version=version, line=line, path=version_key(version), reason=reason)


def count_keys(block: bytes) -> int:
    """How many keys a block of compact JSON has, not counting those inside strings."""
    if len(block) < _SMALL_BLOCK:
        return block.count(b'":') - block.count(b'\\":')
    data = np.frombuffer(block, dtype=np.uint8)
    keys = (data[2:] == _COLON) & (data[1:-1] == _QUOTE)
    if b"\\" in block:
        keys &= data[:-2] != _BACKSLASH
    return int(np.count_nonzero(keys))


def count_nulls(block: bytes) -> int:
    """How many keys of a block of compact JSON have no value."""
    return block.count(b'":null')


def check_depth(line: bytes, version: int, number: int) -> None:
    """Raises LimitExceeded if the line is too deep. All that is asked of a line which says nothing known."""
    if len(line) > 2 * MAX_DEPTH and _depth(line) > MAX_DEPTH:
        raise too_large(version, number, f"it is nested deeper than {MAX_DEPTH}")


def check_line(line: bytes, version: int, number: int) -> None:
    """Raises LogCorrupt or LimitExceeded if the line is no object, too deep, or has a key twice."""
    if _depth(line) > MAX_DEPTH:
        raise too_large(version, number, f"it is nested deeper than {MAX_DEPTH}")
    try:
        CHECKED_LINES.decode(line)
        value = _STRICT.decode(line.decode("utf-8"))
    except _Repeated as error:
        raise corrupt(version, number, f"the key {error.args[0]!r} stands twice in one object") from None
    except UnicodeDecodeError:
        raise corrupt(version, number, "it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _classified(error, version, number) from None
    if not isinstance(value, dict):
        raise corrupt(version, number, "it is not a JSON object")


def check_quotable(data: bytes, schema: pa.Schema) -> None:
    """Raises ValueError for lines that the native reader would refuse with a NUL in its words: it ends the process.

    A NUL is no JSON. Where texts have one behind an escape, each line must be an object of the types of `schema`: then
    there is nothing to refuse.
    """
    if b"\0" in data:
        raise ValueError("it holds a NUL byte, which JSON has not")
    if b"\\u0000" not in data:
        return
    # Made for this call: msgspec crashes if two threads are the first to decode one type.
    decoder = msgspec.json.Decoder(_kind(pa.struct(list(schema))))
    try:
        for line in io.BytesIO(data):
            if line.strip():
                decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error


def _kind(kind: pa.DataType) -> Any:
    """The type of Python whose JSON the native reader takes for this one; null is always one."""
    if pa.types.is_struct(kind):
        names = {f"f{at}": field.name for at, field in enumerate(kind)}
        fields = [(f"f{at}", _kind(field.type), None) for at, field in enumerate(kind)]
        return msgspec.defstruct("_Typed", fields, rename=names) | None
    if pa.types.is_map(kind):
        return dict[str, _kind(kind.item_type)] | None  # type: ignore[misc]
    if pa.types.is_list(kind):
        return list[_kind(kind.value_type)] | None  # type: ignore[misc]
    if pa.types.is_boolean(kind):
        return bool | None
    return (int if pa.types.is_integer(kind) else str) | None


def small_action(line: CheckedLine, version: int, number: int) -> str | None:
    """Which action other than `add` and `remove` a line holds. Raises LogCorrupt for a line with two actions."""
    found = [name for name in _SMALL if (raw := getattr(line, name)) is not NOTHING and bytes(raw) != b"null"]
    if len(found) + (line.add is not None) + (line.remove is not None) > 1:
        raise corrupt(version, number, "it holds two actions")
    return found[0] if found else None


def explain(block: bytes, first_line: int, version: int, error: Exception) -> NoReturn:
    """Raise the typed error of the first broken line, or of the block if each line by itself would do."""
    for number, line in enumerate(block.split(b"\n"), start=first_line):
        if line.strip():
            _check_form(line, version, number)
    raise corrupt(version, None, str(error)) from None


def _check_form(line: bytes, version: int, number: int) -> None:
    """As `check_line`, but a key that stands twice in what nobody knows is nobody's business."""
    if _depth(line) > MAX_DEPTH:
        raise too_large(version, number, f"it is nested deeper than {MAX_DEPTH}")
    try:
        line.decode("utf-8")
        CHECKED_LINES.decode(line)
    except UnicodeDecodeError:
        raise corrupt(version, number, "it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _classified(error, version, number) from None


def without_nulls(raw: bytes) -> Any:
    """The object in `raw` without keys that have no value, two levels deep: null and absent mean the same."""
    value = json.loads(raw)
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if item is not None}
    inner = kept.get("format")
    if isinstance(inner, dict):
        kept["format"] = {key: item for key, item in inner.items() if item is not None}
    return kept


class _Repeated(Exception):
    pass


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Repeated(key)
            seen.add(key)
    return found


# Numbers are checked where their type is known; here even a huge one only has to be skipped.
_STRICT = json.JSONDecoder(object_pairs_hook=_unrepeated, parse_int=str, parse_float=str)


def _depth(line: bytes) -> int:
    if line.count(b"{") + line.count(b"[") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    for byte in _STRING.sub(b"", line):
        if byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAX_DEPTH:
                break
        elif byte in b"}]":
            depth -= 1
    return deepest


def _classified(error: Exception, version: int, number: int) -> IndexTablesError:
    text = str(error)
    if isinstance(error, RecursionError):
        return too_large(version, number, f"it is nested deeper than {MAX_DEPTH}")
    if _RANGE.search(text):
        return too_large(version, number, f"a number is out of its range ({text})")
    return corrupt(version, number, text)
