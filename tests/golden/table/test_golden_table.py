"""A whole table in which every file knows who it is, as it was once written: it reads as it did, and is what it says.

What is pinned is computed here from the bytes, as `docs/PROTOCOL.md` says it, without a hand of the library.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import google_crc32c
import pyarrow.parquet as pq
import pytest

import indextables as it
from indextables.errors import IndexTablesError
from tests.golden.table.build import FORMATS

GOLDEN = json.loads((Path(__file__).parent / "v4.json").read_text())
NEWEST = len(FORMATS) + 1
STATES = {
    1: "_transaction_log/00000000000000000001.checkpoint.json",
    2: "_transaction_log/00000000000000000002.checkpoint.parquet",
    3: "_transaction_log/state-v00000000000000000003/_manifest.avro",
}


def placed(golden, path):
    for key, text in golden["objects"].items():
        file = path / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b85decode(text))
    return path


@pytest.fixture
def path(tmp_path):
    return placed(GOLDEN, tmp_path / "t")


def stored(path, version):
    return (path / "_transaction_log" / f"{version:020d}.json").read_bytes()


def actions(path, version):
    return [json.loads(line) for line in gzip.decompress(stored(path, version)).splitlines()]


def read(path):
    """All that the golden file says about its table."""
    table = it.open(path)
    rows = [table.at(version).to_arrow().sort_by("id").to_pylist() for version in range(NEWEST + 1)]
    return {"rows": rows, "id": table.metadata.id}


def test_it_reads_as_it_did(path):
    assert read(path) == {"rows": GOLDEN["rows"], "id": GOLDEN["id"]}
    assert it.verify(path).ok
    assert it.open(path).count("both") == 6
    assert it.open(path).append(it.open(path).to_arrow()) == NEWEST + 1


@pytest.mark.parametrize("version", STATES)
def test_every_checkpoint_of_it_is_read_alone(path, version):
    for above in range(version + 1, NEWEST + 1):
        for file in (path / "_transaction_log").glob(f"*{above:020d}*"):
            [one.unlink() for one in ([file] if file.is_file() else file.iterdir())]
    for below in range(version):
        (path / "_transaction_log" / f"{below:020d}.json").unlink()
    (path / "_transaction_log" / "_last_checkpoint").unlink()
    assert it.open(path).to_arrow().sort_by("id").to_pylist() == GOLDEN["rows"][version]


def test_a_version_names_itself_and_the_bytes_of_the_one_below(path):
    for version in range(NEWEST + 1):
        info = actions(path, version)[0]["commitInfo"]
        assert info["version"] == version
        assert info["tableId"] == GOLDEN["id"]
        if version:
            below = actions(path, version - 1)[0]["commitInfo"]
            crc = google_crc32c.value(stored(path, version - 1))
            assert info["previous"] == {"token": below["token"], "crc32c": crc}


def test_a_split_carries_the_id_that_the_log_and_its_name_give_it(path):
    adds = [action["add"] for version in range(NEWEST + 1) for action in actions(path, version) if "add" in action]
    assert len(adds) == 2 * len(FORMATS) + 1
    for add in adds:
        assert re.search(r"split-([0-9a-f]{32})\.split$", add["path"])[1] == add["splitId"]
        facts = pq.read_metadata(path / add["path"]).metadata
        assert json.loads(facts[b"indextables.split"])["id"] == add["splitId"]


@pytest.mark.parametrize("version", STATES)
def test_a_checkpoint_is_sealed(path, version):
    data = (path / STATES[version]).read_bytes()
    data = gzip.decompress(data) if STATES[version].endswith(".json") else data
    marks = list(re.finditer(rb"indextables\.crc32c=([0-9a-f]{8})", data))
    blanked = [data[: mark.start(1)] + b"--------" + data[mark.end(1) :] for mark in marks]
    assert [mark[1] for mark in marks] == [b"%08x" % google_crc32c.value(text) for text in blanked]
    assert len(marks) == 1


@pytest.mark.parametrize("key", sorted(key for key in GOLDEN["objects"] if key.endswith(".split")))
def test_another_split_in_its_place_is_no_answer(path, key):
    other = next(name for name in sorted(GOLDEN["objects"], reverse=True) if name.endswith(".split") and name != key)
    (path / key).write_bytes((path / other).read_bytes())
    for ask in (lambda: it.open(path).to_arrow(), lambda: it.open(path).search("both OR last")):
        with pytest.raises(IndexTablesError):
            ask()


def shape(found):
    """The names of actions and of their fields."""
    return [(name, sorted(value)) for action in found for name, value in action.items()]
