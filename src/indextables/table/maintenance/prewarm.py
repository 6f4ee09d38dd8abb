"""Caches by hand: load indexes before they are searched, and forget what is kept.

On a cluster every machine has a cache of its own. Units are spread over the tasks that run at the same time, and Spark
decides where each runs: a split may be warmed on one machine and searched on another, which costs a read and no more.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables import process
from indextables.env import Env
from indextables.errors import IndexTablesError, ObjectNotFound, SplitError
from indextables.log.read import Log
from indextables.query.parse import parse
from indextables.split.file import PAGES, SEGMENT_PARTS, SplitRef
from indextables.split.index import IndexPlan
from indextables.split.search import FAST, FIELDNORM, IDX, POS, TERM
from indextables.table.environment import table_env
from indextables.table.read import check_rows_readable, column_names, prune_files, refs_of, shared_index_cache
from indextables.table.requests import Prewarm
from indextables.table.running import Answer, Job, Progress, Runner, Step
from indextables.table.writing import target_of

__all__ = ["CacheReport", "PrewarmReport", "flush_caches", "invalidate_caches", "prewarm"]

_SPLITS_PER_UNIT = 16


class PrewarmReport(msgspec.Struct, frozen=True):
    """What was loaded: `splits` that are warm now, `bytes` read for it, components loaded, `failed` paths with why."""

    version: int
    splits: int
    bytes: int
    components: list[str]
    failed: dict[str, str] = {}


class CacheReport(msgspec.Struct, frozen=True):
    """Which processes (`host:pid`) have forgotten what they kept, and how many bytes of indexes went from disks."""

    processes: list[str]
    bytes: int = 0


class _Unit(msgspec.Struct, frozen=True):
    refs: list[SplitRef]
    components: list[str]


class _Warmed(msgspec.Struct, frozen=True):
    splits: int
    bytes: int
    failed: dict[str, str]


class _Flushed(msgspec.Struct, frozen=True):
    process: str
    bytes: int


def prewarm(
    log: Log,
    request: Prewarm,
    *,
    runner: Runner,
    progress: Progress | None = None,
) -> PrewarmReport:
    """Load indexes of the newest version into the cache.

    Those of the splits that may hold rows for which `where` is true, and of them what searches on `columns` read
    (default: on any).
    A split whose index cannot be loaded is named in the report; it is searched by its rows all the same.

    Raises QueryInvalid, InvalidArgument for a column that is not there, NotSupported, LogError, StoreError.
    """
    snapshot = log.snapshot()
    check_rows_readable(snapshot, log.url)
    env = table_env(log.env, snapshot.metadata)
    names = None if request.columns is None else column_names(snapshot.schema, request.columns)
    zone = env.options[opt.TIME_ZONE]
    predicate = None if request.where is None else parse(request.where, snapshot.schema, time_zone=zone)
    wanted = components_of(target_of(snapshot.metadata, env.options).plan, names)
    files = _without_vectors(prune_files(snapshot, predicate))
    splits = read = 0
    failed: dict[str, str] = {}
    size = _SPLITS_PER_UNIT * max(1, 4 * runner.width)
    for start in range(0, files.num_rows, size):
        refs = refs_of(env, files.slice(start, size), snapshot.schema)
        places = range(0, len(refs), _SPLITS_PER_UNIT)
        units = [msgspec.msgpack.encode(_Unit(refs[place : place + _SPLITS_PER_UNIT], wanted)) for place in places]
        for answer in runner.run(warm_unit, units):
            if isinstance(answer, IndexTablesError):
                raise answer
            done = _READ_WARMED.decode(answer)
            splits, read, failed = splits + done.splits, read + done.bytes, failed | done.failed
        if progress is not None:
            progress(Step("prewarm", start + len(refs), files.num_rows, bytes=read, files=splits))
    return PrewarmReport(snapshot.version, splits, read, wanted, failed)


def flush_caches(log: Log, *, runner: Runner, progress: Progress | None = None) -> CacheReport:
    """Delete every cached index from the disks, and forget what is in memory about this table. Results do not change.

    On a cluster twice as many tasks are asked as run at the same time. Who runs them is Spark's choice: a busy executor
    may get none and keeps what it has; `processes` of the report tells who answered. The folder of the cache is shared
    by the processes of a machine. Raises InvalidArgument for a cache folder that cannot be used.
    """
    del progress
    return _everywhere(log, runner, flush_unit)


def invalidate_caches(log: Log, *, runner: Runner, progress: Progress | None = None) -> CacheReport:
    """Forget what is in memory about this table, here and in a cluster. Results do not change.

    As for `flush_caches`, no executor is sure to be asked.
    """
    del progress
    return _everywhere(log, runner, invalidate_unit)


def components_of(plan: IndexPlan, columns: Sequence[str] | None) -> list[str]:
    """The parts of an index that searches on these columns may read. Pure."""
    if columns is None:
        return sorted({*SEGMENT_PARTS, PAGES} - {"store"})
    found = {PAGES}
    for field in plan.fields:
        if field.column not in columns:
            continue
        if field.indexed:
            found |= {TERM, IDX}
        if field.kind in {"text", "json"}:
            found |= {FIELDNORM, *({POS} if field.record == "position" else ())}
        if field.fast:
            found.add(FAST)
    return sorted(found)


def warm_unit(env: Env, unit: bytes) -> bytes:
    """Job: load some splits into the cache of this machine. Raises StoreError."""
    work = _UNIT.decode(unit)
    cache = shared_index_cache(env.options, env.ambient)
    before = cache.stats.bytes_read

    def one(ref: SplitRef) -> str | None:
        try:
            cache.load(env.store, ref, work.components)
        except (SplitError, ObjectNotFound) as error:
            return str(error)
        return None

    told = list(env.ambient.map("splits", one, work.refs))
    failed = {ref.key: why for ref, why in zip(work.refs, told, strict=True) if why is not None}
    return msgspec.msgpack.encode(_Warmed(len(told) - len(failed), cache.stats.bytes_read - before, failed))


def flush_unit(env: Env, unit: bytes) -> bytes:
    """Job: empty the cache of this machine, and forget the table in this process."""
    del unit
    cache = shared_index_cache(env.options, env.ambient)
    size = cache.measure().size_bytes
    cache.flush()
    process.forget(env.store.url)
    return msgspec.msgpack.encode(_Flushed(_process(), size))


def invalidate_unit(env: Env, unit: bytes) -> bytes:
    """Job: forget the table in this process."""
    del unit
    process.forget(env.store.url)
    return msgspec.msgpack.encode(_Flushed(_process(), 0))


def _without_vectors(files: pa.Table) -> pa.Table:
    """The files as if no row of them were deleted: an index is the same with and without."""
    place = files.schema.get_field_index("deletionVector")
    return files.set_column(place, files.schema.field(place), pa.nulls(files.num_rows, files.schema.types[place]))


def _everywhere(log: Log, runner: Runner, job: Job) -> CacheReport:
    log.invalidate()
    answers: list[Answer] = [job(log.env, b"")]
    answers += runner.run(job, [b""] * max(1, 2 * runner.width))
    processes: list[str] = []
    size = 0
    for answer in answers:
        if isinstance(answer, IndexTablesError):
            raise answer
        done = _READ_FLUSHED.decode(answer)
        size += done.bytes
        if done.process not in processes:
            processes.append(done.process)
    return CacheReport(processes, size)


def _process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_UNIT = msgspec.msgpack.Decoder(_Unit)
_READ_WARMED = msgspec.msgpack.Decoder(_Warmed)
_READ_FLUSHED = msgspec.msgpack.Decoder(_Flushed)
