"""Spark: a Delta table becomes one of ours, against Spark reading its files and writing them as one of ours."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from deltalake import write_deltalake

import indextables
from benchmarks import corpus, local_spark
from benchmarks.harness import Bar

_ROWS = {"small": 200_000, "full": 2_000_000, "soak": 2_000_000}
_FILES = 8


def run(scale: str) -> list[Bar]:
    folder = Path(tempfile.mkdtemp(prefix="interop-spark-bench-"))
    try:
        rows = _ROWS[scale]
        for part in range(_FILES):
            write_deltalake(folder / "delta", corpus.logs(rows // _FILES, seed=part + 1), mode="append")
        converted, written = _both(folder, rows)
    finally:
        shutil.rmtree(folder)
    return [
        Bar(f"convert {rows:,} lines of Delta", converted, written, "s", 1.15, peer_name="Spark reads and writes them")
    ]


def _both(folder: Path, rows: int) -> tuple[float, float]:
    from indextables import IndexTable

    with local_spark.session() as spark:
        files = [str(file) for file in sorted((folder / "delta").glob("*.parquet"))]
        # Both start with a warm session.
        spark.read.parquet(files[0]).limit(1000).write.format("indextables").mode("append").save(str(folder / "warm"))
        began = time.perf_counter()
        options = {"indexing.typemap.message": "text"}
        spark.read.parquet(*files).write.format("indextables").options(**options).mode("append").save(str(folder / "b"))
        written = time.perf_counter() - began
        began = time.perf_counter()
        report = IndexTable.convert(spark, folder / "delta", folder / "a", indexing={"message": "text"})
        converted = time.perf_counter() - began
        assert report.rows == rows
        assert indextables.open(folder / "a").count() == indextables.open(folder / "b").count() == rows
    return converted, written
