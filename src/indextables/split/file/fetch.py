"""Fetches rows by page: pyarrow reads the pages that hold them, behind a small footer that describes just these."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.errors import SplitCorrupt
from indextables.split.file import thrift
from indextables.split.file.layout import crc32c
from indextables.split.file.page_map import Pages, Units
from indextables.split.file.thrift import Field, ThriftList, ThriftStruct

__all__ = ["Fetch", "Part", "assemble", "decode_part", "distinct", "index_array", "part_of", "plan_fetch", "ranges_of"]

_Ints = npt.NDArray[np.int64]
_MAGIC = b"PAR1"
_MERGE_GAP = 8 << 10
_THREADS_ABOVE = 1 << 15


class Part(NamedTuple):
    """Columns that have their pages at the same rows, and some of these pages: one buffer, one small footer."""

    columns: list[int]
    units: Units
    picked: _Ints
    """The numbers of the units taken, ascending."""
    first_rows: _Ints
    """Where each of them begins among the rows of the buffer, and at the end the number of rows."""
    coded: bool
    """Some column has dictionary pages, of which a column chunk can hold one only."""

    @property
    def num_rows(self) -> int:
        return int(self.first_rows[-1])


class Fetch(NamedTuple):
    """What to read for some rows, and how to make a table of it: `ranges` first, then `assemble`."""

    ranges: list[tuple[int, int]]
    parts: list[Part]
    taken: list[_Ints]
    """For each part and wanted row, ascending, its place among the rows of the buffer."""
    order: _Ints
    """For each row asked for, its place among the wanted rows, ascending."""
    columns: list[int]


def distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The values, ascending, each once. As np.unique, which imports masked arrays and costs a first search 10 ms."""
    ordered = np.sort(values)
    return ordered[:1] if len(ordered) < 2 else ordered[np.concatenate([_TRUE, ordered[1:] != ordered[:-1]])]


