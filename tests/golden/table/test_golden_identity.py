"""A table with identity columns, as it was once written: whoever writes on gives no number twice."""

from __future__ import annotations

import json
from pathlib import Path

import indextables as it
from tests.golden.table.build import build_identity
from tests.golden.table.test_golden_table import placed

GOLDEN = json.loads((Path(__file__).parent / "v4-identity.json").read_text())


def test_rows_keep_their_numbers_and_new_ones_go_on_behind_the_claims(tmp_path):
    table = it.open(placed(GOLDEN, tmp_path / "t"))
    assert table.to_arrow().sort_by("number").to_pylist() == GOLDEN["rows"]
    assert "identityColumns" in GOLDEN["features"]
    table.append([{"name": "new"}])
    (row,) = table.to_arrow(where="name = 'new'").to_pylist()
    assert row == {"number": 6, "down": -13, "name": "new"}
    assert it.verify(table.url).ok


def test_what_is_written_today_has_the_same_form(tmp_path):
    today = json.loads(json.dumps(build_identity(tmp_path)))
    assert {**today, "objects": None} == {**GOLDEN, "objects": None}
