"""Commands as actions: each calls the one verb it names and answers with rows whose columns never change.

The same text does the same in Spark, in the shell and in a Python process: only the context differs. With `DRY RUN` an
answer has a row for each object that would go; without it one row that tells what was done.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.errors import IndexTablesError, InvalidArgument, SchemaMismatch
from indextables.lazy import LazyModule
from indextables.log.care import Finding, RepairReport, StateDescription, VerifyReport, checkpoint, describe_state
from indextables.log.read import history, shared_cache
from indextables.log.wire import raw_lines
from indextables.sql.command import statements as st
from indextables.sql.command.altering import alter_table
from indextables.sql.command.context import Context, is_table, moment_ms
from indextables.sql.command.cursor import Args
from indextables.sql.command.grammar import parse_command
from indextables.sql.command.results import rows_of, table_of
from indextables.sql.command.showing import own_properties
from indextables.table import requests as rq
from indextables.table.environment import table_env
from indextables.table.maintenance import verify_table
from indextables.table.read import actions_of, detail_of, shared_index_cache

if TYPE_CHECKING:
    from indextables.log.read import Log
    from indextables.table.maintenance import drop_partitions, health, mirror, prewarm, reindex, restore, truncate
    from indextables.table.maintenance.purge import verb as purge
    from indextables.table.merge import skips
    from indextables.table.merge import verb as merge_splits
else:
    # Whoever asks for rows loads none of the verbs.
    drop_partitions = LazyModule("indextables.table.maintenance.drop_partitions")
    health = LazyModule("indextables.table.maintenance.health")
    merge_splits = LazyModule("indextables.table.merge.verb")
    mirror = LazyModule("indextables.table.maintenance.mirror")
    prewarm = LazyModule("indextables.table.maintenance.prewarm")
    purge = LazyModule("indextables.table.maintenance.purge.verb")
    reindex = LazyModule("indextables.table.maintenance.reindex")
    restore = LazyModule("indextables.table.maintenance.restore")
    skips = LazyModule("indextables.table.merge.skips")
    truncate = LazyModule("indextables.table.maintenance.truncate")

__all__ = ["Consent", "clear_unit", "execute", "run_command"]

Consent: TypeAlias = Callable[[st.Ask | st.DeleteRows | st.DropTable, Context], None]
"""Called before a command that takes something away, unless it is a dry run, a DELETE of every row included.

