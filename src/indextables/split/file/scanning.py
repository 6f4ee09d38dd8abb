"""Scans a split, or ranges of it: the rows that a predicate keeps and no vector deletes, batch by batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.ambient import Ambient
from indextables.errors import InvalidArgument
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.split.file import dv
from indextables.split.file.fetch import index_array
from indextables.split.file.groups import without_columns
from indextables.split.file.reader import SplitReader, column_places
from indextables.split.file.row_ids import ROW_ID, ROW_ID_FIELD, known_ids, place_of_ids

__all__ = ["count_rows", "scan"]

_FETCH_SHARE = 64
"""Below one row in so many the other columns are fetched by page."""

_AT_A_TIME = 2
"""Row groups that are decoded at a time, the one that is taken included: as many as may lie in memory whole."""

_STEP_BYTES = 16 << 20
"""Rows that a thread decodes before it lets others run."""

_Mask = npt.NDArray[np.bool_]
_Step: TypeAlias = "Future[tuple[list[tuple[_Part, pa.Table]], _Step | None]]"


class _Part(NamedTuple):
    """A row group, or rows of it that follow each other."""

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
    row_ids: bool = False,
    batch_rows: int = 131_072,
    ambient: Ambient | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches in row order, none of them empty.

    `row_ranges` are ascending [start, stop). `row_numbers` names an int64 column to add with each row's number;
    `row_ids` adds `ROW_ID` with each row's id, null where nobody knows it. With an
    `ambient`, two row groups at a time are read and decoded in its threads: whoever runs in one of these threads gives
    none. Rows that the split's vector deletes are left out.

    Raises SplitCorrupt, DvCorrupt, InvalidArgument, QueryInvalid, StoreError.
    """
    ref = reader.ref
    alive = dv.alive_mask(ref.vector, reader.num_rows, reader.key) if ref.vector is not None else None
    kept = _kept_ranges(row_ranges, reader.num_rows)
    schema = reader.all_columns
    output = column_places(schema, columns)
    stored = place_of_ids(schema) if row_ids else None
    output += [stored] if stored is not None else []
    tested = column_places(schema, columns_of(where)) if where is not None else []
    groups = [g for g in _groups(reader) if _touched(g, kept)]
    late = where is not None and bool(set(output) - set(tested))
    first = tested if late else sorted({*output, *tested})
    for is_sparse, some in groupby(groups, lambda group: _is_sparse(reader, _mask(group, alive, kept))):
        parts: Iterator[tuple[_Part, pa.Table | None]] = iter([(group, None) for group in some])
        if not is_sparse:
            parts = _read_ahead(reader, [group for group, _ in parts], first, ambient, whole=late)
        for part, table in parts:
            mask = _mask(part, alive, kept)
            if table is None:
                found = _fetch(reader, part, mask, schema, output, tested, where)
            else:
                if where is not None:
                    mask = _true(where, table) if mask is None else mask & _true(where, table)
                found = _select(reader, part, table, mask, schema, output, late=late)
            if found is None:
                continue
            rows, local = found
            if row_ids or row_numbers is not None:
                numbers = (np.arange(part.num_rows) if local is None else local) + part.start
                rows = _with_ids(rows, numbers, ref.base_row_id) if row_ids else rows
                rows = rows if row_numbers is None else rows.append_column(row_numbers, index_array(numbers))
            yield from _batches(rows, batch_rows)


def count_rows(reader: SplitReader) -> int:
    """The number of rows that are there: those of the split less those its vector deletes."""
    vector = reader.ref.vector
    deleted = len(dv.decode(vector, reader.num_rows, reader.key)) if vector is not None else 0
    return reader.num_rows - deleted


def _with_ids(rows: pa.Table, numbers: npt.NDArray[np.int64], base: int | None) -> pa.Table:
    """The rows, of these numbers, with their ids in the last column, where those that are stored stand by now."""
    place = place_of_ids(rows.schema)
    columns = rows if place is None else rows.remove_column(place)
    return columns.append_column(ROW_ID_FIELD, known_ids(None if place is None else rows[ROW_ID], base, numbers))


def _true(where: Node, table: pa.Table) -> _Mask:
    """For which rows the predicate is true."""
    passed = evaluate(where, table).to_numpy(zero_copy_only=False)
    return np.asarray(np.equal(passed, True) if passed.dtype == object else passed, bool)  # noqa: FBT003 - a value


def _is_sparse(reader: SplitReader, mask: _Mask | None) -> bool:
    """True if so few rows of a group are left, before anybody has looked at them, that they are fetched by page."""
    if mask is None or int(np.count_nonzero(mask)) * _FETCH_SHARE > len(mask):
        return False
    return reader.pages is not None


