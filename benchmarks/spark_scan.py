"""Spark: native scans against plain Parquet of the same rows, with deleted rows, and planning on large tables.

Ten files of a tenth of the rows each, on both sides. Times are from the path to the answer, planning included; Spark is
told the schema of the plain files. Planning is for one partition of ten files, whatever else the table holds, and from
nothing: the log is read anew.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.vectors import delete_rows

import indextables
from benchmarks.corpus import logs
from benchmarks.harness import Bar
from benchmarks.local_spark import read_all, session, turns
from indextables.log.care.opening import open_log
from indextables.log.care.schedule import checkpoint
from indextables.log.commit.transaction import Transaction
from indextables.spark.table.indextable import IndexTable
from indextables.table.environment import open_env

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 10


def run(scale: str) -> list[Bar]:
    rows, repeats = (2_000_000, 9) if scale == "full" else (100_000, 3)
    with tempfile.TemporaryDirectory(prefix="spark-scan-bench-") as name, session() as spark:
        folder = Path(name)
        make_tables(folder, rows)
        bars = scan_bars(spark, folder, rows, repeats)
        sizes = (1_000, 100_000) if scale == "full" else (1_000, 10_000)
        return [*bars, count_bar(spark, folder, rows), *planning_bars(spark, folder, sizes, repeats)]


def make_tables(folder: Path, rows: int) -> None:
    """The same rows as plain files and as tables: none deleted, a twentieth of one file, of all files, and folded."""
    (folder / "plain").mkdir()
    data = logs(rows)
    size = rows // FILES
    for number in range(FILES):
        pq.write_table(data.slice(number * size, size), folder / "plain" / f"{number}.parquet", compression="zstd")
    made = indextables.create(folder / "whole", data.schema, indexing={"message": "text"})
    for number in range(FILES):
        made.append(data.slice(number * size, size))
    made.close()
    for table in ("tenth", "all", "folded"):
        shutil.copytree(folder / "whole", folder / table)
    delete_rows(folder / "tenth", lambda number, count: range(0, count, 20) if number == 0 else ())
    delete_rows(folder / "all", lambda _, count: range(0, count, 20))
    # More than a twentieth, so that it is worth folding.
    delete_rows(folder / "folded", lambda _, count: range(0, count, 10))
    folded = indextables.open(folder / "folded")
    folded.merge_splits(target_size=1)
    assert not folded.files()["deletionVector"].drop_null()


def scan_bars(spark: SparkSession, folder: Path, rows: int, repeats: int) -> list[Bar]:
    schema = IndexTable.forPath(spark, folder / "whole").schema()

    def plain() -> DataFrame:
        return spark.read.schema(schema).parquet(str(folder / "plain"))

    def ours(table: str) -> Callable[[], DataFrame]:
        return lambda: IndexTable.forPath(spark, folder / table).toDF()

    def summed(frame: DataFrame) -> None:
        frame.selectExpr("sum(latency)").collect()

    frames = {"plain": plain, **{table: ours(table) for table in ("whole", "tenth", "all", "folded")}}
    scans = turns(repeats, {name: lambda make=make: read_all(make()) for name, make in frames.items()})
    sums = turns(repeats, {name: lambda make=make: summed(make()) for name, make in frames.items()})
    what = f"{rows / 1e6:g} M lines"
    told = {
        "whole": "",
        "tenth": ", 5 % deleted in a tenth of the files",
        "all": ", in all files",
        "folded": ", 10 % deleted in all files, folded",
    }
    kinds = (
        ("all columns", scans, {"whole": 1.1, "tenth": 1.2, "all": 1.5}),
        ("one column summed", sums, {"whole": 1.1, "tenth": 1.5, "all": 1.7, "folded": 1.05}),
    )
    return [
        Bar(
            f"{what}, {kind}{words}{by}",
            cost(found[table]),
            cost(found["plain"]),
            "s",
            bars.get(table),
            peer_name="Spark, Parquet",
        )
        for by, cost in (("", lambda c: c.wall), (", by CPU", lambda c: c.cpu))
        for kind, found, bars in kinds
        for table, words in told.items()
    ]


def count_bar(spark: SparkSession, folder: Path, rows: int) -> Bar:
    table = IndexTable.forPath(spark, folder / "whole")
    schema = table.schema()
    found = turns(
        3, {"ours": table.count, "plain": lambda: spark.read.schema(schema).parquet(str(folder / "plain")).count()}
    )
    return Bar(
        f"{rows / 1e6:g} M lines, count of all rows",
        found["ours"].wall,
        found["plain"].wall,
        "s",
        peer_name="Spark, Parquet",
    )


def planning_bars(spark: SparkSession, folder: Path, sizes: tuple[int, int], repeats: int) -> list[Bar]:
    for size in sizes:
        make_large(folder / f"t{size}", size)

    def plan(size: int) -> Callable[[], object]:
        def call() -> None:
            table = IndexTable.forPath(spark, folder / f"t{size}")
            table.invalidateCaches()
            table.toDF(where="part = 'p0'").selectExpr("sum(id)").explain("simple")

        return call

    with contextlib.redirect_stdout(io.StringIO()):
        found = turns(repeats, {str(size): plan(size) for size in sizes})
    small, large = sizes
    return [
        Bar(f"planning for one partition of {large:,} splits{by}", ours, theirs, "s", 1.5, peer_name=f"of {small:,}")
        for by, ours, theirs in (
            ("", found[str(large)].wall, found[str(small)].wall),
            (", by CPU", found[str(large)].cpu, found[str(small)].cpu),
        )
    ]


def make_large(path: Path, count: int) -> None:
    """Ten real splits in partition p0, and entries for all others, whose files nobody opens."""
    rows = pa.table({"id": list(range(100)), "part": ["p0"] * 100})
    table = indextables.create(path, rows.schema, partition_by=["part"])
    for number in range(10):
        table.append(rows.slice(number * 10, 10))
    log = open_log(open_env(path))
    snapshot = log.snapshot()
    first = snapshot.files.slice(0, 1)
    others = np.arange(count - 10)
    parts = pa.array([f"p{1 + number // 10}" for number in others])
    entries = {name: first[name].take(pa.array(np.zeros(len(others), np.int64))) for name in first.column_names}
    paths = [f"part=p{1 + number // 10}/splits/split-{number:032x}.split" for number in others]
    values = pa.MapArray.from_arrays(
        pa.array(np.arange(len(others) + 1, dtype=np.int32)), pa.array(["part"] * len(others)), parts
    )
    entries.update({"path": pa.array(paths), "partitionValues": values})
    Transaction(log, snapshot, operation="WRITE").add(pa.table(entries, schema=first.schema)).commit_or_raise()
    checkpoint(open_env(path), compact="full")
