"""Rows by page: the pages that hold them, behind a small footer that describes just these, read by pyarrow."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.errors import SplitCorrupt
from indextables.split import thrift
from indextables.split.pages import Pages
from indextables.split.thrift import Field, ThriftList, ThriftStruct

__all__ = ["Fetch", "assemble", "index_array", "plan_fetch"]

_Ints = npt.NDArray[np.int64]
_MAGIC = b"PAR1"
_MERGE_GAP = 8 << 10
_THREADS_ABOVE = 1 << 15


class _Part(NamedTuple):
    """Columns that share page boundaries in every group touched: one buffer, one small footer."""

    columns: list[int]
    pages: list[tuple[int, _Ints | None]]
    """Per group touched: its number, and which pages are taken (None: all of them)."""
    taken: _Ints
    """For each wanted row, ascending, its place among the rows of the buffer."""
    num_rows: int
    coded: bool
    """Some column has dictionary pages, of which a column chunk can hold one only."""


class Fetch(NamedTuple):
    """What to read for some rows, and how to make a table of it: `ranges` first, then `assemble`."""

    ranges: list[tuple[int, int]]
    parts: list[_Part]
    order: _Ints
    """For each row asked for, its place among the wanted rows, ascending."""
    columns: list[int]


def distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The values, ascending, each once. As np.unique, which imports masked arrays and costs a first search 10 ms."""
    ordered = np.sort(values)
    return ordered[:1] if len(ordered) < 2 else np.concatenate([ordered[:1], ordered[1:][np.diff(ordered) != 0]])


def plan_fetch(pages: Pages, rows: _Ints, columns: Sequence[int]) -> Fetch:
    """Which byte ranges hold these rows of these top-level columns (their places in the schema).

    `rows` may come in any order and repeat. Rows must lie in the split: the caller has checked.
    """
    wanted, order = np.unique(rows, return_inverse=True)
    groups = np.searchsorted(pages.group_start, wanted, side="right") - 1
    touched = distinct(groups)
    by_signature: dict[tuple[int, ...], list[int]] = {}
    for column in columns:
        by_signature.setdefault(_signature(pages, column, touched), []).append(column)
    parts = [
        _plan_part(pages, signature, members, touched, wanted, groups) for signature, members in by_signature.items()
    ]
    ranges = sorted(r for part in parts for r in _part_ranges(pages, part))
    return Fetch(ranges=_merge(ranges), parts=parts, order=order, columns=list(columns))


def assemble(pages: Pages, fetch: Fetch, read: Sequence[bytes]) -> pa.Table:
    """The rows of a fetch in the order asked for; `read` are the bytes of `fetch.ranges`. Raises SplitCorrupt."""
    source = _Bytes(fetch.ranges, read)
    by_column: dict[int, pa.ChunkedArray] = {}
    in_order = bool((np.diff(fetch.order) == 1).all())
    for part in fetch.parts:
        try:
            table = _read_part(pages, part, source)
        except (thrift.ThriftError, KeyError) as error:
            raise _corrupt(pages.path, f"the page map holds a schema that is none: {error}") from error
        picked = _take(table, part.taken)
        if not in_order:
            picked = picked.take(index_array(fetch.order))
        by_column |= dict(zip(part.columns, picked.columns, strict=True))
    schema = pa.schema([pages.schema.field(c) for c in fetch.columns])
    return pa.table([by_column[c] for c in fetch.columns], schema=schema)


