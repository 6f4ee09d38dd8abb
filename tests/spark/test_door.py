"""The data source as Spark's planners call it, without a session: what it refuses before it reads or writes."""

from __future__ import annotations

import datetime as dt
import shutil
import sys

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DateType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    YearMonthIntervalType,
)

import indextables
from indextables.errors import (
    InvalidArgument,
    NotInstalled,
    NotSupported,
    SchemaInvalid,
    SchemaMismatch,
    TableReplaced,
    VersionNotFound,
)
from indextables.spark.session import raising_ours
from indextables.spark.source.source import IndexTablesSource

ROWS = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32())])
ID = StructType([StructField("id", LongType())])


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "t", ROWS)
    made.append([{"id": 1, "at": dt.datetime(2026, 1, 1, 23, tzinfo=dt.UTC), "day": dt.date(2026, 1, 1)}])
    return made


def door(table, **options):
    return IndexTablesSource(CaseInsensitiveDict({"path": table.url, **options}))


def rows(reader):
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "option",
    [{"where": "id = 1"}, {"columns": "id"}, {"limit": "1"}, {"versionAsOf": "0"}, {"search": "x"}],
)
@pytest.mark.parametrize("overwrite", [True, False])
def test_options_of_reads_are_refused_in_writes(table, option, overwrite):
    with pytest.raises(InvalidArgument, match="replaceWhere"):
        door(table, **option).writer(ID, overwrite)
    with pytest.raises(InvalidArgument, match="an option of reads"):
        door(table, **option).streamWriter(ID, overwrite=False)
    assert table.version == 1


def test_a_schema_and_the_option_columns_are_not_mixed(table):
    assert rows(door(table, columns="ID").reader(ID)) == [{"id": 1}]
    assert rows(door(table).reader(ID)) == [{"id": 1}]
    for names in ("day", "id,day"):
        with pytest.raises(InvalidArgument, match="give one of them"):
            door(table, columns=names).reader(ID)


def test_a_stream_is_pinned_to_no_version_whoever_names_its_columns(table):
    asked = door(table, versionAsOf="1")
    asked.schema()
    for source in (asked, door(table, versionAsOf="1"), door(table, timestampAsOf="2026-01-01")):
        with pytest.raises(InvalidArgument, match="startingVersion"):
            source.streamReader(ID)
    planned = door(table)
    planned.schema()
    planned.streamReader(ID)


def test_a_table_that_took_the_place_of_the_planned_one_is_not_read(table, tmp_path):
    planned, streamed = door(table), door(table)
    planned.schema(), streamed.schema()
    shutil.rmtree(tmp_path / "t")
    indextables.create(tmp_path / "t", ROWS).append([{"id": 2}])
    with pytest.raises(TableReplaced):
        rows(planned.reader(ID))
    with pytest.raises(TableReplaced):
        streamed.streamReader(ID).initialOffset()
    assert rows(door(table).reader(ID)) == [{"id": 2}]


def test_a_time_is_taken_in_a_zone_that_is_known(table):
    made = table.history(1)["timestamp"].to_pylist()[0].astimezone(dt.UTC).replace(tzinfo=None)
    later = (made + dt.timedelta(hours=1)).isoformat()
    for time in (later, "2026-01-01"):
        with pytest.raises(InvalidArgument, match="names no zone"):
            door(table, timestampAsOf=time).schema()
        with pytest.raises(InvalidArgument, match="names no zone"):
            door(table, startingTimestamp=time).streamReader(ID).initialOffset()
    assert door(table, timestampAsOf=later, timeZone="UTC").schema().names == ROWS.names
    assert rows(door(table, timestampAsOf=f"{later}Z").reader(ID)) == [{"id": 1}]
    # An hour later in a zone to the east is before the table was made.
    with pytest.raises(VersionNotFound):
        door(table, timestampAsOf=later, timeZone="Asia/Tokyo").schema()


