"""Why a version that a writer knew is no longer there as it was: another table, a gap, or a damaged file."""

from __future__ import annotations

from indextables.errors import (
    IndexTablesError,
    LogCorrupt,
    LogError,
    LogGap,
    ObjectNotFound,
    TableNotFound,
    TableReplaced,
)
from indextables.log import head
from indextables.log.cache import LogCache
from indextables.log.codec import commit_info_of
from indextables.log.head import Head
from indextables.log.names import version_key
from indextables.log.snapshot import Log

__all__ = ["lost_ground", "replaced"]


def lost_ground(log: Log, base: Head) -> IndexTablesError:
    """The error for a commit whose base is gone or changed, with no checkpoint that explains it; the head is forgotten.

    TableReplaced where another table or none lives here, LogGap where the file is missing, LogCorrupt where it is
    damaged or was written anew. Raises StoreError.
    """
    head.forget(log)
    log.invalidate()
    version, url = base.version, log.env.store.url
    try:
        info = commit_info_of(log.env.store.get(version_key(version)), version)
    except ObjectNotFound:
        return _missing(log, base)
    except LogError as error:
        return error
    if info is None or info.tableId != base.metadata.id:
        return replaced(log, base)
    message = (
        f"the file of version {version} at {url} was written anew since this process knew it. Nothing was committed: "
        "make sure that it is the file that was committed, then try again"
    )
    return LogCorrupt(message, version=version, path=version_key(version), url=url, reason="written anew")


def replaced(log: Log, base: Head) -> TableReplaced:
    """The error for a commit that was prepared for another table; the head is forgotten."""
    head.forget(log)
    url = log.env.store.url
    message = (
        f"the table at {url} is not the one this commit was prepared for (id {base.metadata.id}): it was dropped or "
        "re-created. Nothing was committed: open it again"
    )
    return TableReplaced(message, url=url, table_id=base.metadata.id)


def _missing(log: Log, base: Head) -> IndexTablesError:
    """What is left of the log tells a dropped table from one that lost a file."""
    try:
        _, _, metadata = Log(log.env, cache=LogCache()).metadata_at()
    except TableNotFound:
        return replaced(log, base)
    except LogGap as error:
        # Without version 0 and without a checkpoint there is no table any more.
        return replaced(log, base) if error.details.get("version") == 0 else error
    except LogError as error:
        return error
    if metadata.id != base.metadata.id:
        return replaced(log, base)
    url = log.env.store.url
    message = (
        f"version {base.version}, which this commit was to follow, is missing at {url}. Nothing was committed: restore "
        "its file from a copy, or open the table again to go on from what is left"
    )
    return LogGap(message, version=base.version, url=url)
