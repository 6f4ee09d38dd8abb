"""Merges that end on the driver before jobs would: not many rows, with plain keys, into a table of some million rows.

The index or a scan of the key's column finds their rows, as in a process without Spark. What a statement means must not
depend on where it runs: it runs here only if no value has to be converted and Spark has nothing to evaluate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.errors import LimitExceeded, QueryInvalid
from indextables.log.read import Snapshot
from indextables.query.coerce import common_type
from indextables.query.expr import Column
from indextables.query.parse import parse
from indextables.query.scope import Side, Sides
from indextables.spark.change.conditions import Text
from indextables.spark.change.door import Door
from indextables.spark.change.source import Source
from indextables.spark.session import reads_otherwise, spark_schema
from indextables.spark.tasks import default_parallelism
from indextables.table.change import Aliases, Clause, keys_in, unused_prefix
from indextables.table.change import merge as merge_verb
from indextables.table.rows import Rows
from indextables.table.writing import target_of

if TYPE_CHECKING:
    from indextables.spark.change.merging import MergeAsked

__all__ = ["ends_sooner", "few_rows", "merge_here"]

_FEW_ROWS, _MOST_TARGET_ROWS, _MOST_BYTES = 20_000, 4_000_000, 128 << 20
"""A source of few rows, for a table of so many, is always merged on the driver; a larger one if it fits and pays."""

# Seconds of a core, measured: what jobs take whatever they do, and for each row of the source and of the table, by
# tasks and on the driver. Writing a row, with its index, is most of it.
_JOBS_S = 2.0
_ROW_BY_TASK_S, _TARGET_ROW_BY_TASK_S = 25e-6, 2.4e-6
_ROW_HERE_S, _TARGET_ROW_HERE_S = 12e-6, 0.3e-6


def few_rows(door: Door, source: Source, on: Sequence[str]) -> pa.Table | None:
    """The rows of a source, if the driver merges them by these columns sooner than jobs would, or alone can."""
    if not door.log.env.store.outlives_process:
        return source.held()
    given = source.known_schema()
    snapshot = door.log.snapshot()
    if given is None or not _are_compared_here(on, given, snapshot.schema):
        return None
    target_rows = pc.sum(snapshot.files["numRecords"]).as_py() or 0
    if target_rows > _MOST_TARGET_ROWS:
        # About one key per 5,000 rows: then the index finds them for less than reading their column.
        most = min(_FEW_ROWS, target_rows // 5_000) if _is_indexed(door, snapshot, on) else 0
        found = source.held(most + 1) if most else None
        return found if found is not None and found.num_rows <= most else None
    found = source.held(_FEW_ROWS + 1)
    if found.num_rows <= _FEW_ROWS:
        return found
    fits = source.rows * found.nbytes / found.num_rows <= _MOST_BYTES
    return source.held() if fits and ends_sooner(source.rows, target_rows, default_parallelism(door.spark)) else None


def ends_sooner(rows: int, target_rows: int, cores: int) -> bool:
    """True if the driver merges so many rows into a table of `target_rows` before tasks on these cores would. Pure."""
    by_tasks = _JOBS_S + (rows * _ROW_BY_TASK_S + target_rows * _TARGET_ROW_BY_TASK_S) / cores
    return rows * _ROW_HERE_S + target_rows * _TARGET_ROW_HERE_S < by_tasks


def merge_here(door: Door, asked: MergeAsked) -> merge_verb.Merge | None:
    """The statement for the driver; None if Spark is to run it."""
    source, on, alias = asked.source, asked.on, asked.source.alias
    if asked.keys or asked.evolves or not isinstance(on, str) or alias is None or door.alias is None:
        return None
    if not all(_is_plain(clause) for clause in asked.clauses):
        return None
    snapshot = door.log.snapshot()
    keys = _plain_keys(door, snapshot, on, source, alias)
    if keys is None or not _has_every_column(snapshot, source, asked.clauses):
        return None
    rows = few_rows(door, source, keys)
    if rows is None:
        return None
    held = merge_verb.source_of(Rows(rows.schema, iter(rows.to_batches())), snapshot.schema)
    return merge_verb.Merge(door.log, held, on, asked.clauses, Aliases(alias, door.alias))


def _is_plain(clause: Clause) -> bool:
    """True if a clause computes nothing."""
    return clause.condition is None and clause.values is None and clause.when != "not matched by source"


def _plain_keys(door: Door, snapshot: Snapshot, on: Text, source: Source, alias: str) -> list[str] | None:
    """The columns of the table that ON compares with columns of the same type; None if it says anything else."""
    schema, given = snapshot.schema, source.known_schema()
    assert isinstance(on, str)  # noqa: S101 - `merge_here` asks
    if given is None or reads_otherwise(door.spark, on, schema):
        return None
    prefix = unused_prefix(schema)
    sides = Sides([Side(door.alias or "", schema), Side(alias, given, prefix)])
    try:
        node = parse(on, sides, time_zone=door.log.env.options[opt.TIME_ZONE])
    except (QueryInvalid, LimitExceeded):
        return None
    pairs, rest = keys_in(node, prefix)
    types = {field.name: field.dataType for field in spark_schema(snapshot.metadata.schemaString).fields}
    keys = []
    for left, right in pairs:
        if not (isinstance(left, Column) and isinstance(right, Column)) or left.path or right.path:
            return None
        if types[left.name] != source.type_of(right.name.removeprefix(prefix)):
            return None
        keys.append(left.name)
    return keys if keys and not rest else None


def _has_every_column(snapshot: Snapshot, source: Source, clauses: Sequence[Clause]) -> bool:
    """True if rows are taken from the source as they are: columns of the same names and types."""
    if not any(clause.is_star for clause in clauses):
        return True
    fields = spark_schema(snapshot.metadata.schemaString).fields
    return all(source.type_of(field.name) == field.dataType for field in fields)


def _are_compared_here(on: Sequence[str], given: pa.Schema, schema: pa.Schema) -> bool:
    """False for keys that Spark alone compares, as it does structs."""
    asked = {name.lower() for name in on}
    known = {field.name.lower(): field.type for field in schema}
    pairs = [(field.type, known.get(field.name.lower(), field.type)) for field in given if field.name.lower() in asked]
    return all(common_type(left, right) is not None for left, right in pairs)


def _is_indexed(door: Door, snapshot: Snapshot, on: Sequence[str]) -> bool:
    fields = target_of(snapshot.metadata, door.log.env.over(snapshot.metadata.configuration)).plan.fields
    known = {(field.column or "").lower() for field in fields if field.kind == "string" and field.indexed}
    return any(name.lower() in known for name in on)
