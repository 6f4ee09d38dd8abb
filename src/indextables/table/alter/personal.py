"""Takes the bounds of personal columns out of the log, in a table whose files were written before they were marked."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from indextables import options as opt
from indextables.errors import CommitConflict
from indextables.lazy import pc
from indextables.log.commit import Transaction, personal_columns, removes_of
from indextables.log.read import Log, Snapshot
from indextables.query.stats import map_values
from indextables.query.stored import stored_name
from indextables.table.read import placed_again

__all__ = ["forget_bounds", "marks_personal"]


def marks_personal(properties: Mapping[str, str]) -> bool:
    """True if these properties say which columns are personal."""
    return bool(personal_columns(properties))


def forget_bounds(log: Log) -> int:
    """Name the files again whose entries hold bounds of personal columns; the version that has none.

    No data file is touched. Versions below keep their bounds until cleanup takes them; `truncate_time_travel` does that
    at once. Raises CommitConflict, CommitStateUnknown, LogError, StoreError.
    """
    attempts = max(1, log.env.options[opt.TRANSACTION_RETRY_MAX_ATTEMPTS])
    for left in range(attempts - 1, -1, -1):
        snapshot = log.snapshot()
        files = _with_bounds(snapshot)
        if not files.num_rows:
            return snapshot.version
        try:
            transaction = Transaction(log, snapshot, operation="FORGET BOUNDS", isolation="Serializable").read_all()
            # The commit itself leaves the bounds out.
            transaction.add(_unchanged(placed_again(files)))
            transaction.remove(_unchanged(removes_of(files, log.env.ambient.now_ms())), rows=files)
            return transaction.commit_or_raise().version
        except CommitConflict:
            if not left:
                raise
    raise AssertionError("it is tried once at least")


def _with_bounds(snapshot: Snapshot) -> pa.Table:
    files, names = snapshot.files, set(personal_columns(snapshot.metadata.configuration))
    stored = [stored_name(field) for field in snapshot.schema if field.name.lower() in names]
    told = pa.repeat(pa.scalar(value=False), files.num_rows)
    for column in ("minValues", "maxValues"):
        for name in stored:
            told = pc.or_(told, map_values(files[column], name).is_valid())
    return files.filter(told)


def _unchanged(entries: pa.Table) -> pa.Table:
    """The entries, which say that no data changes."""
    at = entries.column_names.index("dataChange")
    return entries.set_column(at, "dataChange", pa.repeat(pa.scalar(value=False), entries.num_rows))
