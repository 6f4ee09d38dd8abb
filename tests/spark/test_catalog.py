"""Tables of Spark's catalog and views: what works, and that nothing ever goes into the wrong table."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.spark.frames import held, ids, read, write

import indextables
from indextables.errors import NotSupported, TableNotFound

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

WAYS = r"INSERT INTO t WITH \(path='...'\)"


@pytest.fixture
def two(tmp_path):
    """Two tables with the same columns, holding 1 and 2."""
    for name, number in (("a", 1), ("b", 2)):
        table = indextables.create(tmp_path / name, pa.schema([("id", pa.int64()), ("s", pa.string())]))
        table.append(pa.table({"id": [number], "s": ["x"]}))
    return tmp_path


@pytest.fixture
def catalog(spark, two):
    """Both tables in the catalog, as ca and cb."""
    for name in ("a", "b"):
        spark.sql(f"drop table if exists c{name}")
        spark.sql(f"create table c{name} using indextables options (path '{two / name}')")
    yield two
    for name in ("a", "b"):
        spark.sql(f"drop table if exists c{name}")


def test_a_table_of_the_catalog_is_read_by_the_path_of_its_columns(spark, catalog):
    assert ids(spark.table("ca")) == [1]
    assert ids(spark.sql("select * from cb")) == [2]
    both = spark.sql("select a.id from ca a join cb b on a.s = b.s union all select id from cb where id = 2")
    assert ids(both) == [1, 2]
    indextables.open(catalog / "a").append(pa.table({"id": [3], "s": ["y"]}))
    assert ids(spark.table("ca")) == [1, 3]
    twice = spark.sql("select id from ca where id = 1 union all select id from ca where id = 3")
    assert ids(twice) == [1, 3]
    spark.sql("drop table ca")
    assert held(catalog / "a") == [1, 3]


def test_a_location_is_a_path_too(spark, two):
    spark.sql(f"create table cl using indextables location '{two / 'a'}'")
    try:
        assert ids(spark.table("cl")) == [1]
    finally:
        spark.sql("drop table cl")


def test_inserts_without_a_path_are_refused_and_touch_no_table(spark, catalog):
    statements = (
        "insert into cb select * from ca",
        "insert into cb values (9, 'z')",
        "insert into cb (s, id) select s, id from ca",
        "insert overwrite cb select * from ca",
    )
    for statement in statements:
        with pytest.raises(Exception, match=WAYS):
            spark.sql(statement).collect()
    with pytest.raises(Exception, match=WAYS):
        spark.table("ca").write.insertInto("cb")
    with pytest.raises(Exception, match=WAYS):
        spark.table("ca").writeTo("cb").append()
    with pytest.raises(Exception, match=WAYS):
        spark.table("ca").write.format("indextables").mode("append").saveAsTable("cb")
    assert (held(catalog / "a"), held(catalog / "b")) == ([1], [2])


def test_inserts_that_name_the_path_go_there(spark, catalog):
    spark.sql(f"insert into cb with (path='{catalog / 'b'}') select id + 10, s from ca").collect()
    assert (held(catalog / "a"), held(catalog / "b")) == ([1], [2, 11])
    spark.sql(f"insert overwrite cb with (path='{catalog / 'b'}') values (7, 'q')").collect()
    assert (held(catalog / "a"), held(catalog / "b")) == ([1], [7])
    spark.table("ca").writeTo("cb").option("path", str(catalog / "b")).append()
    assert (held(catalog / "a"), held(catalog / "b")) == ([1], [1, 7])
    assert ids(spark.table("cb")) == [1, 7]


def test_a_temporary_view_is_read_and_inserted_into(spark, two):
    spark.sql(f"create or replace temporary view va using indextables options (path '{two / 'a'}')")
    spark.sql("insert into va values (5, 'v')").collect()
    assert held(two / "a") == [1, 5]
    assert ids(read(spark, two / "a")) == [1, 5]
    spark.sql("insert overwrite va select id, s from va where id = 1").collect()
    assert held(two / "a") == [1]
    options = f"(path '{two / 'a'}', where 'id > 100')"
    spark.sql(f"create or replace temporary view none_of_it using indextables options {options}")
    assert spark.table("none_of_it").count() == 0


def test_a_table_with_a_list_of_columns_is_refused_with_the_ways(spark, two):
    spark.sql(f"create table cols (id bigint, s string) using indextables options (path '{two / 'a'}')")
    try:
        with pytest.raises(Exception, match="without a list of columns"):
            spark.table("cols").collect()
        with pytest.raises(Exception, match=WAYS):
            spark.sql("insert into cols values (1, 'x')").collect()
        spark.sql(f"insert into cols with (path='{two / 'a'}') values (4, 'w')").collect()
        assert ids(spark.read.option("path", str(two / "a")).table("cols")) == [1, 4]
    finally:
        spark.sql("drop table cols")
    assert held(two / "b") == [2]


def test_options_that_a_catalog_would_forget_are_refused(spark, two):
    for option in ("where 'id = 1'", "versionAsOf '0'", "search 's:x'"):
        with pytest.raises(Exception, match="TEMPORARY VIEW"):
            spark.sql(f"create table forgetful using indextables options (path '{two / 'a'}', {option})")
        assert not spark.catalog.tableExists("forgetful")


def test_options_that_spark_would_mix_up_are_refused(spark, catalog):
    mixed = "select id from ca with (where='id = 1') union all select id from ca with (where='id = 2')"
    with pytest.raises(Exception, match="mixes up"):
        spark.sql(mixed).collect()
    with pytest.raises(Exception, match="the table of the catalog is the one at"):
        spark.read.option("path", str(catalog / "b")).table("ca").collect()


@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
def test_save_as_table_without_a_path_leaves_nothing(spark, mode):
    with pytest.raises(Exception, match=WAYS):
        spark.range(1).write.format("indextables").mode(mode).saveAsTable("unplaced")
    assert not spark.catalog.tableExists("unplaced")


def test_write_to_without_a_path_leaves_nothing(spark):
    for verb in ("create", "createOrReplace"):
        with pytest.raises(Exception, match=WAYS):
            getattr(spark.range(1).writeTo("unplaced").using("indextables"), verb)()
        assert not spark.catalog.tableExists("unplaced")
    with pytest.raises(Exception, match=WAYS):
        spark.sql("create table unplaced using indextables as select 1 as id").collect()
    assert not spark.catalog.tableExists("unplaced")


def test_columns_of_a_catalog_table_keep_their_path_to_themselves(spark, catalog, tmp_path):
    write(spark.table("ca"), tmp_path / "copy")
    assert held(tmp_path / "copy") == [1]
    assert "indextables.path" not in indextables.open(tmp_path / "copy").metadata.schemaString
    assert "indextables.path" not in read(spark, tmp_path / "copy").schema.json()


def test_a_catalog_keeps_its_columns_when_the_table_grows_and_says_when_one_is_gone(spark, catalog):
    table = indextables.open(catalog / "a")
    table.append(pa.table({"id": [2], "s": ["y"], "more": [1]}), merge_schema=True)
    assert spark.table("ca").columns == ["id", "s"]
    assert ids(spark.table("ca")) == [1, 2]
    table.overwrite(pa.table({"id": [5]}), overwrite_schema=True)
    with pytest.raises(Exception, match="columns that the table lacks: s"):
        spark.table("ca").collect()


def test_a_name_that_is_saved_with_a_path_has_its_rows_there_and_is_read_with_it(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.range(3).write.format("indextables").mode("append").option("path", path).saveAsTable("placed")
    try:
        spark.range(3, 5).write.format("indextables").mode("append").option("path", path).saveAsTable("placed")
        with pytest.raises(Exception, match="without a list of columns"):
            spark.table("placed").collect()
        assert ids(spark.read.option("path", path).table("placed")) == [0, 1, 2, 3, 4]
    finally:
        spark.sql("drop table placed")
    assert held(tmp_path / "t") == [0, 1, 2, 3, 4]


def test_a_name_that_is_saved_from_another_one_is_not_read_as_that(spark, catalog, tmp_path):
    path = str(tmp_path / "t")
    saving = spark.table("ca").write.format("indextables").mode("overwrite").option("path", path)
    try:
        # Of a new name, and of one that is there.
        for name in ("placed", "cb"):
            saving.saveAsTable(name)
            with pytest.raises(Exception, match="without a list of columns"):
                spark.table(name).collect()
            assert ids(spark.read.option("path", path).table(name)) == [1]
            with pytest.raises(TableNotFound):
                indextables.IndexTable.forName(spark, name)
        assert indextables.IndexTable.forName(spark, "ca").count() == 1
    finally:
        spark.sql("drop table if exists placed")
    assert (held(catalog / "a"), held(catalog / "b"), held(tmp_path / "t")) == ([1], [2], [1])


def test_a_name_that_is_replaced_without_a_path_keeps_its_rows(spark, catalog):
    """Spark takes the entry away before it asks us; what it named stays."""
    with pytest.raises(Exception, match=WAYS):
        spark.table("cb").write.format("indextables").mode("overwrite").saveAsTable("ca")
    with pytest.raises(Exception, match=WAYS):
        spark.table("cb").writeTo("cb").using("indextables").createOrReplace()
    assert (held(catalog / "a"), held(catalog / "b")) == ([1], [2])


def test_a_name_stays_at_the_path_that_it_was_made_with(spark, catalog):
    spark.sql(f"alter table ca set location '{catalog / 'b'}'")
    assert ids(spark.table("ca")) == [1]
    spark.sql("alter table ca rename to renamed")
    try:
        assert ids(spark.table("renamed")) == [1]
    finally:
        spark.sql("drop table renamed")
    assert (held(catalog / "a"), held(catalog / "b")) == ([1], [2])


def test_alter_table_by_name_changes_the_table_where_statements_are_ours(spark, catalog):
    indextables.enable(spark)
    try:
        spark.sql("ALTER TABLE default.ca RENAME COLUMN `s` TO text")
        indextables.sql(spark, "/* why */ alter table spark_catalog.default.ca add columns (z int)")
        spark.sql("alter table ca set tblproperties ('team' = 'platform')")
        table = indextables.open(catalog / "a")
        assert (table.schema.names, table.metadata.configuration["team"]) == (["id", "text", "z"], "platform")
        for statement in ("alter table ca replace columns (id bigint)", "alter table ca set location '/x'"):
            with pytest.raises(NotSupported, match="Nothing was changed"):
                spark.sql(statement)
        spark.sql("create table other (a int, b int) using parquet")
        spark.sql("alter table other set tblproperties ('checkpoint.interval' = 'abc')")
        spark.sql("alter table other add columns (z int)")
    finally:
        indextables.disable(spark)
        spark.sql("drop table if exists other")
    # The entry has followed: sessions without ours read by it.
    assert spark.table("ca").columns == ["id", "text", "z"]
    assert ids(spark.table("ca")) == [1]


def test_an_entry_that_was_altered_elsewhere_says_how_to_renew_it(spark, catalog):
    renew = (
        rf"Renew it: DROP TABLE name, then CREATE TABLE name USING indextables OPTIONS \(path 'file://{catalog}/a'\)"
    )
    spark.sql("alter table ca rename column s to text")
    with pytest.raises(Exception, match=renew):
        spark.table("ca").collect()
    # A name that another column of the table has: its rows must not be taken for those of the first.
    spark.sql("alter table cb drop column id")
    spark.sql("alter table cb rename column s to id")
    with pytest.raises(Exception, match="s is called id"):
        spark.sql("select id from cb").collect()
    spark.sql("drop table ca")
    spark.sql(f"create table ca using indextables options (path 'file://{catalog}/a')")
    assert ids(spark.table("ca")) == [1]
    assert held(catalog / "a") == [1]
