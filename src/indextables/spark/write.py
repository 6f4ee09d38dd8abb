"""The write side: tasks write splits, the driver commits them once, an abort never touches what may be committed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables import options as opt
from indextables.errors import InvalidArgument, InvariantViolated, NotSupported, TableNotFound
from indextables.log.actions import Add, Metadata
from indextables.table.answers import Answer, accepted, heard

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.log.env import LogEnv
    from indextables.log.snapshot import Log
    from indextables.query.expr import Node

__all__ = ["TableWriter", "WrittenFiles"]

_ANSWER = msgspec.json.Decoder(Answer)
_METADATA = msgspec.json.Decoder(Metadata)


class WrittenFiles(WriterCommitMessage):  # type: ignore[misc]
    """The `Answer` of one attempt of a task, as JSON."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer


class TableWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One write. Planned once, copied to every task and to the commit."""

    def __init__(
        self,
        *,
        url: str,
        options: Mapping[str, object],
        settings: Mapping[str, str],
        schema: StructType,
        overwrite: bool,
    ) -> None:
        """Raises SchemaMismatch, InvalidArgument, NotSupported before any task runs."""
        self._url = url
        self._options = dict(options)
        self._settings = {key.lower(): value for key, value in settings.items()}
        self._overwrite = overwrite
        self._write = self._env().ambient.token()
        self._is_new, self._metadata_json = self._plan(schema)

    def as_batch(self, application: str, number: int) -> TableWriter:
        """The same write as batch `number` of an application: the table takes no batch twice."""
        batch = copy.copy(self)
        batch._settings = {**self._settings, "txnappid": application, "txnversion": str(number)}  # noqa: SLF001 - a copy of this one
        return batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Durable splits for the rows of one task; a task without rows writes no file."""
        from indextables.table.overwrite import only_inside
        from indextables.table.rows import Rows, fit
        from indextables.table.write import target_of, write_adds

        first = next(iterator, None)
        if first is None:
            return self._answer([])

        def batches() -> Iterator[pa.RecordBatch]:
            yield first
            yield from iterator

        env = self._env()
        metadata = self._metadata()
        target = target_of(metadata, env.options.over(metadata.configuration))
        rows = fit(Rows(first.schema, batches()), target.schema, url=self._url)
        where, text = self._replaced(metadata)
        if where is not None:
            rows = only_inside(rows, where, text)
        return self._answer(write_adds(env, target, rows))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One version for all tasks.

        Raises CommitConflict with nothing left behind, or CommitStateUnknown with nothing deleted.
        """
        from indextables.table.append import commit_append
        from indextables.table.overwrite import commit_overwrite
        from indextables.table.write import registered, target_of

        adds = accepted(self._write, _answers(messages))
        log = self._log()
        metadata = self._created(log) if self._is_new else self._metadata()
        target = target_of(metadata, log.env.options.over(metadata.configuration))
        mapping = registered(metadata, target.plan) if adds else None
        if self._overwrite and not self._is_new:
            where, text = self._replaced(metadata)
            commit_overwrite(log, metadata, adds, where=where, text=text, mapping=mapping)
        elif adds:
            commit_append(log, metadata, adds, mapping=mapping, txn=self._txn())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of finished tasks, but only where no commit can have been tried.

        Spark calls `commit` when every task has answered, and `abort` after a commit that failed, with the same
        messages. So an answer that is missing proves that nothing was committed; without one nothing is touched, and
        purge takes what nobody refers to.
        """
        from indextables.table.write import discard

        if any(message is None for message in messages):
            discard(self._env(), heard(self._write, _answers(messages)))

    def _answer(self, adds: list[Add]) -> WrittenFiles:
        task = TaskContext.get()
        partition, attempt = (0, 0) if task is None else (task.partitionId(), task.taskAttemptId())
        return WrittenFiles(msgspec.json.encode(Answer(self._write, partition, attempt, adds)))

    def _plan(self, schema: StructType) -> tuple[bool, bytes]:
        """Whether the table is to be made, and the metadata that the tasks write for."""
        from indextables.log.create import new_metadata
        from indextables.log.protocol import check_rows_writable
        from indextables.table.partitions import check_partition_columns
        from indextables.table.rows import Rows, fit
        from indextables.table.write import registered, target_of

        log = self._log()
        given = arrow_schema(schema)
        partition_by = [name.strip() for name in self._settings.get("partitionby", "").split(",") if name.strip()]
        try:
            snapshot = log.snapshot()
        except TableNotFound:
            columns = check_partition_columns(given, partition_by)
            indexing = dict(log.env.options.from_operator("indexing."))
            metadata = new_metadata(log, given, partition_by=tuple(columns), configuration=indexing)
            target = target_of(metadata, log.env.options)
            return True, msgspec.json.encode(registered(metadata, target.plan) or metadata)
        check_rows_writable(snapshot.protocol, self._url)
        if partition_by and [name.lower() for name in partition_by] != [
            name.lower() for name in snapshot.partition_columns
        ]:
            message = f"the table at {self._url} is partitioned by {snapshot.partition_columns}, not by {partition_by}"
            raise InvalidArgument(message, option="partitionBy")
        fit(Rows(given, ()), snapshot.schema, url=self._url)
        self._replaced(snapshot.metadata)
        self._txn()
        return False, msgspec.json.encode(snapshot.metadata)

    def _created(self, log: Log) -> Metadata:
        """Version 0, made here or by whoever was faster with the same schema."""
        from indextables.log.create import create_table

        return create_table(log, self._metadata()).metadata

    def _replaced(self, metadata: Metadata) -> tuple[Node | None, str]:
        text = self._settings.get("replacewhere")
        if text is None:
            return None, ""
        if not self._overwrite:
            raise InvalidArgument("replaceWhere goes with mode('overwrite')", option="replaceWhere")
        from indextables.log.schema import schema_from_json
        from indextables.query.parse import parse
        from indextables.query.prune import is_partition_only

        zone = self._env().options.over(metadata.configuration)[opt.TIME_ZONE]
        where = parse(text, schema_from_json(metadata.schemaString), time_zone=zone)
        if not is_partition_only(where, metadata.partitionColumns):
            raise NotSupported(f"replaceWhere = {text!r} reads columns that are no partition columns")
        return where, text

    def _txn(self) -> tuple[str, int] | None:
        app, batch = self._settings.get("txnappid"), self._settings.get("txnversion")
        if app is None and batch is None:
            return None
        if app is None or batch is None or not batch.isdigit():
            raise InvalidArgument("txnAppId and txnVersion (a whole number) go together", option="txnVersion")
        return app, int(batch)

    def _metadata(self) -> Metadata:

        return _METADATA.decode(self._metadata_json)

    def _env(self) -> LogEnv:
        from indextables.table.environment import open_env

        return open_env(self._url, self._options)

    def _log(self) -> Log:
        from indextables.log.snapshot import Log

        return Log(self._env())


def arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's schema as the log would have it, without ids that came with another table's columns."""
    from indextables.log.schema import schema_from_json
    from indextables.spark.source import drop_ids

    parsed = schema.jsonValue()
    drop_ids(parsed)
    return schema_from_json(msgspec.json.encode(parsed).decode())


def _answers(messages: Sequence[WriterCommitMessage | None]) -> list[Answer | None]:
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
