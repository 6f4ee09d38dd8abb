"""What a process did with a table is told as numbers, and as one line each."""

from __future__ import annotations

import logging
import sys

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


class Meter:
    """What `opentelemetry.metrics` offers, as far as libraries use it."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.points: list[tuple[str, float, dict[str, str]]] = []

    def get_meter(self, name: str) -> Meter:
        assert name == "indextables"
        return self

    def create_histogram(self, name: str, unit: str) -> Meter.Instrument:
        self.made.append(f"{name} {unit}")
        return Meter.Instrument(self, name)

    create_counter = create_histogram

    class Instrument:
        def __init__(self, meter: Meter, name: str) -> None:
            self.meter, self.name = meter, name

        def record(self, amount: float, attributes: dict[str, str]) -> None:
            self.meter.points.append((self.name, amount, attributes))

        add = record


def test_each_is_a_point_of_opentelemetry_where_the_application_uses_it(tmp_path, monkeypatch):
    meter = Meter()
    monkeypatch.setattr("indextables.measures._INSTRUMENTS", {})
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", meter)
    table = indextables.create(tmp_path / "t", pa.schema([("k", pa.int64())]))
    for k in range(3):
        table.append([{"k": k}])
    table.checkpoint()
    attempts = [amount for name, amount, _ in meter.points if name == "indextables.commit.attempts"]
    assert attempts == [1, 1, 1]
    assert {"indextables.commit.duration s", "indextables.checkpoint.duration s"} <= set(meter.made)
    assert len(meter.made) == len(set(meter.made))
    assert {told["indextables.table"] for _, _, told in meter.points} == {table.url}
    monkeypatch.setattr(meter.Instrument, "record", None)
    table.append([{"k": 9}])
    assert table.count() == 4
