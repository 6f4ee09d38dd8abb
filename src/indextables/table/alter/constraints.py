"""Decides what a wish about constraints makes of a table, and checks whether the rows that are there keep them."""

from __future__ import annotations

import msgspec

from indextables.env import Env
from indextables.errors import ConstraintViolation, InvalidArgument, QueryInvalid
from indextables.log.read import Snapshot
from indextables.log.wire import (
    CHECK_CONSTRAINTS,
    CONSTRAINT_PREFIX,
    Metadata,
    Protocol,
    schema_from_json,
    with_feature,
)
from indextables.table.alter.wishes import AddConstraint, DropConstraint
from indextables.table.read import broken_rows
from indextables.table.rows import Check, Evolution, bound, check_name, generators, rules_of, words_of

__all__ = ["check_kept_by_rows", "check_rules", "constrained"]


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
