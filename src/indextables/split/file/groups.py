"""Decodes row groups from their bytes: whole, or piece by piece for scans.

Pieces are small enough to stay in the cache of a processor, and the next ones get their memory: decoding a row group at
once costs a sixth more, most of it for memory that is touched for the first time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.errors import IndexTablesError, SplitCorrupt

if TYPE_CHECKING:
    from indextables.split.file.reader import Footer

__all__ = ["RangesFile", "chunk_ranges", "decode_groups", "decode_pieces", "piece_rows", "without_columns"]

Ranges = Sequence[tuple[int, int]]

_PIECE_BYTES = 2 << 20
_LEAST_WIDTH = 16
"""Bytes that a value counts at least in the size of a piece: in memory it is larger than its encoding."""
_BUFFER_BYTES = 1 << 20


class RangesFile(io.RawIOBase):
    """A file of which only some ranges are there; pyarrow asks for nothing else.

    `read` gives the bytes of ranges: all at once, or, where it is `lazy`, each piece when it is asked for.
    """

    def __init__(self, ranges: Ranges, read: Callable[[Ranges], Sequence[bytes]], *, lazy: bool = False) -> None:
        super().__init__()
        self.buffer_bytes = _BUFFER_BYTES if lazy else 0
        self.failure: IndexTablesError | None = None
        """What a lazy read raised: pyarrow makes an error of its own of it."""
        self._ranges = list(ranges)
        self._starts = [start for start, _ in ranges]
        self._read = read
        self._views = None if lazy else [memoryview(data) for data in read(ranges)]
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        end = self._ranges[-1][1]
        self._at = offset + (self._at if whence == io.SEEK_CUR else end if whence == io.SEEK_END else 0)
        return self._at

    def read(self, size: int = -1) -> Any:
        place = int(np.searchsorted(self._starts, self._at, side="right")) - 1
        begin, end = self._at, self._at + size
        if place < 0 or size < 0 or end > self._ranges[place][1]:
            raise OSError(f"bytes {begin} to {end} are outside the column chunks")
        self._at = end
        if self._views is None:
            return self._now(begin, end)
        # A view instead of bytes: pyarrow keeps it alive and copies nothing.
        start = self._starts[place]
        return self._views[place][begin - start : end - start]

    def _now(self, begin: int, end: int) -> bytes:
        try:
            return self._read([(begin, end)])[0] if begin < end else b""
        except IndexTablesError as error:
            self.failure = error
            raise


def chunk_ranges(footer: Footer, groups: Sequence[int], columns: Sequence[int]) -> list[tuple[int, int]]:
    """The byte ranges of the column chunks that decoding these columns reads, ascending, neighbours joined."""
    wanted = {*columns, *_namesakes(footer.schema, columns)}
    ranges = [
        chunk
        for group in groups
        for column, chunk in zip(footer.leaf_columns, footer.chunks[group], strict=True)
        if column in wanted
    ]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def decode_groups(
    footer: Footer, groups: Sequence[int], columns: Sequence[int], source: RangesFile, path: str
) -> pa.Table:
    """All rows of row groups. The columns are places in the schema, one at least. Raises SplitCorrupt."""
    names = [footer.schema.names[c] for c in columns]
    # Arrow reads a group without rows from the beginning of the file, where it says that its page is.
    groups = [group for group in groups if footer.metadata.row_group(group).num_rows]
    try:
        with _open(footer, source) as file:
            # Arrow's threads let go of the file after the rows are there: Python ends a process that ends meanwhile.
            table = file.read_row_groups(list(groups), columns=names, use_threads=False)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _corrupt(path, f"row groups {list(groups)} cannot be read: {error}") from error
    expected = sum(footer.metadata.row_group(g).num_rows for g in groups)
    if table.num_rows != expected or not set(names) <= set(table.column_names):
        raise _corrupt(path, f"row groups hold {table.num_rows} rows where {expected} belong")
    return table.select(names)


def decode_pieces(
    footer: Footer, group: int, columns: Sequence[int], source: RangesFile, path: str
) -> Iterator[pa.RecordBatch]:
    """All rows of a row group, in order, at most `piece_rows` at a time. Raises SplitCorrupt, also behind some rows."""
    names = [footer.schema.names[c] for c in columns]
    found = 0
    if not footer.metadata.row_group(group).num_rows:
        return
    try:
        with _open(footer, source) as file:
            rows = piece_rows(footer, group, columns)
            for batch in file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
                found += batch.num_rows
                yield batch.select(names)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        if source.failure is not None:
            raise source.failure from error
        raise _corrupt(path, f"row group {group} cannot be read: {error}") from error
    expected = footer.metadata.row_group(group).num_rows
    if found != expected:
        raise _corrupt(path, f"row group {group} holds {found} rows where {expected} belong")


def piece_rows(footer: Footer, group: int, columns: Sequence[int]) -> int:
    """Rows of a piece: a power of two, of about 2 MB, one at least."""
    rows = max(1, footer.metadata.row_group(group).num_rows)
    leaves = [leaf for leaf, column in enumerate(footer.leaf_columns) if column in set(columns)]
    width = sum(max(_LEAST_WIDTH, footer.raw_bytes[group][leaf] / rows) for leaf in leaves)
    return 1 << max(0, int(_PIECE_BYTES / max(1.0, width)).bit_length() - 1)


def without_columns(num_rows: int) -> pa.Table:
    """A table that has rows and no columns."""
    return pa.table({"": pa.nulls(num_rows)}).select([])


def _open(footer: Footer, source: RangesFile) -> pq.ParquetFile:
    return pq.ParquetFile(
        pa.PythonFile(source, "r"),
        metadata=footer.metadata,
        buffer_size=source.buffer_bytes,
        pre_buffer=False,
        page_checksum_verification=True,
        arrow_extensions_enabled=False,
        # Files of other systems: in nanoseconds such times reach from 1677 to 2262 only.
        coerce_int96_timestamp_unit="us",
    )


def _namesakes(schema: pa.Schema, columns: Sequence[int]) -> list[int]:
    """Nested columns that pyarrow reads too, because it takes `a.b` for a field of `a` as well as for a column."""
    dotted = [name for c in columns if "." in (name := schema.names[c])]
    return [
        place
        for place, field in enumerate(schema)
        if dotted and pa.types.is_nested(field.type) and any(name.startswith(field.name + ".") for name in dotted)
    ]


def _corrupt(path: str, reason: str) -> SplitCorrupt:
    message = f"{path}: {reason}; restore the file, or drop it from the table"
    return SplitCorrupt(message, path=path, part="rows", reason=reason)
