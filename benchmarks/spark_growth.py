"""What Spark pays for many versions: `df.write` and the micro-batches of a stream, one row each.

The tables of `version_growth`, with 50 and with 5,000 versions; they take turns.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Bar
from benchmarks.local_spark import Cost, session, turns
from benchmarks.version_growth import LINE, made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LENGTHS = (50, 5_000)
TURNS = 20
BATCHES = 20


def run(scale: str) -> list[Bar]:
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        tables = {length: made(f"{folder}/{length}", length) for length in LENGTHS}
        return measured(spark, tables, folder, count=5 if scale == "small" else TURNS)


def measured(spark: SparkSession, tables: dict[int, str], folder: str, *, count: int) -> list[Bar]:
    """Appends of one row, and a stream of as many files of one line."""
    row = spark.createDataFrame([(1, "the disk of node 7 is full")], "id long, message string")
    lines = Path(folder) / "lines"
    lines.mkdir()
    for number in range(BATCHES):
        (lines / f"{number:04}.json").write_text(LINE)

    def append(path: str) -> None:
        row.write.format("indextables").mode("append").save(path)

    def stream(path: str, number: int) -> None:
        source = spark.readStream.schema("id long, message string").option("maxFilesPerTrigger", 1).json(str(lines))
        writer = source.writeStream.format("indextables").option("checkpointLocation", f"{path}-place{number}")
        writer.trigger(availableNow=True).start(path).awaitTermination()

    places = iter(range(1_000))
    found = turns(count, {f"{length}": lambda path=path: append(path) for length, path in tables.items()})
    bars = _bars("df.write.mode('append').save(p), one row", found, 1)
    found = turns(2, {f"{length}": lambda path=path: stream(path, next(places)) for length, path in tables.items()})
    return [*bars, *_bars("a micro-batch of a stream, one row", found, BATCHES)]


def _bars(claim: str, found: dict[str, Cost], share: int) -> list[Bar]:
    short, long = (found[f"{length}"] for length in LENGTHS)
    name = f"{claim}, at {LENGTHS[1]:,} versions"
    return [
        Bar(name, long.wall / share * 1e3, short.wall / share * 1e3, "ms", 1.3, peer_name=f"at {LENGTHS[0]}"),
        Bar(f"{name}, CPU", long.cpu / share * 1e3, short.cpu / share * 1e3, "ms", 1.3, peer_name=f"at {LENGTHS[0]}"),
    ]
