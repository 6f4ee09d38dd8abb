"""What a table does for itself after a write, where its properties ask for it. It never fails a write.

In the background (the default) a write does not wait either: what is due is found out there, too. One such work runs
at a time per table, in this process by a set of places, across processes by a lease.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from indextables import options as opt
from indextables import process
from indextables.env import Env
from indextables.errors import IndexTablesError, InvalidArgument
from indextables.log.care import acquire
from indextables.log.commit import head
from indextables.log.read import Log
from indextables.log.wire import Metadata
from indextables.options import Options
from indextables.table.environment import table_env

if TYPE_CHECKING:
    from indextables.table.merge import Limits

__all__ = ["LEASE", "after_write", "merge_if_due"]

_LOGGER = logging.getLogger("indextables")

LEASE = "merge"
"""The lease of whoever merges unasked."""

_NOT_THE_WRITES = (IndexTablesError, OSError, MemoryError, RuntimeError)
"""What goes wrong after a write, also for want of threads, memory or disk: the rows are committed by then, and who was
told otherwise would write them again."""

_BUSY: set[str] = set()

_MEMORY = process.declare(
    process.Memory(
        name="work after writes",
        where=f"{__name__}._BUSY",
        key="URL of the table",
        bound="what runs",
        fork="the child forgets it: it runs in the parent, whose lease other processes heed",
        ends="when the work ends",
        after_fork=_BUSY.clear,
    )
)


def after_write(log: Log, metadata: Metadata) -> None:
    """To be called when a write is committed. `metadata` is the table's, for its properties."""
    options = log.env.over(metadata.configuration)
    merges, purges = options[opt.MERGE_ON_WRITE_ENABLED], _purge_is_due(log, options)
    if not (merges or purges) or not _begin(log.url):
        return
    is_handed_over = False
    try:
        merges_later, purges_later = options[opt.MERGE_ON_WRITE_ASYNC], options[opt.PURGE_ON_WRITE_ASYNC]
        if (merges and not merges_later) or (purges and not purges_later):
            # The write waits for what it is asked to wait for, and for nothing else.
            purges = _at_once(log, merges=merges and not merges_later, purges=purges, purges_later=purges_later)
        merges = merges and merges_later
        if merges or purges:
            log.env.ambient.submit("maintenance", lambda: _quietly(log, merges=merges, purges=purges))
            is_handed_over = True
    except RuntimeError as error:
        # The interpreter is about to end and takes no more work: the next write will find it due.
        _LOGGER.info("nothing is merged or purged at %s now: %s", log.url, error)
    finally:
        # Also where somebody interrupts it: later writes of this process look again.
        if not is_handed_over:
            _end(log.url)


def merge_if_due(log: Log) -> list[int]:
    """Merge small splits if there are too many; the versions that this made.

    Nothing is done while another process does it. Raises as `merge_splits`.
    """
    # Most writes never get here: what merging needs is loaded when it is needed.
    from indextables.log.commit import retry_times
    from indextables.table.merge import merge_splits, plan_groups
    from indextables.table.requests import MergeSplits
    from indextables.table.running import Threads

    snapshot = log.snapshot()
    env = table_env(log.env, snapshot.metadata)
    limits = _limits(env)
    cooling = retry_times(snapshot, env.ambient.now_ms())
    if not plan_groups(snapshot.files, snapshot.partition_columns, cooling, limits).groups:
        return []
    lease = acquire(env, LEASE, ttl_ms=env.options[opt.MERGE_LEASE_SECONDS] * 1000)
    if lease is None:
        return []
    with lease:
        report = merge_splits(
            log,
            MergeSplits(),
            runner=Threads(env, "maintenance"),
            # A lease that somebody took over ends this: what is committed stays.
            progress=lambda _: lease.renew(),
            limits=limits,
            parameters={"auto": "mergeOnWrite"},
        )
    return report.versions


