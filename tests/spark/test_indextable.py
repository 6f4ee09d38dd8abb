"""`IndexTable`: the doors, what a table tells about itself, and counts that open no file."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.spark.test_unknown_features import READS, WRITES
from tests.spark.vectors import delete_rows

import indextables
from indextables import IndexTable
from indextables.errors import InvalidArgument, SchemaMismatch, TableNotFound
from indextables.spark.session import registry

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

ROWS = pa.table(
    {"id": list(range(12)), "message": [f"line {i}" for i in range(12)], "part": [i % 3 for i in range(12)]}
)


@pytest.fixture
def names(spark):
    """Names that a test gave do not outlive it."""
    before = set(registry.names(spark))
    yield
    for name in set(registry.names(spark)) - before:
        registry.forget(spark, name)


def test_a_table_is_found_by_path_and_by_name(spark, tmp_path, names):
    indextables.create(tmp_path / "t", ROWS.schema).append(ROWS)
    assert IndexTable.isIndexTable(spark, tmp_path / "t")
    assert not IndexTable.isIndexTable(spark, tmp_path / "nothing")
    with pytest.raises(TableNotFound):
        IndexTable.forPath(spark, tmp_path / "nothing")
    with pytest.raises(TableNotFound, match="forPath"):
        IndexTable.forName(spark, "logs")
    registry.register(spark, "logs", tmp_path / "t")
    assert IndexTable.forName(spark, "Logs").toDF().count() == 12
    assert repr(IndexTable.forName(spark, "logs")) == f"IndexTable('file://{tmp_path}/t')"


def test_a_table_of_the_catalog_is_found_by_the_path_that_its_columns_carry(spark, tmp_path, names):
    indextables.create(tmp_path / "t", ROWS.schema).append(ROWS)
    spark.sql(f"CREATE TABLE carries_a_path USING indextables OPTIONS (path '{tmp_path / 't'}')")
    spark.table("carries_a_path").where("id < 3").createOrReplaceTempView("carries_the_path_of_another")
    spark.createDataFrame([], "id long").createOrReplaceTempView("carries_none")
    try:
        assert IndexTable.forName(spark, "carries_a_path").count() == 12
        for name in ("carries_the_path_of_another", "carries_none"):
            with pytest.raises(TableNotFound):
                IndexTable.forName(spark, name)
    finally:
        spark.catalog.dropTempView("carries_the_path_of_another")
        spark.catalog.dropTempView("carries_none")
        spark.sql("DROP TABLE carries_a_path")


def test_a_table_is_described_step_by_step(spark, tmp_path, names):
    from pyspark.sql.types import DecimalType

    made = (
        IndexTable.create(spark)
        .tableName("orders")
        .location(tmp_path / "t")
        .addColumn("id", "bigint", nullable=False, comment="who")
        .addColumn("message", "string", indexing="text")
        .addColumn("amount", DecimalType(10, 2))
        .addColumn("day", "date")
        .partitionedBy("day")
        .property("checkpoint.interval", "7")
        .comment("what was ordered")
        .execute()
    )
    assert made.schema().simpleString() == "struct<id:bigint,message:string,amount:decimal(10,2),day:date>"
    assert not made.schema()["id"].nullable
    assert IndexTable.forName(spark, "orders").url == made.url
    told = made.detail().first()
    assert told.partitionColumns == ["day"]
    assert told.description == "what was ordered"
    assert told.properties["checkpoint.interval"] == "7"
    frame = spark.sql("select 1L id, 'needle in hay' message, 1.5BD amount, date'2024-01-01' day")
    frame.write.format("indextables").mode("append").save(str(tmp_path / "t"))
    assert made.count("needle") == 1
    with pytest.raises(InvalidArgument, match="createIfNotExists"):
        (
            IndexTable.create(spark)
            .location(tmp_path / "t")
            .addColumns(made.schema().fields)
            .partitionedBy("day")
            .execute()
        )
    again = (
        IndexTable.createIfNotExists(spark).location(tmp_path / "t").addColumns(made.schema()).partitionedBy(["day"])
    )
    assert again.execute().version == 1
    with pytest.raises(SchemaMismatch):
        IndexTable.createIfNotExists(spark).location(tmp_path / "t").addColumn("x", "int").execute()
    with pytest.raises(InvalidArgument, match="location"):
        IndexTable.create(spark).addColumn("x", "int").execute()


def test_what_a_table_tells_about_itself(spark, tmp_path):
    table = indextables.create(tmp_path / "t", ROWS.schema, partition_by=["part"])
    table.append(ROWS)
    handle = IndexTable.forPath(spark, tmp_path / "t")
    assert handle.version == 1
    told = handle.detail().first()
    assert (told.version, told.numFiles, told.numRows, told.partitionColumns) == (1, 3, 12, ["part"])
    assert told.sizeInBytes == table.detail()["sizeInBytes"]
    assert [row.version for row in handle.history().collect()] == [1, 0]
    assert [row.operation for row in handle.history(1).collect()] == ["WRITE"]
    with pytest.raises(InvalidArgument):
        handle.history(0)


def test_counting_all_rows_opens_no_file(spark, tmp_path):
    table = indextables.create(tmp_path / "t", ROWS.schema, partition_by=["part"])
    table.append(ROWS)
    gone = delete_rows(tmp_path / "t", lambda *_: [0])
    for file in table.refresh().files()["path"].to_pylist():
        (tmp_path / "t" / file).unlink()
    assert IndexTable.forPath(spark, tmp_path / "t").count() == 12 - gone == 9


def test_counting_in_an_object_store_asks_for_the_log_only(spark, s3, table_name):
    url, settings = s3.table_url(table_name), s3.settings()
    indextables.create(url, ROWS.schema, options=settings).append(ROWS)
    handle = IndexTable.forPath(spark, url, settings)
    s3.calm()
    assert handle.count() == 12
    assert {request.key.split("/")[1] for request in s3.requests if request.key} <= {"_transaction_log"}


def test_counts_with_a_predicate_are_exact(spark, tmp_path):
    indextables.create(tmp_path / "t", ROWS.schema, partition_by=["part"]).append(ROWS)
    handle = IndexTable.forPath(spark, tmp_path / "t")
    assert handle.count(where="part = 1") == 4
    assert handle.count(where="id % 2 = 0 AND part <> 1") == 4
    assert handle.count(where="id > 99") == 0


def test_without_a_file_system_for_the_store_the_python_reader_takes_over(spark, s3, table_name, caplog):
    url, settings = s3.table_url(table_name), s3.settings()
    table = indextables.create(url, ROWS.schema, partition_by=["part"], options=settings)
    table.append(ROWS)
    handle = IndexTable.forPath(spark, url, settings)
    with caplog.at_level("WARNING", logger="indextables"):
        frame = handle.toDF("part = 1", ["id", "message"])
    assert "Python reader" in caplog.text
    assert frame.columns == ["id", "message"]
    assert sorted(row.id for row in frame.collect()) == [1, 4, 7, 10]
    assert s3.secret_key not in caplog.text


VERBS = {**WRITES, **READS, "schema": lambda table: table.schema()}


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_goes_by_the_configuration_of_the_session(spark, tmp_path, verb):
    indextables.create(tmp_path / "t", ROWS.schema, partition_by=["part"]).append(ROWS)
    table = IndexTable.forPath(spark, tmp_path / "t")
    spark.conf.set("spark.indextables.storage.timeoutSeconds", "soon")
    try:
        with pytest.raises(InvalidArgument, match="timeoutSeconds"):
            VERBS[verb](table)
    finally:
        spark.conf.unset("spark.indextables.storage.timeoutSeconds")
