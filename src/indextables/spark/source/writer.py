"""The write side: tasks write splits, the driver commits them once, an abort never touches what may be committed.

Whatever the data decides is decided while Spark plans, before any file is written: whether the table is there, which
schema the rows are written for, whether they fit it. Tasks and commit get that plan as plain data.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indextables import options as opt
from indextables.errors import InvalidArgument, InvariantViolated, NotSupported, TableNotFound
from indextables.log.wire import Add, Metadata, Protocol
from indextables.spark.session import (
    WRITING,
    Settings,
    arrow_schema,
    check_session,
    planning,
    session_overwrites,
    task_session,
)
from indextables.table.writing import Answer, accepted, heard

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.env import Env
    from indextables.log.read import Log, Snapshot
    from indextables.query.expr import Node
    from indextables.table.overwrite import PartitionMode
    from indextables.table.rows import Evolution
    from indextables.table.writing import WriteTarget

__all__ = ["TableWriter", "WrittenFiles"]


class _Plan(msgspec.Struct, frozen=True):
    """What is written for which table.

    `metadata` is what the rows are written for; where the commit brings it as a new schema, `base` is the version it
    was made from and `protocol` what it needs. `is_new`: the commit makes the table. `is_idle`: nothing is to be done.
    `began` is the newest version when the job began.
    """

    metadata: Metadata
    is_new: bool = False
    is_idle: bool = False
    base: int | None = None
    protocol: Protocol | None = None
    began: int = 0


_ANSWER = msgspec.json.Decoder(Answer)
_PLAN = msgspec.json.Decoder(_Plan)


class WrittenFiles(WriterCommitMessage):  # type: ignore[misc]
    """The `Answer` of one attempt of a task, as JSON."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    @property
    def is_empty(self) -> bool:
        """True if the task had no rows."""
        return not _ANSWER.decode(self.answer).adds


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
        self._given = dict(settings)
        self._overwrite = overwrite
        self._write = self._env().ambient.token()
        # As Spark's own sources: that a DataFrame happens to hold no null is no rule for the table.
        self._plan_json = msgspec.json.encode(self._planned(arrow_schema(schema.toNullable())))

    def as_batch(self, application: str, number: int) -> TableWriter:
        """The same write as batch `number` of an application: the table takes no batch twice."""
        batch = copy.copy(self)
        batch._given = {**self._given, "txnAppId": application, "txnVersion": str(number)}  # noqa: SLF001 - a copy
        return batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Durable splits for the rows of one task; a task without rows writes no file."""
        from indextables.table.overwrite import only_inside
        from indextables.table.rows import Rows, fit, typed_only
        from indextables.table.writing import write_adds

        session = task_session()
        check_session(session, WRITING)
        plan = self._plan()
        if plan.is_idle:
            # A worker that leaves rows in the pipe is of no use to the next task.
            deque(iterator, maxlen=0)
        first = next(iterator, None)
        if first is None:
            return self._answer([], session)

        def batches() -> Iterator[pa.RecordBatch]:
            yield first
            yield from iterator

        env = self._env(session)
        target = self._target(env, plan)
        rows = Rows(first.schema, batches())
        fitted = fit(typed_only(rows, target.schema) if self._merges else rows, target.schema, url=self._url)
        where, text = self._replaced(target)
        if where is not None:
            fitted = only_inside(fitted, where, text)
        return self._answer(write_adds(env, target, fitted), session)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One version for all tasks. Files that were merged before it go when it is known whether it landed.

        Raises CommitConflict with nothing left behind, or CommitStateUnknown with nothing deleted; SplitCorrupt if a
        file that was to be merged cannot be read back, with nothing committed or deleted.
        """
        from indextables.table.writing import NOT_IN_THE_LOG, discard

        answers = _answers(messages)
        adds = accepted(self._write, answers)
        plan = self._plan()
        if plan.is_idle:
            return
        session = _session_of(answers)
        log = self._log(session)
        adds, replaced = _right_sized(log, plan, adds, self._settings.txn())
        try:
            self._commit(log, plan, adds, self._partitions_in(session), replaced)
        except NOT_IN_THE_LOG:
            discard(log.env, replaced)
            raise
        discard(log.env, replaced)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of finished tasks, but only where no commit can have been tried.

        Spark calls `commit` when every task has answered, and `abort` after a commit that failed, with the same
        messages. So an answer that is missing proves that nothing was committed; without one nothing is touched, and
        purge takes what nobody refers to.
        """
        from indextables.table.writing import discard

        if any(message is None for message in messages):
            answers = _answers(messages)
            discard(self._env(_session_of(answers)), heard(self._write, answers))

    def _commit(self, log: Log, plan: _Plan, adds: list[Add], partitions: PartitionMode, merged: Sequence[Add]) -> None:
        from indextables.table.append import commit_append
        from indextables.table.overwrite import commit_overwrite
        from indextables.table.writing import registered

        target = self._target(log.env, plan)
        metadata = self._created(log, plan, adds) if plan.is_new else plan.metadata
        if metadata is None:
            return
        settings = self._settings
        txn, change = settings.txn(), _change(log, plan)
        mapping = registered(metadata, target.plan) if adds else None
        note = settings.text("userMetadata")
        if self._overwrite:
            where, text = self._replaced(target)
            commit_overwrite(
                log,
                metadata,
                adds,
                since=plan.began,
                where=where,
                text=text,
                partitions=partitions,
                mapping=mapping,
                txn=txn,
                user_metadata=note,
                change=change,
                merged=merged,
            )
        elif adds or txn is not None or change is not None:
            commit_append(
                log, metadata, adds, mapping=mapping, txn=txn, user_metadata=note, change=change, merged=merged
            )

    def _answer(self, adds: list[Add], session: Mapping[str, str]) -> WrittenFiles:
        task = TaskContext.get()
        partition, attempt = (0, 0) if task is None else (task.partitionId(), task.taskAttemptId())
        return WrittenFiles(msgspec.json.encode(Answer(self._write, partition, attempt, adds, dict(session))))

    def _planned(self, given: pa.Schema) -> _Plan:
        """What to write for. Raises everything that can be told before a task runs."""
        from indextables.log.wire import check_rows_writable
        from indextables.table.writing import newest

        self._check()
        log = self._log()
        try:
            with planning(self._settings):
                snapshot = newest(log)
        except TableNotFound:
            return self._planned_new(log, given)
        check_rows_writable(snapshot.protocol, self._url)
        if self._settings.save_mode() == "error":
            message = f"there is a table at {self._url} already: use mode append or overwrite. Nothing was written"
            raise InvalidArgument(message, url=self._url)
        if self._settings.save_mode() == "ignore":
            return _Plan(snapshot.metadata, is_idle=True)
        return self._planned_for(log, snapshot, given)

    def _planned_new(self, log: Log, given: pa.Schema) -> _Plan:
        from indextables.log.commit import new_metadata
        from indextables.log.wire import check_not_foreign
        from indextables.table.rows import check_indexing, check_partition_columns

        check_not_foreign(log.env.store)
        columns = check_partition_columns(given, self._settings.names("partitionBy") or [])
        plan = _Plan(new_metadata(log, given, partition_by=tuple(columns)), is_new=True)
        check_indexing(log.env.options.from_call("indexing."), given.names, "call")
        self._replaced(self._target(log.env, plan))
        return plan

    def _planned_for(self, log: Log, snapshot: Snapshot, given: pa.Schema) -> _Plan:
        from indextables.table.rows import Rows, check_indexing, fit, merged_schema, replaced_schema, typed_only

        columns = self._settings.names("partitionBy")
        rows = Rows(given, ())
        change = None
        if self._settings.flag("overwriteSchema"):
            change = replaced_schema(snapshot.metadata, given, log.env.options, partition_by=columns)
        else:
            self._check_partitioning(columns, snapshot.partition_columns)
            if self._merges:
                rows = typed_only(rows, snapshot.schema)
                options = log.env.options
                change = merged_schema(snapshot.metadata, snapshot.protocol, rows.schema, options, url=self._url)
        plan = _Plan(snapshot.metadata, began=snapshot.version)
        if change is not None:
            plan = _Plan(change.metadata, base=snapshot.version, protocol=change.protocol, began=snapshot.version)
        target = self._target(log.env, plan)
        check_indexing(log.env.options.from_call("indexing."), target.schema.names, "call")
        fit(rows, target.schema, url=self._url)
        self._replaced(target)
        return plan

    def _check(self) -> None:
        """Wishes that exclude each other, or that Spark gives a Python source no way to grant."""
        from indextables.table.rows import check_merge_options

        settings = self._settings
        partial = not self._overwrite or "replaceWhere" in settings or self._partitions == "dynamic"
        check_merge_options(
            merge_schema=self._merges, overwrite_schema=settings.flag("overwriteSchema"), partial=partial
        )
        settings.txn()
        settings.save_mode()

    def _check_partitioning(self, given: Sequence[str] | None, table: Sequence[str]) -> None:
        if given and [name.lower() for name in given] != [name.lower() for name in table]:
            message = f"the table at {self._url} is partitioned by {list(table)}, not by {list(given)}"
            raise InvalidArgument(message, option="partitionBy")

    def _created(self, log: Log, plan: _Plan, adds: Sequence[Add]) -> Metadata | None:
        """Version 0, made here or by whoever was faster with the same schema; None where that ends this write."""
        from indextables.log.commit import create_table
        from indextables.table.rows import wanted_indexing
        from indextables.table.writing import discard, registered

        target = self._target(log.env, plan)
        wanted = wanted_indexing(log.env.options, target.schema.names)
        configuration = {**wanted, **plan.metadata.configuration}
        metadata = msgspec.structs.replace(plan.metadata, configuration=configuration)
        created = create_table(log, registered(metadata, target.plan) or metadata)
        mode = self._settings.save_mode()
        if created.is_new or mode is None:
            return created.metadata
        discard(log.env, adds)
        if mode == "error":
            message = f"another writer was faster to make the table at {self._url}. Nothing was written"
            raise InvalidArgument(message, url=self._url)
        return None

    def _replaced(self, target: WriteTarget) -> tuple[Node | None, str]:
        """The predicate of `replaceWhere` and its text."""
        from indextables.query.parse import depends_on_zone, parse
        from indextables.query.prune import is_partition_only

        text = self._settings.predicate("replaceWhere")
        if text is None:
            return None, ""
        if not self._overwrite:
            raise InvalidArgument("replaceWhere goes with mode('overwrite')", option="replaceWhere")
        if self._partitions == "dynamic":
            message = "replaceWhere and partitionOverwriteMode=dynamic each say what is replaced: give one"
            raise InvalidArgument(message, option="partitionOverwriteMode")
        where = parse(text, target.schema, time_zone=target.options[opt.TIME_ZONE])
        if not is_partition_only(where, target.partition_columns):
            raise NotSupported(f"replaceWhere = {text!r} reads columns that are not partition columns")
        if not target.options.given(opt.TIME_ZONE) and depends_on_zone(text, target.schema):
            message = (
                f"replaceWhere = {text!r} has a time without a zone, and a worker of Spark does not see that of the "
                "session: write the zone into it, give the option timeZone, or use indextables.write(df, path, "
                "mode='overwrite', replaceWhere=...). Nothing was written"
            )
            raise InvalidArgument(message, option="replaceWhere")
        return where, text

    @property
    def _settings(self) -> Settings:
        return Settings(self._given)

    @property
    def _merges(self) -> bool:
        return self._settings.flag("mergeSchema")

    @property
    def _partitions(self) -> PartitionMode:
        from indextables.table.overwrite import check_partition_mode

        return check_partition_mode(self._settings.text("partitionOverwriteMode") or "static")

    def _partitions_in(self, session: Mapping[str, str]) -> PartitionMode:
        """As the call says, else as Spark's own setting says, which planners do not see and commits do."""
        from indextables.table.overwrite import check_partition_mode

        settings = self._settings
        if "partitionOverwriteMode" in settings or "replaceWhere" in settings or settings.flag("overwriteSchema"):
            return self._partitions
        return check_partition_mode(session_overwrites(session) or "static")

    def _plan(self) -> _Plan:
        return _PLAN.decode(self._plan_json)

    def _target(self, env: Env, plan: _Plan) -> WriteTarget:
        from indextables.table.writing import target_of

        return target_of(plan.metadata, env.over(plan.metadata.configuration))

    def _env(self, session: Mapping[str, str] | None = None) -> Env:
        from indextables.table.environment import open_env

        return open_env(self._url, self._options, session={**(session or {}), **self._settings.session})

    def _log(self, session: Mapping[str, str] | None = None) -> Log:
        from indextables.log.care import open_log

        return open_log(self._env(session))


def _change(log: Log, plan: _Plan) -> tuple[Snapshot, Evolution] | None:
    if plan.base is None:
        return None
    from indextables.table.rows import Evolution

    return log.snapshot(plan.base), Evolution(plan.metadata, plan.protocol)


def _right_sized(log: Log, plan: _Plan, adds: list[Add], txn: tuple[str, int] | None) -> tuple[list[Add], list[Add]]:
    """The files to commit, and those that are not: with `optimizeWrite` the small ones of the tasks are merged.

    Those of a batch that the table holds already are not: nobody will ever read them.
    """
    env = log.env
    if not adds or not env.over(plan.metadata.configuration)[opt.OPTIMIZE_WRITE]:
        return adds, []
    # Most writes never get here: what merging needs is loaded when it is needed.
    from indextables.table.append import holds_batch
    from indextables.table.right_size import right_sized
    from indextables.table.running import Threads

    if holds_batch(log, txn):
        return adds, []
    sized = right_sized(env, plan.metadata, adds, Threads(env))
    return sized.adds, sized.replaced


def _session_of(answers: Sequence[Answer | None]) -> dict[str, str]:
    """What the tasks saw of the session; all of one job see the same."""
    return next((dict(answer.session) for answer in answers if answer is not None), {})


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
