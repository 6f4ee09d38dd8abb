"""Reads lines of text: each is one row, in the column `message` or in those of a pattern."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.cli.input.aside import BadRecords
from indextables.cli.input.blocks import is_blank
from indextables.cli.input.fitting import from_texts
from indextables.cli.input.patterns import JSON_INSIDE, Pattern
from indextables.cli.input.reasons import NOT_UTF8

__all__ = ["MESSAGE", "PREFIX", "lines_of", "read_text", "sample_of"]

MESSAGE = "message"
PREFIX = "prefix"
"""The column of what stands before the JSON object of a line."""

_ReadJson = Callable[[bytes, pa.Schema, int], list[pa.RecordBatch]]


def lines_of(data: bytes) -> pa.Array:
    """The lines that are not blank, without their ends. Raises BadRecords for those that are not UTF-8."""
    bytes_of = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(bytes_of == ord("\n"))
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    # A line begins behind the end of the one before, and ends before its own.
    offsets = np.concatenate([[0], ends + 1]).astype(np.int32)
    raw = pa.BinaryArray.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data + b"\n")])
    try:
        lines = raw.cast(pa.string())
    except pa.ArrowInvalid:
        filled = [line for line in raw.to_pylist() if not is_blank(line)]
        bad = [place for place, line in enumerate(filled) if not _is_utf8(line)]
        raise BadRecords(bad, f"it is {NOT_UTF8}") from None
    lines = pc.utf8_rtrim(lines, "\r\n")
    # What `is_blank` says, for all of them: places of bad lines are counted by either.
    return lines.filter(pc.not_equal(pc.ascii_trim_whitespace(lines), ""))


def read_text(
    data: bytes, schema: pa.Schema, name: str, rows_before: int, pattern: Pattern | None, read_json: _ReadJson
) -> list[pa.RecordBatch]:
    """The rows of some whole lines. Raises BadRecords, SchemaMismatch, and what `read_json` raises."""
    lines = lines_of(data)
    if pattern is None:
        return [from_texts(pa.RecordBatch.from_arrays([lines], [MESSAGE]), schema, name, rows_before)]
    columns = _matched(lines, pattern)
    if pattern.name != JSON_INSIDE:
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        return [from_texts(batch, schema, name, rows_before)]
    if PREFIX not in (name.lower() for name in schema.names):
        bad = pc.indices_nonzero(pc.not_equal(columns[PREFIX], "")).to_pylist()
        if bad:
            raise BadRecords(bad, f"there is text before its JSON object, and the table has no column {PREFIX}")
    inside = pa.schema([field for field in schema if field.name.lower() != PREFIX])
    batches = read_json("\n".join(columns["object"].to_pylist()).encode(), inside, rows_before)
    found = pa.Table.from_batches(batches, inside).combine_chunks()
    if found.num_rows != len(lines):
        places = list(range(len(lines))) if len(lines) == 1 else []
        if places:
            raise BadRecords(places, "it holds more than one JSON object")
        raise pa.ArrowInvalid("a line holds more than one JSON object")
    parts = [
        columns[PREFIX].cast(field.type) if field.name.lower() == PREFIX else found[field.name].combine_chunks()
        for field in schema
    ]
    return list(pa.Table.from_arrays(parts, schema=schema).to_batches())


def sample_of(head: bytes, pattern: Pattern | None) -> tuple[pa.Table, int]:
    """The columns of texts that the lines of a sample have, of those that the pattern matches; and how many lines."""
    try:
        lines = lines_of(head)
    except BadRecords:
        lines = lines_of(head.decode("utf-8", "replace").encode())
    if pattern is None:
        return pa.table({MESSAGE: lines}), len(lines)
    columns, unmatched = pattern.columns(lines)
    return pa.table(columns).filter(pc.invert(unmatched)), len(lines)


def _matched(lines: pa.Array, pattern: Pattern) -> dict[str, pa.Array]:
    columns, unmatched = pattern.columns(lines)
    bad = pc.indices_nonzero(unmatched).to_pylist()
    if bad:
        what = (
            "there is no JSON object at its end" if pattern.name == JSON_INSIDE else f"{pattern.name} does not match it"
        )
        raise BadRecords(bad, what)
    return columns


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
