"""Rows replace the table's, all of them or those of some partitions, in one version."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.errors import InvalidArgument, NotSupported
from indextables.log.commit import Staged, removes_of
from indextables.log.read import Log, Snapshot
from indextables.log.wire import Add, Committed, Metadata, check_rows_writable, schema_from_json
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.query.parse import parse
from indextables.query.prune import is_partition_only
from indextables.table.after_write import Writer, after_write
from indextables.table.append import staged_write
from indextables.table.arguments import PartitionMode
from indextables.table.rows import (
    Evolution,
    FittedRows,
    Rows,
    check_indexing,
    check_merge_options,
    fit,
    merged_schema,
    replaced_schema,
    typed_only,
)
from indextables.table.writing import (
    NOT_IN_THE_LOG,
    AllRows,
    Partitions,
    Range,
    Where,
    begun_at,
    discard,
    files_inside,
    registered,
    target_of,
    write_adds,
)

__all__ = [
    "check_replaceable",
    "commit_overwrite",
    "files_inside",
    "only_inside",
    "overwrite",
]


def overwrite(
    log: Log,
    snapshot: Snapshot,
    rows: Rows,
    *,
    since: Snapshot,
    where: Node | None = None,
    text: str = "",
    partitions: PartitionMode = "static",
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    partition_by: Sequence[str] | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
) -> Committed:
    """Replace every row, every row for which `where` is true, or those of the partitions that `rows` are in.

    `where` may read partition columns only, so that whole files are replaced, and all new rows must satisfy it; `text`
    is what it was parsed from. With `merge_schema` the commit adds columns and widens types; with `overwrite_schema`,
    which replaces all rows, the schema of the data becomes the table's, and `partition_by` its partitioning. `since`
    is where the overwrite began (`begun`).

    Raises SchemaMismatch and InvalidArgument before anything is committed, NotSupported for other predicates,
    CommitConflict if somebody replaced, changed or removed rows in the range since it began, CommitStateUnknown.
    """
    url, options = log.env.store.url, log.env.options
    check_rows_writable(snapshot.protocol, url)
    check_replaceable(snapshot.metadata, where, partitions)
    partial = where is not None or partitions == "dynamic"
    if partition_by is not None and not overwrite_schema:
        raise InvalidArgument("partition_by of an overwrite goes with overwrite_schema", option="partition_by")
    check_merge_options(merge_schema=merge_schema, overwrite_schema=overwrite_schema, partial=partial)
    metadata, change = snapshot.metadata, None
    if overwrite_schema:
        change = replaced_schema(metadata, rows.schema, options, partition_by=partition_by)
    elif merge_schema:
        rows = typed_only(rows, snapshot.schema)
        change = merged_schema(metadata, snapshot.protocol, rows.schema, options, url=url)
    metadata = change.metadata if change is not None else metadata
    target = target_of(metadata, options.over(metadata.configuration))
    check_indexing(options.from_call("indexing."), target.schema.names, "call")
    if where is not None and change is not None:
        where = parse(text, target.schema, time_zone=target.options[opt.TIME_ZONE])
    fitted = fit(rows, target.schema, url=url)
    adds = write_adds(log.env, target, fitted if where is None else only_inside(fitted, where, text))
    return commit_overwrite(
        log,
        metadata,
        adds,
        since=since,
        where=where,
        text=text,
        partitions=partitions,
        mapping=registered(metadata, target.plan),
        txn=txn,
        user_metadata=user_metadata,
        change=None if change is None else (snapshot, change),
    )


def check_replaceable(metadata: Metadata, where: Node | None, partitions: PartitionMode) -> None:
    """Raises NotSupported for a predicate on other columns than those the table is partitioned by, InvalidArgument."""
    if where is None:
        return
    if partitions == "dynamic":
        message = "replaceWhere and partitionOverwriteMode=dynamic each say what is replaced: give one"
        raise InvalidArgument(message, option="partitionOverwriteMode")
    if not is_partition_only(where, metadata.partitionColumns):
        others = [name for name in columns_of(where) if name not in metadata.partitionColumns]
        message = f"overwrite replaces whole partitions: {', '.join(others)} are not partition columns"
        raise NotSupported(message, columns=others)


def commit_overwrite(
    log: Log,
    metadata: Metadata,
    adds: Sequence[Add],
    *,
    since: Snapshot | int,
    where: Node | None = None,
    text: str = "",
    partitions: PartitionMode = "static",
    mapping: Metadata | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    change: tuple[Snapshot, Evolution] | None = None,
    merged: Sequence[Add] = (),
    by: Writer = "process",
) -> Committed:
    """Commit durable files in the place of others, whatever was appended since it began.

    `since` is what the overwrite counts from, a snapshot or the number of a version. `merged` and `by` as for
    `commit_append`.
    Raises as `overwrite`.
    """
    schema, columns = schema_from_json(metadata.schemaString), metadata.partitionColumns
    replaced = _range(adds, columns, where, text, partitions)
    parameters = {"mode": "Overwrite", **replaced.parameters()}
    try:
        began = since if isinstance(since, Snapshot) else begun_at(log, since)
    except NOT_IN_THE_LOG:
        discard(log.env, adds)
        raise
    transaction = staged_write(
        log,
        metadata,
        adds,
        parameters,
        mapping=mapping,
        txn=txn,
        user_metadata=user_metadata,
        change=change,
        merged=merged,
        since=began,
    )

    if not isinstance(replaced, AllRows):
        transaction.read_where(lambda files: replaced.may_match(files, schema, columns))
    try:
        committed = transaction.bind(_removing(log, replaced, adds), replaces_range=True).commit_or_raise()
    except NOT_IN_THE_LOG:
        # Provably not in the log. Of any other error that cannot be told here.
        discard(log.env, adds)
        raise
    if committed.repeated:
        discard(log.env, adds)
    else:
        after_write(log, metadata, committed.version, len(adds), by)
    return committed


def _removing(log: Log, replaced: Range, adds: Sequence[Add]) -> Callable[[Snapshot], Staged]:
    """What makes the removes of an overwrite that goes on top of a version."""

    def removes(snapshot: Snapshot) -> Staged:
        try:
            files = replaced.inside(snapshot.files, snapshot.schema, snapshot.partition_columns)
        except InvalidArgument:
            # Asked for before each put, when no earlier one landed: nobody will ever read these files.
            discard(log.env, adds)
            raise
        size = pc.sum(files["size"], min_count=0).as_py() or 0
        metrics: dict[str, str | None] = {"numRemovedFiles": str(files.num_rows), "numRemovedBytes": str(size)}
        return Staged(removes=removes_of(files, log.env.ambient.now_ms()), removed_rows=files, metrics=metrics)

    return removes


def only_inside(rows: FittedRows, where: Node, text: str) -> FittedRows:
    """The same rows, each checked: InvalidArgument for one that does not satisfy what is to be replaced."""

    def check(batch: pa.RecordBatch) -> None:
        inside = pc.fill_null(evaluate(where, batch), fill_value=False)
        outside = batch.num_rows - inside.true_count
        if outside:
            message = f"{outside} of the new rows do not satisfy {text!r}, which is to be replaced. Nothing was written"
            raise InvalidArgument(message, predicate=text, rows=outside)

    return rows.checked_by(check)


def _range(
    adds: Sequence[Add], partition_columns: Sequence[str], where: Node | None, text: str, partitions: PartitionMode
) -> Range:
    if where is not None:
        return Where(where, text)
    # A table without partitions is one.
    if partitions == "dynamic" and partition_columns:
        return Partitions.of(adds, partition_columns)
    return AllRows()
