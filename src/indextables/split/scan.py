"""All rows of a split, or those of some ranges, that a predicate keeps and no vector deletes, batch by batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.ambient import Ambient
from indextables.errors import InvalidArgument
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.split import dv
from indextables.split.pages_fetch import index_array
from indextables.split.reader import SplitReader, column_places, without_columns

__all__ = ["count_rows", "scan"]

_FETCH_SHARE = 64
"""Below one row in so many the other columns are fetched by page."""

_SMALL_GROUP = 32 << 20
"""Compressed bytes of a row group up to which two are begun at a time."""

_Mask = npt.NDArray[np.bool_]


class _Group(NamedTuple):
    number: int
    start: int
    num_rows: int


def scan(
    reader: SplitReader,
    columns: Sequence[str] | None = None,
    *,
    where: Node | None = None,
    row_ranges: Sequence[tuple[int, int]] | None = None,
    row_numbers: str | None = None,
    batch_rows: int = 131_072,
    ambient: Ambient | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches in row order, none of them empty.

    `row_ranges` are ascending [start, stop). `row_numbers` names an int64 column to add with each row's number. With an
    `ambient`, the next row groups are read and decoded in its threads while one is taken: whoever runs in one of these
    threads gives none. Rows that the split's vector deletes are left out.

    Raises SplitCorrupt, DvCorrupt, InvalidArgument, QueryInvalid, StoreError.
    """
    ref = reader.ref
    alive = dv.alive_mask(ref.vector, reader.num_rows, reader.key) if ref.vector is not None else None
    kept = _kept_ranges(row_ranges, reader.num_rows)
    schema = reader.footer.schema
    output = column_places(schema, columns)
    tested = column_places(schema, columns_of(where)) if where is not None else []
    groups = [g for g in _groups(reader) if _touched(g, kept)]
    late = where is not None and bool(set(output) - set(tested))
    first = tested if late else sorted({*output, *tested})
    for group, table in _read_ahead(reader, groups, first, ambient):
        mask = _mask(group, alive, kept)
        if where is not None:
            passed = evaluate(where, table).to_numpy(zero_copy_only=False)
            true = np.equal(passed, True) if passed.dtype == object else passed.astype(bool)  # noqa: FBT003 - a value
            mask = true if mask is None else mask & true
        found = _select(reader, group, table, mask, schema, output, late=late)
        if found is None:
            continue
        rows, numbers = found
        if row_numbers is not None:
            rows = rows.append_column(row_numbers, index_array(numbers))
        yield from _batches(rows, batch_rows)


def count_rows(reader: SplitReader) -> int:
    """The number of rows that are there: those of the split less those its vector deletes."""
    vector = reader.ref.vector
    deleted = len(dv.decode(vector, reader.num_rows, reader.key)) if vector is not None else 0
    return reader.num_rows - deleted


def _select(
    reader: SplitReader,
    group: _Group,
    table: pa.Table,
    mask: _Mask | None,
    schema: pa.Schema,
    output: list[int],
    *,
    late: bool,
) -> tuple[pa.Table, npt.NDArray[np.int64]] | None:
    """The output columns of the rows that are kept, and their numbers; None if there are none."""
    everything = mask is None or bool(mask.all())
    local = np.arange(group.num_rows) if everything or mask is None else np.flatnonzero(mask)
    if not len(local):
        return None
    numbers = local + group.start
    names = [schema.names[c] for c in output]
    if not names:
        return without_columns(len(local)), numbers
    if late:
        if len(local) * _FETCH_SHARE <= group.num_rows and reader.pages is not None:
            return reader.fetch(numbers, names), numbers
        table = reader.read_groups([group.number], output)
    rows = table.select(names)
    return (rows if everything else rows.take(index_array(local))), numbers


def _read_ahead(
    reader: SplitReader, groups: list[_Group], columns: list[int], ambient: Ambient | None
) -> Iterator[tuple[_Group, pa.Table]]:
    """Each row group with its columns; the next ones are read and decoded while this one is taken."""
    if ambient is None or len(groups) < 2:
        for group in groups:
            yield group, reader.read_groups([group.number], columns)
        return
    waiting = deque(groups)
    begun: deque[tuple[_Group, Future[pa.Table]]] = deque()
    try:
        while waiting or begun:
            while waiting and len(begun) < _ahead(reader, waiting[0], columns):
                group = waiting.popleft()
                begun.append((group, ambient.submit("splits", partial(reader.read_groups, [group.number], columns))))
            group, table = begun.popleft()
            yield group, table.result()
    finally:
        for _, table in begun:
            table.cancel()


def _ahead(reader: SplitReader, group: _Group, columns: list[int]) -> int:
    """How many row groups are begun at a time: two where they are small, so that two cores have work."""
    size = sum(end - start for start, end in reader.group_ranges([group.number], columns))
    return 2 if size <= _SMALL_GROUP else 1


def _groups(reader: SplitReader) -> list[_Group]:
    meta = reader.footer.metadata
    groups, start = [], 0
    for number in range(meta.num_row_groups):
        rows = meta.row_group(number).num_rows
        groups.append(_Group(number, start, rows))
        start += rows
    return groups


def _kept_ranges(ranges: Sequence[tuple[int, int]] | None, num_rows: int) -> list[tuple[int, int]] | None:
    if ranges is None:
        return None
    last = 0
    for start, stop in ranges:
        if not last <= start <= stop <= num_rows:
            message = f"row ranges must ascend and lie within {num_rows} rows: {start} to {stop} does not"
            raise InvalidArgument(message)
        last = stop
    return list(ranges)


def _touched(group: _Group, kept: list[tuple[int, int]] | None) -> bool:
    end = group.start + group.num_rows
    return kept is None or any(start < end and stop > group.start and start < stop for start, stop in kept)


def _mask(group: _Group, alive: _Mask | None, kept: list[tuple[int, int]] | None) -> _Mask | None:
    mask = None if alive is None else alive[group.start : group.start + group.num_rows]
    if kept is not None:
        inside = np.zeros(group.num_rows, bool)
        for start, stop in kept:
            inside[max(0, start - group.start) : max(0, stop - group.start)] = True
        mask = inside if mask is None else mask & inside
    return mask


def _batches(table: pa.Table, batch_rows: int) -> Iterator[pa.RecordBatch]:
    if table.num_columns:
        yield from table.to_batches(max_chunksize=batch_rows)
        return
    # A batch without columns still counts its rows.
    for start in range(0, table.num_rows, batch_rows):
        rows = min(batch_rows, table.num_rows - start)
        yield pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))
