"""Where is each page of each column? The map that makes rows reachable without reading their row group.

The writer copies the page locations of a finished Parquet file into the index section (component `pages`); `fetch`
in `pages_fetch` takes them from there. The map also carries what a small footer needs: the schema elements, the Arrow
schema and the encodings, so that the Parquet footer need not be read at all.

    PageMap -> MessagePack; integer arrays are little-endian bytes, so that decoding makes no object per page
"""

from __future__ import annotations

import base64
import itertools
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.errors import SplitCorrupt
from indextables.split.file import thrift
from indextables.split.file.layout import crc32c
from indextables.split.file.thrift import ThriftStruct

__all__ = ["Leaf", "LeafUnits", "PageMap", "Pages", "Units", "build_page_map", "decode_pages"]

_MAX_GROUPS = 1 << 20
_Ints = npt.NDArray[np.int64]


class Leaf(msgspec.Struct, frozen=True, array_like=True):
    """A leaf column of the Parquet schema; `column` is the place of the top-level column it belongs to.

    `elements` is where its top-level column begins and ends among the schema elements. A `repeated` leaf has another
    number of values than of rows.
    """

    path: list[str]
    column: int
    type: int
    codec: int
    encodings: list[int]
    repeated: bool


class PageMap(msgspec.Struct, frozen=True):
    """The wire form. Chunks are ordered by row group, then by leaf.

    `first_rows` holds the distinct lists of first rows, one after the other (`classes` are their lengths);
    `chunk_class` says which list a chunk has. `lengths` are the stored lengths of all data pages, header included,
    chunk after chunk; a chunk's pages lie one behind the other from `chunk_start`. `values` has the number of values
    of each page of the repeated leaves' chunks. `checksums` has the CRC-32C of each data page, header included, in the
    order of `lengths`, then that of each chunk's dictionary page (0: none): pages of another file do not fit.
    """

    elements: list[bytes]
    column_elements: list[int]
    arrow_schema: bytes
    leaves: list[Leaf]
    group_rows: list[int]
    classes: list[int]
    first_rows: bytes
    chunk_class: bytes
    chunk_start: bytes
    dict_start: bytes
    dict_length: bytes
    lengths: bytes
    values: bytes
    checksums: bytes = b""


class Units(NamedTuple):
    """The smallest pieces of some columns that can be read alone, over the whole file: a page of each of their leaves.

    In a row group where the leaves of a column have pages at different rows the piece is the whole group.
    """

    starts: _Ints
    """The first row of each unit, and at the end the number of rows of the split."""
    group: _Ints
    """The row group of each unit."""
    whole: tuple[bool, ...]
    """For each row group whether it is one unit."""


class LeafUnits(NamedTuple):
    """Where each unit of a leaf lies in the file, and how many values it has (None: as many as rows).

    `first` and `last` are the numbers of its first and last page.
    """

    offsets: _Ints
    lengths: _Ints
    values: _Ints | None
    first: _Ints
    last: _Ints


