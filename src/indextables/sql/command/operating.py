"""Commands that change a table or its caches, or say how it is: each is one call of its verb and one shape of answer.

With `DRY RUN` an answer has a row for each object that would go; without it one row that tells what was done.
"""

from __future__ import annotations

import os
import socket
import tempfile
from typing import Any

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.errors import IndexTablesError
from indextables.log.read import shared_cache
from indextables.sql.command import statements as st
from indextables.sql.command.context import Context, moment_ms
from indextables.sql.command.results import rows_of, table_of
from indextables.table.maintenance import drop_partitions, health, prewarm, reindex, restore, truncate
from indextables.table.maintenance.purge import verb as purge
from indextables.table.merge import skips
from indextables.table.merge import verb as merge_splits
from indextables.table.read import shared_index_cache

__all__ = ["OPERATIONS", "clear_unit"]

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
_CLEARED = pa.schema([("path", pa.string()), ("cleared", pa.int64())])
_CACHES = pa.schema([("path", pa.string()), ("processes", pa.list_(pa.string())), ("bytes", pa.int64())])


def _merge(command: st.MergeSplits, context: Context) -> pa.Table:
    log = context.log(command.target)
    report = merge_splits.merge_splits(
        log,
        where=command.where,
        target_size=command.target_size,
        max_dest_splits=command.max_dest_splits,
        max_source_splits_per_merge=command.max_source_splits_per_merge,
        cluster_by=command.cluster_by,
        curve=command.curve,
        dry_run=command.dry_run,
        runner=context.runner(log),
        progress=context.progress,
    )
    if command.dry_run:
        return report.plan
    return rows_of(merge_splits.MergeReport, [report], lead={"path": log.url}, leave_out=_NOT_MERGED)


_NOT_MERGED = ("plan", "dry_run")


def _purge(command: st.Purge, context: Context) -> pa.Table:
    log = context.log(command.target)
    report = purge.purge(
        log,
        older_than_hours=command.older_than_hours,
        tx_log_retention_hours=command.tx_log_retention_hours,
        dry_run=command.dry_run,
        force=command.force,
        runner=context.runner(log),
        progress=context.progress,
    )
    if command.dry_run:
        return _as(report.files, _OBJECTS)
    row = {"path": log.url, "deleted": report.deleted, "bytes": report.bytes, **_plain(report, "files", "dry_run")}
    return table_of([row], _PURGED)


def _drop(command: st.DropPartitions, context: Context) -> pa.Table:
    log = context.log(command.target)
    report = drop_partitions.drop_partitions(log, where=command.where, dry_run=command.dry_run)
    if command.dry_run:
        return _as(report.files, _FILES)
    row = {"path": log.url, "files": report.dropped, **_plain(report, "files", "dry_run")}
    return table_of([row], _DROPPED)


def _truncate(command: st.TruncateTimeTravel, context: Context) -> pa.Table:
    log = context.log(command.target)
    report = truncate.truncate_time_travel(log, dry_run=command.dry_run, progress=context.progress)
    kinds = {"state": report.states, "version": report.versions, "manifest": report.manifests}
    if command.dry_run:
        return table_of([{"path": key, "kind": kind} for kind, keys in kinds.items() for key in keys], _KEYS)
    counts = {f"{kind}s": len(keys) for kind, keys in kinds.items()}
    return table_of([{"path": log.url, **_plain(report, "dry_run"), **counts}], _TRUNCATED)


def _restore(command: st.Restore, context: Context) -> pa.Table:
    log = context.log(command.target)
    timestamp = None if command.timestamp is None else moment_ms(command.timestamp, context.time_zone)
    report = restore.restore(
        log, version=command.version, timestamp=timestamp, runner=context.runner(log), progress=context.progress
    )
    return rows_of(restore.RestoreReport, [report], lead={"path": log.url})


def _reindex(command: st.Reindex, context: Context) -> pa.Table:
    log = context.log(command.target)
    report = reindex.reindex(
        log, where=command.where, force=command.force, runner=context.runner(log), progress=context.progress
    )
    return rows_of(reindex.ReindexReport, [report], lead={"path": log.url})


def _prewarm(command: st.Prewarm, context: Context) -> pa.Table:
    log = context.log(command.target)
    report = prewarm.prewarm(
        log, where=command.where, columns=command.columns, runner=context.runner(log), progress=context.progress
    )
    return rows_of(prewarm.PrewarmReport, [report], lead={"path": log.url})


def _invalidate(command: st.InvalidateCache, context: Context) -> pa.Table:
    if command.target is None:
        return _all_caches(context, b"memory")
    log = context.log(command.target)
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
    log = context.log(st.Target(tempfile.gettempdir(), is_path=True))
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


def _clear_skips(command: st.ClearSkips, context: Context) -> pa.Table:
    log = context.log(command.target)
    return table_of([{"path": log.url, "cleared": skips.clear_skips(log, command.paths)}], _CLEARED)


def _health(command: st.DescribeHealth, context: Context) -> pa.Table:
    return rows_of(health.Health, [health.health(context.log(command.target))])


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


OPERATIONS: dict[type, Any] = {
    st.MergeSplits: _merge,
    st.Purge: _purge,
    st.DropPartitions: _drop,
    st.TruncateTimeTravel: _truncate,
    st.Restore: _restore,
    st.Reindex: _reindex,
    st.Prewarm: _prewarm,
    st.InvalidateCache: _invalidate,
    st.FlushCache: _flush,
    st.DescribeSkips: _describe_skips,
    st.ClearSkips: _clear_skips,
    st.DescribeHealth: _health,
}


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_READ_FLUSHED = msgspec.msgpack.Decoder(tuple[str, int])
