"""10,000 keys into very many rows: an upsert by the index against a scan of the key's column, and the memory it takes.

Splits of a million rows with a text key in no order, and a number; nine of ten keys are there, spread over all splits.
The upsert and the scan run in a process of its own each, after the same for other keys. `--scale soak` makes
100 splits; full ten, small two of 100,000 rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import indextables
from benchmarks.harness import Bar, peak_rss_mib

_KEYS = 10_000


def run(scale: str) -> list[Bar]:
    splits, rows = {"small": (2, 100_000), "full": (10, 1_000_000), "soak": (100, 1_000_000)}[scale]
    with tempfile.TemporaryDirectory(prefix="many-keys-bench-") as name:
        return measured(Path(name) / "t", splits, rows)


def measured(place: Path, splits: int, rows: int) -> list[Bar]:
    if not place.exists():
        build(place, splits, rows)
    total = splits * rows
    found = {what: _apart(what, place, total) for what in ("scan", "upsert")}
    claim = f"upsert of {_KEYS:,} keys into {total / 1e6:g} M rows in {splits} splits"
    return [
        Bar(f"{claim}{by}", found["upsert"][kind], found["scan"][kind], "s", bar, peer_name="scan of the key's column")
        for kind, by, bar in (("wall", "", 0.2), ("cpu", ", CPU", None))
    ] + [
        Bar(f"{claim}: memory", found["upsert"]["memory"], None, "MiB", 1024, absolute=True),
        Bar(f"{claim}: of it files that are mapped", found["upsert"]["mapped"], None, "MiB", absolute=True),
    ]


def build(place: Path, splits: int, rows: int) -> None:
    quiet = {"mergeOnWrite.enabled": "false"}
    table = indextables.create(place, made(0, 1).schema, indexing={"n": "none"}, properties=quiet)
    for number in range(splits):
        table.append(made(number * rows, rows))


def made(first: int, count: int) -> pa.Table:
    """Rows `first` to `first + count`, their keys in no order, none twice."""
    return _rows(np.arange(first, first + count, dtype=np.int64))


def _rows(numbers: np.ndarray) -> pa.Table:
    keys = [f"k{number:012x}" for number in (numbers * 2_654_435_761 % 2**40).tolist()]
    return pa.table({"key": keys, "n": numbers})


def _apart(what: str, place: Path, total: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.many_keys", what, str(place), str(total)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    answer: dict[str, float] = json.loads(told.splitlines()[-1])
    return answer


def _upsert(table: indextables.Table, rows: pa.Table) -> int:
    report = table.upsert(rows, "key")
    print(report.located_by, report.metrics, file=sys.stderr)
    return report.updated


def _scan(table: indextables.Table, rows: pa.Table) -> int:
    """How many rows have one of these keys, batch by batch."""
    keys = rows["key"].combine_chunks()
    return sum(pc.sum(pc.is_in(batch["key"], value_set=keys)).as_py() for batch in table.scan(["key"]))


def _measure(what: str, place: str, total: int) -> None:
    table = indextables.open(place)
    spread = np.linspace(1, total - 1, _KEYS - _KEYS // 10, dtype=np.int64)
    rows = pa.concat_tables([_rows(spread), made(total, _KEYS // 10)])
    # Other keys before, on both sides: splits are open, and what is measured is the work for the keys.
    others = pa.concat_tables([_rows(spread - 1), made(2 * total, _KEYS // 10)])
    if what == "upsert":
        table.upsert(others, "key", dry_run=True)
    else:
        _scan(table, others)
    began, spent = time.perf_counter(), time.process_time()
    found = {"upsert": _upsert, "scan": _scan}[what](table, rows)
    wall, cpu, after = time.perf_counter() - began, time.process_time() - spent, peak_rss_mib()
    assert found == len(spread), found
    print(json.dumps({"wall": wall, "cpu": cpu, "memory": after, "mapped": _mapped_mib()}))


def _mapped_mib() -> float:
    """Pages of files in the resident size of this process, which the system takes back when it needs them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssFile"))


if __name__ == "__main__":
    _measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))
