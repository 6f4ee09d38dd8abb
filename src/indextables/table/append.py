"""Rows join the table in one version, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.errors import CommitError
from indextables.log.actions import Add, Metadata
from indextables.log.outcome import Committed
from indextables.log.protocol import check_rows_writable
from indextables.log.snapshot import Log, Snapshot
from indextables.log.transaction import Transaction
from indextables.table.rows import Rows
from indextables.table.write import discard, registered, target_of, write_adds

__all__ = ["append", "commit_append", "metrics_of"]


def append(log: Log, snapshot: Snapshot, rows: Rows, *, txn: tuple[str, int] | None = None) -> Committed | None:
    """Write the rows and commit them; None if there were none.

    `txn` is (application, batch): a batch that the table holds already is not written again.

    Raises SchemaMismatch before any file is written; CommitConflict if the schema changed meanwhile, then nothing
    stays; CommitStateUnknown, then nothing is deleted.
    """
    check_rows_writable(snapshot.protocol, log.env.store.url)
    metadata = snapshot.metadata
    target = target_of(metadata, log.env.options.over(metadata.configuration))
    adds = write_adds(log.env, target, rows)
    if not adds and txn is None:
        return None
    return commit_append(log, metadata, adds, mapping=registered(metadata, target.plan), txn=txn)


def commit_append(
    log: Log,
    metadata: Metadata,
    adds: Sequence[Add],
    *,
    mapping: Metadata | None = None,
    txn: tuple[str, int] | None = None,
) -> Committed:
    """Commit files that are durable. `mapping` is the metadata with a new index plan in its registry."""
    transaction = Transaction(
        log, operation="WRITE", parameters={"mode": "Append"}, metrics=metrics_of(adds), table_id=metadata.id
    ).add(adds)
    if mapping is not None:
        transaction.set_metadata(mapping)
    if txn is not None:
        transaction.set_txn(*txn)
    try:
        committed = transaction.commit_or_raise()
    except CommitError:
        # Provably not in the log: nobody will ever read these files.
        discard(log.env, adds)
        raise
    if committed.repeated:
        discard(log.env, adds)
    return committed


def metrics_of(adds: Sequence[Add]) -> dict[str, str | None]:
    """What `commitInfo` tells about a write."""
    return {
        "numFiles": str(len(adds)),
        "numOutputRows": str(sum(add.numRecords or 0 for add in adds)),
        "numOutputBytes": str(sum(add.size for add in adds)),
    }