def _quietly(log: Log, *, merges: bool, purges: bool) -> None:
    """What is due, in the background."""
    try:
        _at_once(log, merges=merges, purges=purges, purges_later=False)
    finally:
        _end(log.url)


def _at_once(log: Log, *, merges: bool, purges: bool, purges_later: bool) -> bool:
    """Merge, then purge if that is due, by itself or after the merge; True if it is left for later."""
    try:
        merged = _merged(log) if merges else []
        due = purges or bool(merged and _purges_after(log, merged))
        if due and not purges_later:
            _purge_unasked(log)
    except _NOT_THE_WRITES as error:
        _LOGGER.warning("%s was not purged after a write: %s", log.url, str(error) or type(error).__name__)
        return False
    return due and purges_later


def _merged(log: Log) -> list[int]:
    try:
        return merge_if_due(log)
    except _NOT_THE_WRITES as error:
        _LOGGER.warning(
            "small splits of %s were not merged after a write: %s", log.url, str(error) or type(error).__name__
        )
        return []


def _purges_after(log: Log, merged: list[int]) -> bool:
    """True if these versions of a merge are followed by a purge.

    Where every write is followed by a merge, the rounds may all end with versions of merges.
    """
    options = table_env(log.env, log.metadata_at().metadata).options
    wanted = options[opt.PURGE_ON_WRITE_ENABLED] and options[opt.PURGE_ON_WRITE_AFTER_MERGE]
    return wanted or any(_ends_round(version, options) for version in merged)


def _limits(env: Env) -> Limits:
    from indextables.table.merge import Limits

    options = env.options
    return Limits(
        target_bytes=options[opt.MERGE_TARGET_SIZE],
        max_sources=options[opt.MERGE_MAX_SOURCES],
        memory_bytes=options[opt.SPLIT_MEMORY_BUDGET],
        max_groups=options[opt.MERGE_ON_WRITE_MAX_GROUPS],
        min_sources=options[opt.MERGE_ON_WRITE_MIN_SPLITS],
        small_bytes=options[opt.MERGE_ON_WRITE_SMALL_SIZE],
    )


def _purge_is_due(log: Log, options: Options) -> bool:
    try:
        return _ends_round_of(log, options)
    except InvalidArgument as error:
        _LOGGER.warning("%s was not purged after a write: %s", log.url, error)
        return False


def _begin(url: str) -> bool:
    """True if this process does not do it already."""
    with _MEMORY.lock:
        if url in _BUSY:
            return False
        _BUSY.add(url)
        return True


def _end(url: str) -> None:
    with _MEMORY.lock:
        _BUSY.discard(url)


def _ends_round_of(log: Log, options: Options) -> bool:
    """True after the commit of a version that ends a round of `purgeOnWrite.triggerAfterWrites`; asks no store.

    Every version has one writer, and that one asks: no counter is needed, and no process counts for another.
    """
    known = head.recall(log)
    return known is not None and _ends_round(known.version, options)


def _ends_round(version: int, options: Options) -> bool:
    """True if a purge is due after this version, whoever made it. Pure."""
    if not options[opt.PURGE_ON_WRITE_ENABLED]:
        return False
    every = options[opt.PURGE_ON_WRITE_AFTER_WRITES]
    return every > 0 and version > 0 and version % every == 0


def _purge_unasked(log: Log) -> int:
    """Purge with the retention for purge on write; how many objects went. One process at a time. Raises as `purge`."""
    from indextables.table.maintenance.purge import purge
    from indextables.table.requests import Purge
    from indextables.table.running import Threads

    env = table_env(log.env, log.metadata_at().metadata)
    report = purge(
        log,
        Purge(
            older_than_hours=env.options[opt.PURGE_ON_WRITE_SPLIT_RETENTION_HOURS],
            tx_log_retention_hours=env.options[opt.PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS],
        ),
        runner=Threads(env, "maintenance"),
        parameters={"auto": "purgeOnWrite"},
    )
    return report.deleted
