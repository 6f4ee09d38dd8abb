"""Spark: writing log lines with six fields indexed, against plain Parquet, and LanceDB with its text index."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import corpus
from benchmarks.harness import Bar
from indextables import open as open_table

_TICKS = os.sysconf("SC_CLK_TCK")


def run(scale: str) -> list[Bar]:
    rows = 2_000_000 if scale == "full" else 200_000
    turns = 2 if scale == "full" else 1
    folder = Path(tempfile.mkdtemp(prefix="spark-write-bench-"))
    try:
        _make_source(folder / "source", rows)
        spark_costs = _in_spark(folder, rows, turns)
        lance = _in_lance(folder, positions=False)
        positions = _in_lance(folder, positions=True)
        return _bars(rows, spark_costs, lance, positions)
    finally:
        shutil.rmtree(folder)


def _make_source(folder: Path, rows: int) -> None:
    folder.mkdir()
    for number in range(4):
        table = corpus.logs(rows // 4, seed=number + 1)
        pq.write_table(table, folder / f"{number}.parquet", compression="zstd")


def _bars(
    rows: int,
    costs: dict[str, list[tuple[float, float]]],
    lance: tuple[float, float],
    positions: tuple[float, float],
) -> list[Bar]:
    wall, cpu = ({name: min(cost[side] for cost in every) for name, every in costs.items()} for side in (0, 1))
    what = f"{rows / 1e6:g} M lines"
    return [
        Bar(f"{what}: write, six fields indexed", wall["ours"], wall["parquet"], "s", 5, peer_name="Spark, Parquet"),
        Bar(f"{what}: the same, by CPU", cpu["ours"], cpu["parquet"], "s", peer_name="Spark, Parquet"),
        Bar(f"{what}: write, index", wall["ours"], lance[0], "s", 1, peer_name="LanceDB, table + text index"),
        Bar(f"{what}: the same, by CPU", cpu["ours"], lance[1], "s", peer_name="LanceDB"),
        Bar(f"{what}: write, index", wall["ours"], positions[0], "s", peer_name="LanceDB, index with positions"),
        Bar(f"{what}: the same, by CPU", cpu["ours"], positions[1], "s", peer_name="LanceDB, with positions"),
        Bar(f"{what}: Spark's way to Python alone", wall["nothing"], wall["parquet"], "s", peer_name="Spark, Parquet"),
    ]


def _in_spark(folder: Path, rows: int, turns: int) -> dict[str, list[tuple[float, float]]]:
    """Wall-clock and CPU seconds of every turn, all Python workers and the JVM included."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("spark-write")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.maxPartitionBytes": "1g",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    jvm = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - whose CPU is measured
    frame = spark.read.parquet(str(folder / "source"))

    def ours(place: Path) -> None:
        options = {"indexing.typemap.message": "text"}
        frame.write.format("indextables").options(**options).mode("append").save(str(place))

    def parquet(place: Path) -> None:
        frame.write.parquet(str(place))

    def nothing(_: Path) -> None:
        frame.mapInArrow(_drain, "rows bigint").write.format("noop").mode("append").save()

    ways: dict[str, Callable[[Path], None]] = {"parquet": parquet, "nothing": nothing, "ours": ours}
    try:
        warm = frame.limit(20_000)
        warm.write.format("indextables").mode("append").save(str(folder / "warm"))
        warm.write.parquet(str(folder / "warm-parquet"))
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for turn in range(turns):
            for name, way in ways.items():
                place = folder / f"{name}-{turn}"
                costs[name].append(_cost(jvm, lambda way=way, place=place: way(place)))
                if name == "ours":
                    assert open_table(place).count() == rows
                shutil.rmtree(place, ignore_errors=True)
        return costs
    finally:
        spark.stop()


def _drain(batches):
    import pyarrow as pa

    count = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": [count]})


def _in_lance(folder: Path, *, positions: bool) -> tuple[float, float]:
    """Wall-clock and CPU seconds in a process of its own: rows as a table, then the text index."""
    code = f"from benchmarks.spark_write import build_lance; build_lance({str(folder)!r}, {positions})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    wall, cpu = json.loads(done.stdout.splitlines()[-1])
    shutil.rmtree(folder / "lance", ignore_errors=True)
    return wall, cpu


def build_lance(folder: str, positions: bool) -> None:
    import lancedb

    source = pq.read_table(Path(folder) / "source")

    def build() -> None:
        table = lancedb.connect(Path(folder) / "lance").create_table("logs", source)
        table.create_fts_index("message", with_position=positions, replace=True)
        assert table.count_rows() == source.num_rows

    print(json.dumps(_cost(os.getpid(), build)))


def _cost(root: int, call: Callable[[], object]) -> tuple[float, float]:
    before, began = _cpu(root), time.perf_counter()
    call()
    return time.perf_counter() - began, _cpu(root) - before


def _cpu(root: int) -> float:
    """CPU seconds of a process and of everything below it, those that ended included."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(fields[1])
            spent[int(entry.name)] = sum(int(ticks) for ticks in fields[11:15])
    total = 0
    for pid, ticks in spent.items():
        above = pid
        while above not in {root, 0, 1} and above in parents:
            above = parents[above]
        total += ticks if above == root else 0
    return total / _TICKS
