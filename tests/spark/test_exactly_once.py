"""Rows of one write appear exactly once, on a real cluster, whatever dies; what is left over is nobody's."""

from __future__ import annotations

import json

import pytest
from tests.spark.faulty_jobs import ROWS, TASKS
from tests.spark.speculative_job import CONF

import indextables

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def written(spark_cluster, tmp_path_factory):
    """A folder of tables that were written while workers and executors died."""
    folder = tmp_path_factory.mktemp("exactly-once")
    done = spark_cluster.run("tests.spark.faulty_jobs", folder)
    assert done.code == 0, done.output
    return folder


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


def test_a_lost_shuffle_makes_the_stage_before_run_again(written):
    assert len(list(written.glob("mapped.*"))) > TASKS


def test_messages_that_arrive_twice_and_in_another_order_count_once(written):
    assert check(written, "messages-doubled") == set()


def test_of_two_copies_of_a_slow_task_one_is_committed(spark_cluster, tmp_path):
    done = spark_cluster.run("tests.spark.speculative_job", tmp_path, conf=CONF)
    assert done.code == 0, done.output
    assert check(tmp_path, "slow")
    assert len(attempts(tmp_path, "slow")) > TASKS
