"""An opened table that keeps its version from cleanup and purge, where `reader.leaseHours` asks for it."""

from __future__ import annotations

import logging

from indextables import options as opt
from indextables.errors import IndexTablesError
from indextables.log.care import MAX_TTL_MS, Protection, protect_version
from indextables.log.commit import permission
from indextables.log.read import Log, Snapshot

__all__ = ["lease_if_asked"]

_LOGGER = logging.getLogger("indextables")


def lease_if_asked(log: Log, snapshot: Snapshot) -> Protection | None:
    """Announce that this version is read; None where nobody asked, or where it cannot be written (that is logged).

    Only what the caller says counts, not the table's properties: a reader who may not write must be able to open it.
    """
    hours = log.env.options[opt.READER_LEASE_HOURS]
    if not hours:
        return None
    try:
        permission.ask(log.env)
        return protect_version(
            log.env, snapshot.version, ttl_ms=min(hours * 3_600_000, MAX_TTL_MS), table_id=snapshot.table_id
        )
    except IndexTablesError as error:
        _LOGGER.warning("version %d of %s is read without protection: %s", snapshot.version, log.url, error)
        return None
