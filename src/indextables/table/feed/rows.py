"""Reads the rows of a feed: what versions took and brought, as Arrow batches that say which change each row is.

Splits are read one by one, so that a large commit needs no more memory than its splits and the ids that may pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from indextables.env import Env
from indextables.errors import InvalidArgument, NotSupported
from indextables.lazy import pc
from indextables.log.wire import combined, int64_array
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.split.file import ROW_ID, ROW_ID_FIELD, SplitReader, dv, ids_at
from indextables.table.feed.pairing import Event, Folded, Ids, Judge, Paired, fold, is_image, texts
from indextables.table.feed.sameness import same_rows
from indextables.table.feed.units import Bundle, Unit, alone
from indextables.table.read import column_names, plain_schema, read_in_order, reader_of, scan_split

__all__ = [
    "CHANGE_TYPE",
    "COMMIT_TIMESTAMP",
    "COMMIT_VERSION",
    "FEED_FIELDS",
    "Asked",
    "feed_schema",
    "read_bundle",
    "read_net",
]

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"

FEED_FIELDS = (
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("ms", "UTC")),
)

_COMPARED = 262_144
"""Rows whose images are compared at a time."""


class Asked(msgspec.Struct, frozen=True):
    """What is asked of the rows: the schema of the end of the range, its columns, and which rows."""

    schema: pa.Schema
    names: list[str]
    with_ids: bool = False
    where: Node | None = None
    skip_unchanged: bool = False

    @classmethod
    def of(cls, schema: pa.Schema, columns: Sequence[str] | None, where: Node | None, *, skip_unchanged: bool) -> Asked:
        """Raises InvalidArgument for a column that is not there, or that has the name of one of the feed's own."""
        named = None if columns is None else [name for name in columns if name.lower() not in {*_OWN, ROW_ID}]
        names = column_names(schema, named)
        taken = [name for name in names if name.lower() in _OWN]
        if taken:
            message = (
                f"the table has a column {taken[0]}, which is a name of the feed's own: leave it out with columns=[...]"
            )
            raise InvalidArgument(message, columns=taken)
        with_ids = columns is not None and ROW_ID in {name.lower() for name in columns}
        return cls(schema, names, with_ids, where, skip_unchanged)

    @property
    def output(self) -> pa.Schema:
        """The columns of the feed: rows of old versions may lack a value that is required by now."""
        fields = [field.with_nullable(True) for field in plain_schema(self.schema, self.names)]  # noqa: FBT003
        return pa.schema([*fields, *([pa.field(ROW_ID, pa.int64())] if self.with_ids else []), *FEED_FIELDS])

    @property
    def reads(self) -> list[str]:
        """The columns of the table that have to be read, those of the output first."""
        tested = [] if self.where is None else [name for name in columns_of(self.where) if name.lower() not in _OWN]
        return list(dict.fromkeys([*self.names, *tested]))

    @property
    def pushed(self) -> Node | None:
        """The predicate, where a split can answer it."""
        where = self.where
        return None if where is None or {name.lower() for name in columns_of(where)} & _OWN else where

    @property
    def left(self) -> Node | None:
        """The predicate, where it reads what only the feed knows."""
        return None if self.pushed is not None else self.where


_OWN = frozenset(field.name for field in FEED_FIELDS)


def feed_schema(schema: pa.Schema) -> pa.Schema:
    """What a predicate over the feed may read."""
    return pa.schema([*(field for field in schema if field.name.lower() not in _OWN), *FEED_FIELDS])


def read_bundle(env: Env, bundle: Bundle, asked: Asked) -> Iterator[pa.RecordBatch]:
    """The changes of one bundle, what it took first. Raises SplitCorrupt, DvCorrupt, VersionExpired, StoreError."""
    judge = Paired.of([], [])
    if bundle.pairs:
        ids = _ids(env, bundle)
        judge = Paired.of(
            [ids[place] for place in _side(bundle, is_new=False)], [ids[p] for p in _side(bundle, is_new=True)]
        )
        if asked.skip_unchanged and len(judge.ids):
            located = [(unit, ids[place]) for place, unit in enumerate(bundle.units)]
            judge = judge._replace(skipped=_unchanged(env, bundle.version, located, judge.ids, asked))
    yield from _told(env, bundle, asked, judge, {bundle.version: bundle.time_ms}, needs_ids=bool(len(judge.ids)))


