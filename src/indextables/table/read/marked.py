"""Marks rows with what searches say about them: the exact answer to a search anywhere in a statement.

SQL of one process and tasks of a cluster read through `marked_batches`, so that they cannot disagree. Whether a row
matches does not depend on other splits: who searches some of them needs to know no more than those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.query.expr import Node
from indextables.split.query import Plan, boolean
from indextables.split.search import Hits, Ints, SplitSearcher, TermStats
from indextables.table.read.plan import still_there
from indextables.table.read.scan import scan_split

__all__ = ["Mark", "MarkedRows", "lengths_only", "mark_plan", "marked_batches", "required_plan"]

_FIRST_ROWS = 256
"""Rows fetched at first, because a statement may have a limit; then four times as many, up to `_BATCH_ROWS`."""

_BATCH_ROWS = 65_536


class Mark(msgspec.Struct, frozen=True):
    """One search: the column `name` is true where `query` matches; `column` is its default field, None for all."""

    name: str
    column: str | None
    query: str


class MarkedRows(msgspec.Struct, frozen=True, tag="marked"):
    """What is asked for: `columns`, a boolean for each search of `marked`, the score of the first required search.

    Only rows that all searches of `required` match are wanted.
    """

    columns: tuple[str, ...]
    required: tuple[Mark, ...] = ()
    marked: tuple[Mark, ...] = ()
    score: bool = False


def mark_plan(searcher: SplitSearcher, mark: Mark) -> Plan:
    """What a search asks for, without a look at any split. Raises QueryInvalid with the position, LimitExceeded."""
    return searcher.plan(mark.query, default_fields=None if mark.column is None else [mark.column])


def required_plan(searcher: SplitSearcher, asked: MarkedRows) -> Plan:
    """What all required searches ask for together. Raises QueryInvalid with the position, LimitExceeded."""
    plans = tuple(mark_plan(searcher, mark) for mark in asked.required)
    return plans[0] if len(plans) == 1 else boolean(must=plans)


def marked_batches(
    searcher: SplitSearcher,
    asked: MarkedRows,
    version: int,
    *,
    where: Node | None = None,
    keys: AbstractSet[str] | None = None,
    stats: TermStats | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of the searcher's splits, split by split: columns in the types of the table, then marks, then the score.

    Rows in which `where` does not hold are left out if any search is required, and may come or not if none is; so may
    rows of splits whose key is not among `keys`. `stats` are those of a larger collection that the splits are part of.
    No columns at all means batches that only have a length. Raises QueryInvalid, SplitCorrupt, VersionExpired where a
    file of `version` is gone, StoreError.
    """
    with still_there(searcher.env, version):
        marks = [_by_split(searcher.matches(mark_plan(searcher, mark)).hits) for mark in asked.marked]
        if asked.required:
            yield from _matching(searcher, asked, marks, where, stats)
        else:
            yield from _every_row(searcher, asked, marks, version, keys)


def lengths_only(rows: int) -> pa.RecordBatch:
    """A batch that has rows and no columns."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def _matching(
    searcher: SplitSearcher,
    asked: MarkedRows,
    marks: Sequence[dict[int, Hits]],
    where: Node | None,
    stats: TermStats | None,
) -> Iterator[pa.RecordBatch]:
    """Only the rows that match, fetched by number."""
    others: list[dict[int, Hits]] = []
    if asked.score:
        # Only the first search makes the scores.
        plan = mark_plan(searcher, asked.required[0])
        hits = searcher.search(plan, where=where, limit=None, stats=stats).hits.in_place()
        others = [_by_split(searcher.matches(mark_plan(searcher, mark)).hits) for mark in asked.required[1:]]
    else:
        hits = searcher.matches(required_plan(searcher, asked), where=where).hits
    step = _FIRST_ROWS
    for place, first in _by_split(hits).items():
        rows = first.rows
        for other in others:
            rows = np.intersect1d(rows, _rows_in(other, place))
        start = 0
        while start < len(rows):
            part = rows[start : start + step]
            start += step
            step = min(step * 4, _BATCH_ROWS)
            flags = [_flags(np.isin(part, _rows_in(mark, place), assume_unique=True)) for mark in marks]
            if asked.score:
                flags.append(_scores(first, part))
            yield _batch(asked, _fetched(searcher, place, part, asked.columns), flags, len(part))


def _every_row(
    searcher: SplitSearcher,
    asked: MarkedRows,
    marks: Sequence[dict[int, Hits]],
    version: int,
    keys: AbstractSet[str] | None,
) -> Iterator[pa.RecordBatch]:
    """Every row that is not deleted, with what each search says about it."""
    names = asked.columns or tuple(searcher.schema.names[:1])
    for place, state in enumerate(searcher.states):
        if keys is not None and state.ref.key not in keys:
            continue
        hit = np.zeros((len(marks), state.num_rows), dtype=bool)
        for number, mark in enumerate(marks):
            hit[number, _rows_in(mark, place)] = True
        if state.alive is not None:
            hit = hit[:, state.alive]
        start = 0
        for batch in scan_split(searcher.env, searcher.schema, state.ref, names, None, version):
            flags = [_flags(row[start : start + batch.num_rows]) for row in hit]
            start += batch.num_rows
            yield _batch(asked, batch.columns if asked.columns else [], flags, batch.num_rows)


def _by_split(hits: Hits) -> dict[int, Hits]:
    """The hits of each split, which stand together."""
    edges = [0, *(np.flatnonzero(np.diff(hits.splits)) + 1).tolist(), len(hits)]
    return {
        int(hits.splits[start]): Hits(hits.splits[start:end], hits.rows[start:end], hits.scores[start:end])
        for start, end in pairwise(edges)
        if start < end
    }


def _rows_in(found: dict[int, Hits], place: int) -> Ints:
    hits = found.get(place)
    return np.zeros(0, np.int64) if hits is None else hits.rows


def _fetched(searcher: SplitSearcher, place: int, rows: Ints, columns: Sequence[str]) -> list[pa.Array]:
    if not columns:
        return []
    table = searcher.states[place].fetch(rows, columns)
    return [
        column.combine_chunks().cast(searcher.schema.field(name).type)
        for name, column in zip(columns, table.columns, strict=True)
    ]


def _flags(values: npt.NDArray[np.bool_]) -> pa.Array:
    # Not pa.array: that would import pandas.
    packed = pa.py_buffer(np.packbits(values, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, packed])


def _scores(first: Hits, rows: Ints) -> pa.Array:
    """The scores of some of the hits of one split."""
    scores = first.scores[np.searchsorted(first.rows, rows)].astype(np.float64)
    return pa.Array.from_buffers(pa.float64(), len(rows), [None, pa.py_buffer(scores)])


def _batch(asked: MarkedRows, columns: list[pa.Array], more: list[pa.Array], rows: int) -> pa.RecordBatch:
    arrays = [*columns, *more]
    names = [*asked.columns, *(mark.name for mark in asked.marked), *(["_score"] if asked.score else [])]
    return pa.RecordBatch.from_arrays(arrays, names=names) if arrays else lengths_only(rows)
