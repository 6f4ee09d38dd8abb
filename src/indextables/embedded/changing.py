"""`Changing` changes rows that are there: delete, update, merge and upsert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indextables.embedded.handle import Handle
from indextables.embedded.merging import MergeBuilder
from indextables.errors import InvalidArgument
from indextables.lazy import LazyModule
from indextables.table.arguments import check_flag, check_mapping, check_names, check_text
from indextables.table.rows import read_rows
from indextables.table.running import Progress

if TYPE_CHECKING:
    from indextables.table import after_write as after_verb
    from indextables.table.change import ChangeReport, Clause, Terms
    from indextables.table.change import delete as delete_verb
    from indextables.table.change import merge as merge_verb
    from indextables.table.change import update as update_verb
else:
    after_verb = LazyModule("indextables.table.after_write")
    delete_verb = LazyModule("indextables.table.change.delete")
    merge_verb = LazyModule("indextables.table.change.merge")
    update_verb = LazyModule("indextables.table.change.update")

__all__ = ["Changing"]


class Changing(Handle):
    """The methods of a table that change its rows. They run on the newest version, and the handle follows."""

    def delete(
        self,
        where: str | None = None,
        *,
        search: str | None = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        expect_version: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Delete the rows for which `where` is true and that `search` finds; all rows without either.

        It runs on the newest version of the table, whatever this handle shows, and is one commit; where nothing is to
        be deleted there is none. No other row is copied or moved: files get a deletion vector, and a file without rows
        leaves the table. Commits of others meanwhile are taken into account row by row.

        Args:
            where: A SQL predicate; `TEXTSEARCH(column, 'query')` in it is true for the rows that the search finds.
            search: A query as for `search`.
            txn: (application, batch): a batch that the table holds already is not done again.
            user_metadata: A note for the history.
            expect_version: The version that you have read. If rows that the statement selects, or would select, changed
                since then, it is refused.
            dry_run: Only tell what would be deleted.
            progress: Called after each step.

        Raises:
            QueryInvalid: The predicate or the query cannot be understood.
            CommitConflict: Others changed the same rows again and again, or since `expect_version`. Nothing is deleted.
            CommitStateUnknown: The store did not tell whether it is committed.
            NotSupported: The table is another system's.
        """
        terms = self._terms(txn, user_metadata, expect_version, dry_run)
        report = delete_verb.delete(
            self._log,
            where=None if where is None else check_text("where", where),
            query=None if search is None else check_text("search", search),
            terms=terms,
            progress=progress,
        )
        return self._moved(report)

    def update(
        self,
        set: Mapping[str, object],  # noqa: A002 - as in Delta and in SQL
        where: str | None = None,
        *,
        search: str | None = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        expect_version: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Set columns of the rows for which `where` is true and that `search` finds; of all rows without either.

        It runs on the newest version of the table, whatever this handle shows, and is one commit; where no row is
        selected there is none. Rows that are not selected are neither copied nor moved. The others get a place behind
        all rows, in new files. Commits of others meanwhile are taken into account row by row.

        Args:
            set: For each column a text of SQL that is computed from the row as it was (`"count + 1"`, `"'done'"`), or
                a value that is no text.
            where: A SQL predicate, as for `delete`.
            search: A query as for `search`.
            txn: (application, batch): a batch that the table holds already is not done again.
            user_metadata: A note for the history.
            expect_version: As for `delete`.
            dry_run: Only tell what would be updated.
            progress: Called after each step.

        Raises:
            QueryInvalid: The predicate, the query or a value cannot be understood or computed.
            InvalidArgument: There is no such column, or what is computed does not fit it. Nothing was written.
            SchemaMismatch: A value does not fit its column, or a column that must not be null would be.
            CommitConflict: Others changed the same rows again and again, or since `expect_version`.
            CommitStateUnknown: The store did not tell whether it is committed.
            NotSupported: The table is another system's.
        """
        assignments = check_mapping("set", set)
        if not assignments:
            raise InvalidArgument("set names no column: give each column that changes with its new value")
        report = update_verb.update(
            self._log,
            assignments,
            where=None if where is None else check_text("where", where),
            query=None if search is None else check_text("search", search),
            terms=self._terms(txn, user_metadata, expect_version, dry_run),
            progress=progress,
        )
        return self._moved(report)

    def merge(
        self,
        source: Any,
        on: str | Sequence[str],
        *,
        source_alias: str = "s",
        target_alias: str = "t",
        merge_schema: bool = False,
    ) -> MergeBuilder:
        """Begin to merge rows of a source into the table: add clauses to what this returns, then call its `execute`.

        The source is read once, and of the table the columns that `on` and the conditions name. Rows of the table that
        no clause takes are neither copied nor moved.

        Args:
            source: A pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, or a list of dicts.
                It is held in memory.
            on: A condition of SQL with at least one equality of both sides, as `"t.id = s.id"`; or the names of
                columns that both sides have. A null equals nothing.
            source_alias: How texts call the source.
            target_alias: How texts call the table.
            merge_schema: Add columns of the source that a clause sets to the table, and widen types; columns that the
                source lacks stay as they are.

        Raises:
            InvalidArgument: An argument is wrong.
        """
        aliases = (check_text("source_alias", source_alias), check_text("target_alias", target_alias))
        if isinstance(on, str):
            condition = check_text("on", on)
        else:
            names = [_quoted(name) for name in check_names("on", on)]
            if not names:
                raise InvalidArgument("on names no column: give those by which rows belong together")
            source_name, target_name = map(_quoted, aliases)
            condition = " AND ".join(f"{target_name}.{name} = {source_name}.{name}" for name in names)
        check_flag("merge_schema", merge_schema)
        read: list[pa.Table] = []

        def run(clauses: tuple[Clause, ...], *, progress: Progress | None, **terms: Any) -> ChangeReport:
            from indextables.table.change import Aliases

            asked = self._terms(**terms)
            if not read:
                # Once: a reader has its rows only once, and a dry run comes before the run.
                read.append(self._read_source(source))
            statement = merge_verb.Merge(self._log, read[0], condition, clauses, Aliases(*aliases), merge_schema)
            return self._moved(merge_verb.merge(statement, terms=asked, progress=progress))

        return MergeBuilder(run)

    def upsert(
        self,
        rows: Any,
        on: str | Sequence[str],
        *,
        merge_schema: bool = False,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        expect_version: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Replace the rows that have the same key, and add the others, in one commit.

        Two upserts of the same new key, by whomever and whenever, leave one row. A key with a null equals nothing: such
        a row is added. All columns of a row are replaced, in every row of the table that has the key.

        Args:
            rows: As for `append`, with every column of the table. It is held in memory.
            on: The column, or columns, of the key. Each key is there once in `rows`.
            merge_schema: Add columns that only `rows` have, and widen types; columns that they lack stay as they are.
            txn: (application, batch): a batch that the table holds already is not done again.
            user_metadata: A note for the history.
            expect_version: As for `delete`.
            dry_run: Only tell what would be done.
            progress: Called after each step.

        Raises:
            CardinalityViolation: A key is twice in `rows`. Nothing was written.
            SchemaMismatch: The rows do not fit; names each difference. Nothing was written.
            InvalidArgument: There is no such column.
            CommitConflict: Others changed the same rows again and again, or since `expect_version`.
            CommitStateUnknown: The store did not tell whether it is committed.
            NotSupported: The table is another system's.
        """
        keys = [check_text("on", on)] if isinstance(on, str) else check_names("on", on)
        report = merge_verb.upsert(
            self._log,
            self._read_source(rows),
            keys,
            merge_schema=check_flag("merge_schema", merge_schema),
            terms=self._terms(txn, user_metadata, expect_version, dry_run),
            progress=progress,
        )
        return self._moved(report)

    def _read_source(self, data: Any) -> pa.Table:
        schema = self._snapshot.schema
        return merge_verb.source_of(read_rows(data, schema, fills=False), schema)

    def _terms(
        self,
        txn: tuple[str, int] | None,
        user_metadata: str | None,
        expect_version: int | None,
        dry_run: bool,  # noqa: FBT001 - private, and all are given
    ) -> Terms:
        from indextables.table.change import terms_of

        return terms_of(txn, user_metadata, expect_version, dry_run=dry_run)

    def _moved(self, report: ChangeReport) -> ChangeReport:
        if report.version is None:
            return report
        self._pin(report.version)
        after_verb.after_change(self._log, report, metadata=self._pinned.metadata)
        return report


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
