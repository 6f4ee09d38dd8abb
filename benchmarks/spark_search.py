"""Spark: finding lines of many by a word of theirs, against `LIKE` on Parquet with the same rows in 40 files.

`--scale full` takes 1 M lines; `soak` 10 M. "By tasks" switches the driver's own search off, so that every search is
two jobs; cold is the first search with an empty index cache. Statements of SQL have `TEXTSEARCH` on one side and `LIKE`
on the other, over words that from a hundred-thousandth to all of the lines have.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import indextables
from benchmarks.corpus import QUIET, logs
from benchmarks.harness import Bar, growth
from benchmarks.local_spark import Cost, session, turns
from indextables.spark.table.indextable import IndexTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLITS = 40
SHARES = {"zzrare": 0.00001, "zzpermille": 0.001, "zzpercent": 0.01, "zztenth": 0.1, "zzhalf": 0.5, "zzall": 1.0}
"""Words that are put into so many of the lines."""
ROWS = {"small": 100_000, "full": 1_000_000, "soak": 10_000_000}


def run(scale: str) -> list[Bar]:
    rows = ROWS[scale]
    with tempfile.TemporaryDirectory(prefix="spark-search-bench-") as name, session() as spark:
        folder = Path(name)
        few, all_rows = folder / "few", folder / "all"
        make_tables(few, rows // 100)
        needle = make_tables(all_rows, rows)
        repeats = 3 if scale == "small" else 7
        found = [*bars(spark, all_rows, rows, needle, repeats), *sql_bars(spark, all_rows, rows, repeats)]
        return found + growth_bars(spark, few, all_rows, rows, repeats)


def make_tables(folder: Path, rows: int) -> str:
    """The same lines as a table and as plain files; returns the word that only one of them has."""
    (folder / "plain").mkdir(parents=True)
    made = None
    size = rows // SPLITS
    needle = ""
    for number in range(SPLITS):
        part = _with_words(logs(size, seed=number + 1), number)
        if number == SPLITS // 2:
            needle = part["message"][size // 2].as_py().partition("req-")[2].split()[0]
        pq.write_table(part, folder / "plain" / f"{number}.parquet", compression="zstd")
        made = made or indextables.create(folder / "t", part.schema, indexing={"message": "text"}, properties=QUIET)
        made.append(part)
    assert made is not None
    assert made.files().num_rows == SPLITS
    return needle


def _with_words(part: pa.Table, seed: int) -> pa.Table:
    drawn = np.random.default_rng(seed).random(part.num_rows)
    message = part["message"]
    for word, share in SHARES.items():
        longer = pc.binary_join_element_wise(message, pa.scalar(word), " ")
        message = pc.if_else(pa.array(drawn < share), longer, message)
    return part.set_column(part.schema.get_field_index("message"), part.schema.field("message"), message)


SHAPES = {
    "grouped by host": "SELECT host, count(*) AS n, sum(latency) AS s FROM {} WHERE {} GROUP BY host",
    "counted": "SELECT count(*) AS n FROM {} WHERE {}",
    "first ten": "SELECT * FROM {} WHERE {} LIMIT 10",
}


def sql_bars(spark: SparkSession, folder: Path, rows: int, repeats: int) -> list[Bar]:
    """The same statement over the table and over plain files, with the search in place of LIKE."""
    indextables.enable(spark)
    found = []
    for word, share in SHARES.items():
        for shape in SHAPES:
            spent = _statements(spark, folder, word, shape, repeats)
            what = f"SQL, {share:.4g} of {rows / 1e6:g} M lines, {shape}"
            gain = spent["like"].wall / spent["ours"].wall
            least = 5.0 if share < 0.01 and shape != "first ten" else 1.0
            found += [
                Bar(f"{what}: times as fast as LIKE", gain, None, "x", least, "at least", absolute=True),
                Bar(f"{what}", spent["ours"].wall, spent["like"].wall, "s", peer_name="Spark LIKE"),
                Bar(f"{what}, by CPU", spent["ours"].cpu, spent["like"].cpu, "s", peer_name="Spark LIKE"),
            ]
    indextables.disable(spark)
    return found


def growth_bars(spark: SparkSession, few: Path, many: Path, rows: int, repeats: int) -> list[Bar]:
    """A thousandth of the lines, of a hundred times as many."""
    indextables.enable(spark)
    found = []
    for shape in SHAPES:
        less, more = (_statements(spark, folder, "zzpermille", shape, repeats) for folder in (few, many))
        claim = f"SQL, 0.001 of the lines, {shape}, {rows // 100:,} to {rows:,} lines"
        ours, like = ((less[name].wall, more[name].wall) for name in ("ours", "like"))
        found.append(growth(claim, ours, like, "Spark LIKE"))
    indextables.disable(spark)
    return found


def _statements(spark: SparkSession, folder: Path, word: str, shape: str, repeats: int) -> dict[str, Cost]:
    schema = IndexTable.forPath(spark, folder / "t").schema()
    spark.read.schema(schema).parquet(str(folder / "plain")).createOrReplaceTempView("plain_lines")
    ours = SHAPES[shape].format(f"indextables.`{folder / 't'}`", f"TEXTSEARCH(message, '{word}')")
    theirs = SHAPES[shape].format("plain_lines", f"message LIKE '%{word}%'")
    if shape != "first ten":
        assert sorted(spark.sql(ours).collect()) == sorted(spark.sql(theirs).collect())
    return turns(repeats, {"ours": lambda: spark.sql(ours).collect(), "like": lambda: spark.sql(theirs).collect()})


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
