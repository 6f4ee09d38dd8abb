"""A table whose rows have ids, as it was once written: rows and ids are what they were, and go on from there."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import indextables as it
from tests.golden.table.build import build_rows, row_ids
from tests.golden.table.test_golden_table import GOLDEN as OLDER
from tests.golden.table.test_golden_table import actions, placed, shape
from tests.world.field_ids import files

GOLDEN = json.loads((Path(__file__).parent / "v4-rows.json").read_text())
NEWEST = len(GOLDEN["rows"]) - 1


@pytest.fixture
def path(tmp_path):
    return placed(GOLDEN, tmp_path / "t")


def plain(rows):
    return json.loads(json.dumps(rows))


def test_rows_and_ids_of_every_version_are_what_they_were(path):
    table = it.open(path)
    assert table.version == NEWEST
    for version in range(NEWEST + 1):
        assert plain(table.at(version).to_arrow().sort_by("id").to_pylist()) == GOLDEN["rows"][version]
        assert row_ids(table.at(version)) == GOLDEN["row_ids"][version]
    assert json.loads(table.metadata.schemaString) == GOLDEN["schema"]
    assert it.verify(path).ok


def test_what_is_pinned_is_what_the_protocol_says(path):
    given = GOLDEN["row_ids"]
    assert given[2] == {str(n): n for n in range(6)}
    assert given[-1].items() >= {str(n): n for n in range(6) if n != 1}.items()
    merged = [file for file in files(it.open(path).at(NEWEST - 1)) if "_row_id" in pq.read_schema(file).names]
    assert len(merged) == 1
    assert pq.read_schema(merged[0]).field("_row_id").metadata[b"PARQUET:field_id"] == b"2147483540"


def test_ids_go_on_above_the_highest(path):
    table = it.open(path)
    highest = max(table.files()["baseRowId"].to_pylist())
    table.append([{"id": 100}])
    table.update({"props": "null"}, "id = 0")
    table.merge_splits()
    found = row_ids(table)
    assert found["100"] == highest + 1
    assert found.items() >= GOLDEN["row_ids"][-1].items()


def test_a_table_without_ids_stays_one(tmp_path):
    table = it.open(placed(OLDER, tmp_path / "t"))
    table.append([{"id": 100, "message": "more"}])
    table.update({"message": "'changed'"}, "id = 0")
    table.merge_splits()
    table.append([{"id": 101}])
    assert table.files()["baseRowId"].null_count == table.files().num_rows
    assert all("_row_id" not in pq.read_schema(file).names for file in files(table))
    assert "rowTracking" not in table.protocol.writerFeatures
    assert set(row_ids(table).values()) == {None}
    assert table.count("changed") == 1


def test_what_is_written_today_has_the_same_form(tmp_path):
    today = plain(build_rows(tmp_path))
    assert {key: today[key] for key in ("rows", "row_ids", "schema")} == {
        key: GOLDEN[key] for key in ("rows", "row_ids", "schema")
    }
    again, then = placed(today, tmp_path / "again"), placed(GOLDEN, tmp_path / "then")
    for version in range(NEWEST + 1):
        assert shape(actions(again, version)) == shape(actions(then, version))


FEED = [
    *((1, "insert", n, [f"t{n}"], n) for n in (0, 1, 2)),
    *((2, "insert", n, [f"t{n}"], n) for n in (3, 4, 5)),
    (3, "delete", 1, ["t1"], 1),
    (4, "update_preimage", 4, ["t4"], 4),
    (4, "update_postimage", 4, None, 4),
    (6, "insert", 6, None, 12),
]


def test_the_feed_of_a_table_that_was_written_before_there_was_one(path):
    table = it.open(path)
    told = table.changes(columns=["id", "tags", "_row_id"]).read_all().to_pylist()
    fields = ("_commit_version", "_change_type", "id", "tags", "_row_id")
    assert [tuple(change[name] for name in fields) for change in told] == FEED
    times = {row["version"]: row["timestamp"] for row in table.history().to_pylist()}
    assert all(change["_commit_timestamp"] == times[change["_commit_version"]] for change in told)
    net = table.changes(3, columns=["id"], net=True).read_all()
    assert sorted(zip(net["_change_type"].to_pylist(), net["id"].to_pylist(), strict=True)) == [
        ("delete", 1),
        ("insert", 6),
        ("update_postimage", 4),
        ("update_preimage", 4),
    ]
