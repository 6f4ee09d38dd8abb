"""Runs DELETE, UPDATE and MERGE of SQL in one process, and tells of every such statement in the same columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from indextables.errors import NotSupported, TableNotFound
from indextables.lazy import LazyModule
from indextables.sql.command import statements as st
from indextables.sql.command.results import table_of

if TYPE_CHECKING:
    from indextables.log.read import Log
    from indextables.table import after_write
    from indextables.table.change import ChangeReport, Terms, delete, merge, update
    from indextables.table.running import Progress
else:
    after_write = LazyModule("indextables.table.after_write")
    delete = LazyModule("indextables.table.change.delete")
    merge = LazyModule("indextables.table.change.merge")
    update = LazyModule("indextables.table.change.update")

__all__ = ["CHANGED", "change_rows", "told_of"]

CHANGED = pa.schema(
    [
        ("num_affected_rows", pa.int64()),
        ("num_updated_rows", pa.int64()),
        ("num_deleted_rows", pa.int64()),
        ("num_inserted_rows", pa.int64()),
        ("path", pa.string()),
        ("version", pa.int64()),
        ("dry_run", pa.bool_()),
        ("located_by", pa.string()),
        ("repairs", pa.int64()),
        ("reruns", pa.int64()),
        ("metrics", pa.map_(pa.string(), pa.int64())),
    ]
)
"""What a statement that changes rows answers with: Delta's columns first."""


def told_of(report: ChangeReport, url: str) -> pa.Table:
    """The one row that answers a statement."""
    counts = (report.updated, report.deleted, report.inserted)
    row = {
        "num_affected_rows": sum(counts),
        **dict(zip(CHANGED.names[1:4], counts, strict=True)),
        "path": url,
        **{name: getattr(report, name) for name in ("version", "dry_run", "located_by", "repairs", "reruns")},
        "metrics": list(report.metrics.items()),
    }
    return table_of([row], CHANGED)


def change_rows(
    log: Log,
    statement: st.RowChange,
    *,
    read: Callable[[st.SourceRows], pa.Table],
    terms: Terms,
    progress: Progress | None,
) -> ChangeReport:
    """Change rows of the newest version; `read` gives the rows of a source.

    Raises NotSupported for a table of another system, TableNotFound, and what the verb raises.
    """
    _check_ours(log, statement)
    report = _run(log, statement, read, terms, progress)
    if report.version is not None and report.added_files:
        after_write.after_write(log, log.metadata_at().metadata, report.version, report.added_files)
    return report


def _run(
    log: Log,
    statement: st.RowChange,
    read: Callable[[st.SourceRows], pa.Table],
    terms: Terms,
    progress: Progress | None,
) -> ChangeReport:
    if isinstance(statement, st.DeleteRows):
        return delete.delete(log, where=statement.where, alias=statement.alias, terms=terms, progress=progress)
    if isinstance(statement, st.UpdateRows):
        return update.update(
            log, statement.set, where=statement.where, alias=statement.alias, terms=terms, progress=progress
        )
    from indextables.table.change import Aliases
    from indextables.table.rows import Rows

    aliases = Aliases(statement.source.alias, statement.alias)
    merge.check(statement.clauses, aliases)
    rows = read(statement.source)
    source = merge.source_of(Rows(rows.schema, iter(rows.to_batches())), rows.schema)
    asked = merge.Merge(log, source, statement.on, statement.clauses, aliases, statement.merge_schema)
    return merge.merge(asked, terms=terms, progress=progress)


def _check_ours(log: Log, statement: st.RowChange) -> None:
    """Raises NotSupported for a table of another system, TableNotFound."""
    try:
        log.latest_version()
    except TableNotFound:
        from indextables.foreign import find_source

        source = find_source(log.env)
        if source is None:
            raise
        verb = {st.DeleteRows: "DELETE", st.UpdateRows: "UPDATE", st.MergeRows: "MERGE"}[type(statement)]
        message = (
            f"{verb}: the table at {log.url} is one of {source.system}, which is only read here. To change its rows, "
            "copy them into a table of ours, or use the library that wrote it. Nothing was written"
        )
        raise NotSupported(message, url=log.url, system=source.system, verb=verb) from None
