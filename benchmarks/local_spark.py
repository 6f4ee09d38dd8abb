"""The Spark session of the benchmarks, and turns that peers take one after the other."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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


def turns(count: int, calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The least seconds of each call, after one round that does not count; they take turns, so that noise is shared."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(count + 1):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            if turn:
                found[name].append(time.perf_counter() - began)
    return {name: min(seconds) for name, seconds in found.items()}


def read_all(frame: DataFrame) -> None:
    """Every column of every row, to nowhere."""
    frame.write.format("noop").mode("overwrite").save()
