"""What a table costs that has many versions, as a user calls it: open, append, time travel, by a process that starts.

Each table has one file at first; its versions change nothing, so that what grows is the log. A checkpoint lies at every
tenth version, in a long log only where it is read: around the middle and at the end. The tables take turns, and before
each call the process forgets all that it knew of any, except where one handle goes on. Requests are those of a cold
open of an S3 server.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from statistics import median

import pyarrow as pa

import indextables
from benchmarks.corpus import lengthen
from benchmarks.harness import Bar

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])
ROW = pa.table({"id": [1], "message": ["the disk of node 7 is full"]}, schema=SCHEMA)
QUIET = {"mergeOnWrite.enabled": "false"}
Call = Callable[[], object]


def run(scale: str) -> list[Bar]:
    lengths = (50, 1_000) if scale == "small" else (50, 1_000, 10_000)
    rounds = 15 if scale == "small" else 25
    with tempfile.TemporaryDirectory() as folder:
        tables = {length: _made(f"{folder}/{length}", length) for length in lengths}
        calls = {length: _calls(path, length) for length, path in tables.items()}
        spent: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for _ in range(rounds):
            for name in calls[lengths[0]]:
                for length in lengths:
                    spent.setdefault((name, length), []).append(_timed(*calls[length][name]))
    bars: list[Bar] = []
    first = lengths[0]
    for name in calls[first]:
        for length in lengths[1:]:
            for kind, which in (("", 0), (", CPU", 1)):
                ours, peer = (median(one[which] for one in spent[name, n]) * 1e3 for n in (length, first))
                bars.append(Bar(f"{name} at {length:,} versions{kind}", ours, peer, "ms", 1.3, peer_name=f"at {first}"))
    return [*bars, *_requests(lengths)]


def _made(path: str, versions: int, options: dict[str, str] | None = None) -> str:
    indextables.create(path, SCHEMA, properties=QUIET, options=options).append(ROW)
    lengthen(path, versions, options or {}, at=(versions // 2, versions))
    return path


def _calls(path: str, versions: int) -> dict[str, tuple[bool, Call]]:
    """Each call, and whether the process forgets everything before it."""
    middle = versions // 2 + 3
    handle = indextables.open(path)
    at = handle.at(version=middle).history(1)["timestamp"][0].as_py()
    return {
        "open(p)": (True, lambda: indextables.open(path)),
        "open(p).count()": (True, lambda: indextables.open(path).count()),
        "open(p).append(row)": (True, lambda: indextables.open(path).append(ROW)),
        "t.append(row), one handle": (False, lambda: handle.append(ROW)),
        "open(p, version=middle).count()": (True, lambda: indextables.open(path, version=middle).count()),
        "open(p, timestamp=middle).count()": (True, lambda: indextables.open(path, timestamp=at).count()),
    }


def _timed(is_cold: bool, call: Call) -> tuple[float, float]:
    if is_cold:
        indextables.invalidate_caches()
    began = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def _requests(lengths: tuple[int, ...]) -> list[Bar]:
    from tests.servers.s3 import S3Server  # nothing of ours that a user does not call

    counts: dict[int, int] = {}
    with S3Server() as server:
        options = server.options()
        for length in lengths:
            url = server.table_url(f"t{length}")
            _made(url, length, options)
            indextables.invalidate_caches()
            server.requests.clear()
            indextables.open(url, options=options)
            counts[length] = len(server.requests)
    return [Bar(f"requests of a cold open at {n:,} versions", counts[n], None, "", 4, absolute=True) for n in lengths]