What it raises ends the command, nothing done.
"""


def run_command(
    text: str, context: Context, args: Args | None = None, *, consent: Consent | None = None
) -> pa.Table | None:
    """Run `text` if it is a command of ours and answer with its rows; None if it belongs to the engine below.

    `args` are the values of `:name` or `?`; they are bound, never pasted. Raises CommandSyntaxError before anything is
    looked at (InvalidArgument for values that the verb does not take), and what `consent` and the verb raise.
    """
    command = parse_command(text, args)
    if isinstance(command, st.OnlyIfOurs):
        if not context.knows(command):
            return None
        if command.fault is not None:
            raise command.fault
        command = command.command
    if consent is not None and isinstance(command, st.Ask):
        request = command.request
        if isinstance(request, rq.Irreversible) and not request.dry_run:
            consent(command, context)
    takes_all = isinstance(command, st.DropTable) or (isinstance(command, st.DeleteRows) and command.where is None)
    if consent is not None and isinstance(command, st.DeleteRows | st.DropTable) and takes_all:
        consent(command, context)
    return None if command is None else execute(command, context)


def execute(command: st.Command, context: Context) -> pa.Table:
    """The rows that answer a command. Raises what its verb raises."""
    return _VERBS[type(command)](command, context)


def _checkpoint(command: st.Checkpoint, context: Context) -> pa.Table:
    log = context.log(command.target)
    env = table_env(log.env, log.metadata_at().metadata)
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
    properties = list(own_properties(detail["properties"]).items())
    return table_of([{**detail, "properties": properties}], DETAIL)


def _repair(command: st.Repair, context: Context) -> pa.Table:
    from indextables.table.maintenance import repair_table

    env = context.log(command.target).env
    target = None if command.at is None else context.log(command.at).env
    report = repair_table(env, target)
    return rows_of(RepairReport, [report], lead={"path": (target or env).store.url})


def _create(command: st.CreateTable, context: Context) -> pa.Table:
    from indextables.table.create import create, given_properties, indexing_properties
    from indextables.table.rows import table_from_ddl

    schema, defaults = table_from_ddl(command.columns)
    place = command.target if command.location is None else st.TableName(command.location, is_path=True)
    log = context.log(place)
    properties = {**indexing_properties(command.indexing, schema), **given_properties(command.properties), **defaults}
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


def _drop(command: st.DropTable, context: Context) -> pa.Table:
    from indextables.table.maintenance import drop_table

    log = context.log(command.target)
    count = 0 if command.if_exists and not is_table(log) else drop_table(log)
    return table_of([{"path": log.url, "deleted": count}], _GONE)


def _convert(command: st.ConvertTable, context: Context) -> pa.Table:
    from indextables.table.convert import ConvertReport, ConvertRequest, convert
    from indextables.table.create import given_properties

    log = context.log(command.target)
    request = ConvertRequest(
        system=command.system,
        version=command.version,
        partition_by=command.partition_by,
        indexing=command.indexing,
        properties=given_properties(command.properties),
        description=command.comment,
    )
    source = context.log(command.source).env
    report = convert(source, log, request, runner=context.runner(log), progress=context.progress)
    return rows_of(ConvertReport, [report], lead={"path": log.url})


def _ask(command: st.Ask, context: Context) -> pa.Table:
    """Hand a request to its verb; `_REQUESTS` says which, and how its report is told."""
    log = context.log(command.target)
    request = command.request
    if isinstance(request, rq.Restore) and request.timestamp is not None:
        request = rq.Restore(timestamp=moment_ms(request.timestamp, context.time_zone))
    verb, told = _REQUESTS[type(request)]
    report = verb()(log, request, runner=context.runner(log), progress=context.progress)
    return told(report, log.url)


def _verify(log: Log, request: rq.Verify, **_how: object) -> VerifyReport:
    return verify_table(log.env, request)


def _found(report: VerifyReport, url: str) -> pa.Table:
    return rows_of(Finding, report.findings, lead={"path": url})


def _merged(report: merge_splits.MergeReport, url: str) -> pa.Table:
    if report.dry_run:
        return report.plan
    return rows_of(merge_splits.MergeReport, [report], lead={"path": url}, leave_out=("plan", "dry_run"))


def _purged(report: purge.PurgeReport, url: str) -> pa.Table:
    if report.dry_run:
        return _as(report.files, _OBJECTS)
    row = {"path": url, "deleted": report.deleted, "bytes": report.bytes, **_plain(report, "files", "dry_run")}
    return table_of([row], _PURGED)


def _dropped(report: drop_partitions.DropReport, url: str) -> pa.Table:
    if report.dry_run:
        return _as(report.files, _FILES)
    return table_of([{"path": url, "files": report.dropped, **_plain(report, "files", "dry_run")}], _DROPPED)


def _truncated(report: truncate.TruncateReport, url: str) -> pa.Table:
    kinds = {"state": report.states, "version": report.versions, "manifest": report.manifests}
    if report.dry_run:
        return table_of([{"path": key, "kind": kind} for kind, keys in kinds.items() for key in keys], _KEYS)
    counts = {f"{kind}s": len(keys) for kind, keys in kinds.items()}
    return table_of([{"path": url, **_plain(report, "dry_run"), **counts}], _TRUNCATED)


def _reported(report: msgspec.Struct, url: str) -> pa.Table:
    """The fields of a report are the columns."""
    return rows_of(type(report), [report], lead={"path": url})


def _cleared(count: int, url: str) -> pa.Table:
    return table_of([{"path": url, "cleared": count}], _CLEARED)


def _invalidate(command: st.InvalidateCache, context: Context) -> pa.Table:
    if command.target is None:
        return _all_caches(context, b"memory")
    log = context.log(command.target)
    context.forget(log.url)
    report = prewarm.invalidate_caches(log, runner=context.runner(log))
    return table_of([{"path": log.url, **_plain(report)}], _CACHES)


def _flush(command: st.FlushCache, context: Context) -> pa.Table:
    if command.target is None:
        return _all_caches(context, b"disk")
    log = context.log(command.target)
    report = prewarm.flush_caches(log, runner=context.runner(log))
    return table_of([{"path": log.url, **_plain(report)}], _CACHES)


def _all_caches(context: Context, what: bytes) -> pa.Table:
    """Every table, in this process and in those of the cluster; the place is only where an environment is made."""
    log = context.log(st.TableName(tempfile.gettempdir(), is_path=True))
    runner = context.runner(log)
    answers = [clear_unit(log.env, what), *runner.run(clear_unit, [what] * max(1, 2 * runner.width))]
    processes: dict[str, int] = {}
    for answer in answers:
        if isinstance(answer, IndexTablesError):
            raise answer
        process, size = _READ_FLUSHED.decode(answer)
        processes[process] = max(size, processes.get(process, 0))
    row = {"path": None, "processes": list(processes), "bytes": sum(processes.values())}
    return table_of([row], _CACHES)


def clear_unit(env: Env, unit: bytes) -> bytes:
    """Job: forget every table in this process; with `disk` also the cached indexes of this machine."""
    size = 0
    if unit == b"disk":
        cache = shared_index_cache(env.options, env.ambient)
        size = cache.measure().size_bytes
        cache.flush()
    shared_cache().clear()
    return msgspec.msgpack.encode((f"{socket.gethostname()}:{os.getpid()}", size))


def _describe_skips(command: st.DescribeSkips, context: Context) -> pa.Table:
    return skips.skips(context.log(command.target))


def _health(command: st.DescribeHealth, context: Context) -> pa.Table:
    return rows_of(health.Health, [health.health(context.log(command.target))])


def _change(command: st.RowChange, context: Context) -> pa.Table:
    return context.change(command)


def _explain(command: st.Explain, context: Context) -> pa.Table:
    return context.explain(command.statement)


def _plain(report: msgspec.Struct, *leave_out: str) -> dict[str, Any]:
    """The fields of a report as Arrow takes them."""
    found = {name: getattr(report, name) for name in report.__struct_fields__ if name not in leave_out}
    return {name: list(value.items()) if isinstance(value, dict) else value for name, value in found.items()}


def _as(files: pa.Table, schema: pa.Schema) -> pa.Table:
    """These columns in these types; one that a report does not have is null."""
    columns = [
        files[field.name].cast(field.type) if field.name in files.column_names else pa.nulls(len(files), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


_TEXTS = pa.map_(pa.string(), pa.string())
_OBJECTS = pa.schema(
    [("path", pa.string()), ("kind", pa.string()), ("size", pa.int64()), ("modified", pa.timestamp("ms", "UTC"))]
)
_FILES = pa.schema(
    [("path", pa.string()), ("partitionValues", _TEXTS), ("size", pa.int64()), ("numRecords", pa.int64())]
)
_PURGED = pa.schema(
    [
        ("path", pa.string()),
        ("version", pa.int64()),
        ("deleted", pa.int64()),
        ("bytes", pa.int64()),
        ("kept", pa.map_(pa.string(), pa.int64())),
        ("failed", _TEXTS),
        ("foreign", pa.int64()),
        ("cut", pa.int64()),
        ("reason", pa.string()),
    ]
)
_DROPPED = pa.schema(
    [("path", pa.string()), ("version", pa.int64()), ("files", pa.int64()), ("bytes", pa.int64()), ("rows", pa.int64())]
)
_TRUNCATED = pa.schema(
    [
        ("path", pa.string()),
        ("version", pa.int64()),
        ("oldest", pa.int64()),
        ("states", pa.int64()),
        ("versions", pa.int64()),
        ("manifests", pa.int64()),
        ("failed", _TEXTS),
        ("reason", pa.string()),
    ]
)
_KEYS = pa.schema([("path", pa.string()), ("kind", pa.string())])
_GONE = pa.schema([("path", pa.string()), ("deleted", pa.int64())])
_CLEARED = pa.schema([("path", pa.string()), ("cleared", pa.int64())])
_CACHES = pa.schema([("path", pa.string()), ("processes", pa.list_(pa.string())), ("bytes", pa.int64())])
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

_REQUESTS: dict[type[rq.Request], tuple[Callable[[], Callable[..., Any]], Callable[[Any, str], pa.Table]]] = {
    rq.MergeSplits: (lambda: merge_splits.merge_splits, _merged),
    rq.Purge: (lambda: purge.purge, _purged),
    rq.DropPartitions: (lambda: drop_partitions.drop_partitions, _dropped),
    rq.TruncateTimeTravel: (lambda: truncate.truncate_time_travel, _truncated),
    rq.Restore: (lambda: restore.restore, _reported),
    rq.Reindex: (lambda: reindex.reindex, _reported),
    rq.Prewarm: (lambda: prewarm.prewarm, _reported),
    rq.ClearSkips: (lambda: skips.clear_skips, _cleared),
    rq.Mirror: (lambda: mirror.mirror, _reported),
    rq.Verify: (lambda: _verify, _found),
}
"""The verb of each request, loaded when it is asked for, and the columns of its answer."""

_VERBS: dict[type, Callable[[Any, Context], pa.Table]] = {
    st.AlterTable: alter_table,
    st.Ask: _ask,
    st.Checkpoint: _checkpoint,
    st.CreateTable: _create,
    st.ConvertTable: _convert,
    st.DropTable: _drop,
    st.DescribeDetail: _describe_detail,
    st.DescribeHistory: _describe_history,
    st.DescribeLog: _describe_log,
    st.DescribeState: _describe_state,
    st.Repair: _repair,
    st.InvalidateCache: _invalidate,
    st.FlushCache: _flush,
    st.DescribeSkips: _describe_skips,
    st.DescribeHealth: _health,
    st.DeleteRows: _change,
    st.UpdateRows: _change,
    st.MergeRows: _change,
    st.Explain: _explain,
}

# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_FLUSHED = msgspec.msgpack.Decoder(tuple[str, int])
