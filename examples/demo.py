"""IndexTables in two minutes: a table without a cluster, its log under two writers, and the same table from Spark.

Everything happens in a temporary folder, which is removed at the end. `--picture FILE` draws the part without Spark.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.table import Table as Grid

import indextables

CONSOLE = Console(width=110, record=True)
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("level", pa.string()),
        ("message", pa.string()),
        ("latency_ms", pa.int64()),
    ]
)
WORDS = ["connection reset by peer", "request served", "timeout while reading from db", "cache miss", "user logged in"]
WRITER = """
import sys, indextables
table = indextables.open(sys.argv[1])
for number in range(10):
    table.append([{"level": "INFO", "message": f"commit {number} of writer {sys.argv[2]}"}])
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="indextables-demo-") as folder:
        began = time.perf_counter()
        path = Path(folder) / "logs"
        table = first_light(path)
        race(path)
        travel(table.refresh())
        if sys.argv[1:2] == ["--picture"]:
            draw(Path(sys.argv[2]))
            return
        spark(path)
        CONSOLE.print(f"\n[bold]done in {time.perf_counter() - began:.0f} s[/], {path.parent} is removed")


def first_light(path: Path) -> indextables.Table:
    CONSOLE.rule("a table, in this process")
    with timed("create"):
        table = indextables.create(path, SCHEMA, partition_by=["day"], indexing={"message": "text"})
    rows = log_lines(50_000)
    with timed(f"append {rows.num_rows:,} rows in {len(set(rows['day'].to_pylist()))} partitions, rows and index"):
        table.append(rows)
    with timed("scan it back"):
        assert table.to_arrow().num_rows == rows.num_rows
    with timed("search, first time"):
        table.search("timeout AND db", limit=3)
    with timed("search, warm"):
        table.search("timeout AND db", limit=3)
    with timed("search with a predicate on other columns"):
        found = table.search("timeout AND db", limit=3, where="latency_ms > 400 and level = 'ERROR'")
    show(found.select(["time", "level", "message", "latency_ms", "_score"]), 'search("timeout AND db", where=...)')
    with timed("count of a whole table, from the log"):
        CONSOLE.print(f"  {table.count():,} rows, {table.count('message:timeout'):,} of them with a timeout")
    return table


def race(path: Path) -> None:
    CONSOLE.rule("two writers, one log")
    with timed("two processes, ten commits each"):
        commands = [[sys.executable, "-c", WRITER, str(path), name] for name in ("A", "B")]
        writers = [subprocess.Popen(command) for command in commands]  # noqa: S603 - this very interpreter
        if any(writer.wait() != 0 for writer in writers):
            raise SystemExit("a writer failed")
    table = indextables.open(path)
    written = table.to_arrow(["message"], where="message like 'commit %'")["message"].to_pylist()
    assert len(written) == len(set(written)) == 20
    CONSOLE.print(f"  version {table.version}: 20 commits, none lost, none twice")
    history = table.history(limit=6)
    shown = history.select(["version", "timestamp", "operation", "isBlindAppend"])
    rows = [dict(metrics).get("numOutputRows") for metrics in history["operationMetrics"].to_pylist()]
    show(shown.append_column("rows", pa.array(rows, pa.string())), "history, newest first")
    report = table.verify()
    CONSOLE.print(f"  verify: {report.versions_checked} versions, {report.data_files_checked} files, ok={report.ok}")


def travel(table: indextables.Table) -> None:
    CONSOLE.rule("time travel")
    with timed("overwrite one partition"):
        table.overwrite([{"level": "INFO", "message": "a clean slate"}], where="day is null")
    for version in (0, 1, table.version - 1, table.version):
        CONSOLE.print(f"  version {version:>2}: {table.at(version=version).count():>6,} rows")


def spark(path: Path) -> None:
    CONSOLE.rule("the same table, from Spark")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    with timed("start a session"):
        builder = SparkSession.builder.master("local[2]").appName("indextables-demo")
        for key, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(path.parent / "warehouse"),
        }.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    try:
        with timed('spark.read.format("indextables")'):
            frame = session.read.format("indextables").load(str(path))
            levels = frame.groupBy("level").count().orderBy("level").toArrow()
        show(levels, 'groupBy("level").count()')
        with timed('df.write.format("indextables")'):
            spread = session.range(1000).selectExpr("'SPARK' as level", "concat('row ', id, ' from spark') as message")
            spread.write.format("indextables").mode("append").save(str(path))
        with timed("search what Spark wrote, without Spark"):
            found = indextables.open(path).search('message:"row 777"', columns=["level", "message"], limit=1)
        show(found, "search('message:\"row 777\"')")
    finally:
        session.stop()


def log_lines(count: int) -> pa.Table:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    times = [start + dt.timedelta(seconds=5 * n) for n in range(count)]
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "day": pa.array([moment.date() for moment in times]),
            "level": ["ERROR" if n % 10 == 2 else "INFO" for n in range(count)],
            "message": [f"{WORDS[n % 5]} (host web{n % 40}, request {n})" for n in range(count)],
            "latency_ms": pa.array([n * 7919 % 500 for n in range(count)], pa.int64()),
        }
    )


def draw(picture: Path) -> None:
    """The session so far as an SVG that loads nothing from elsewhere."""
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = CONSOLE.export_svg(title="make demo", code_format=plain)
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


@contextmanager
def timed(what: str):
    began = time.perf_counter()
    yield
    CONSOLE.print(f"  {what}: [bold]{(time.perf_counter() - began) * 1000:,.1f} ms[/]")


def show(data: pa.Table, title: str) -> None:
    grid = Grid(*data.column_names, title=title)
    for row in data.to_pylist():
        grid.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    CONSOLE.print(grid)


if __name__ == "__main__":
    main()
