"""Deletes and updates on a cluster: rows for which a condition is true, or that a search finds, in one version.

Spark finds them with its own scan, by file and row number, where it can evaluate the condition; the index answers a
search and a look for a key, on the driver or in tasks. The driver looks at few rows itself, where a condition means the
same to it as to Spark. A file is not opened where the log proves that all of its rows are meant, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError
from indextables.log.read import Snapshot
from indextables.log.wire import Metadata, schema_from_json
from indextables.query.expr import Column, Comparison, In, Literal, Node, conjuncts
from indextables.query.parse import parse
from indextables.query.stored import default_meant
from indextables.spark.change.addresses import CLAUSE, addressed, chosen_rows, empty, gathered
from indextables.spark.change.conditions import (
    Text,
    analysed,
    expression,
    fitting,
    named_columns,
    names_search,
    quoted,
    told,
    understood,
    value,
)
from indextables.spark.change.door import Distributed, Door
from indextables.spark.change.writing import bases_of, write_rows
from indextables.spark.scan import FILE, ROW
from indextables.spark.search import fits_driver
from indextables.spark.session import spark_schema
from indextables.spark.tasks import SparkRunner
from indextables.split.file import ROW_ID
from indextables.table.change import (
    ChangeReport,
    Delete,
    Located,
    Prepared,
    Selection,
    Terms,
    Update,
    all_rows,
    execute,
    locate,
    may_select,
    scope_of,
    selected,
    whole_files,
)
from indextables.table.rows import check_not_generated
from indextables.table.running import Progress
from indextables.table.writing import registered, target_of

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["delete_rows", "update_rows"]

_FEW_VALUES = 1_000
"""Values of a key that the index is asked for; more are found by a scan."""

_FEW_ROWS = 2_000_000
"""Rows that the driver looks at in some tenths of a second of a core, about what a job takes to begin."""


def delete_rows(
    door: Door, condition: Text | None, search: str | None, terms: Terms, progress: Progress | None = None
) -> ChangeReport:
    """Delete rows of the newest version. Raises as `table.change.execute`."""
    shown = Delete(door.log, None if condition is None else told(condition), search)
    statement = Distributed(shown, lambda env, snapshot: _Removal(door, env, snapshot, condition, search))
    return execute(door.log, statement, terms, progress)


def update_rows(
    door: Door,
    condition: Text | None,
    values: Mapping[str, object],
    search: str | None,
    terms: Terms,
    progress: Progress | None = None,
) -> ChangeReport:
    """Update rows of the newest version. Raises as `table.change.execute`, InvalidArgument, SchemaMismatch."""
    shown = Update(door.log, values, None if condition is None else told(condition), search)
    statement = Distributed(shown, lambda env, snapshot: _Change(door, env, snapshot, condition, search, values))
    return execute(door.log, statement, terms, progress)


class _Removal:
    """A condition over one version: its rows go."""

    def __init__(self, door: Door, env: Env, snapshot: Snapshot, condition: Text | None, search: str | None) -> None:
        self.door, self.env, self.snapshot = door, env, snapshot
        self._condition, self._search = condition, search
        schema, alias = snapshot.schema, door.alias
        if isinstance(condition, str) and names_search(condition):
            self._known: Selection | None = _selection(env, snapshot.metadata, condition, alias, search)
        elif condition is None:
            self._known = Selection(query=search)
        else:
            node = understood(door.spark, env, condition, scope_of(schema, alias), schema)
            self._known = None if node is None else Selection(node, search)
        if self._known is None and condition is not None:
            with analysed("the condition"):
                _ = empty(door, snapshot).where(expression(condition)).schema

    def locate(self) -> Located:
        return self._locate(self.snapshot.files)

    def look(self, files: pa.Table) -> dict[str, BitMap]:
        return {path: rows for path, rows in self._locate(files).rows.items() if rows}

    def prepare(self, located: Located) -> Prepared:
        return Prepared(located)

    def _locate(self, files: pa.Table) -> Located:
        metadata, known = self.snapshot.metadata, self._known
        if known is None:
            found = self._by_scan(files)
            if self._search is None:
                return Located(found, scanned=files.num_rows)
            hits = self._by_index(files, None, Selection(query=self._search))
            both = {path: rows & hits[path] for path, rows in found.items() if path in hits}
            return Located(both, searched=files.num_rows, scanned=files.num_rows)
        files = may_select(files, metadata, known)
        whole, others = whole_files(files, metadata, known)
        rows = all_rows(whole)
        if not others.num_rows:
            return Located(rows, whole=whole.num_rows)
        if known.searches or _is_about_keys(self.env, self.snapshot, known.where) or self._ends_here(others):
            text = self._condition if isinstance(self._condition, str) else None
            found = self._by_index(others, text, known)
            return Located(rows | found, whole=whole.num_rows, searched=others.num_rows)
        return Located(rows | self._by_scan(others), whole=whole.num_rows, scanned=others.num_rows)

    def _by_scan(self, files: pa.Table) -> dict[str, BitMap]:
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        if not files.num_rows:
            return {}
        with analysed("the condition"):
            rows = addressed(self.door, self.env, self.snapshot, files)
            frame = rows.frame if self._condition is None else rows.frame.where(expression(self._condition))
            found = gathered(frame.select(FILE, ROW, F.lit(0).alias(CLAUSE)), rows)
        return found[0].rows if found else {}

    def _ends_here(self, files: pa.Table) -> bool:
        """True if the driver has looked at so few rows, by the index and by columns, before a job would begin."""
        rows = pc.sum(files["numRecords"]).as_py() or 0
        return rows <= _FEW_ROWS and fits_driver(self.env, self.snapshot, files)

    def _by_index(self, files: pa.Table, text: str | None, selection: Selection) -> dict[str, BitMap]:
        if fits_driver(self.env, self.snapshot, files):
            return locate(self.env, self.snapshot.metadata, files, selection).rows
        return _in_tasks(self.door, self.snapshot, files, text, selection.query)


class _Change(_Removal):
    """A condition over one version: its rows come back with other values."""

    def __init__(
        self,
        door: Door,
        env: Env,
        snapshot: Snapshot,
        condition: Text | None,
        search: str | None,
        values: Mapping[str, object],
    ) -> None:
        # Values are bound first, so that a column that is not there is told before a row is looked for.
        check_not_generated(values, snapshot.schema)
        named = named_columns(values, snapshot.schema.names, "set")
        meant = {name: default_meant(given, snapshot.schema.field(name)) for name, given in named.items()}
        self._values = {name: value(f"set[{name!r}]", given) for name, given in meant.items()}
        self._computed(empty(door, snapshot), snapshot)
        super().__init__(door, env, snapshot, condition, search)

    def prepare(self, located: Located) -> Prepared:
        env, metadata = self.env, self.snapshot.metadata
        plan = target_of(metadata, env.over(metadata.configuration)).plan
        rows = sum(map(len, located.rows.values()))
        if not rows:
            return Prepared(located)
        with analysed("what rows are set to"):
            chosen = chosen_rows(self.door, env, self.snapshot, located.rows)
            frame = self._computed(chosen.frame, self.snapshot)
        adds = write_rows(self.door, env, metadata, frame, bases_of(self.snapshot, chosen.paths), rows)
        return Prepared(located, adds, registered(metadata, plan))

    def _computed(self, frame: DataFrame, snapshot: Snapshot) -> DataFrame:
        """Whole rows with their addresses. Raises QueryInvalid, InvalidArgument."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

        schema = spark_schema(snapshot.metadata.schemaString)
        with analysed("what rows are set to"):
            kinds = frame.select(*(given.alias(name) for name, given in self._values.items())).schema
        columns: list[SparkColumn] = []
        for field in schema.fields:
            given = self._values.get(field.name)
            if given is None:
                columns.append(F.col(quoted(field.name)))
            else:
                fitted = fitting(given, kinds[field.name].dataType, field.dataType, field.name)
                columns.append(fitted.alias(field.name))
        internal = [name for name in (FILE, ROW, ROW_ID) if name in frame.columns]
        return frame.select(*columns, *internal)


