"""Reads one split by ranges: its footer, its index directory, and rows by number.

With the offsets of the log nothing has to be looked up: the footer is one read, rows are one `get_ranges`. What comes
from the store is checked before native code sees it (offsets against the file, checksums of footer and pages), and
what native code raises becomes SplitCorrupt that names the part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.errors import InvalidArgument, SplitCorrupt, StoreError
from indextables.process import Lock
from indextables.split.file import layout, thrift
from indextables.split.file.columns import View
from indextables.split.file.fetch import assemble, index_array, plan_fetch
from indextables.split.file.groups import (
    RangesFile,
    chunk_ranges,
    decode_groups,
    decode_pieces,
    without_columns,
)
from indextables.split.file.kept import MOST_ROWS, KeptPages, fetch_kept
from indextables.split.file.layout import Directory, SplitKey
from indextables.split.file.page_map import Pages, decode_pages
from indextables.split.file.ref import SplitRef
from indextables.split.file.row_ids import place_of_ids, visible
from indextables.storage.store import Store

__all__ = ["Footer", "SplitReader", "footer_range", "parse_footer", "resolve"]

_MAGIC = b"PAR1"
_FRAME = 8
"""Bytes behind the footer: its length and the magic bytes."""
_TAIL_GUESS = 64 << 10
_DIRECTORY_GUESS = 16 << 10
_MAX_FOOTER = 512 << 20
_READ_AT_ONCE = 16 << 20


class Footer(msgspec.Struct, frozen=True):
    """A parsed, verified footer. `key` is None for a Parquet file that is not ours.

    `rows_end` is where row data ends at the latest: no column chunk reaches beyond it.
    """

    metadata: pq.FileMetaData
    schema: pa.Schema
    key: SplitKey | None
    rows_end: int
    leaf_columns: list[int]
    """For each leaf, in file order, the place of its top-level column."""
    chunks: list[list[tuple[int, int]]]
    """For each row group and leaf the bytes [start, end) of its column chunk, all within the rows of the file."""
    raw_bytes: list[list[int]]
    """For each of them how long it is said to be before compression: a hint, which nothing may rely on."""


def resolve(store: Store, ref: SplitRef) -> SplitRef:
    """`ref` with all offsets and the split's id, read from the end of the file where offsets are missing.

    Raises SplitCorrupt if the file has no Parquet footer, ObjectNotFound, StoreError.
    """
    return ref if ref.has_offsets else _resolve(store, ref)[0]


class SplitReader:
    """One split of a store. Footer and page map are read when first needed and kept; safe for threads.

    1. Row numbers are those of the file: deleted rows keep theirs.
    2. `fetch` returns exactly the rows asked for, in the order asked, deleted or not; `scan` leaves deleted rows out.
    3. Raises SplitCorrupt for bytes that are not what was written, another split's included; never fewer rows.
    4. Columns have the names of the table, as `ref.columns` tells; those that are none of the table's are not there.
       `footer` and `pages` are as the file has them.
    """

    def __init__(
        self,
        store: Store,
        ref: SplitRef,
        *,
        directory: Directory | None = None,
        pages_stored: bytes | memoryview | None = None,
        kept: tuple[KeptPages, str] | None = None,
    ) -> None:
        """`directory`, and the stored bytes of its component `pages`, spare their reads where a search has them.

        `kept` is where decoded pages are kept, and the name that this split has there.
        """
        self.store = store
        self._ref = ref
        self._directory = directory
        self._pages_stored = pages_stored
        self._kept = kept
        self._pages: Pages | None = None
        self._no_pages: str | None = None
        self._footer: Footer | None = None
        self._view: View | None = None
        self._lock = Lock(again=True)

    def stored_footer(self) -> bytes:
        """The bytes of the footer, as they are in the store now. Raises SplitCorrupt, ObjectNotFound, StoreError."""
        return read_ranges(self.store, self.key, [footer_range(self.ref)], "footer")[0]

    def take_footer(self, stored: bytes) -> None:
        """Use a footer that `stored_footer` gave. Raises SplitCorrupt."""
        parsed = parse_footer(stored, self.ref)
        with self._lock:
            self._footer = parsed

    def again(self, store: Store, vector: bytes | None) -> SplitReader:
        """The same split through `store`, with this vector; footer and page map come along as far as they are known."""
        with self._lock:
            ref = msgspec.structs.replace(self.ref, vector=vector)
            other = SplitReader(store, ref, directory=self._directory, pages_stored=self._pages_stored, kept=self._kept)
            known = self._pages, self._no_pages, self._footer, self._view
        other._pages, other._no_pages, other._footer, other._view = known
        return other

    @property
    def key(self) -> str:
        return self._ref.key

    @property
    def ref(self) -> SplitRef:
        """The reference, with all offsets."""
        with self._lock:
            if not self._ref.has_offsets:
                self._ref, self._footer = _resolve(self.store, self._ref)
            return self._ref

    @property
    def num_rows(self) -> int:
        """Rows in the file, deleted ones included."""
        return self.ref.num_rows or 0

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return visible(self.all_columns)

    @property
    def all_columns(self) -> pa.Schema:
        """The columns of the rows, the ids that rows brought along included. Places of columns are places in it."""
        view = self.view
        return self._stored_schema if view is None else view.schema

    @property
    def view(self) -> View | None:
        """How the columns of the table stand in the file; None: as they are."""
        columns = self._ref.columns
        if columns is None:
            return None
        with self._lock:
            if self._view is None:
                self._view = columns.view(self._stored_schema)
            return self._view

    @property
    def _stored_schema(self) -> pa.Schema:
        return self._pages.schema if self._pages is not None else self.footer.schema

    @property
    def has_row_ids(self) -> bool:
        """True if rows brought their ids along: then there is a column `ROW_ID`, which is given where it is named."""
        if self._footer is None:
            # Who has the page map needs no footer.
            _ = self.pages
        return place_of_ids(self._stored_schema) is not None

    def called(self, stored: str) -> str | None:
        """What the table calls a column of the file; None if it is none of the table's."""
        columns = self._ref.columns
        return stored if columns is None else columns.name(stored)

    @property
    def footer(self) -> Footer:
        """The Parquet footer; one ranged read the first time."""
        with self._lock:
            ref = self.ref
            if self._footer is None:
                self._footer = parse_footer(self.stored_footer(), ref)
            return self._footer

    @property
    def directory(self) -> Directory | None:
        """What the index section holds; None if the file has none. Raises SplitCorrupt."""
        with self._lock:
            if self._directory is None and self.ref.range1_length:
                self._directory = self._read_directory()
            return self._directory

    @property
    def pages(self) -> Pages | None:
        """The page map; None if there is none or it is damaged (`pages_problem` says why)."""
        with self._lock:
            if self._pages is None and self._no_pages is None:
                self._load_pages()
            return self._pages

    @property
    def pages_problem(self) -> str | None:
        """Why rows are read by row group instead of by page; None if they are not."""
        return self._no_pages

    def fetch(self, rows: Sequence[int] | npt.NDArray[np.int64], columns: Sequence[str] | None = None) -> pa.Table:
        """These rows, in this order, of these columns (all by default): one `get_ranges` call.

        Raises InvalidArgument for a row or column that the split does not have.
        """
        wanted = np.asarray(rows, np.int64)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= self.num_rows):
            worst = int(wanted.min() if wanted.min() < 0 else wanted.max())
            raise InvalidArgument(f"{self.key} has {self.num_rows} rows: there is no row {worst}", path=self.key)
        _ = self.pages
        schema = self.all_columns
        places = column_places(schema, columns)
        if not len(wanted) or not places:
            return (
                pa.schema([schema.field(p) for p in places]).empty_table() if places else without_columns(len(wanted))
            )
        view = self.view
        if view is None:
            return self._fetch(wanted, places)
        stored = view.stored(places)
        return view.of_table(self._fetch(wanted, stored) if stored else without_columns(len(wanted)), places)

    def _fetch(self, wanted: npt.NDArray[np.int64], places: list[int]) -> pa.Table:
        """These rows of the columns at these places of the file."""
        pages = self.pages
        if pages is None:
            return self._fetch_groups(wanted, places)
        if self._kept is not None and len(wanted) <= MOST_ROWS:
            kept, owner = self._kept
            return fetch_kept(pages, kept, owner, wanted, places, self._rows)
        plan = plan_fetch(pages, wanted, places)
        return assemble(pages, plan, self._rows(plan.ranges))

    def read_groups(self, groups: Sequence[int], columns: Sequence[int]) -> pa.Table:
        """All rows of these row groups, in file order. The columns are places in `all_columns`."""
        view = self.view
        if view is None:
            return self._read_groups(groups, columns)
        return view.of_table(self._read_groups(groups, view.stored(columns)), columns)

    def _read_groups(self, groups: Sequence[int], columns: Sequence[int]) -> pa.Table:
        """The same by places in the file."""
        footer = self.footer
        if not columns:
            return without_columns(sum(footer.metadata.row_group(g).num_rows for g in groups))
        return decode_groups(footer, groups, columns, self._rows_of(groups, columns), self.key)

    def read_pieces(self, group: int, columns: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The same of one row group and one column at least, some rows at a time.

        A large row group of a local file is read as it is decoded: memory for all of it would cost more than reading.
        """
        view = self.view
        stored = columns if view is None else view.stored(columns)
        if view is not None and not stored:
            yield from self.read_groups([group], columns).to_batches()
            return
        source = self._rows_of([group], stored, lazily=True)
        for batch in decode_pieces(self.footer, group, stored, source, self.key):
            yield batch if view is None else view.of_batch(batch, columns)

    def _rows_of(self, groups: Sequence[int], columns: Sequence[int], *, lazily: bool = False) -> RangesFile:
        ranges = chunk_ranges(self.footer, groups, columns)
        lazy = lazily and self.store.is_local and sum(end - start for start, end in ranges) > _READ_AT_ONCE
        return RangesFile(ranges, self._rows, lazy=lazy)

    def _rows(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return read_ranges(self.store, self.key, ranges, "rows")

    def _fetch_groups(self, rows: npt.NDArray[np.int64], columns: list[int]) -> pa.Table:
        meta = self.footer.metadata
        starts = np.cumsum([0, *(meta.row_group(i).num_rows for i in range(meta.num_row_groups))])
        group_of = np.searchsorted(starts, rows, side="right") - 1
        touched = np.unique(group_of)
        table = self._read_groups(touched.tolist(), columns)
        sizes = np.diff(starts)[touched]
        before = np.cumsum(sizes) - sizes
        local = rows - starts[group_of] + before[np.searchsorted(touched, group_of)]
        return table.take(index_array(local))

    def _read_directory(self) -> Directory:
        ref = self.ref
        start, length = ref.index_start or 0, ref.range1_length or 0
        data = read_ranges(self.store, ref.key, [(start, start + min(length, _DIRECTORY_GUESS))], "index")[0]
        needed = layout.directory_length(data[: layout.HEADER_BYTES], ref.key)
        if needed > length:
            reason = "the index directory is longer than the first range"
            raise SplitCorrupt(f"{ref.key}: {reason}", path=ref.key, part="index", reason=reason)
        if needed > len(data):
            data += read_ranges(self.store, ref.key, [(start + len(data), start + needed)], "index")[0]
        return self._checked(layout.decode_directory(data, ref.key, section_length=(ref.footer_start or 0) - start))

    def _checked(self, directory: Directory) -> Directory:
        layout.check_id(directory.id, self.ref.id, self.key, "index")
        if directory.num_rows != self.num_rows:
            reason = f"the index has {directory.num_rows} documents, the split {self.num_rows} rows"
            raise SplitCorrupt(f"{self.key}: {reason}; reindex it", path=self.key, part="index", reason=reason)
        return directory

    def _load_pages(self) -> None:
        try:
            directory = self.directory
            component = directory.component(layout.PAGES) if directory is not None else None
            if component is None:
                self._no_pages = "the split has no page map"
                return
            start = (self.ref.index_start or 0) + component.offset
            stored = self._pages_stored
            if stored is None:
                stored = read_ranges(self.store, self.key, [(start, start + component.length)], "pages")[0]
            raw = layout.unpack(component, stored, self.key)
            pages = decode_pages(raw, self.key, self.ref.index_start or 0)
            if pages.num_rows != self.num_rows:
                self._no_pages = f"the page map has {pages.num_rows} rows, the split {self.num_rows}"
                return
            self._pages = pages
        except SplitCorrupt as error:
            # The rows are there without the map; only the way to them is longer.
            self._no_pages = str(error)


def read_ranges(store: Store, key: str, ranges: Sequence[tuple[int, int]], part: str) -> list[bytes]:
    """One `get_ranges` call. Raises SplitCorrupt where the object ends before a range does."""
    if any(not 0 <= start < end for start, end in ranges):
        raise _corrupt(key, part, f"its offsets are impossible: {list(ranges)[:3]}")
    try:
        return store.get_ranges(key, ranges)
    except StoreError as error:
        if type(error) is not StoreError or store.head(key).size >= max(end for _, end in ranges):
            raise
        raise _corrupt(key, part, f"the file is shorter than its offsets say: {error}") from error


def column_places(schema: pa.Schema, columns: Sequence[str] | None) -> list[int]:
    """The places of these columns, matched in any case. Raises InvalidArgument for one that is not there."""
    if columns is None:
        return list(range(len(visible(schema))))
    by_name = {name.lower(): place for place, name in enumerate(schema.names)}
    missing = [c for c in columns if c.lower() not in by_name]
    if missing:
        message = f"there is no column {', '.join(missing)}: the split has {', '.join(schema.names)}"
        raise InvalidArgument(message, columns=missing)
    return [by_name[c.lower()] for c in columns]


def _resolve(store: Store, ref: SplitRef) -> tuple[SplitRef, Footer]:
    size = ref.size if ref.size is not None else store.head(ref.key).size
    if size < 12:
        raise _corrupt(ref.key, "footer", f"{size} bytes are no Parquet file")
    data = read_ranges(store, ref.key, [(max(0, size - _TAIL_GUESS), size)], "footer")[0]
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != _MAGIC:
        raise _corrupt(ref.key, "footer", "the file does not end with PAR1")
    if length > min(size - 12, _MAX_FOOTER):
        raise _corrupt(ref.key, "footer", f"the footer claims {length} of {size} bytes")
    end = size - 8
    start = end - length
    if length + 8 > len(data):
        data = read_ranges(store, ref.key, [(start, size)], "footer")[0]
    known = msgspec.structs.replace(ref, size=size, footer_start=start, footer_end=end)
    footer = parse_footer(data[-8 - length :], known)
    index = footer.key.index if footer.key is not None else None
    found = msgspec.structs.replace(
        known,
        num_rows=footer.metadata.num_rows,
        index_start=index.start if index is not None else start,
        range1_length=index.range1 if index is not None else 0,
        id=footer.key.id if footer.key is not None else ref.id,
    )
    return found, footer


def footer_range(ref: SplitRef) -> tuple[int, int]:
    """The bytes that `parse_footer` takes: the footer with its length and magic bytes, to the end of the file."""
    return ref.footer_start or 0, (ref.footer_end or 0) + _FRAME


def parse_footer(framed_footer: bytes, ref: SplitRef) -> Footer:
    """The footer of the split that `ref` names, which has its offsets. Raises SplitCorrupt for any other."""
    start, data = ref.footer_start or 0, framed_footer[:-_FRAME]
    if framed_footer[-_FRAME:] != len(data).to_bytes(4, "little") + _MAGIC:
        raise _corrupt(ref.key, "footer", "the file does not end where the log says")
    if ref.size is not None and ref.footer_end is not None and ref.size != ref.footer_end + _FRAME:
        raise _corrupt(
            ref.key, "footer", f"the log says that it has {ref.size} bytes and ends at {ref.footer_end + _FRAME}"
        )
    framed = _MAGIC + framed_footer
    try:
        with pq.ParquetFile(pa.BufferReader(framed), arrow_extensions_enabled=False) as file:
            meta, schema = file.metadata, file.schema_arrow
        value = (meta.metadata or {}).get(layout.KEY)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _corrupt(ref.key, "footer", f"the Parquet footer cannot be read: {error}") from error
    key = None if value is None else layout.decode_key(value, ref.key)
    if key is not None and value is not None:
        layout.verify_footer(data, value, key, ref.key)
    layout.check_id(key.id if key is not None else None, ref.id, ref.key, "footer")
    rows_end = start
    if key is not None and key.index is not None:
        rows_end = key.index.start
        if key.index.start + key.index.length != start:
            raise _corrupt(ref.key, "footer", "the index section does not end where the footer begins")
        if ref.index_start not in (None, key.index.start) or ref.range1_length not in (None, key.index.range1):
            raise _corrupt(ref.key, "footer", "the log names another index section than the footer")
    groups = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    if any(rows < 0 for rows in groups):
        raise _corrupt(ref.key, "footer", "a row group has a negative number of rows")
    claimed = {meta.num_rows, sum(groups)} | ({ref.num_rows} if ref.num_rows is not None else set())
    claimed |= {key.rows} if key is not None else set()
    if len(claimed) > 1:
        raise _corrupt(ref.key, "footer", f"log, footer and split disagree on the number of rows: {sorted(claimed)}")
    leaf_columns = [place for place, field in enumerate(schema) for _ in range(_leaf_count(field.type))]
    chunks, raw_bytes = _chunks(data, len(leaf_columns), rows_end, ref.key)
    return Footer(
        metadata=meta,
        schema=schema.remove_metadata(),
        key=key,
        rows_end=rows_end,
        leaf_columns=leaf_columns,
        chunks=chunks,
        raw_bytes=raw_bytes,
    )


def _chunks(
    footer: bytes, leaves: int, rows_end: int, path: str
) -> tuple[list[list[tuple[int, int]]], list[list[int]]]:
    """Where the column chunks are, and their lengths before compression, from the Thrift itself.

    pyarrow's view of a column chunk is not asked: a footer that lies in its histograms ends the process there.
    """
    try:
        groups = thrift.decode_struct(footer)[0][4].value.items
        found, raw = [], []
        for group in groups:
            metas = [chunk[3].value for chunk in group[1].value.items]
            starts = [_start_of(m) for m in metas]
            found.append([(start, start + m[7].value) for start, m in zip(starts, metas, strict=True)])
            raw.append([int(m[6].value) for m in metas])
            outside = [place for place in found[-1] if not 4 <= place[0] <= place[1] <= rows_end]
            if outside:
                raise _corrupt(path, "footer", f"a column chunk lies at {outside[0]}, outside the rows")
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise _corrupt(path, "footer", f"the Parquet footer describes no column chunks: {error!r}") from error
    for number, chunks in enumerate(found):
        if len(chunks) != leaves:
            raise _corrupt(path, "footer", f"row group {number} has {len(chunks)} chunks for {leaves} leaves")
    return found, raw


def _start_of(meta: Any) -> int:
    """Where a column chunk begins: at its dictionary, if it has one, else at its first page.

    Arrow gives a chunk without values a dictionary, and 0 for the page that it does not have.
    """
    places = [int(meta[field].value) for field in (9, 11) if field in meta]
    return min((place for place in places if place > 0), default=0)


def _leaf_count(kind: pa.DataType) -> int:
    """How many Parquet leaves a column of this type has."""
    if pa.types.is_struct(kind):
        return sum(_leaf_count(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _leaf_count(kind.key_type) + _leaf_count(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _leaf_count(kind.value_type)
    return 1


def _corrupt(path: str, part: str, reason: str) -> SplitCorrupt:
    message = f"{path}: {reason}; restore the file, or drop it from the table"
    return SplitCorrupt(message, path=path, part=part, reason=reason)
