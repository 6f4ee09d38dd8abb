"""`optimizeWrite` of `df.write`: the small splits of the tasks are merged before the one commit, and rows stay once."""

from __future__ import annotations

import json

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType
from tests.spark.frames import held, last_commit, read, splits, write
from tests.spark.streams import run_to_the_end
from tests.table.unanswered import Unanswered

import indextables
from indextables.errors import CommitStateUnknown, MetadataChanged
from indextables.spark.session.settings import WriteOptions
from indextables.spark.source.stream_write import StreamedFiles, TableStreamWriter
from indextables.spark.source.write_task import WrittenFiles
from indextables.spark.source.writer import TableWriter

SCHEMA = StructType([StructField("id", LongType())])
OPTIONS = {"optimizeWrite": "true", "transaction.retry.baseDelayMs": "1", "transaction.retry.maxDelayMs": "2"}

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]


def writer_of(path, kind=TableWriter, **options):
    return kind(str(path), WriteOptions.of({**OPTIONS, **options}), SCHEMA, overwrite=False)


def answers_of(writer, *tasks):
    """What as many tasks answer, each with its rows."""
    found = []
    for partition, ids in enumerate(tasks):
        batch = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})
        answer = json.loads(writer.write(iter([batch] if ids else [])).answer)
        found.append(WrittenFiles(json.dumps({**answer, "partition": partition}).encode()))
    return found


def live(path):
    return indextables.open(path).files()["path"].to_pylist()


# As Spark's workers call it, without a session


def test_one_version_names_one_file_and_the_small_ones_are_gone(tmp_path):
    path = tmp_path / "t"
    writer = writer_of(path)
    writer.commit(answers_of(writer, [1, 2], [3], [], [4, 5]))
    assert indextables.open(path).to_arrow()["id"].to_pylist() == [1, 2, 3, 4, 5]
    assert indextables.open(path).version == 1
    assert splits(path) == live(path)
    assert len(live(path)) == 1


def test_messages_that_come_doubled_and_in_another_order_count_once(tmp_path):
    path = tmp_path / "t"
    writer = writer_of(path)
    first, again = answers_of(writer, [1, 2], [3, 4]), answers_of(writer, [1, 2], [3, 4])
    writer.commit([first[1], first[0], again[0], again[1]])
    assert held(path) == [1, 2, 3, 4]
    assert len(live(path)) == 1
    # What an attempt wrote that is not chosen is nobody's.
    assert len(splits(path)) == 3


def test_a_batch_that_comes_again_leaves_no_files(tmp_path):
    path = tmp_path / "t"
    sink = TableStreamWriter(str(path), WriteOptions.of(OPTIONS), SCHEMA, overwrite=False)
    for _ in range(2):
        writer = writer_of(path)
        sink.commit([StreamedFiles("q", writer, files) for files in answers_of(writer, [1], [2], [3])], 7)
    assert held(path) == [1, 2, 3]
    assert splits(path) == live(path)
    assert len(live(path)) == 1


def test_a_batch_that_comes_again_is_not_merged_again(tmp_path):
    path = tmp_path / "t"
    for again in (False, True):
        asked = WriteOptions.of({**OPTIONS, "txnAppId": "q", "txnVersion": "7"})
        writer = TableWriter(str(path), asked, SCHEMA, overwrite=False)
        answers = answers_of(writer, [1], [2], [3])
        if again:
            # Whoever merged them would find out that one is gone.
            small = sorted(set(splits(path)) - set(live(path)))
            (path / small[0]).unlink()
        writer.commit(answers)
    assert held(path) == [1, 2, 3]
    assert splits(path) == live(path)


def test_the_history_tells_how_many_files_were_merged_before_the_commit(tmp_path):
    path = tmp_path / "t"
    for overwrite in (False, True):
        writer = TableWriter(str(path), WriteOptions.of(OPTIONS), SCHEMA, overwrite=overwrite)
        writer.commit(answers_of(writer, [1], [2], [3]))
        told = dict(last_commit(path)["operationMetrics"])
        assert (told["numFiles"], told["numMergedFiles"]) == ("1", "3")
        assert int(told["numMergedBytes"]) > int(told["numOutputBytes"])