def distinct_places(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The values, ascending, each once, and the place of every value among them."""
    found = distinct(values)
    return found, np.searchsorted(found, values)


def plan_fetch(pages: Pages, rows: _Ints, columns: Sequence[int]) -> Fetch:
    """Which byte ranges hold these rows of these top-level columns (their places in the schema).

    `rows` may come in any order and repeat. Rows must lie in the split: the caller has checked.
    """
    wanted, order = distinct_places(rows)
    parts, taken = [], []
    for (units, coded), members in by_units(pages, columns):
        unit_of = np.searchsorted(units.starts, wanted, side="right") - 1
        part = part_of(members, units, distinct(unit_of), coded=coded)
        parts.append(part)
        taken.append(part.first_rows[np.searchsorted(part.picked, unit_of)] + wanted - units.starts[unit_of])
    return Fetch(ranges=ranges_of(pages, parts), parts=parts, taken=taken, order=order, columns=list(columns))


def by_units(pages: Pages, columns: Sequence[int]) -> list[tuple[tuple[Units, bool], list[int]]]:
    """The columns that can be read together: with pages at the same rows, with dictionaries or without."""
    found: dict[tuple[int, bool], list[int]] = {}
    for column in columns:
        found.setdefault((id(pages.units_of(column)), column in pages.coded), []).append(column)
    return [((pages.units_of(members[0]), coded), members) for (_, coded), members in found.items()]


def part_of(columns: list[int], units: Units, picked: _Ints, *, coded: bool) -> Part:
    """These units, ascending, of these columns."""
    sizes = units.starts[picked + 1] - units.starts[picked]
    return Part(columns, units, picked, np.concatenate([_ZERO, np.cumsum(sizes)]), coded)


def ranges_of(pages: Pages, parts: Sequence[Part]) -> list[tuple[int, int]]:
    """The byte ranges of parts, ascending, neighbours joined where the gap is not worth a call.

    The store joins wider gaps where requests cost more. Raises SplitCorrupt.
    """
    starts, lengths = [], []
    width = len(pages.leaves)
    for part in parts:
        groups = distinct(part.units.group[part.picked]) if part.coded else None
        for leaf in pages.leaves_of(part.columns):
            located = pages.leaf_units(leaf)
            starts.append(located.offsets[part.picked])
            lengths.append(located.lengths[part.picked])
            if groups is not None:
                starts.append(pages.dict_start[groups * width + leaf])
                lengths.append(pages.dict_length[groups * width + leaf])
    start, length = np.concatenate(starts), np.concatenate(lengths)
    if any(part.coded for part in parts):
        start, length = start[length > 0], length[length > 0]
    if not len(start):
        raise _corrupt(pages.path, "the page map has pages without any bytes")
    order = np.argsort(start)
    start = start[order]
    end = np.maximum.accumulate(start + length[order])
    cut = np.flatnonzero(start[1:] - end[:-1] > _MERGE_GAP)
    first, last = np.concatenate([_ZERO, cut + 1]), np.append(cut, len(start) - 1)
    return list(zip(start[first].tolist(), end[last].tolist(), strict=True))


def assemble(pages: Pages, fetch: Fetch, read: Sequence[bytes]) -> pa.Table:
    """The rows of a fetch in the order asked for; `read` are the bytes of `fetch.ranges`. Raises SplitCorrupt."""
    by_column: dict[int, pa.ChunkedArray] = {}
    in_order = len(fetch.order) < 2 or bool((fetch.order[1:] - fetch.order[:-1] == 1).all())
    for part, taken in zip(fetch.parts, fetch.taken, strict=True):
        table = decode_part(pages, part, fetch.ranges, read)
        picked = _take(table, taken)
        if not in_order:
            picked = picked.take(index_array(fetch.order))
        by_column |= dict(zip(part.columns, picked.columns, strict=True))
    schema = pa.schema([pages.schema.field(c) for c in fetch.columns])
    return pa.table([by_column[c] for c in fetch.columns], schema=schema)


def decode_part(
    pages: Pages, part: Part, ranges: Sequence[tuple[int, int]], read: Sequence[bytes | memoryview]
) -> pa.Table:
    """All rows of the units of a part; `read` are the bytes of `ranges`. Raises SplitCorrupt."""
    try:
        buffer = _file_of(pages, part, _Bytes(ranges, read))
    except (thrift.ThriftError, KeyError) as error:
        raise _corrupt(pages.path, f"the page map holds a schema that is none: {error}") from error
    return _read(buffer, pages, part)


def index_array(numbers: _Ints) -> pa.Array:
    """The numbers as an Arrow array; `pa.array` would import pandas for it, which costs more than many a fetch."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


_ZERO = np.zeros(1, np.int64)
_TRUE = np.ones(1, np.bool_)


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

    def __init__(self, ranges: Sequence[tuple[int, int]], read: Sequence[bytes | memoryview]) -> None:
        self._starts = np.array([start for start, _ in ranges], np.int64)
        self._views = [memoryview(data) for data in read]

    def slices(self, starts: _Ints, lengths: _Ints) -> list[memoryview]:
        """The bytes at each start."""
        places = np.searchsorted(self._starts, starts, side="right") - 1
        begins = starts - self._starts[places]
        views = self._views
        return [
            views[place][begin:end]
            for place, begin, end in zip(places.tolist(), begins.tolist(), (begins + lengths).tolist(), strict=True)
        ]


class _LeafPages(NamedTuple):
    """The pages of one leaf that a buffer gets, and what its footer says of them."""

    slices: list[memoryview]
    lengths: list[int]
    values: list[int] | None
    dictionaries: list[memoryview]
    """One per row group where the part is coded; empty where the leaf has none."""
    prefix: bytes
    """The first fields of the column's metadata: what does not depend on the pages."""


def _file_of(pages: Pages, part: Part, source: _Bytes) -> bytes:
    """The pages of a part, a row group for each of theirs if they have dictionaries, else one; and a footer."""
    groups = part.units.group[part.picked]
    cuts = np.flatnonzero(groups[1:] != groups[:-1]) + 1 if part.coded else _ZERO[:0]
    bounds = [0, *cuts.tolist(), len(groups)]
    row_bounds = part.first_rows[bounds].tolist()
    touched = groups[bounds[:-1]]
    leaves = [_leaf_pages(pages, part, leaf, touched, source) for leaf in pages.leaves_of(part.columns)]
    pieces: list[bytes | memoryview] = [_MAGIC]
    at = len(_MAGIC)
    described: list[ThriftStruct | bytes] = []
    for number, (begin, end) in enumerate(pairwise(bounds)):
        rows = row_bounds[number + 1] - row_bounds[number]
        chunks: list[ThriftStruct | bytes] = []
        group_start = at
        for leaf in leaves:
            dictionary = leaf.dictionaries[number] if part.coded else b""
            if len(dictionary):
                pieces.append(dictionary)
            pieces += leaf.slices[begin:end]
            length = len(dictionary) + sum(leaf.lengths[begin:end])
            values = rows if leaf.values is None else sum(leaf.values[begin:end])
            chunks.append(_chunk(leaf.prefix, values, length, at, len(dictionary)))
            at += length
        described.append({1: thrift.structs(chunks), 2: thrift.i64(at - group_start), 3: thrift.i64(rows)})
    footer = _footer(pages, part, described)
    pieces += [footer, len(footer).to_bytes(4, "little"), _MAGIC]
    return b"".join(pieces)


def _leaf_pages(pages: Pages, part: Part, leaf: int, groups: _Ints, source: _Bytes) -> _LeafPages:
    located = pages.leaf_units(leaf)
    lengths = located.lengths[part.picked]
    dictionaries: list[memoryview] = []
    if part.coded:
        chunks = groups * len(pages.leaves) + leaf
        has = pages.dict_length[chunks] > 0
        coded = source.slices(pages.dict_start[chunks[has]], pages.dict_length[chunks[has]])
        _check_pages(pages, coded, chunks[has] + len(pages.lengths))
        found = iter(coded)
        dictionaries = [next(found) if one else memoryview(b"") for one in has.tolist()]
    slices = source.slices(located.offsets[part.picked], lengths)
    first, last = located.first[part.picked], located.last[part.picked]
    if (first == last).all():
        _check_pages(pages, slices, first)
    else:
        _check_runs(pages, slices, first, last)
    return _LeafPages(
        slices=slices,
        lengths=lengths.tolist(),
        values=None if located.values is None else located.values[part.picked].tolist(),
        dictionaries=dictionaries,
        prefix=_chunk_prefix(pages, leaf),
    )


def _check_pages(pages: Pages, found: Sequence[memoryview], numbers: _Ints) -> None:
    """Raises SplitCorrupt for bytes that are not the pages of these numbers, but those of another file."""
    if not len(pages.checksums):
        return
    for data, said in zip(found, pages.checksums[numbers].tolist(), strict=True):
        if crc32c(data) != said:
            raise _corrupt(pages.path, "a page is not the one that was written: the file has changed")


def _check_runs(pages: Pages, found: Sequence[memoryview], first: _Ints, last: _Ints) -> None:
    """The same of slices that hold several pages each."""
    for data, begin, end in zip(found, first.tolist(), last.tolist(), strict=True):
        numbers = np.arange(begin, end + 1)
        bounds = [0, *np.cumsum(pages.lengths[numbers]).tolist()]
        _check_pages(pages, [data[start:stop] for start, stop in pairwise(bounds)], numbers)


def _chunk_prefix(pages: Pages, leaf: int) -> bytes:
    known = pages.prefixes.get(leaf)
    if known is None:
        facts = pages.leaves[leaf]
        meta: ThriftStruct = {
            1: thrift.i32(facts.type),
            2: Field(thrift.LIST, ThriftList(thrift.I32, facts.encodings)),
            3: Field(thrift.LIST, ThriftList(thrift.BINARY, [p.encode() for p in facts.path])),
            4: thrift.i32(facts.codec),
        }
        # Without the mark of the struct's end: the other fields follow.
        known = pages.prefixes[leaf] = _CHUNK_HEAD + thrift.encode_struct(meta)[:-1]
    return known


# A ColumnChunk up to the first field of its metadata: file_offset is field 2, the metadata is field 3.
_CHUNK_HEAD = bytes([2 << 4 | thrift.I64, 0, 1 << 4 | thrift.STRUCT])
_NEXT_I64 = bytes([1 << 4 | thrift.I64])
_SECOND_NEXT_I64 = bytes([2 << 4 | thrift.I64])


def _chunk(prefix: bytes, values: int, length: int, at: int, dictionary: int) -> bytes:
    """A ColumnChunk: num_values, both lengths and data_page_offset are fields 5, 6, 7 and 9, the dictionary's is 11.

    Written by hand, because a fetch of ten hits makes some thirty of them.
    """
    size = _NEXT_I64 + thrift.zigzag(length)
    places = _SECOND_NEXT_I64 + thrift.zigzag(at + dictionary)
    if dictionary:
        places += _SECOND_NEXT_I64 + thrift.zigzag(at)
    return b"".join([prefix, _NEXT_I64, thrift.zigzag(values), size, size, places, b"\0\0"])


def _footer(pages: Pages, part: Part, groups: list[ThriftStruct | bytes]) -> bytes:
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


def _read(buffer: bytes, pages: Pages, part: Part) -> pa.Table:
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
