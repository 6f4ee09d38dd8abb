"""A day of logs: Spark loads a million lines, then they are searched, filtered and counted.

Everything happens in a temporary folder, which is removed at the end. `--picture FILE` also draws what is shown;
`--rows N` takes another number of lines.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.table import Table as Grid

import indextables

CONSOLE = Console(width=118, record=True)
DDL = (
    "time timestamp, hour int, service string, host string, level string, status int, latency_ms int, "
    "request string, message string"
)
SERVICES = ["gateway", "checkout", "search", "accounts", "catalog", "payments"]
TRAFFIC = np.array([2, 1, 1, 1, 1, 2, 3, 4, 5, 6, 6, 7, 7, 7, 8, 7, 6, 6, 7, 8, 8, 6, 4, 3], np.float64)
"""Lines by hour of the day, relative."""
USUAL = [
    ("INFO", 200, "GET /api/v1/items/{n} served from cache node {m}"),
    ("INFO", 200, "POST /api/v1/orders accepted for user u{n}"),
    ("INFO", 200, "session of user u{n} refreshed"),
    ("INFO", 302, "redirect to region eu-{m}"),
    ("WARN", 200, "slow query on db{m}: select from orders where user = {n}"),
    ("WARN", 404, "no such item {n}, referred by campaign {m}"),
    ("ERROR", 500, "unexpected end of response from upstream node {m}"),
]
WEIGHTS = np.array([0.42, 0.2, 0.2, 0.1, 0.05, 0.025, 0.005])
INCIDENT = ("ERROR", 504, "timeout while reading from db7: connection reset by peer, order {n} not written")
"""What the checkout service says from 14:05 to 14:25."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="indextables-demo-"))
    began = time.perf_counter()
    try:
        with session(folder) as spark:
            path = str(folder / "logs")
            needle = ingest(spark, path, given.rows)
            find(spark, path, needle)
            investigate(spark, path)
            count(spark, path)
            look_after(spark, path)
        without_spark(path)
    finally:
        shutil.rmtree(folder)
    CONSOLE.print(f"\n[bold]done in {time.perf_counter() - began:.0f} s[/], {folder} is removed")
    if given.picture:
        draw(given.picture)


def ingest(spark: Any, path: str, rows: int) -> str:
    """Load the day; returns the request number of one line in the middle of it."""
    CONSOLE.rule(f"a day of logs: {rows:,} lines, loaded by Spark, every field indexed")
    day = spark.range(0, 24, 1, 8).mapInArrow(Hours(rows), DDL)
    options = {"partitionBy": "hour", "indexing.typemap.message": "text", "indexing.fastfields": "service,level"}
    with timed('df.write.format("indextables").option("partitionBy", "hour")') as spent:
        day.write.format("indextables").options(**options).mode("append").save(path)
    table = indextables.open(path)
    files = table.files()
    stored = pc.sum(files["size"]).as_py()
    CONSOLE.print(
        f"  {table.count():,} lines in {files.num_rows} splits, 24 partitions, rows and index {stored / 1e6:,.0f} MB, "
        f"{table.count() / spent() / 1000:,.0f} thousand lines a second"
    )
    return table.to_arrow(["request"], where="hour = 14", limit=5_000)["request"][-1].as_py()


def find(spark: Any, path: str, needle: str) -> None:
    CONSOLE.rule("one line out of all")
    from indextables import IndexTable

    table = IndexTable.forPath(spark, path)
    with timed(f"search('request:{needle}')"):
        found = table.search(f"request:{needle}").drop("_score", "hour").toArrow()
    with timed("again, with the index in the cache") as ours:
        found = table.search(f"request:{needle}").drop("_score", "hour").toArrow()
    with timed("the same by Spark: request = ..., over all splits") as theirs:
        scanned = table.toDF().where(f"request = '{needle}'").drop("hour").toArrow()
    assert found.num_rows == scanned.num_rows == 1
    show(found, f"{theirs() / ours():.0f} times faster")


