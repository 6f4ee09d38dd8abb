"""A driver that kills itself at one place of a batch write or of a stream, and goes on where it was when started again.

`main(spark, folder, phase, batch)` writes 100 rows as one batch with an application transaction, then copies the table
`source` to the table `sink`, one file per micro-batch, until nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from tests.servers.spark_faults import first, kill_driver, pids_of
from tests.spark.streams import run_to_the_end

from indextables.spark.source import IndexTablesSource
from indextables.spark.stream_read import TableStreamReader
from indextables.spark.stream_write import TableStreamWriter


class Fault:
    """Kills the driver once, at the phase it is made for."""

    def __init__(self, text: str) -> None:
        self._phase, self._batch, self._marker, self._python, self._jvm = text.split("|")

    def at(self, phase: str, batch: int | None = None) -> None:
        if phase == self._phase and batch in {None, int(self._batch)} and first(self._marker):
            kill_driver(int(self._python), int(self._jvm))


class KilledSource(IndexTablesSource):
    """The real source, with a driver that dies at the place that the option `fault` names."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._fault = Fault(self.options.pop("fault"))

    @classmethod
    def name(cls) -> str:
        return "killed"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return KilledWriter(super().writer(schema=schema, overwrite=overwrite), self._fault)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return _with_fault(super().streamWriter(schema=schema, overwrite=overwrite), KilledStreamWriter, self._fault)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _with_fault(super().streamReader(schema=schema), KilledStreamReader, self._fault)


class KilledWriter(DataSourceArrowWriter):
    def __init__(self, inner: Any, fault: Fault) -> None:
        self._inner = inner
        self._fault = fault

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._inner.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._fault.at("batch uncommitted")
        self._inner.commit(messages)
        self._fault.at("batch committed")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._inner.abort(messages)


class KilledStreamWriter(TableStreamWriter):
    fault: Fault

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        batch = int(task.getLocalProperty("streaming.sql.batchId") or -1)
        self.fault.at("stream unwritten", batch)
        message = super().write(iterator)
        self.fault.at("stream read", batch)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.fault.at("stream written", batchId)
        super().commit(messages, batchId)
        self.fault.at("stream committed", batchId)


class KilledStreamReader(TableStreamReader):
    fault: Fault

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        offset = super().latestOffset(start, limit)
        self.fault.at("stream offset", start["index"])
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        self.fault.at("stream planned", start["index"])
        return super().partitions(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        self.fault.at("stream finished", end["index"] - 1 if end["index"] else 2)
        super().commit(end)


def main(spark: SparkSession, folder: str, phase: str, batch: str = "1") -> None:
    spark.dataSource.register(KilledSource)
    python, jvm = pids_of(spark)
    fault = f"{phase}|{batch}|{folder}/{phase}.marker|{python}|{jvm}"
    once = {"txnAppId": "the job", "txnVersion": "7"}
    rows = spark.range(0, 100, 1, 2)
    rows.write.format("killed").options(fault=fault, **once).mode("append").save(f"{folder}/batch")
    stream = spark.readStream.format("killed").options(fault=fault, maxFilesPerTrigger="1").load(f"{folder}/source")
    sink = stream.writeStream.format("killed").options(fault=fault, checkpointLocation=f"{folder}/checkpoint")
    run_to_the_end(sink.trigger(availableNow=True), f"{folder}/sink")


def _with_fault(made: Any, kind: type, fault: Fault) -> Any:
    made.__class__ = kind
    made.fault = fault
    return made
