"""The data source, through Spark's own API, against the embedded engine."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import shutil

import pyarrow as pa
import pytest
from tests.spark.frames import read, write

import indextables
from indextables.errors import SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

DDL = (
    "id bigint, b boolean, i8 tinyint, i16 smallint, i32 int, f float, d double, n decimal(20,4), s string, "
    "y binary, day date, ts timestamp, ntz timestamp_ntz, a array<int>, m map<string,bigint>, "
    "st struct<x:int,z:string>"
)
ZONE = dt.UTC
ROWS = [
    (
        1,
        True,
        -128,
        -32768,
        -(2**31),
        1.5,
        -1e300,
        decimal.Decimal("-12345678.1234"),
        "é\U0001f600",
        bytearray(b"\x00\xff"),
        dt.date(1, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - Spark's own form
        dt.datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001
        [1, None, 3],
        {"k": 1, "l": None},
        (7, "z"),
    ),
    (2, *([None] * 15)),
    (
        2**62,
        False,
        127,
        32767,
        2**31 - 1,
        math.inf,
        math.nan,
        decimal.Decimal("0.0001"),
        "",
        bytearray(b""),
        dt.date(9999, 12, 31),
        dt.datetime(2024, 1, 1),  # noqa: DTZ001
        dt.datetime(1900, 1, 1),  # noqa: DTZ001
        [],
        {},
        (None, None),
    ),
]


def plain(rows):
    """Rows by id in a form that compares NaN and bytes."""
    return sorted((repr(tuple(row)) for row in rows), key=str)


@pytest.fixture(scope="module")
def numbers(spark, tmp_path_factory):
    """Two appends of one table: ids 0 to 9 and 10 to 19."""
    path = tmp_path_factory.mktemp("numbers") / "t"
    for start in (0, 10):
        frame = spark.range(start, start + 10).selectExpr("id", "concat('row ', id) as message", "id % 3 as part")
        write(frame.coalesce(1), path, **{"partitionBy": "part", "spark.indextables.indexing.typemap.message": "text"})
    return path


def test_every_type_survives_a_round_trip(spark, tmp_path):
    frame = spark.createDataFrame(ROWS, DDL)
    write(frame, tmp_path / "t")
    back = read(spark, tmp_path / "t")
    assert back.schema.simpleString() == frame.schema.simpleString()
    assert plain(back.collect()) == plain(frame.collect())


def test_the_embedded_engine_reads_what_spark_wrote(spark, tmp_path):
    frame = spark.createDataFrame(ROWS, DDL)
    write(frame, tmp_path / "t")
    table = indextables.open(tmp_path / "t")
    ours = table.to_arrow().sort_by("id")
    theirs = frame.orderBy("id").toArrow()
    assert ours.schema.names == theirs.schema.names
    assert [repr(row) for row in ours.to_pylist()] == [repr(row) for row in theirs.cast(ours.schema).to_pylist()]


def test_spark_reads_what_the_embedded_engine_wrote(spark, tmp_path):
    rows = pa.table(
        {"id": pa.array([1, 2, 3]), "s": ["a", None, "c"], "t": pa.array([1, 2, 3], pa.timestamp("us", "UTC"))}
    )
    table = indextables.create(tmp_path / "t", rows.schema)
    table.append(rows.slice(0, 2))
    table.append(rows.slice(2))
    assert read(spark, tmp_path / "t").orderBy("id").toArrow().to_pylist() == rows.to_pylist()


def test_appends_add_up_and_the_index_is_there(numbers, spark):
    assert read(spark, numbers).count() == 20
    table = indextables.open(numbers)
    assert table.version == 2
    assert table.partition_columns == ["part"]
    assert table.search("message:13", columns=["id"])["id"].to_pylist() == [13]


def test_where_prunes_and_filters_exactly(numbers, spark):
    assert sorted(row.id for row in read(spark, numbers, where="part = 1 and id > 12").collect()) == [13, 16, 19]


def test_a_version_can_be_named_and_a_dataframe_stays_at_its_own(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(3), path)
    pinned = read(spark, path)
    assert pinned.columns == ["id"]  # Connect looks at the table when it is first asked about it
    write(spark.range(3, 5), path)
    assert pinned.count() == 3
    assert read(spark, path).count() == 5
    assert read(spark, path, versionAsOf="1").count() == 3
    assert read(spark, path, versionAsOf="0").count() == 0


def test_a_dataframe_does_not_read_a_table_that_took_the_place_of_its_own(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(3), path)
    pinned = read(spark, path)
    assert pinned.columns == ["id"]
    shutil.rmtree(path)
    write(spark.range(10, 14), path)
    with pytest.raises(Exception, match="it was dropped and re-created"):
        pinned.collect()
    assert read(spark, path).count() == 4


def test_overwrite_replaces_everything(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(10), path)
    write(spark.range(100, 103), path, mode="overwrite")
    assert sorted(row.id for row in read(spark, path).collect()) == [100, 101, 102]
    assert indextables.open(path).at(version=1).count() == 10


def test_overwrite_replaces_the_partitions_that_replace_where_names(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(9).selectExpr("id", "id % 3 as part"), path, partitionBy="part")
    write(spark.range(100, 101).selectExpr("id", "id % 3 as part"), path, mode="overwrite", replaceWhere="part = 1")
    assert sorted(row.id for row in read(spark, path).collect()) == [0, 2, 3, 5, 6, 8, 100]
    with pytest.raises(Exception, match="do not satisfy"):
        write(spark.range(1).selectExpr("id", "2L as part"), path, mode="overwrite", replaceWhere="part = 1")
    assert read(spark, path).count() == 7
    for nothing in ("1 = 0", "part = 1 and null"):
        write(spark.range(0).selectExpr("id", "id % 3 as part"), path, mode="overwrite", replaceWhere=nothing)
        assert read(spark, path).count() == 7


def test_an_empty_dataframe_makes_an_empty_table(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.createDataFrame([], "a int, b string"), path)
    assert read(spark, path).collect() == []
    assert indextables.open(path).schema == pa.schema([("a", pa.int32()), ("b", pa.string())])


def test_a_frame_that_does_not_fit_is_refused_before_any_file(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(2), path)
    with pytest.raises(Exception, match="extra is not a column of the table"):
        write(spark.range(2).selectExpr("id", "1 as extra"), path)
    with pytest.raises(Exception, match="id is string, the table has int64"):
        write(spark.sql("select 'x' as id"), path)
    assert len(list(path.rglob("*.split"))) == indextables.open(path).files().num_rows


def test_a_failed_task_commits_nothing(spark, tmp_path):
    path = tmp_path / "t"
    write(spark.range(1), path)
    broken = spark.range(0, 8, 1, 2).selectExpr("if(id = 7, raise_error('boom'), id) as id")
    with pytest.raises(Exception, match="boom"):
        write(broken, path)
    table = indextables.open(path)
    assert (table.version, table.to_arrow()["id"].to_pylist()) == (1, [0])


def test_a_place_without_a_table_is_named(spark, tmp_path):
    with pytest.raises(Exception, match="TableNotFound"):
        read(spark, tmp_path / "nothing").collect()


def test_abort_after_a_commit_deletes_nothing(spark, tmp_path):
    from indextables.spark.session.settings import WriteOptions
    from indextables.spark.source.write_task import WrittenFiles
    from indextables.spark.source.writer import TableWriter

    path = tmp_path / "t"
    schema = spark.range(1).schema
    writer = TableWriter(str(path), WriteOptions(), schema, overwrite=False)
    message = writer.write(iter([pa.RecordBatch.from_pydict({"id": pa.array([1, 2], pa.int64())})]))
    assert isinstance(message, WrittenFiles)
    writer.abort([message])
    writer.commit([message])
    writer.abort([message])
    assert indextables.open(path).to_arrow()["id"].to_pylist() == [1, 2]
    orphan = writer.write(iter([pa.RecordBatch.from_pydict({"id": pa.array([3], pa.int64())})]))
    writer.abort([orphan, None])
    assert len(list(path.rglob("*.split"))) == 1


def test_a_schema_mismatch_names_the_difference_in_python_too(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    with pytest.raises(SchemaMismatch, match="extra is not a column"):
        table.append(pa.table({"extra": [1]}))
