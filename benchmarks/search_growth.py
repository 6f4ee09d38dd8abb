"""Searching 10, 100 and 1,000 small splits: first search of a process, new handle, same handle, after an append.

Ours goes through the public API, and each split is a file of one row with its index. The peer is LanceDB, filled by as
many `add`s of a row and then indexed: it has one index over all rows where ours has one per split, and finds rows that
were added later by looking at each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import lancedb
import pyarrow as pa
from lancedb.index import FTS

import indextables
from benchmarks.harness import Bar, growth

SCHEMA = pa.schema([("part", pa.int64()), ("message", pa.string())])
QUERY = "timeout"
ROUNDS = 25

# What a new process does, with what its imports cost left out of it.
_OURS = """
import json, sys, time
import indextables, pyarrow
path, cache, query = sys.argv[1:]
table = indextables.open(path, options={"cache.directory": cache})
opened, cpu = time.perf_counter(), time.process_time()
found = table.search(query).num_rows
print(json.dumps([time.perf_counter() - opened, time.process_time() - cpu, found]))
"""
_LANCE = """
import json, sys, time
import lancedb, pyarrow
path, _, query = sys.argv[1:]
table = lancedb.connect(path).open_table("logs")
opened, cpu = time.perf_counter(), time.process_time()
found = table.search(query, query_type="fts").limit(10).to_arrow().num_rows
print(json.dumps([time.perf_counter() - opened, time.process_time() - cpu, found]))
"""


def run(scale: str) -> list[Bar]:
    sizes = {"small": (10, 50), "full": (10, 100, 1_000)}.get(scale, (10, 100, 1_000))
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as scratch:
        for splits in sizes:
            folder = Path(scratch) / str(splits)
            folder.mkdir()
            rows = [{"part": n, "message": f"line {n}: connection timeout after {n % 7} s"} for n in range(splits)]
            _make_ours(folder / "ours", rows)
            _make_lance(folder / "lance", rows)
            bars += _bars(splits, folder)
    return bars + _growth(bars, sizes[0], sizes[-1])


def _growth(bars: list[Bar], few: int, many: int) -> list[Bar]:
    """How much more the same takes over many splits, ours beside LanceDB's."""
    known = {bar.claim: bar for bar in bars}
    found = []
    for what in ("first search of a process", "the same handle", "a new handle, its open left out"):
        less, more = (known[f"{splits:,} splits: {what}"] for splits in (few, many))
        peer = (less.peer, more.peer) if less.peer and more.peer else None
        found.append(growth(f"{what}, {few} to {many:,} splits", (less.ours, more.ours), peer, "LanceDB"))
    return found


def _bars(splits: int, folder: Path) -> list[Bar]:
    ours, lance = str(folder / "ours"), str(folder / "lance")
    (first, first_cpu), (theirs, their_cpu) = _of_a_process(_OURS, ours), _of_a_process(_LANCE, lance)
    new, same = _handles(ours)
    lance_new, lance_same = _lance_handles(lance)
    after, after_cpu = _after_append(ours, splits)
    lance_after = _lance_after_append(lance, splits)
    most, per_split = (1_000.0, 0.1) if splits == 1_000 else (None, None)
    named = f"{splits:,} splits"
    return [
        Bar(f"{named}: first search of a process", first, theirs, "ms", most, peer_name="LanceDB", absolute=True),
        Bar(f"{named}: the same, CPU", first_cpu, their_cpu, "ms", most, peer_name="LanceDB", absolute=True),
        Bar(f"{named}: the same handle", same, lance_same, "ms", peer_name="LanceDB"),
        Bar(f"{named}: a new handle, its open left out", new, lance_new, "ms", peer_name="LanceDB"),
        Bar(f"{named}: a new handle above the same one", new - same, None, "ms", 1.0, absolute=True),
        Bar(f"{named}: refresh and search after an append", after, lance_after, "ms", peer_name="LanceDB"),
        Bar(f"{named}: the same, CPU for each split", after_cpu / splits, None, "ms", per_split, absolute=True),
    ]


def _make_ours(path: Path, rows: list[dict[str, object]]) -> None:
    # A partition of its own keeps each row in a split of its own, whatever upkeep does.
    table = indextables.create(path, SCHEMA, partition_by=["part"], indexing={"message": "text"})
    table.append(rows)
    assert table.files().num_rows == len(rows)


def _make_lance(path: Path, rows: list[dict[str, object]]) -> None:
    table = lancedb.connect(path).create_table("logs", schema=SCHEMA)
    for row in rows:
        table.add([row])
    table.create_index("message", config=FTS())


def _of_a_process(code: str, path: str) -> tuple[float, float]:
    """Milliseconds of the first search and of its CPU: the least of three processes, each with a cache of its own."""
    told = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-c", code, path, cache, QUERY]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            told.append(json.loads(done.stdout))
    assert all(found == 10 for _, _, found in told)
    return 1_000 * min(wall for wall, _, _ in told), 1_000 * min(cpu for _, cpu, _ in told)


def _handles(path: str) -> tuple[float, float]:
    warm = indextables.open(path)
    warm.search(QUERY)
    new, same = [], []
    for _ in range(ROUNDS):
        handle = indextables.open(path)
        new.append(_ms(lambda handle=handle: handle.search(QUERY)))
        same.append(_ms(lambda: warm.search(QUERY)))
    return min(new), min(same)


def _lance_handles(path: str) -> tuple[float, float]:
    warm = lancedb.connect(path).open_table("logs")
    warm.search(QUERY, query_type="fts").limit(10).to_arrow()
    new, same = [], []
    for _ in range(ROUNDS):
        handle = lancedb.connect(path).open_table("logs")
        new.append(_ms(lambda handle=handle: handle.search(QUERY, query_type="fts").limit(10).to_arrow()))
        same.append(_ms(lambda: warm.search(QUERY, query_type="fts").limit(10).to_arrow()))
    return min(new), min(same)


def _after_append(path: str, splits: int) -> tuple[float, float]:
    """Milliseconds of refresh and search, and of their CPU: the least of five appends."""
    reader, writer = indextables.open(path), indextables.open(path)
    reader.search(QUERY)
    told, cpu = [], []
    for n in range(5):
        writer.append([{"part": splits + n, "message": f"line {splits + n}: connection timeout"}])
        began = process_time()
        told.append(_ms(lambda: reader.refresh().search(QUERY)))
        cpu.append(1_000 * (process_time() - began))
    assert reader.count(QUERY) == splits + 5
    return min(told), min(cpu)


def _lance_after_append(path: str, splits: int) -> float:
    reader, writer = lancedb.connect(path).open_table("logs"), lancedb.connect(path).open_table("logs")
    told = []

    def search() -> None:
        reader.checkout_latest()
        reader.search(QUERY, query_type="fts").limit(10).to_arrow()

    search()
    for n in range(5):
        writer.add([{"part": splits + n, "message": f"line {splits + n}: connection timeout"}])
        told.append(_ms(search))
    return min(told)


def _ms(call) -> float:
    began = perf_counter()
    call()
    return 1_000 * (perf_counter() - began)
