"""What a process did with a table is told as numbers, and as one line each."""

from __future__ import annotations

import logging

import pyarrow as pa

import indextables


def test_commits_loads_and_checkpoints_are_counted_and_logged(tmp_path, caplog):
    caplog.set_level(logging.INFO, "indextables")
    table = indextables.create(
        tmp_path / "t", pa.schema([("k", pa.int64())]), properties={"checkpoint.enabled": "false"}
    )
    table.append([{"k": 1}, {"k": 2}])
    other = indextables.open(tmp_path / "t")
    other.delete("k = 1")
    before = table.metrics()
    assert before["newest checkpoint"]["version"] == -1
    assert before["checkpoint"]["count"] == 0
    assert before["commit"]["count"] == 2 == before["commit"]["attempts"]
    table.checkpoint()
    indextables.open(tmp_path / "t").detail()
    told = table.metrics()
    assert told["checkpoint"]["count"] == 1
    assert told["newest checkpoint"]["version"] == table.refresh().version
    assert told["newest checkpoint"]["size_bytes"] > 0
    assert told["state load"]["count"] >= 1
    assert told["commit"]["longest_seconds"] <= told["commit"]["seconds"]
    assert all(0 <= rate <= 1 for rate in told["caches"].values())
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert sum(line.startswith(f"commit of {table.url}: ") for line in lines) == 2
    assert sum(line.startswith(f"checkpoint of {table.url}: ") and " s" in line for line in lines) >= 1
    assert any(line.startswith(f"state load of {table.url}: ") for line in lines)