@pytest.mark.parametrize("lands", [True, False])
def test_the_files_of_a_commit_whose_outcome_is_unknown_stay(tmp_path, lands):
    class Behind(TableWriter):
        def _env(self, session=None):
            env = super()._env(session)
            # The version that creates the table is answered.
            return msgspec.structs.replace(env, store=Unanswered(env.store, lands=lands, stays_away=True, first=1))

    path = tmp_path / "t"
    writer = writer_of(path, Behind)
    answers = answers_of(writer, [1, 2], [3], [4])
    small = splits(path)
    with pytest.raises(CommitStateUnknown):
        writer.commit(answers)
    writer.abort(answers)
    assert set(small) < set(splits(path))
    assert len(splits(path)) == 4
    assert held(path) == ([1, 2, 3, 4] if lands else [])


def test_a_commit_that_is_not_in_the_log_leaves_nothing(tmp_path):
    path = tmp_path / "t"
    indextables.create(path, pa.schema([("id", pa.int64())]))
    writer = writer_of(path)
    answers = answers_of(writer, [1, 2], [3])
    indextables.open(path).append(pa.table({"id": [9], "more": [1]}), merge_schema=True)
    with pytest.raises(MetadataChanged):
        writer.commit(answers)
    writer.abort(answers)
    assert splits(path) == live(path)
    assert held(path) == [9]


# In a session


def test_every_partition_gets_few_files_in_one_version(spark, tmp_path):
    path = tmp_path / "t"
    frame = spark.range(0, 400, 1, 8).selectExpr("id", "id % 2 as part", "concat('line ', id) as message")
    wanted = {"partitionBy": "part", "indexing.typemap.message": "text", "optimizeWrite": "true"}
    write(frame, path, **wanted)
    table = indextables.open(path)
    assert (table.version, table.files().num_rows) == (1, 2)
    assert dict(last_commit(path)["operationMetrics"])["numFiles"] == "2"
    assert splits(path) == sorted(live(path))
    assert table.search("message:77", columns=["id"])["id"].to_pylist() == [77]
    write(frame.where("part = 1"), path, "overwrite", partitionOverwriteMode="dynamic", optimizeWrite="true")
    assert indextables.open(path).files().num_rows == 2
    assert held(path) == list(range(400))
    assert read(spark, path).where("part = 1").count() == 200
    assert table.refresh().verify().ok


def test_the_session_and_the_table_can_ask_for_it_and_the_call_decides(spark, tmp_path):
    frame = spark.range(0, 40, 1, 4)
    spark.conf.set("spark.indextables.optimizeWrite", "true")
    try:
        write(frame, tmp_path / "few")
        write(frame, tmp_path / "many", optimizeWrite="false")
    finally:
        spark.conf.unset("spark.indextables.optimizeWrite")
    assert [len(live(tmp_path / name)) for name in ("few", "many")] == [1, 4]
    properties = {"optimizeWrite": "true"}
    indextables.create(tmp_path / "asks", pa.schema([("id", pa.int64())]), properties=properties)
    write(frame, tmp_path / "asks")
    assert len(live(tmp_path / "asks")) == 1
    with pytest.raises(Exception, match="true or false"):
        write(frame, tmp_path / "asks", optimizeWrite="perhaps")
    with pytest.raises(Exception, match="is optimizeWrite meant"):
        write(frame, tmp_path / "asks", optimiseWrite="true")


def test_a_micro_batch_of_a_stream_is_merged_too(spark, tmp_path):
    write(spark.range(0, 40, 1, 4), tmp_path / "source")
    writing = (
        spark.readStream.format("indextables")
        .load(str(tmp_path / "source"))
        .repartition(4)
        .writeStream.format("indextables")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("optimizeWrite", "true")
        .trigger(availableNow=True)
    )
    run_to_the_end(writing, tmp_path / "sink")
    assert held(tmp_path / "sink") == list(range(40))
    assert len(live(tmp_path / "sink")) == 1
    assert indextables.open(tmp_path / "sink").version == 1
