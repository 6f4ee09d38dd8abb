"""Merges a source into the table: rows that match are updated or deleted, others come, in one version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CardinalityViolation, InvalidArgument, SchemaMismatch
from indextables.log.commit import personal_columns
from indextables.log.read import Log, Snapshot
from indextables.log.wire import schema_from_json, tracks_rows
from indextables.query.convert import as_array
from indextables.query.expr import columns_of
from indextables.split.file import with_ids
from indextables.table.change.assigned import computed, is_storable, stored
from indextables.table.change.clauses import Aliases, Bound, Choice, Clause, bind, check_clauses, source_columns
from indextables.table.change.keys import Ints
from indextables.table.change.landing import Terms, execute
from indextables.table.change.located import Located, Pairs
from indextables.table.change.losses import FileCounts
from indextables.table.change.matching import Matching, TakenTwice
from indextables.table.change.merge_told import merge_counts, merge_metrics, merge_parameters
from indextables.table.change.statement import ChangeReport, Counts, Prepared, Run
from indextables.table.change.update import Part, rows_at, written
from indextables.table.read import plain_schema
from indextables.table.rows import Evolution, Rows, check_not_generated, left_out, merged_schema, shown_row
from indextables.table.running import Progress

__all__ = ["Merge", "bound_merge", "check", "check_known", "merge", "shown", "source_of", "upsert"]

_INSERT_ROWS = 65_536
_SHOWN = 200


class Merge(msgspec.Struct, frozen=True):
    """A MERGE as it was asked for. `keys` are the columns of an upsert: by them each row of the source is the only one.

    `source` is as `source_of` makes it.
    """

    log: Log
    source: pa.Table
    on: str
    clauses: tuple[Clause, ...]
    aliases: Aliases = Aliases()
    merge_schema: bool = False
    keys: tuple[str, ...] = ()

    @property
    def operation(self) -> str:
        return "MERGE"

    @property
    def writes(self) -> bool:
        return True

    @property
    def parameters(self) -> dict[str, str | None]:
        return merge_parameters(self.on, self.clauses)

    def over(self, env: Env, snapshot: Snapshot) -> Run:
        return _Merging(self, env, snapshot, *bound_merge(self, env, snapshot))

    def counts(self, gone: int, located: Located) -> Counts:
        return merge_counts(self.clauses, gone, located)

    def metrics(self, counts: Counts, prepared: Prepared, files: FileCounts) -> dict[str, str | None]:
        return merge_metrics(self.clauses, self.source.num_rows, counts, prepared, files)


def bound_merge(statement: Merge, env: Env, snapshot: Snapshot) -> tuple[Bound, pa.Table, Evolution | None]:
    """What a MERGE means for a version, its source with keys as the table has them, and the columns that it brings.

    Raises QueryInvalid, InvalidArgument, SchemaMismatch, NotSupported.
    """
    schema, log = snapshot.schema, statement.log
    evolution = None
    if statement.merge_schema:
        given = source_columns(statement.clauses, statement.source.schema, schema)
        evolution = merged_schema(snapshot.metadata, snapshot.protocol, given, log.env.options, url=log.url)
    elif statement.keys:
        check_known(statement.source.schema, schema)
    after = schema if evolution is None else schema_from_json(evolution.metadata.schemaString)
    for clause in statement.clauses:
        check_not_generated(clause.values or {}, schema, inserts=clause.action == "insert")
    source = _with_keys_as_written(statement.source, statement.keys, after)
    bound = bind(
        statement.on,
        statement.clauses,
        source=source.schema,
        target=plain_schema(schema, schema.names),
        evolved=plain_schema(after, after.names) if statement.merge_schema else None,
        aliases=statement.aliases,
        zone=env.options[opt.TIME_ZONE],
        logged=schema,
    )
    return bound, source, evolution


def merge(statement: Merge, *, terms: Terms | None = None, progress: Progress | None = None) -> ChangeReport:
    """Merge into the newest version. Raises as `landing.execute`, and CardinalityViolation, SchemaMismatch."""
    check(statement.clauses, statement.aliases)
    return execute(statement.log, statement, terms or Terms(), progress)


def check(clauses: Sequence[Clause], aliases: Aliases) -> None:
    """Raises InvalidArgument for clauses and aliases that no merge can have; before the source is read."""
    check_clauses(clauses)
    if aliases.source.lower() == aliases.target.lower():
        message = f"source and table are both called {aliases.source}: give one of them another alias"
        raise InvalidArgument(message)


def upsert(
    log: Log,
    source: pa.Table,
    on: Sequence[str],
    *,
    merge_schema: bool = False,
    terms: Terms | None = None,
    progress: Progress | None = None,
) -> ChangeReport:
    """Update the rows whose key the source has, and add the others. Raises as `merge`."""
    if not on:
        raise InvalidArgument("on names no column: give those by which a row is known")
    known = {name.lower() for name in source.column_names}
    if missing := [name for name in on if name.lower() not in known]:
        raise InvalidArgument(
            f"the rows have no column {', '.join(missing)}, which is part of the key", columns=missing
        )
    quoted = ["`" + name.replace("`", "``") + "`" for name in on]
    text = " AND ".join(f"t.{name} = s.{name}" for name in quoted)
    clauses = (Clause("matched", "update"), Clause("not matched", "insert"))
    statement = Merge(log, source, text, clauses, merge_schema=merge_schema, keys=tuple(on))
    return merge(statement, terms=terms, progress=progress)


def source_of(rows: Rows, schema: pa.Schema) -> pa.Table:
    """The rows of a source, read once. Raises SchemaMismatch for columns that are there twice, or batches that differ.

    They are held in memory until the statement has ended. No rows without columns have those of `schema`.
    """
    names = [name.lower() for name in rows.schema.names]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        message = f"the source has the column {', '.join(twice)} twice. Nothing was written"
        raise SchemaMismatch(message, differences=[f"{name} is there twice" for name in twice])
    try:
        table = pa.Table.from_batches(list(rows.batches), rows.schema)
    except pa.ArrowInvalid as cause:
        message = f"a batch has other columns than its reader said: {cause}. Nothing was written"
        raise SchemaMismatch(message, differences=[str(cause)]) from cause
    if not table.num_columns:
        if table.num_rows:
            raise SchemaMismatch("the source has rows without columns. Nothing was written", differences=["no columns"])
        return pa.table([pa.nulls(0, field.type) for field in schema], names=schema.names)
    columns = [_plain(column) for column in table.columns]
    return pa.table(columns, names=rows.schema.names)


class _Merging:
    """A MERGE over one version."""

    def __init__(
        self,
        statement: Merge,
        env: Env,
        snapshot: Snapshot,
        bound: Bound,
        source: pa.Table,
        evolution: Evolution | None,
    ) -> None:
        self._statement = statement
        self._env = env
        self._snapshot = snapshot
        self._bound = bound
        self._evolution = evolution
        self._source = source.rename_columns([bound.prefix + name for name in source.column_names])
        self._matching = Matching(env, snapshot, bound, self._source)
        if statement.keys and (both := self._matching.keys.twice()) is not None:
            raise self._repeated(both)

    def locate(self) -> Located:
        try:
            return self._matching.locate(self._snapshot.files)
        except TakenTwice as taken:
            raise self._violation(taken) from None

    def look(self, files: pa.Table) -> dict[str, BitMap]:
        return self._matching.touched(files)

    def prepare(self, located: Located) -> Prepared:
        evolution, pairs = self._evolution, located.pairs
        assert pairs is not None  # noqa: S101 - `locate` tells them
        metadata = self._snapshot.metadata if evolution is None else evolution.metadata
        updated, schema = self._rows_of_updates(pairs), self._bound.schema
        if updated and tracks_rows(self._snapshot.protocol):
            schema = with_ids(schema)
        rows = Rows(schema, self._batches(pairs, updated, schema))
        prepared = written(self._env, metadata, rows, located)
        if evolution is None:
            return prepared
        return msgspec.structs.replace(
            prepared, metadata=prepared.metadata or evolution.metadata, protocol=evolution.protocol
        )

    def _rows_of_updates(self, pairs: Pairs) -> dict[str, BitMap]:
        updates = [n for n, choice in enumerate(self._bound.choices) if choice.clause.action == "update"]
        chosen = {path: np.isin(taken.clauses, updates) for path, taken in pairs.taken.items()}
        return {
            path: BitMap(pairs.taken[path].rows[mask].astype(np.uint32)) for path, mask in chosen.items() if mask.any()
        }

    def _batches(self, pairs: Pairs, rows: dict[str, BitMap], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Updated rows, which keep their ids, then new ones, which have none yet."""
        columns = self._columns_of_updates()
        for part in rows_at(self._env, self._snapshot, rows, columns) if rows else ():
            taken = pairs.taken[part.path]
            places = np.searchsorted(taken.rows, part.numbers)
            yield from self._updated(part, taken.clauses[places], taken.sources[places])
        for number, sources in pairs.inserts.items():
            choice = self._bound.choices[number]
            for start in range(0, len(sources), _INSERT_ROWS):
                given = self._given(choice, sources[start : start + _INSERT_ROWS])
                new = self._row(choice, given, None)
                for field in list(schema)[new.num_columns :]:
                    new = new.append_column(field, pa.nulls(new.num_rows, field.type))
                yield from new.to_batches()

    def _columns_of_updates(self) -> list[str]:
        """The columns of the table that updated rows keep, or are computed from."""
        wanted: set[str] = set()
        for choice in self._bound.choices:
            if choice.clause.action == "update":
                wanted |= {name for node in choice.values.values() for name in columns_of(node)}
                wanted |= set(self._bound.schema.names) - choice.values.keys()
        return [name for name in self._snapshot.schema.names if name in wanted]

    def _updated(self, part: Part, clauses: Ints, sources: Ints) -> Iterator[pa.RecordBatch]:
        for number in np.unique(clauses).tolist():
            places = np.flatnonzero(clauses == number)
            choice = self._bound.choices[number]
            old = part.rows.take(pa.array(places)) if part.rows.num_columns else None
            given = self._given(choice, sources[places])
            data = given if old is None else _beside(old, given)
            yield from part.identified(self._row(choice, data, old), places).to_batches()

    def _given(self, choice: Choice, rows: Ints) -> pa.Table:
        """The columns that a clause takes from the source, of these rows of it; without any, as many rows."""
        names = dict.fromkeys(name for node in choice.values.values() for name in columns_of(node))
        wanted = [name for name in names if name.startswith(self._bound.prefix)]
        if not wanted:
            return pa.table({"": pa.nulls(len(rows))})
        return self._source.select(wanted).take(pa.array(rows))

    def _row(self, choice: Choice, data: pa.Table, old: pa.Table | None) -> pa.Table:
        """Whole rows: columns that are computed from `data`, others as they were, or left out of rows that are new."""
        columns = []
        for field in self._bound.schema:
            node = choice.values.get(field.name)
            if node is not None:
                columns.append(computed(node, data, field.type, field.name))
            elif old is not None and old.schema.get_field_index(field.name) >= 0:
                columns.append(pc.cast(old[field.name], field.type))
            else:
                columns.append(self._left_out(field, data.num_rows, is_new=old is None))
        return pa.Table.from_arrays(columns, schema=self._bound.schema)

    def _left_out(self, field: pa.Field, count: int, *, is_new: bool) -> pa.Array:
        """What rows hold in a column that no clause sets: a new row has its default."""
        place = self._snapshot.schema.get_field_index(field.name)
        return (
            left_out(self._snapshot.schema.field(place), count)
            if is_new and place >= 0
            else pa.nulls(count, field.type)
        )

    def _violation(self, taken: TakenTwice) -> CardinalityViolation:
        rows = {taken.path: BitMap([taken.row])}
        (part,) = rows_at(self._env, self._snapshot, rows, self._snapshot.schema.names)
        target, sources = self._shown(part.rows), self._sources(taken.sources)
        columns = list(dict.fromkeys(name for node, _ in self._bound.keys for name in columns_of(node)))
        key = shown({name: target[name] for name in columns})
        action = self._bound.choices[taken.clause].clause.action
        message = (
            f"the row of the table with {key} belongs to rows {taken.sources[0]} and {taken.sources[1]} of the source, "
            f"{shown(sources[0])} and {shown(sources[1])}, and cannot take the {action} of both: leave one row for "
            "each key in the source, or add a condition. Nothing was written"
        )
        return CardinalityViolation(message, target=target, source=sources, rows=list(taken.sources), columns=columns)

    def _repeated(self, both: tuple[int, int]) -> CardinalityViolation:
        sources = self._sources(both)
        columns = list(self._statement.keys)
        message = (
            f"rows {both[0]} and {both[1]} have the same key ({', '.join(columns)}): {shown(sources[0])} and "
            f"{shown(sources[1])}. Leave one row for each key. Nothing was written"
        )
        return CardinalityViolation(message, target=None, source=sources, rows=list(both), columns=columns)

    def _sources(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        return [self._shown(self._statement.source.slice(row, 1)) for row in rows]

    def _shown(self, row: pa.Table) -> dict[str, Any]:
        personal = personal_columns(self._snapshot.metadata.configuration)
        return shown_row(row, personal, self._snapshot.schema.names)


def _beside(old: pa.Table, given: pa.Table) -> pa.Table:
    return pa.table([*old.columns, *given.columns], names=[*old.column_names, *given.column_names])


def _with_keys_as_written(source: pa.Table, keys: Sequence[str], schema: pa.Schema) -> pa.Table:
    """The source with the columns of a key in the types of the table, so that it knows a key again that it wrote.

    Types that no column takes are left to `bind`. Raises InvalidArgument for values that do not fit.
    """
    fields = {field.name.lower(): field for field in schema}
    wanted = {name.lower() for name in keys} & fields.keys()
    for place, name in enumerate(source.column_names):
        field = fields.get(name.lower())
        if name.lower() in wanted and field is not None and is_storable(source.schema.field(place).type, field.type):
            source = source.set_column(place, name, stored(as_array(source.column(place)), field.type, field.name))
    return source


def check_known(given: pa.Schema, schema: pa.Schema) -> None:
    """Raises SchemaMismatch for columns that an upsert would forget."""
    known = {name.lower() for name in schema.names}
    if problems := [f"{name} is not a column of the table" for name in given.names if name.lower() not in known]:
        message = (
            f"the rows do not fit the table: {'; '.join(problems)}. Nothing was written; merge_schema=True adds them"
        )
        raise SchemaMismatch(message, differences=problems)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """In one piece; texts and bytes in the form that tables have, where they are not too large for it."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    types = pa.types
    if types.is_large_string(kind) or types.is_string_view(kind):
        kind = pa.string() if column.nbytes < 2**31 else pa.large_string()
    elif types.is_large_binary(kind) or types.is_binary_view(kind):
        kind = pa.binary() if column.nbytes < 2**31 else pa.large_binary()
    return (column if column.type == kind else pc.cast(column, kind)).combine_chunks()


def shown(row: dict[str, Any]) -> str:
    """A row in a message, cut where it is long."""
    text = repr(row)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
