"""Source and sink of a stream as Spark's workers call them, without a session: offsets, messages, repeated batches."""

from __future__ import annotations

import json
import pickle
import shutil

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles
from pyspark.sql.types import LongType, StructField, StructType

import indextables
from indextables.errors import InvariantViolated, NotSupported, TableReplaced
from indextables.spark.session.settings import WriteOptions
from indextables.spark.source.feed_read import FeedStreamReader
from indextables.spark.source.stream_read import TableStreamReader
from indextables.spark.source.stream_write import StreamedFiles, TableStreamWriter
from indextables.spark.source.writer import TableWriter

SCHEMA = StructType([StructField("id", LongType())])
ROWS = pa.schema([("id", pa.int64())])


def batch(*ids):
    return pa.record_batch([pa.array(ids, pa.int64())], schema=ROWS)


def written(path, *ids, query="q"):
    """The message of a task that wrote these rows."""
    writer = TableWriter(str(path), WriteOptions(), SCHEMA, overwrite=False)
    return StreamedFiles(query, writer, writer.write(iter([batch(*ids)] if ids else [])))


def sink(path):
    return TableStreamWriter(str(path), WriteOptions(), SCHEMA, overwrite=False)


def ids(path):
    return sorted(indextables.open(path).to_arrow()["id"].to_pylist())


def files(path):
    return {file.name for file in path.rglob("*.split")}


def test_a_batch_that_comes_again_is_committed_once(tmp_path):
    path = tmp_path / "t"
    sink(path).commit([written(path, 1, 2)], 0)
    sink(path).commit([written(path, 3)], 1)
    before = files(path)
    sink(path).commit([written(path, 3)], 1)
    assert ids(path) == [1, 2, 3]
    assert indextables.open(path).version == 2
    assert files(path) == before
    sink(path).commit([written(path, 3, query="another")], 1)
    assert ids(path) == [1, 2, 3, 3]


def operations(path):
    return indextables.open(path).history()["operation"].to_pylist()


@pytest.mark.slow
@pytest.mark.usefixtures("with_upkeep")
def test_every_so_many_batches_merge_what_they_have_left_before_the_next_one(tmp_path):
    path = tmp_path / "t"
    for number in range(18):
        sink(path).commit([written(path, number)], number)
    assert operations(path)[:2] == ["MERGE SPLITS", "WRITE"]
    assert indextables.open(path).files().num_rows == 1
    assert ids(path) == list(range(18))
    # The batch that was followed by the merge is still known.
    sink(path).commit([written(path, 17)], 17)
    assert ids(path) == list(range(18))


@pytest.mark.slow
@pytest.mark.usefixtures("with_upkeep")
@pytest.mark.parametrize("enabled", [None, "true"])
def test_a_job_that_is_no_stream_merges_only_where_that_is_asked_for(tmp_path, enabled):
    path = tmp_path / "t"
    properties = {"mergeOnWrite.async.enabled": "false", **({"mergeOnWrite.enabled": enabled} if enabled else {})}
    indextables.create(path, ROWS, properties=properties)
    for number in range(18):
        writer = TableWriter(str(path), WriteOptions(), SCHEMA, overwrite=False)
        writer.commit([writer.write(iter([batch(number)]))])
    assert ("MERGE SPLITS" in operations(path)) == bool(enabled)
    assert ids(path) == list(range(18))


def test_a_batch_without_rows_makes_no_version(tmp_path):
    path = tmp_path / "t"
    sink(path).commit([written(path), written(path)], 0)
    sink(path).commit([], 1)
    assert not path.exists()


def test_a_batch_with_a_missing_or_foreign_answer_is_not_committed(tmp_path):
    path = tmp_path / "t"
    one, other = written(path, 1), written(path, 2, query="another")
    for messages in ([one, None], [one, other]):
        with pytest.raises(InvariantViolated):
            sink(path).commit(messages, 0)
    with pytest.raises(InvariantViolated, match="nothing was committed"):
        sink(path).commit([one, one.files], 0)
    assert not (path / "_transaction_log").exists()


def test_an_abort_deletes_files_only_where_no_commit_was_tried(tmp_path):
    path = tmp_path / "t"
    message = written(path, 1)
    sink(path).abort([message], 0)
    assert len(files(path)) == 1
    sink(path).commit([message], 0)
    sink(path).abort([message], 0)
    assert ids(path) == [1]
    orphan = written(path, 2)
    sink(path).abort([None, orphan], 1)
    assert ids(path) == [1]
    assert len(files(path)) == 1
    sink(path).abort([None], 2)


def test_a_task_that_is_told_no_query_writes_nothing(tmp_path):
    with pytest.raises(InvariantViolated, match="query id"):
        sink(tmp_path / "t").write(iter([batch(1)]))
    assert not files(tmp_path)


def test_only_appends_are_offered(tmp_path):
    with pytest.raises(NotSupported, match="foreachBatch"):
        TableStreamWriter(str(tmp_path), WriteOptions(), SCHEMA, overwrite=True)


