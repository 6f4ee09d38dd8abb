"""`toDF`: Spark's own Parquet reader gives the rows, columns and types that the embedded engine gives."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import shutil

import msgspec
import pyarrow as pa
import pytest
from tests.spark.vectors import delete_rows

import indextables
from indextables import IndexTable
from indextables.errors import InvalidArgument, QueryInvalid, SplitCorrupt, VersionExpired
from indextables.spark import scan as scan_native

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def made(path, rows, batches=1, **create):
    """A table with `rows`, written in so many appends."""
    table = indextables.create(path, rows.schema, **create)
    size = -(-rows.num_rows // batches)
    for start in range(0, rows.num_rows, size):
        table.append(rows.slice(start, size))
    return table


def numbers(count, **more):
    ids = list(range(count))
    return pa.table({"id": ids, "s": [f"row {i}" for i in ids], "part": [i % 3 for i in ids], **more})


def same(frame, table, **scan):
    """Spark's rows and the embedded engine's, as sorted texts."""
    ours = sorted(repr(tuple(row.values())) for row in table.to_arrow(**scan).to_pylist())
    theirs = sorted(repr(tuple(row.values())) for row in frame.toArrow().to_pylist())
    return ours == theirs


def is_native(frame, capfd):
    """True if Spark itself reads the files."""
    capfd.readouterr()
    frame.explain()
    plan = capfd.readouterr().out
    return "FileScan parquet" in plan or "LocalTableScan" in plan


def test_every_type_comes_as_the_table_has_it(spark, tmp_path, capfd):
    day, at = dt.date(1, 1, 1), dt.datetime(1500, 2, 28, 23, 59, 59, 999999, tzinfo=dt.UTC)
    columns = {
        "id": (pa.int64(), [1, None, 2**62]),
        "b": (pa.bool_(), [True, None, False]),
        "i8": (pa.int8(), [-128, None, 127]),
        "i16": (pa.int16(), [-(2**15), None, 2**15 - 1]),
        "i32": (pa.int32(), [-(2**31), None, 2**31 - 1]),
        "f": (pa.float32(), [1.5, None, math.inf]),
        "d": (pa.float64(), [-1e300, None, -0.0]),
        "n": (pa.decimal128(20, 4), [decimal.Decimal("-12345678.1234"), None, decimal.Decimal("0.0001")]),
        "s": (pa.string(), ["é\U0001f600", None, ""]),
        "y": (pa.binary(), [b"\x00\xff", None, b""]),
        "day": (pa.date32(), [day, None, dt.date(9999, 12, 31)]),
        "ts": (pa.timestamp("us", "UTC"), [at, None, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]),
        "ntz": (pa.timestamp("us"), [at.replace(tzinfo=None), None, dt.datetime(1900, 1, 1)]),  # noqa: DTZ001
        "a": (pa.list_(pa.int32()), [[1, None, 3], None, []]),
        "m": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], None, []]),
        "st": (pa.struct([("x", pa.int32()), ("z", pa.string())]), [{"x": 7, "z": "z"}, None, {"x": None, "z": None}]),
    }
    rows = pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})
    table = made(tmp_path / "t", rows)
    frame = IndexTable.forPath(spark, tmp_path / "t").toDF()
    assert is_native(frame, capfd)
    assert frame.schema == IndexTable.forPath(spark, tmp_path / "t").schema()
    assert same(frame, table)
    assert frame.where("day < date'1500-01-01'").select("id").collect()[0].id == 1


def test_columns_and_predicates_go_down_to_the_files(spark, tmp_path, capfd):
    table = made(tmp_path / "t", numbers(30), 3, partition_by=["part"])
    frame = IndexTable.forPath(spark, tmp_path / "t").toDF(where="part = 1 AND ID >= 10", columns=["S", "id"])
    assert frame.columns == ["s", "id"]
    assert same(frame, table, where="part = 1 AND id >= 10", columns=["s", "id"])
    assert len(frame.inputFiles()) == 2
    capfd.readouterr()
    frame.where("id < 20").select("s").explain()
    plan = capfd.readouterr().out
    assert "PushedFilters: [IsNotNull(part)" in plan
    assert "ReadSchema: struct<id:bigint,s:string,part:bigint>" in plan


def test_columns_that_came_later_and_types_that_grew(spark, tmp_path, capfd):
    kinds = {"a": pa.int8(), "b": pa.int16(), "c": pa.int32(), "f": pa.float32()}
    old = pa.table({"id": [1, 2, None], **{name: pa.array([1, None, 3], kind) for name, kind in kinds.items()}})
    grown = {"a": pa.int64(), "b": pa.int32(), "c": pa.int64(), "f": pa.float64()}
    big = {"a": 2**40, "b": 2**30, "c": 2**50, "f": 1e300}
    new = pa.table(
        {"id": [7], **{name: pa.array([big[name]], kind) for name, kind in grown.items()}, "s": ["x"], "l": [[1.5]]}
    )
    table = made(tmp_path / "t", old)
    table.append(new, merge_schema=True)
    handle = IndexTable.forPath(spark, tmp_path / "t")
    frame = handle.toDF()
    assert is_native(frame, capfd)
    assert frame.columns == ["id", "a", "b", "c", "f", "s", "l"]
    assert same(frame, table)
    assert same(handle.toDF("a >= 3 and f < 1e299"), table, where="a >= 3 and f < 1e299")
    assert same(handle.toDF("s is null", ["s", "c"]), table, where="s is null", columns=["s", "c"])
    delete_rows(tmp_path / "t", lambda *_: [0])
    table.refresh()
    assert same(handle.toDF(), table)
    assert handle.toDF(versionAsOf=1).columns == ["id", "a", "b", "c", "f"]


def test_filters_of_spark_find_nan_and_minus_zero(spark, tmp_path, capfd):
    values = [1.0, math.nan, -0.0]
    kinds = {"d": pa.float64(), "f": pa.float32()}
    rows = pa.table({"id": [1, 2, 3], **{name: pa.array(values, kind) for name, kind in kinds.items()}})
    rows = rows.append_column("s", pa.array([{"d": value} for value in values]))
    # Values that stand alone in a file are in a dictionary, which Parquet compares in its own way.
    made(tmp_path / "t", rows).append(rows.slice(2, 1))
    handle = IndexTable.forPath(spark, tmp_path / "t")
    frame = handle.toDF()
    assert is_native(frame, capfd)
    for column in ("d", "f", "s.d"):
        for text, ids in ((">= 2", [2]), ("= double('nan')", [2]), ("= 0", [3, 3]), ("in (0, 5)", [3, 3])):
            assert sorted(row.id for row in frame.where(f"{column} {text}").collect()) == ids, (column, text)
    assert sorted(row.id for row in handle.toDF("d > 1 or f = 0").collect()) == [2, 3, 3]


def test_a_damaged_split_ends_the_query_with_its_name_and_nothing_else(spark, tmp_path):
    table = made(tmp_path / "t", numbers(20), 2)
    name = table.files()["path"][1].as_py()
    file = tmp_path / "t" / name
    data = bytearray(file.read_bytes())
    data[: len(data) // 2] = bytes(len(data) // 2)
    file.write_bytes(data)
    handle = IndexTable.forPath(spark, tmp_path / "t")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(Exception, match=name.rpartition("/")[2]):
            handle.toDF().collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    assert handle.toDF("id < 10").count() == 10


def test_two_uses_of_one_dataframe_give_their_own_rows(spark, tmp_path):
    made(tmp_path / "t", numbers(20), 2)
    frame = IndexTable.forPath(spark, tmp_path / "t").toDF()
    one, high = frame.where("id = 1"), frame.where("id > 17")
    assert [row.id for row in one.collect()] == [1]
    assert frame.count() == 20
    assert sorted(row.id for row in one.union(high).collect()) == [1, 18, 19]
    assert frame.alias("a").join(frame.alias("b"), "id").count() == 20


def test_a_table_without_rows_and_one_whose_files_are_all_pruned(spark, tmp_path):
    table = indextables.create(tmp_path / "t", numbers(1).schema)
    frame = IndexTable.forPath(spark, tmp_path / "t").toDF()
    assert (frame.count(), frame.columns) == (0, ["id", "s", "part"])
    table.append(numbers(5))
    handle = IndexTable.forPath(spark, tmp_path / "t")
    assert handle.toDF("id > 100").collect() == []
    assert handle.toDF("id > 100", ["s"]).columns == ["s"]


def test_folders_with_letters_that_mean_something_elsewhere(spark, tmp_path):
    values = ["a b", "p[1]{x}*?", "50%20", "c:d", "x/y", "", None, "é", "q'#&+,;=", "_hidden", ".dot", "back\\slash"]
    rows = pa.table({"id": list(range(len(values))), "part": values})
    table = made(tmp_path / "odd [1] {a,b} *? %41", rows, partition_by=["part"])
    handle = IndexTable.forPath(spark, tmp_path / "odd [1] {a,b} *? %41")
    assert same(handle.toDF(), table)
    for value in ("a b", "p[1]{x}*?", "50%20", "c:d", "x/y", "", "_hidden"):
        found = handle.toDF(f"part = '{value}'").collect()
        assert [row.id for row in found] == [values.index(value)]
    assert [row.id for row in handle.toDF("part IS NULL").collect()] == [values.index(None)]


def test_deleted_rows_are_gone_and_the_rest_is_whole(spark, tmp_path, capfd):
    table = made(tmp_path / "t", numbers(400), 4)
    gone = delete_rows(
        tmp_path / "t", lambda number, rows: {0: (), 1: (0, 63, 64, 99), 2: range(rows)}.get(number, [5])
    )
    table.refresh()
    handle = IndexTable.forPath(spark, tmp_path / "t")
    frame = handle.toDF()
    assert is_native(frame, capfd)
    assert frame.columns == ["id", "s", "part"]
    assert same(frame, table)
    assert frame.count() == 400 - gone == handle.count()
    assert same(handle.toDF("part = 0", ["id"]), table, where="part = 0", columns=["id"])
    assert frame.where("id between 60 and 70").count() == table.count(where="id between 60 and 70")


@pytest.mark.parametrize("lengths", [(10, 200, 3_000), (50, 50, 50)], ids=["of different sizes", "of one size"])
def test_files_with_vectors_are_told_apart_by_size_where_sizes_differ(spark, tmp_path, capfd, lengths):
    table = indextables.create(tmp_path, pa.schema([("id", pa.int64())]))
    for length in lengths:
        table.append(pa.table({"id": list(range(length))}))
    delete_rows(tmp_path, lambda number, _: [number, 7 + number] if number != 1 else ())
    sizes = table.refresh().files()["size"].to_pylist()
    frame = IndexTable.forPath(spark, tmp_path).toDF()
    capfd.readouterr()
    frame.explain()
    assert ("file_size" in capfd.readouterr().out) is (len(set(sizes)) == len(sizes))
    assert same(frame, table)


def test_a_file_that_has_another_size_than_the_log_says_brings_no_deleted_row_back(spark, tmp_path, monkeypatch):
    table = made(tmp_path, numbers(60), batches=3)
    delete_rows(tmp_path, lambda number, _: [0] if number == 0 else ())
    refs = scan_native.refs_of

    def otherwise(*given):
        return [msgspec.structs.replace(ref, size=ref.size + 1 if ref.vector else ref.size) for ref in refs(*given)]

    monkeypatch.setattr(scan_native, "refs_of", otherwise)
    monkeypatch.setattr(scan_native, "check_identity", lambda *_: None)
    frame = IndexTable.forPath(spark, tmp_path).toDF()
    with pytest.raises(Exception, match="no deletion vector was planned for a file of"):
        frame.collect()
    assert table.refresh().count() == 59


def test_more_vectors_than_fit_into_a_predicate(spark, tmp_path, capfd):
    table = made(tmp_path / "t", numbers(240), 24)
    gone = delete_rows(tmp_path / "t", lambda number, rows: [number % rows] if number < 20 else [])
    table.refresh()
    frame = IndexTable.forPath(spark, tmp_path / "t").toDF()
    assert is_native(frame, capfd)
    assert frame.columns == ["id", "s", "part"]
    assert same(frame, table)
    assert frame.count() == 240 - gone == 220


@pytest.mark.parametrize("most", [16, 0])
def test_a_file_with_more_rows_than_the_log_knows_is_not_judged_by_other_vectors(spark, tmp_path, monkeypatch, most):
    made(tmp_path, numbers(900), batches=3)
    delete_rows(tmp_path, lambda number, count: [] if number == 1 else [0], told_rows=100)
    monkeypatch.setattr(scan_native, "_MOST_CONSTANTS", most)
    with pytest.raises(Exception, match=r"no deletion vector was planned for (split-|a file of)|INVALID_ARRAY_INDEX"):
        IndexTable.forPath(spark, tmp_path).toDF().collect()


def test_vectors_hold_when_a_file_is_read_by_several_tasks(spark, tmp_path):
    table = made(tmp_path / "t", numbers(200_000))
    gone = delete_rows(tmp_path / "t", lambda _, rows: range(0, rows, 7))
    table.refresh()
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "65536")
    try:
        frame = IndexTable.forPath(spark, tmp_path / "t").toDF()
        assert frame.selectExpr("sum(id)").first()[0] == sum(i for i in range(200_000) if i % 7)
        assert frame.count() == 200_000 - gone
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)


def test_files_of_one_name_in_two_folders_keep_their_own_vectors(spark, tmp_path):
    from tests.spark.vectors import copy_split

    rows = pa.table({"id": list(range(20)), "part": [0] * 20})
    table = made(tmp_path / "t", rows, partition_by=["part"])
    copy_split(tmp_path / "t", "elsewhere")
    delete_rows(tmp_path / "t", lambda number, _: [number, 10 + number])
    table.refresh()
    assert same(IndexTable.forPath(spark, tmp_path / "t").toDF(), table)


def test_a_column_named_like_ours_sends_the_scan_to_the_python_reader(spark, tmp_path):
    table = made(tmp_path / "t", pa.table({"id": [1, 2, 3], "_metadata": ["a", "b", "c"]}))
    handle = IndexTable.forPath(spark, tmp_path / "t")
    assert same(handle.toDF(), table)
    delete_rows(tmp_path / "t", lambda *_: [1])
    table.refresh()
    assert same(handle.toDF("id > 1"), table, where="id > 1")


def test_versions_and_times_of_the_past(spark, tmp_path):
    made(tmp_path / "t", numbers(30), 3)
    handle = IndexTable.forPath(spark, tmp_path / "t")
    assert [handle.toDF(versionAsOf=version).count() for version in (0, 1, 2, 3)] == [0, 10, 20, 30]
    second = handle.history().where("version = 2").first()["timestamp"]
    assert handle.toDF(timestampAsOf=second).count() == 20
    with pytest.raises(InvalidArgument, match="not both"):
        handle.toDF(versionAsOf=1, timestampAsOf=second)


def test_a_dataframe_stays_at_its_version(spark, tmp_path):
    table = made(tmp_path / "t", numbers(10))
    handle = IndexTable.forPath(spark, tmp_path / "t")
    frame = handle.toDF()
    table.append(numbers(5))
    assert (frame.count(), handle.toDF().count(), handle.count()) == (10, 15, 15)


def test_times_without_a_zone_are_those_of_the_session(spark, tmp_path):
    at = [dt.datetime(2024, 1, 1, hour, tzinfo=dt.UTC) for hour in range(12)]
    made(tmp_path / "t", pa.table({"id": list(range(12)), "ts": pa.array(at, pa.timestamp("us", "UTC"))}))
    where = "ts >= '2024-01-01 12:00:00'"
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        handle = IndexTable.forPath(spark, tmp_path / "t")
        assert sorted(row.id for row in handle.toDF(where).collect()) == list(range(3, 12))
        utc = IndexTable.forPath(spark, tmp_path / "t", {"timeZone": "UTC"})
        assert utc.toDF(where).collect() == []
        assert sorted(row.id for row in utc.toDF("ts >= '2024-01-01 10:00:00'").collect()) == [10, 11]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_the_listing_threshold_is_raised_for_planning_only(spark, tmp_path):
    table = made(tmp_path / "t", numbers(80), 40)
    before = spark.conf.get(LISTING)
    frame = IndexTable.forPath(spark, tmp_path / "t").toDF()
    assert spark.conf.get(LISTING) == before
    assert same(frame, table)
    assert len(frame.inputFiles()) == 40


def test_a_session_that_ignores_missing_files_still_hears_of_them(spark, tmp_path):
    table = made(tmp_path / "t", numbers(20), 2)
    frame = IndexTable.forPath(spark, tmp_path / "t").toDF()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        (tmp_path / "t" / table.files()["path"][0].as_py()).unlink()
        with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
            frame.collect()
        with pytest.raises(VersionExpired, match="purge was faster"):
            IndexTable.forPath(spark, tmp_path / "t").toDF()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_a_table_in_memory_is_read_too(spark):
    table = made("memory://native/t", numbers(10))
    handle = IndexTable.forPath(spark, "memory://native/t")
    assert same(handle.toDF("id > 3", ["s"]), table, where="id > 3", columns=["s"])


def test_what_is_asked_for_wrongly_is_told(spark, tmp_path):
    made(tmp_path / "t", numbers(3))
    handle = IndexTable.forPath(spark, tmp_path / "t")
    with pytest.raises(QueryInvalid, match="nope"):
        handle.toDF("nope = 1")
    with pytest.raises(InvalidArgument, match="nope"):
        handle.toDF(columns=["nope"])
    with pytest.raises(InvalidArgument, match="at least one"):
        handle.toDF(columns=[])
    from pyspark.sql.functions import lit

    with pytest.raises(InvalidArgument, match=r"\.where\(\)"):
        handle.toDF(lit(1) == lit(1))


def test_a_local_split_with_the_bytes_of_another_is_refused_before_spark_reads_it(spark, tmp_path):
    table = made(tmp_path / "t", numbers(40), batches=2)
    first, second = (tmp_path / "t" / path for path in table.files()["path"].to_pylist())
    shutil.copyfile(first, second)
    with pytest.raises(SplitCorrupt):
        IndexTable.forPath(spark, str(tmp_path / "t")).toDF()
    first.unlink()
    with pytest.raises(VersionExpired):
        IndexTable.forPath(spark, str(tmp_path / "t")).toDF()
