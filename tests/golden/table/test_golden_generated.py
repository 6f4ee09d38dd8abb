"""A table with a generated column, as it was once written: it is computed for whoever writes on."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import indextables as it
from tests.golden.table.build import build_generated
from tests.golden.table.test_golden_table import placed

GOLDEN = json.loads((Path(__file__).parent / "v4-generated.json").read_text())


def test_rows_are_what_they_were_and_new_ones_follow_the_rule(tmp_path):
    table = it.open(placed(GOLDEN, tmp_path / "t"))
    rows = table.to_arrow().sort_by("id").to_pylist()
    assert [[row["id"], str(row["ts"]), str(row["day"])] for row in rows] == GOLDEN["rows"]
    told = {field["name"]: field["metadata"].get("generationExpression") for field in GOLDEN["schema"]["fields"]}
    assert told == {"id": None, "ts": None, "day": "CAST(ts AS DATE)"}
    assert "generatedColumns" in GOLDEN["features"]
    table.append([{"id": 9, "ts": dt.datetime(2026, 3, 1, tzinfo=dt.UTC)}])
    assert table.count(where="day = DATE '2026-03-01'") == 1
    assert it.verify(table.url).ok


def test_what_is_written_today_has_the_same_form(tmp_path):
    today = json.loads(json.dumps(build_generated(tmp_path)))
    assert {**today, "objects": None} == {**GOLDEN, "objects": None}
