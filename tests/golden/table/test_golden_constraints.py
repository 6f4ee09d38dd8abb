"""A table with constraints, as it was once written: they hold for whoever writes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import indextables as it
from indextables.errors import ConstraintViolation
from tests.golden.table.build import build_constraints
from tests.golden.table.test_golden_table import placed

GOLDEN = json.loads((Path(__file__).parent / "v4-constraints.json").read_text())


def test_rows_and_rules_are_what_they_were_and_hold(tmp_path):
    table = it.open(placed(GOLDEN, tmp_path / "t"))
    for version, rows in enumerate(GOLDEN["rows"]):
        assert table.at(version).to_arrow().sort_by("id").to_pylist() == rows
    assert GOLDEN["rules"] == {
        "constraints.named": "name IS NOT NULL AND name <> ''",
        "constraints.sane": "id >= 0 AND id < 100",
    }
    assert "checkConstraints" in GOLDEN["features"]
    for bad, name in (({"id": 100, "name": "x"}, "sane"), ({"id": 5}, "named")):
        with pytest.raises(ConstraintViolation) as caught:
            table.append([bad])
        assert caught.value.constraint == name
    table.append([{"id": 99, "name": "a long name"}])
    assert it.verify(table.url).ok


def test_what_is_written_today_has_the_same_form(tmp_path):
    today = json.loads(json.dumps(build_constraints(tmp_path)))
    assert {**today, "objects": None} == {**GOLDEN, "objects": None}
