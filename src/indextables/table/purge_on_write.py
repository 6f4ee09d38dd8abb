"""Purge on write: where a table asks for it, every so many versions are followed by a purge that nobody ordered."""

from __future__ import annotations

from indextables import options as opt
from indextables.log import head
from indextables.log.snapshot import Log
from indextables.options import Options
from indextables.table.environment import table_env

__all__ = ["ends_round", "purge_is_due", "purge_unasked"]


def purge_is_due(log: Log, options: Options) -> bool:
    """True after the commit of a version that ends a round of `purgeOnWrite.triggerAfterWrites`; asks no store.

    Every version has one writer, and that one asks: no counter is needed, and no process counts for another.
    """
    known = head.recall(log)
    return known is not None and ends_round(known.version, options)


def ends_round(version: int, options: Options) -> bool:
    """True if a purge is due after this version, whoever made it. Pure."""
    if not options[opt.PURGE_ON_WRITE_ENABLED]:
        return False
    every = options[opt.PURGE_ON_WRITE_AFTER_WRITES]
    return every > 0 and version > 0 and version % every == 0


def purge_unasked(log: Log) -> int:
    """Purge with the retention for purge on write; how many objects went. One process at a time. Raises as `purge`."""
    from indextables.table.purge import purge
    from indextables.table.running import Threads

    env = table_env(log.env, log.metadata_at()[2])
    report = purge(
        log,
        older_than_hours=env.options[opt.PURGE_ON_WRITE_SPLIT_RETENTION_HOURS],
        tx_log_retention_hours=env.options[opt.PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS],
        runner=Threads(env, "maintenance"),
        parameters={"auto": "purgeOnWrite"},
    )
    return report.deleted
