"""Changes what a table is, in one commit that touches no file: its columns, properties, names and protocol."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CommitConflict, InvalidArgument, MetadataChanged, ProtocolChanged
from indextables.log.commit import Transaction
from indextables.log.read import Log, Snapshot
from indextables.log.wire import (
    check_rows_writable,
    check_writable,
    has_own_splits,
)
from indextables.query.expr import Column, IsNull, Not
from indextables.table.alter.columns import evolved, find
from indextables.table.alter.constraints import check_kept_by_rows, check_rules, constrained
from indextables.table.alter.personal import forget_bounds, marks_personal
from indextables.table.alter.properties import named, numbered, wants_row_ids
from indextables.table.alter.tracking import enable_row_tracking
from indextables.table.alter.wishes import (
    AddColumns,
    AddConstraint,
    AlterColumn,
    DropColumns,
    DropConstraint,
    RenameColumn,
    SetIndexing,
    SetProperties,
    UnsetProperties,
    Wish,
)
from indextables.table.environment import table_env
from indextables.table.read import broken_rows
from indextables.table.rows import Evolution, words_of
from indextables.table.writing import registered, target_of

__all__ = ["alter"]

_OF_COLUMNS = (AddColumns, RenameColumn, DropColumns, AlterColumn)


def alter(log: Log, wish: Wish, *, user_metadata: str | None = None) -> int:
    """Grant the wish on the newest version; the version that has it, which is the newest if nothing had to change.

    Where somebody else changes the table at the same time, the wish is looked at again on top of that.

    Raises InvalidArgument and SchemaInvalid for what the table cannot become, with what to do instead; CommitConflict,
    CommitStateUnknown, NotSupported, LogError, StoreError.
    """
    if isinstance(wish, SetProperties) and wants_row_ids(wish.properties):
        enable_row_tracking(log, user_metadata=user_metadata)
    attempts = log.env.options[opt.TRANSACTION_RETRY_MAX_ATTEMPTS]
    for left in range(max(1, attempts) - 1, -1, -1):
        try:
            version = _once(log, log.snapshot(), wish, user_metadata)
        except CommitConflict:
            # What won may be about other columns, or its rows may keep the rule: then the wish is granted on top of it.
            if not left:
                raise
        else:
            return forget_bounds(log) if _marks_personal(wish) else version
    raise AssertionError("a wish is tried once at least")


def _once(log: Log, snapshot: Snapshot, wish: Wish, user_metadata: str | None) -> int:
    check_writable(snapshot.protocol, log.url)
    change = _planned(log, snapshot, wish)
    if change is None:
        return snapshot.version
    looks = isinstance(wish, AddConstraint) or _forbids_null(snapshot, wish)
    transaction = Transaction(
        log,
        snapshot,
        operation=wish.operation,
        parameters=wish.parameters,
        user_metadata=user_metadata,
        isolation="Serializable" if looks else None,
    )
    transaction.set_metadata(change.metadata)
    if change.protocol is not None:
        transaction.set_protocol(change.protocol)
    if looks:
        # Rows that come meanwhile were not looked at.
        transaction.read_all()
        _check_rows(log.env, snapshot, wish)
    try:
        return transaction.commit_or_raise().version
    except (MetadataChanged, ProtocolChanged):
        raise
    except CommitConflict as conflict:
        message = f"{wish.operation} was not committed: {conflict}"
        raise CommitConflict(message, **conflict.details) from conflict


def _planned(log: Log, snapshot: Snapshot, wish: Wish) -> Evolution | None:
    """What the wish makes of the table; rows of it can be written afterwards. Raises InvalidArgument."""
    env = table_env(log.env, snapshot.metadata)
    if isinstance(wish, _OF_COLUMNS):
        check_rows_writable(snapshot.protocol, log.url)
        change = evolved(snapshot.metadata, snapshot.protocol, wish, env.options[opt.TIME_ZONE])
    elif isinstance(wish, AddConstraint | DropConstraint):
        check_rows_writable(snapshot.protocol, log.url)
        change = constrained(snapshot.metadata, snapshot.protocol, wish)
    else:
        metadata = numbered(snapshot.metadata) if _is_about_indexes(wish) else snapshot.metadata
        change = named(metadata, snapshot.protocol, wish)
    if change is None:
        return None
    check_rules(snapshot.metadata, change.metadata)
    # Settings that no column of the new schema can have are told here, not by the next write.
    options = log.env.options.setting(change.metadata.configuration, snapshot.metadata.configuration)
    plan = target_of(change.metadata, options).plan
    if not has_own_splits(snapshot.protocol):
        return change
    return msgspec.structs.replace(change, metadata=registered(change.metadata, plan) or change.metadata)


def _marks_personal(wish: Wish) -> bool:
    if isinstance(wish, SetIndexing):
        return any("personal" in settings for settings in wish.columns.values() if not isinstance(settings, str))
    return isinstance(wish, SetProperties) and marks_personal(wish.properties)


def _is_about_indexes(wish: Wish) -> bool:
    if isinstance(wish, SetProperties):
        keys: Iterable[str] = wish.properties
    else:
        keys = wish.keys if isinstance(wish, UnsetProperties) else ()
    return isinstance(wish, SetIndexing) or any("indexing." in key.lower() for key in keys)


def _forbids_null(snapshot: Snapshot, wish: Wish) -> bool:
    if not isinstance(wish, AlterColumn) or wish.nullable is not False:
        return False
    return bool(find(snapshot.schema, wish.column).nullable)


def _check_rows(env: Env, snapshot: Snapshot, wish: Wish) -> None:
    """Raises what tells that a row breaks the new rule. Files whose statistics prove that none does are not read."""
    if isinstance(wish, AddConstraint):
        check_kept_by_rows(env, snapshot, wish)
        return
    assert isinstance(wish, AlterColumn)  # noqa: S101 - the caller has asked
    field = find(snapshot.schema, wish.column)
    count, first = broken_rows(env, snapshot, Not(IsNull(Column(field.name, field.type))))
    if first is not None:
        message = (
            f"column {field.name} cannot be NOT NULL: {count} rows are null in it, {words_of(first)} among them. "
            f"Nothing was changed: update or delete them first (where {field.name} is null)"
        )
        raise InvalidArgument(message, column=field.name, rows=count, row=first)