def read_net(env: Env, bundles: Callable[[], Iterator[Bundle]], asked: Asked) -> Iterator[pa.RecordBatch]:
    """A range as one change: of each id the first and the last image. `bundles` gives the range, as often as asked.

    Raises NotSupported for rows without ids, and as `read_bundle`.
    """
    times: dict[int, int] = {}

    def events() -> Iterator[Event]:
        for bundle in bundles():
            times[bundle.version] = bundle.time_ms
            unknown = next((unit for unit in bundle.units if unit.ref.base_row_id is None), None)
            if unknown is not None:
                message = (
                    f"rows of version {bundle.version} at {env.store.url} have no ids, so that their changes cannot be "
                    "folded: read the range without net, or from a version after enable_row_tracking() on"
                )
                raise NotSupported(message, version=bundle.version, url=env.store.url)
            ids = _ids(env, bundle, every=True)
            sides = [
                np.concatenate([np.zeros(0, np.int64), *(ids[place] for place in _side(bundle, is_new=is_new))])
                for is_new in (False, True)
            ]
            yield Event(bundle.version, *sides)

    folded = fold(events())
    if asked.skip_unchanged and len(folded.paired):
        folded = folded.without(_unchanged_ends(env, bundles, folded, asked))
    for bundle in bundles():
        yield from _told(env, bundle, asked, folded, times, needs_ids=True)


