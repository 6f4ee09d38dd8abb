"""The feed of changes in Spark: batches and streams tell the same as `Table.changes`."""

from __future__ import annotations

import functools

import pyarrow as pa
import pytest
from tests.spark.streams import run_to_the_end

import indextables
from indextables.errors import NotSupported, QueryInvalid, VersionNotFound
from indextables.spark.session import registry
from indextables.spark.table.indextable import IndexTable

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

SCHEMA = pa.schema([("k", pa.int64()), ("m", pa.string())])
META = ["_change_type", "_commit_version", "_commit_timestamp"]


def rows(first: int, last: int) -> list[dict[str, object]]:
    return [{"k": n, "m": f"word {n}"} for n in range(first, last)]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = indextables.create(tmp_path_factory.mktemp("feed") / "t", SCHEMA, indexing={"m": "text"})
    made.append(rows(0, 4))  # 1
    made.append(rows(4, 8))  # 2
    made.update({"m": "'new'"}, "k % 3 = 0")  # 3
    made.merge_splits()  # 4
    made.upsert([*rows(2, 4), *rows(10, 12)], on="k")  # 5
    made.delete("k < 3")  # 6
    return made


IN_SPARK = {"skip_unchanged": "skipUnchanged"}


def plain(frame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.select("k", "m", *META[:2]).collect())


def told(table, *args, **asked) -> list[tuple[object, ...]]:
    feed = table.changes(*args, **asked).read_all().select(["k", "m", *META[:2]])
    return sorted(zip(*feed.to_pydict().values(), strict=True))


def load(spark, table, **options):
    reader = spark.read.format("indextables").option("readChangeFeed", "true").options(**options)
    return reader.load(table.url)


def test_a_batch_tells_the_changes_of_a_range(spark, table):
    frame = load(spark, table, startingVersion=0)
    assert frame.columns == ["k", "m", *META]
    assert plain(frame) == told(table)
    times = dict(zip(*(table.history()[name].to_pylist() for name in ("version", "timestamp")), strict=True))
    assert {(row[META[1]], row[META[2]].timestamp()) for row in frame.select(*META).collect()} == {
        (version, times[version].timestamp()) for version in (1, 2, 3, 5, 6)
    }
    assert plain(load(spark, table, startingVersion=3, endingVersion=5, where="_change_type <> 'insert'")) == told(
        table, 3, 5, where="_change_type <> 'insert'"
    )
    assert load(spark, table, startingVersion=4, endingVersion=4).count() == 0


def test_a_table_gives_its_changes_as_a_dataframe(spark, table):
    ours = IndexTable.forPath(spark, table.url)
    assert plain(ours.changes()) == told(table)
    times = dict(zip(*(table.history()[name].to_pylist() for name in ("version", "timestamp")), strict=True))
    assert plain(ours.changes(fromTimestamp=times[3], toTimestamp=times[5])) == told(table, 3, 5)
    some = ours.changes(5, 6, columns=["k"], where="m = 'word 10' OR _change_type = 'delete'")
    assert some.columns == ["k", *META]
    assert sorted(row.k for row in some.collect()) == [0, 1, 2, 10]
    for asked in ({"net": True}, {"skip_unchanged": True}, {"net": True, "skip_unchanged": True}):
        given = {IN_SPARK.get(name, name): flag for name, flag in asked.items()}
        assert plain(ours.changes(2, 6, **given)) == told(table, 2, 6, **asked) != told(table, 2, 6)


@pytest.fixture
def named(spark, table):
    registry.register(spark, "fed", table.url)
    return functools.partial(indextables.sql, spark)


