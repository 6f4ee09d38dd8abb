"""Tables of other systems in a Spark session: read exactly, by tasks, and never written."""

from __future__ import annotations

import inspect

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.foreign.fixtures import needed

import indextables
from indextables import IndexTable
from indextables.errors import InvalidArgument, NotSupported, QueryInvalid, TableNotFound, VersionNotFound
from indextables.spark.table.foreign import ForeignIndexTable

pytestmark = pytest.mark.spark

LINES = pa.table(
    {
        "id": [1, 2, 3],
        "day": ["mon", "mon", None],
        "m": ["login ok", "disk full", "login failed"],
        "f": [0.5, None, 1e9],
    }
)


def told(frame):
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["id"])


@pytest.fixture
def delta(tmp_path):
    write_deltalake(tmp_path / "delta", LINES, partition_by=["day"])
    write_deltalake(tmp_path / "delta", LINES.set_column(0, "id", pa.array([4, 5, 6])), mode="append")
    DeltaTable(tmp_path / "delta").delete("id = 5")
    return tmp_path / "delta"


def test_a_delta_table_is_read_by_tasks_at_every_version(spark, delta):
    table = IndexTable.forPath(spark, delta)
    assert table.system == "Delta"
    assert told(table.toDF().select("id", "day", "m", "f")) == sorted(
        indextables.open(delta).to_arrow(["id", "day", "m", "f"]).to_pylist(), key=lambda row: row["id"]
    )
    assert told(table.toDF("f > 1 AND day IS NULL", ["id"])) == [{"id": 3}, {"id": 6}]
    assert [table.toDF(versionAsOf=version).count() for version in (0, 1, 2)] == [3, 6, 5]
    assert (table.count(), table.count(where="m LIKE 'login%'"), table.count("m:login")) == (5, 4, 4)
    assert [row.operation for row in table.history().collect()] == ["DELETE", "WRITE", "WRITE"]
    assert table.detail().first().partitionColumns == ["day"]
    assert sorted(table.schema().names) == ["day", "f", "id", "m"]
    assert not IndexTable.isIndexTable(spark, delta)


def test_a_search_answers_from_a_copy_and_says_so(spark, delta, caplog):
    table = IndexTable.forPath(spark, delta)
    found = table.search("m:failed", ["id", "m"], limit=5).collect()
    assert sorted(row.id for row in found) == [3, 6]
    assert "IndexTable.convert" in caplog.text
    assert [row.id for row in table.search("m:full", ["id"]).collect()] == [2]


def test_a_folder_of_parquet_files_is_read(spark, tmp_path):
    pq.write_to_dataset(LINES, tmp_path / "lines", partition_cols=["day"])
    parquet = IndexTable.forPath(spark, tmp_path / "lines")
    assert [row["id"] for row in told(parquet.toDF("day = 'mon'"))] == [1, 2]
    with pytest.raises(NotSupported, match="no history"):
        parquet.history()


def test_a_table_of_the_peer_is_read_and_searched(spark, caplog):
    peer = needed("indextables4spark") / "all_types" / "table"
    theirs = IndexTable.forPath(spark, peer)
    ours = indextables.open(peer)
    assert theirs.toDF().count() == ours.count()
    name = ours.schema.names[0]
    values = [row[0] for row in theirs.toDF(columns=[name]).collect()]
    assert sorted(map(str, values)) == sorted(map(str, ours.to_arrow([name])[name].to_pylist()))
    assert [row.id for row in theirs.search("message:fox", ["id"]).collect()] == [0]
    assert (theirs.count("message:fox"), theirs.count("message:nothing")) == (1, 0)
    assert "IndexTable.convert" in caplog.text


def test_a_table_of_iceberg_is_read_by_tasks(spark):
    pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")
    path = needed("iceberg") / "ice_partitioned_evolved" / "table" / "db" / "events"
    table, ours = IndexTable.forPath(spark, path), indextables.open(path)
    assert told(table.toDF(columns=["id", "body"])) == sorted(
        ours.to_arrow(["id", "body"]).to_pylist(), key=lambda row: row["id"]
    )
    first = ours.history()["version"][-1].as_py()
    assert table.toDF(versionAsOf=first).count() == ours.at(first).count() == 9


def test_every_verb_that_writes_is_refused_by_name(spark, delta):
    table = IndexTable.forPath(spark, delta)
    before = {place: place.read_bytes() for place in delta.rglob("*") if place.is_file()}
    answered = {
        "count",
        "detail",
        "forName",
        "forPath",
        "history",
        "isIndexTable",
        "schema",
        "search",
        "spark",
        "system",
    }
    answered |= {"toDF", "url", "create", "createIfNotExists", "createOrReplace", "replace", "convert"}
    refused = {name for name, _ in inspect.getmembers(ForeignIndexTable) if not name.startswith("_")} - answered
    assert {"delete", "update", "merge", "purge", "mergeSplits", "changes"} <= refused
    for name in sorted(refused):
        with pytest.raises(NotSupported, match="only read here"):
            getattr(table, name)()
    for text in (
        "DELETE FROM {} WHERE id = 1",
        "UPDATE {} SET id = 1",
        "MERGE INTO {} AS t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(NotSupported, match="only read here"):
            indextables.sql(spark, text.format(f"indextables.`{delta}`"))
    assert {place: place.read_bytes() for place in delta.rglob("*") if place.is_file()} == before


def test_bad_questions_are_told(spark, delta, tmp_path):
    table = IndexTable.forPath(spark, delta)
    for ask, wrong in [
        (lambda: table.toDF("nothing = 1"), QueryInvalid),
        (lambda: table.toDF(columns=["nothing"]), InvalidArgument),
        (lambda: table.toDF(columns=[]), InvalidArgument),
        (lambda: table.toDF(versionAsOf=9), VersionNotFound),
        (lambda: table.toDF(versionAsOf=1, timestampAsOf=1), InvalidArgument),
        (lambda: IndexTable.forPath(spark, tmp_path / "nothing"), TableNotFound),
    ]:
        with pytest.raises(wrong):
            ask()
