"""The table as its users see it, through the public names only."""

from __future__ import annotations

import datetime as dt
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import indextables
from indextables.errors import (
    CommitConflict,
    InvalidArgument,
    NotSupported,
    QueryInvalid,
    SchemaInvalid,
    SchemaMismatch,
    SplitCorrupt,
    TableNotFound,
    VersionExpired,
    VersionNotFound,
)

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.date32()), ("v", pa.float64())])
DAY = dt.date(2024, 1, 1)


def row(number: int, message: str = "hello", days: int | None = 0, v: float | None = 1.0) -> dict:
    day = None if days is None else DAY + dt.timedelta(days=days)
    return {"id": number, "message": message, "day": day, "v": v}


@pytest.fixture
def table(tmp_path):
    """Partitioned by day, `message` searched as text; versions 1 and 2 hold two and one rows."""
    made = indextables.create(tmp_path / "t", SCHEMA, partition_by=["day"], indexing={"message": "text"})
    made.append([row(1, "the quick brown fox"), row(2, "a lazy dog", 1)])
    made.append([row(3, "quick dogs", None, None)])
    return made


def ids(data: pa.Table) -> list[int]:
    return data["id"].to_pylist()


# Create and open


def test_a_new_table_is_empty_and_says_what_it_is(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA, partition_by=["DAY"], name="events", properties={"owner": "me"})
    assert (table.version, table.schema, table.partition_columns) == (0, SCHEMA, ["day"])
    assert table.metadata.name == "events"
    assert table.metadata.configuration["owner"] == "me"
    assert table.protocol.minReaderVersion == 4
    assert table.to_arrow().schema == SCHEMA
    assert (table.count(), table.files().num_rows, table.search("message:hello").num_rows) == (0, 0, 0)


def test_creating_again_opens_what_is_there(table, tmp_path):
    again = indextables.create(tmp_path / "t", SCHEMA, partition_by=["day"])
    assert (again.version, again.metadata.id) == (2, table.metadata.id)


def test_creating_with_another_schema_is_refused(table, tmp_path):
    with pytest.raises(SchemaMismatch, match="another schema"):
        indextables.create(tmp_path / "t", pa.schema([("x", pa.int64())]))


def test_a_table_can_be_made_for_data(tmp_path):
    data = pa.table({"a": [1, 2], "b": ["x", "y"]})
    table = indextables.create(tmp_path / "t", data)
    table.append(data)
    assert table.to_arrow() == data


@pytest.mark.parametrize(
    ("schema", "more", "error"),
    [
        (pa.schema([]), {}, SchemaInvalid),
        (pa.schema([("a", pa.int64()), ("A", pa.int64())]), {}, SchemaInvalid),
        (SCHEMA, {"partition_by": ["nope"]}, InvalidArgument),
        (SCHEMA, {"indexing": {"nope": "text"}}, InvalidArgument),
        (SCHEMA, {"indexing": {"id": "text"}}, InvalidArgument),
        (SCHEMA, {"indexing": {"message": {"colour": "red"}}}, InvalidArgument),
        (SCHEMA, {"options": {"checkpoint.interval": "0"}}, InvalidArgument),
        (5, {}, InvalidArgument),
    ],
)
def test_a_table_that_cannot_be_is_refused_and_nothing_is_written(tmp_path, schema, more, error):
    with pytest.raises(error):
        indextables.create(tmp_path / "t", schema, **more)
    assert not (tmp_path / "t").exists()


def test_a_place_without_a_table_is_named(tmp_path):
    with pytest.raises(TableNotFound, match="nothing"):
        indextables.open(tmp_path / "nothing")


def test_paths_with_spaces_percent_and_unicode_work(tmp_path):
    path = tmp_path / "50% über alles"
    indextables.create(path, SCHEMA, partition_by=["day"]).append([row(1)])
    assert indextables.open(path).count() == 1


def test_a_table_in_memory_works_like_any_other():
    table = indextables.create("memory://test-table/one", SCHEMA, indexing={"message": "text"})
    table.append([row(1, "hello world")])
    assert ids(indextables.open("memory://test-table/one").search("world")) == [1]