class Pages:
    """A `PageMap` made ready to be asked. Every offset in it lies inside the rows of the file.

    `chunk(g, l)` numbers are `g * len(leaves) + l`. Arrays: `page_start[c] .. page_start[c+1]` are the pages of chunk c
    in `lengths` and `offsets`.
    """

    def __init__(self, wire: PageMap, path: str, rows_end: int) -> None:
        """Raises SplitCorrupt if the map contradicts itself or points outside `[4, rows_end)`."""
        self.wire = wire
        self.leaves = wire.leaves
        self.path = path
        groups, leaves = len(wire.group_rows), len(wire.leaves)
        if not leaves or groups > _MAX_GROUPS or any(not 0 < n < 1 << 31 for n in wire.group_rows):
            raise _corrupt(path, "the row groups of the page map are impossible")
        self.group_rows = np.array(wire.group_rows, np.int64)
        self.group_start = np.concatenate([[0], np.cumsum(self.group_rows)])
        chunks = groups * leaves
        self.chunk_class = _ints(wire.chunk_class, "<u4", chunks, path)
        self.chunk_start = _ints(wire.chunk_start, "<u8", chunks, path)
        self.dict_start = _ints(wire.dict_start, "<u8", chunks, path)
        self.dict_length = _ints(wire.dict_length, "<u4", chunks, path)
        self._classes(path)
        counts = self.class_counts[self.chunk_class]
        self.page_start = np.concatenate([[0], np.cumsum(counts)])
        self.lengths = _ints(wire.lengths, "<u4", int(self.page_start[-1]), path)
        self.offsets = self._offsets(counts)
        self._values(counts, path)
        told = int(self.page_start[-1]) + chunks if wire.checksums else 0
        self.checksums = _ints(wire.checksums, "<u4", told, path)
        """Of every page, then of every chunk's dictionary; empty in splits that were written without them."""
        self._check_bounds(counts, rows_end, path)
        self.schema = _arrow_schema(wire, path)
        self.heads: dict[tuple[int, ...], tuple[list[bytes], bytes]] = {}
        """Schema elements and Arrow schema for a footer of these columns; filled by the fetches."""
        self.prefixes: dict[int, bytes] = {}
        """What a small footer says of a leaf whatever its pages are; filled by the fetches."""
        self._units: dict[int, Units] = {}
        self._units_by_classes: dict[tuple[int, ...], Units] = {}
        self._leaf_units: dict[int, LeafUnits] = {}
        coded = np.flatnonzero(self.dict_length.reshape(groups, leaves).any(axis=0))
        self.coded = frozenset(self.leaves[leaf].column for leaf in coded.tolist())
        """The columns that have a dictionary somewhere."""

    @property
    def num_rows(self) -> int:
        """Rows of the split."""
        return int(self.group_start[-1])

    def class_rows(self, number: int) -> _Ints:
        """The first rows, counted from the start of the group, of a class of page boundaries."""
        rows: _Ints = self._first_rows[self._class_start[number] : self._class_start[number + 1]]
        return rows

    def units_of(self, column: int) -> Units:
        """The units of a top-level column: the same object for columns that have their pages at the same rows."""
        known = self._units.get(column)
        if known is None:
            leaves = self.leaves_of([column])
            table = self.chunk_class.reshape(len(self.group_rows), len(self.leaves))[:, leaves]
            same = (table == table[:, :1]).all(axis=1)
            classes = tuple(np.where(same, table[:, 0], -1).tolist())
            known = self._units_by_classes.get(classes)
            if known is None:
                known = self._units_by_classes[classes] = self._make_units(classes)
            self._units[column] = known
        return known

    def leaf_units(self, leaf: int) -> LeafUnits:
        """Where the units of a leaf lie; they are those of its column."""
        known = self._leaf_units.get(leaf)
        if known is None:
            known = self._leaf_units[leaf] = self._make_leaf_units(leaf)
        return known

    def _make_units(self, classes: tuple[int, ...]) -> Units:
        firsts = [
            start + (self.class_rows(number) if number >= 0 else np.zeros(1, np.int64))
            for number, start in zip(classes, self.group_start.tolist(), strict=False)
        ]
        starts = np.concatenate([*firsts, [self.num_rows]]).astype(np.int64)
        group = np.repeat(np.arange(len(classes)), [len(first) for first in firsts])
        return Units(starts, group, tuple(number < 0 for number in classes))

    def _make_leaf_units(self, leaf: int) -> LeafUnits:
        whole = self.units_of(self.leaves[leaf].column).whole
        begins, ends, held = [], [], []
        for group, one in enumerate(whole):
            chunk = group * len(self.leaves) + leaf
            first, last = int(self.page_start[chunk]), int(self.page_start[chunk + 1])
            begins.append(np.array([first]) if one else np.arange(first, last))
            ends.append(np.array([last - 1]) if one else begins[-1])
            if self.leaves[leaf].repeated:
                values = self.values[self._value_start[chunk] : self._value_start[chunk + 1]]
                held.append(np.array([values.sum()]) if one else values)
        begin, end = np.concatenate(begins), np.concatenate(ends)
        lengths = self.offsets[end] + self.lengths[end] - self.offsets[begin]
        return LeafUnits(self.offsets[begin], lengths, np.concatenate(held) if held else None, begin, end)

    def leaves_of(self, columns: list[int]) -> list[int]:
        """The leaves of these top-level columns, in file order."""
        wanted = set(columns)
        return [i for i, leaf in enumerate(self.leaves) if leaf.column in wanted]

    def _classes(self, path: str) -> None:
        self.class_counts = np.array(self.wire.classes, np.int64)
        if len(self.class_counts) == 0 or self.class_counts.min() < 1 or self.class_counts.max() > 1 << 31:
            raise _corrupt(path, "the page boundaries of the page map are impossible")
        self._class_start = np.concatenate([[0], np.cumsum(self.class_counts)])
        self._first_rows = _ints(self.wire.first_rows, "<u4", int(self._class_start[-1]), path)
        if len(self.chunk_class) and self.chunk_class.max() >= len(self.class_counts):
            raise _corrupt(path, "the page map names page boundaries that it does not have")
        steps = np.diff(self._first_rows)
        inner = np.ones(len(steps), bool)
        inner[self._class_start[1:-1] - 1] = False
        starts = self._first_rows[self._class_start[:-1]]
        if (steps[inner] <= 0).any() or starts.any():
            raise _corrupt(path, "the page boundaries of the page map are not ascending")
        last = self._first_rows[self._class_start[1:] - 1]
        group_of = np.repeat(np.arange(len(self.group_rows)), len(self.leaves))
        if (last[self.chunk_class] >= self.group_rows[group_of]).any():
            raise _corrupt(path, "the page map has pages behind the end of their row group")

    def _offsets(self, counts: _Ints) -> _Ints:
        ends = np.cumsum(self.lengths)
        before = np.concatenate([[0], ends])[self.page_start[:-1]]
        offsets: _Ints = ends - self.lengths - np.repeat(before, counts) + np.repeat(self.chunk_start, counts)
        return offsets

    def _values(self, counts: _Ints, path: str) -> None:
        repeated = np.tile(np.array([leaf.repeated for leaf in self.leaves]), len(self.group_rows))
        held = np.where(repeated, counts, 0)
        self._value_start = np.concatenate([[0], np.cumsum(held)])
        self.values = _ints(self.wire.values, "<u4", int(self._value_start[-1]), path)

    def _check_bounds(self, counts: _Ints, rows_end: int, path: str) -> None:
        # A length is below 2^32 and so is a count, so that the sums below cannot leave 64 bits before the check.
        chunk_bytes = np.add.reduceat(self.lengths, self.page_start[:-1]) if len(counts) else counts
        ends = self.chunk_start + chunk_bytes
        has_dict = self.dict_length > 0
        dict_ends = self.dict_start + self.dict_length
        if (
            (self.chunk_start < 4).any()
            or (ends > rows_end).any()
            or (has_dict & ((self.dict_start < 4) | (dict_ends > rows_end))).any()
        ):
            raise _corrupt(path, "the page map points outside the rows of the file")


