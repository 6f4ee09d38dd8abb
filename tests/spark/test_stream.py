"""Structured Streaming into a table and out of it, classic and Connect."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.spark.streams import run_to_the_end

import indextables

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.filterwarnings("ignore")]

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])


def rows(start, count):
    ids = range(start, start + count)
    return pa.table({"id": ids, "message": [f"line {n}" for n in ids]}, SCHEMA)


@pytest.fixture
def source(tmp_path):
    """A table whose versions 1, 2 and 3 added three rows each."""
    table = indextables.create(tmp_path / "source", SCHEMA, indexing={"message": "text"})
    for start in (0, 10, 20):
        table.append(rows(start, 3))
    return table


def stream(spark, path, **options):
    return spark.readStream.format("indextables").options(**options).load(str(path))


def copy(frame, folder, *, to="sink", trigger=None):
    """Run the query until everything that is there now has been copied; the rows of each batch that it wrote."""
    written = len(batches(folder / to))
    writing = (
        frame.writeStream.format("indextables")
        .option("checkpointLocation", str(folder / f"{to}-checkpoint"))
        .option("indexing.typemap.message", "text")
        .trigger(**(trigger or {"availableNow": True}))
    )
    run_to_the_end(writing, folder / to)
    return batches(folder / to)[written:]


def batches(path):
    """The rows that each write brought, oldest first."""
    if not path.exists():
        return []
    history = indextables.open(path).history().sort_by("version").to_pylist()
    return [int(dict(row["operationMetrics"])["numOutputRows"]) for row in history if row["operation"] == "WRITE"]


def ids(path):
    return sorted(indextables.open(path).to_arrow(["id"])["id"].to_pylist())


ALL = [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_a_stream_copies_what_is_there_and_then_what_is_added_once(spark, source, tmp_path):
    path = tmp_path / "source"
    assert copy(stream(spark, path, maxFilesPerTrigger="2"), tmp_path) == [6, 3]
    assert ids(tmp_path / "sink") == ALL
    source.append(rows(30, 2))
    assert copy(stream(spark, path, maxFilesPerTrigger="2"), tmp_path) == [2]
    assert copy(stream(spark, path, maxFilesPerTrigger="2"), tmp_path) == []
    assert ids(tmp_path / "sink") == [*ALL, 30, 31]
    sink = indextables.open(tmp_path / "sink")
    assert sink.count("message:line") == 11
    assert sink.version == 3
    offset = json.loads((tmp_path / "sink-checkpoint/offsets/2").read_text().splitlines()[-1])
    expected = {"tableId": source.metadata.id, "version": 5, "index": 0, "isStartingVersion": False}
    assert list(offset.items()) == list(expected.items())


def test_a_stream_starts_where_it_is_told_within_its_limits(spark, source, tmp_path):
    size = max(source.files()["size"].to_pylist())
    frame = stream(spark, tmp_path / "source", startingVersion="2", maxBytesPerTrigger=str(size))
    assert copy(frame, tmp_path) == [3, 3]
    assert ids(tmp_path / "sink") == ALL[3:]
    when = source.history().filter(pa.compute.field("version") == 3)["timestamp"][0].as_py().isoformat()
    frame = stream(spark, tmp_path / "source", startingTimestamp=when, where="id < 22")
    copy(frame, tmp_path, to="late")
    assert ids(tmp_path / "late") == [20, 21]


def test_the_trigger_once_ignores_the_limits(spark, source, tmp_path):
    frame = stream(spark, tmp_path / "source", maxFilesPerTrigger="1")
    assert copy(frame, tmp_path, trigger={"once": True}) == [9]


def test_a_commit_that_removes_rows_stops_a_stream_unless_it_is_skipped(spark, source, tmp_path):
    source.overwrite(rows(100, 1))
    source.append(rows(30, 2))
    with pytest.raises(Exception, match="skipChangeCommits"):
        copy(stream(spark, tmp_path / "source", startingVersion="1"), tmp_path)
    copy(stream(spark, tmp_path / "source", startingVersion="1", skipChangeCommits="true"), tmp_path, to="other")
    assert ids(tmp_path / "other") == [*ALL, 30, 31]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingVersion": "9"}, "does not exist"),
        ({"startingVersion": "1", "startingTimestamp": "2024-01-01"}, "not both"),
        ({"versionAsOf": "1"}, "startingVersion"),
        ({"maxFilesPerTrigger": "0"}, "maxFilesPerTrigger"),
    ],
)
def test_what_a_stream_cannot_do_is_said(spark, source, tmp_path, options, reason):
    with pytest.raises(Exception, match=reason):
        copy(stream(spark, tmp_path / "source", **options), tmp_path)


def test_a_stream_appends_and_numbers_its_batches_itself(spark, source, tmp_path):
    frame = stream(spark, tmp_path / "source")

    def run(writing, name):
        place = writing.format("indextables").option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
        run_to_the_end(place.trigger(availableNow=True), tmp_path / name)

    with pytest.raises(Exception, match="txnAppId"):
        run(frame.writeStream.option("txnAppId", "mine").option("txnVersion", "1"), "numbered")
    with pytest.raises(Exception, match="complete"):
        run(frame.groupBy("id").count().writeStream.outputMode("complete"), "counts")
