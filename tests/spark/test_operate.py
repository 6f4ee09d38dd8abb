"""Care through Spark: the same verbs and reports as embedded, the work as tasks; an executor may die in a purge."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from tests.spark.orphans import ROWS, with_orphans

import indextables
from indextables.errors import InvalidArgument
from indextables.spark.table.indextable import IndexTable

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


@pytest.mark.connect
def test_a_conversion_runs_as_tasks_and_a_mirror_is_read_back(spark, tmp_path):
    source, target = str(tmp_path / "delta"), str(tmp_path / "t")
    for _ in range(2):
        write_deltalake(source, ROWS, partition_by=["p"], mode="append")
    report = IndexTable.convert(spark, source, target, indexing={"m": "text"}, system="delta")
    assert (report.rows, report.version, report.created) == (2 * len(ROWS), 1, True)
    text = f"CONVERT TO INDEXTABLES DELTA '{source}' AT LOCATION '{target}'"
    assert indextables.sql(spark, text).collect()[0].files == 0
    assert IndexTable.forPath(spark, target).mirror().mirrored == 2
    shown = QueryBuilder().register("t", DeltaTable(target)).execute("SELECT id FROM t")
    assert sorted(pa.table(shown)["id"].to_pylist()) == sorted(ROWS["id"].to_pylist() * 2)


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


def test_an_executor_that_dies_in_the_middle_of_a_purge_costs_a_task(survived):
    folder = survived.folder / "purges"
    for name, table in survived.purged.items():
        assert (folder / f"{name}.marker").exists()
        report = json.loads((folder / f"{name}.json").read_text())
        assert report == {"splits": 2500, "failed": {}, "reason": ""}
        assert len(list((folder / name / "splits").iterdir())) == 1
        assert table.refresh().to_arrow() == ROWS
        assert table.verify().ok
