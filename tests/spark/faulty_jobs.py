"""Jobs of a driver on a cluster whose workers and executors die in the middle of a write.

`main(spark, folder)` runs every case into a table of its own below `folder` and writes down what happened.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from tests.servers.spark_faults import executor, first, kill_executor, kill_worker

from indextables.errors import CommitStateUnknown
from indextables.spark.source.source import IndexTablesSource

ROWS = 4000
TASKS = 4
MAPPED = "mapped"
"""The files that tell which attempts have mapped, and where."""


class FaultySource(IndexTablesSource):
    """The real source. Its writer has one fault, which the options `fault` and `marker` name."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._fault = self.options.pop("fault", "")
        self._marker = self.options.pop("marker", "")

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return FaultyWriter(super().writer(schema=schema, overwrite=overwrite), self._fault, self._marker)


class FaultyWriter(DataSourceArrowWriter):
    def __init__(self, inner: Any, fault: str, marker: str) -> None:
        self._inner = inner
        self._fault = fault
        self._marker = marker

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._fault == "executor before" and first(self._marker):
            kill_executor()
        message = self._inner.write(iterator)
        self._note(message)
        if self._fault == "executor after" and first(self._marker):
            kill_executor()
        if self._fault == "mapper after" and _has_mapped(self._marker) and first(self._marker):
            kill_executor()
        if self._fault == "worker after" and first(self._marker):
            kill_worker()
        if self._fault == "raises" and first(self._marker):
            raise RuntimeError("a task that fails after its files are written")
        if self._fault == "slow" and first(self._marker):
            _wait_for_a_second_copy(self._marker)
        return message

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        doubled = [message for message in messages for _ in range(2)]
        if self._fault != "unknown and lost":
            self._inner.commit(doubled[::-1] if self._fault == "messages doubled" else messages)
        if self._fault.startswith("unknown"):
            raise CommitStateUnknown("no answer came", token="t")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._inner.abort(messages)

    def _note(self, message: Any) -> None:
        """Which attempt wrote which files, beside the marker."""
        task = TaskContext.get()
        assert task is not None
        note = {"partition": task.partitionId(), "attempt": task.attemptNumber(), "stage": task.stageId()}
        place = Path(f"{self._marker}.{task.taskAttemptId()}")
        place.write_text(json.dumps({**note, "adds": json.loads(message.answer)["adds"]}), encoding="utf-8")


def main(spark: SparkSession, folder: str) -> None:
    spark.dataSource.register(FaultySource)
    for fault in ("worker after", "raises", "executor before", "executor after", "messages doubled"):
        write(rows(spark), folder, fault)
    for fault in ("unknown and landed", "unknown and lost"):
        try:
            write(rows(spark), folder, fault)
        except PySparkException as error:
            (Path(folder) / f"{fault.replace(' ', '-')}.error").write_text(str(error), encoding="utf-8")
    # The executor that dies takes its part of the shuffle along: the stage before has to run again. One that came up
    # since, in the place of one that died before, has no part.
    noted = rows(spark).mapInArrow(_Noting(f"{folder}/{MAPPED}"), "id bigint, message string")
    write(noted.repartition(TASKS, "id"), folder, "mapper after", name="shuffle")


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, TASKS).selectExpr("id", "concat('line ', id) as message")


def write(frame: DataFrame, folder: str, fault: str, *, name: str | None = None) -> None:
    place = Path(folder) / (name or fault).replace(" ", "-")
    options = {"fault": fault, "marker": f"{place}.marker", "spark.indextables.indexing.typemap.message": "text"}
    frame.write.format("faulty").options(**options).mode("append").save(str(place))


class _Noting:
    """Passes batches on, and leaves a file for every attempt that did, with the executor that it ran in."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        assert task is not None
        Path(f"{self._place}.{task.taskAttemptId()}").write_text(str(executor()), encoding="utf-8")


def _has_mapped(marker: str) -> bool:
    """True in an executor that holds a part of the shuffle."""
    return str(executor()) in [note.read_text(encoding="utf-8") for note in Path(marker).parent.glob(f"{MAPPED}.*")]


def _wait_for_a_second_copy(marker: str) -> None:
    """Until another attempt of this partition has written its files."""
    task = TaskContext.get()
    assert task is not None
    while True:
        notes = [note.read_text(encoding="utf-8") for note in Path(marker).parent.glob(f"{Path(marker).name}.*")]
        seen = [json.loads(note) for note in notes if note]
        mine = [note["attempt"] for note in seen if note["partition"] == task.partitionId()]
        if any(attempt != task.attemptNumber() for attempt in mine):
            return
        time.sleep(0.02)
