"""Snapshots as sources of SQL: scans where no search is asked for, row sets of the index where one is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CommandSyntaxError, InvalidArgument, LimitExceeded, NotSupported, QueryInvalid
from indextables.log.read import Snapshot
from indextables.query.expr import Node
from indextables.split.query import Plan
from indextables.split.search import Ints, SplitSearcher
from indextables.sql.command import parse_command
from indextables.sql.local.engine import run
from indextables.sql.textsearch import Search
from indextables.table.read import (
    Searchers,
    check_rows_readable,
    live_rows,
    plain_schema,
    prune_files,
    scan_split,
    scan_table,
)

__all__ = ["SnapshotSource", "select"]

OWN_NAME = "t"
_FIRST_ROWS = 256
"""Rows fetched at first, because a statement may have a limit; then four times as many, up to `_BATCH_ROWS`."""

_BATCH_ROWS = 65_536


def select(
    text: str,
    own: SnapshotSource,
    others: Mapping[str, SnapshotSource],
    *,
    params: Mapping[str, object] | None = None,
    options: opt.Options,
) -> pa.Table:
    """The answer to a SELECT over pinned snapshots: `own` is called t, each of the others by its name.

    Raises InvalidArgument for a name given twice, NotSupported for a command, and what `engine.run`
    raises.
    """
    named = {OWN_NAME: own}
    for name, source in others.items():
        if name.lower() in named:
            raise InvalidArgument(f"two tables are called {name!r} (the table itself is {OWN_NAME})", name=name)
        named[name.lower()] = source
    try:
        return run(text, named, params=params, memory_limit=options[opt.SQL_MEMORY_LIMIT])
    except QueryInvalid as fault:
        if not _is_command(text):
            raise
        message = (
            "this is a command, and sql() of a table answers queries: call the method of that name, or run the text "
            f"with LocalSession({{{OWN_NAME!r}: path}}).run() of indextables.sql.local, or with `indextables sql`"
        )
        raise NotSupported(message, query=text) from fault


class SnapshotSource:
    """One snapshot. `searchers` are asked for one only if the statement searches."""

    def __init__(self, env: Env, snapshot: Snapshot, searchers: Searchers) -> None:
        self._env = env
        self._snapshot = snapshot
        self._searchers = searchers

    @property
    def schema(self) -> pa.Schema:
        return plain_schema(self._snapshot.schema, self._snapshot.schema.names)

    def batches(
        self,
        columns: tuple[str, ...],
        where: Node | None,
        required: tuple[Search, ...],
        marked: tuple[Search, ...],
        limit: int | None,
        *,
        scored: bool,
    ) -> Iterator[pa.RecordBatch]:
        check_rows_readable(self._snapshot, self._env.store.url)
        if scored:
            return self._scored(columns, where, required[0])
        if required:
            return self._matching(columns, where, required, marked)
        if marked:
            return self._marked(columns, where, marked)
        if not columns and where is None:
            counted = live_rows(self._snapshot.files)
            if counted is not None:
                return iter([_lengths_only(counted)])
        return iter(scan_table(self._env, self._snapshot, columns, where, limit))

    def _matching(
        self, columns: tuple[str, ...], where: Node | None, required: tuple[Search, ...], marked: tuple[Search, ...]
    ) -> Iterator[pa.RecordBatch]:
        """Only the rows that match, fetched by number."""
        searcher = self._searchers.of(self._snapshot)
        found = _row_sets(searcher, required[0], where)
        for other in required[1:]:
            more = _row_sets(searcher, other, None)
            found = {place: np.intersect1d(rows, more.get(place, rows[:0])) for place, rows in found.items()}
        marks = [_row_sets(searcher, search, None) for search in marked]
        step = _FIRST_ROWS
        for place, rows in found.items():
            start = 0
            while start < len(rows):
                part = rows[start : start + step]
                start += step
                step = min(step * 4, _BATCH_ROWS)
                flags = [_flags(np.isin(part, mark.get(place, part[:0]), assume_unique=True)) for mark in marks]
                yield _batch(self._fetch(searcher, place, part, columns), flags, len(part))

    def _scored(self, columns: tuple[str, ...], where: Node | None, search: Search) -> Iterator[pa.RecordBatch]:
        """The rows that match, with their scores."""
        searcher = self._searchers.of(self._snapshot)
        hits = searcher.search(_plan(searcher, search), where=where, limit=None).hits
        hits = hits.take(np.lexsort((hits.rows, hits.splits)))
        step = _FIRST_ROWS
        for place in np.unique(hits.splits).tolist():
            start, end = np.searchsorted(hits.splits, [place, place + 1]).tolist()
            while start < end:
                stop = min(start + step, end)
                scores = pa.py_buffer(hits.scores[start:stop].astype(np.float64))
                values = pa.Array.from_buffers(pa.float64(), stop - start, [None, scores])
                yield _batch(self._fetch(searcher, place, hits.rows[start:stop], columns), [values], stop - start)
                start, step = stop, min(step * 4, _BATCH_ROWS)

    def _fetch(self, searcher: SplitSearcher, place: int, rows: Ints, columns: tuple[str, ...]) -> list[pa.Array]:
        table = searcher.states[place].fetch(rows, list(columns)) if columns else None
        return [
            column.combine_chunks().cast(self.schema.field(name).type)
            for name, column in zip(columns, table.columns if table is not None else (), strict=True)
        ]

    def _marked(
        self, columns: tuple[str, ...], where: Node | None, marked: tuple[Search, ...]
    ) -> Iterator[pa.RecordBatch]:
        """Every row of the files that may hold what is wanted, with what each search says about it."""
        searcher = self._searchers.of(self._snapshot)
        marks = [_row_sets(searcher, search, None) for search in marked]
        paths = set(prune_files(self._snapshot, where)["path"].to_pylist()) if where is not None else None
        keys = None if paths is None else {_key(self._env, path) for path in paths}
        for place, state in enumerate(searcher.states):
            if keys is not None and state.ref.key not in keys:
                continue
            hit = np.zeros((len(marks), state.num_rows), dtype=bool)
            for number, mark in enumerate(marks):
                hit[number, mark.get(place, np.zeros(0, np.int64))] = True
            if state.alive is not None:
                hit = hit[:, state.alive]
            start = 0
            names = columns or tuple(self._snapshot.schema.names[:1])
            for batch in scan_split(self._env, self._snapshot.schema, state.ref, names, None, self._snapshot.version):
                flags = [_flags(row[start : start + batch.num_rows]) for row in hit]
                start += batch.num_rows
                yield _batch(batch.columns if columns else [], flags, batch.num_rows)


def _row_sets(searcher: SplitSearcher, search: Search, where: Node | None) -> dict[int, Ints]:
    """The matching rows of each split, ascending."""
    hits = searcher.matches(_plan(searcher, search), where=where).hits
    bounds = np.flatnonzero(np.diff(hits.splits)) + 1
    places = hits.splits[np.concatenate([[0], bounds])] if len(hits) else hits.splits
    return {int(place): rows for place, rows in zip(places, np.split(hits.rows, bounds), strict=False)}


def _plan(searcher: SplitSearcher, search: Search) -> Plan:
    return searcher.plan(search.query, default_fields=None if search.column is None else [search.column])


def _flags(values: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> pa.Array:
    # Not pa.array: that would import pandas.
    return pa.Array.from_buffers(
        pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little").tobytes())]
    )


def _batch(columns: list[pa.Array], flags: list[pa.Array], rows: int) -> pa.RecordBatch:
    arrays = [*columns, *flags]
    return (
        pa.RecordBatch.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])
        if arrays
        else _lengths_only(rows)
    )


def _lengths_only(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def _key(env: Env, path: str) -> str:
    from indextables.log.wire import key_of

    return key_of(path, env.store.url)


def _is_command(text: str) -> bool:
    """True for what a session would take for a command, well said or not."""
    try:
        return parse_command(text) is not None
    except (CommandSyntaxError, LimitExceeded):
        return True
