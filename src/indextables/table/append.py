"""Rows join the table in one version, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from indextables.errors import InvalidArgument, TableNotFound
from indextables.log.commit import Transaction, queue_of, shareable
from indextables.log.read import Log, Snapshot
from indextables.log.wire import Add, Committed, Metadata, check_rows_writable
from indextables.table.after_write import Writer, after_write
from indextables.table.rows import Evolution, Rows, check_indexing, fit, merged_schema, typed_only
from indextables.table.writing import NOT_IN_THE_LOG, check_kept, discard, registered, target_of, write_adds

__all__ = ["append", "commit_append", "holds_batch", "metrics_of", "staged_write"]


def append(
    log: Log,
    snapshot: Snapshot,
    rows: Rows,
    *,
    txn: tuple[str, int] | None = None,
    along: tuple[str, int] | None = None,
    merge_schema: bool = False,
    indexing: Mapping[str, str | Mapping[str, object]] | None = None,
    user_metadata: str | None = None,
) -> Committed | None:
    """Write the rows and commit them; None if there were none.

    `txn` is (application, batch): a batch that the table holds already is not written again. `along` is a second one,
    which the same commit records. With `merge_schema` the same commit adds columns that only the data has, and widens
    types; `indexing` says how columns are indexed from then on.

    Raises SchemaMismatch before any file is written; CommitConflict if the schema changed meanwhile, then nothing
    stays; CommitStateUnknown, then nothing is deleted.
    """
    url = log.env.store.url
    check_rows_writable(snapshot.protocol, url)
    metadata = snapshot.metadata
    change = None
    if merge_schema:
        rows = typed_only(rows, snapshot.schema)
        change = merged_schema(metadata, snapshot.protocol, rows.schema, log.env.options, url=url)
        metadata = change.metadata if change is not None else metadata
    if indexing:
        from indextables.table.alter import indexed

        if any("personal" in settings for settings in indexing.values() if not isinstance(settings, str)):
            raise InvalidArgument("an append marks no column as personal, for files that are there: use set_indexing()")
        wanted = indexed(metadata, indexing)
        if wanted != metadata:
            change, metadata = Evolution(wanted, None if change is None else change.protocol), wanted
    target = target_of(metadata, log.env.over(metadata.configuration))
    check_indexing(log.env.options.from_call("indexing."), target.schema.names, "call")
    adds = write_adds(log.env, target, fit(rows, target.schema, url=url))
    if not adds and txn is None and change is None:
        return None
    return commit_append(
        log,
        metadata,
        adds,
        mapping=registered(metadata, target.plan),
        txn=txn,
        along=along,
        user_metadata=user_metadata,
        change=None if change is None else (snapshot, change),
    )


def commit_append(
    log: Log,
    metadata: Metadata,
    adds: Sequence[Add],
    *,
    mapping: Metadata | None = None,
    txn: tuple[str, int] | None = None,
    along: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    change: tuple[Snapshot, Evolution] | None = None,
    merged: Sequence[Add] = (),
    by: Writer = "process",
) -> Committed:
    """Commit files that are durable; those of several threads that say nothing of their own share a commit.

    `mapping` is the metadata with a new index plan in its registry.
    `change` is a new schema, which is `metadata`'s, and the snapshot that it was made from. `merged` are files of this
    write whose rows are in some of `adds` by now: the history tells how many. `by` says who writes.
    """
    together = len(adds)

    def stage(files: Sequence[Add]) -> Transaction:
        nonlocal together
        together = len(files)
        staged = staged_write(
            log,
            metadata,
            files,
            {"mode": "Append"},
            mapping=mapping,
            txn=txn,
            user_metadata=user_metadata,
            change=change,
            merged=merged,
        )
        return staged if along is None else staged.set_txn(*along)

    alike = shareable(
        adds,
        metadata,
        txn=txn,
        user_metadata=user_metadata,
        changes_table=mapping is not None or change is not None or bool(merged),
    )
    try:
        if alike is None:
            committed, leads = stage(adds).commit_or_raise(), True
        else:
            shared = queue_of(log).commit(alike, stage, log.url)
            committed, leads = shared.committed, shared.led
    except NOT_IN_THE_LOG:
        # Provably not in the log: nobody will ever read these files.
        discard(log.env, adds)
        raise
    if committed.repeated:
        discard(log.env, adds)
    elif leads:
        after_write(log, metadata, committed.version, together, by)
    return committed


def staged_write(
    log: Log,
    metadata: Metadata,
    adds: Sequence[Add],
    parameters: dict[str, str | None],
    *,
    mapping: Metadata | None,
    txn: tuple[str, int] | None,
    user_metadata: str | None,
    change: tuple[Snapshot, Evolution] | None,
    merged: Sequence[Add] = (),
    since: Snapshot | None = None,
) -> Transaction:
    """A transaction with what every write of rows stages, whatever it does to the rows that are there.

    `since` is the version from which an overwrite counts. Its commit raises CommitError if files are gone because
    the writer waited too long.
    """
    base = since
    if change is not None and (since is None or since.metadata != change[0].metadata):
        # A new schema made of metadata that has changed since is a conflict with that change.
        base = change[0]
    transaction = Transaction(
        log,
        base,
        operation="WRITE",
        parameters={**parameters, "partitionBy": msgspec.json.encode(metadata.partitionColumns).decode()},
        metrics=metrics_of(adds, merged),
        user_metadata=user_metadata,
        table_id=metadata.id,
        written_for=metadata if change is None else None,
    )
    transaction.add(adds).before_put(lambda staged: check_kept(log.env, staged))
    staged = mapping if mapping is not None else metadata if change is not None else None
    if staged is not None:
        transaction.set_metadata(staged)
    if change is not None and change[1].protocol is not None:
        transaction.set_protocol(change[1].protocol)
    if txn is not None:
        transaction.set_txn(*txn)
    return transaction


def holds_batch(log: Log, txn: tuple[str, int] | None) -> bool:
    """True if the newest version holds this batch of an application, or a later one. Raises LogError, StoreError.

    For who has work to spare before a commit that would be none; the commit itself finds out again.
    """
    if txn is None:
        return False
    try:
        held = log.snapshot().txns.get(txn[0])
    except TableNotFound:
        return False
    return held is not None and held.version >= txn[1]


def metrics_of(adds: Sequence[Add], merged: Sequence[Add] = ()) -> dict[str, str | None]:
    """What `commitInfo` tells about a write; `merged` are files of it that became some of `adds` before the commit."""
    metrics: dict[str, str | None] = {
        "numFiles": str(len(adds)),
        "numOutputRows": str(sum(add.numRecords or 0 for add in adds)),
        "numOutputBytes": str(sum(add.size for add in adds)),
    }
    if merged:
        metrics |= {"numMergedFiles": str(len(merged)), "numMergedBytes": str(sum(add.size for add in merged))}
    return metrics
