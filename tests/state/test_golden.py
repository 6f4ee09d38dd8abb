"""What was written once stays readable: one golden state per form."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.read import read_state
from indextables.log.wire.names import LOG_DIR
from tests.golden.state.build import FORMS, build
from tests.state.logs import environment, rows_of

FOLDER = Path(__file__).parents[1] / "golden" / "state"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def read(golden: dict) -> dict:
    env = environment()
    for key, text in golden["objects"].items():
        env.store.put(key, base64.b85decode(text))
    state = read_state(env, find_states(env.store.list_from(LOG_DIR))[0])
    return {
        "objects": golden["objects"],
        "version": state.version,
        "files": without_newer_fields(rows_of(state.files), golden["files"]),
        "txns": sorted(state.txns),
        "domains": sorted(state.domains),
        "skips": sorted(state.skips),
        "tokens": list(state.tokens.tokens),
        "time": state.in_commit_timestamp,
    }


def without_newer_fields(rows: list[dict], golden: list[dict]) -> list[dict]:
    """The rows without fields that were not there when the golden state was written; they are null."""
    newer = {name for row in rows for name in row} - {name for row in golden for name in row}
    assert all(row[name] is None for row in rows for name in newer)
    return [{name: value for name, value in row.items() if name not in newer} for row in rows]


def test_there_is_one_of_every_form():
    assert set(FORMS) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_state_reads_as_it_did(name):
    golden = json.loads((FOLDER / f"{name}.json").read_text())
    assert read(golden) == golden


@pytest.mark.parametrize("name", sorted(FORMS))
def test_what_is_written_today_reads_the_same(name):
    today = json.loads(json.dumps(build(name)))
    golden = json.loads((FOLDER / f"{name}.json").read_text())
    today["files"] = without_newer_fields(today["files"], golden["files"])
    assert {k: v for k, v in today.items() if k != "objects"} == {k: v for k, v in golden.items() if k != "objects"}
    assert read(today) == today