# Write and read


def test_what_was_appended_is_read_in_order(table):
    assert ids(table.to_arrow()) == [1, 2, 3]
    assert table.to_arrow().to_pylist()[0] == row(1, "the quick brown fox")
    assert table.version == 2


def test_a_handle_reads_its_own_writes_and_stays_pinned_otherwise(table, tmp_path):
    reader = indextables.open(tmp_path / "t")
    assert table.append([row(4)]) == 3
    assert (table.version, table.count()) == (3, 4)
    assert (reader.version, reader.count(), len(ids(reader.to_arrow()))) == (2, 3, 3)
    assert reader.refresh().version == 3
    assert reader.count() == 4


def test_an_append_without_rows_commits_nothing(table):
    assert table.append(SCHEMA.empty_table()) == 2
    assert table.append([]) == 2
    assert table.history().num_rows == 3


def test_data_that_does_not_fit_writes_nothing(table, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SchemaMismatch, match="extra is not a column of the table"):
        table.append(pa.table({"extra": [1]}))
    with pytest.raises(SchemaMismatch, match="id is string, the table has int64"):
        table.append(pa.table({"id": ["x"]}))
    with pytest.raises(InvalidArgument):
        table.append("rows")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_failure_in_the_middle_of_the_data_leaves_no_file(table, tmp_path):
    def batches():
        yield pa.RecordBatch.from_pylist([row(7), row(8, "x", 5)], SCHEMA)
        raise OSError("the source broke")

    before = sorted(tmp_path.rglob("*.split"))
    with pytest.raises(OSError, match="the source broke"):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert sorted(tmp_path.rglob("*.split")) == before
    assert indextables.open(tmp_path / "t").version == 2


def test_partitions_have_folders_and_a_split_each(table, tmp_path):
    paths = sorted(path.split("/splits/")[0] for path in table.files()["path"].to_pylist())
    assert paths == ["day=2024-01-01", "day=2024-01-02", "day=__HIVE_DEFAULT_PARTITION__"]
    assert all((tmp_path / "t" / path).exists() for path in table.files()["path"].to_pylist())


def test_splits_are_parquet_files_for_everybody(table, tmp_path):
    rows = [pq.read_table(path, partitioning=None) for path in sorted((tmp_path / "t").rglob("*.split"))]
    assert sorted(ids(pa.concat_tables(rows))) == [1, 2, 3]


def test_odd_partition_values_survive(tmp_path):
    schema = pa.schema([("p", pa.string()), ("n", pa.int64())])
    table = indextables.create(tmp_path / "t", schema, partition_by=["p"])
    values = ["a b", "a/b", "..", "50%", "%2F", "ü", "", None, "x" * 500, "a=b", "'", "\\", "\n", "[*]"]
    table.append([{"p": value, "n": number} for number, value in enumerate(values)])
    again = indextables.open(tmp_path / "t")
    assert [item["p"] for item in again.to_arrow().sort_by("n").to_pylist()] == values
    for number, value in enumerate(values):
        quoted = "is null" if value is None else "= '" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        assert again.to_arrow(["n"], where=f"p {quoted}")["n"].to_pylist() == [number]
        assert again.files(f"p {quoted}").num_rows == 1


def test_scan_gives_columns_where_and_limit(table):
    assert table.to_arrow(["ID"]).column_names == ["id"]
    assert table.to_arrow(["v", "id"], where="id >= 2").to_pylist() == [{"v": 1.0, "id": 2}, {"v": None, "id": 3}]
    assert ids(table.to_arrow(limit=2)) == [1, 2]
    assert table.to_arrow(limit=0).num_rows == 0
    assert ids(table.to_arrow(["id"], where="v is null")) == [3]
    assert table.to_arrow(["id"], where="v > 100").num_rows == 0
    reader = table.scan(["id"])
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == pa.schema([("id", pa.int64())])