def build_page_map(
    meta: ThriftStruct, page_index: bytes, page_index_start: int, file: bytes | memoryview
) -> PageMap | None:
    """The map of a finished Parquet file; None if its layout is one that the map cannot express.

    `meta` is what the footer says, `page_index` the bytes from `page_index_start` up to it; `file` gives access to page
    headers by offset (a memory map serves). Raises ThriftError for bytes that are not Parquet.
    """
    elements = meta[2].value.items
    leaves, column_elements = _leaves(elements, meta[4].value.items)
    builder = _Builder()
    for group in meta[4].value.items:
        for leaf, chunk in zip(leaves, group[1].value.items, strict=True):
            if 4 not in chunk or not builder.add(leaf, chunk, page_index, page_index_start, file):
                return None
    keys = {kv[1].value: kv[2].value for kv in meta[5].value.items} if 5 in meta else {}
    return PageMap(
        elements=[thrift.encode_struct(e) for e in elements],
        column_elements=column_elements,
        arrow_schema=base64.b64decode(keys[b"ARROW:schema"]),
        leaves=leaves,
        group_rows=[g[3].value for g in meta[4].value.items],
        classes=[len(c) for c in builder.classes],
        first_rows=np.array([row for c in builder.classes for row in c], "<u4").tobytes(),
        chunk_class=np.array(builder.chunk_class, "<u4").tobytes(),
        chunk_start=np.array(builder.chunk_start, "<u8").tobytes(),
        dict_start=np.array(builder.dict_start, "<u8").tobytes(),
        dict_length=np.array(builder.dict_length, "<u4").tobytes(),
        lengths=np.array(builder.lengths, "<u4").tobytes(),
        values=np.array(builder.values, "<u4").tobytes(),
        checksums=np.array([*builder.checksums, *builder.dict_checksums], "<u4").tobytes(),
    )


def decode_pages(raw: bytes | memoryview, path: str, rows_end: int) -> Pages:
    """The map from the raw bytes of the component `pages`. Raises SplitCorrupt."""
    try:
        wire = _PAGE_MAP.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _corrupt(path, f"the page map cannot be read: {error}") from error
    return Pages(wire, path, rows_end)