def _fetch(
    reader: SplitReader,
    part: _Part,
    mask: _Mask | None,
    schema: pa.Schema,
    output: list[int],
    tested: list[int],
    where: Node | None,
) -> tuple[pa.Table, npt.NDArray[np.int64] | None] | None:
    """As `_select`, of a row group that was not read."""
    local = np.flatnonzero(mask) if mask is not None else np.arange(part.num_rows)
    table = reader.fetch(local + part.start, [schema.names[place] for place in sorted({*output, *tested})])
    if where is not None:
        true = _true(where, table)
        table, local = table.filter(pa.array(true)), local[true]
    if not len(local):
        return None
    return table.select([schema.names[place] for place in output]) if output else without_columns(len(local)), local


def _select(
    reader: SplitReader,
    part: _Part,
    table: pa.Table,
    mask: _Mask | None,
    schema: pa.Schema,
    output: list[int],
    *,
    late: bool,
) -> tuple[pa.Table, npt.NDArray[np.int64] | None] | None:
    """The output columns of the rows that are kept, and their places in the part (None: all); None for no rows."""
    local = None if mask is None or mask.all() else np.flatnonzero(mask)
    count = part.num_rows if local is None else len(local)
    if not count:
        return None
    names = [schema.names[c] for c in output]
    if not names:
        return without_columns(count), local
    if late:
        if local is not None and count * _FETCH_SHARE <= part.num_rows and reader.pages is not None:
            return reader.fetch(local + part.start, names), local
        table = reader.read_groups([part.number], output)
    rows = table.select(names)
    return (rows if local is None else rows.take(index_array(local))), local


def _read_ahead(
    reader: SplitReader, groups: list[_Part], columns: list[int], ambient: Ambient | None, *, whole: bool
) -> Iterator[tuple[_Part, pa.Table]]:
    """The rows of each row group with its columns, at once where they are wanted `whole`, else in parts."""
    if ambient is None or len(groups) < 2:
        for group in groups:
            yield from _decode(reader, group, columns, whole=whole)
        return
    waiting = deque(groups)
    begun: deque[_Steps] = deque()
    try:
        while waiting or begun:
            while waiting and len(begun) < _AT_A_TIME:
                begun.append(_Steps(_decode(reader, waiting.popleft(), columns, whole=whole), ambient))
            yield from begun[0].take()
            begun.popleft()
    finally:
        for steps in begun:
            steps.stop()


def _decode(reader: SplitReader, group: _Part, columns: list[int], *, whole: bool) -> Iterator[tuple[_Part, pa.Table]]:
    if whole or not columns:
        yield group, reader.read_groups([group.number], columns)
        return
    start = group.start
    for batch in reader.read_pieces(group.number, columns):
        yield _Part(group.number, start, batch.num_rows), pa.Table.from_batches([batch])
        start += batch.num_rows


class _Steps:
    """A row group that threads decode step by step. None of them ever waits for whoever takes the rows."""

    def __init__(self, parts: Iterator[tuple[_Part, pa.Table]], ambient: Ambient) -> None:
        self._parts = parts
        self._ambient = ambient
        self._stopped = False
        self._first = self._submit()

    def take(self) -> Iterator[tuple[_Part, pa.Table]]:
        """All parts, in order. Raises what decoding raised."""
        step: _Step | None = self._first
        while step is not None:
            found, step = step.result()
            found.reverse()
            while found:
                # Given up here, so that its memory is free for the next ones as soon as it is taken.
                yield found.pop()

    def stop(self) -> None:
        """Nobody takes the rest: a step that is running ends after its part."""
        self._stopped = True
        self._first.cancel()

    def _submit(self) -> _Step:
        return self._ambient.submit("splits", self._run)

    def _run(self) -> tuple[list[tuple[_Part, pa.Table]], _Step | None]:
        found: list[tuple[_Part, pa.Table]] = []
        size = 0
        while not self._stopped:
            part = next(self._parts, None)
            if part is None:
                return found, None
            found.append(part)
            size += part[1].nbytes
            if size >= _STEP_BYTES:
                return found, self._submit()
        return found, None


def _groups(reader: SplitReader) -> list[_Part]:
    meta = reader.footer.metadata
    groups, start = [], 0
    for number in range(meta.num_row_groups):
        rows = meta.row_group(number).num_rows
        groups.append(_Part(number, start, rows))
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


def _touched(group: _Part, kept: list[tuple[int, int]] | None) -> bool:
    end = group.start + group.num_rows
    return kept is None or any(start < end and stop > group.start and start < stop for start, stop in kept)


def _mask(group: _Part, alive: _Mask | None, kept: list[tuple[int, int]] | None) -> _Mask | None:
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
