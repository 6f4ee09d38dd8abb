"""Changes of rows through the public API: upserts, point deletes and updates, and what reads pay for them afterwards.

The key is a text that the index holds as a whole, spread over ten splits. Ours and the peers change the same rows, one
after the other in turns. Upserts and points are told in CPU, which depends less on what else the machine does; reads
and processes by the clock. A peer that is not installed is left out: `make bench` installs all of them.
"""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import indextables
from benchmarks.harness import Bar, best_of, cpu_of

_SPLITS = 10
_PROCESSES, _UPDATES = 8, 50
_QUIET = {"mergeOnWrite.enabled": "false"}
_SCHEMA = pa.schema(
    [("key", pa.string()), ("n", pa.int64()), ("price", pa.float64()), ("city", pa.string()), ("message", pa.string())]
)


def run(scale: str) -> list[Bar]:
    rows = {"small": 100_000, "full": 1_000_000, "soak": 10_000_000}[scale]
    with tempfile.TemporaryDirectory(prefix="indextables-bench-") as name:
        folder = Path(name)
        data = made(0, rows)
        sides = _sides(folder, data)
        bars = [bar for count in (1_000, 10_000) for bar in upsert_bars(sides, rows, count)]
        bars += point_bars(sides, rows)
        bars += read_bars(folder, data)
        bars += search_bars(folder)
        return bars + process_bars(folder, _UPDATES if scale != "small" else 10)


