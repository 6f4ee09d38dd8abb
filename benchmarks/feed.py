"""The feed of one update of 1,000 rows in a million, through the public API.

The peer is delta-rs, whose table has its change data feed switched on: it writes changes beside the data and reads
those, ours derives them. Both read in turns, from files that the page cache holds.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import indextables
from benchmarks.harness import Bar, best_of, cpu_of

_ROWS = {"small": 100_000, "full": 1_000_000, "soak": 10_000_000}
_FILES = 10
_WORDS = ("timeout", "refused", "slow", "retried", "done")
_TURNS = 7


def run(scale: str) -> list[Bar]:
    count = _ROWS[scale]
    folder = Path(tempfile.mkdtemp(prefix="feed-bench-"))
    try:
        table = indextables.create(folder / "ours", _rows(0, 1).schema, indexing={"message": "text"})
        peer = _peer(folder / "peer", count)
        for first in range(0, count, count // _FILES):
            table.append(_rows(first, first + count // _FILES))
        bars = []
        step, middle = count // 1_000, count // 2
        updates = {
            "1,000 rows spread over all files": f"id % {step} = 7",
            "1,000 rows side by side": f"id >= {middle} AND id < {middle + 1_000}",
        }
        for what, where in updates.items():
            before = _size(folder / "ours")
            began = time.perf_counter()
            version = table.update({"amount": "amount + 1"}, where).version
            ours = time.perf_counter() - began
            written = _size(folder / "ours") - before
            began = time.perf_counter()
            reads = peer and peer(where)
            theirs = time.perf_counter() - began
            found = _read(f"feed of one update of {what}, of {count:,}", table, version, reads)
            both = [ours * 1_000 + found[0].ours, theirs * 1_000 + (found[0].peer or 0)]
            claim = f"the update and its feed together, {what}"
            bars += [
                *found,
                Bar(claim, both[0], both[1] if peer else None, "ms", 1 if peer else None, peer_name="delta-rs"),
            ]
            _ = table.changes(version, version).read_all()
            extra = float(_size(folder / "ours") - before - written)
            bars.append(Bar(f"bytes written for the feed, {what}", extra, None, "B", 0, absolute=True))
    finally:
        shutil.rmtree(folder)
    return bars


def _read(claim: str, table: indextables.Table, version: int | None, other: Callable[[], object] | None) -> list[Bar]:
    def ours() -> object:
        found = table.changes(version, version).read_all()
        assert found.num_rows == 2_000
        return found

    calls = [ours] if other is None else [ours, other]
    for call in calls:
        call()
    times = [[best_of(1, call) for call in calls] for _ in range(_TURNS)]
    least = [min(turn[place] for turn in times) * 1_000 for place in range(len(calls))]
    cpu = [min(cpu_of(call) for _ in range(_TURNS)) * 1_000 for call in calls]
    peer = [*least[1:], None][0], [*cpu[1:], None][0]
    return [
        Bar(claim, least[0], peer[0], "ms", 1 if other else None, peer_name="delta-rs"),
        Bar(f"{claim}: CPU", cpu[0], peer[1], "ms", None, peer_name="delta-rs"),
    ]


def _peer(path: Path, count: int) -> Callable[[str], Callable[[], object]] | None:
    """Updates the same rows of a Delta table, and gives what reads these changes; None without the library."""
    try:
        from deltalake import DeltaTable, write_deltalake
    except ImportError:
        return None
    for first in range(0, count, count // _FILES):
        rows = _rows(first, first + count // _FILES)
        write_deltalake(str(path), rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})

    def changed(where: str) -> Callable[[], object]:
        table = DeltaTable(str(path))
        table.update(predicate=where, updates={"amount": "amount + 1"})
        version = table.version()

        def read() -> object:
            feed = pa.table(table.load_cdf(starting_version=version, ending_version=version))
            assert feed.num_rows == 2_000
            return feed

        return read

    return changed


def _rows(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "key": [f"key-{n}" for n in ids],
            "level": [_WORDS[n % 3] for n in ids],
            "amount": pa.array([n * 1.5 for n in ids], pa.float64()),
            "message": [f"request {n} {_WORDS[n % 5]} {_WORDS[n % 4]}" for n in ids],
            "at": pa.array(ids, pa.timestamp("us", "UTC")),
        }
    )


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
