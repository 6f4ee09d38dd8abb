"""`MergeBuilder` collects the clauses of a merge and runs it: what `IndexTable.merge` gives, as delta-spark has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from indextables.errors import InvalidArgument
from indextables.spark.change import Text, check_text_or_column
from indextables.spark.table.terms import terms_of
from indextables.table.arguments import check_mapping
from indextables.table.change import Clause, Terms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MergeBuilder"]

Runs = Callable[[tuple[Clause, ...], bool, Terms], "DataFrame"]


class MergeBuilder:
    """A merge that is being put together: each method returns one with a clause more; `execute` runs it.

    Clauses of one kind are tried in the order in which they were added, and the first whose condition is true takes the
    row. Conditions and values are texts of SQL or Columns, which name columns by the aliases of table and source, or
    plainly where only one side has the column.
    """

    def __init__(self, run: Runs, clauses: tuple[Clause, ...] = (), *, evolves: bool = False) -> None:
        self._run = run
        self._clauses = clauses
        self._evolves = evolves

    def whenMatchedUpdate(
        self,
        condition: Text | None = None,
        set: Mapping[str, object] | None = None,  # noqa: A002 - as in Delta and in SQL
    ) -> MergeBuilder:
        """Set columns of rows that match, computed from both rows."""
        return self._with("matched", "update", condition, _values("set", set))

    def whenMatchedUpdateAll(self, condition: Text | None = None) -> MergeBuilder:
        """Set every column of rows that match to the source's column of the same name."""
        return self._with("matched", "update", condition)

    def whenMatchedDelete(self, condition: Text | None = None) -> MergeBuilder:
        """Delete rows that match."""
        return self._with("matched", "delete", condition)

    def whenNotMatchedInsert(
        self, condition: Text | None = None, values: Mapping[str, object] | None = None
    ) -> MergeBuilder:
        """Add a row for each of the source that matches none; columns without a value have their default."""
        return self._with("not matched", "insert", condition, _values("values", values))

    def whenNotMatchedInsertAll(self, condition: Text | None = None) -> MergeBuilder:
        """Add rows of the source that match none, column by column by name."""
        return self._with("not matched", "insert", condition)

    def whenNotMatchedBySourceUpdate(
        self,
        condition: Text | None = None,
        set: Mapping[str, object] | None = None,  # noqa: A002 - as in Delta and in SQL
    ) -> MergeBuilder:
        """Set columns of rows of the table that no row of the source matches."""
        return self._with("not matched by source", "update", condition, _values("set", set))

    def whenNotMatchedBySourceDelete(self, condition: Text | None = None) -> MergeBuilder:
        """Delete rows of the table that no row of the source matches."""
        return self._with("not matched by source", "delete", condition)

    def withSchemaEvolution(self) -> MergeBuilder:
        """Add columns of the source that a clause sets to the table, and widen types.

        Columns that the source lacks stay as they are.
        """
        return MergeBuilder(self._run, self._clauses, evolves=True)

    def execute(
        self,
        *,
        txnAppId: str | None = None,
        txnVersion: int | None = None,
        userMetadata: str | None = None,
        expectVersion: int | None = None,
        dryRun: bool = False,
    ) -> DataFrame:
        """Merge into the newest version of the table, in one commit; where nothing is to be changed there is none.

        Args:
            txnAppId: With `txnVersion`: a batch of an application that the table holds already is not done again.
            txnVersion: The number of that batch.
            userMetadata: A note for the history.
            expectVersion: The version that you have read. If rows that the merge matches, or would match, changed since
                then, it is refused.
            dryRun: Only tell what would be changed.

        Returns:
            One row: how many rows were affected, updated, deleted and inserted, the version that was made, null if none
            was, and the metrics of the history.

        Raises:
            CardinalityViolation: Two rows of the source want to change the same row. Nothing was written.
            QueryInvalid: A text cannot be understood.
            InvalidArgument: There is no such column, a value does not fit it, or there is no clause.
            SchemaMismatch: The source lacks a column that is set to it, or a column that must not be null would be.
            CommitConflict: Others changed the same rows again and again, or since `expectVersion`.
            CommitStateUnknown: The store did not tell whether it is committed.
            NotSupported: The table is another system's, or a text holds a subquery.
        """
        terms = terms_of(txnAppId, txnVersion, userMetadata, expectVersion, dryRun)
        return self._run(self._clauses, self._evolves, terms)

    def _with(self, when: str, action: str, condition: Any, values: Mapping[str, object] | None = None) -> MergeBuilder:
        asked: Any = None if condition is None else check_text_or_column("condition", condition)
        clause = Clause(when, action, asked, values)  # type: ignore[arg-type]
        return MergeBuilder(self._run, (*self._clauses, clause), evolves=self._evolves)


def _values(what: str, given: Mapping[str, object] | None) -> Mapping[str, object]:
    values = check_mapping(what, {} if given is None else given)
    if not values:
        raise InvalidArgument(f"{what} names no column: give each column with its value")
    return values
