"""Turns the rows of one task into durable splits, and tells which in a message."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from indextables.errors import InvariantViolated
from indextables.spark.source.write_plan import WritePlan, WriteRequest, replaced_by, target_for
from indextables.table.overwrite import only_inside
from indextables.table.rows import SPARK_DOOR, Rows, fit, typed_only
from indextables.table.writing import Answer, write_adds

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.env import Env
    from indextables.log.wire import Add

__all__ = ["WrittenFiles", "answers_in", "message_of", "write_rows"]

_ANSWER = msgspec.json.Decoder(Answer)


class WrittenFiles(WriterCommitMessage):  # type: ignore[misc]
    """The `Answer` of one attempt of a task, as JSON."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    @property
    def is_empty(self) -> bool:
        """True if the task had no rows."""
        return not _ANSWER.decode(self.answer).adds


def write_rows(
    opened: Callable[[], Env], request: WriteRequest, plan: WritePlan, batches: Iterator[pa.RecordBatch]
) -> list[Add]:
    """Durable splits for the rows of one task; a task without rows opens no store and writes no file."""
    if plan.is_idle:
        # A worker that leaves rows in the pipe is of no use to the next task.
        deque(batches, maxlen=0)
    first = next(batches, None)
    if first is None:
        return []

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    env = opened()
    target = target_for(env, plan)
    rows = Rows(first.schema, all_batches())
    rows = typed_only(rows, target.schema) if request.asked.merge_schema else rows
    fitted = fit(rows, target.schema, url=request.url, door=SPARK_DOOR)
    where, text = replaced_by(request, target)
    return write_adds(env, target, fitted if where is None else only_inside(fitted, where, text))


def message_of(token: str, adds: list[Add], session: Mapping[str, str]) -> WrittenFiles:
    """The message of this attempt of this task: what it wrote for the write `token`, what it sees of the session."""
    task = TaskContext.get()
    partition, attempt = (0, 0) if task is None else (task.partitionId(), task.taskAttemptId())
    return WrittenFiles(msgspec.json.encode(Answer(token, partition, attempt, adds, dict(session))))


def answers_in(messages: Sequence[WriterCommitMessage | None]) -> list[Answer | None]:
    """What the tasks say, None for one that says nothing. Raises InvariantViolated for messages that are not ours."""
    answers: list[Answer | None] = []
    for message in messages:
        if message is not None and not isinstance(message, WrittenFiles):
            raise InvariantViolated(f"a task answered with {type(message).__name__}: nothing was committed")
        try:
            answers.append(None if message is None else _ANSWER.decode(message.answer))
        except msgspec.DecodeError as cause:
            raise InvariantViolated(f"the answer of a task cannot be read: {cause}") from cause
    return answers
