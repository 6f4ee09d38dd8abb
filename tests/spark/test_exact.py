"""Exact where others are not: answers that IndexTables4Spark gets wrong without a word, embedded and in Spark."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from tests.spark.frames import read, write

import indextables
from indextables.errors import SplitCorrupt

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

COUNT = 1000
PARTS = ["plain", "with space", "a/b", "c:d", "100%", "%2F", None, ""]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("message", pa.string()),
        ("word", pa.string()),
        ("raw", pa.binary()),
        ("part", pa.string()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)


def rows():
    return pa.table(
        {
            "id": list(range(COUNT)),
            "message": [f"Line {n} of the log" for n in range(COUNT)],
            "word": [f"w{n:04}" for n in range(COUNT)],
            "raw": [n.to_bytes(4, "big") for n in range(COUNT)],
            "part": [PARTS[n % len(PARTS)] for n in range(COUNT)],
            "day": [dt.date(2024, 1, 1) + dt.timedelta(days=n % 300) for n in range(COUNT)],
            "ts": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=n) for n in range(COUNT)],
        },
        schema=SCHEMA,
    )


def make(path):
    table = indextables.create(path, SCHEMA, partition_by=["part"], indexing={"message": "text"})
    everything = rows()
    for start in range(0, COUNT, 250):
        table.append(everything.slice(start, 250))
    return path


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    return make(tmp_path_factory.mktemp("exact") / "t")


def doors(spark, path):
    """Every way in which a session reads a table."""
    return [read(spark, path), indextables.IndexTable.forPath(spark, str(path)).toDF()]


def number(frame):
    return frame.collect()[0][0]


def test_a_plain_read_of_a_thousand_rows_returns_all_of_them(spark, thousand):
    assert sorted(indextables.open(thousand).to_arrow()["id"].to_pylist()) == list(range(COUNT))
    for frame in doors(spark, thousand):
        assert sorted(row.id for row in frame.select("id").collect()) == list(range(COUNT))


def test_a_copy_holds_all_of_them(spark, thousand, tmp_path):
    write(read(spark, thousand), tmp_path / "copy", partitionBy="part")
    assert indextables.open(tmp_path / "copy").to_arrow().sort_by("id").equals(rows())
    embedded = indextables.create(tmp_path / "own", SCHEMA)
    embedded.append(indextables.open(thousand).scan())
    assert embedded.to_arrow().sort_by("id").equals(rows())


def test_a_join_a_distinct_count_and_a_count_of_even_numbers(spark, thousand):
    for frame in doors(spark, thousand):
        assert frame.alias("a").join(frame.alias("b"), "id").count() == COUNT
        assert number(frame.selectExpr("count(distinct word)")) == COUNT
        assert number(frame.where("id % 2 = 0").selectExpr("count(*)")) == COUNT // 2
    table = indextables.open(thousand)
    assert table.sql(
        "select (select count(*) from t a join t b on a.id = b.id) as joined, (select count(distinct word) from t) as "
        "words, (select count(*) from t where id % 2 = 0) as even"
    ).to_pylist() == [{"joined": COUNT, "words": COUNT, "even": COUNT // 2}]
    assert table.count(where="id % 2 = 0") == COUNT // 2


def test_a_count_without_a_hit_is_zero(spark, thousand):
    table = indextables.open(thousand)
    assert (table.count(where="id < 0"), table.count("message:nowhere")) == (0, 0)
    assert table.sql("select count(*) as n from t where word = 'nowhere'").to_pylist() == [{"n": 0}]
    for frame in doors(spark, thousand):
        assert number(frame.where("id < 0").selectExpr("count(*)")) == 0
    assert number(read(spark, thousand, where="word = 'nowhere'").selectExpr("count(id)")) == 0
    assert read(spark, thousand, search="message:nowhere").count() == 0


@pytest.mark.parametrize(
    "predicate",
    ["message = 'Line 7 of the log'", "raw = X'00000007'", "word = 'w0007'", "ts = timestamp '2024-01-01 00:00:07Z'"],
)
def test_equality_finds_its_row_whatever_the_column_is(spark, thousand, predicate):
    assert indextables.open(thousand).to_arrow(columns=["id"], where=predicate)["id"].to_pylist() == [7]
    assert [row.id for row in read(spark, thousand, where=predicate).collect()] == [7]
    for frame in doors(spark, thousand):
        assert [row.id for row in frame.where(predicate).select("id").collect()] == [7]


def test_equality_on_every_kind_of_partition_value_finds_its_rows(spark, thousand):
    table = indextables.open(thousand)
    expected = COUNT // len(PARTS)
    for value in PARTS:
        predicate = "part is null" if value is None else f"part = '{value}'"
        assert table.count(where=predicate) == expected
        assert set(table.to_arrow(columns=["part"], where=predicate)["part"].to_pylist()) == {value}
        assert read(spark, thousand, where=predicate, columns="id").count() == expected
    for frame in doors(spark, thousand):
        assert {
            row.part: row["n"] for row in frame.groupBy("part").count().toDF("part", "n").collect()
        } == dict.fromkeys(PARTS, expected)


def test_a_version_that_is_asked_for_is_the_one_that_is_read(spark, thousand):
    for version in (0, 1, 2, 4):
        expected = list(range(250 * version))
        assert sorted(indextables.open(thousand).at(version=version).to_arrow()["id"].to_pylist()) == expected
        assert sorted(r.id for r in read(spark, thousand, versionAsOf=str(version)).collect()) == expected


def test_the_least_and_greatest_of_text_date_and_time(spark, thousand):
    last = dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=COUNT - 1)
    expected = (
        "Line 0 of the log",
        "Line 999 of the log",
        dt.date(2024, 1, 1),
        dt.date(2024, 10, 26),
        "w0000",
        "w0999",
    )
    ask = "min(message), max(message), min(day), max(day), min(word), max(word)"
    for frame in doors(spark, thousand):
        assert tuple(frame.selectExpr(*ask.split(", ")).collect()[0]) == expected
        assert number(frame.selectExpr("max(ts)")).timestamp() == last.timestamp()
    answer = indextables.open(thousand).sql(f"select {ask}, max(ts) as latest from t").to_pylist()[0]
    assert tuple(answer.values())[:6] == expected
    assert answer["latest"] == last


def test_a_missing_or_stale_pointer_changes_nothing(spark, tmp_path):
    path = make(tmp_path / "t")
    pointer = path / "_transaction_log" / "_last_checkpoint"
    indextables.open(path).checkpoint()
    stale = pointer.read_bytes()
    indextables.open(path).append(rows().slice(0, 5))
    indextables.open(path).checkpoint()
    for change in (lambda: pointer.write_bytes(stale), pointer.unlink, lambda: pointer.write_bytes(b"{nonsense")):
        change()
        assert indextables.open(path).count() == COUNT + 5
        assert read(spark, path).count() == COUNT + 5


def test_a_corrupt_split_is_an_error_that_names_it_and_the_process_lives(spark, tmp_path):
    path = tmp_path / "t"
    table = indextables.create(path, SCHEMA)
    table.append(rows())
    name = table.files()["path"][0].as_py()
    whole = (path / name).read_bytes()
    (path / name).write_bytes(whole[:100] + bytes(byte ^ 0xFF for byte in whole[100:20_000]) + whole[20_000:])
    with pytest.raises(SplitCorrupt, match=name):
        indextables.open(path).to_arrow()
    with pytest.raises(Exception, match=name):
        read(spark, path).collect()
    (path / name).write_bytes(whole)
    assert indextables.open(path).count(where="id >= 0") == COUNT
    assert read(spark, path).count() == COUNT
