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

import pyarrow.parquet as pq

import indextables
from benchmarks.corpus import QUIET, enlarge, logs
from benchmarks.harness import Bar
from benchmarks.local_spark import read_all, session, turns
from indextables.spark.table.indextable import IndexTable

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
    made = indextables.create(folder / "whole", data.schema, indexing={"message": "text"}, properties=QUIET)
    for number in range(FILES):
        made.append(data.slice(number * size, size))
    for table in ("tenth", "all", "folded"):
        shutil.copytree(folder / "whole", folder / table)
    end = data["ts"][size].as_py().isoformat(sep=" ")
    _delete(folder / "tenth", f"latency % 20 = 0 AND ts < TIMESTAMP '{end}'", rows // FILES // 20)
    _delete(folder / "all", "latency % 20 = 0", rows // 20)
    # More than a twentieth, so that it is worth folding.
    _delete(folder / "folded", "latency % 10 = 0", rows // 10)
    folded = indextables.open(folder / "folded")
    folded.merge_splits(target_size=1)
    assert not folded.files()["deletionVector"].drop_null()


def _delete(path: Path, where: str, about: int) -> None:
    """Delete rows all over the files; the last digits of `latency` are as even as need be."""
    deleted = indextables.open(path).delete(where).deleted
    assert 0.8 * about < deleted < 1.2 * about, (deleted, about)


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
        enlarge(folder / f"t{size}", size)

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
