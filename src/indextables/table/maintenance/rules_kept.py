"""Which rows break a rule of their table? Every row is read, whatever the statistics of its file prove."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from indextables.env import Env
from indextables.errors import IndexTablesError, InvalidArgument, QueryInvalid, StoreError
from indextables.log.care import Finding
from indextables.log.commit import newest_claims, personal_columns
from indextables.log.read import Log, Snapshot
from indextables.log.wire import SEQUENCE_DIR, field_id
from indextables.query.expr import Column, IsNull, Node, Not
from indextables.query.parse import parse
from indextables.query.stored import Identity, generated_columns, identity_columns
from indextables.table.environment import table_env
from indextables.table.read import broken_rows, scan_table
from indextables.table.rows import bound, rules_of, words_of

__all__ = ["broken_rules"]


def broken_rules(env: Env) -> Iterator[Finding]:
    """What rows of the newest version break: NOT NULL, constraints, generated and identity columns.

    A version that cannot be read has been told otherwise. Raises StoreError.
    """
    try:
        snapshot = Log(env).snapshot()
    except StoreError:
        raise
    except IndexTablesError:
        return
    try:
        yield from _broken(table_env(env, snapshot.metadata), snapshot)
    except StoreError:
        raise
    except IndexTablesError as error:
        yield _finding(snapshot, f"whether rows keep the rules of the table cannot be told: {error}")


def _broken(env: Env, snapshot: Snapshot) -> Iterator[Finding]:
    for what, node in _rules(snapshot):
        if isinstance(node, InvalidArgument):
            yield _finding(snapshot, f"{what} cannot be evaluated: {node}")
            continue
        try:
            count, row = broken_rows(env, snapshot, node, by_rows=True)
        except QueryInvalid:
            yield _finding(snapshot, f"{what} cannot be computed for a row")
            continue
        if row is not None:
            yield _finding(snapshot, f"{what} is broken by {count} rows, among them {words_of(row)}")
    for name, identity in identity_columns(snapshot.schema).items():
        yield from _numbers(env, snapshot, name, identity)


def _rules(snapshot: Snapshot) -> Iterator[tuple[str, Node | InvalidArgument]]:
    """Each rule in words, and what is true for a row that keeps it."""
    schema = snapshot.schema
    for field in schema:
        if not field.nullable:
            yield f"NOT NULL of column {field.name}", Not(IsNull(Column(field.name, field.type)))
    for check in rules_of(snapshot.metadata.configuration).checks:
        try:
            yield f"the constraint {check.name} ({check.text})", bound(check, schema)
        except InvalidArgument as fault:
            yield f"the constraint {check.name} ({check.text})", fault
    for name, text in generated_columns(schema).items():
        what = f"the generated column {name} ({text})"
        try:
            yield what, parse(f"`{name.replace('`', '``')}` <=> ({text})", schema)
        except QueryInvalid as fault:
            yield what, fault


def _numbers(env: Env, snapshot: Snapshot, name: str, identity: Identity) -> Iterator[Finding]:
    """Numbers that rows share, and those that will be given again."""
    if not identity.always:
        return
    batches = [batch.column(0) for batch in scan_table(env, snapshot, [name], None, None)]
    values = pa.chunked_array(batches, pa.int64()).drop_null().to_numpy()
    shown = "(personal)" if name.lower() in personal_columns(snapshot.metadata.configuration) else None
    numbers, times = np.unique(values, return_counts=True)
    if len(numbers) < len(values):
        twice = shown or int(numbers[np.argmax(times > 1)])
        yield _finding(snapshot, f"{len(values) - len(numbers)} rows share a number of {name}, {twice} among them")
    number = field_id(snapshot.schema.field(name))
    held = newest_claims(env).get(number or 0)
    if not len(numbers):
        return
    last = int(numbers[-1] if identity.step > 0 else numbers[0])
    if (last - identity.start) // identity.step >= (0 if held is None else held.end):
        yield _finding(
            snapshot,
            f"rows have numbers of {name}, up to {shown or last}, that no claim covers: they will be given again. Put "
            f"the folder {SEQUENCE_DIR} back from a copy",
        )


def _finding(snapshot: Snapshot, message: str) -> Finding:
    return Finding("rule", "error", message, version=snapshot.version)
