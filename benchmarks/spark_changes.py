"""Changes of rows and their feed through Spark, `local[2]`: upserts, deletes, updates, beside delta-spark with vectors.

The key is a text, spread over ten files; each file has a day of its own. Both read the rows of an upsert from a Parquet
file, nine of ten keys are there already, and both change the same rows, in turns. Each kind of change has a copy of the
table; its first turn does not count. Afterwards both must have the same rows.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import indextables
from benchmarks.delta_side import Delta
from benchmarks.harness import Bar
from benchmarks.local_spark import Cost, cpu_seconds, session

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_FILES = 10
_TURNS = 3
"""The first warms up."""

Statement = Callable[[int], str]
_DELETE, _UPDATE = "DELETE FROM {} WHERE ", "UPDATE {} SET price = 0 WHERE"


def run(scale: str) -> list[Bar]:
    rows = 1_000_000 if scale != "small" else 50_000
    with tempfile.TemporaryDirectory(prefix="spark-changes-bench-") as name, session(**_FEW_PARTITIONS) as spark:
        delta = Delta(Path(name))
        try:
            return _Sides(spark, delta, Path(name), rows).bars()
        finally:
            delta.close()


_FEW_PARTITIONS = {"spark.sql.shuffle.partitions": "4"}


def made(first: int, count: int, day: int | None = None) -> pa.Table:
    """Rows `first` to `first + count`, their keys in no order."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    return pa.table(
        {
            "key": [f"k{number:012x}" for number in (numbers * 2_654_435_761 % 2**40).tolist()],
            "n": numbers,
            "price": numbers / 7,
            "city": pa.array(["Oslo", "Bonn", "Rome", "Lima"]).take(pa.array(numbers % 4)),
            "message": [f"order {number} of customer {number % 977}" for number in numbers.tolist()],
            "day": pa.array(numbers // 100_000 if day is None else np.full(count, day)).cast(pa.int32()).cast("date32"),
        }
    )


