"""`TableWriter` is what Spark calls to write: planned once, then copied to every task and to the commit or the abort.

`write_plan`, `write_task` and `write_commit` do the work of each role; each process loads what its role needs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables.log.care import open_log
from indextables.spark.session import WRITING, WriteOptions, arrow_schema, check_session, task_session
from indextables.spark.source.write_plan import WriteRequest, plan_write
from indextables.spark.source.write_task import WrittenFiles, answers_in, message_of, write_rows
from indextables.table.environment import open_env
from indextables.table.writing import Answer, accepted, discard, heard

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.env import Env

__all__ = ["TableWriter"]


class TableWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One write. An abort never touches what may be committed."""

    def __init__(self, url: str, asked: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        """Raises SchemaMismatch, InvalidArgument, NotSupported before any task runs."""
        self._request = WriteRequest(url, asked, overwrite)
        env = self._env()
        self._token = env.ambient.token()
        # As Spark's own sources: that a DataFrame happens to hold no null is no rule for the table.
        self._plan = plan_write(open_log(env), self._request, arrow_schema(schema.toNullable()))

    def as_batch(self, application: str, number: int) -> TableWriter:
        """The same write as batch `number` of a stream: the table takes no batch of an application twice."""
        batch = copy.copy(self)
        asked = msgspec.structs.replace(self._request.asked, txn=(application, number))
        batch._request = msgspec.structs.replace(self._request, asked=asked, by="stream")  # noqa: SLF001 - a copy
        return batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Durable splits for the rows of one task; a task without rows writes no file."""
        session = task_session()
        check_session(session, WRITING)
        adds = write_rows(lambda: self._env(session), self._request, self._plan, iterator)
        return message_of(self._token, adds, session)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One version for all tasks.

        Raises CommitConflict with nothing left behind, or CommitStateUnknown with nothing deleted; SplitCorrupt if a
        file that was to be merged cannot be read back, with nothing committed or deleted.
        """
        answers = answers_in(messages)
        adds = accepted(self._token, answers)
        if self._plan.is_idle:
            return
        # Planners and tasks have no use for what a commit loads.
        from indextables.spark.source.write_commit import commit_write

        session = _session_of(answers)
        commit_write(open_log(self._env(session)), self._request, self._plan, adds, session)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of finished tasks, but only where no commit can have been tried.

        Spark calls `commit` when every task has answered, and `abort` after a commit that failed, with the same
        messages. So an answer that is missing proves that nothing was committed; without one nothing is touched, and
        purge takes what nobody refers to.
        """
        if any(message is None for message in messages):
            answers = answers_in(messages)
            discard(self._env(_session_of(answers)), heard(self._token, answers))

    def _env(self, session: Mapping[str, str] | None = None) -> Env:
        asked = self._request.asked
        return open_env(self._request.url, asked.table_options, session={**(session or {}), **asked.session})


def _session_of(answers: Sequence[Answer | None]) -> dict[str, str]:
    """What the tasks saw of the session; all of one job see the same."""
    return next((dict(answer.session) for answer in answers if answer is not None), {})
