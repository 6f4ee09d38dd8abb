"""Restore: the table becomes what it was at a version or a time, by one more commit.

Files that are live now and were not then are removed; files that were live then and are not now are added again, in the
place among the rows that they had. Nothing that lies between is undone: it stays in the history.
"""

from __future__ import annotations

import logging

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CommitConflict, IndexTablesError, StoreError, VersionExpired
from indextables.log.care import Lease, acquire, who_holds
from indextables.log.commit import Transaction, merge_registry, personal_columns, removes_of
from indextables.log.read import Log, Snapshot
from indextables.log.wire import Metadata, check_writable, combined, path_rule, vector_ids
from indextables.query.stored import stored_name
from indextables.table.arguments import millis
from indextables.table.read import placed_again
from indextables.table.requests import Restore
from indextables.table.rows import keep_ids, remembering
from indextables.table.running import Progress, Runner, Step
from indextables.table.writing import LEASE, data_keys, turned, turned_back

__all__ = ["RestoreReport", "missing_keys", "restore"]

_LOGGER = logging.getLogger("indextables")

_KEYS_PER_UNIT = 500
_UNITS_PER_SLOT = 8
"""Units that one slot of the runner does before the lease is held anew: a minute or so of questions to a store."""


class RestoreReport(msgspec.Struct, frozen=True):
    """What a restore did: the version that it made (the newest, where the table was like that already)."""

    version: int
    restored: int
    added_files: int = 0
    removed_files: int = 0
    added_bytes: int = 0
    removed_bytes: int = 0
    changed_metadata: bool = False


def restore(
    log: Log,
    request: Restore,
    *,
    runner: Runner,
    progress: Progress | None = None,
) -> RestoreReport:
    """Make the table what it was at a version, or at a time (a datetime, ISO text, or milliseconds since the epoch).

    Rows, their order, schema and properties are those of then; the protocol is never lowered, and batches of streams
    stay known; a file that `ingest --once` took since then may be taken again, and so may what was converted since.
    Every file is looked for before the commit. No purge runs meanwhile.

    Raises:
        InvalidArgument: The timestamp is none.
        VersionNotFound: There is no such version, or none that old.
        VersionExpired: It can no longer be rebuilt; `missing` names data files that are gone, where that is why.
        CommitConflict: Somebody else changed the table meanwhile, or a purge is at work. Nothing was committed.
        CommitStateUnknown: The store did not tell.
    """
    now = log.snapshot()
    check_writable(now.protocol, log.url)
    lease = acquire(log.env, LEASE)
    if lease is None:
        held = who_holds(log.env, LEASE)
        message = (
            f"a purge or another restore is at work at {log.url}: nothing was committed, try again when it is over"
        ) + ("" if held is None else f" ({held})")
        holder = None if held is None else held.holder
        raise CommitConflict(message, url=log.url, reason="a purge is at work", holder=holder)
    with lease:
        timestamp_ms = None if request.timestamp is None else millis(request.timestamp)
        then = log.snapshot(request.version, timestamp_ms=timestamp_ms)
        return _restored(log, then, log.snapshot(), lease, runner, progress)


def missing_keys(env: Env, unit: bytes) -> bytes:
    """Job: which of these keys are not there. Raises StoreError."""
    keys = _KEYS.decode(unit)
    there = env.ambient.map("splits", env.store.exists, keys)
    return msgspec.msgpack.encode([key for key, found in zip(keys, there, strict=True) if not found])


def _restored(
    log: Log, then: Snapshot, now: Snapshot, lease: Lease, runner: Runner, progress: Progress | None
) -> RestoreReport:
    comes, goes = _difference(then.files, now.files)
    metadata = _metadata(then, now)
    turns = turned(then.txns, now.txns)
    converted = turned_back(then.domains, now.domains)
    if not (comes.num_rows or goes.num_rows or metadata is not None or turns or converted is not None):
        return RestoreReport(now.version, then.version)
    _check_there(log, then.version, comes, lease, runner, progress)
    report = RestoreReport(
        now.version,
        then.version,
        added_files=comes.num_rows,
        removed_files=goes.num_rows,
        added_bytes=_bytes(comes),
        removed_bytes=_bytes(goes),
        changed_metadata=metadata is not None,
    )
    metrics: dict[str, str | None] = {
        "numRestoredFiles": str(report.added_files),
        "numRemovedFiles": str(report.removed_files),
        "restoredFilesSize": str(report.added_bytes),
        "removedFilesSize": str(report.removed_bytes),
    }
    transaction = Transaction(
        log,
        now,
        operation="RESTORE",
        parameters={"version": str(then.version)},
        metrics=metrics,
        isolation="Serializable",
    ).read_all()
    if comes.num_rows:
        transaction.add(placed_again(comes))
    if goes.num_rows:
        transaction.remove(removes_of(goes, log.env.ambient.now_ms()), rows=goes)
    if metadata is not None:
        transaction.set_metadata(metadata)
    if converted is not None:
        transaction.set_domain(converted)
    for name, batch in turns.items():
        transaction.set_txn(name, batch)
    transaction.before_put(lambda _: _hold(log, lease))
    committed = transaction.commit_or_raise()
    if committed.repeated:
        message = f"a file was ingested again at {log.url} while it was restored: nothing was committed, try again"
        raise CommitConflict(message, url=log.url, reason="the table was changed meanwhile")
    _check_still_there(log, committed.version, comes, lease, runner)
    if progress is not None:
        progress(Step("commit", 1, 1, files=report.added_files + report.removed_files))
    return msgspec.structs.replace(report, version=committed.version)