class _Part(msgspec.Struct, frozen=True):
    """What the index is asked in a task: entries of the log, as Arrow has them, and the question."""

    files: bytes
    metadata: Metadata
    where: str | None
    alias: str | None
    query: str | None


def _in_tasks(
    door: Door, snapshot: Snapshot, files: pa.Table, where: str | None, query: str | None
) -> dict[str, BitMap]:
    runner = SparkRunner(door.spark, door.place.url, place=door.place)
    step = max(1, -(-files.num_rows // (runner.width * 2)))
    units = []
    for start in range(0, files.num_rows, step):
        part = _Part(_packed(files.slice(start, step)), snapshot.metadata, where, door.alias, query)
        units.append(msgspec.msgpack.encode(part))
    found: dict[str, BitMap] = {}
    for answer in runner.run(locate_job, units):
        if isinstance(answer, IndexTablesError):
            raise answer
        rows: dict[str, bytes] = msgspec.msgpack.decode(answer)
        found |= {path: BitMap.deserialize(bits) for path, bits in rows.items()}
    return found


def locate_job(env: Env, unit: bytes) -> bytes:
    """In a task: the rows of its files that the index finds."""
    part = _READ_PART.decode(unit)
    selection = _selection(env, part.metadata, part.where, part.alias, part.query)
    found = locate(env, part.metadata, _unpacked(part.files), selection)
    return msgspec.msgpack.encode({path: rows.serialize() for path, rows in found.rows.items() if rows})


def _selection(env: Env, metadata: Metadata, where: str | None, alias: str | None, query: str | None) -> Selection:
    """What a text, in which TEXTSEARCH may stand, and a query ask for. Raises QueryInvalid."""
    if where is None:
        return Selection(query=query)
    scope = scope_of(schema_from_json(metadata.schemaString), alias)
    scope.searches = []
    node = parse(where, scope, time_zone=env.over(metadata.configuration)[opt.TIME_ZONE])
    return selected(node, query, scope.searches)


def _is_about_keys(env: Env, snapshot: Snapshot, node: Node | None) -> bool:
    """True if a condition asks for values of a column whose values are terms of the index as they are. Pure."""
    if node is None:
        return False
    fields = target_of(snapshot.metadata, env.over(snapshot.metadata.configuration)).plan.fields
    known = {field.column for field in fields if field.kind == "string" and field.indexed}

    def asks(term: Any) -> bool:
        if isinstance(term, Comparison) and term.op == "=" and isinstance(term.right, Literal):
            column = term.left
        elif isinstance(term, In) and len(term.values) <= _FEW_VALUES:
            column = term.child
        else:
            return False
        return isinstance(column, Column) and not column.path and column.name in known

    return any(asks(term) for term in conjuncts(node))


def _packed(files: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema) as writer:
        writer.write_table(files)
    return bytes(sink.getvalue())


def _unpacked(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_PART = msgspec.msgpack.Decoder(_Part)
