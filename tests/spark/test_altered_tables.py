"""Tables whose columns were renamed, dropped, made again and given defaults, as every way of Spark has them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import indextables
from indextables import IndexTable

pytestmark = pytest.mark.spark

ROWS = [
    {"id": 0, "b": "apple word0", "a": "b0", "n": None, "c": 7, "d": "it's", "f": 1.5},
    {"id": 1, "b": "apple word1", "a": "b1", "n": None, "c": 7, "d": "it's", "f": 1.5},
    {"id": 3, "b": "apple word3", "a": "b3", "n": None, "c": 7, "d": "it's", "f": 1.5},
    {"id": 4, "b": "pear", "a": "z", "n": "text", "c": 1, "d": None, "f": 0.5},
    {"id": 5, "b": None, "a": None, "n": None, "c": 7, "d": "it's", "f": 1.5},
]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string()), ("n", pa.int32())])
    table = indextables.create(tmp_path_factory.mktemp("altered") / "t", schema, indexing={"a": "text"})
    table.append([{"id": i, "a": f"apple word{i}", "b": f"b{i}", "n": i} for i in range(4)])
    for old, new in [("a", "third"), ("b", "a"), ("third", "b")]:
        table.rename_column(old, new)
    table.drop_columns("n")
    table.add_columns("n string, c int DEFAULT 7, d string DEFAULT 'it''s', f double DEFAULT 1.5")
    table.append([{"id": 4, "a": "z", "b": "pear", "n": "text", "c": 1, "d": None, "f": 0.5}, {"id": 5}])
    table.delete("id = 2")
    return table.url


def told(frame):
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["id"])


@pytest.mark.connect
def test_every_way_of_reading_gives_the_rows_of_the_table(spark, url):
    by_files = IndexTable.forPath(spark, url).toDF()
    by_python = spark.read.format("indextables").load(url)
    assert by_files.columns == by_python.columns == ["id", "b", "a", "n", "c", "d", "f"]
    assert told(by_files) == told(by_python) == ROWS
    for frame in (by_files, by_python):
        assert frame.where("a = 'b1'").count() == 1
        assert frame.where("c = 7 AND d = 'it\\'s'").count() == 4
        assert frame.where("n IS NULL").count() == 4
        assert frame.where("n = 'text' OR f > 1").count() == 5
    assert told(IndexTable.forPath(spark, url).toDF(where="a >= 'b3'")) == ROWS[2:4]
    found = IndexTable.forPath(spark, url).search("b:apple")
    assert sorted(row["a"] for row in found.collect()) == ["b0", "b1", "b3"]


def test_filters_are_pushed_to_files_by_the_names_that_they_have(spark, url):
    frame = IndexTable.forPath(spark, url).toDF().where("a = 'b1'").select("a")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "EqualTo(b,b1)" in plan.replace(" ", "")


def test_rows_that_spark_appends_go_under_the_names_that_files_have(spark, url, tmp_path):
    import shutil

    copied = tmp_path / "t"
    shutil.copytree(url.removeprefix("file://"), copied)
    frame = spark.createDataFrame([(10, "grape", "aa")], "id bigint, b string, a string")
    frame.write.format("indextables").mode("append").save(str(copied))
    table = indextables.open(copied)
    assert table.scan(where="id = 10").read_all().to_pylist() == [
        {"id": 10, "b": "grape", "a": "aa", "n": None, "c": 7, "d": "it's", "f": 1.5}
    ]
    assert table.count("b:grape") == 1


def test_rows_that_a_merge_inserts_have_the_defaults_of_what_no_clause_sets(spark, tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("m", pa.string())]))
    table.append([{"id": 1, "m": "a"}, {"id": 2, "m": "b"}])
    table.add_columns("c int DEFAULT 7, d string DEFAULT 'it''s', e date DEFAULT DATE '2026-01-31', g int")
    source = spark.createDataFrame([(1, "x"), (5, "y"), (6, "z")], "id bigint, m string").alias("s")
    merging = IndexTable.forPath(spark, table.url).alias("t").merge(source, "t.id = s.id AND s.m > ''")
    merging.whenMatchedUpdate(set={"c": "default", "d": "upper(d)"}).whenNotMatchedInsert(
        "s.id = 5", {"id": "s.id", "m": "DEFAULT"}
    ).whenNotMatchedInsert(None, {"id": "s.id", "c": "id * 10", "g": "DEFAULT"}).execute()
    IndexTable.forPath(spark, table.url).update("id = 2", {"c": "c + 1", "e": "DEFAULT", "d": "DEFAULT"})
    day = dt.date(2026, 1, 31)
    assert sorted(table.refresh().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "m": "a", "c": 7, "d": "IT'S", "e": day, "g": None},
        {"id": 2, "m": "b", "c": 8, "d": "it's", "e": day, "g": None},
        {"id": 5, "m": None, "c": 7, "d": "it's", "e": day, "g": None},
        {"id": 6, "m": None, "c": 60, "d": "it's", "e": day, "g": None},
    ]
