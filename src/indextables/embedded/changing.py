"""`Changing` changes rows that are there: delete and update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from indextables.embedded.handle import Handle
from indextables.errors import InvalidArgument
from indextables.lazy import LazyModule
from indextables.table.arguments import check_flag, check_mapping, check_note, check_text, check_txn, check_version
from indextables.table.running import Progress

if TYPE_CHECKING:
    from indextables.table.change import ChangeReport, Terms
    from indextables.table.change import delete as delete_verb
    from indextables.table.change import update as update_verb
else:
    delete_verb = LazyModule("indextables.table.change.delete")
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
            where: A SQL predicate.
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
            where: A SQL predicate.
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

    def _terms(
        self,
        txn: tuple[str, int] | None,
        user_metadata: str | None,
        expect_version: int | None,
        dry_run: bool,  # noqa: FBT001 - private, and all are given
    ) -> Terms:
        from indextables.table.change import Terms

        return Terms(
            txn=check_txn(txn),
            user_metadata=check_note(user_metadata),
            expect_version=None if expect_version is None else check_version(expect_version),
            dry_run=check_flag("dry_run", dry_run),
        )

    def _moved(self, report: ChangeReport) -> ChangeReport:
        if report.version is not None:
            self._pin(report.version)
        return report
