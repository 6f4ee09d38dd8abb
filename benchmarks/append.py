"""One small append, as a user makes it: with its index, beside delta-rs and LanceDB, which write none.

One row at a time through the public API: by one handle, by a new handle each time, by 8 threads of one process and by 8
processes, at 10 and at 1,000 versions. Ours and the peers take turns, on the same disk. Of the three only ours forces
what it writes to the disk; what it costs without that is told beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pyarrow as pa

from benchmarks.harness import Bar

WRITERS, APPENDS = 8, 50
ROUNDS = 60

ROW = pa.table(
    {
        "id": pa.array([1], pa.int64()),
        "level": ["INFO"],
        "message": ["the disk of node 7 is full, and a job waits for it"],
        "time": pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC")),
        "value": [1.5],
    }
)
"""With one text column, one of whole values and two of numbers in the index."""

Append = Callable[[], object]


def run(scale: str) -> list[Bar]:
    lengths = (10, 1_000) if scale != "small" else (10, 100)
    bars: list[Bar] = []
    medians = {length: _at(length) for length in lengths}
    for length, found in medians.items():
        bars += _bars_of(length, found)
    first, last = min(medians), max(medians)
    for kind in ("one handle", "a new handle"):
        ours = medians[last]["ours", kind], medians[first]["ours", kind]
        claim = f"growth from {first:,} to {last:,} versions, {kind}"
        bars.append(Bar(claim, *(1e3 * seconds for seconds in ours), "ms", 1.3, peer_name=f"at {first:,}"))
    return [*bars, *_threads(), *_processes()]


def _bars_of(length: int, found: dict[tuple[str, str], float]) -> list[Bar]:
    ms = {key: seconds * 1e3 for key, seconds in found.items()}
    bars = [
        Bar(
            f"one row at {length:,} versions, {kind}",
            ms["ours", kind],
            ms["delta", kind],
            "ms",
            1.0,
            "at most",
            "delta-rs",
        )
        for kind in ("one handle", "a new handle")
    ]
    claim = f"one row at {length:,} versions, one handle, without fsync, as the peers"
    bars.append(Bar(claim, ms["ours unsafe", "one handle"], ms["delta", "one handle"], "ms", peer_name="delta-rs"))
    if ("lance", "one handle") in ms:
        claim = f"one row at {length:,} versions, one handle, against `add` without an index"
        bars.append(Bar(claim, ms["ours", "one handle"], ms["lance", "one handle"], "ms", peer_name="LanceDB"))
    return bars


def _at(length: int) -> dict[tuple[str, str], float]:
    """The median seconds of an append, by side and kind of handle; the sides take turns."""
    with _folder() as folder:
        calls: dict[tuple[str, str], Append] = {}
        for side, open_side in SIDES.items():
            for kind in ("one handle", "a new handle"):
                place = f"{folder}/{side}-{kind}".replace(" ", "-")
                with contextlib.suppress(ImportError):
                    calls[side, kind] = open_side(place, kind == "a new handle")
        for call in calls.values():
            for _ in range(length):
                call()
        seconds: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
        for _ in range(ROUNDS):
            for key, call in calls.items():
                seconds[key].append(_timed(call))
    return {key: median(found) for key, found in seconds.items()}


def _ours(place: str, anew: bool, **options: str) -> Append:
    import indextables

    table = indextables.create(place, ROW.schema, indexing={"message": "text"}, options=options)
    if anew:
        return lambda: indextables.open(place, options).append(ROW)
    return lambda: table.append(ROW)


def _delta(place: str, anew: bool) -> Append:
    import deltalake

    deltalake.write_deltalake(place, ROW)
    if anew:
        return lambda: deltalake.write_deltalake(place, ROW, mode="append")
    table = deltalake.DeltaTable(place)
    return lambda: deltalake.write_deltalake(table, ROW, mode="append")


def _lance(place: str, anew: bool) -> Append:
    import lancedb

    table = lancedb.connect(place).create_table("t", ROW)
    if anew:
        return lambda: lancedb.connect(place).open_table("t").add(ROW)
    return lambda: table.add(ROW)


SIDES: dict[str, Callable[[str, bool], Append]] = {
    "ours": _ours,
    "ours unsafe": lambda place, anew: _ours(place, anew, **{"storage.fsync": "false"}),
    "delta": _delta,
    "lance": _lance,
}


def _threads() -> list[Bar]:
    """Threads of one process: ours share a handle. Each side twice, in turns; the better of two."""
    rates: dict[str, float] = {}
    with _folder() as folder:
        for turn in range(2):
            for side in ("ours", "delta"):
                call = SIDES[side](f"{folder}/{side}{turn}", side == "delta")
                call()
                began = time.perf_counter()
                with ThreadPoolExecutor(WRITERS) as pool:
                    done = sum(pool.map(lambda _, call=call: _lands(call), range(WRITERS * APPENDS)))
                rates[side] = max(rates.get(side, 0.0), done / (time.perf_counter() - began))
    claim = f"{WRITERS} threads x {APPENDS}, appends per second"
    return [Bar(claim, rates["ours"], rates["delta"], "/s", 1.5, "at least", "delta-rs")]


def _processes() -> list[Bar]:
    """Processes, each with a handle of its own. Each side twice, in turns; the better of two, and the worst p99."""
    found: dict[str, list[dict[str, float]]] = {"ours": [], "delta": []}
    for _ in range(2):
        for side, results in found.items():
            with _folder() as folder:
                place = f"{folder}/table"
                SIDES[side](place, False)()
                results.append(raced(side, place))
    ours, delta = (max(results, key=lambda result: result["rate"]) for results in found.values())
    name = f"{WRITERS} processes x {APPENDS}"
    refused = {side: max(result["refused"] for result in results) for side, results in found.items()}
    return [
        Bar(f"{name}, appends per second", ours["rate"], delta["rate"], "/s", 1.5, "at least", "delta-rs"),
        Bar(f"{name}, refused", refused["ours"], None, "appends", 0, absolute=True),
        Bar(f"{name}, refused by delta-rs", refused["delta"], None, "appends"),
        Bar(f"{name}, p99", ours["p99"] * 1e3, delta["p99"] * 1e3, "ms", 1000, absolute=True, peer_name="delta-rs"),
    ]


def raced(side: str, place: str) -> dict[str, float]:
    """What eight processes that append to a table at once come to: appends per second, refused ones, the p99 in s."""
    command = [sys.executable, "-m", "benchmarks.append", side, place]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": Path(__file__).parents[1]}
    workers = [subprocess.Popen(command, **pipes) for _ in range(WRITERS)]
    for worker in workers:
        assert worker.stdout.readline().strip() == "ready"
    began = time.perf_counter()
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    reports = [json.loads(worker.communicate()[0]) for worker in workers]
    seconds = time.perf_counter() - began
    done = sorted(s for told in reports for s in told["seconds"])
    refused = sum(told["refused"] for told in reports)
    return {"rate": len(done) / seconds, "refused": refused, "p99": done[int(len(done) * 0.99)]}


def _worker(side: str, place: str) -> None:
    if side == "ours":
        import indextables

        table = indextables.open(place)
        row = ROW.select(table.schema.names)

        def call() -> object:
            return table.append(row)
    else:
        import deltalake

        def call() -> object:
            return deltalake.write_deltalake(place, ROW, mode="append")

    call()
    print("ready", flush=True)
    sys.stdin.readline()
    seconds, refused = [], 0
    for _ in range(APPENDS):
        began = time.perf_counter()
        if _lands(call):
            seconds.append(time.perf_counter() - began)
        else:
            refused += 1
    print(json.dumps({"seconds": seconds, "refused": refused}))


def _lands(call: Append) -> bool:
    try:
        call()
    except Exception:  # noqa: BLE001 - whatever a peer raises, its rows are not in the table
        return False
    return True


def _timed(call: Append) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    import indextables

    with tempfile.TemporaryDirectory(dir=os.environ.get("INDEXTABLES_BENCH_DIR")) as folder:
        yield folder
        for place in Path(folder).iterdir():
            if (place / "_transaction_log").exists():
                # What appends left to the background is over before the folder goes.
                indextables.open(place).close()


if __name__ == "__main__":
    _worker(*sys.argv[1:])
