"""Gives the rows of a table their ids that was made before there were any: one commit that names every file again."""

from __future__ import annotations

import pyarrow as pa

from indextables import options as opt
from indextables.errors import CommitConflict, InvalidArgument
from indextables.log.commit import Transaction, removes_of
from indextables.log.read import Log, Snapshot
from indextables.log.wire import ROW_TRACKING, check_rows_writable, tracks_rows, with_feature
from indextables.table.read import placed_again

__all__ = ["enable_row_tracking"]


def enable_row_tracking(log: Log, *, user_metadata: str | None = None) -> int:
    """Let every row of the newest version have an id; the version from which on they have. No data file is touched.

    A table whose rows have ids stays as it is. Where somebody else commits at the same time, it starts again.

    Raises NotSupported for tables of another system, InvalidArgument for a file that does not tell its rows,
    CommitConflict, CommitStateUnknown, LogError, StoreError.
    """
    attempts = max(1, log.env.options[opt.TRANSACTION_RETRY_MAX_ATTEMPTS])
    for left in range(attempts - 1, -1, -1):
        snapshot = log.snapshot()
        if tracks_rows(snapshot.protocol):
            return snapshot.version
        try:
            return _once(log, snapshot, user_metadata)
        except CommitConflict:
            if not left:
                raise
    raise AssertionError("it is tried once at least")


def _once(log: Log, snapshot: Snapshot, user_metadata: str | None) -> int:
    check_rows_writable(snapshot.protocol, log.url)
    files = snapshot.files
    if files["numRecords"].null_count:
        message = f"a file at {log.url} does not tell how many rows it has: rebuild the log first"
        raise InvalidArgument(message, url=log.url)
    transaction = Transaction(
        log,
        snapshot,
        operation="ENABLE ROW TRACKING",
        metrics={"numFiles": str(files.num_rows)},
        user_metadata=user_metadata,
        isolation="Serializable",
    ).read_all()
    transaction.set_protocol(with_feature(snapshot.protocol, ROW_TRACKING))
    if files.num_rows:
        # The same files at the same places among the rows: nothing that a reader sees is another.
        transaction.add(_unchanged(placed_again(files)))
        transaction.remove(_unchanged(removes_of(files, log.env.ambient.now_ms())), rows=files)
    return transaction.commit_or_raise().version


def _unchanged(entries: pa.Table) -> pa.Table:
    """The entries, which say that no data changes."""
    at = entries.column_names.index("dataChange")
    return entries.set_column(at, "dataChange", pa.repeat(pa.scalar(value=False), entries.num_rows))