def index_array(numbers: _Ints) -> pa.Array:
    """The numbers as an Arrow array; `pa.array` would import pandas for it, which costs more than many a fetch."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _take(table: pa.Table, rows: _Ints) -> pa.Table:
    """These rows, ascending; batch by batch, because taking from many chunks at once joins them first."""
    found, start = [], 0
    for batch in table.to_batches():
        first, last = np.searchsorted(rows, [start, start + batch.num_rows])
        if first < last:
            found.append(batch.take(index_array(rows[first:last] - start)))
        start += batch.num_rows
    return pa.Table.from_batches(found, schema=table.schema)


class _Bytes:
    """Slices of what was read, by file offset."""

    def __init__(self, ranges: Sequence[tuple[int, int]], read: Sequence[bytes]) -> None:
        self._starts = np.array([start for start, _ in ranges], np.int64)
        self._views = [memoryview(data) for data in read]

    def slice(self, start: int, end: int) -> memoryview:
        place = int(np.searchsorted(self._starts, start, side="right")) - 1
        at = start - int(self._starts[place])
        return self._views[place][at : at + end - start]


def _signature(pages: Pages, column: int, touched: _Ints) -> tuple[int, ...]:
    """The classes of page boundaries of a column in the groups touched, -1 where its leaves disagree.

    The last number says whether it has a dictionary: without one, pages of several groups make one column chunk.
    """
    leaves = pages.leaves_of([column])
    width = len(pages.leaves)
    result = []
    coded = 0
    for group in touched.tolist():
        classes = {int(pages.chunk_class[group * width + leaf]) for leaf in leaves}
        result.append(classes.pop() if len(classes) == 1 else -1)
        coded |= any(pages.dict_length[group * width + leaf] for leaf in leaves)
    return (*result, int(coded))


def _plan_part(
    pages: Pages, signature: tuple[int, ...], columns: list[int], touched: _Ints, wanted: _Ints, groups: _Ints
) -> _Part:
    taken: list[_Ints] = []
    chosen: list[tuple[int, _Ints | None]] = []
    before = 0
    for number, group in zip(signature[:-1], touched.tolist(), strict=True):
        local = wanted[groups == group] - pages.group_start[group]
        group_rows = int(pages.group_rows[group])
        picked: _Ints | None = None
        if number >= 0:
            first = pages.class_rows(number)
            page_of = np.searchsorted(first, local, side="right") - 1
            picked = distinct(page_of)
            if len(picked) * 2 >= len(first):
                picked = None
        if picked is None:
            taken.append(local + before)
            before += group_rows
        else:
            sizes = np.diff(np.append(first, group_rows))[picked]
            starts = np.concatenate([[0], np.cumsum(sizes)])
            place = np.searchsorted(picked, page_of)
            taken.append(starts[place] + local - first[page_of] + before)
            before += int(starts[-1])
        chosen.append((group, picked))
    rows = np.concatenate(taken) if taken else np.empty(0, np.int64)
    return _Part(columns=columns, pages=chosen, taken=rows, num_rows=before, coded=bool(signature[-1]))


def _part_ranges(pages: Pages, part: _Part) -> list[tuple[int, int]]:
    ranges = []
    width = len(pages.leaves)
    for leaf in pages.leaves_of(part.columns):
        for group, picked in part.pages:
            chunk = group * width + leaf
            if pages.dict_length[chunk]:
                start = int(pages.dict_start[chunk])
                ranges.append((start, start + int(pages.dict_length[chunk])))
            ranges.extend(_page_ranges(pages, chunk, picked))
    return ranges


def _page_ranges(pages: Pages, chunk: int, picked: _Ints | None) -> list[tuple[int, int]]:
    begin, end = int(pages.page_start[chunk]), int(pages.page_start[chunk + 1])
    if picked is None:
        return [(int(pages.offsets[begin]), int(pages.offsets[end - 1] + pages.lengths[end - 1]))]
    starts = pages.offsets[begin + picked]
    return list(zip(starts.tolist(), (starts + pages.lengths[begin + picked]).tolist(), strict=True))


def _merge(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours joined where the gap is not worth a call; the store joins wider gaps where requests cost more."""
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and start - merged[-1][1] <= _MERGE_GAP:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _read_part(pages: Pages, part: _Part, source: _Bytes) -> pa.Table:
    pieces: list[bytes | memoryview] = [_MAGIC]
    at = len(_MAGIC)
    groups: list[ThriftStruct | bytes] = []
    width = len(pages.leaves)
    leaves = pages.leaves_of(part.columns)
    for members in [[one] for one in part.pages] if part.coded else [part.pages]:
        rows = sum(_rows_taken(pages, group, leaves[0], picked) for group, picked in members)
        chunks: list[ThriftStruct | bytes] = []
        group_start = at
        for leaf in leaves:
            begin = at
            dict_at = None
            values = 0
            if part.coded:
                chunk = members[0][0] * width + leaf
                start, length = int(pages.dict_start[chunk]), int(pages.dict_length[chunk])
                if length:
                    pieces.append(source.slice(start, start + length))
                    dict_at, at = at, at + length
            data_at = at
            for group, picked in members:
                for start, end in _page_ranges(pages, group * width + leaf, picked):
                    pieces.append(source.slice(start, end))
                    at += end - start
                values += _values_taken(pages, group * width + leaf, leaf, picked)
            chunks.append(_chunk(pages, leaf, values or rows, at - begin, data_at, dict_at))
        groups.append({1: thrift.structs(chunks), 2: thrift.i64(at - group_start), 3: thrift.i64(rows)})
    footer = _footer(pages, part, groups)
    pieces += [footer, len(footer).to_bytes(4, "little"), _MAGIC]
    return _read(b"".join(pieces), pages, part)


