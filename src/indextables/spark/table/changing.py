"""`Changing` changes rows of an `IndexTable`: delete, update, merge and upsert, by delta-spark's names and defaults."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from indextables.errors import InvalidArgument
from indextables.spark.change import (
    Door,
    MergeAsked,
    Source,
    Text,
    check_text_or_column,
    delete_rows,
    merge_rows,
    update_rows,
    upsert_rows,
)
from indextables.spark.session import frame_of
from indextables.spark.table.maintenance import Maintenance
from indextables.spark.table.merging import MergeBuilder
from indextables.spark.table.terms import terms_of
from indextables.table.after_write import after_change
from indextables.table.arguments import check_flag, check_mapping, check_names, check_text
from indextables.table.change import ChangeReport, Clause, Terms, told_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Changing"]


class Changing(Maintenance):
    """The methods of a table that change its rows. They run on the newest version, and each is one commit."""

    _alias: str | None = None

    def alias(self, aliasName: str) -> Self:
        """Return the same table under a name that conditions and values may put before its columns."""
        named = copy.copy(self)
        named._alias = check_text("aliasName", aliasName)  # noqa: SLF001 - a copy
        return named

    def delete(
        self,
        condition: Text | None = None,
        search: str | None = None,
        *,
        txnAppId: str | None = None,
        txnVersion: int | None = None,
        userMetadata: str | None = None,
        expectVersion: int | None = None,
        dryRun: bool = False,
    ) -> DataFrame:
        """Delete the rows for which `condition` is true and that `search` finds; all rows without either.

        No other row is copied or moved: files get a deletion vector, and a file without rows leaves the table. Commits
        of others meanwhile are taken into account row by row. Where nothing is to be deleted there is no new version.

        Args:
            condition: A predicate, as text of SQL or as a Column. Spark evaluates it.
            search: A query as for `search`.
            txnAppId: With `txnVersion`: a batch of an application that the table holds already is not done again.
            txnVersion: The number of that batch.
            userMetadata: A note for the history.
            expectVersion: The version that you have read. If rows that the statement selects, or would select, changed
                since then, it is refused.
            dryRun: Only tell what would be deleted.

        Returns:
            One row: how many rows were affected, updated, deleted and inserted, the version that was made, null if none
            was, and the metrics of the history.

        Raises:
            QueryInvalid: The condition or the query cannot be understood.
            CommitConflict: Others changed the same rows again and again, or since `expectVersion`. Nothing is deleted.
            CommitStateUnknown: The store did not tell whether it is committed.
            NotSupported: The table is another system's, or the condition holds a subquery.
        """
        terms = terms_of(txnAppId, txnVersion, userMetadata, expectVersion, dryRun)
        where = None if condition is None else check_text_or_column("condition", condition)
        query = None if search is None else check_text("search", search)
        door = self._door()
        return self._told(door, delete_rows(door, where, query, terms, self._handle.progress()))

    def update(
        self,
        condition: Text | None = None,
        set: Mapping[str, object] | None = None,  # noqa: A002 - as in Delta and in SQL
        *,
        search: str | None = None,
        txnAppId: str | None = None,
        txnVersion: int | None = None,
        userMetadata: str | None = None,
        expectVersion: int | None = None,
        dryRun: bool = False,
    ) -> DataFrame:
        """Set columns of the rows for which `condition` is true and that `search` finds; of all rows without either.

        Rows that are not selected are neither copied nor moved. The others get a place behind all rows, in new files
        that tasks write. Where no row is selected there is no new version.

        Args:
            condition: As for `delete`.
            set: For each column a text of SQL or a Column that is computed from the row as it was (`"count + 1"`), or a
                value that is no text. No value is cut or rounded to fit its column.
            search: As for `delete`.
            txnAppId: As for `delete`.
            txnVersion: As for `delete`.
            userMetadata: As for `delete`.
            expectVersion: As for `delete`.
            dryRun: Only tell how many rows would be updated.

        Returns:
            As `delete`.

        Raises:
            QueryInvalid: The condition, the query or a value cannot be understood.
            InvalidArgument: There is no such column, or what is computed does not fit it. Nothing was written.
            SchemaMismatch: A column that must not be null would be.
            CommitConflict: Others changed the same rows again and again, or since `expectVersion`.
            CommitStateUnknown: The store did not tell whether it is committed.
            NotSupported: The table is another system's, or a text holds a subquery.
        """
        terms = terms_of(txnAppId, txnVersion, userMetadata, expectVersion, dryRun)
        values = check_mapping("set", {} if set is None else set)
        if not values:
            raise InvalidArgument("set names no column: give each column that changes with its new value")
        where = None if condition is None else check_text_or_column("condition", condition)
        query = None if search is None else check_text("search", search)
        door = self._door()
        return self._told(door, update_rows(door, where, values, query, terms, self._handle.progress()))

    def merge(self, source: DataFrame, condition: Text) -> MergeBuilder:
        """Begin to merge rows of a source into the table: add clauses to what this returns, then call its `execute`.

        The source is evaluated once, when `execute` runs, and kept where Spark keeps checkpoints until then. Of the
        table the columns are read that the condition and the clauses need, once. Rows that no clause takes are neither
        copied nor moved.

        Args:
            source: A DataFrame; `source.alias("s")` gives it a name for texts.
            condition: Which rows belong together, as text of SQL or as a Column: `"t.id = s.id"`. A null equals
                nothing. Files are left out by the keys of the source if it is a text and the source has an alias.

        Raises:
            InvalidArgument: An argument is wrong.
            SchemaMismatch: The source has a column twice.
            NotSupported: The condition holds a subquery.
        """
        on = check_text_or_column("condition", condition)
        rows = Source(source)

        def run(clauses: tuple[Clause, ...], evolves: bool, terms: Terms) -> DataFrame:  # noqa: FBT001 - a callback
            door = self._door()
            asked = MergeAsked(rows, on, clauses, evolves)
            return self._told(door, merge_rows(door, asked, terms, self._handle.progress()))

        return MergeBuilder(run)

    def upsert(
        self,
        source: DataFrame,
        on: str | Sequence[str],
        *,
        mergeSchema: bool = False,
        txnAppId: str | None = None,
        txnVersion: int | None = None,
        userMetadata: str | None = None,
        expectVersion: int | None = None,
        dryRun: bool = False,
    ) -> DataFrame:
        """Replace the rows that have the same key, and add the others, in one commit.

        Two upserts of the same new key, by whomever and whenever, leave one row. A key with a null equals nothing: such
        a row is added. All columns of a row are replaced, in every row of the table that has the key. A small source is
        merged by the driver, which asks the index.

        Args:
            source: A DataFrame with every column of the table. It is evaluated once.
            on: The column, or columns, of the key. Each key is there once in the source.
            mergeSchema: Add columns that only the source has, and widen types; columns that it lacks stay as they are.
            txnAppId: As for `delete`.
            txnVersion: As for `delete`.
            userMetadata: As for `delete`.
            expectVersion: As for `delete`.
            dryRun: Only tell what would be done.

        Returns:
            As `delete`.

        Raises:
            CardinalityViolation: A key is twice in the source. Nothing was written.
            SchemaMismatch: The rows do not fit; names each difference. Nothing was written.
            InvalidArgument: There is no such column.
            CommitConflict: Others changed the same rows again and again, or since `expectVersion`.
            CommitStateUnknown: The store did not tell whether it is committed.
            NotSupported: The table is another system's.
        """
        terms = terms_of(txnAppId, txnVersion, userMetadata, expectVersion, dryRun)
        keys = [check_text("on", on)] if isinstance(on, str) else check_names("on", on)
        evolves = check_flag("mergeSchema", mergeSchema)
        door = self._door()
        report = upsert_rows(door, source, keys, evolves=evolves, terms=terms, progress=self._handle.progress())
        return self._told(door, report)

    def _door(self) -> Door:
        """What a statement starts from."""
        place = self._handle.place()
        return Door(self.spark, self._handle.log(place), place, self._alias)

    def _told(self, door: Door, report: ChangeReport) -> DataFrame:
        after_change(door.log, report, by="driver")
        return frame_of(self.spark, told_of(report, self.url))
