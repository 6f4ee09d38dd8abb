"""A driver that is killed in the middle of a batch write and of streams, and goes on where it was when started again.

`main(spark, folder, batch, *phases)` writes 100 rows as one batch with an application transaction to the table `batch`,
and copies the table `source` to the tables `sink1`, `sink2`, ..., one file per micro-batch, until nothing is left. Each
of them stops at the phase that is named for it, in this order, a stream at micro-batch number `batch`; when all have
come that far, the driver dies.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

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

from indextables.spark.source.source import IndexTablesSource
from indextables.spark.source.stream_read import TableStreamReader
from indextables.spark.source.stream_write import TableStreamWriter

NOTHING = "nothing"


class Fault:
    """Stops once, at the phase it is made for. One of a driver's faults waits for the others and kills it."""

    def __init__(self, text: str) -> None:
        self._phase, self._batch, self._marker, self._others, self._python, self._jvm = text.split("|")

    def at(self, phase: str, batch: int | None = None) -> None:
        if phase != self._phase or batch not in {None, int(self._batch)} or not first(self._marker):
            return
        if not self._others:
            _hold()
        while not all(Path(marker).exists() for marker in self._others.split(",")):
            time.sleep(0.02)
        kill_driver(int(self._python), int(self._jvm))


def _hold() -> NoReturn:
    """Until whoever started this process is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.02)
    os._exit(1)


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


def main(spark: SparkSession, folder: str, batch: str, *phases: str) -> None:
    spark.dataSource.register(KilledSource)
    python, jvm = pids_of(spark)
    named = dict(zip(("batch", *(f"sink{number}" for number in range(1, len(phases)))), phases, strict=True))
    markers = {name: f"{folder}/{name} {phase}.marker" for name, phase in named.items() if phase != NOTHING}
    faults = {}
    for name, phase in named.items():
        others = ",".join(markers.values()) if name == next(iter(markers), None) else ""
        faults[name] = f"{phase}|{batch}|{markers.get(name, '')}|{others}|{python}|{jvm}"
    last = faults.pop("batch")
    streams = [threading.Thread(target=_ending_all, args=(_copy, spark, folder, *stream)) for stream in faults.items()]
    # One after the other: a stream that is held back takes nothing from the next, one that starts takes all there is.
    for name, stream in zip(faults, streams, strict=True):
        stream.start()
        while stream.is_alive() and not (name in markers and Path(markers[name]).exists()):
            time.sleep(0.02)
    _ending_all(_write, spark, folder, last)
    for stream in streams:
        stream.join()


def _write(spark: SparkSession, folder: str, fault: str) -> None:
    once = {"txnAppId": "the job", "txnVersion": "7"}
    rows = spark.range(0, 100, 1, 2)
    rows.write.format("killed").options(fault=fault, **once).mode("append").save(f"{folder}/batch")


def _copy(spark: SparkSession, folder: str, name: str, fault: str) -> None:
    stream = spark.readStream.format("killed").options(fault=fault, maxFilesPerTrigger="1").load(f"{folder}/source")
    sink = stream.writeStream.format("killed").options(fault=fault, checkpointLocation=f"{folder}/{name}-checkpoint")
    run_to_the_end(sink.trigger(availableNow=True), f"{folder}/{name}")


def _ending_all(run: Callable[..., None], spark: SparkSession, *arguments: str) -> None:
    """What fails ends the driver: others may wait for it."""
    try:
        # A thread finds registered sources in the session that it has last made something with.
        spark.createDataFrame([], "id int")
        run(spark, *arguments)
    except Exception:  # noqa: BLE001 - whatever it is, it is told
        traceback.print_exc()
        os._exit(2)


def _with_fault(made: Any, kind: type, fault: Fault) -> Any:
    made.__class__ = kind
    made.fault = fault
    return made