class _Sides:
    """The same table twice."""

    def __init__(self, spark: SparkSession, delta: Delta, folder: Path, rows: int) -> None:
        self._spark, self._delta, self._folder, self._rows = spark, delta, folder, rows
        self._size = rows // _FILES
        parts = [made(number * self._size, self._size, number) for number in range(_FILES)]
        table = indextables.create(
            folder / "base" / "ours",
            parts[0].schema,
            indexing={"message": "text"},
            properties={"mergeOnWrite.enabled": "false"},
        )
        for number, part in enumerate(parts):
            table.append(part)
            pq.write_table(part, folder / f"part{number}.parquet")
            verb = "INSERT INTO {}" if number else "CREATE TABLE {} USING delta AS"
            text = verb + " SELECT * FROM parquet.`{}`"  # noqa: S608 - no stranger is asked
            delta.sql(text.format(f"delta.`{folder}/base/delta`", folder / f"part{number}.parquet"))

    def bars(self) -> list[Bar]:
        found = []
        for count, bar in ((1_000, 0.25), (10_000, 0.25), (100_000, 0.5), (300_000, 2 / 3)):
            if count < self._rows:
                found += self._upserts(count, bar)
        for claim, where, bar, located in (
            ("delete of 5 %, spread", lambda turn: f"n % 20 = {turn}", 1 / 3, None),
            ("delete of a key", lambda turn: f"key = '{_key(turn)}'", 0.2, None),
            ("delete of a day", lambda turn: f"day = DATE '1970-01-{turn + 2:02}'", None, "files"),
        ):
            found += self._compared(claim, lambda turn, where=where: _DELETE + where(turn), bar, located=located)
        found += self._compared("update of a key", lambda turn: f"{_UPDATE} key = '{_key(turn + self._size)}'")
        for what, where in (
            ("spread over all files", f"n % {self._rows // 1_000} = 7"),
            ("side by side", f"n >= {self._rows // 2} AND n < {self._rows // 2 + 1_000}"),
        ):
            found += self._feed(what, where)
        return found

    def _feed(self, what: str, where: str) -> list[Bar]:
        """The images of one update of 1,000 rows: Delta has written them beside the rows, ours are derived."""
        place = self._folder / "now"
        shutil.copytree(self._folder / "base", place)
        ours, theirs = place / "ours", f"{place}/delta"
        self._delta.sql(f"ALTER TABLE delta.`{theirs}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
        self._delta.sql(_UPDATE.format(f"delta.`{theirs}`") + f" {where}")
        version = (
            indextables.IndexTable.forPath(self._spark, ours).update(where, {"price": "0"}).collect()[0]["version"]
        )
        last = self._delta.sql(f"DESCRIBE HISTORY delta.`{theirs}` LIMIT 1")[0][0]
        images = (
            "SELECT _change_type, count(*), sum(round(price * 7)), sum(crc32(concat(key, message, city, day))) FROM "
        )
        by_type = " GROUP BY _change_type ORDER BY _change_type"

        def mine() -> list[list[Any]]:
            frame = indextables.IndexTable.forPath(self._spark, ours).changes(version, version)
            frame.createOrReplaceTempView("feed")
            return [list(row) for row in self._spark.sql(f"{images} feed {by_type}").collect()]

        def others() -> list[list[Any]]:
            return self._delta.sql(f"{images} table_changes_by_path('{theirs}', {last}, {last}) {by_type}")

        costs: dict[str, list[Cost]] = {"ours": [], "delta": []}
        for _ in range(_TURNS):
            cost, told = _measured(mine)
            costs["ours"].append(cost)
            cost, images_there = _measured(others)
            costs["delta"].append(cost)
            assert told == images_there, (told, images_there)
        shutil.rmtree(place)
        return self._least(f"feed of one update of 1,000 rows, {what},", costs, 1)

    def _upserts(self, count: int, bar: float) -> list[Bar]:
        spread = np.linspace(0, self._rows - 1, count - count // 10, dtype=np.int64)
        base = pa.concat_tables([made(n * self._size, self._size, n) for n in range(_FILES)])
        for turn in range(_TURNS):
            new = made(self._rows * (turn + 2), count // 10, 40)
            rows = pa.concat_tables([base.take(pa.array((spread + turn) % self._rows)), new])
            pq.write_table(rows, self._source(count, turn))
        text = (
            "MERGE INTO {{}} AS t USING parquet.`{}` AS s ON t.key = s.key "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

        def ours(table: Path, turn: int) -> Row:
            source = self._spark.read.parquet(str(self._source(count, turn)))
            return indextables.IndexTable.forPath(self._spark, table).upsert(source, on="key").collect()[0]

        claim = f"upsert of {count:,}"
        merge: Statement = lambda turn: text.format(self._source(count, turn))  # noqa: E731 - as above
        return [*self._compared(claim, merge, bar, ours=ours), *self._compared(f"{claim}, as MERGE", merge, bar)]

    def _source(self, count: int, turn: int) -> Path:
        return self._folder / f"source{count}_{turn}.parquet"

    def _compared(
        self,
        claim: str,
        statement: Statement,
        bar: float | None = None,
        *,
        ours: Callable[[Path, int], Row] | None = None,
        located: str | None = None,
    ) -> list[Bar]:
        place = self._folder / "now"
        shutil.copytree(self._folder / "base", place)
        table = place / "ours"
        costs: dict[str, list[Cost]] = {"ours": [], "delta": []}
        for turn in range(_TURNS):
            text = statement(turn)

            def here(turn: int = turn, text: str = text) -> Row:
                if ours is not None:
                    return ours(table, turn)
                return indextables.sql(self._spark, text.format(f"indextables.`{table}`")).collect()[0]

            cost, answer = _measured(here)
            costs["ours"].append(cost)
            assert located in (None, answer["located_by"]), answer
            costs["delta"].append(
                _measured(lambda text=text: self._delta.sql(text.format(f"delta.`{place}/delta`")))[0]
            )
        self._check(place)
        shutil.rmtree(place)
        return self._least(claim, costs, bar)

    def _least(self, claim: str, costs: dict[str, list[Cost]], bar: float | None) -> list[Bar]:
        return [
            Bar(
                f"{claim} of {self._rows:,} rows{by}",
                min(getattr(cost, kind) for cost in costs["ours"][1:]),
                min(getattr(cost, kind) for cost in costs["delta"][1:]),
                "s",
                bar if kind == "wall" else None,
                peer_name="delta-spark",
            )
            for kind, by in (("wall", ""), ("cpu", ", CPU"))
        ]

    def _check(self, place: Path) -> None:
        """Both tables have the same rows."""
        text = "SELECT count(*), sum(n), sum(round(price * 7)), sum(crc32(concat(key, message, city, day))) FROM {}"
        frame = indextables.IndexTable.forPath(self._spark, place / "ours").toDF()
        frame.createOrReplaceTempView("ours")
        (mine,) = self._spark.sql(text.format("ours")).collect()
        (theirs,) = self._delta.sql(text.format(f"delta.`{place}/delta`"))
        assert list(mine) == theirs, (mine, theirs)


def _key(number: int) -> str:
    return str(made(number, 1)["key"][0])


def _measured(call: Callable[[], Any]) -> tuple[Cost, Any]:
    began, spent = time.perf_counter(), cpu_seconds()
    answer = call()
    return Cost(time.perf_counter() - began, cpu_seconds() - spent), answer
