"""The rules of a table hold for every way in which Spark writes: tasks evaluate them, nothing of a bad job stays."""

from __future__ import annotations

import pyarrow as pa
import pytest

import indextables
from indextables import IdentityGenerator, IndexTable
from indextables.errors import ConstraintViolation, InvalidArgument

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    table = indextables.create(tmp_path_factory.mktemp("rules") / "t", SCHEMA, constraints={"sane": "id < 100"})
    table.append([{"id": 1, "name": "a"}, {"id": 2, "name": None}])
    return table.url


def frame(spark, *ids):
    return spark.createDataFrame([(i, "x") for i in ids], "id long, name string")


def append(spark, url):
    rows = frame(spark, *range(3, 40), 500).repartition(2)
    rows.write.format("indextables").mode("append").save(url)


def overwrite(spark, url):
    frame(spark, 500).write.format("indextables").mode("overwrite").save(url)


def write(spark, url):
    indextables.write(frame(spark, 3, 500), url, mode="append")


def stream(spark, url):
    source = url.removeprefix("file://").rstrip("/") + "-source"
    indextables.create(source, SCHEMA).append([{"id": 3}, {"id": None}])
    rows = spark.readStream.format("indextables").load(source)
    writer = rows.writeStream.format("indextables").option("checkpointLocation", source + "-place")
    writer.trigger(availableNow=True).start(url).awaitTermination()


def update(spark, url):
    IndexTable.forPath(spark, url).update("id = 2", {"id": "id * 50"})


def merge(spark, url):
    table = IndexTable.forPath(spark, url).alias("t")
    table.merge(frame(spark, 1, 500).alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()


def upsert(spark, url):
    IndexTable.forPath(spark, url).upsert(frame(spark, 1, 500), "id")


def statement(spark, url):
    indextables.sql(spark, f"UPDATE indextables.`{url}` SET id = 500 WHERE id = 1")


@pytest.mark.parametrize("door", [append, overwrite, write, stream, update, merge, upsert, statement])
def test_no_door_of_spark_lets_a_bad_row_in_and_nothing_of_it_stays(spark, url, door):
    before = indextables.open(url)
    with pytest.raises(Exception, match=r"sane \(id < 100\)") as caught:
        door(spark, url)
    if door in (write, update, merge, upsert, statement):
        assert isinstance(caught.value, ConstraintViolation)
    after = indextables.open(url)
    assert after.version == before.version
    assert sorted(after.to_arrow(columns=["id"])["id"].to_pylist()) == [1, 2]


def test_generated_columns_are_computed_in_tasks_and_follow_changes(spark, tmp_path):
    builder = IndexTable.create(spark).location(str(tmp_path / "t")).addColumn("id", "bigint")
    table = builder.addColumn("twice", "bigint", generatedAlwaysAs="id * 2").addColumn("name", "string").execute()
    url = str(tmp_path / "t")
    frame(spark, 1, 2, 3).write.format("indextables").mode("append").save(url)
    with pytest.raises(Exception, match=r"twice is generated as \(id \* 2\)"):
        frame(spark, 4).selectExpr("id", "id AS twice", "name").write.format("indextables").mode("append").save(url)
    with pytest.raises(InvalidArgument, match="generated"):
        table.update("id = 1", {"twice": "5"})
    table.update("id = 1", {"id": "10"})
    source = frame(spark, 2, 20).alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id")
    merge.whenMatchedUpdate(set={"id": "s.id + 10"}).whenNotMatchedInsertAll().execute()
    table.upsert(frame(spark, 3, 30), "id")
    found = {row.id: row.twice for row in table.toDF().collect()}
    assert found == {10: 20, 12: 24, 3: 6, 20: 40, 30: 60}
    copied = str(tmp_path / "copy")
    table.toDF().select("twice").write.format("indextables").mode("append").save(copied)
    assert indextables.open(copied).schema.field("twice").metadata is None


def test_rules_are_added_and_dropped_by_statements_and_methods(spark, tmp_path):
    url = indextables.create(tmp_path / "t", SCHEMA).url
    table = IndexTable.forPath(spark, url)
    frame(spark, 1, 2).write.format("indextables").mode("append").save(url)
    with pytest.raises(ConstraintViolation, match="1 rows that are there, among them id = 1"):
        indextables.sql(spark, f"ALTER TABLE indextables.`{url}` ADD CONSTRAINT more CHECK (id > 1)")
    indextables.sql(spark, f"ALTER TABLE indextables.`{url}` ADD CONSTRAINT sane CHECK (id > 0)")
    with pytest.raises(Exception, match=r"sane \(id > 0\)"):
        frame(spark, 0).write.format("indextables").mode("append").save(url)
    told = table.detail().collect()[0].asDict()
    assert told["properties"]["constraints.sane"] == "id > 0"
    table.dropConstraint("sane")
    frame(spark, 0).write.format("indextables").mode("append").save(url)
    assert sorted(row.id for row in table.toDF().collect()) == [0, 1, 2]


def test_rows_are_numbered_in_tasks_whatever_door_they_come_through(spark, tmp_path):
    url = str(tmp_path / "t")
    builder = IndexTable.create(spark).location(url).addColumn("name", "string")
    numbers = IdentityGenerator(start=10, step=-2)
    table = builder.addColumn("id", "bigint", nullable=False, generatedAlwaysAs=numbers).execute()
    names = spark.createDataFrame([(f"a{n}",) for n in range(30)], "name string").repartition(3)
    names.write.format("indextables").mode("append").save(url)
    indextables.write(spark.createDataFrame([("b",)], "name string"), url, mode="append")
    source = str(tmp_path / "source")
    indextables.create(source, pa.schema([("name", pa.string())])).append([{"name": "c"}])
    rows = spark.readStream.format("indextables").load(source)
    writer = rows.writeStream.format("indextables").option("checkpointLocation", str(tmp_path / "place"))
    writer.trigger(availableNow=True).start(url).awaitTermination()
    for refused in ({"id": "7"}, {"ID": "id + 1"}):
        with pytest.raises(InvalidArgument, match="GENERATED ALWAYS AS IDENTITY"):
            table.update("name = 'b'", refused)
    with pytest.raises(Exception, match="brings values for it"):
        frame(spark, 4).write.format("indextables").mode("append").save(url)
    before = {row.name: row.id for row in table.toDF().collect()}
    given = spark.createDataFrame([("b", 5), ("d", 6)], "name string, id long").alias("s")
    merge = table.alias("t").merge(given, "t.name = s.name").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merge.execute()
    table.upsert(spark.createDataFrame([("c",), ("e",)], "name string"), "name")
    table.update("name = 'a0'", {"name": "'A'"})
    found = {row.name: row.id for row in table.toDF().collect()}
    assert len(found) == len(set(found.values())) == 34
    assert {**before, "A": before["a0"]}.items() >= {key: found[key] for key in ("A", "b", "c", "a7")}.items()
    assert all(number <= 10 and number % 2 == 0 for number in found.values())
    copied = str(tmp_path / "copy")
    table.toDF().select("id").write.format("indextables").mode("append").save(copied)
    assert indextables.open(copied).schema.field("id").metadata is None
