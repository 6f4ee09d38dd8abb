"""Beside other systems: what a Delta mirror costs a commit, how fast it catches up, and what reading them takes.

Appends with and without a mirror alternate, so that both see the same minutes of a machine that others use, too. A
Delta table with many files has a log and no rows: opening it, and asking for its files, is all that is measured.
Conversions are in `interop_spark`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import indextables
from benchmarks.harness import Bar, cpu_of
from benchmarks.peer_table import write_peer_table

_APPENDS = {"small": 120, "full": 600, "soak": 2_000}
_VERSIONS = {"small": 600, "full": 3_000, "soak": 10_000}
_ROWS = {"small": 200_000, "full": 2_000_000, "soak": 2_000_000}
_FILES = 100_000
_SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string())])
_WITHOUT = {"mergeOnWrite.enabled": "false"}


def run(scale: str) -> list[Bar]:
    folder = Path(tempfile.mkdtemp(prefix="interop-bench-"))
    try:
        mirrored, plain = _appends(folder, _APPENDS[scale])
        behind = _catch_up(folder / "late", _VERSIONS[scale])
        scanned, by_arrow = _scans(folder / "delta", _ROWS[scale])
        peers = _peer_rows(folder / "peer", _ROWS[scale] // 10)
        opened, by_peer = _opens(folder / "many", _FILES)
    finally:
        shutil.rmtree(folder)
    versions, rows = _VERSIONS[scale], _ROWS[scale]
    return [
        Bar("append of 100 rows with a mirror, median", mirrored, plain, "ms", 1.15, peer_name="without"),
        Bar(f"catch-up of {versions:,} versions, per 10,000", behind, None, "s", 10, absolute=True),
        Bar(f"open a Delta table of {_FILES:,} files: CPU", opened, by_peer, "s", 1, peer_name="deltalake"),
        Bar(f"scan {rows:,} rows of Delta: CPU", scanned, by_arrow, "s", 1.1, peer_name="pyarrow"),
        Bar("rows of IndexTables4Spark, per second of CPU", peers, None, "rows", 100_000, "at least", absolute=True),
    ]


def _lines(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    words = [f"request {i} served in {i % 997} ms by host {i % 31}" for i in ids]
    return pa.table([list(ids), [("INFO", "WARN", "ERROR")[i % 3] for i in ids], words], schema=_SCHEMA)


def _appends(folder: Path, count: int) -> tuple[float, float]:
    properties = ({"mirror.delta": "true", **_WITHOUT}, _WITHOUT)
    tables = [indextables.create(folder / str(n), _SCHEMA, properties=p) for n, p in enumerate(properties)]
    taken: list[list[float]] = [[], []]
    for number in range(count):
        rows = _lines(number * 100, 100)
        for side in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter()
            tables[side].append(rows)
            taken[side].append(time.perf_counter() - began)
    mirrored, plain = (1000 * statistics.median(times[count // 10 :]) for times in taken)
    return mirrored, plain


def _catch_up(path: Path, versions: int) -> float:
    """Seconds for 10,000 versions."""
    properties = {"mirror.delta": "true", **_WITHOUT}
    table = indextables.create(path, _SCHEMA, properties=properties, options={"storage.fsync": "false"})
    for number in range(versions):
        table.append([{"id": number}])
    for file in (path / "_delta_log").iterdir():
        if file.name != f"{0:020d}.json":
            file.unlink()
    late = indextables.open(path)
    began = time.perf_counter()
    report = late.mirror()
    taken = time.perf_counter() - began
    assert report.written == versions
    return taken * 10_000 / versions


def _scans(source: Path, count: int) -> tuple[float, float]:
    for part in range(8):
        write_deltalake(source, _lines(part * count // 8, count // 8), mode="append")
    ours, theirs = indextables.open(source), DeltaTable(source).to_pyarrow_dataset()
    # In turns: what the machine does besides meets both.
    taken = [(cpu_of(ours.to_arrow), cpu_of(theirs.to_table)) for _ in range(7)]
    return min(ours for ours, _ in taken), min(theirs for _, theirs in taken)


def _peer_rows(path: Path, count: int) -> float:
    write_peer_table(path, _lines(0, count))
    return count / min(cpu_of(indextables.open(path).to_arrow) for _ in range(3))


def _opens(path: Path, count: int) -> tuple[float, float]:
    log = path / "_delta_log"
    log.mkdir(parents=True)
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("day", "string"))
    ]
    told = {
        "id": "many",
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": ["day"],
        "configuration": {},
    }
    schema = json.dumps({"type": "struct", "fields": fields})
    with (log / f"{0:020d}.json").open("w") as file:
        file.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        file.write(json.dumps({"metaData": {**told, "schemaString": schema, "createdTime": 0}}) + "\n")
        for number in range(count):
            bounds = {
                "numRecords": 10,
                "minValues": {"id": number},
                "maxValues": {"id": number + 9},
                "nullCount": {"id": 0},
            }
            add = {
                "path": f"day=d{number % 100}/part-{number:09d}.parquet",
                "partitionValues": {"day": f"d{number % 100}"},
                "size": 1000,
                "modificationTime": 1,
                "dataChange": True,
                "stats": json.dumps(bounds),
            }
            file.write(json.dumps({"add": add}) + "\n")
    DeltaTable(path).create_checkpoint()
    ours = min(cpu_of(lambda: indextables.open(path).files()) for _ in range(3))
    return ours, min(cpu_of(lambda: DeltaTable(path).get_add_actions(flatten=True)) for _ in range(3))
