"""The streaming sink: every micro-batch is one version, and it is in the table once, however often Spark repeats it.

Spark makes a new writer for the tasks of a batch and another one for its commit. So everything that the commit must
know travels in the messages of the tasks: the query's id, and the writer that the tasks had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables.errors import InvalidArgument, InvariantViolated, NotSupported
from indextables.spark.session import WriteOptions
from indextables.spark.source.write_task import WrittenFiles
from indextables.spark.source.writer import TableWriter

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamedFiles", "TableStreamWriter"]

_QUERY_ID = "sql.streaming.queryId"
"""The property under which Spark tells its tasks which query they belong to; it survives restarts of the query."""


class StreamedFiles(WriterCommitMessage):  # type: ignore[misc]
    """What one task of a batch has written, with the query and the writer it was written by."""

    def __init__(self, query: str, writer: TableWriter, files: WrittenFiles) -> None:
        self.query = query
        self.writer = writer
        self.files = files


class TableStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """One micro-batch. The table remembers the last batch of every query, and takes none twice."""

    def __init__(self, url: str, asked: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        """Raises SchemaMismatch, InvalidArgument, NotSupported before any task runs."""
        if overwrite:
            message = (
                "a stream appends to an indextables table: outputMode('complete') is not offered. Use foreachBatch "
                "with indextables.write(frame, path, mode='overwrite')"
            )
            raise NotSupported(message, option="outputMode")
        if asked.txn is not None:
            message = "a stream numbers its batches itself: leave out txnAppId and txnVersion"
            raise InvalidArgument(message, option="txnAppId")
        self._writer = TableWriter(url, asked, schema, overwrite=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Durable splits for the rows of one task."""
        task = TaskContext.get()
        query = None if task is None else task.getLocalProperty(_QUERY_ID)
        if not query:
            raise InvariantViolated("Spark tells no query id, without which a batch could be written twice")
        return StreamedFiles(query, self._writer, self._writer.write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """One version for the batch, or none if the table holds it already, or if it has no rows.

        Raises CommitConflict with nothing left behind, or CommitStateUnknown with nothing deleted: when the query is
        started again, it repeats the batch.
        """
        answers = _streamed(messages)
        if len(answers) != len(messages):
            raise InvariantViolated(f"a task of batch {batchId} has not answered: nothing was committed")
        if all(answer.files.is_empty for answer in answers):
            # Nothing that could be there twice: a stream that stands still makes no versions.
            return
        first = answers[0]
        if any(answer.query != first.query for answer in answers):
            raise InvariantViolated(f"tasks of several queries answered to batch {batchId}: nothing was committed")
        first.writer.as_batch(first.query, batchId).commit([answer.files for answer in answers])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002 - Spark's
        """Delete the files of finished tasks, but only where no commit can have been tried (`TableWriter.abort`)."""
        answers = _streamed(messages)
        if answers:
            whole = len(answers) == len(messages)
            answers[0].writer.abort([answer.files for answer in answers] + ([] if whole else [None]))


def _streamed(messages: Sequence[WriterCommitMessage | None]) -> list[StreamedFiles]:
    """The answers that are there. Raises InvariantViolated for messages that are not ours."""
    answers = [message for message in messages if message is not None]
    for answer in answers:
        if not isinstance(answer, StreamedFiles):
            raise InvariantViolated(f"a task answered with {type(answer).__name__}: nothing was committed")
    return answers