def _told(
    env: Env, bundle: Bundle, asked: Asked, judge: Judge, times: Mapping[int, int], *, needs_ids: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a bundle with what the judge says of them."""
    output = asked.output
    reads_ids = needs_ids or asked.with_ids
    names = asked.names if asked.left is None else asked.reads

    def read(unit: Unit) -> Iterator[pa.RecordBatch]:
        scanned = scan_split(
            env, asked.schema, unit.ref, names, asked.pushed, bundle.version, row_ids=reads_ids, pages=True
        )
        for rows in scanned:
            told = _with_change(rows, unit, bundle.version, judge, times, has_ids=reads_ids)
            if asked.left is not None and told.num_rows:
                told = told.filter(evaluate(asked.left, told))
            if told.num_rows:
                columns = [told.column(field.name) for field in output]
                yield pa.RecordBatch.from_arrays(columns, schema=output)

    wanted = [unit for unit in bundle.units if unit.is_wanted]
    yield from read_in_order(env, wanted, read, ahead=True)


def _with_change(
    rows: pa.RecordBatch, unit: Unit, version: int, judge: Judge, times: Mapping[int, int], *, has_ids: bool
) -> pa.RecordBatch:
    ids = rows.column(rows.num_columns - 1) if has_ids else None
    codes, versions = judge.kinds(version, ids, rows.num_rows, is_new=unit.is_new)
    told = codes >= 0
    if not told.all():
        rows, codes, versions = rows.filter(pa.array(told)), codes[told], versions[told]
    distinct, places = np.unique(versions, return_inverse=True)
    stamps = np.array([times[number] for number in distinct.tolist()], np.int64)[places]
    columns = [*rows.columns, texts(codes), int64_array(versions), int64_array(stamps).cast(FEED_FIELDS[2].type)]
    names = [*rows.schema.names, *(field.name for field in FEED_FIELDS)]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _side(bundle: Bundle, *, is_new: bool) -> list[int]:
    return [place for place, unit in enumerate(bundle.units) if unit.is_new is is_new]


def _ids(env: Env, bundle: Bundle, *, every: bool = False) -> list[Ids]:
    """The ids of the rows of each unit, in the order of its rows.

    Without `every`, a unit whose ids are counted, and lie outside of all that the other side has, tells none.
    """
    readers = list(env.ambient.map("splits", lambda unit: reader_of(env, unit.ref, pages=True), bundle.units))
    stores = [reader.has_row_ids for reader in readers]
    spans: list[tuple[int, int]] = []
    found: list[Ids | None] = []
    for unit, reader, is_stored in zip(bundle.units, readers, stores, strict=True):
        base = unit.ref.base_row_id
        ids = _ids_of(unit, reader) if is_stored and base is not None else None
        found.append(ids)
        if base is None:
            spans.append((0, -1))
        elif ids is not None:
            spans.append((int(ids.min()), int(ids.max())) if len(ids) else (0, -1))
        else:
            spans.append((base, base + reader.num_rows - 1))
    for place, (unit, reader) in enumerate(zip(bundle.units, readers, strict=True)):
        if found[place] is None:
            others = [spans[other] for other in _side(bundle, is_new=not unit.is_new)]
            meets = any(low <= spans[place][1] and spans[place][0] <= high for low, high in others)
            needed = unit.ref.base_row_id is not None and (every or meets)
            found[place] = _ids_of(unit, reader) if needed else np.zeros(0, np.int64)
    return [ids for ids in found if ids is not None]


def _ids_of(unit: Unit, reader: SplitReader) -> Ids:
    numbers = np.flatnonzero(dv.alive_mask(unit.ref.vector, reader.num_rows, reader.key)).astype(np.int64)
    return np.asarray(combined(ids_at(reader, numbers, unit.ref.base_row_id)).to_numpy(zero_copy_only=False), np.int64)


def _unchanged(env: Env, version: int, located: Sequence[tuple[Unit, Ids]], paired: Ids, asked: Asked) -> Ids:
    """The ids whose two images are equal in the columns that are asked for, sorted."""
    found = [paired[:0]]
    for start in range(0, len(paired), _COMPARED):
        part = paired[start : start + _COMPARED]
        old, new = (_images(env, version, located, part, asked, is_new=is_new) for is_new in (False, True))
        found.append(part[same_rows(old, new)])
    return np.concatenate(found)


def _images(
    env: Env, version: int, located: Sequence[tuple[Unit, Ids]], ids: Ids, asked: Asked, *, is_new: bool
) -> pa.Table:
    """The rows with these ids on one side, in the order of the ids."""
    batches = []
    for unit, held in located:
        if unit.is_new is not is_new:
            continue
        picked = np.isin(held, ids)
        if picked.any():
            batches += _some_rows(env, version, unit, picked, asked)
    schema = pa.schema([*plain_schema(asked.schema, asked.names), ROW_ID_FIELD])
    rows = pa.Table.from_batches(batches, schema)
    order = pc.sort_indices(rows[ROW_ID])
    return rows.select(asked.names).take(order)


def _some_rows(env: Env, version: int, unit: Unit, picked: npt.NDArray[np.bool_], asked: Asked) -> list[pa.RecordBatch]:
    count = reader_of(env, unit.ref, pages=True).num_rows
    alive = np.flatnonzero(dv.alive_mask(unit.ref.vector, count, unit.ref.key))
    ref = alone(unit.ref, count, BitMap(alive[picked].astype(np.uint32)))
    return list(scan_split(env, asked.schema, ref, asked.names, None, version, row_ids=True, pages=True))


def _unchanged_ends(env: Env, bundles: Callable[[], Iterator[Bundle]], folded: Folded, asked: Asked) -> Ids:
    """The ids whose first and last image in the range are equal, sorted."""
    located: list[tuple[Unit, Ids]] = []
    for bundle in bundles():
        for unit, ids in zip(bundle.units, _ids(env, bundle, every=True), strict=True):
            kinds = folded.kinds(bundle.version, int64_array(ids), len(ids), is_new=unit.is_new)
            located.append((unit, np.where(is_image(kinds.codes), ids, -1)))
    return _unchanged(env, 0, located, folded.paired, asked)
