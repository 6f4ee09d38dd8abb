"""Merge splits through Spark: the same report as embedded, and an executor may die in the middle."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.table.merge_world import damage, ids, splits_in_store, table_of

import indextables
from indextables.spark.table.indextable import IndexTable

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


@pytest.mark.connect
def test_groups_are_merged_by_tasks_and_rows_stay_as_they_are(spark, tmp_path):
    table = table_of(tmp_path / "t", [20] * 5, partitions=["a", "b"], partition_by=["p"])
    before = table.to_arrow().sort_by("id")
    bad = table.files("p = 'b'")["path"].to_pylist()[0]
    damage(table, bad)
    other = IndexTable.forPath(spark, str(tmp_path / "t"))
    steps = []
    report = other.mergeSplits("p IN ('a', 'b')", progress=steps.append)
    assert (report.merged_groups, report.source_splits, report.new_splits) == (2, 9, 2)
    assert [skip.path for skip in report.skipped] == [bad]
    assert [step.done for step in steps] == [0, 2]
    assert [row.path for row in other.skips().collect()] == [bad]
    assert other.clearSkips() == 1
    damage(table, bad)
    assert table.refresh().to_arrow().sort_by("id") == before
    sorted_report = other.mergeSplits(where="p = 'a'", clusterBy=["v"], curve="hilbert")
    assert (sorted_report.failed, sorted_report.rows) == ([], 50)
    assert table.refresh().to_arrow().sort_by("id") == before
    assert other.mergeSplits(targetSize=1, dryRun=True).groups == 0


def test_an_executor_that_dies_in_the_middle_of_a_merge_costs_orphans_only(survived):
    folder = survived.folder / "merges"
    for name, table in survived.merged.items():
        assert (folder / f"{name}.marker").exists()
        report = json.loads((folder / f"{name}.json").read_text())
        assert (report["merged_groups"], report["failed"], report["rows"]) == (2, [], 300)
        sources = set(table.files()["path"].to_pylist())
        table.refresh()
        assert ids(table.to_arrow()) == list(range(300))
        live = set(table.files()["path"].to_pylist())
        assert len(live) == 2
        orphans = splits_in_store(table) - live - sources
        assert bool(orphans) == (name == "after")
        assert indextables.open(table.url).verify().ok
        assert len(table.search("request", limit=None)) == 300


@pytest.mark.parametrize("waits", [{}, {"mergeOnWrite.async.enabled": "false"}])
def test_a_write_through_spark_makes_a_merge_due(spark, tmp_path, waits):
    path = str(tmp_path / "t")
    properties = {"mergeOnWrite.enabled": "true", "mergeOnWrite.minSplits": "2", **waits}
    table = indextables.create(path, pa.schema([("id", pa.int64())]), properties=properties)
    for start in (0, 10):
        spark.range(start, start + 10, 1, 1).write.format("indextables").mode("append").save(path)
    table.refresh()
    assert (table.files().num_rows, ids(table.to_arrow())) == (1, list(range(20)))
    assert table.history(1)["operation"].to_pylist() == ["MERGE SPLITS"]
