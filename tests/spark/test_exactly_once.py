"""Rows of one write appear exactly once, on a real cluster, whatever dies; what is left over is nobody's."""

from __future__ import annotations

import json
import signal

import pyarrow as pa
import pytest
from tests.servers.spark_cluster import run_driver
from tests.spark.faulty_jobs import ROWS, TASKS
from tests.spark.killed_jobs import NOTHING
from tests.spark.speculative_job import CONF

import indextables

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(1800)]


@pytest.fixture
def written(survived):
    """A folder of tables that were written while workers and executors died."""
    return survived.folder / "writes"


def attempts(folder, name):
    """What every attempt that wrote its files tells: partition, attempt, stage, adds."""
    return [json.loads(note.read_text()) for note in folder.glob(f"{name}.marker.*")]


def check(folder, name):
    """The rows are there once, and only files of one attempt per partition are in the table. The files of the rest."""
    table = indextables.open(folder / name)
    assert sorted(table.to_arrow(["id"])["id"].to_pylist()) == list(range(ROWS))
    assert table.count("message:77") == 1
    live = set(table.files()["path"].to_pylist())
    noted = [{add["path"] for add in attempt["adds"]} for attempt in attempts(folder, name)]
    chosen = [paths for paths in noted if paths and paths <= live]
    assert set.union(*chosen) == live
    assert len(chosen) == TASKS
    assert table.verify().ok
    return set.union(*noted) - live


@pytest.mark.parametrize("name", ["worker-after", "raises", "executor-after", "shuffle"])
def test_an_attempt_that_died_after_its_files_were_written_leaves_orphans_only(written, name):
    left = check(written, name)
    assert left
    assert all((written / name / path).exists() for path in left)


def test_an_executor_that_died_before_it_wrote_leaves_nothing(written):
    assert check(written, "executor-before") == set()


def test_rows_are_changed_once_though_executors_die_with_what_they_computed(survived):
    folder = survived.folder / "changes"
    assert json.loads((folder / "told.json").read_text()) == [[100, 0], [100, 200]]
    table = indextables.open(folder / "t")
    found = {row["id"]: row["message"] for row in table.to_arrow(["id", "message"]).to_pylist()}
    assert sorted(found) == list(range(400))
    assert table.count() == 400
    assert [found[n].endswith(" updated") for n in range(100)] == [n % 2 == 0 for n in range(100)]
    assert {found[n] for n in range(100, 200)} == {"new merged"}
    assert {found[n] for n in range(200, 400)} == {"new"}
    assert all((folder / f"{name}.marker").exists() for name in ("updated", "merged"))
    assert table.verify().ok


def test_a_lost_shuffle_makes_the_stage_before_run_again(written):
    assert len(list(written.glob("mapped.*"))) > TASKS


def test_messages_that_arrive_twice_and_in_another_order_count_once(written):
    assert check(written, "messages-doubled") == set()


def test_the_files_of_a_commit_whose_outcome_is_unknown_are_not_touched(written):
    assert "CommitStateUnknown" in (written / "unknown-and-landed.error").read_text()
    assert check(written, "unknown-and-landed") == set()
    assert "CommitStateUnknown" in (written / "unknown-and-lost.error").read_text()
    noted = [add["path"] for attempt in attempts(written, "unknown-and-lost") for add in attempt["adds"]]
    assert len(noted) == TASKS
    assert all((written / "unknown-and-lost" / path).exists() for path in noted)


def test_of_two_copies_of_a_slow_task_one_is_committed(spark_cluster, tmp_path):
    done = spark_cluster.run("tests.spark.speculative_job", tmp_path, conf=CONF)
    assert done.code == 0, done.output
    assert check(tmp_path, "slow")
    assert len(attempts(tmp_path, "slow")) > TASKS


# A driver that is killed


TABLES = ("batch", "sink1", "sink2")
PHASES = (
    ("batch uncommitted", "stream unwritten", "stream written"),
    ("batch committed", "stream written", "stream committed"),
    (NOTHING, NOTHING, NOTHING),
)


def test_a_killed_driver_that_is_started_again_writes_batches_and_streams_once(tmp_path):
    make_source(tmp_path)
    for phases in PHASES[:-1]:
        died = run_driver("tests.spark.killed_jobs", tmp_path, 1, *phases)
        assert died.code == -signal.SIGKILL, died.output
        assert all((tmp_path / f"{name} {phase}.marker").exists() for name, phase in zip(TABLES, phases, strict=True))
    done = run_driver("tests.spark.killed_jobs", tmp_path, 1, *PHASES[-1])
    assert done.code == 0, done.output
    check_all_once(tmp_path, TABLES)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("phase", "batch"),
    [
        *(
            (phase, batch)
            for phase in ("offset", "planned", "unwritten", "read", "written", "committed")
            for batch in (0, 2)
        ),
        # The last batch is not told that it is finished.
        ("finished", 0),
        ("finished", 1),
    ],
)
def test_a_stream_that_is_killed_anywhere_is_read_and_written_once(tmp_path, phase, batch):
    make_source(tmp_path)
    died = run_driver("tests.spark.killed_jobs", tmp_path, batch, NOTHING, f"stream {phase}")
    assert died.code == -signal.SIGKILL, died.output
    done = run_driver("tests.spark.killed_jobs", tmp_path, batch, NOTHING, NOTHING)
    assert done.code == 0, done.output
    check_all_once(tmp_path, TABLES[:2])


def make_source(folder):
    table = indextables.create(folder / "source", pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"id": [number * 10, number * 10 + 1]}))


def check_all_once(folder, names):
    batch, *sinks = (indextables.open(folder / name) for name in names)
    assert sorted(batch.to_arrow()["id"].to_pylist()) == list(range(100))
    for sink in sinks:
        assert sorted(sink.to_arrow()["id"].to_pylist()) == [0, 1, 10, 11, 20, 21]
        assert sink.verify().ok
        assert [row["operation"] for row in sink.history().to_pylist()].count("WRITE") == 3