def test_files_are_pruned_by_partition_and_by_bounds(table):
    assert table.files("day = '2024-01-02'").num_rows == 1
    assert table.files("day is null").num_rows == 1
    assert table.files("id > 2").num_rows == 1
    assert table.files("id > 99").num_rows == 0
    assert {"path", "partitionValues", "size", "numRecords", "minValues", "maxValues"} <= set(
        table.files().column_names
    )


@pytest.mark.parametrize("where", ["nope = 1", "id =", "id = 'x'", "count(*) > 1", "id; drop table t"])
def test_a_predicate_that_is_none_is_refused(table, where):
    with pytest.raises(QueryInvalid):
        table.to_arrow(where=where)


@pytest.mark.parametrize("call", [{"columns": ["nope"]}, {"columns": "id"}, {"limit": -1}, {"limit": True}])
def test_wrong_arguments_are_refused(table, call):
    with pytest.raises(InvalidArgument):
        table.scan(**call)


def test_overwrite_replaces_everything(table):
    assert table.overwrite([row(9)]) == 3
    assert ids(table.to_arrow()) == [9]
    assert ids(table.at(version=2).to_arrow()) == [1, 2, 3]
    table.overwrite([])
    assert table.count() == 0


def test_overwrite_replaces_the_partitions_named(table):
    table.overwrite([row(9)], where="day = '2024-01-01'")
    assert sorted(ids(table.to_arrow())) == [2, 3, 9]
    table.overwrite([row(10, days=None)], where="day is null")
    assert sorted(ids(table.to_arrow())) == [2, 9, 10]


def test_overwrite_refuses_what_it_could_not_do_exactly(table, tmp_path):
    before = sorted(tmp_path.rglob("*.split"))
    with pytest.raises(InvalidArgument, match="do not satisfy"):
        table.overwrite([row(9, days=3)], where="day = '2024-01-01'")
    with pytest.raises(NotSupported, match="id are not partition columns"):
        table.overwrite([row(9)], where="id = 1")
    assert sorted(tmp_path.rglob("*.split")) == before
    assert indextables.open(tmp_path / "t").version == 2


def test_a_batch_of_an_application_is_written_once(table, tmp_path):
    first = table.append([row(4)], txn=("job", 1))
    before = sorted(tmp_path.rglob("*.split"))
    assert table.append([row(4)], txn=("job", 1)) == first
    assert table.count() == 4
    assert table.txn_version("job") == 1
    assert sorted(tmp_path.rglob("*.split")) == before


# Search


def test_search_finds_words_best_first_with_a_score(table):
    found = table.search("quick OR fox")
    assert ids(found) == [1, 3]
    scores = found["_score"].to_pylist()
    assert scores == sorted(scores, reverse=True)
    assert found.schema.names == [*SCHEMA.names, "_score"]


def test_search_takes_columns_where_limit_and_offset(table):
    assert ids(table.search("quick", where="v is null")) == [3]
    assert table.search("quick", columns=["ID"], limit=1).column_names == ["id", "_score"]
    assert sorted(ids(table.search("quick", limit=1)) + ids(table.search("quick", limit=1, offset=1))) == [1, 3]
    assert ids(table.search("message:quick", order_by="id desc")) == [3, 1]
    assert ids(table.search("message:quick", order_by="id DESC NULLS LAST")) == [3, 1]
    with pytest.raises(InvalidArgument, match="nulls first is not offered"):
        table.search("message:quick", order_by="id desc nulls first")
    assert table.search("unicorn").num_rows == 0
    assert table.search("quick", limit=None).num_rows == 2


@pytest.mark.slow
def test_scores_do_not_depend_on_how_rows_are_spread(tmp_path):
    rows = [row(n, f"word{n % 5} common {'rare' if n == 7 else 'plain'}", n % 3) for n in range(40)]
    one = indextables.create(tmp_path / "one", SCHEMA, indexing={"message": "text"})
    one.append(rows)
    many = indextables.create(tmp_path / "many", SCHEMA, partition_by=["day"], indexing={"message": "text"})
    for start in range(0, 40, 10):
        many.append(rows[start : start + 10])
    for query in ("rare", "word1 OR rare", "common AND word2", '"common plain"'):
        expected = {r["id"]: r["_score"] for r in one.search(query, limit=None).to_pylist()}
        found = {r["id"]: r["_score"] for r in many.search(query, limit=None).to_pylist()}
        assert found == pytest.approx(expected, rel=1e-5)


