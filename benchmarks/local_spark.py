"""The Spark session of the benchmarks, and turns that peers take one after the other."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def session(**conf: str) -> Iterator[SparkSession]:
    """`local[2]`, quiet, with this interpreter for tasks."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.session.timeZone", "UTC")
    )
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@dataclass(frozen=True)
class Cost:
    """The least of several turns: seconds on the clock, and CPU seconds of this process, the JVM and its workers."""

    wall: float
    cpu: float


def turns(count: int, calls: Mapping[str, Callable[[], object]]) -> dict[str, Cost]:
    """The cost of each call, after one round that does not count; they take turns, so that noise is shared."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for turn in range(count + 1):
        for name, call in calls.items():
            began, spent = time.perf_counter(), cpu_seconds()
            call()
            if turn:
                found[name].append((time.perf_counter() - began, cpu_seconds() - spent))
    return {name: Cost(min(w for w, _ in every), min(c for _, c in every)) for name, every in found.items()}


def cpu_seconds() -> float:
    """CPU of this process and all that it started and that still lives."""
    parents: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(folder.name))
                spent[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total, left = 0.0, [os.getpid()]
    while left:
        process = left.pop()
        total += spent.get(process, 0.0)
        left += parents.get(process, [])
    return total


def read_all(frame: DataFrame) -> None:
    """Every column of every row, to nowhere."""
    frame.write.format("noop").mode("overwrite").save()