def made(first: int, count: int) -> pa.Table:
    """Rows `first` to `first + count`, their keys in no order."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    keys = [f"k{number:012x}" for number in (numbers * 2_654_435_761 % 2**40).tolist()]
    cities = pa.array(["Oslo", "Bonn", "Rome", "Lima"]).take(pa.array(numbers % 4))
    messages = [f"order {number} of customer {number % 977}" for number in numbers.tolist()]
    return pa.table([keys, numbers, numbers / 7, cities, messages], schema=_SCHEMA)


class _Side:
    """One library with a table of the rows; each call changes it."""

    name = "ours"

    def __init__(self, folder: Path, data: pa.Table) -> None:
        self.table = indextables.create(folder / "ours", _SCHEMA, indexing={"message": "text"}, properties=_QUIET)
        for start in range(0, data.num_rows, data.num_rows // _SPLITS):
            self.table.append(data.slice(start, data.num_rows // _SPLITS))
        self.table.count(where="key = 'none'")

    def upsert(self, rows: pa.Table) -> object:
        return self.table.upsert(rows, "key")

    def delete(self, key: str) -> object:
        return self.table.delete(f"key = '{key}'")

    def update(self, key: str) -> object:
        return self.table.update({"price": "0"}, f"key = '{key}'")


class _Lance(_Side):
    name = "LanceDB"

    def __init__(self, folder: Path, data: pa.Table) -> None:
        import lancedb

        self.table: Any = lancedb.connect(str(folder / "lance")).create_table("t", data)
        self.table.create_scalar_index("key")

    def upsert(self, rows: pa.Table) -> object:
        merging = self.table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        return merging.execute(rows)

    def delete(self, key: str) -> object:
        return self.table.delete(f"key = '{key}'")

    def update(self, key: str) -> object:
        return self.table.update(f"key = '{key}'", {"price": 0.0})


class _DeltaRs(_Side):
    name = "delta-rs"

    def __init__(self, folder: Path, data: pa.Table) -> None:
        import deltalake

        place = str(folder / "delta")
        for start in range(0, data.num_rows, data.num_rows // _SPLITS):
            deltalake.write_deltalake(place, data.slice(start, data.num_rows // _SPLITS), mode="append")
        self.table: Any = deltalake.DeltaTable(place)

    def upsert(self, rows: pa.Table) -> object:
        merging = self.table.merge(rows, "t.key = s.key", source_alias="s", target_alias="t")
        return merging.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, key: str) -> object:
        return self.table.delete(f"key = '{key}'")

    def update(self, key: str) -> object:
        return self.table.update({"price": "0"}, predicate=f"key = '{key}'")


def _sides(folder: Path, data: pa.Table) -> list[_Side]:
    kinds = {"lancedb": _Lance, "deltalake": _DeltaRs}
    there = [kind for module, kind in kinds.items() if importlib.util.find_spec(module) is not None]
    return [_Side(folder, data), *(kind(folder, data) for kind in there)]


def upsert_bars(sides: list[_Side], rows: int, count: int) -> list[Bar]:
    """Nine of ten keys are there already."""
    spread = np.linspace(0, rows - 1, count - count // 10, dtype=np.int64)
    base = made(0, rows)
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for turn in range(3):
        given = pa.concat_tables([base.take(pa.array((spread + turn) % rows)), made(rows * (turn + 2), count // 10)])
        for side in sides:
            times[side.name].append(cpu_of(lambda side=side, given=given: side.upsert(given)))
    lance = 1.0 if count == 1_000 else 1.5
    return _compared(f"upsert of {count:,} of {rows:,} rows, CPU", times, {"LanceDB": lance, "delta-rs": 0.2})


def point_bars(sides: list[_Side], rows: int) -> list[Bar]:
    keys = made(0, rows)["key"].take(pa.array(np.linspace(0, rows - 1, 24, dtype=np.int64))).to_pylist()
    deletes: dict[str, list[float]] = {side.name: [] for side in sides}
    updates: dict[str, list[float]] = {side.name: [] for side in sides}
    for number, key in enumerate(keys[:12]):
        for side in sides:
            if side.name == "delta-rs" and number > 3:
                continue
            deletes[side.name].append(cpu_of(lambda side=side, key=key: side.delete(key)))
            updates[side.name].append(cpu_of(lambda side=side, key=keys[-1 - number]: side.update(key)))
    return [
        *_compared("point delete, CPU", deletes, {"LanceDB": 1.0, "delta-rs": 0.05}),
        *_compared("point update, CPU", updates, {"LanceDB": 1.2, "delta-rs": 0.05}),
    ]


def _compared(claim: str, times: dict[str, list[float]], bars: dict[str, float]) -> list[Bar]:
    ours = 1000 * statistics.median(times.pop("ours"))
    if not times:
        return [Bar(claim, ours, None, "ms")]
    return [
        Bar(claim, ours, 1000 * statistics.median(found), "ms", bars[name], peer_name=name)
        for name, found in times.items()
    ]


def read_bars(folder: Path, data: pa.Table) -> list[Bar]:
    """A sum over a column after 5 % of the rows of a tenth of the files, and of all files, are deleted, and folded."""
    table = indextables.create(folder / "read", _SCHEMA, properties=_QUIET)
    plain = folder / "plain"
    plain.mkdir()
    size = data.num_rows // _SPLITS
    for number in range(_SPLITS):
        part = data.slice(number * size, size)
        table.append(part)
        pq.write_table(part, plain / f"{number}.parquet", compression="zstd")

    def ours() -> object:
        return pc.sum(table.to_arrow(["price"])["price"])

    def peer() -> object:
        return pc.sum(ds.dataset(plain).to_table(["price"])["price"])

    steps: list[tuple[str, Callable[[], object], float | None]] = [
        ("nothing deleted", lambda: None, None),
        ("5 % deleted in a tenth of the files", lambda: table.delete(f"n % 20 = 0 AND n < {size}"), 1.5),
        ("5 % deleted in all files", lambda: table.delete("n % 20 = 0"), 1.7),
        ("10 % deleted, folded", lambda: (table.delete("n % 20 = 1"), table.merge_splits(target_size=1)), 1.05),
    ]
    found = []
    for what, change, bar in steps:
        change()
        # In turns: both see the same minutes of the machine.
        times = [(best_of(1, ours), best_of(1, peer)) for _ in range(9)]
        least = [1000 * min(side) for side in zip(*times, strict=True)]
        found.append(Bar(f"sum, {what}", least[0], least[1], "ms", bar, peer_name="plain Parquet"))
    return found


def search_bars(folder: Path) -> list[Bar]:
    """100 splits; the first search of the version that a point delete made, less one of the version before."""
    table = indextables.create(folder / "many", _SCHEMA, indexing={"message": "text"}, properties=_QUIET)
    for number in range(100):
        table.append(made(number * 100, 100))
    more = []
    for number in range(9):
        before = best_of(3, lambda: table.search("customer 42", limit=10))
        table.delete(f"n = {number * 997}")
        more.append(best_of(1, lambda: table.search("customer 42", limit=10)) - before)
    claim = "first search after a point delete, 100 splits: more than before"
    return [Bar(claim, 1000 * statistics.median(more), None, "ms", 30, absolute=True)]


_WORKER = """
import sys, indextables
from indextables.errors import IndexTablesError
table, worker, count = indextables.open(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
sys.stdin.read()
refused = 0
for number in range(count):
    try:
        table.update({"price": "-1"}, f"n = {worker * count + number}")
    except IndexTablesError:
        refused += 1
print(refused)
"""


def process_bars(folder: Path, updates: int) -> list[Bar]:
    """Processes that update different rows of one split, all at once."""
    total = _PROCESSES * updates
    table = indextables.create(folder / "processes", _SCHEMA, properties=_QUIET)
    table.append(made(0, total * 2))
    command = [sys.executable, "-c", _WORKER, table.url]
    workers = [
        subprocess.Popen([*command, str(n), str(updates)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(_PROCESSES)
    ]
    time.sleep(3)
    began = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
    refused = sum(int(worker.stdout.read() if worker.stdout is not None else 0) for worker in workers)
    seconds = time.perf_counter() - began
    for worker in workers:
        worker.wait()
    done = table.refresh().count(where="price = -1")
    what = f"{_PROCESSES} processes x {updates} updates of one split"
    return [
        Bar(f"{what}: refused", refused, None, "", 0, absolute=True),
        Bar(f"{what}: lost", total - refused - done, None, "", 0, absolute=True),
        Bar(f"{what}: rate", total / seconds, None, "per s", 20, "at least", absolute=True),
    ]
