"""What a handle reads after it wrote: a commit in the log is never reported as failed, and a pin never goes back."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

import indextables
from indextables.errors import LogError

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
UNCACHED = {"transaction.cache.enabled": "false"}


@pytest.fixture
def damaged(tmp_path):
    """A table whose version 2 is taken away while a handle is at version 3; calling the result puts it back."""
    table = indextables.create(tmp_path / "t", SCHEMA, partition_by=["p"], options=UNCACHED)
    for number in range(3):
        table.append([{"id": number, "p": "a"}])
    lost = tmp_path / "t" / "_transaction_log" / "00000000000000000002.json"
    kept = lost.read_bytes()
    lost.unlink()
    return table, lambda: lost.write_bytes(kept)


def test_an_append_that_landed_returns_its_version_although_the_log_cannot_be_read(damaged, tmp_path, caplog):
    table, restore = damaged
    with caplog.at_level(logging.WARNING, "indextables"):
        version = table.append([{"id": 99, "p": "a"}])
    assert (version, table.version) == (4, 4)
    assert "version 4" in caplog.text
    with pytest.raises(LogError):
        table.append([{"id": 100, "p": "a"}])
    with pytest.raises(LogError):
        table.count()
    restore()
    assert table.count() == indextables.open(tmp_path / "t").count() == 4
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 99]


def test_a_batch_that_is_there_already_does_not_move_the_handle_back(tmp_path):
    table = indextables.create(tmp_path / "t", SCHEMA)
    first = table.append([{"id": 1}], txn=("app", 1))
    table.append([{"id": 2}])
    assert table.append([{"id": 1}], txn=("app", 1)) == first
    assert (table.version, table.count()) == (2, 2)


def test_properties_of_the_table_hold_for_every_verb(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    properties = {"state.format": "json", "timeZone": "Asia/Tokyo"}
    table = indextables.create(tmp_path / "t", schema, properties=properties)
    table.append(pa.table({"id": [1], "ts": pa.array([0], pa.timestamp("us", "UTC"))}))
    assert table.count(where="ts = timestamp '1970-01-01 09:00:00'") == 1
    assert table.to_arrow(where="ts = timestamp '1970-01-01 00:00:00'").num_rows == 0
    table.checkpoint()
    assert table.state().format == "json"
    other = indextables.open(tmp_path / "t", options={"timeZone": "UTC"})
    assert other.count(where="ts = timestamp '1970-01-01 00:00:00'") == 1
