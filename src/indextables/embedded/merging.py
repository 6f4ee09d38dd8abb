"""`MergeBuilder` collects the clauses of a merge and runs it: what `Table.merge` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from indextables.errors import InvalidArgument
from indextables.table.arguments import check_mapping, check_names, check_text
from indextables.table.running import Progress

if TYPE_CHECKING:
    from indextables.table.change import ChangeReport, Clause

__all__ = ["MergeBuilder"]

Runs = Callable[..., "ChangeReport"]


class MergeBuilder:
    """A merge that is being put together: add clauses, then `execute`.

    Clauses of one kind are tried in the order in which they were added, and the first whose condition is true takes the
    row. Texts are SQL; they name columns as `t.column` and `s.column`, or with the aliases that `merge` was given, or
    plainly where only one side has the column.
    """

    def __init__(self, run: Runs) -> None:
        self._run = run
        self._clauses: list[Clause] = []

    def when_matched_update(self, set: Mapping[str, object], condition: str | None = None) -> MergeBuilder:  # noqa: A002
        """Set columns of rows that match; a text is computed from both rows, anything else is taken as it is."""
        return self._add("matched", "update", condition, values=_values("set", set))

    def when_matched_update_all(
        self, condition: str | None = None, except_cols: Sequence[str] | None = None
    ) -> MergeBuilder:
        """Set every column of rows that match to the source's column of the same name, but those of `except_cols`."""
        return self._add("matched", "update", condition, but=except_cols)

    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete rows that match."""
        return self._add("matched", "delete", condition)

    def when_not_matched_insert(self, values: Mapping[str, object], condition: str | None = None) -> MergeBuilder:
        """Add a row for each of the source that matches none; columns without a value are null."""
        return self._add("not matched", "insert", condition, values=_values("values", values))

    def when_not_matched_insert_all(
        self, condition: str | None = None, except_cols: Sequence[str] | None = None
    ) -> MergeBuilder:
        """Add rows of the source that match none, column by column by name; those of `except_cols` are null."""
        return self._add("not matched", "insert", condition, but=except_cols)

    def when_not_matched_by_source_update(
        self,
        set: Mapping[str, object],  # noqa: A002 - as in Delta and in SQL
        condition: str | None = None,
    ) -> MergeBuilder:
        """Set columns of rows of the table that no row of the source matches."""
        return self._add("not matched by source", "update", condition, values=_values("set", set))

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete rows of the table that no row of the source matches."""
        return self._add("not matched by source", "delete", condition)

    def execute(
        self,
        *,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        expect_version: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChangeReport:
        """Merge into the newest version of the table, in one commit; where nothing is to be changed there is none.

        Args:
            txn: (application, batch): a batch that the table holds already is not done again.
            user_metadata: A note for the history.
            expect_version: The version that you have read. If rows that the merge matches, or would match, changed
                since then, it is refused.
            dry_run: Only tell what would be changed.
            progress: Called after each step.

        Raises:
            CardinalityViolation: Two rows of the source want to change the same row. Nothing was written.
            QueryInvalid: A text cannot be understood or computed.
            InvalidArgument: There is no such column, a value does not fit it, or there is no clause.
            SchemaMismatch: The source lacks a column that is set to it, or a column that must not be null would be.
            NotSupported: `on` has no equality of both sides; or the table is another system's.
            CommitConflict: Others changed the same rows again and again, or since `expect_version`.
            CommitStateUnknown: The store did not tell whether it is committed.
        """
        return self._run(
            tuple(self._clauses),
            txn=txn,
            user_metadata=user_metadata,
            expect_version=expect_version,
            dry_run=dry_run,
            progress=progress,
        )

    def _add(
        self,
        when: str,
        action: str,
        condition: str | None,
        *,
        values: Mapping[str, object] | None = None,
        but: Sequence[str] | None = None,
    ) -> MergeBuilder:
        from indextables.table.change import Clause

        text = None if condition is None else check_text("condition", condition)
        left = () if but is None else tuple(check_names("except_cols", but))
        self._clauses.append(Clause(when, action, text, values, left))  # type: ignore[arg-type]
        return self


def _values(what: str, given: Mapping[str, object]) -> Mapping[str, object]:
    values = check_mapping(what, given)
    if not values:
        raise InvalidArgument(f"{what} names no column: give each column with its value")
    return values
