"""Scans the rows of a snapshot, split by split, in the order in which they were written; exact, whatever was pruned."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

import pyarrow as pa

from indextables.env import Env
from indextables.errors import ObjectNotFound, SplitCorrupt, VersionExpired
from indextables.lazy import pc
from indextables.log.read import Snapshot
from indextables.log.wire import has_own_splits, path_rule
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.split.file import ROW_ID_FIELD, SplitReader, SplitRef, scan
from indextables.table.read.plan import column_names, prune_files, refs_of, still_there
from indextables.table.read.readers import reader_of

__all__ = ["limited", "plain_schema", "read_in_order", "scan_split", "scan_table"]

T = TypeVar("T")

_AHEAD = 2
"""Splits that are begun while the one before them is taken."""

_STEP_BYTES = 64 * 2**20
"""Rows that are read of a split before somebody takes them: a whole small split, so that all threads have work."""


def scan_table(
    env: Env, snapshot: Snapshot, columns: Sequence[str] | None, where: Node | None, limit: int | None
) -> pa.RecordBatchReader:
    """A reader over the rows for which `where` is true, at most `limit` of them.

    Raises at once what the plan tells (NotSupported, InvalidArgument, LogError), and while it is read SplitCorrupt,
    DvCorrupt, QueryInvalid, VersionExpired where purge was faster, StoreError.
    """
    names = column_names(snapshot.schema, columns)
    schema = plain_schema(snapshot.schema, names)
    if not has_own_splits(snapshot.protocol):
        return pa.RecordBatchReader.from_batches(schema, limited(_bundles(env, snapshot, names, where, limit), limit))
    refs = refs_of(env, prune_files(snapshot, where), snapshot.schema)

    def read(ref: SplitRef) -> Iterator[pa.RecordBatch]:
        alone = len(refs) == 1 and limit is None
        return scan_split(env, snapshot.schema, ref, names, where, snapshot.version, ahead=alone)

    batches = read_in_order(env, refs, read, ahead=limit is None)
    return pa.RecordBatchReader.from_batches(schema, limited(batches, limit))


def _bundles(
    env: Env, snapshot: Snapshot, names: list[str], where: Node | None, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """The rows of a table of IndexTables4Spark."""
    from indextables.foreign import check_types, read_bundle_rows

    url, rule = env.store.url, path_rule(snapshot.protocol)
    check_types(snapshot.schema, url)
    files = prune_files(snapshot, where)
    told = zip(*(files[name].to_pylist() for name in ("path", "size", "numRecords")), strict=True)

    def read(file: tuple[str, int, int | None]) -> Iterator[pa.RecordBatch]:
        path, size, rows = file
        with still_there(env, snapshot.version):
            yield from read_bundle_rows(env.store, rule.key(path, url), size, rows, snapshot.schema, names, where)

    return read_in_order(env, list(told), read, ahead=limit is None)


def scan_split(
    env: Env,
    snapshot_schema: pa.Schema,
    ref: SplitRef,
    names: Sequence[str],
    where: Node | None,
    version: int,
    *,
    ahead: bool = False,
    row_numbers: str | None = None,
    row_ids: bool = False,
    pages: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of one split in the columns and types of the table; a column that the split lacks is null.

    With `ahead` row groups are decoded by threads: not for who runs in one, nor for a few rows of many. `row_numbers`
    names a column to add with each row's number in the split, `row_ids` adds `ROW_ID`, null in rows without an id.
    `pages` keeps the page map for the next read: where the vector leaves few rows.
    """
    numbers = [ROW_ID_FIELD] if row_ids else []
    numbers += [] if row_numbers is None else [pa.field(row_numbers, pa.int64())]
    output = pa.schema([*plain_schema(snapshot_schema, names), *numbers])
    ambient = env.ambient if ahead else None
    try:
        reader = reader_of(env, ref, pages=pages)
        present = {name.lower() for name in reader.schema.names}
        needed = list(dict.fromkeys([*names, *(columns_of(where) if where is not None else ())]))
        if all(name.lower() in present for name in needed) and _same_types(reader, snapshot_schema, needed):
            for batch in scan(reader, names, where=where, row_numbers=row_numbers, row_ids=row_ids, ambient=ambient):
                yield _as_schema(batch, output)
            return
        there = [name for name in needed if name.lower() in present]
        whole = pa.schema([*plain_schema(snapshot_schema, needed), *numbers])
        for batch in scan(reader, there, row_numbers=row_numbers, row_ids=row_ids, ambient=ambient):
            widened = _as_schema(batch, whole)
            kept = widened if where is None else widened.filter(evaluate(where, widened))
            if kept.num_rows:
                yield _as_schema(kept, output)
    except ObjectNotFound as cause:
        message = (
            f"{ref.key} of version {version} is gone from {env.store.url}: purge was faster, then open the table "
            "again; or somebody deleted it, then verify() tells what else is missing"
        )
        raise VersionExpired(message, version=version, path=ref.key, url=env.store.url) from cause


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """At most so many rows, None for all; no batch is asked for behind the last one that is needed."""
    if limit is None:
        yield from batches
        return
    left = limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows


