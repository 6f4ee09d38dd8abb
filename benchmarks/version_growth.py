"""What a table costs that has many versions, as a user calls it: open, append, refresh, time travel, a new process.

Each table has one file at first; its versions change nothing, so that what grows is the log. A checkpoint lies at every
tenth version, in a long log only where it is read: around the middle and at the end. The tables take turns, and before
each call the process forgets all that it knew of any, except where a handle goes on. On an S3 server requests are
counted too; it runs in the same process, so that its time is part of what is measured.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

import indextables
from benchmarks.append import APPENDS, WRITERS, raced
from benchmarks.corpus import lengthen
from benchmarks.harness import Bar

if TYPE_CHECKING:
    from tests.servers.s3 import S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])
ROW = pa.table({"id": [1], "message": ["the disk of node 7 is full"]}, schema=SCHEMA)
LINE = '{"id": 1, "message": "the disk of node 7 is full"}\n'
QUIET = {"mergeOnWrite.enabled": "false"}
LENGTHS = {"small": (50, 1_000), "full": (50, 1_000, 10_000), "soak": (50, 10_000, 100_000)}


class Call(NamedTuple):
    """What is timed, and what comes before it. One that starts a process is made a few times only."""

    call: Callable[[], object]
    before: Callable[[], object] = indextables.invalidate_caches
    starts_process: bool = False


def run(scale: str) -> list[Bar]:
    from tests.servers.s3 import S3Server  # nothing of ours that a user does not call

    lengths = LENGTHS[scale]
    with tempfile.TemporaryDirectory() as folder, S3Server() as server:
        local = {length: made(f"{folder}/{length}", length) for length in lengths}
        remote = {length: made(server.table_url(f"t{length}"), length, server.settings()) for length in lengths[:3]}
        return measured(local, remote, server, rounds=15 if scale == "small" else 25)


def made(path: str, versions: int, options: dict[str, str] | None = None) -> str:
    """A table with so many versions."""
    indextables.create(path, SCHEMA, properties=QUIET, options=options).append(ROW)
    lengthen(path, versions, options or {}, at=(versions // 2, versions))
    return path


def measured(local: dict[int, str], remote: dict[int, str], server: S3Server, *, rounds: int) -> list[Bar]:
    """Every call on every table, as ratios to the shortest log."""
    counts = {length: _requests(url, server) for length, url in remote.items()}
    calls = {length: _calls(path, length) for length, path in local.items()}
    bars = _compared(calls, rounds) + _races(local)
    calls = {length: _remote_calls(url, server.settings()) for length, url in remote.items()}
    bars += _compared(calls, rounds)
    # Four, the list of files of the state, its check file.
    limits = {"open(p)": 4, "open(p).count()": 6}
    for name, most in limits.items():
        bars += [
            Bar(f"S3 server, requests of {name} at {length:,} versions", found[name], None, "", most, absolute=True)
            for length, found in counts.items()
        ]
    return bars


def _calls(path: str, versions: int) -> dict[str, Call]:
    middle = versions // 2 + 3
    handle, watch = indextables.open(path), indextables.open(path)
    at = handle.at(version=middle).history(1)["timestamp"][0].as_py()
    lines = Path(path + ".jsonl")
    lines.write_text(LINE)
    code = f"import indextables; indextables.open({path!r}).count()"
    return {
        "open(p)": Call(lambda: indextables.open(path)),
        "open(p).count()": Call(lambda: indextables.open(path).count()),
        "open(p).append(row)": Call(lambda: indextables.open(path).append(ROW)),
        "t.append(row), one handle": Call(lambda: handle.append(ROW), lambda: None),
        "t.refresh().count() after an append": Call(lambda: watch.refresh().count(), lambda: handle.append(ROW)),
        "open(p, version=middle).count()": Call(lambda: indextables.open(path, version=middle).count()),
        "open(p, timestamp=middle).count()": Call(lambda: indextables.open(path, timestamp=at).count()),
        "open(p).count(), a new process": Call(lambda: _started("-c", code), starts_process=True),
        "indextables ingest, one line": Call(
            lambda: _started("-m", "indextables", "ingest", path, str(lines)), starts_process=True
        ),
    }


def _remote_calls(url: str, options: dict[str, str]) -> dict[str, Call]:
    return {
        "S3 server, open(p).count()": Call(lambda: indextables.open(url, options=options).count()),
        "S3 server, open(p).append(row)": Call(lambda: indextables.open(url, options=options).append(ROW)),
    }


def _started(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def _compared(calls: dict[int, dict[str, Call]], rounds: int) -> list[Bar]:
    spent: dict[tuple[str, int], list[tuple[float, float]]] = {}
    first, *longer = calls
    for turn in range(rounds):
        for name in calls[first]:
            for length in calls:
                one = calls[length][name]
                if turn < 5 or not one.starts_process:
                    spent.setdefault((name, length), []).append(_timed(one))
    bars: list[Bar] = []
    for name in calls[first]:
        for length in longer:
            for kind, which in (("", 0), (", CPU", 1)):
                ours, peer = (median(one[which] for one in spent[name, n]) * 1e3 for n in (length, first))
                bars.append(Bar(f"{name} at {length:,} versions{kind}", ours, peer, "ms", 1.3, peer_name=f"at {first}"))
    return bars


def _races(local: dict[int, str]) -> list[Bar]:
    """Eight processes that append at once, so that most lose to others: twice, in turns; the better of two."""
    found: dict[int, list[dict[str, float]]] = {length: [] for length in local}
    for _ in range(2):
        for length, path in local.items():
            found[length].append(raced("ours", path))
    rates = {length: max(told["rate"] for told in turns) for length, turns in found.items()}
    first, *longer = rates
    name = f"{WRITERS} processes x {APPENDS} appends"
    return [
        Bar(f"{name} at {n:,} versions, one", 1e3 / rates[n], 1e3 / rates[first], "ms", 1.3, peer_name=f"at {first}")
        for n in longer
    ]


def _timed(one: Call) -> tuple[float, float]:
    one.before()
    began = time.perf_counter(), _cpu()
    one.call()
    return time.perf_counter() - began[0], _cpu() - began[1]


def _cpu() -> float:
    """Seconds of this process and of those that it started and that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _requests(url: str, server: S3Server) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, call in (
        ("open(p)", lambda: indextables.open(url, options=server.settings())),
        ("open(p).count()", lambda: indextables.open(url, options=server.settings()).count()),
    ):
        indextables.invalidate_caches()
        server.requests.clear()
        call()
        found[name] = len(server.requests)
    return found
