"""Decides what a wish about constraints makes of a table, and checks whether the rows that are there keep them."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from indextables.env import Env
from indextables.errors import ConstraintViolation, InvalidArgument, QueryInvalid
from indextables.log.commit import personal_columns
from indextables.log.read import Snapshot
from indextables.log.wire import (
    CHECK_CONSTRAINTS,
    CONSTRAINT_PREFIX,
    Metadata,
    Protocol,
    has_own_splits,
    schema_from_json,
    schema_to_json,
    with_feature,
)
from indextables.query.expr import IsNull, Node, Not, Or
from indextables.query.prune import all_match
from indextables.table.alter.wishes import AddConstraint, DropConstraint
from indextables.table.read import refs_of, searcher_over, still_there
from indextables.table.rows import Check, Evolution, bound, check_name, generators, rules_of, shown_row, words_of

__all__ = ["broken_rows", "check_kept_by_rows", "check_rules", "constrained"]

_AT_ONCE = 10_000
"""Files whose statistics are looked at together: null counts are told for no more than so many."""


def constrained(metadata: Metadata, protocol: Protocol, wish: AddConstraint | DropConstraint) -> Evolution | None:
    """What a commit brings that grants the wish; None if the table is like that already. Pure.

    Raises InvalidArgument for a name that is taken or not there, and for what is no predicate about the rows.
    """
    name = check_name(wish.name)
    key, told = CONSTRAINT_PREFIX + name, metadata.configuration
    if isinstance(wish, DropConstraint):
        if key not in told:
            if wish.if_exists:
                return None
            known = ", ".join(check.name for check in rules_of(told).checks) or "none"
            message = f"the table has no constraint {name} (it has {known}): leave it out, or write IF EXISTS"
            raise InvalidArgument(message, constraint=name)
        left = {one: text for one, text in told.items() if one != key}
        return Evolution(msgspec.structs.replace(metadata, configuration=left))
    if told.get(key) == wish.check:
        return None
    if key in told:
        message = f"there is a constraint {name} already ({told[key]}): give another name, or drop that one first"
        raise InvalidArgument(message, constraint=name)
    bound(Check(name, wish.check), schema_from_json(metadata.schemaString))
    changed = msgspec.structs.replace(metadata, configuration={**told, key: wish.check})
    raised = with_feature(protocol, CHECK_CONSTRAINTS)
    return Evolution(changed, None if raised is protocol else raised)


def check_rules(before: Metadata, after: Metadata) -> None:
    """Raises InvalidArgument if a rule of the table means nothing for the columns that it is to have."""
    if before.schemaString != after.schemaString:
        schema = schema_from_json(after.schemaString)
        rules_of(after.configuration).over(schema)
        generators(schema)


def check_kept_by_rows(env: Env, snapshot: Snapshot, wish: AddConstraint) -> None:
    """Raises ConstraintViolation if the constraint is not true for a row that is there."""
    name = check_name(wish.name)
    node = bound(Check(name, wish.check), snapshot.schema)
    try:
        count, row = broken_rows(env, snapshot, node)
    except QueryInvalid as fault:
        message = (
            f"the constraint {name} ({wish.check}) cannot be computed for a row that is there. Nothing was changed"
        )
        raise ConstraintViolation(message, constraint=name, expression=wish.check, row=None) from fault
    if row is not None:
        message = (
            f"the constraint {name} ({wish.check}) is not true for {count} rows that are there, among them "
            f"{words_of(row)}. Nothing was changed: update or delete them first (null is not true)"
        )
        raise ConstraintViolation(message, constraint=name, expression=wish.check, rows=count, row=row)


def broken_rows(
    env: Env, snapshot: Snapshot, node: Node, *, by_rows: bool = False
) -> tuple[int, dict[str, object] | None]:
    """For how many rows a predicate is not true, and the first of them, if any.

    Files whose partition values, bounds and null counts prove that it is true for all rows are not read, unless it is
    to be told `by_rows` alone.
    """
    files = snapshot.files if by_rows else _unproven(snapshot, node)
    if not files.num_rows:
        return 0, None
    with still_there(env, snapshot.version):
        metadata = _lenient(snapshot.metadata) if by_rows else snapshot.metadata
        searcher = searcher_over(env, metadata, refs_of(env, files, snapshot.schema))
        found = searcher.matches(None, where=Or((Not(node), IsNull(node)))).hits
        if not len(found):
            return 0, None
        first = searcher.rows(found.take(pa.array([0]).to_numpy()))
    return len(found), shown_row(first, personal_columns(snapshot.metadata.configuration))


def _lenient(metadata: Metadata) -> Metadata:
    """The metadata of a table whose rows may hold null anywhere."""
    fields = [field.with_nullable(nullable=True) for field in schema_from_json(metadata.schemaString)]
    return msgspec.structs.replace(metadata, schemaString=schema_to_json(pa.schema(fields)))


def _unproven(snapshot: Snapshot, node: Node) -> pa.Table:
    """The files that may hold a row for which a predicate is not true."""
    files = snapshot.files
    if not files.num_rows or not has_own_splits(snapshot.protocol):
        return files
    proven = [_proven(files.slice(start, _AT_ONCE), snapshot, node) for start in range(0, files.num_rows, _AT_ONCE)]
    return files.filter(pa.array(~np.concatenate(proven)))


def _proven(files: pa.Table, snapshot: Snapshot, node: Node) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    told = all_match(files, node, snapshot.schema, snapshot.partition_columns)
    return np.asarray(told.to_numpy(zero_copy_only=False), bool)
