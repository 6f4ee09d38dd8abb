"""No reader of Spark shows a deleted row; `tests/table` has the same list for a process without Spark."""

from __future__ import annotations

import pytest
from tests.spark.frames import ids, read
from tests.spark.streams import run_to_the_end
from tests.table.test_readers_of_changed_tables import AGAIN, FEW, MANY, SCHEMA, rows

import indextables
from indextables import IndexTable

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """An inline vector, one in a file that grew, a file that went as a whole, and rows that came back changed."""
    place = tmp_path_factory.mktemp("readers") / "t"
    made = indextables.create(
        place,
        SCHEMA,
        partition_by=["day"],
        indexing={"message": "text"},
        properties={"mergeOnWrite.enabled": "false"},
    )
    made.append(rows("few", 0, FEW))
    made.append(rows("many", FEW, MANY))
    made.append(rows("old", FEW + MANY, 10, old=True))
    made.update({"kind": "'kept'", "message": "concat('kept again ', id)"}, AGAIN)
    made.delete("kind = 'gone' AND id % 2 = 0")
    made.delete("kind = 'gone'")
    return str(place)


LEFT = [r["id"] for r in (*rows("few", 0, FEW), *rows("many", FEW, MANY)) if r["kind"] == "kept" or r["id"] % 10 == 1]


def table_in(spark, path):
    return IndexTable.forPath(spark, path)


READERS = {
    "toDF": lambda spark, path: table_in(spark, path).toDF(),
    "toDF where": lambda spark, path: table_in(spark, path).toDF(where="kind IN ('gone', 'kept')"),
    "filtered": lambda spark, path: table_in(spark, path).toDF().where("kind LIKE '%o%' OR kind = 'kept'"),
    "joined": lambda spark, path: table_in(spark, path).toDF().join(table_in(spark, path).toDF().select("id"), "id"),
    "python source": read,
    "python source, a few columns": lambda spark, path: read(spark, path).select("id").where("id >= 0"),
    "python source, searched": lambda spark, path: read(spark, path, search="gone kept"),
    "search": lambda spark, path: table_in(spark, path).search("gone kept"),
    "search highlighted": lambda spark, path: table_in(spark, path).search("gone kept", highlight=["message"]),
    "search the best": lambda spark, path: table_in(spark, path).search("gone kept", limit=100_000),
    "sql": lambda spark, path: indextables.sql(spark, f"SELECT id FROM indextables.`{path}`"),
    "sql search": lambda spark, path: indextables.sql(
        spark, f"SELECT id FROM indextables.`{path}` WHERE TEXTSEARCH(message, 'gone kept')"
    ),
    "sql search or more": lambda spark, path: indextables.sql(
        spark, f"SELECT id FROM indextables.`{path}` WHERE TEXTSEARCH(message, 'gone kept') OR id >= 0"
    ),
    "at a version": lambda spark, path: table_in(spark, path).toDF(versionAsOf=indextables.open(path).version),
    "changes": lambda spark, path: (
        table_in(spark, path)
        .changes()
        .selectExpr("id", "CASE WHEN _change_type IN ('delete', 'update_preimage') THEN -1 ELSE 1 END AS n")
        .groupBy("id")
        .sum("n")
        .where("`sum(n)` = 1")
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_shows_the_rows_that_are_left(spark, path, reader):
    assert ids(READERS[reader](spark, path)) == LEFT


def test_counts_are_of_the_rows_that_are_left(spark, path):
    table = table_in(spark, path)
    assert table.count() == table.toDF().count() == read(spark, path).count() == len(LEFT)
    assert (table.count("gone"), table.count("kept")) == (0, len(LEFT))
    text = f"SELECT kind, count(*) AS n, sum(id) AS s FROM indextables.`{path}` GROUP BY kind"
    assert [tuple(row) for row in indextables.sql(spark, text).collect()] == [("kept", len(LEFT), sum(LEFT))]
    text = f"SELECT count(*) AS n FROM indextables.`{path}` WHERE TEXTSEARCH(message, 'gone')"
    assert indextables.sql(spark, text).collect()[0].n == 0


def test_a_stream_begins_with_the_rows_that_are_left(spark, path, tmp_path):
    frame = spark.readStream.format("indextables").load(path)
    writing = frame.writeStream.format("indextables").trigger(availableNow=True)
    run_to_the_end(writing.option("checkpointLocation", str(tmp_path / "marks")), tmp_path / "sink")
    assert sorted(indextables.open(tmp_path / "sink").to_arrow(["id"])["id"].to_pylist()) == LEFT
