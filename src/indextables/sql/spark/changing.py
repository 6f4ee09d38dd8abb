"""Runs DELETE, UPDATE and MERGE of SQL in a session of Spark: the same request as everywhere, run by the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.errors import CommitConflict
from indextables.spark.change import Door, MergeAsked, Source, delete_rows, merge_rows, update_rows
from indextables.spark.tasks import SparkHandle
from indextables.sql.command import DeleteRows, MergeRows, RowChange, SourceRows, UpdateRows, check_texts
from indextables.table.after_write import after_change
from indextables.table.change import ChangeReport, Terms, told_of

if TYPE_CHECKING:
    from indextables.spark.session import DataFrame

__all__ = ["change_in_spark"]

Read = Callable[[SourceRows], "tuple[DataFrame, bool]"]
"""Gives the rows of a source, and whether the table that changes is among what they are read from."""


def change_in_spark(handle: SparkHandle, statement: RowChange, read: Read) -> pa.Table:
    """Run a statement; the answer has the columns of `CHANGED`. Raises NotSupported for a subquery, as the verbs."""
    check_texts(statement)
    place = handle.place()
    door = Door(handle.spark, handle.log(place), place, statement.alias)
    report = _changed(door, statement, read, handle)
    after_change(door.log, report, by="driver")
    return told_of(report, handle.url)


def _changed(door: Door, statement: RowChange, read: Read, handle: SparkHandle) -> ChangeReport:
    progress = handle.progress()
    if isinstance(statement, DeleteRows):
        return delete_rows(door, statement.where, None, Terms(), progress)
    if isinstance(statement, UpdateRows):
        return update_rows(door, statement.where, statement.set, None, Terms(), progress)
    limit = door.log.env.options[opt.TRANSACTION_RETRY_MAX_ATTEMPTS]
    reruns = 0
    while True:
        version = door.log.latest_version()
        frame, reads_itself = read(statement.source)
        asked = _asked(statement, frame)
        if not reads_itself:
            return merge_rows(door, asked, Terms(), progress)
        if door.log.latest_version() != version:
            # The source may be of another version than the statement would run on.
            continue
        try:
            # What the source has read of the table must be what the table still is.
            report = merge_rows(door, asked, Terms(read_version=version), progress)
            return msgspec.structs.replace(report, reruns=report.reruns + reruns)
        except CommitConflict:
            reruns += 1
            if reruns >= limit:
                raise


def _asked(statement: MergeRows, frame: DataFrame) -> MergeAsked:
    alias = statement.source.alias
    return MergeAsked(Source(frame.alias(alias), alias), statement.on, statement.clauses, statement.merge_schema)
