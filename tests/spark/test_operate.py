"""Care through Spark: the same verbs and reports as embedded, the work as tasks; an executor may die in a purge."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.errors import InvalidArgument
from indextables.spark.indextable import IndexTable

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]

ROWS = pa.table({"id": list(range(6)), "m": ["alpha beta"] * 6, "p": ["a", "b"] * 3})


def with_orphans(path: Path, count: int):
    """A table with rows, and data files a month old that no version names."""
    table = indextables.create(path, ROWS.schema, indexing={"m": "text"})
    table.append(ROWS)
    old = time.time() - 30 * 86_400
    for number in range(count):
        orphan = path / "splits" / f"split-{number:032x}.split"
        orphan.touch()
        os.utime(orphan, (old, old))
    return table


@pytest.mark.connect
def test_the_verbs_of_care_through_spark(spark, tmp_path):
    table = indextables.create(tmp_path / "t", ROWS.schema, partition_by=["p"], indexing={"m": "text"})
    table.append(ROWS)
    other = IndexTable.forPath(spark, str(tmp_path / "t"))
    assert other.dropPartitions("p = 'a'", dryRun=True).dropped == 1
    assert other.dropPartitions("p = 'a'").version == 2
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [1, 3, 5]
    told: list[str] = []
    assert other.restoreToVersion(1, progress=lambda step: told.append(step.what)).added_files == 1
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 5]
    report = other.reindex(force=True)
    assert (report.reindexed, report.rows, report.failed) == (2, 6, {})
    assert other.prewarm(columns=["m"]).splits == 2
    assert other.flushCaches().processes
    assert other.invalidateCaches().processes
    assert other.checkpoint() == other.describeState().version
    assert other.compact() >= 4
    assert other.verify().ok
    assert other.health().advice == []
    assert other.truncateTimeTravel(dryRun=True).versions
    assert other.truncateTimeTravel(progress=lambda step: told.append(step.what)).oldest == 5
    assert told == ["check", "commit", "checkpoint", "log"]
    with pytest.raises(InvalidArgument, match="safe age"):
        other.purge(olderThanHours=0)
    assert other.purge(olderThanHours=24).count("split") == 0
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 5]


def test_listing_and_deleting_are_tasks(spark, tmp_path):
    table = with_orphans(tmp_path / "t", 2500)
    other = IndexTable.forPath(spark, str(tmp_path / "t"))
    dry = other.purge(dryRun=True)
    report = other.purge()
    assert report.count("split") == dry.count("split") == 2500
    assert sorted(report.files["path"].to_pylist()) == sorted(dry.files["path"].to_pylist())
    assert len(list((tmp_path / "t" / "splits").iterdir())) == 1
    assert table.refresh().count() == 6


def test_an_executor_that_dies_in_the_middle_of_a_purge_costs_a_task(spark_cluster, tmp_path):
    tables = {name: with_orphans(tmp_path / name, 2500) for name in ("before", "after")}
    done = spark_cluster.run("tests.spark.purge_job", tmp_path)
    assert done.code == 0, done.output
    for name, table in tables.items():
        assert (tmp_path / f"{name}.marker").exists()
        report = json.loads((tmp_path / f"{name}.json").read_text())
        assert report == {"splits": 2500, "failed": {}, "reason": ""}
        assert len(list((tmp_path / name / "splits").iterdir())) == 1
        assert table.refresh().to_arrow() == ROWS
        assert table.verify().ok