def _rows_taken(pages: Pages, group: int, leaf: int, picked: _Ints | None) -> int:
    rows = int(pages.group_rows[group])
    if picked is None:
        return rows
    first = pages.class_rows(int(pages.chunk_class[group * len(pages.leaves) + leaf]))
    return int(np.diff(np.append(first, rows))[picked].sum())


def _values_taken(pages: Pages, chunk: int, leaf: int, picked: _Ints | None) -> int:
    """Values of a repeated leaf; 0 for others, which have as many as rows."""
    if not pages.leaves[leaf].repeated:
        return 0
    held = pages.page_values(chunk)
    return int(held.sum() if picked is None else held[picked].sum())


def _chunk(pages: Pages, leaf: int, values: int, length: int, data_at: int, dict_at: int | None) -> bytes:
    facts = pages.leaves[leaf]
    meta: ThriftStruct = {
        1: thrift.i32(facts.type),
        2: Field(thrift.LIST, ThriftList(thrift.I32, facts.encodings)),
        3: Field(thrift.LIST, ThriftList(thrift.BINARY, [p.encode() for p in facts.path])),
        4: thrift.i32(facts.codec),
        5: thrift.i64(values),
        6: thrift.i64(length),
        7: thrift.i64(length),
        9: thrift.i64(data_at),
    }
    if dict_at is not None:
        meta[11] = thrift.i64(dict_at)
    return thrift.encode_struct({2: thrift.i64(0), 3: Field(thrift.STRUCT, meta)})


def _footer(pages: Pages, part: _Part, groups: list[ThriftStruct | bytes]) -> bytes:
    columns = tuple(sorted(part.columns))
    if columns not in pages.heads:
        pages.heads[columns] = _head(pages, columns)
    elements, schema = pages.heads[columns]
    meta: ThriftStruct = {
        1: thrift.i32(2),
        2: thrift.structs(elements),
        3: thrift.i64(part.num_rows),
        4: thrift.structs(groups),
        5: thrift.structs([schema]),
    }
    return thrift.encode_struct(meta)


def _head(pages: Pages, columns: tuple[int, ...]) -> tuple[list[bytes], bytes]:
    """The schema elements of these columns, and the key-value pair with their Arrow schema, both as Thrift."""
    wire = pages.wire
    root, _ = thrift.decode_struct(wire.elements[0])
    root[5] = thrift.i32(len(columns))
    elements = [thrift.encode_struct(root)]
    for column in columns:
        own = wire.elements[wire.column_elements[column] : wire.column_elements[column + 1]]
        elements += [thrift.encode_struct(thrift.decode_struct(e)[0]) for e in own]
    schema = pa.schema([pages.schema.field(c) for c in columns]).serialize().to_pybytes()
    pair = {1: thrift.text("ARROW:schema"), 2: thrift.text(base64.b64encode(schema))}
    return elements, thrift.encode_struct(pair)


def _read(buffer: bytes, pages: Pages, part: _Part) -> pa.Table:
    try:
        file = pq.ParquetFile(pa.BufferReader(buffer), page_checksum_verification=True, pre_buffer=False)
        # Threads cost more than they give for a few pages.
        table = file.read(use_threads=part.num_rows > _THREADS_ABOVE)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _corrupt(pages.path, f"pages cannot be read: {error}") from error
    if table.num_rows != part.num_rows or table.num_columns != len(part.columns):
        raise _corrupt(pages.path, f"pages hold {table.num_rows} rows where {part.num_rows} belong")
    by_place = {column: i for i, column in enumerate(sorted(part.columns))}
    return table.select([by_place[c] for c in part.columns])


def _corrupt(path: str, reason: str) -> SplitCorrupt:
    return SplitCorrupt(f"{path}: {reason}; restore the file or drop it from the table", path=path, part="rows")
