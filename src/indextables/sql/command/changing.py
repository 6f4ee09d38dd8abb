"""Runs DELETE, UPDATE and MERGE of SQL in one process, and tells of every such statement in the same columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.errors import CommitConflict, NotSupported, TableNotFound
from indextables.lazy import LazyModule
from indextables.sql.command import statements as st
from indextables.sql.command.lexer import tokens
from indextables.sql.command.results import table_of
from indextables.table.change import CHANGED, told_of

if TYPE_CHECKING:
    from indextables.log.read import Log, Snapshot
    from indextables.table import after_write
    from indextables.table.change import ChangeReport, Terms, delete, merge, update
    from indextables.table.running import Progress
else:
    after_write = LazyModule("indextables.table.after_write")
    delete = LazyModule("indextables.table.change.delete")
    merge = LazyModule("indextables.table.change.merge")
    update = LazyModule("indextables.table.change.update")

__all__ = ["CHANGED", "PLAN", "Beside", "Read", "change_rows", "check_texts", "explain_rows", "told_of"]

PLAN = pa.schema([("plan", pa.string())])
"""What EXPLAIN of such a statement answers with: one text of several lines."""


class Beside(msgspec.Struct):
    """The table that changes while a source is read: where the source names it at no version, `snapshot` is meant.

    Whoever reads the source sets `was_read` if it does.
    """

    url: str
    snapshot: Snapshot
    was_read: bool = False


Read: TypeAlias = Callable[[st.SourceRows, Beside], pa.Table]
"""Gives the rows of the source of a MERGE."""


def change_rows(
    log: Log, statement: st.RowChange, *, read: Read, terms: Terms, progress: Progress | None
) -> ChangeReport:
    """Change rows of the newest version; `read` gives the rows of a source.

    Raises NotSupported for a table of another system and for a subquery, TableNotFound, and what the verb raises.
    """
    check_texts(statement)
    _check_ours(log, statement)
    if isinstance(statement, st.MergeRows):
        report = _merge(log, statement, read, terms, progress)
    elif isinstance(statement, st.DeleteRows):
        report = delete.delete(log, where=statement.where, alias=statement.alias, terms=terms, progress=progress)
    else:
        report = update.update(
            log, statement.set, where=statement.where, alias=statement.alias, terms=terms, progress=progress
        )
    after_write.after_change(log, report)
    return report


def explain_rows(log: Log, statement: st.RowChange, *, read: Read) -> pa.Table:
    """The plan of a statement: no row is read, and nothing is written. Raises as `change_rows`."""
    from indextables.table.change import explain

    check_texts(statement)
    _check_ours(log, statement)
    if isinstance(statement, st.DeleteRows):
        lines = explain(log, delete.Delete(log, statement.where, alias=statement.alias))
    elif isinstance(statement, st.UpdateRows):
        lines = explain(log, update.Update(log, statement.set, statement.where, alias=statement.alias))
    else:
        source = statement.source
        columns = msgspec.structs.replace(source, query=f"{source.query} LIMIT 0", table=None)
        asked = _asked(log, statement, read(columns, Beside(log.url, log.snapshot())))
        lines = explain(log, asked, source.query.removeprefix("SELECT * FROM "))
    return table_of([{"plan": "\n".join(lines)}], PLAN)


def check_texts(statement: st.RowChange) -> None:
    """Raises NotSupported for a query inside a condition or a value of a statement."""
    for text in _texts(statement):
        for before, token in pairwise(tokens(text)):
            if before.text == "(" and token.upper in ("SELECT", "WITH"):
                message = (
                    f"{text[:120]!r} holds a query, which conditions and values of a change do not: read it as the "
                    f"source, MERGE INTO {statement.target.text} USING (SELECT ...) AS s ON ... Nothing was written"
                )
                raise NotSupported(message, query=text, position=token.start)


def _texts(statement: st.RowChange) -> Iterator[str]:
    """The conditions and values of a statement."""
    if isinstance(statement, st.MergeRows):
        yield statement.on
        for clause in statement.clauses:
            values = (clause.condition, *(clause.values or {}).values())
            yield from (value for value in values if isinstance(value, str))
        return
    if isinstance(statement, st.UpdateRows):
        yield from statement.set.values()
    if statement.where is not None:
        yield statement.where


def _merge(log: Log, statement: st.MergeRows, read: Read, terms: Terms, progress: Progress | None) -> ChangeReport:
    """A source that reads the table itself reads it at one version, and again where the table changed meanwhile."""
    from indextables.table.change import repeated

    if (done := repeated(log, "MERGE", terms)) is not None:
        return done
    limit = log.env.options[opt.TRANSACTION_RETRY_MAX_ATTEMPTS]
    reruns = 0
    while True:
        beside = Beside(log.url, log.snapshot(terms.expect_version))
        asked = _asked(log, statement, read(statement.source, beside))
        if not beside.was_read:
            return merge.merge(asked, terms=terms, progress=progress)
        try:
            at = msgspec.structs.replace(terms, read_version=beside.snapshot.version)
            report = merge.merge(asked, terms=at, progress=progress)
            return msgspec.structs.replace(report, reruns=report.reruns + reruns)
        except CommitConflict:
            reruns += 1
            if terms.expect_version is not None or reruns >= limit:
                raise


def _asked(log: Log, statement: st.MergeRows, rows: pa.Table) -> merge.Merge:
    from indextables.table.change import Aliases
    from indextables.table.rows import Rows

    aliases = Aliases(statement.source.alias, statement.alias)
    merge.check(statement.clauses, aliases)
    source = merge.source_of(Rows(rows.schema, iter(rows.to_batches())), rows.schema)
    return merge.Merge(log, source, statement.on, statement.clauses, aliases, statement.merge_schema)


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
