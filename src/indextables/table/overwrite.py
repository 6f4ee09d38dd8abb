"""Rows replace the table's, all of them or those of some partitions, in one version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import CommitError, InvalidArgument, NotSupported
from indextables.log.actions import Add, Metadata
from indextables.log.outcome import Committed
from indextables.log.protocol import check_rows_writable
from indextables.log.schema import schema_from_json
from indextables.log.snapshot import Log, Snapshot
from indextables.log.staged import Staged, removes_of
from indextables.log.transaction import Transaction
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.query.partition import partition_from_text
from indextables.query.prune import is_partition_only, prune
from indextables.query.stats import map_values
from indextables.table.append import metrics_of
from indextables.table.rows import Rows, fit
from indextables.table.write import discard, registered, target_of, write_adds

__all__ = ["commit_overwrite", "files_inside", "only_inside", "overwrite"]


def overwrite(log: Log, snapshot: Snapshot, rows: Rows, *, where: Node | None = None, text: str = "") -> Committed:
    """Replace every row, or every row for which `where` is true, by `rows` (which may be none).

    `where` may read partition columns only, so that whole files are replaced, and all new rows must satisfy it.

    Raises SchemaMismatch and InvalidArgument before anything is committed, NotSupported for other predicates,
    CommitConflict if somebody replaced or removed rows meanwhile, CommitStateUnknown.
    """
    check_rows_writable(snapshot.protocol, log.env.store.url)
    metadata = snapshot.metadata
    if where is not None:
        if not is_partition_only(where, metadata.partitionColumns):
            others = [name for name in columns_of(where) if name not in metadata.partitionColumns]
            message = f"overwrite replaces whole partitions: {', '.join(others)} are no partition columns"
            raise NotSupported(message, columns=others)
        rows = fit(rows, snapshot.schema, url=log.env.store.url)
        rows = only_inside(rows, where, text)
    target = target_of(metadata, log.env.options.over(metadata.configuration))
    adds = write_adds(log.env, target, rows)
    mapping = registered(metadata, target.plan)
    return commit_overwrite(log, metadata, adds, where=where, text=text, mapping=mapping)


def commit_overwrite(
    log: Log,
    metadata: Metadata,
    adds: Sequence[Add],
    *,
    where: Node | None = None,
    text: str = "",
    mapping: Metadata | None = None,
) -> Committed:
    """Commit durable files in the place of others, whatever was appended meanwhile."""
    schema = schema_from_json(metadata.schemaString)
    parameters: dict[str, str | None] = {"mode": "Overwrite"}
    if where is not None:
        parameters["predicate"] = text
    transaction = Transaction(
        log, operation="WRITE", parameters=parameters, metrics=metrics_of(adds), table_id=metadata.id
    ).add(adds)
    if mapping is not None:
        transaction.set_metadata(mapping)

    def replaced(snapshot: Snapshot) -> Staged:
        files = snapshot.files
        if where is not None:
            try:
                files = files_inside(files, where, snapshot.schema, snapshot.partition_columns)
            except InvalidArgument:
                # Asked for before each put, when no earlier one landed: nobody will ever read these files.
                discard(log.env, adds)
                raise
        return Staged(removes=removes_of(files, log.env.ambient.now_ms()), removed_rows=files)

    def may_match(files: pa.Table) -> bool:
        if where is None:
            return bool(files.num_rows)
        return bool(pc.any(prune(files, where, schema, metadata.partitionColumns), min_count=0).as_py())

    if where is not None:
        transaction.read_where(may_match)
    try:
        return transaction.bind(replaced, replaces_range=True).commit_or_raise()
    except CommitError:
        # Provably not in the log. Of any other error that cannot be told here.
        discard(log.env, adds)
        raise


def files_inside(files: pa.Table, where: Node, schema: pa.Schema, partition_columns: Sequence[str]) -> pa.Table:
    """The files for whose partition values `where`, which reads no other columns, is true; not those it is unknown for.

    Raises InvalidArgument for a file that may be meant and has no readable partition value, QueryInvalid where `where`
    has no answer for a value.
    """
    files = files.filter(prune(files, where, schema, partition_columns))
    typed: dict[str, pa.Array] = {}
    for name in columns_of(where):
        texts = map_values(files["partitionValues"], name)
        typed[name], known = partition_from_text(texts, schema.field(name).type)
        if known.false_count:
            path = files["path"].filter(pc.invert(known))[0].as_py()
            message = (
                f"{path} has no readable value of partition column {name!r}: it cannot be told whether to replace it"
            )
            raise InvalidArgument(message, path=path, column=name)
    return files.filter(evaluate(where, pa.table(typed) if typed else files))


def only_inside(rows: Rows, where: Node, text: str) -> Rows:
    """The same rows, each checked: InvalidArgument for one that does not satisfy what is to be replaced."""
    return Rows(rows.schema, _all_inside(rows, where, text))


def _all_inside(rows: Rows, where: Node, text: str) -> Iterator[pa.RecordBatch]:
    for batch in rows.batches:
        inside = pc.fill_null(evaluate(where, batch), fill_value=False)
        outside = batch.num_rows - inside.true_count
        if outside:
            message = f"{outside} of the new rows do not satisfy {text!r}, which is to be replaced. Nothing was written"
            raise InvalidArgument(message, predicate=text, rows=outside)
        yield batch
