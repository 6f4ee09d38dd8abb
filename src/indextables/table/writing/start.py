"""From which version on does an overwrite look for others that overlap with it?"""

from __future__ import annotations

from indextables import options as opt
from indextables.errors import CommitConflict, VersionExpired, VersionNotFound
from indextables.log.read import Log, Snapshot

__all__ = ["begun", "begun_at", "newest"]


def begun(log: Log, now: Snapshot, pinned: Snapshot | None = None, *, txn: tuple[str, int] | None = None) -> Snapshot:
    """What an overwrite counts from that began when `now` was the newest version: that one.

    Of a serializable table it is what the handle shows (`pinned`), since the rows may have been computed from that;
    but a batch (`txn`) that the table holds by now is a repetition, whatever came since. Raises LogError.
    """
    if pinned is None or pinned.table_id != now.table_id:
        return now
    if log.env.over(now.metadata.configuration)[opt.ISOLATION_LEVEL] != "serializable":
        return now
    held = None if txn is None else now.txns.get(txn[0])
    return now if txn is not None and held is not None and held.version >= txn[1] else pinned


def begun_at(log: Log, version: int) -> Snapshot:
    """What an overwrite that began at `version` counts from.

    Raises CommitConflict where that is gone: nobody can tell what came since. As `Log.snapshot` else.
    """
    try:
        return log.snapshot(version)
    except VersionExpired as error:
        message = (
            f"version {version} of {log.url}, at which this overwrite began, was cleaned up, so that nobody can "
            "tell whether another one came between. Nothing was committed: repeat it, or retain the log for longer"
        )
        raise CommitConflict(message, version=version, url=log.url) from error
    except VersionNotFound:
        # Another, younger table: whoever commits compares the ids.
        return newest(log)


def newest(log: Log) -> Snapshot:
    """The newest version as of now, however stale reads may be. Raises as `Log.snapshot`."""
    if log.env.options[opt.MAX_STALENESS_MS]:
        log.look_again()
    return log.snapshot()