def test_what_matched_can_be_highlighted(table):
    found = table.search("quick", columns=["id"], highlight=["Message"])
    assert found.column_names == ["id", "_score", "_highlight_message"]
    assert found.sort_by("id")["_highlight_message"][0].as_py() == "the <em>quick</em> brown fox"
    with pytest.raises(InvalidArgument, match="nope"):
        table.search("quick", highlight=["nope"])


def test_a_search_explains_what_the_index_answers_and_what_columns_do(table):
    told = table.explain("message:quick AND v:>0.5", where="day = DATE '2024-01-01' OR id % 2 = 1")
    assert [(c["columns"], c["answered_by"]) for c in told["conditions"]] == [
        (["message"], "index"),
        (["v"], "columns"),
        (["day"], "index"),
        (["id"], "columns"),
    ]
    assert (told["splits"], told["fallbacks"]) == (3, [])
    with pytest.raises(QueryInvalid) as caught:
        table.explain("nobody:here")
    assert caught.value.position == 0


def test_rows_add_up(table):
    told = table.aggregate(
        "quick OR dog", {"days": {"terms": {"field": "day"}}, "ids": {"stats": {"field": "id"}}}, where="id < 3"
    )
    assert sorted(bucket["doc_count"] for bucket in told["days"]["buckets"]) == [1, 1]
    assert (told["ids"]["count"], told["ids"]["max"]) == (2, 2)
    assert table.aggregate(None, {"n": {"cardinality": {"field": "id"}}})["n"]["value"] == 3
    with pytest.raises(InvalidArgument):
        table.aggregate("quick", {"x": {"median": {"field": "id"}}})


def test_sql_reads_and_searches_the_pinned_version(table, tmp_path):
    statement = "select count(*) as n, max(id) as top from t where textsearch(message, 'quick')"
    assert table.sql(statement).to_pylist() == [{"n": 2, "top": 3}]
    indextables.open(tmp_path / "t").append([row(50, "quick")])
    assert table.sql(statement).to_pylist() == [{"n": 2, "top": 3}]


@pytest.mark.slow
def test_a_predicate_on_partitions_after_a_checkpoint_gives_the_same_rows(table, tmp_path):
    for number in range(10):
        table.append([row(10 + number, days=number % 4)])
    table.compact()
    table.append([row(99, days=2)])
    for where in (
        "day = '2024-01-03'",
        "day is null",
        "day > '2024-01-02' and id > 11",
        "day = '2024-01-01' or id = 99",
    ):
        whole = indextables.open(tmp_path / "t")
        assert whole.to_arrow().num_rows == 14
        everything = whole.to_arrow(where=where).to_pylist()
        assert everything
        pruned = indextables.open(tmp_path / "t")
        assert pruned.to_arrow(where=where).to_pylist() == everything
        assert pruned.count(where=where) == len(everything)


def test_count_counts_all_matching_and_filtered_rows(table):
    assert (table.count(), table.count("quick"), table.count(where="id > 1"), table.count("quick", "id > 1")) == (
        3,
        2,
        2,
        1,
    )


def test_counting_all_rows_opens_no_data_file(table, tmp_path):
    for path in (tmp_path / "t").rglob("*.split"):
        path.unlink()
    assert indextables.open(tmp_path / "t").count() == 3


@pytest.mark.parametrize("query", ["nope:x", '"open', "(a", "id:x"])
def test_a_query_that_is_none_is_refused_with_its_place(table, query):
    with pytest.raises(QueryInvalid) as caught:
        table.search(query)
    assert isinstance(caught.value.position, int)


def test_a_column_called_score_is_not_shadowed(tmp_path):
    schema = pa.schema([("_score", pa.int64()), ("m", pa.string())])
    table = indextables.create(tmp_path / "t", schema, indexing={"m": "text"})
    table.append([{"_score": 1, "m": "hello"}])
    with pytest.raises(InvalidArgument, match="_score"):
        table.search("hello")
    assert table.search("hello", columns=["m"])["m"].to_pylist() == ["hello"]


