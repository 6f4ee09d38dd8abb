"""Tables of protocol 1 to 3: another system wrote their statistics, which are trusted as far as its rules go."""

from __future__ import annotations

import json

import pytest

import indextables

SCHEMA = (
    '{"type":"struct","fields":[{"name":"s","type":"string","nullable":true,"metadata":{}},'
    '{"name":"v","type":"double","nullable":true,"metadata":{}}]}'
)
LONG = "a" * 31 + "m" + "zzzz"


@pytest.fixture(params=[1, 2, 3])
def older(tmp_path, request):
    """One file whose greatest text was cut at 32 characters, as its writer did."""
    log = tmp_path / "t" / "_transaction_log"
    log.mkdir(parents=True)
    metadata = {
        "id": "x",
        "format": {"provider": "indextables", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1,
    }
    add = {
        "path": "p.split",
        "partitionValues": {},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
        "numRecords": 2,
        "minValues": {"s": "a", "v": "1.0"},
        "maxValues": {"s": LONG[:32], "v": "2.0"},
    }
    protocol = {"minReaderVersion": request.param, "minWriterVersion": request.param}
    lines = [{"protocol": protocol}, {"metaData": metadata}, {"add": add}]
    (log / "00000000000000000000.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return indextables.open(tmp_path / "t")


def test_a_cut_maximum_does_not_hide_a_file(older):
    assert older.files(where=f"s = '{LONG}'").num_rows == 1
    assert older.files(where="v > 5").num_rows == 1


def test_what_the_statistics_do_prove_still_prunes(older):
    assert older.files(where="s < 'a'").num_rows == 0
    assert older.files(where="v < 0.5").num_rows == 0
