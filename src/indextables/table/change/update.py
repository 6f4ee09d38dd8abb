"""Updates rows: those that are selected leave, and come back with other values, in one version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from indextables import options as opt
from indextables.env import Env
from indextables.log.read import Log, Snapshot
from indextables.log.wire import Metadata, tracks_rows
from indextables.query.expr import Node
from indextables.split.file import ROW_ID_FIELD, ids_at, place_of_ids, with_ids
from indextables.split.search import Hits
from indextables.table.change.assigned import computed, named
from indextables.table.change.delete import Removal, bound, scope_of
from indextables.table.change.keys import Ints
from indextables.table.change.landing import Terms, execute
from indextables.table.change.located import Located, Selection
from indextables.table.change.losses import FileCounts
from indextables.table.change.statement import ChangeReport, Counts, Prepared, Run
from indextables.table.read import in_order, plain_schema, refs_of, searcher_over
from indextables.table.rows import Rows, fit, without_generated
from indextables.table.running import Progress
from indextables.table.writing import bringing_ids, registered, target_of, write_adds

__all__ = ["Part", "Update", "rows_at", "update", "written"]

_BATCH_ROWS = 8_192


class Update(msgspec.Struct, frozen=True):
    """An UPDATE as it was asked for: a text of SQL, or a value, for each column that changes.

    `alias` may stand before columns in texts.
    """

    log: Log
    assignments: Mapping[str, object]
    where: str | None = None
    query: str | None = None
    alias: str | None = None

    @property
    def operation(self) -> str:
        return "UPDATE"

    @property
    def writes(self) -> bool:
        return True

    @property
    def parameters(self) -> dict[str, str | None]:
        told = {"predicate": self.where, "search": self.query, "set": ", ".join(self.assignments)}
        return {name: text for name, text in told.items() if text is not None}

    def selection(self, snapshot: Snapshot) -> Selection:
        """The rows that it is about, of a version. Raises QueryInvalid."""
        return bound(self.log, snapshot, self.where, self.query, self.alias)

    def over(self, env: Env, snapshot: Snapshot) -> Run:
        # Values are bound first, so that a column that is not there is told before a row is looked for.
        values = self._values(snapshot)
        return _Change(env, snapshot, self.selection(snapshot), values)

    def counts(self, gone: int, located: Located) -> Counts:
        del located
        return Counts(updated=gone)

    def metrics(self, counts: Counts, prepared: Prepared, files: FileCounts) -> dict[str, str | None]:
        told = {"numUpdatedRows": str(counts.updated), "numAddedFiles": str(len(prepared.adds))}
        return {**told, "numRemovedFiles": str(files.removed), **files.metrics()}

    def _values(self, snapshot: Snapshot) -> dict[str, Node]:
        zone = self.log.env.over(snapshot.metadata.configuration)[opt.TIME_ZONE]
        return named(self.assignments, scope_of(snapshot.schema, self.alias), snapshot.schema, zone)


class _Change(Removal):
    """A selection over one version: its rows come back with other values."""

    def __init__(self, env: Env, snapshot: Snapshot, selection: Selection, values: Mapping[str, Node]) -> None:
        super().__init__(env, snapshot, selection)
        self._values = values

    def prepare(self, located: Located) -> Prepared:
        env, metadata, columns = self.env, self.snapshot.metadata, self.snapshot.schema.names
        schema = plain_schema(self.snapshot.schema, columns)
        if tracks_rows(self.snapshot.protocol):
            schema = with_ids(schema)
        parts = rows_at(env, self.snapshot, located.rows, columns)
        changed = (part.identified(_changed(part.rows, self._values)) for part in parts)
        return written(env, metadata, Rows(schema, (batch for rows in changed for batch in rows.to_batches())), located)


def update(
    log: Log,
    assignments: Mapping[str, object],
    *,
    where: str | None = None,
    query: str | None = None,
    alias: str | None = None,
    terms: Terms | None = None,
    progress: Progress | None = None,
) -> ChangeReport:
    """Update rows of the newest version. Raises as `landing.execute`, InvalidArgument, SchemaMismatch for a value."""
    return execute(log, Update(log, assignments, where, query, alias), terms or Terms(), progress)


class Part(msgspec.Struct, frozen=True):
    """Some rows of one file: their numbers, ascending, some of their columns, and ids in a table that tracks rows."""

    path: str
    numbers: Ints
    rows: pa.Table
    ids: pa.Array | pa.ChunkedArray | None = None

    def identified(self, rows: pa.Table, places: Ints | None = None) -> pa.Table:
        """What comes in the place of these rows, or of those at `places`: a row that changes keeps its id."""
        if self.ids is None:
            return rows
        return rows.append_column(ROW_ID_FIELD, self.ids if places is None else self.ids.take(pa.array(places)))


def rows_at(env: Env, snapshot: Snapshot, chosen: Mapping[str, BitMap], columns: list[str]) -> Iterator[Part]:
    """The rows of these numbers, in the order of the table, some at a time. Raises SplitCorrupt, StoreError."""
    paths = pa.array(list(chosen), pa.string())
    files = in_order(snapshot.files.filter(pc.is_in(snapshot.files["path"], value_set=paths)))
    searcher = searcher_over(env, snapshot.metadata, refs_of(env, files, snapshot.schema))
    bases, tracks = files["baseRowId"].to_pylist(), tracks_rows(snapshot.protocol)
    for place, path in enumerate(files["path"].to_pylist()):
        numbers = np.fromiter(chosen[path], np.int64, len(chosen[path]))
        for start in range(0, len(numbers), _BATCH_ROWS):
            part = numbers[start : start + _BATCH_ROWS]
            hits = Hits(np.full(len(part), place, np.int64), part, np.zeros(len(part), np.float32))
            ids = ids_at(searcher.states[place].split.reader, part, bases[place]) if tracks else None
            yield Part(path, part, searcher.rows(hits, columns), ids)


def written(env: Env, metadata: Metadata, rows: Rows, located: Located) -> Prepared:
    """The rows that come, as durable files of a table with this metadata. On any failure nothing of them stays.

    They may bring their ids along, in a last column as `with_ids` has it.
    """
    target = target_of(metadata, env.over(metadata.configuration))
    if place_of_ids(rows.schema) is not None:
        target = bringing_ids(target)
    rows = without_generated(rows, target.schema)
    adds = write_adds(env, target, fit(rows, target.schema, url=env.store.url, has_numbers=True))
    return Prepared(located, adds, registered(metadata, target.plan))


def _changed(rows: pa.Table, values: Mapping[str, Node]) -> pa.Table:
    """The rows with these columns computed, all from what the rows held before."""
    table = rows
    for name, node in values.items():
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        table = table.set_column(place, field, computed(node, rows, field.type, name))
    return table