def investigate(spark: Any, path: str) -> None:
    CONSOLE.rule("what happened in the afternoon?")
    from indextables import IndexTable

    table = IndexTable.forPath(spark, path)
    with timed("search('message:\"connection reset\" AND db7', where=\"level = 'ERROR'\", limit=3)"):
        found = table.search(
            'message:"connection reset" AND message:db7',
            ["time", "service", "host", "message"],
            where="level = 'ERROR'",
            limit=3,
        ).toArrow()
    show(found, "best first")
    where = "hour = 14 and time >= '2026-03-02T14:00:00Z' and time < '2026-03-02T14:30:00Z'"
    opened = indextables.open(path).files(where=where).num_rows
    total = indextables.open(path).files().num_rows
    with timed(f"toDF(where=...) of half an hour: {opened} of {total} splits opened, the rest pruned by the log"):
        minutes = (
            table.toDF(where=where)
            .selectExpr("date_trunc('MINUTE', time) as minute", "level = 'ERROR' as failed", "latency_ms")
            .selectExpr("cast(floor(minute(minute) / 5) * 5 as int) as from_minute", "failed", "latency_ms")
            .groupBy("from_minute")
            .agg({"failed": "count", "latency_ms": "avg"})
            .orderBy("from_minute")
            .toArrow()
        )
    show(minutes.rename_columns(["from 14:..", "lines", "average latency"]), "five minutes each")


def count(spark: Any, path: str) -> None:
    CONSOLE.rule("counting")
    from indextables import IndexTable

    table = IndexTable.forPath(spark, path)
    with timed("count(), from the log, no file opened"):
        CONSOLE.print(f"  {table.count():,} lines")
    with timed("count('message:timeout'), from the indexes"):
        CONSOLE.print(f"  {table.count('message:timeout'):,} lines with a timeout")
    with timed("group by service over all lines, Spark's own scan of two columns"):
        table.toDF().createOrReplaceTempView("logs")
        services = spark.sql(
            "SELECT service, count(*) AS lines, count_if(level = 'ERROR') AS errors, "
            "CAST(percentile_approx(latency_ms, 0.99) AS int) AS p99_ms FROM logs GROUP BY service ORDER BY errors DESC"
        ).toArrow()
    show(services, "SELECT service, count(*), ... GROUP BY service")


def look_after(spark: Any, path: str) -> None:
    CONSOLE.rule("late lines, once, and the table's past")
    from indextables import IndexTable

    table = IndexTable.forPath(spark, path)
    late = spark.range(0, 24, 1, 24).mapInArrow(Hours(2_400, seed=1), DDL)
    for attempt in ("a batch of late lines", "the same batch, run again by mistake"):
        with timed(attempt):
            once = {"txnAppId": "late-lines", "txnVersion": 1}
            late.coalesce(2).write.format("indextables").options(**once).mode("append").save(path)
        CONSOLE.print(f"  version {table.version}, {table.count():,} lines")
    with timed("mergeSplits()"):
        report = table.mergeSplits()
    files = indextables.open(path).files().num_rows
    CONSOLE.print(f"  {report.source_splits} splits became {report.new_splits}: {files} now, {table.count():,} lines")
    history = table.history().select("version", "timestamp", "operation").toArrow()
    rows = [indextables.open(path).at(version=version).count() for version in history["version"].to_pylist()]
    show(history.append_column("lines then", pa.array(rows)), "history")


def without_spark(path: str) -> None:
    CONSOLE.rule("the same table without Spark")
    with timed("indextables.open(path)"):
        table = indextables.open(path)
    table.search("payments AND slow", limit=1)
    with timed("search('timeout AND db7', limit=10), warm"):
        assert table.search("timeout AND db7", limit=10).num_rows == 10
    with timed("aggregate: errors by service, from the index"):
        table.aggregate("level:ERROR", {"services": {"terms": {"field": "service"}}})


