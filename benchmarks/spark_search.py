"""Spark: finding one line of many by a word of it, against `LIKE` on Parquet with the same rows in 40 files.

`--scale full` takes 1 M lines; `soak` 10 M. "By tasks" switches the driver's own search off, so that every search is
two jobs; cold is the first search with an empty index cache.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

import indextables
from benchmarks.corpus import logs
from benchmarks.harness import Bar
from benchmarks.local_spark import session, turns
from indextables.spark.table.indextable import IndexTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLITS = 40
ROWS = {"small": 100_000, "full": 1_000_000, "soak": 10_000_000}


def run(scale: str) -> list[Bar]:
    rows = ROWS[scale]
    with tempfile.TemporaryDirectory(prefix="spark-search-bench-") as name, session() as spark:
        folder = Path(name)
        needle = make_tables(folder, rows)
        return bars(spark, folder, rows, needle, 3 if scale == "small" else 7)


def make_tables(folder: Path, rows: int) -> str:
    """The same lines as a table and as plain files; returns the word that only one of them has."""
    (folder / "plain").mkdir()
    made = None
    size = rows // SPLITS
    needle = ""
    for number in range(SPLITS):
        part = logs(size, seed=number + 1)
        if number == SPLITS // 2:
            needle = part["message"][size // 2].as_py().split()[-1].partition("-")[2]
        pq.write_table(part, folder / "plain" / f"{number}.parquet", compression="zstd")
        made = made or indextables.create(folder / "t", part.schema, indexing={"message": "text"})
        made.append(part)
    return needle


def bars(spark: SparkSession, folder: Path, rows: int, needle: str, repeats: int) -> list[Bar]:
    schema = IndexTable.forPath(spark, folder / "t").schema()

    def like() -> None:
        frame = spark.read.schema(schema).parquet(str(folder / "plain"))
        assert len(frame.where(f"message like '%{needle}%'").collect()) == 1

    def search(**options: object) -> None:
        table = IndexTable.forPath(spark, folder / "t", {"cache.directory": str(folder / "cache"), **options})
        assert len(table.search(f"message:{needle}", limit=10).collect()) == 1

    like()
    began = time.perf_counter()
    search()
    cold = time.perf_counter() - began
    tasks = {"search.driver.maxSplits": 0}
    found = turns(repeats, {"like": like, "driver": search, "tasks": lambda: search(**tasks)})
    what = f"one line of {rows / 1e6:g} M in {SPLITS} splits"
    told = "times as fast as Spark's LIKE"
    return [
        Bar(
            f"{what}, warm: {told}", found["like"].wall / found["driver"].wall, None, "x", 20, "at least", absolute=True
        ),
        Bar(f"{what}, warm", found["driver"].wall, found["like"].wall, "s", peer_name="Spark LIKE"),
        Bar(f"{what}, warm, by CPU", found["driver"].cpu, found["like"].cpu, "s", peer_name="Spark LIKE"),
        Bar(f"{what}, cold", cold, found["like"].wall, "s", peer_name="Spark LIKE, warm"),
        Bar(f"{what}, warm, by tasks", found["tasks"].wall, found["like"].wall, "s", peer_name="Spark LIKE"),
    ]