def _difference(then: pa.Table, now: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What has to come and to go; a file with another deletion vector does both."""
    was, is_now = _identities(then), _identities(now)
    return then.filter(pc.invert(pc.is_in(was, value_set=is_now))), now.filter(
        pc.invert(pc.is_in(is_now, value_set=was))
    )


def _identities(files: pa.Table) -> pa.Array:
    """Path and vector of each file as one text."""
    vectors = pc.fill_null(vector_ids(files["deletionVector"]), "")
    return pc.binary_join_element_wise(combined(files["path"]), vectors, "\n")


def _metadata(then: Snapshot, now: Snapshot) -> Metadata | None:
    """Schema and properties of then, with every index plan and partitioning that is known by now; None if the same."""
    wanted = keep_ids(merge_registry(then.metadata, now.metadata), now.metadata)
    wanted = _mirrored_as(remembering(wanted, now.metadata), now.metadata)
    wanted = _as_personal(wanted, then, now)
    return None if wanted == now.metadata else wanted


def _as_personal(wanted: Metadata, then: Snapshot, now: Snapshot) -> Metadata:
    """A column that is personal by now stays so: its values are no less personal because older rows come back."""
    names = {*personal_columns(now.metadata.configuration)}
    columns = {stored_name(field) for field in now.schema if field.name.lower() in names}
    known = {*personal_columns(wanted.configuration)}
    marked = [field.name for field in then.schema if field.name.lower() in known or stored_name(field) in columns]
    if {name.lower() for name in marked} == known:
        return wanted
    key = opt.INDEXING_PERSONAL.key
    same = {name for name in wanted.configuration if name.lower().removeprefix(opt.PREFIX) == key.lower()}
    others = {name: value for name, value in wanted.configuration.items() if name not in same}
    return msgspec.structs.replace(wanted, configuration={**others, key: ",".join(marked)})


def _mirrored_as(wanted: Metadata, now: Metadata) -> Metadata:
    """Whether the table has a mirror is no part of what it was: the mirror lies there or not."""
    key = opt.MIRROR_DELTA.key
    configuration = {name: value for name, value in wanted.configuration.items() if name != key}
    if key in now.configuration:
        configuration[key] = now.configuration[key]
    return (
        wanted
        if configuration == wanted.configuration
        else msgspec.structs.replace(wanted, configuration=configuration)
    )


def _check_there(
    log: Log, version: int, files: pa.Table, lease: Lease, runner: Runner, progress: Progress | None
) -> None:
    """Raises VersionExpired if a file that is to come back is gone, CommitConflict if the lease is."""
    missing = _missing(log, files, lease, runner, progress)
    if missing:
        message = (
            f"version {version} of {log.url} cannot be restored: {len(missing)} of its data files are gone "
            f"({_some(missing)}). Nothing was committed"
        )
        raise VersionExpired(message, version=version, missing=missing, url=log.url)


def _check_still_there(log: Log, version: int, files: pa.Table, lease: Lease, runner: Runner) -> None:
    """Raises VersionExpired if the commit came so late that a purge had begun, and that has taken files of it."""
    try:
        if lease.is_held():
            return
    except StoreError as error:
        _LOGGER.warning("whether a purge has begun at %s while it was restored is not known: %s", log.url, error)
        return
    missing = _missing(log, files, None, runner)
    if missing:
        message = (
            f"version {version} of {log.url} was committed after a purge had begun, because this restore stalled, and "
            f"{len(missing)} of its data files are gone ({_some(missing)}): restore version {version - 1}"
        )
        raise VersionExpired(message, version=version, missing=missing, url=log.url)


def _missing(
    log: Log, files: pa.Table, lease: Lease | None, runner: Runner, progress: Progress | None = None
) -> list[str]:
    """The keys that are not there.

    The lease is held anew after every round of looking, so that nobody deletes what was found before the commit.
    """
    if not files.num_rows:
        return []
    keys = data_keys(files, log.url, path_rule(log.metadata_at().protocol))
    missing: list[str] = []
    size = _KEYS_PER_UNIT * _UNITS_PER_SLOT * max(1, runner.width)
    for start in range(0, len(keys), size):
        part = keys.slice(start, size)
        places = range(0, len(part), _KEYS_PER_UNIT)
        units = [msgspec.msgpack.encode(part.slice(place, _KEYS_PER_UNIT).to_pylist()) for place in places]
        for answer in runner.run(missing_keys, units):
            if isinstance(answer, IndexTablesError):
                raise answer
            missing += _READ_LIST_STR.decode(answer)
        if lease is not None:
            _hold(log, lease)
        if progress is not None:
            progress(Step("check", start + len(part), len(keys), files=start + len(part)))
    return missing


def _hold(log: Log, lease: Lease) -> None:
    """Hold the lease for its whole time again. Raises CommitConflict if it is over."""
    if not lease.is_held():
        message = f"a purge may have begun at {log.url}, because this restore took too long: nothing was committed"
        raise CommitConflict(message, url=log.url, reason="a purge is at work")
    lease.renew()


def _some(keys: list[str]) -> str:
    return ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")


def _bytes(files: pa.Table) -> int:
    return int(pc.sum(files["size"], min_count=0).as_py() or 0)


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_KEYS = msgspec.msgpack.Decoder(list[str])
_READ_LIST_STR = msgspec.msgpack.Decoder(list[str])
