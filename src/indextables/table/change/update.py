"""Updates rows: those that are selected leave, and come back with other values, in one version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import InvalidArgument
from indextables.log.read import Log, Snapshot
from indextables.query.evaluate import evaluate_value
from indextables.query.expr import Literal, Node
from indextables.query.functions import is_number
from indextables.query.parse import parse_value
from indextables.split.search import Hits
from indextables.table.change.delete import bound
from indextables.table.change.landing import Terms, execute
from indextables.table.change.located import Located, Selection
from indextables.table.change.statement import ChangeReport, Prepared
from indextables.table.read import in_order, plain_schema, refs_of, searcher_over
from indextables.table.rows import Rows, fit, fits, read_rows
from indextables.table.running import Progress
from indextables.table.writing import registered, target_of, write_adds

__all__ = ["Update", "rows_at", "update"]

_BATCH_ROWS = 8_192


class Update(msgspec.Struct, frozen=True):
    """An UPDATE as it was asked for: a text of SQL, or a value, for each column that changes."""

    log: Log
    assignments: Mapping[str, object]
    where: str | None = None
    query: str | None = None

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
        # Bound here too, so that a column that is not there is told before a row is looked for.
        self._values(snapshot)
        return bound(self.log, snapshot, self.where, self.query)

    def prepare(self, env: Env, snapshot: Snapshot, located: Located) -> Prepared:
        metadata = snapshot.metadata
        target = target_of(metadata, env.options)
        schema = plain_schema(snapshot.schema, snapshot.schema.names)
        values = self._values(snapshot)
        changed = (_changed(rows, values) for rows in rows_at(env, snapshot, located, schema.names))
        rows = Rows(schema, (batch for table in changed for batch in table.to_batches()))
        adds = write_adds(env, target, fit(rows, target.schema, url=self.log.url))
        return Prepared(located, adds, registered(metadata, target.plan))

    def metrics(self, deleted: int, prepared: Prepared) -> dict[str, str | None]:
        return {"numUpdatedRows": str(deleted), "numAddedFiles": str(len(prepared.adds))}

    def _values(self, snapshot: Snapshot) -> dict[str, Node]:
        schema = snapshot.schema
        spelled = {name.lower(): name for name in schema.names}
        zone = self.log.env.over(snapshot.metadata.configuration)[opt.TIME_ZONE]
        found: dict[str, Node] = {}
        for given, value in self.assignments.items():
            name = spelled.get(given.lower())
            if name is None:
                message = f"there is no column {given}: the table has {', '.join(schema.names)}"
                raise InvalidArgument(message, columns=[given])
            if name in found:
                raise InvalidArgument(f"column {name} is set twice", columns=[given])
            found[name] = _value(value, schema, schema.field(name), zone)
        return found


def update(
    log: Log,
    assignments: Mapping[str, object],
    *,
    where: str | None = None,
    query: str | None = None,
    terms: Terms | None = None,
    progress: Progress | None = None,
) -> ChangeReport:
    """Update rows of the newest version. Raises as `landing.execute`, InvalidArgument, SchemaMismatch for a value."""
    return execute(log, Update(log, assignments, where, query), terms or Terms(), progress)


def rows_at(env: Env, snapshot: Snapshot, located: Located, columns: list[str]) -> Iterator[pa.Table]:
    """The rows of these numbers, in the order of the table, some at a time. Raises SplitCorrupt, StoreError."""
    paths = pa.array(list(located.rows), pa.string())
    files = in_order(snapshot.files.filter(pc.is_in(snapshot.files["path"], value_set=paths)))
    searcher = searcher_over(env, snapshot.metadata, refs_of(env, files))
    for place, path in enumerate(files["path"].to_pylist()):
        numbers = np.fromiter(located.rows[path], np.int64, len(located.rows[path]))
        for start in range(0, len(numbers), _BATCH_ROWS):
            part = numbers[start : start + _BATCH_ROWS]
            hits = Hits(np.full(len(part), place, np.int64), part, np.zeros(len(part), np.float32))
            yield searcher.rows(hits, columns)


def _value(value: object, schema: pa.Schema, field: pa.Field, zone: str) -> Node:
    if isinstance(value, str):
        return parse_value(value, schema, time_zone=zone)
    # As a row that is appended: nothing is cut or rounded.
    nullable = field.with_nullable(nullable=True)
    (batch,) = fit(read_rows([{field.name: value}], pa.schema([nullable])), pa.schema([nullable])).batches
    return Literal(batch.column(0)[0])


def _changed(rows: pa.Table, values: Mapping[str, Node]) -> pa.Table:
    """The rows with these columns computed, all from what the rows held before."""
    table = rows
    for name, node in values.items():
        place = rows.schema.get_field_index(name)
        wanted = rows.schema.field(place).type
        computed = evaluate_value(node, rows)
        if isinstance(computed, pa.Scalar):
            computed = pa.repeat(computed, rows.num_rows) if computed.is_valid else pa.nulls(rows.num_rows, wanted)
        table = table.set_column(place, rows.schema.field(place), _stored(computed, wanted, name))
    return table


def _stored(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    """Values as the column holds them; none is cut or rounded. Raises InvalidArgument."""
    if values.type == wanted:
        return values
    if not fits(values.type, wanted) and not (is_number(values.type) and is_number(wanted)):
        message = f"column {name} is {wanted}, and is set to {values.type}: write a CAST. Nothing was written"
        raise InvalidArgument(message, columns=[name])
    try:
        return pc.cast(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        message = f"what column {name} is set to does not fit {wanted}: {cause}. Nothing was written"
        raise InvalidArgument(message, columns=[name]) from cause
