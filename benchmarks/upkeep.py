"""Small appends through the public API, with the upkeep that is on by default and without it.

Each side is a process of its own with a table of its own; both append in turns of some rows, one by one, so that both
see the same minutes of a machine that others use, too.
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables
from benchmarks.harness import Bar

_TURN = 50
_APPENDS = {"small": 300, "full": 2_000, "soak": 10_000}
_SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string())])
_WORDS = ("timeout", "refused", "slow", "retried")


def run(scale: str) -> list[Bar]:
    folder = Path(tempfile.mkdtemp(prefix="upkeep-bench-"))
    count = _APPENDS[scale]
    try:
        kept, left = _in_turns(folder, count)
        ends = [_one_shot(folder / "kept"), _one_shot(folder / "left")]
    finally:
        shutil.rmtree(folder)
    peer = "without upkeep"
    return [
        Bar(f"{count:,} appends of a row: CPU per append", kept["cpu"], left["cpu"], "ms", 1.5, peer_name=peer),
        Bar("median of appends", kept["median"], left["median"], "ms", None, peer_name=peer),
        Bar("p99 of appends", kept["p99"], left["p99"], "ms", 1.5, peer_name=peer),
        Bar("splits at the end", kept["splits"], left["splits"], "splits", 50, peer_name=peer, absolute=True),
        Bar("most splits at any time", kept["most"], left["most"], "splits", 50, peer_name=peer, absolute=True),
        Bar("first search of a new process", ends[0]["first"], ends[1]["first"], "ms", None, peer_name=peer),
        Bar("search of the same handle", ends[0]["again"], ends[1]["again"], "ms", None, peer_name=peer),
    ]


def _in_turns(folder: Path, count: int) -> tuple[dict[str, float], dict[str, float]]:
    sides = [_Side(folder / "kept", {}), _Side(folder / "left", {"mergeOnWrite.enabled": "false"})]
    for first in range(0, count, _TURN):
        for side in sides if first // _TURN % 2 else reversed(sides):
            side.turn(first, min(count, first + _TURN))
    kept, left = (side.end() for side in sides)
    return kept, left


class _Side:
    """A process that appends when it is told to."""

    def __init__(self, path: Path, properties: dict[str, str]) -> None:
        given = json.dumps({"path": str(path), "properties": properties})
        command = [sys.executable, "-m", "benchmarks.upkeep", given]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, first: int, last: int) -> None:
        self._ask(f"{first} {last}")

    def end(self) -> dict[str, float]:
        told: dict[str, float] = json.loads(self._ask("end"))
        self._process.wait(600)
        return told

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def _append_when_told(path: str, properties: dict[str, str]) -> None:
    table = indextables.create(path, _SCHEMA, indexing={"message": "text"}, properties=properties)
    taken: list[float] = []
    most = 0
    began = _cpu()
    spent = 0.0
    for line in sys.stdin:
        if line.strip() == "end":
            break
        first, last = map(int, line.split())
        for number in range(first, last):
            word = _WORDS[number % len(_WORDS)]
            row = {"id": number, "level": "INFO", "message": f"request {number} {word} at the database"}
            start = time.perf_counter()
            table.append([row])
            taken.append(time.perf_counter() - start)
        looked = _cpu()
        most = max(most, table.files().num_rows)
        spent += _cpu() - looked
        print("done", flush=True)
    cpu = _cpu() - began - spent
    taken.sort()
    told = {
        "cpu": cpu / len(taken) * 1000,
        "median": statistics.median(taken) * 1000,
        "p99": taken[int(len(taken) * 0.99)] * 1000,
        "most": most,
        "splits": table.refresh().files().num_rows,
    }
    print(json.dumps(told), flush=True)


def _one_shot(path: Path) -> dict[str, float]:
    """The first search of a new process, and the next one."""
    code = f"""
import json, time, indextables
start = time.perf_counter()
table = indextables.open({str(path)!r})
table.search("timeout", limit=10)
first = time.perf_counter() - start
start = time.perf_counter()
table.search("refused", limit=10)
print(json.dumps({{"first": first * 1000, "again": (time.perf_counter() - start) * 1000}}))
"""
    told: dict[str, float] = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    return told


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    asked: dict[str, Any] = json.loads(sys.argv[1])
    _append_when_told(asked["path"], asked["properties"])