def test_a_statement_takes_the_changes_of_a_table_as_rows(spark, table, named):
    columns = "k, m, _change_type, _commit_version"
    assert plain(named("SELECT * FROM table_changes('fed', 0)")) == told(table)
    assert plain(named("SELECT * FROM Table_Changes(fed, 3, 5) WHERE k > 1")) == told(table, 3, 5, where="k > 1")
    assert plain(named(f"SELECT {columns} FROM table_changes('{table.url}', 5)")) == told(table, 5)
    times = dict(zip(*(table.history()[name].to_pylist() for name in ("version", "timestamp")), strict=True))
    text = f"SELECT * FROM table_changes('fed', '{times[3].isoformat()}', '{times[5].isoformat()}')"
    assert plain(named(text)) == told(table, 3, 5)
    # Beside the table itself, in a WITH query, twice, with braces and with values.
    both = named(
        "WITH f AS (SELECT * FROM table_changes('fed', :from, :to) WHERE m <> '{}') "
        "SELECT count(*) AS n FROM f JOIN fed ON f.k = fed.k WHERE TEXTSEARCH(fed.m, 'word') AND "
        "f.k NOT IN (SELECT k FROM table_changes('fed', 6))",
        {"from": 1, "to": 2},
    )
    kept, gone = table.scan().read_all(), {row[0] for row in told(table, 6)}
    words = [k for k, m in zip(*(kept[name].to_pylist() for name in "km"), strict=True) if m.startswith("word")]
    assert both.collect()[0].n == sum(words.count(k) for k, *_ in told(table, 1, 2) if k not in gone)
    assert named(
        "SELECT ? AS a, count(*) AS n FROM table_changes('fed', ?, ?) WHERE k < ?", [7, 1, 1, 2]
    ).collect() == [(7, 2)]
    named("CREATE TEMPORARY VIEW kept_feed AS SELECT * FROM table_changes('fed', 6)")
    assert plain(spark.table("kept_feed")) == told(table, 6)
    spark.sql("DROP VIEW kept_feed")


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("SELECT * FROM table_changes('fed')", QueryInvalid, "from"),
        ("SELECT * FROM table_changes('fed', 1 + 1)", QueryInvalid, "from"),
        ("SELECT * FROM table_changes('fed', 99)", VersionNotFound, "99"),
        ("CREATE VIEW lasting AS SELECT * FROM table_changes('fed', 1)", NotSupported, "TEMPORARY"),
        ("SELECT * FROM table_changes('fed', 1) WHERE TEXTSEARCH(m, 'word')", NotSupported, "a search is answered"),
    ],
)
def test_what_a_statement_cannot_ask_of_changes_is_refused(named, text, error, reason):
    with pytest.raises(error, match=reason):
        named(text).collect()


def test_changes_of_other_tables_are_left_to_spark(spark, named):
    with pytest.raises(Exception, match="table_changes") as caught:
        named("SELECT * FROM table_changes('somebody', 1 + 1)").collect()
    assert not isinstance(caught.value, QueryInvalid)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "startingVersion"),
        ({"startingVersion": 99}, "99"),
        ({"startingVersion": 0, "search": "word"}, "search"),
        ({"readChangeFeed": "false", "netChanges": "true"}, "netChanges goes with readChangeFeed"),
        ({"startingVersion": 0, "endingVersion": 3, "endingTimestamp": "2026-01-01T00:00:00Z"}, "endingVersion"),
    ],
)
def test_what_a_feed_cannot_be_asked_is_refused(spark, table, options, reason):
    with pytest.raises(Exception, match=reason):
        load(spark, table, **options).collect()


def test_a_stream_tells_each_change_once_whatever_is_repeated(spark, table, tmp_path):
    copied = indextables.open(table.url)
    places = {"sink": tmp_path / "sink", "marks": tmp_path / "marks"}

    def run() -> None:
        frame = spark.readStream.format("indextables").options(
            readChangeFeed="true", startingVersion="1", maxFilesPerTrigger="1"
        )
        writing = frame.load(table.url).writeStream.format("indextables").trigger(availableNow=True)
        run_to_the_end(writing.option("checkpointLocation", str(places["marks"])), places["sink"])

    run()
    # A driver that dies between the commit of the table and the mark of Spark does the batch again.
    newest = max((places["marks"] / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    for leftover in (places["marks"] / "commits").glob(f".{newest.name}.crc"):
        leftover.unlink()
    copied.update({"m": "'again'"}, "k = 10")
    run()
    found = indextables.open(places["sink"]).to_arrow().select(["k", "m", *META[:2]])
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == told(copied)