@pytest.mark.parametrize("time", ["²", "\u0661", "tomorrow", ""])
def test_a_time_that_is_none_is_told(table, time):
    with pytest.raises(InvalidArgument, match="is not a time"):
        door(table, timestampAsOf=time).schema()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("at", TimestampNTZType()), ("at", DateType()), ("at", StringType()), ("day", TimestampType())],
)
def test_a_column_is_not_read_in_a_zone_that_nobody_named(table, name, kind):
    reader = door(table).reader(StructType([StructField(name, kind)]))
    with pytest.raises(SchemaMismatch, match="depends on the zone"):
        rows(reader)


def test_a_column_is_read_as_another_type_that_holds_it(table):
    found = rows(door(table).reader(StructType([StructField("id", StringType()), StructField("at", TimestampType())])))
    assert found == [{"id": "1", "at": dt.datetime(2026, 1, 1, 23, tzinfo=dt.UTC)}]


class Frame:
    """As much of a DataFrame as is looked at before anything is asked of Spark."""

    write = None
    sparkSession = None


@pytest.mark.parametrize("path", [None, 5, b"/x", ["/x"]])
def test_what_is_no_path_is_told(path):
    with pytest.raises(InvalidArgument, match="a table is at a path or URL"):
        indextables.write(Frame(), path)
    with pytest.raises(InvalidArgument, match="a table is at a path or URL"):
        indextables.IndexTable.forPath(None, path)


def test_a_source_that_workers_do_not_find_is_told_with_what_to_set():
    from pyspark.errors import AnalysisException

    told = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: indextables. Make sure the provider name is correct"
    with pytest.raises(NotInstalled, match=f"PYSPARK_PYTHON={sys.executable}"), raising_ours():
        raise AnalysisException(told)
    with pytest.raises(AnalysisException), raising_ours():
        raise AnalysisException(told.replace("indextables", "delta"))


@pytest.mark.parametrize("name", ["saveMode", "savemode", "spark.indextables.saveMode"])
def test_a_second_mode_does_not_drop_the_rows_of_an_append(tmp_path, name):
    with pytest.raises(InvalidArgument, match="with mode, not"):
        indextables.write(Frame(), tmp_path, mode="append", options={name: "ignore"})


@pytest.mark.parametrize(
    ("kind", "error", "reason"),
    [
        (YearMonthIntervalType(), NotSupported, "'v'.*interval year to month"),
        (StructType([StructField("a", YearMonthIntervalType())]), NotSupported, "'v'.*interval year to month"),
        (StructType([]), SchemaInvalid, "'v'.*without fields"),
    ],
)
def test_a_type_that_no_task_could_write_is_refused_before_one_runs(tmp_path, kind, error, reason):
    source = IndexTablesSource(CaseInsensitiveDict({"path": str(tmp_path / "t")}))
    with pytest.raises(error, match=reason):
        source.writer(StructType([StructField("v", kind)]), overwrite=False)
    assert not (tmp_path / "t").exists()


def test_times_of_the_day_come_and_go_as_spark_has_them(tmp_path):
    kind = StructType([StructField("v", TimeType(3)), StructField("s", StructType([StructField("t", TimeType())]))])
    source = IndexTablesSource(CaseInsensitiveDict({"path": str(tmp_path / "t")}))
    writer = source.writer(kind, overwrite=False)
    time = dt.time(23, 59, 59, 999999)
    given = to_arrow_schema(kind, timezone="UTC")
    batch = pa.RecordBatch.from_pylist([{"v": time, "s": {"t": time}}, {"v": None, "s": None}], schema=given)
    writer.commit([writer.write(iter([batch]))])
    assert source.schema() == kind
    assert rows(source.reader(source.schema())) == batch.to_pylist()


@pytest.mark.parametrize("nothing", ["", "[]"])
def test_a_table_is_partitioned_no_more_where_its_new_schema_is_told_so(tmp_path, nothing):
    made = indextables.create(tmp_path / "t", ROWS, partition_by=["day"])
    with pytest.raises(InvalidArgument, match="partitionBy"):
        door(made, overwriteSchema="true").writer(ID, overwrite=True)
    writer = door(made, overwriteSchema="true", partitionBy=nothing).writer(ID, overwrite=True)
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict({"id": [5]})]))])
    assert (made.refresh().partition_columns, made.to_arrow().to_pylist()) == ([], [{"id": 5}])
