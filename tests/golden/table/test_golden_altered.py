"""A table whose columns were changed, as it was once written: each version shows what it showed, and life goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import indextables as it
from tests.golden.table.build import build_altered
from tests.golden.table.test_golden_table import placed
from tests.world.field_ids import files

GOLDEN = json.loads((Path(__file__).parent / "v4-altered.json").read_text())
NEWEST = len(GOLDEN["rows"]) - 1


@pytest.fixture
def path(tmp_path):
    return placed(GOLDEN, tmp_path / "t")


def test_rows_of_every_version_are_what_they_were(path):
    table = it.open(path)
    assert table.version == NEWEST
    for version in range(NEWEST + 1):
        assert table.at(version).to_arrow().sort_by("id").to_pylist() == GOLDEN["rows"][version]
    assert it.verify(path).ok
    assert table.count("b:both") == 4
    assert table.count(where="a = 'b1' AND c = 7") == 1
    assert table.count(where="n = 'text'") == 1


def test_what_is_pinned_is_what_the_protocol_says(path):
    told = {field["name"]: field["metadata"] for field in GOLDEN["schema"]["fields"]}
    assert {name: one.get("indextables.physicalName") for name, one in told.items()} == {
        "id": None,
        "c": None,
        "b": "a",
        "a": "b",
        "n": "n__6",
    }
    assert (told["c"]["comment"], told["c"]["EXISTS_DEFAULT"]) == ("why", "CAST('7' AS INT)")
    assert "CURRENT_DEFAULT" not in told["c"]
    assert GOLDEN["former"] == '["n"]'
    names = [pq.read_schema(file).names for file in files(it.open(path))]
    assert names == [["id", "a", "b", "n"], ["id", "c", "a", "b", "n__6"], ["id", "c", "a", "b", "n__6"]]


def test_it_is_merged_and_written_on(path):
    table = it.open(path)
    table.append([{"id": 6, "b": "both"}])
    table.merge_splits()
    table.drop_columns("a")
    assert table.count("both", where="c = 7") == 4
    assert [row["c"] for row in table.to_arrow().sort_by("id").to_pylist()] == [7, 7, 7, 7, None, None, None]


def test_what_is_written_today_has_the_same_form(tmp_path):
    today = json.loads(json.dumps(build_altered(tmp_path)))
    assert {key: today[key] for key in ("rows", "schema", "former")} == {
        key: GOLDEN[key] for key in ("rows", "schema", "former")
    }