def plain_schema(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """These columns as a user sees them: names, types, nullability, no ids."""
    fields = [schema.field(name) for name in names]
    return pa.schema([pa.field(field.name, field.type, field.nullable) for field in fields])


def read_in_order(
    env: Env, files: Sequence[T], read: Callable[[T], Iterator[pa.RecordBatch]], *, ahead: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of all files, in their order; with `ahead`, some files are begun before their turn comes."""
    if len(files) <= 1 or not ahead:
        for file in files:
            yield from read(file)
        return
    waiting = iter(files)
    begun: deque[_Steps] = deque()
    try:
        while True:
            begun.extend(_Steps(env, read(file)) for file in itertools.islice(waiting, _AHEAD + 1 - len(begun)))
            if not begun:
                return
            part = begun[0].take()
            if not part:
                begun.popleft()
            yield from part
    finally:
        for steps in begun:
            steps.cancel()


class _Steps:
    """One split, read ahead by one step in a thread. No thread ever waits for whoever takes the rows."""

    def __init__(self, env: Env, batches: Iterator[pa.RecordBatch]) -> None:
        self._env = env
        self._batches = batches
        self._next = self._submit()

    def take(self) -> list[pa.RecordBatch]:
        """The rows of one step; none at the end."""
        part = self._next.result()
        if part:
            self._next = self._submit()
        return part

    def cancel(self) -> None:
        """Nobody takes the rest; a step that is running ends by itself."""
        self._next.cancel()

    def _submit(self) -> Future[list[pa.RecordBatch]]:
        return self._env.ambient.submit("splits", self._step)

    def _step(self) -> list[pa.RecordBatch]:
        part: list[pa.RecordBatch] = []
        size = 0
        for batch in self._batches:
            part.append(batch)
            size += batch.nbytes
            if size >= _STEP_BYTES:
                break
        return part


def _same_types(reader: SplitReader, schema: pa.Schema, names: Sequence[str]) -> bool:
    theirs = {field.name.lower(): field.type for field in reader.schema}
    return all(theirs[name.lower()] == schema.field(name).type for name in names)


def _as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    if not len(schema):
        return batch.select([])
    columns = []
    for field in schema:
        place = places.get(field.name.lower())
        values = pa.nulls(batch.num_rows, field.type) if place is None else batch.column(place)
        try:
            columns.append(values if values.type == field.type else pc.cast(values, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
            message = f"column {field.name} of a split is {values.type}, the table has {field.type}: {cause}"
            raise SplitCorrupt(message, part="rows", reason=str(cause)) from cause
    return pa.RecordBatch.from_arrays(columns, schema=schema)