class _Builder:
    """Gathers chunks in file order."""

    def __init__(self) -> None:
        self.classes: dict[tuple[int, ...], int] = {}
        self.chunk_class: list[int] = []
        self.chunk_start: list[int] = []
        self.dict_start: list[int] = []
        self.dict_length: list[int] = []
        self.lengths: list[int] = []
        self.values: list[int] = []
        self.checksums: list[int] = []
        self.dict_checksums: list[int] = []

    def add(self, leaf: Leaf, chunk: ThriftStruct, index: bytes, index_start: int, file: bytes | memoryview) -> bool:
        located, _ = thrift.decode_struct(index, chunk[4].value - index_start)
        pages = [(p[1].value, p[2].value, p[3].value) for p in located[1].value.items]
        if not pages or any(a[0] + a[1] != b[0] for a, b in itertools.pairwise(pages)):
            return False
        meta = chunk[3].value
        first = tuple(p[2] for p in pages)
        self.chunk_class.append(self.classes.setdefault(first, len(self.classes)))
        self.chunk_start.append(pages[0][0])
        dict_start = meta[11].value if 11 in meta else 0
        self.dict_start.append(dict_start)
        self.dict_length.append(pages[0][0] - dict_start if dict_start else 0)
        self.lengths.extend(p[1] for p in pages)
        view = memoryview(file)
        self.checksums.extend(crc32c(view[offset : offset + length]) for offset, length, _ in pages)
        self.dict_checksums.append(crc32c(view[dict_start : pages[0][0]]) if dict_start else 0)
        if leaf.repeated:
            self.values.extend(_page_values(file, offset, length) for offset, length, _ in pages)
        return True


def _page_values(file: bytes | memoryview, offset: int, length: int) -> int:
    """The number of values that a data page's header tells, for either version of data pages."""
    header, _ = thrift.decode_struct(bytes(file[offset : offset + min(length, 4096)]))
    return int(header[5 if 5 in header else 8].value[1].value)


def _leaves(elements: list[ThriftStruct], groups: list[ThriftStruct]) -> tuple[list[Leaf], list[int]]:
    """The leaves, and for each top-level column where it begins among the elements (plus where the last ends)."""
    starts: list[int] = []
    leaves: list[tuple[int, bool]] = []
    place = 1
    for column in range(elements[0][5].value):
        starts.append(place)
        place = _walk(elements, place, column, repeated=False, leaves=leaves)
    starts.append(place)
    if not groups:
        return [], starts
    found = []
    for (column, repeated), chunk in zip(leaves, groups[0][1].value.items, strict=True):
        meta = chunk[3].value
        found.append(
            Leaf(
                path=[p.decode() for p in meta[3].value.items],
                column=column,
                type=meta[1].value,
                codec=meta[4].value,
                encodings=list(meta[2].value.items),
                repeated=repeated,
            )
        )
    return found, starts


def _walk(
    elements: list[ThriftStruct], place: int, column: int, *, repeated: bool, leaves: list[tuple[int, bool]]
) -> int:
    """Visit the element at `place` and all below it; returns the place behind them."""
    element = elements[place]
    repeated = repeated or (3 in element and element[3].value == 2)
    children = element[5].value if 5 in element else 0
    place += 1
    if not children:
        leaves.append((column, repeated))
    for _ in range(children):
        place = _walk(elements, place, column, repeated=repeated, leaves=leaves)
    return place


def _ints(data: bytes, form: str, count: int, path: str) -> _Ints:
    if len(data) != count * np.dtype(form).itemsize:
        raise _corrupt(path, f"an array of the page map has {len(data)} bytes where {count} numbers belong")
    values = np.frombuffer(data, form)
    if len(values) and int(values.max()) >= 1 << 62:
        raise _corrupt(path, "a number of the page map is out of range")
    return values.astype(np.int64)


def _arrow_schema(wire: PageMap, path: str) -> pa.Schema:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(wire.arrow_schema))
    except (OSError, ValueError) as error:  # pyarrow's own errors derive from these
        raise _corrupt(path, f"the schema in the page map cannot be read: {error}") from error
    columns = wire.column_elements
    ascending = all(a < b for a, b in itertools.pairwise(columns))
    if len(columns) != len(schema) + 1 or columns[0] != 1 or columns[-1] != len(wire.elements) or not ascending:
        raise _corrupt(path, "the columns of the page map do not agree with its schema")
    if [leaf.column for leaf in wire.leaves] != sorted(leaf.column for leaf in wire.leaves) or {
        leaf.column for leaf in wire.leaves
    } != set(range(len(schema))):
        raise _corrupt(path, "the leaves of the page map do not agree with its schema")
    return schema


def _corrupt(path: str, reason: str) -> SplitCorrupt:
    message = f"{path}: {reason}; rows are still reachable by row group, reindex rebuilds the index section"
    return SplitCorrupt(message, path=path, part="pages", reason=reason)


# Made on import: msgspec publishes what it knows of a Struct before it is complete, and a second thread that decodes
# one for the first time reads a null pointer.
_PAGE_MAP = msgspec.msgpack.Decoder(PageMap)
