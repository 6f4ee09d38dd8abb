"""Commands as actions: each calls the one verb it names and answers with rows whose columns never change.

The same text does the same in Spark, in the shell and in a Python process: only the context differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from indextables.errors import InvalidArgument, SchemaMismatch
from indextables.log.care import Finding, RepairReport, StateDescription, checkpoint, describe_state
from indextables.log.read import history
from indextables.log.wire import raw_lines
from indextables.sql.command import statements as st
from indextables.sql.command.context import Context
from indextables.sql.command.cursor import Args
from indextables.sql.command.grammar import parse_command
from indextables.sql.command.results import rows_of, table_of
from indextables.table.environment import table_env
from indextables.table.maintenance import verify_table
from indextables.table.read import actions_of, detail_of

__all__ = ["Consent", "Irreversible", "execute", "run_command"]

Irreversible: TypeAlias = st.Purge | st.DropPartitions | st.TruncateTimeTravel
"""What takes something away; each can be asked what it would do."""

Consent: TypeAlias = Callable[[Irreversible, Context], None]
"""Called before such a command, unless it is a dry run; what it raises ends it with nothing done."""


def run_command(
    text: str, context: Context, args: Args | None = None, *, consent: Consent | None = None
) -> pa.Table | None:
    """Run `text` if it is a command of ours and answer with its rows; None if it belongs to the engine below.

    `args` are the values of `:name` or `?`; they are bound, never pasted. Raises CommandSyntaxError before anything is
    looked at, and what `consent` and the verb raise.
    """
    command = parse_command(text, args)
    if isinstance(command, st.OnlyIfOurs):
        if not context.knows(command.target):
            return None
        if command.fault is not None:
            raise command.fault
        command = command.command
    if consent is not None and isinstance(command, Irreversible) and not command.dry_run:
        consent(command, context)
    return None if command is None else execute(command, context)


def execute(command: st.Command, context: Context) -> pa.Table:
    """The rows that answer a command. Raises what its verb raises."""
    run = _VERBS.get(type(command))
    if run is None:
        from indextables.sql.command.operating import OPERATIONS

        run = OPERATIONS[type(command)]
    return run(command, context)


def _checkpoint(command: st.Checkpoint, context: Context) -> pa.Table:
    log = context.log(command.target)
    env = table_env(log.env, log.metadata_at()[2])
    ref = checkpoint(env, compact="full" if command.compact else "auto")
    row = {"path": log.url, "version": ref.version, "format": ref.format, "size_bytes": ref.size}
    return table_of([row], CHECKPOINT)


def _describe_state(command: st.DescribeState, context: Context) -> pa.Table:
    log = context.log(command.target)
    log.latest_version()
    return rows_of(StateDescription, [describe_state(log.env)], lead={"path": log.url})


def _describe_log(command: st.DescribeLog, context: Context) -> pa.Table:
    log = context.log(command.target)
    log.latest_version()
    versions = log.versions()
    states = log.states()
    if not command.include_all and states:
        versions = range(max(versions.start, states[0].version), versions.stop)
    parts = []
    for version in versions:
        actions = actions_of(raw_lines(log.stored(version)))
        numbers = pa.array([version], pa.int64()).take(pa.array([0] * len(actions), pa.int64()))
        parts.append(actions.add_column(0, "version", numbers))
    return pa.concat_tables([TRANSACTION_LOG.empty_table(), *parts])


def _describe_history(command: st.DescribeHistory, context: Context) -> pa.Table:
    return history(context.log(command.target), command.limit)


def _describe_detail(command: st.DescribeDetail, context: Context) -> pa.Table:
    log = context.log(command.target)
    detail = detail_of(log.snapshot(), log.url)
    return table_of([{**detail, "properties": list(detail["properties"].items())}], DETAIL)


def _verify(command: st.Verify, context: Context) -> pa.Table:
    log = context.log(command.target)
    return rows_of(Finding, verify_table(log.env).findings, lead={"path": log.url})


def _repair(command: st.Repair, context: Context) -> pa.Table:
    from indextables.table.maintenance import repair_table

    env = context.log(command.target).env
    target = None if command.at is None else context.log(command.at).env
    report = repair_table(env, target)
    return rows_of(RepairReport, [report], lead={"path": (target or env).store.url})


def _create(command: st.CreateTable, context: Context) -> pa.Table:
    from indextables.table.create import create, given_properties, indexing_properties
    from indextables.table.rows import schema_from_ddl

    schema = schema_from_ddl(command.columns)
    place = command.target if command.location is None else st.Target(command.location, is_path=True)
    log = context.log(place)
    properties = {**indexing_properties(command.indexing, schema), **given_properties(command.properties)}
    name = None if command.target.is_path else command.target.text
    try:
        made = create(
            log,
            schema,
            partition_by=command.partition_by,
            properties=properties,
            name=name,
            description=command.comment,
        )
    except SchemaMismatch:
        if not command.if_not_exists:
            raise
        version, is_new = log.latest_version(), False
    else:
        version, is_new = made.version, made.is_new
    if not is_new and not command.if_not_exists:
        raise InvalidArgument(f"there is a table at {log.url} already: write IF NOT EXISTS to keep it", url=log.url)
    if name is not None:
        context.register(name, log.url)
    return table_of([{"path": log.url, "name": name, "version": version, "created": is_new}], CREATED)


CHECKPOINT = pa.schema(
    [("path", pa.string()), ("version", pa.int64()), ("format", pa.string()), ("size_bytes", pa.int64())]
)
TRANSACTION_LOG = pa.schema(
    [("version", pa.int64()), ("line", pa.int64()), ("action", pa.string()), ("value", pa.string())]
)
CREATED = pa.schema([("path", pa.string()), ("name", pa.string()), ("version", pa.int64()), ("created", pa.bool_())])
DETAIL = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("url", pa.string()),
        ("version", pa.int64()),
        ("createdAt", pa.int64()),
        ("partitionColumns", pa.list_(pa.string())),
        ("numFiles", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("numRows", pa.int64()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("minReaderVersion", pa.int64()),
        ("minWriterVersion", pa.int64()),
        ("features", pa.list_(pa.string())),
    ]
)

_VERBS: dict[type, Callable[[Any, Context], pa.Table]] = {
    st.Checkpoint: _checkpoint,
    st.CreateTable: _create,
    st.DescribeDetail: _describe_detail,
    st.DescribeHistory: _describe_history,
    st.DescribeLog: _describe_log,
    st.DescribeState: _describe_state,
    st.Repair: _repair,
    st.Verify: _verify,
}