@pytest.fixture
def table(tmp_path):
    made = indextables.create(tmp_path / "source", ROWS)
    for number in range(4):
        made.append(pa.table({"id": [number]}))
    return made


def source(table, version=None, **options):
    return TableStreamReader(url=str(table.url), options=options, schema=SCHEMA, version=version, where=None)


def read(reader, start, end):
    """What tasks read between two offsets; the reader travels to them."""
    there = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
    return [n for part in reader.partitions(start, end) for rows in there.read(part) for n in rows["id"].to_pylist()]


def test_a_reader_walks_from_offset_to_offset_and_rests_at_the_end(table):
    reader = source(table, maxFilesPerTrigger="3")
    assert reader.getDefaultReadLimit() == ReadMaxFiles(3)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxFiles(3))
    end = reader.latestOffset(middle, ReadMaxFiles(3))
    assert [read(reader, start, middle), read(reader, middle, end)] == [[0, 1, 2], [3]]
    assert reader.latestOffset(end, ReadMaxFiles(3)) == end == reader.reportLatestOffset()
    assert json.dumps(reader.latestOffset(start, ReadAllAvailable())) == json.dumps(end)
    assert read(source(table), start, end) == [0, 1, 2, 3]
    assert reader.partitions(end, end) == []
    reader.commit(end)


def test_small_versions_share_a_task(table):
    reader = source(table, startingVersion="1")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["version"] - start["version"] == 4
    assert len(reader.partitions(start, end)) == 1
    assert read(reader, start, end) == [0, 1, 2, 3]


def test_what_comes_after_the_start_of_an_available_now_query_is_left_for_the_next(table):
    reader = source(table)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    table.append(pa.table({"id": [9]}))
    end = reader.latestOffset(start, ReadMaxFiles(1000))
    assert read(reader, start, end) == [0, 1, 2, 3]
    later = source(table).latestOffset(end, ReadMaxFiles(1000))
    assert read(reader, end, later) == [9]


@pytest.mark.parametrize("limit", ["1000", "2"])
@pytest.mark.parametrize("feed", [False, True], ids=["rows", "changes"])
def test_the_first_batch_is_the_same_however_far_the_table_went_on_meanwhile(table, feed, limit):
    """Spark asks for the beginning again before it plans the first batch, and again where that was not committed."""
    kind = FeedStreamReader if feed else TableStreamReader

    def again():
        reader = kind(
            url=str(table.url), options={"maxFilesPerTrigger": limit}, schema=SCHEMA, version=None, where=None
        )
        return reader, reader.initialOffset()

    reader, start = again()
    table.append(pa.table({"id": [4]}))
    end = reader.latestOffset(start, ReadMaxFiles(int(limit)))
    planned = [read(reader, start, end)]
    for number in range(3):
        table.append(pa.table({"id": [10 + number]}))
        assert reader.initialOffset() == start
        later, begins = again()
        planned.append(read(later, begins, end))
    assert planned == [[0, 1, 2, 3, 4] if limit == "1000" else [0, 1]] * 4
    rest = reader.latestOffset(end, ReadAllAvailable())
    assert planned[0] + read(reader, end, rest) == [0, 1, 2, 3, 4, 10, 11, 12]


def test_a_stream_from_the_latest_version_on_writes_down_where_that_is_and_loses_nothing(table):
    reader = source(table, startingVersion="latest")
    start = reader.initialOffset()
    table.append(pa.table({"id": [4]}))
    end = reader.latestOffset(start, ReadMaxFiles(1000))
    assert end == reader.initialOffset() == start, "the first batch is empty"
    table.append(pa.table({"id": [5]}))
    anew = source(table, startingVersion="latest")
    assert anew.partitions(anew.initialOffset(), end) == []
    for going_on in (reader, anew):
        later = going_on.latestOffset(end, ReadMaxFiles(1000))
        assert read(going_on, end, later) == [4, 5]


def test_a_limit_of_bytes_alone_has_no_limit_of_files(table):
    assert source(table, maxBytesPerTrigger="77").getDefaultReadLimit() == ReadMaxBytes(77)
    both = source(table, maxBytesPerTrigger="77", maxFilesPerTrigger="2")
    assert both.getDefaultReadLimit() == ReadMaxFiles(2)
    start = both.initialOffset()
    assert both.latestOffset(start, ReadMaxFiles(2))["index"] == 1


def test_an_offset_of_another_table_is_refused(table, tmp_path):
    other = indextables.create(tmp_path / "other", ROWS)
    with pytest.raises(TableReplaced):
        source(other).latestOffset(source(table).initialOffset(), ReadAllAvailable())


@pytest.mark.parametrize("appends", [1, 8], ids=["fewer versions than were read", "more of them"])
def test_a_table_that_is_made_anew_under_a_running_stream_is_noticed(table, tmp_path, appends):
    reader = source(table)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    shutil.rmtree(tmp_path / "source")
    anew = indextables.create(tmp_path / "source", ROWS)
    for number in range(appends):
        anew.append(pa.table({"id": [100 + number]}))
    with pytest.raises(TableReplaced, match="new checkpoint location"):
        reader.latestOffset(end, ReadAllAvailable())