def test_tokenizers_and_fast_fields_can_be_asked_for(tmp_path):
    indexing = {"message": {"type": "text", "tokenizer": "en_stem"}, "id": {"fast": True}}
    table = indextables.create(tmp_path / "t", SCHEMA, indexing=indexing)
    table.append([row(1, "running dogs")])
    assert ids(table.search("dog run")) == [1]


# History and time travel


def test_history_is_newest_first_and_limited(table):
    told = table.history()
    assert told["version"].to_pylist() == [2, 1, 0]
    assert told["operation"].to_pylist() == ["WRITE", "WRITE", "CREATE TABLE"]
    assert dict(told["operationMetrics"].to_pylist()[1])["numOutputRows"] == "2"
    assert table.history(limit=1).num_rows == 1


def test_the_table_at_a_version_and_at_a_time(table):
    assert ids(table.at(version=1).to_arrow()) == [1, 2]
    assert table.at(version=0).count() == 0
    times = table.history()["timestamp"].to_pylist()[::-1]
    assert [table.at(timestamp=time).version for time in times] == [0, 1, 2]
    assert table.at(timestamp=times[1].isoformat()).version == 1
    assert table.at(timestamp=int(times[2].timestamp() * 1000) + 10**6).version == 2


def test_versions_and_times_that_never_were_are_refused(table):
    with pytest.raises(VersionNotFound):
        table.at(version=99)
    with pytest.raises(VersionNotFound, match=r"1999-01-01T00:00:00\.000Z is before version 0.* committed at 20..-"):
        table.at(timestamp="1999-01-01")
    for call in ({}, {"version": 1, "timestamp": 5}, {"timestamp": "yesterday"}, {"timestamp": 1.5}):
        with pytest.raises(InvalidArgument):
            table.at(**call)


def test_the_actions_of_a_version_can_be_seen(table):
    actions = table.log(1)
    assert actions["action"].to_pylist() == ["commitInfo", "domainMetadata", "add", "add"]
    assert '"operation":"WRITE"' in actions["value"][0].as_py()
    with pytest.raises(VersionNotFound):
        table.log(99)


def test_details_count_files_bytes_and_rows(table):
    detail = table.detail()
    assert (detail["version"], detail["numFiles"], detail["numRows"]) == (2, 3, 3)
    assert detail["sizeInBytes"] == sum(table.files()["size"].to_pylist())


@pytest.mark.slow
def test_checkpoints_are_written_on_their_own_and_on_demand(table, tmp_path):
    for number in range(12):
        table.append([row(100 + number)])
    assert table.state().version >= 9
    assert table.checkpoint() == 14
    assert table.compact() == 14
    assert table.state().num_files == 15
    assert indextables.open(tmp_path / "t").count() == 15


def test_verify_finds_nothing_in_a_sound_table_and_a_missing_file_in_another(table, tmp_path):
    assert table.verify().ok
    next((tmp_path / "t").rglob("*.split")).unlink()
    report = table.verify()
    assert not report.ok
    assert [finding.kind for finding in report.findings] == ["data-file-missing"]


# Trouble


def test_a_purged_file_is_an_expired_version(table, tmp_path):
    for path in (tmp_path / "t").rglob("*.split"):
        path.unlink()
    reader = indextables.open(tmp_path / "t")
    with pytest.raises(VersionExpired, match="gone"):
        reader.to_arrow()
    with pytest.raises(VersionExpired, match="gone"):
        reader.search("quick")


def test_a_damaged_file_is_named(table, tmp_path):
    path = next((tmp_path / "t").rglob("day=2024-01-01/**/*.split"))
    data = bytearray(path.read_bytes())
    data[-100:-60] = b"\x00" * 40
    path.write_bytes(data)
    with pytest.raises(SplitCorrupt) as caught:
        indextables.open(tmp_path / "t").to_arrow()
    assert "day=2024-01-01" in str(caught.value)


