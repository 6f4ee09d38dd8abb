"""Splits that lost many rows are written anew without them: nothing that a reader sees changes, but for the vectors."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.table.merge_world import delete_rows, ids, log_of, table_of
from tests.table.test_upkeep import QUICK, Steps
from tests.world.row_ids import scan_row_ids

from indextables.split.file import ROW_ID


def vectors(table) -> list[int]:
    """How many rows the vector of each file deletes."""
    told = table.files()["deletionVector"].to_pylist()
    return [0 if vector is None else vector["cardinality"] for vector in told]


def seen(table) -> dict:
    """What a fold must not change."""
    schema = pa.schema([*table.schema, (ROW_ID, pa.int64())])
    numbered = pa.Table.from_batches(scan_row_ids(table._log.env, table._snapshot), schema)
    return {
        "rows": table.to_arrow().to_pylist(),
        "row ids": dict(zip(ids(numbered), numbered[ROW_ID].to_pylist(), strict=True)),
        "counts": (table.count(), table.count("disk"), table.count(where="v > 5")),
        "found": sorted(ids(table.search("disk", columns=["id"], limit=None))),
    }


@pytest.mark.parametrize("partitions", [(), ("p",)])
def test_large_splits_that_lost_more_than_a_twentieth_are_folded_and_others_left(tmp_path, partitions):
    table = table_of(tmp_path / "t", [100, 100, 100], partition_by=partitions)
    table.update({"message": "'disk again'"}, where="id in (3, 250)")
    table.delete(where="id between 10 and 29 or id in (120, 121)")
    small = min(table.files()["size"].to_pylist())
    table.update({"v": "v + 1"}, where="id = 40")
    before, version, old = seen(table), table.version, table.files()
    large = [path for path, size in zip(old["path"].to_pylist(), old["size"].to_pylist(), strict=True) if size >= small]
    lost = dict(zip(old["path"].to_pylist(), vectors(table), strict=True))
    rows = dict(zip(old["path"].to_pylist(), old["numRecords"].to_pylist(), strict=True))
    sparse = {path for path in large if lost[path] > 0.05 * rows[path]}
    health = table.health()
    assert sparse
    assert health.foldable_files >= len(sparse)
    assert health.deleted_share == sum(lost.values()) / sum(rows.values())

    report = table.merge_splits(target_size=small)
    assert not report.failed
    assert sparse <= set(report.plan["path"].to_pylist())
    assert seen(table) == before
    left = {path for path in large if 0 < lost[path] <= 0.05 * rows[path]}
    assert left <= set(table.files()["path"].to_pylist()), "what lost few rows is not written anew"
    assert table.health().foldable_files == 0
    assert not table.verify().findings
    assert seen(table.at(version)) == before
    new = table.files().filter(pc.invert(pc.is_in(table.files()["path"], value_set=old["path"].combine_chunks())))
    assert new.num_rows == report.new_splits
    assert not any(new["dataChange"].to_pylist())
    assert table.merge_splits(target_size=small).versions == []


@pytest.mark.parametrize("cluster_by", [(), ("v",)])
def test_sorted_splits_are_sorted_after_they_were_folded(tmp_path, cluster_by):
    table = table_of(tmp_path / "t", [100, 100])
    small = min(table.files()["size"].to_pylist()) // 2
    table.merge_splits(cluster_by=["v"], target_size=small)
    table.delete(where="id < 10")
    before = seen(table)
    assert len(table.merge_splits(cluster_by=cluster_by, target_size=small).versions) == 1
    assert sum(vectors(table)) == 0
    assert seen(table) == before
    assert table.merge_splits(cluster_by=["v"]).plan.num_rows == 0


def test_a_split_without_live_rows_leaves_no_file(tmp_path):
    table = table_of(tmp_path / "t", [5, 5])
    delete_rows(log_of(table), {table.files()["path"][0].as_py(): range(5)})
    table.refresh().merge_splits(target_size=1)
    assert vectors(table) == [0]
    assert ids(table.to_arrow()) == [5, 6, 7, 8, 9]


@pytest.mark.slow
@pytest.mark.usefixtures("with_upkeep")
def test_a_change_that_leaves_a_split_with_a_third_deleted_folds_it_unasked(tmp_path):
    table = table_of(tmp_path / "t", [100], options=QUICK, ambient=Steps())
    report = table.delete(where="id < 30")
    assert (report.sparse_files, vectors(table.refresh())) == (0, [30])
    report = table.delete(where="id = 30")
    assert report.sparse_files == 1
    table.refresh()
    assert vectors(table) == [0]
    assert table.history()["operation"][0].as_py() == "MERGE SPLITS"
    assert ids(table.to_arrow()) == list(range(31, 100))
    table.update({"v": "0"}, where="id < 90")
    assert sorted(ids(table.refresh().to_arrow())) == list(range(31, 100))
    assert sum(vectors(table)) == 0


@pytest.mark.usefixtures("with_upkeep")
def test_a_property_keeps_the_table_from_folding_by_itself(tmp_path):
    properties = {"mergeOnWrite.maxDeletedRowsRatio": "1"}
    table = table_of(tmp_path / "t", [10], options=QUICK, ambient=Steps(), properties=properties)
    table.delete(where="id < 9")
    assert vectors(table.refresh()) == [9]
