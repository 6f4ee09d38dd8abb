"""Tables that IndexTables4Spark wrote open as their `expected.json` says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import indextables
from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.errors import NotSupported
from indextables.log.care import opening
from indextables.log.care.schedule import checkpoint
from indextables.log.read.log import Log
from indextables.log.wire.schema import schema_from_json
from indextables.options import Options
from indextables.storage import open_store

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures" / "indextables4spark"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/expected.json"))

pytestmark = pytest.mark.skipif(not NAMES, reason=f"the tables of IndexTables4Spark are not at {FIXTURES}")


def open_log(path: Path) -> Log:
    options = Options(environ={})
    return opening.open_log(Env(open_store(str(path), options), SystemAmbient(), options))


def plain(files: list[dict]) -> list[dict]:
    kept = ("path", "partitionValues", "size", "numRecords", "minValues", "maxValues")
    rows = [{name: _dict(row.get(name)) for name in kept} for row in files]
    return sorted(rows, key=lambda row: str(row["path"]))


def _dict(value):
    return dict(value) if isinstance(value, list) else value


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_the_peer_opens_as_it_says(name):
    expected = json.loads((FIXTURES / name / "expected.json").read_text())
    snapshot = open_log(FIXTURES / name / "table").snapshot()
    assert snapshot.version == expected["version"]
    assert snapshot.partition_columns == expected["partitionColumns"]
    assert snapshot.schema == schema_from_json(json.dumps(expected["schema"]))
    assert snapshot.protocol.minReaderVersion == expected["protocol"]["minReaderVersion"]
    assert plain(snapshot.files.to_pylist()) == plain(expected["files"])
    skipped = {skip["path"]: skip["reason"] for skip in expected.get("mergeskip") or []}
    assert {path: skip.reason for path, skip in snapshot.skips.items()} == skipped


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_the_peer_opens_through_the_public_door(name):
    expected = json.loads((FIXTURES / name / "expected.json").read_text())
    table = indextables.open(FIXTURES / name / "table")
    assert table.version == expected["version"]
    assert table.partition_columns == expected["partitionColumns"]
    assert table.schema == schema_from_json(json.dumps(expected["schema"]))
    assert plain(table.files().to_pylist()) == plain(expected["files"])


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_the_peer_is_not_written_to(name):
    with pytest.raises(NotSupported):
        checkpoint(open_log(FIXTURES / name / "table").env)
