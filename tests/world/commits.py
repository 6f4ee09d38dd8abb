"""Commits that tests make: files, metadata and skips that nobody wrote or found, in one version each."""

from __future__ import annotations

from collections.abc import Mapping

from indextables.log.commit.staged import Files, Staged, removes_of
from indextables.log.commit.transaction import Transaction
from indextables.log.read import Log, Snapshot
from indextables.log.wire import Committed, MergeSkip, Metadata

__all__ = ["append", "change_metadata", "overwrite", "record_skip"]

_HOUR_MS = 3_600_000


def append(
    log: Log,
    adds: Files,
    *,
    txn: tuple[str, int] | None = None,
    operation: str = "WRITE",
    parameters: Mapping[str, str | None] | None = None,
    table_id: str | None = None,
) -> Committed:
    """Add files, in one version and without reading any. Never gives up against other writers.

    `txn` is (application id, batch number): a batch that the table holds already is not written again.
    """
    given = {"mode": "Append"} if parameters is None else parameters
    tx = Transaction(log, operation=operation, parameters=given, table_id=table_id).add(adds)
    if txn is not None:
        tx.set_txn(*txn)
    return tx.commit_or_raise()


def overwrite(
    log: Log,
    adds: Files,
    *,
    txn: tuple[str, int] | None = None,
    parameters: Mapping[str, str | None] | None = None,
    metadata: Metadata | None = None,
    table_id: str | None = None,
) -> Committed:
    """Replace every live file by `adds` (or by nothing), in one version.

    The removes are those of the version that the commit goes on top of, so that an append which won the race is
    replaced too. Raises CommitConflict if the winner removed or replaced rows.
    """
    given = {"mode": "Overwrite"} if parameters is None else parameters
    tx = Transaction(log, operation="WRITE", parameters=given, table_id=table_id).add(adds)
    if metadata is not None:
        tx.set_metadata(metadata)
    if txn is not None:
        tx.set_txn(*txn)

    def remove_all(snapshot: Snapshot) -> Staged:
        files = snapshot.files
        return Staged(removes=removes_of(files, log.env.ambient.now_ms()), removed_rows=files)

    return tx.bind(remove_all, replaces_range=True).commit_or_raise()


def change_metadata(
    log: Log, metadata: Metadata, *, operation: str = "SET TBLPROPERTIES", snapshot: Snapshot | None = None
) -> Committed:
    """Replace the metadata; id and time of creation must be the table's. Raises MetadataChanged on a lost race."""
    return Transaction(log, snapshot, operation=operation).set_metadata(metadata).commit_or_raise()


def record_skip(
    log: Log,
    path: str,
    reason: str,
    operation: str,
    *,
    partition_values: Mapping[str, str | None] | None = None,
    size: int | None = None,
    cooldown_hours: float = 24,
) -> int:
    """Record that a file could not be merged; the version that says so. The file stays live and readable.

    It is left alone until `cooldown_hours` from now; its count is one more than the highest so far.
    """
    now_ms = log.env.ambient.now_ms()

    def count(snapshot: Snapshot) -> Staged:
        before = snapshot.skips.get(path)
        skip = MergeSkip(
            path=path,
            skipTimestamp=now_ms,
            reason=reason,
            operation=operation,
            partitionValues=None if partition_values is None else dict(partition_values),
            size=size,
            retryAfter=now_ms + round(cooldown_hours * _HOUR_MS),
            skipCount=1 if before is None else before.skipCount + 1,
        )
        return Staged(skips=(skip,))

    return Transaction(log, operation="SKIP").bind(count).commit_or_raise().version
