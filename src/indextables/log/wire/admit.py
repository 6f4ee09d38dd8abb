"""What is encoded must decode: the reader's rules, asked before anything is written.

A version file can never be taken back. A commit that its own reader would refuse would end the table, so that
whatever a caller staged is held against the same rules first. Small actions and files that come as Structs go through
the reader's own checks; files that come as columns are checked as columns and are not decoded a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import IndexTablesError, InvalidArgument, LimitExceeded, PathEscape
from indextables.log.wire.actions import Action, Add, Line, MergeSkip, Remove
from indextables.log.wire.arrays import combined, text_array, validity
from indextables.log.wire.blocks import ADD_REQUIRED, REMOVE_REQUIRED, VECTOR_REQUIRED, repeated_key
from indextables.log.wire.codec import MAX_OTHER_LINES, WRAPPERS, check_numbers, encode_version, in_order
from indextables.log.wire.compression import (
    MAX_BYTES,
    MAX_LINE_BYTES,
    MAX_RATIO,
    RATIO_FROM_BYTES,
    expand,
    line_too_long,
)
from indextables.log.wire.compression import compress as compress_bytes
from indextables.log.wire.files import ADD_FIELDS, ADD_TYPE, REMOVE_TYPE
from indextables.log.wire.lines import CHECKED_LINES, corrupt
from indextables.log.wire.paths import canonical_paths

__all__ = ["admitted"]

_LINES = msgspec.json.Decoder(Line)
_BITS = {field.name: field.bits for field in ADD_FIELDS}


def admitted(
    actions: Sequence[Action],
    *,
    adds: pa.Table | None = None,
    removes: pa.Table | None = None,
    version: int,
    root_url: str,
    compress: bool,
) -> bytes:
    """The bytes of a version file, as `encode_version` makes them, that `decode_version` is known to accept.

    Raises InvalidArgument for anything else: values of another type, text that is no Unicode, numbers outside
    0 .. 2^63 - 1, paths that a reader refuses, lines that are too long.
    """
    try:
        lines = _checked_lines(actions, root_url)
        _check_columns("remove", removes, REMOVE_TYPE, REMOVE_REQUIRED, root_url)
        _check_columns("add", adds, ADD_TYPE, ADD_REQUIRED, root_url)
        text = lines + encode_version((), adds=adds, removes=removes, compress=False)
        _check_lengths(text)
        return _packed(text, version) if compress else text
    except (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException) as error:
        # What msgspec and Arrow raise for values that are not of the declared types.
        raise _refused(version, root_url, str(error)) from error
    except PathEscape as error:
        raise _refused(version, root_url, str(error.details.get("reason", error)), error.details.get("path")) from error
    except IndexTablesError as error:
        raise _refused(version, root_url, str(error.details.get("reason", error))) from error


def _checked_lines(actions: Sequence[Action], root_url: str) -> bytes:
    """The lines of actions that a reader decodes. Raises ValueError, TypeError, and PathEscape for files and skips."""
    text = encode_version(actions, compress=False)
    CHECKED_LINES.decode_lines(text)
    paths: list[str] = []
    others = 0
    for line, given in zip(_LINES.decode_lines(text), in_order(actions), strict=True):
        name = WRAPPERS[type(given)]
        found = getattr(line, name)
        if found != given:
            # A key that is not a text would come back as one, and perhaps stand there twice.
            message = f"{name} would not come back as it was given: use texts as keys and whole numbers as numbers"
            raise ValueError(message)
        if isinstance(found, (Add, Remove, MergeSkip)):
            paths.append(found.path)
        if not isinstance(found, (Add, Remove)):
            others += 1
            check_numbers(name, found)
    if others > MAX_OTHER_LINES:
        message = f"it has more than {MAX_OTHER_LINES} lines that are neither add nor remove"
        raise ValueError(message)
    if paths:
        canonical_paths(text_array(paths), root_url)
    return text


def _check_columns(
    name: str, table: pa.Table | None, kind: pa.StructType, required: tuple[str, ...], root_url: str
) -> None:
    """The reader's checks of many files, by column. Raises ValueError, ArrowInvalid, PathEscape."""
    if table is None or not table.num_rows:
        return
    for field in required:
        if field not in table.column_names or table[field].null_count:
            message = f"{name} has no {field}"
            raise ValueError(message)
    for field in kind:
        if field.name in table.column_names and table[field.name].null_count < table.num_rows:
            column = combined(_typed(table[field.name], field.type))
            column.validate(full=True)
            _check_values(name, field.name, column)
    canonical_paths(_typed(table["path"], pa.string()), root_url)


def _typed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)


def _check_values(name: str, field: str, column: pa.Array) -> None:
    if pa.types.is_int64(column.type):
        found = pc.min_max(column).as_py()
        if found["min"] is not None and found["min"] < 0:
            message = f"{name}.{field} is out of the range 0 to 2^63 - 1"
            raise ValueError(message)
        bits = _BITS.get(field, 64)
        if found["max"] is not None and found["max"] >> (bits - 1):
            message = f"{name}.{field} is out of the range 0 to 2^{bits - 1} - 1"
            raise ValueError(message)
    elif pa.types.is_map(column.type):
        if repeated_key(column) is not None:
            message = f"a key of {name}.{field} stands twice"
            raise ValueError(message)
    elif pa.types.is_struct(column.type) and column.null_count < len(column):
        there = validity(column)
        for inner in column.type:
            values = column.field(inner.name)
            if inner.name in VECTOR_REQUIRED and bool(np.any(there & ~validity(values))):
                message = f"the {field} of {name} has no {inner.name}"
                raise ValueError(message)
            _check_values(name, f"{field}.{inner.name}", values)


def _check_lengths(text: bytes) -> None:
    """Raises LimitExceeded if the text or one of its lines is longer than a reader takes."""
    if len(text) <= MAX_LINE_BYTES:
        return
    if len(text) > MAX_BYTES:
        message = f"it has more than {MAX_BYTES} bytes"
        raise LimitExceeded(message, limit=MAX_BYTES, actual=len(text))
    ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    longest = int(np.diff(ends, prepend=-1).max()) - 1
    if longest > MAX_LINE_BYTES:
        raise line_too_long(longest)


def _packed(text: bytes, version: int) -> bytes:
    """The text as gzip, or as it is where it shrinks so much that a reader would take it for a bomb."""
    data = compress_bytes(text)
    if len(text) <= RATIO_FROM_BYTES or len(text) < len(data) * (MAX_RATIO // 10):
        return data
    try:
        for _ in expand(data, lambda reason: corrupt(version, None, reason)):
            pass
    except LimitExceeded:
        return text
    return data


def _refused(version: int, root_url: str, reason: str, path: object = None) -> InvalidArgument:
    message = f"the commit of version {version} is refused before anything is written: {reason}"
    return InvalidArgument(message, version=version, url=root_url, reason=reason, path=path)