def test_iterating_a_table_points_to_scan(table):
    with pytest.raises(TypeError, match="scan"):
        iter(table)


def test_a_table_shows_itself(table):
    assert repr(table) == f"Table({table.url!r}, version=2)"
    page = table._repr_html_()
    assert "message" in page
    assert "partition" in page


def test_names_in_the_notebook_view_are_escaped(tmp_path):
    table = indextables.create(tmp_path / "t", pa.schema([("<b>", pa.int64())]), name="<script>")
    assert "<script>" not in table._repr_html_()
    assert "<b>" not in table._repr_html_()


# Many at once


@pytest.mark.slow
def test_concurrent_appends_are_all_there_once(tmp_path):
    indextables.create(tmp_path / "t", SCHEMA, indexing={"message": "text"})

    def work(writer: int) -> list[int]:
        table = indextables.open(tmp_path / "t", options={"storage.fsync": "false"})
        return [table.append([row(writer * 100 + n)]) for n in range(5)]

    with ThreadPoolExecutor(4) as pool:
        versions = [version for made in pool.map(work, range(4)) for version in made]
    assert sorted(versions) == list(range(1, 21))
    assert sorted(ids(indextables.open(tmp_path / "t").to_arrow())) == sorted(
        w * 100 + n for w in range(4) for n in range(5)
    )


@pytest.mark.slow
def test_readers_see_whole_versions_while_a_writer_works(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA)
    stop = threading.Event()
    seen: list[tuple[int, int]] = []

    def read() -> None:
        reader = indextables.open(tmp_path / "t")
        last = False
        while not last:
            last = stop.is_set()
            reader.refresh()
            seen.append((reader.version, reader.to_arrow(["id"]).num_rows))

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(read)
        try:
            for _ in range(8):
                table.append([row(1), row(2), row(3)])
        finally:
            stop.set()
        running.result()
    assert seen[-1] == (8, 24)
    assert all(rows == 3 * version for version, rows in seen)
    assert [version for version, _ in seen] == sorted(version for version, _ in seen)


def test_one_handle_serves_many_threads(table):
    def read(_: int) -> tuple[int, int]:
        return table.search("quick").num_rows, table.to_arrow().num_rows

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(read, range(20))) == {(2, 3)}


def test_of_two_overwrites_one_wins_or_they_follow_each_other(table, tmp_path):
    other = indextables.open(tmp_path / "t")
    table.overwrite([row(10)])
    try:
        other.overwrite([row(20)])
    except CommitConflict:
        assert ids(indextables.open(tmp_path / "t").to_arrow()) == [10]
    else:
        assert ids(indextables.open(tmp_path / "t").to_arrow()) == [20]


def test_explain_tells_of_each_file_what_spared_it_who_answered_and_what_it_cost(tmp_path):
    schema = pa.schema([("day", pa.string()), ("n", pa.int64()), ("f", pa.float64()), ("message", pa.string())])
    table = indextables.create(tmp_path / "t", schema, partition_by=["day"], indexing={"message": "text"})
    for n, day in enumerate(["a", "b", "b"]):
        words = "timeout" if n else "fine"
        table.append([{"day": day, "n": n * 10 + i, "f": i / 2, "message": f"{words} {i}"} for i in range(5)])

    def told(query, where=None):
        found = table.explain(query, where)["per_split"]
        assert found.schema.names == ["path", "rows", "skipped_by", "answered_by", "matches", "bytes", "milliseconds"]
        assert all(ms >= 0 for ms in found["milliseconds"].to_pylist())
        return list(zip(*(found[name].to_pylist() for name in ("skipped_by", "answered_by", "matches")), strict=True))

    read = table.explain("timeout")["per_split"]
    assert read["rows"].to_pylist() == [5, 5, 5]
    assert sum(read["bytes"].to_pylist()) > 0
    assert told("timeout") == [("dictionary", None, 0), (None, "index", 5), (None, "index", 5)]
    assert told("timeout", "f >= 1") == [("dictionary", None, 0), *[(None, "index and columns", 3)] * 2]
    assert told(None, "day = 'b' AND n < 15") == [
        ("partition values", None, 0),
        (None, "columns", 5),
        ("statistics", None, 0),
    ]
    assert told(None) == [(None, "columns", 5)] * 3


