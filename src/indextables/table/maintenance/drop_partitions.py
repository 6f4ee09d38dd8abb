"""Drop partitions: every file of the partitions that a predicate selects leaves the table, in one version."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.errors import NotSupported
from indextables.log.commit import Staged, Transaction, removes_of
from indextables.log.read import Log, Snapshot
from indextables.log.wire import check_writable
from indextables.query.expr import Node, columns_of
from indextables.query.parse import parse
from indextables.query.prune import is_partition_only, prune
from indextables.table.environment import table_env
from indextables.table.read import live_rows
from indextables.table.requests import DropPartitions
from indextables.table.running import Progress, Runner
from indextables.table.writing import begun, files_inside, newest

__all__ = ["DropReport", "drop_partitions"]


class DropReport(msgspec.Struct, frozen=True):
    """What left the table, or would in a dry run. `version` is the one that says so, the newest where nothing left.

    `files` has the dropped files as logged; `rows` is None where a file does not tell.
    """

    version: int
    dry_run: bool
    files: pa.Table
    bytes: int
    rows: int | None

    @property
    def dropped(self) -> int:
        """How many files."""
        return int(self.files.num_rows)


def drop_partitions(
    log: Log,
    request: DropPartitions,
    *,
    runner: Runner | None = None,
    progress: Progress | None = None,
    pinned: Snapshot | None = None,
) -> DropReport:
    """Remove the partitions for whose values `where` is true, with all their rows; their bytes stay until purge.

    `where` may read partition columns only. Files that somebody appends to these partitions meanwhile are dropped too,
    as if the drop had come later; of a serializable table that is a conflict, counted from what the handle shows
    (`pinned`). The version before can be restored as long as it is retained.

    Raises QueryInvalid, NotSupported where `where` reads other columns or the table has no partitions, InvalidArgument
    for a file whose partition value cannot be read, CommitConflict if somebody changed rows of these partitions
    meanwhile (another partitioning changes all rows), MetadataChanged if it was the schema, CommitStateUnknown.
    """
    del runner, progress
    snapshot = newest(log)
    check_writable(snapshot.protocol, log.url)
    columns = snapshot.partition_columns
    zone = table_env(log.env, snapshot.metadata).options[opt.TIME_ZONE]
    predicate = parse(request.where, snapshot.schema, time_zone=zone)
    if not columns or not is_partition_only(predicate, columns):
        others = [name for name in columns_of(predicate) if name not in columns]
        message = (
            f"only whole partitions can be dropped, and {', '.join(others) or request.where} is not a partition column"
        )
        raise NotSupported(f"{message}: the table has {', '.join(columns) or 'none'}", columns=others)
    chosen = _inside(snapshot, predicate)
    if request.dry_run or not chosen.num_rows:
        return _report(chosen, snapshot.version, dry_run=request.dry_run)
    taken: list[pa.Table] = []

    def removed(head: Snapshot) -> Staged:
        taken[:] = [_inside(head, predicate)]
        removes = removes_of(taken[0], log.env.ambient.now_ms())
        return Staged(removes=removes, removed_rows=taken[0], metrics=_metrics(taken[0]))

    def may_match(files: pa.Table) -> bool:
        return bool(pc.any(prune(files, predicate, snapshot.schema, columns), min_count=0).as_py())

    transaction = Transaction(
        log,
        begun(log, snapshot, pinned),
        operation="DROP PARTITIONS",
        parameters={"predicate": request.where},
        table_id=snapshot.table_id,
    ).read_where(may_match)
    committed = transaction.bind(removed, replaces_range=True).commit_or_raise()
    return _report(taken[0], committed.version, dry_run=False)


def _inside(snapshot: Snapshot, predicate: Node) -> pa.Table:
    found = snapshot.files_where(lambda _: predicate)
    return files_inside(found, predicate, snapshot.schema, snapshot.partition_columns)


def _metrics(files: pa.Table) -> dict[str, str | None]:
    size = int(pc.sum(files["size"], min_count=0).as_py() or 0)
    return {"numRemovedFiles": str(files.num_rows), "numRemovedBytes": str(size)}


def _report(files: pa.Table, version: int, *, dry_run: bool) -> DropReport:
    size = pc.sum(files["size"], min_count=0).as_py() or 0
    return DropReport(version, dry_run, files, int(size), live_rows(files))
