"""Options of a write: what they do, and what is refused before a file is written."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.spark.frames import held, ids, last_commit, read, splits, write
from tests.world.field_ids import check, declared

import indextables
from indextables import IndexTable
from indextables.errors import InvalidArgument, NotSupported, SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def parts(tmp_path):
    """Nine rows in three partitions."""
    path = tmp_path / "t"
    table = indextables.create(path, pa.schema([("id", pa.int64()), ("part", pa.int64())]), partition_by=["part"])
    table.append(pa.table({"id": list(range(9)), "part": [n % 3 for n in range(9)]}))
    return path


def test_dynamic_overwrite_replaces_the_partitions_of_the_new_rows(spark, parts):
    write(spark.range(100, 101).selectExpr("id", "1L as part"), parts, "overwrite", partitionOverwriteMode="dynamic")
    assert held(parts) == [0, 2, 3, 5, 6, 8, 100]


def test_replace_where_replaces_the_partitions_it_names(spark, parts):
    frame = spark.range(100, 101).selectExpr("id", "1L as part")
    write(frame, parts, "overwrite", replaceWhere="part >= 1")
    assert held(parts) == [0, 3, 6, 100]
    before = splits(parts)
    for options, reason in (
        ({"replaceWhere": "id = 1"}, "are not partition columns"),
        ({"replaceWhere": "part = 2"}, "do not satisfy"),
        ({"replaceWhere": "Column<'(part = 1)'>"}, r"DataFrame\.where\(\)"),
        ({"replaceWhere": "part = 1", "partitionOverwriteMode": "dynamic"}, "give one"),
        ({"replaceWhere": "part = 1", "overwriteSchema": "true"}, "all rows"),
        ({"replaceWher": "part = 1"}, "is replaceWhere meant"),
        ({"partitionOverwriteMode": "some"}, "static or dynamic"),
    ):
        with pytest.raises(Exception, match=reason):
            write(frame, parts, "overwrite", **options)
    with pytest.raises(Exception, match="goes with mode"):
        write(frame, parts, "append", replaceWhere="part = 1")
    assert splits(parts) == before
    assert held(parts) == [0, 3, 6, 100]


def test_a_schema_is_merged_and_replaced(spark, parts):
    wide = spark.range(2**40, 2**40 + 1).selectExpr("id", "9L as part", "'new' as word", "null as nothing")
    with pytest.raises(Exception, match=r"word is not a column.*mergeSchema"):
        write(wide, parts)
    write(wide, parts, mergeSchema="true")
    frame = read(spark, parts)
    assert frame.columns == ["id", "part", "word"]
    assert [row.word for row in frame.where("part = 9").collect()] == ["new"]
    assert frame.where("word is null").count() == 9
    for options, reason in (({}, "foreign types|cannot be merged"),):
        with pytest.raises(Exception, match=reason):
            write(spark.sql("select 'x' as id, 1L as part"), parts, mergeSchema="true", **options)
    with pytest.raises(Exception, match="all rows"):
        write(wide, parts, "append", overwriteSchema="true")
    write(spark.sql("select 'x' as id, 1L as p2"), parts, "overwrite", overwriteSchema="true", partitionBy="p2")
    assert [tuple(row) for row in read(spark, parts).collect()] == [("x", 1)]
    assert indextables.open(parts).partition_columns == ["p2"]
    assert indextables.open(parts).at(version=1).count() == 9


def test_types_widen(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.sql("select 1 as i, float(0.5) as f"), path)
    write(spark.sql("select 3000000000L as i, double(1e300) as f"), path, mergeSchema="true")
    rows = read(spark, path).orderBy("i")
    assert rows.schema.simpleString() == "struct<i:bigint,f:double>"
    assert [tuple(row) for row in rows.collect()] == [(1, 0.5), (3000000000, 1e300)]
    assert read(spark, path, where="i = 1").count() == 1


def test_indexing_options_find_columns_in_any_case(spark, tmp_path):
    path = tmp_path / "t"
    frame = spark.sql("select 1 as id, 'the Quick fox' as MyText, 'a b' as Tag")
    write(frame, path, **{"indexing.typemap.MyText": "text", "spark.indextables.indexing.fastfields": "Tag"})
    table = indextables.open(path)
    assert table.search("mytext:quick", columns=["id"])["id"].to_pylist() == [1]
    assert table.search("tag:'a b'", columns=["id"]).num_rows == 1
    write(spark.sql("select 2 as id, 'quick again' as MyText"), path)
    assert indextables.open(path).search("quick", limit=None).num_rows == 2


def test_the_session_says_what_the_call_does_not(spark, tmp_path):
    spark.conf.set("spark.indextables.indexing.typemap.body", "text")
    spark.conf.set("spark.indextables.split.targetSize", "1k")
    try:
        write(spark.range(30000).selectExpr("id", "concat('word ', id) as body").coalesce(1), tmp_path / "t")
        write(
            spark.range(30000).selectExpr("id", "concat('word ', id) as body").coalesce(1),
            tmp_path / "u",
            **{"indexing.typemap.body": "string", "targetSplitSize": "256m"},
        )
    finally:
        spark.conf.unset("spark.indextables.indexing.typemap.body")
        spark.conf.unset("spark.indextables.split.targetSize")
    assert indextables.open(tmp_path / "t").search("body:word", limit=None).num_rows == 30000
    assert indextables.open(tmp_path / "t").files().num_rows > 1
    assert indextables.open(tmp_path / "u").search("body:word", limit=None).num_rows == 0
    assert indextables.open(tmp_path / "u").files().num_rows == 1


def test_what_was_written_is_told_in_the_commit(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(0, 10, 1, 2), path, userMetadata="load 17")
    commit = last_commit(path)
    files = indextables.open(path).files()
    metrics = dict(commit["operationMetrics"])
    assert metrics["numOutputRows"] == "10"
    assert metrics["numFiles"] == str(files.num_rows)
    assert metrics["numOutputBytes"] == str(sum(files["size"].to_pylist()))
    assert commit["userMetadata"] == "load 17"


def test_a_batch_is_taken_once_whatever_the_mode(spark, tmp_path):
    path = tmp_path / "t"
    for mode in ("append", "append", "overwrite"):
        write(spark.range(5), path, mode, txnAppId="job", txnVersion="7")
    assert held(path) == list(range(5))
    write(spark.range(3), path, "overwrite", txnAppId="job", txnVersion="8")
    assert held(path) == [0, 1, 2]
    assert len(splits(path)) == len(indextables.open(path).at(version=1).files()) + len(indextables.open(path).files())
    with pytest.raises(Exception, match="go together"):
        write(spark.range(1), path, txnAppId="job")


def test_what_belongs_to_one_load_or_save_is_refused_in_the_session(spark, parts):
    frame = spark.range(100, 101).selectExpr("id", "1L as part")
    with setting(spark, "spark.indextables.replaceWhere", "part = 1"):
        with pytest.raises(Exception, match=r"the session sets spark.indextables.replaceWhere"):
            write(frame, parts, "overwrite")
        with pytest.raises(InvalidArgument, match="belongs to one load or save"):
            indextables.write(frame, parts, mode="overwrite")
    with (
        setting(spark, "spark.indextables.versionAsOf", "0"),
        pytest.raises(Exception, match=r"give \.option\('versionAsOf', \.\.\.\)"),
    ):
        read(spark, parts).collect()
    assert held(parts) == list(range(9))


def test_the_partitions_that_sparks_own_setting_spares_are_spared(spark, parts):
    frame = spark.range(100, 101).selectExpr("id", "1L as part")
    with setting(spark, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
        write(frame, parts, "overwrite")
        assert held(parts) == [0, 2, 3, 5, 6, 8, 100]
        indextables.write(frame, parts, mode="overwrite", replaceWhere="part >= 1")
        assert held(parts) == [0, 3, 6, 100]
        indextables.write(frame, parts, mode="overwrite")
        assert held(parts) == [0, 3, 6, 100]
        write(frame, parts, "overwrite", partitionOverwriteMode="static")
    assert held(parts) == [100]


@contextlib.contextmanager
def setting(spark, key, value):
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key)


# indextables.write


def test_every_mode(spark, tmp_path):
    path = tmp_path / "t"
    frame = spark.range(3).selectExpr("id", "id % 2 as part")
    indextables.write(frame, path, partitionBy=["part"])
    assert indextables.open(path).partition_columns == ["part"]
    with pytest.raises(InvalidArgument, match="already"):
        indextables.write(frame, path)
    before = splits(path)
    indextables.write(frame, path, mode="ignore")
    assert splits(path) == before
    assert indextables.open(path).version == 1
    indextables.write(frame, str(path), mode="append", userMetadata="more")
    assert held(path) == [0, 0, 1, 1, 2, 2]
    assert last_commit(path)["userMetadata"] == "more"
    indextables.write(frame.where("id = 1"), path, mode="overwrite", replaceWhere="part = 1")
    assert held(path) == [0, 0, 1, 2, 2]
    indextables.write(frame.where("id = 2"), path, "overwrite", partitionOverwriteMode="dynamic")
    assert held(path) == [1, 2]
    indextables.write(frame, path, mode="overwrite")
    assert held(path) == [0, 1, 2]


def test_a_thread_of_the_program_writes_too(spark, tmp_path):
    with ThreadPoolExecutor(1) as threads:
        threads.submit(indextables.write, spark.range(3), tmp_path / "t").result()
    assert held(tmp_path / "t") == [0, 1, 2]


def test_errors_are_those_of_this_library(spark, tmp_path):
    from pyspark.sql import functions

    path = tmp_path / "t"
    indextables.write(spark.range(1), path)
    with pytest.raises(SchemaMismatch, match="extra is not a column"):
        indextables.write(spark.range(1).selectExpr("id", "1 as extra"), path, mode="append")
    with pytest.raises(InvalidArgument, match=r"DataFrame\.where\(\)"):
        indextables.write(spark.range(1), path, mode="overwrite", replaceWhere=functions.col("id") == 1)
    with pytest.raises(InvalidArgument, match="mode is error"):
        indextables.write(spark.range(1), path, mode="upsert")
    with pytest.raises(InvalidArgument, match="Spark DataFrame"):
        indextables.write(pa.table({"id": [1]}), path)
    with pytest.raises(InvalidArgument, match="is mergeSchema meant"):
        indextables.write(spark.range(1), path, mode="append", mergeSchem=True)
    with pytest.raises(NotSupported, match="are not partition columns"):
        indextables.write(spark.range(1), path, mode="overwrite", replaceWhere="id = 1")
    assert held(path) == [0]


def test_optimize_write_brings_the_rows_of_a_partition_together(spark, tmp_path):
    frame = spark.range(0, 400, 1, 8).selectExpr("id", "id % 2 as part")
    indextables.write(frame, tmp_path / "many", partitionBy="part")
    indextables.write(frame, tmp_path / "few", partitionBy="part", optimizeWrite=True)
    assert indextables.open(tmp_path / "many").files().num_rows == 16
    assert indextables.open(tmp_path / "few").files().num_rows <= 4
    indextables.write(frame, tmp_path / "few", mode="append", optimizeWrite=True)
    assert indextables.open(tmp_path / "few").files().num_rows <= 8
    assert held(tmp_path / "few") == sorted([*range(400), *range(400)])


def test_options_with_dots_and_the_zone_of_the_session(spark, tmp_path):
    path = tmp_path / "t"
    frame = spark.sql("select 1 as id, timestamp '2024-01-01 00:00:00Z' as ts, 'a word' as body")
    indextables.write(frame, path, partitionBy="ts", options={"indexing.typemap.body": "text"})
    assert indextables.open(path).search("word").num_rows == 1
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        # Nine o'clock in Tokyo is midnight in UTC.
        indextables.write(frame, path, mode="overwrite", replaceWhere="ts = timestamp '2024-01-01 09:00:00'")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert indextables.open(path).count() == 1


def test_two_creators_of_one_table(spark, tmp_path):
    """The mode holds at the commit too, when another writer was faster."""
    from indextables.spark.session.settings import WriteOptions
    from indextables.spark.source.writer import TableWriter

    schema = spark.range(1).schema

    def writer(mode):
        settings = {} if mode is None else {"saveMode": mode}
        return TableWriter(str(tmp_path / "t"), WriteOptions.of(settings), schema, overwrite=False)

    first, strict, lenient = writer(None), writer("error"), writer("ignore")
    rows = pa.RecordBatch.from_pydict({"id": pa.array([1], pa.int64())})
    answers = [one.write(iter([rows])) for one in (first, strict, lenient)]
    first.commit([answers[0]])
    with pytest.raises(InvalidArgument, match="has just created"):
        strict.commit([answers[1]])
    lenient.commit([answers[2]])
    assert held(tmp_path / "t") == [1]
    assert len(splits(tmp_path / "t")) == 1


def test_the_plan_of_a_write_shows_no_secret(spark, tmp_path):
    from indextables.spark.session.settings import SESSION

    spark.conf.set("spark.indextables.storage.secretKey", "hush")
    try:
        indextables.write(spark.range(1), tmp_path / "t")
    finally:
        spark.conf.unset("spark.indextables.storage.secretKey")
    log = indextables.open(tmp_path / "t").log()
    assert "hush" not in json.dumps(log.to_pylist())
    assert "secret" in SESSION


def test_ids_of_another_table_mean_nothing_here(spark, tmp_path):
    write(spark.sql("select 1L as id, 'x' as b"), tmp_path / "t")
    write(read(spark, tmp_path / "t").select("b", "id"), tmp_path / "u")
    assert ids(read(spark, tmp_path / "u")) == [1]


def test_data_files_carry_the_ids_of_columns(spark, tmp_path):
    rows = spark.sql("select 1L as id, array('x') as tags, map('k', named_struct('n', array(1))) as m")
    write(rows, tmp_path / "t")
    write(rows, tmp_path / "t", mode="append")
    table = indextables.open(tmp_path / "t")
    check(table)
    assert {"tags.element", "m.key", "m.value", "m.value.n", "m.value.n.element"} <= set(declared(table))
    write(read(spark, tmp_path / "t").withColumnRenamed("tags", "words"), tmp_path / "u")
    check(indextables.open(tmp_path / "u"))


def test_replace_where_takes_times_in_a_zone_that_is_known(spark, tmp_path):
    path = tmp_path / "t"
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = indextables.create(path, schema, partition_by=["at"])
    hours = [dt.datetime(2026, 11, 3, hour, tzinfo=dt.UTC) for hour in (3, 5)]
    table.append(pa.table({"id": [1, 2], "at": hours}, schema=schema))
    frame = spark.sql("SELECT 10L AS id, TIMESTAMP '2026-11-03 05:00:00Z' AS at")
    text = "at >= '2026-11-03 00:00:00'"
    with pytest.raises(Exception, match="does not see that of the session"):
        write(frame, path, "overwrite", replaceWhere=text)
    assert held(path) == [1, 2]
    write(frame, path, "overwrite", replaceWhere=text, timeZone="America/New_York")
    assert held(path) == [1, 10]
    write(frame, path, "overwrite", replaceWhere="at >= '2026-11-03 04:00:00Z'")
    assert held(path) == [1, 10]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        indextables.write(frame, path, "overwrite", replaceWhere=text)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert held(path) == [1, 10]


def test_texts_that_spark_compares_in_another_way_are_refused(spark, tmp_path):
    kinds = StructType(
        [
            StructField("id", LongType()),
            StructField("s", StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
        ]
    )
    frames = [
        spark.sql("SELECT 1L AS id, 'abc' COLLATE UTF8_LCASE AS s"),
        spark.sql("SELECT 1L AS id, array(named_struct('s', 'abc' COLLATE UTF8_LCASE)) AS a"),
        spark.createDataFrame([(1, "a    ")], kinds),
    ]
    for frame in frames:
        with pytest.raises(Exception, match=r"cast\(s as string\)"):
            write(frame, tmp_path / "t", "append")
    assert not (tmp_path / "t").exists()
    write(frames[0].selectExpr("id", "cast(s as string) as s"), tmp_path / "t", "append")
    assert held(tmp_path / "t") == [1]
    with pytest.raises(NotSupported, match="collation"):
        IndexTable.create(spark).location(tmp_path / "u").addColumns(frames[0].schema).execute()


def test_a_length_of_varchar_is_no_rule_of_the_table(spark, tmp_path):
    kind = StructField("s", StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)", "comment": "short"})
    frame = spark.createDataFrame([(1, "a")], StructType([StructField("id", LongType()), kind]))
    write(frame, tmp_path / "t", "append")
    assert read(spark, tmp_path / "t").schema["s"].metadata == {"comment": "short"}


def test_indexing_of_a_column_that_is_not_there_is_refused_unless_the_session_says_it(spark, parts, tmp_path):
    frame = spark.range(3).selectExpr("id", "0L as part")
    for path in (tmp_path / "new", parts):
        for key, value in (("indexing.typemap.nope", "text"), ("indexing.fastFields", "id,nope")):
            with pytest.raises(Exception, match=f"{key.lower()}.*nope"):
                write(frame, path, "append", **{key: value})
    assert not (tmp_path / "new" / "_transaction_log").exists()
    spark.conf.set("spark.indextables.indexing.typemap.nope", "text")
    try:
        indextables.write(frame, tmp_path / "new")
    finally:
        spark.conf.unset("spark.indextables.indexing.typemap.nope")
    assert held(tmp_path / "new") == [0, 1, 2]
    assert not [key for key in indextables.open(tmp_path / "new").metadata.configuration if "nope" in key]


@pytest.mark.parametrize("marker", ["_delta_log/00000000000000000000.json", "metadata/0.metadata.json"])
def test_no_table_is_made_in_a_folder_of_another_system(spark, tmp_path, marker):
    (tmp_path / "t" / marker).parent.mkdir(parents=True)
    (tmp_path / "t" / marker).write_text("{}")
    with pytest.raises(Exception, match="holds a table of"):
        write(spark.range(3), tmp_path / "t", "append")
    assert splits(tmp_path / "t") == []