def test_search_orders_by_several_columns_and_streams_all_matches(tmp_path):
    schema = pa.schema([("a", pa.string()), ("n", pa.int64()), ("f", pa.float64()), ("m", pa.string())])
    table = indextables.create(tmp_path / "t", schema, indexing={"m": "text"})
    rows = [
        {
            "a": "xyz"[n % 3] if n % 10 else None,
            "n": n % 7,
            "f": float("nan") if n % 4 == 0 else n / 2,
            "m": f"word{n} x",
        }
        for n in range(9000)
    ]
    table.append(rows[:20])
    table.append(rows[20:])
    last = chr(0x10FFFF)
    wanted = sorted(range(9000), key=lambda n: (rows[n]["a"] or last, -rows[n]["n"], n))
    for order in ("a, n desc", ["a", ("n", "desc")], ["a asc", "n DESC"]):
        found = table.search("x", columns=["m"], limit=None, order_by=order)
        assert found["m"].to_pylist() == [rows[n]["m"] for n in wanted]
        assert table.search("x", columns=["m"], limit=5, offset=3, order_by=order)["m"].to_pylist() == [
            rows[n]["m"] for n in wanted[3:8]
        ]
        reader = table.search_batches("x", columns=["m"], order_by=order)
        batches = list(reader)
        assert len(batches) > 1
        assert pa.Table.from_batches(batches).equals(found)
    down = table.search("x", columns=["f"], limit=3, order_by="f desc, n")
    assert all(map(math.isnan, down["f"].to_pylist()))
    best = table.search("word5 OR word7", limit=None)
    assert table.search_batches("word5 OR word7").read_all().equals(best)
    assert table.search_batches("nowhere").read_all().num_rows == 0
    for wrong in ("a, nope", ["a", 3], [], ["a", ("n", "up")]):
        with pytest.raises(InvalidArgument):
            table.search("x", order_by=wrong)


def test_integers_with_gaps_of_pandas_are_taken_as_the_integers_that_they_are(tmp_path):
    pd = pytest.importorskip("pandas")
    table = indextables.create(tmp_path / "t", pa.schema([("n", pa.int64()), ("s", pa.string())]))
    table.append(pd.DataFrame({"n": [1, None, 3], "s": ["a", None, "c"]}))
    table.append(pd.DataFrame({"N": pd.array([4, None], dtype="Int64"), "s": ["d", "e"]}))
    assert table.to_arrow()["n"].to_pylist() == [1, None, 3, 4, None]
    for wrong in ([1.5, None], [2.0**53, None], [1.0, 2.0]):
        with pytest.raises(SchemaMismatch):
            table.append(pd.DataFrame({"n": wrong, "s": ["x", "y"]}))
    assert table.count() == 5


def test_errors_name_every_missing_column_and_the_row_of_a_value_and_comments_are_shown(tmp_path):
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"comment": "the key"}), ("b", pa.string())])
    with pytest.raises(InvalidArgument, match="partition columns 'x', 'y' are not in the schema: it has a, b"):
        indextables.create(tmp_path / "no", schema, partition_by=["x", "b", "y"])
    table = indextables.create(tmp_path / "t", schema, partition_by=["b"])
    assert indextables.open(tmp_path / "t").schema.field("a").metadata == {b"comment": b"the key"}
    assert table.schema.field("b").metadata is None
    with pytest.raises(SchemaMismatch, match="'no' is a str, and int64 takes an int in row 2") as caught:
        table.append([{"a": 1, "b": "x"}, {"a": "no", "b": "x"}])
    assert caught.value.row == 2
    table.append([{"a": 1, "b": "x"}])
    table.overwrite([{"a": 2, "b": "x"}])
    for told in table.history(2)["operationParameters"].to_pylist():
        assert dict(told)["partitionBy"] == '["b"]'
