"""What would a statement that changes rows do? Told by the log alone: no row is read, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from indextables.log.read import Log, Snapshot
from indextables.log.wire import check_rows_writable
from indextables.query.expr import And, Node
from indextables.query.prune import prune
from indextables.table.change.clauses import Bound, Clause
from indextables.table.change.delete import Delete
from indextables.table.change.located import may_select, whole_files
from indextables.table.change.merge import Merge, bound_merge
from indextables.table.change.update import Update
from indextables.table.environment import table_env
from indextables.table.read import counted_rows

__all__ = ["FilePlan", "explain"]


class FilePlan(msgspec.Struct, frozen=True):
    """Which files a statement looks at: of `files`, `ruled_out` hold no selected row, and `whole` no other.

    `columns` are those that are read of the others to find rows; none where the index is asked.
    """

    files: int
    ruled_out: int
    whole: int
    columns: tuple[str, ...] = ()

    @property
    def asked(self) -> int:
        """How many files have to be opened."""
        return self.files - self.ruled_out - self.whole


def explain(log: Log, statement: Delete | Update | Merge, source: str = "") -> list[str]:
    """The plan of a statement over the newest version, in lines. The source of a MERGE has no rows, only its columns.

    `source` is what it is called. Raises as the statement does where it does not fit the table.
    """
    snapshot = log.snapshot()
    check_rows_writable(snapshot.protocol, log.url)
    rows = counted_rows(snapshot)
    counted = "" if rows is None else f", {_many(rows, 'row')}"
    head = f"{statement.operation} {log.url} at version {snapshot.version}: "
    lines = [head + _many(snapshot.files.num_rows, "file") + counted]
    if isinstance(statement, Merge):
        return lines + [f"  {line}" for line in _of_merge(log, snapshot, statement, source)]
    # Bound as a whole, so that what cannot run is refused.
    statement.over(table_env(log.env, snapshot.metadata), snapshot)
    selection = statement.selection(snapshot)
    candidates = may_select(snapshot.files, snapshot.metadata, selection)
    whole, _ = whole_files(candidates, snapshot.metadata, selection)
    plan = FilePlan(snapshot.files.num_rows, snapshot.files.num_rows - candidates.num_rows, whole.num_rows)
    return lines + [f"  {line}" for line in (*_of_files(plan, statement), *_of_rows(statement))]


def _of_files(plan: FilePlan, statement: Delete | Update) -> Iterator[str]:
    if plan.ruled_out:
        yield f"{_many(plan.ruled_out, 'file')} ruled out by partition values and bounds"
    if plan.whole:
        yield f"{_many(plan.whole, 'file')} with selected rows only: found without being opened"
    if plan.asked:
        asked = " and ".join(text for text in (statement.where, statement.query) if text is not None)
        yield f"{_many(plan.asked, 'file')} asked by index and columns: {asked or 'every row'}"


def _of_rows(statement: Delete | Update) -> Iterator[str]:
    if isinstance(statement, Update):
        values = ", ".join(f"{name} = {value}" for name, value in statement.assignments.items())
        yield f"rows that are found get a deletion vector and come back in new files: {values}"
    else:
        yield "rows that are found get a deletion vector; a file without rows leaves the table"


def _of_merge(log: Log, snapshot: Snapshot, statement: Merge, source: str) -> Iterator[str]:
    bound, _, evolution = bound_merge(statement, table_env(log.env, snapshot.metadata), snapshot)
    yield f"source {statement.aliases.source}: {source}, read once ({_columns(statement.source.schema)})"
    plan = _files_of_merge(snapshot, bound)
    if plan.ruled_out:
        yield f"{_many(plan.ruled_out, 'file')} ruled out by conditions on the table alone"
    if plan.asked:
        yield (
            f"{_many(plan.asked, 'file')} asked for {', '.join(plan.columns)}, less those that the keys of the source "
            f"rule out: {statement.on}"
        )
    if evolution is not None:
        new = [name for name in bound.schema.names if name not in snapshot.schema.names]
        yield f"columns that the table gets: {', '.join(new) or 'none'}"
    for clause in statement.clauses:
        yield _shown(clause)
    yield "rows that change get a deletion vector; rows that come or change are written to new files"


def _files_of_merge(snapshot: Snapshot, bound: Bound) -> FilePlan:
    files = snapshot.files
    columns = tuple(bound.target_columns())
    alone = [choice for _, choice in bound.of("not matched by source")]
    if not files.num_rows or any(choice.condition is None for choice in alone):
        return FilePlan(files.num_rows, 0, 0, columns)

    def may(node: Node) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        found = prune(files, node, snapshot.schema, snapshot.partition_columns)
        return np.asarray(found.to_numpy(zero_copy_only=False), bool)

    result = may(And(bound.narrow)) if bound.narrow else np.ones(files.num_rows, bool)
    for choice in alone:
        if choice.condition is not None:
            result |= may(choice.condition)
    return FilePlan(files.num_rows, int((~result).sum()), 0, columns)


def _shown(clause: Clause) -> str:
    condition = f" and {clause.condition}" if clause.condition is not None else ""
    if clause.values is not None:
        what = f"{clause.action} " + ", ".join(f"{name} = {value}" for name, value in clause.values.items())
    elif clause.is_star:
        what = f"{clause.action} all columns" + (f" but {', '.join(clause.but)}" if clause.but else "")
    else:
        what = clause.action
    return f"when {clause.when}{condition}: {what}"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