class Hours:
    """Makes the lines of the hours it is given; the same lines for the same hour."""

    def __init__(self, rows: int, seed: int = 0) -> None:
        self._rows = rows
        self._seed = seed

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shares = np.floor(np.cumsum(TRAFFIC / TRAFFIC.sum()) * self._rows + 0.5).astype(np.int64)
        for batch in batches:
            for hour in batch.column(0).to_pylist():
                first = int(shares[hour - 1]) if hour else 0
                yield self._lines(hour, first, int(shares[hour]) - first)

    def _lines(self, hour: int, first: int, count: int) -> pa.RecordBatch:
        rng = np.random.default_rng([self._seed, hour])
        seconds = np.sort(rng.uniform(0, 3600, count))
        service = rng.choice(len(SERVICES), count, p=[0.3, 0.15, 0.2, 0.1, 0.15, 0.1])
        kind = rng.choice(len(USUAL), count, p=WEIGHTS)
        latency = (rng.lognormal(3.2, 0.9, count)).astype(np.int32)
        is_hit = (service == 1) & (hour == 14) & (seconds > 300) & (seconds < 1500) & (rng.uniform(size=count) < 0.6)
        kind[is_hit] = len(USUAL)
        latency[is_hit] = 30_000 + latency[is_hit]
        kinds = [*USUAL, INCIDENT]
        start = np.datetime64("2026-03-02T00:00:00", "us") + np.timedelta64(hour, "h")
        numbers, nodes = rng.integers(1, 10**6, count), rng.integers(1, 9, count)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(start + (seconds * 1e6).astype("timedelta64[us]"), pa.timestamp("us", "UTC")),
                pa.array(np.full(count, hour, np.int32)),
                pa.array(SERVICES).take(pa.array(service)),
                pa.array([f"{SERVICES[s]}-{h:02d}" for s in range(len(SERVICES)) for h in range(20)]).take(
                    pa.array(service * 20 + rng.integers(0, 20, count))
                ),
                pa.array([level for level, _, _ in kinds]).take(pa.array(kind)),
                pa.array(np.array([status for _, status, _ in kinds], np.int32)[kind]),
                pa.array(latency),
                pa.array([f"r{self._seed}{n:09x}" for n in (np.arange(first, first + count) * 7919) % 2**36]),
                pa.array([kinds[k][2].format(n=n, m=m) for k, n, m in zip(kind.tolist(), numbers, nodes, strict=True)]),
            ],
            names=[part.split()[0] for part in DDL.split(", ")],
        )


@contextmanager
def session(folder: Path) -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    warnings.simplefilter("ignore")
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    # The generator of this script travels to the workers as it is.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    builder = SparkSession.builder.master("local[2]").appName("indextables-demo")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }.items():
        builder = builder.config(key, value)
    with timed("start a Spark session of two cores"), silenced():
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def silenced() -> Iterator[None]:
    """What a starting JVM has to say goes nowhere."""
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def timed(what: str) -> Iterator[Any]:
    """Prints what was done and how long it took; gives the seconds afterwards."""
    began = time.perf_counter()
    ended: list[float] = []
    yield lambda: ended[0]
    ended.append(time.perf_counter() - began)
    shown = f"{ended[0]:,.1f} s" if ended[0] >= 1 else f"{ended[0] * 1000:,.1f} ms"
    CONSOLE.print(f"  {what}: [bold]{shown}[/]", highlight=False)


def show(data: pa.Table, title: str) -> None:
    grid = Grid(*data.column_names, title=title)
    for row in data.to_pylist():
        grid.add_row(*(f"{value:,.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    CONSOLE.print(grid)


def draw(picture: Path) -> None:
    """What was shown as an SVG that loads nothing from elsewhere."""
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = CONSOLE.export_svg(title="make demo", code_format=plain)
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
