"""What does care cost? Requests of a purge, appends while it runs, and describing a table of a million files."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from urllib.parse import parse_qs

import pyarrow as pa
from tests.servers.s3 import S3Server
from tests.state.spy import Spy

import indextables
from benchmarks.corpus import QUIET
from benchmarks.harness import Bar, median_of
from benchmarks.state import environment, make_files, write_ours
from indextables.log.care.describe import describe_state
from indextables.log.care.opening import open_log
from indextables.table.maintenance.purge.verb import PurgeReport, purge
from indextables.table.requests import Purge
from indextables.table.running import Threads

APPENDS = 40

_PURGES = """
import sys, threading, indextables
table = indextables.open(sys.argv[1])
asked = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), asked.set()), daemon=True).start()
print("ready", flush=True)
done = 0
while not asked.is_set():
    # Whoever is killed keeps the lease: it has to come to its end, or the next one is only refused.
    done += "young" in table.purge(older_than_hours=1000).kept
print(done)
"""


def run(scale: str) -> list[Bar]:
    keys = {"small": 20_000, "full": 100_000, "soak": 1_000_000}[scale]
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_requests(keys, keys // 10),
            *_appends(Path(folder) / "appended"),
            *_describe(Path(folder), 100_000 if scale == "small" else 1_000_000),
        ]


def _requests(keys: int, orphans: int) -> list[Bar]:
    """`keys` data files below the table, a tenth of which no version names."""
    with S3Server() as server:
        env = environment(server.table_url("purged"), **server.settings())
        files = make_files(keys)
        write_ours(env, files.slice(orphans))
        root = server.table_url("purged").removeprefix(f"s3://{server.bucket}/")
        for path in files["path"].to_pylist():
            server.put_directly(f"{root}/{path}", b"")
        log = open_log(env)
        log.snapshot().files  # noqa: B018 - opening the table is not what is measured
        listed = sum(1 for _ in env.store.list_from(""))
        time.sleep(1.1)  # the store tells whole seconds, and what is older than nothing is a second old
        server.requests.clear()
        started = time.perf_counter()
        report = purge(log, Purge(older_than_hours=0, force=True), runner=Threads(env))
        seconds = time.perf_counter() - started
        _expect(report, orphans)
        counted = _counted(server, root)
    return [
        Bar(
            f"purge of {listed:,} listed objects: data listing pages",
            counted["data pages"],
            None,
            "pages",
            -(-listed // 1000),
            absolute=True,
        ),
        Bar(
            f"purge of {orphans:,} orphans: bulk deletes per 1,000",
            counted["bulk deletes"] / (orphans / 1000),
            None,
            "requests",
            1,
            absolute=True,
        ),
        Bar("the same: all other requests", counted["other"] + counted["log pages"], None, "requests"),
        Bar("the same: time", seconds, None, "s"),
    ]


def _expect(report: PurgeReport, orphans: int) -> None:
    if report.count("split") != orphans or report.failed:
        message = (
            f"{report.count('split')} of {orphans} went: {report.kept} {report.reason} {len(report.failed)} failed"
        )
        raise AssertionError(message)


def _counted(server: S3Server, root: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for request in server.requests:
        query = parse_qs(request.query, keep_blank_values=True)
        if request.method == "GET" and "list-type" in query:
            of_log = query.get("prefix", [""])[0].startswith(f"{root}/_transaction_log")
            found["log pages" if of_log else "data pages"] += 1
        elif request.method == "POST" and "delete" in query and b"/splits/split-" in request.body:
            found["bulk deletes"] += 1
        else:
            found["other"] += 1
    return found


def _appends(place: Path) -> list[Bar]:
    """Appends of a thousand rows, alone and while another process purges the same table over and over."""
    rows = pa.table({"id": list(range(1000)), "message": ["the quick brown fox"] * 1000})
    table = indextables.create(str(place), rows.schema, indexing={"message": "text"}, properties=QUIET)

    def once() -> float:
        started = time.perf_counter()
        table.append(rows)
        return time.perf_counter() - started

    for _ in range(5):
        once()
    stray = place / "splits"
    for number in range(20_000):
        (stray / f"split-{number:032x}.split").touch()
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(4):
        # In turns, so that what else the machine does falls on both.
        alone += [once() for _ in range(APPENDS // 4)]
        child = subprocess.Popen(
            [sys.executable, "-c", _PURGES, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            _wait_for_line(child)
            beside += [once() for _ in range(APPENDS // 4)]
        finally:
            told, _ = child.communicate()
        if not told.strip() or int(told) == 0:
            raise AssertionError(f"nothing was purged meanwhile: {told!r}")
    return [
        Bar(
            "append of 1,000 rows while another process purges 20,000 files, median",
            median(beside),
            median(alone),
            "s",
            1.3,
            peer_name="alone",
        )
    ]


def _wait_for_line(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    reader = threading.Thread(target=child.stdout.readline)
    reader.start()
    reader.join(60)


def _describe(folder: Path, many: int) -> list[Bar]:
    few_env, many_env = environment(folder / "few"), environment(folder / "many")
    write_ours(few_env, make_files(1000))
    write_ours(many_env, make_files(many))
    spy = Spy(many_env)
    described = describe_state(spy.env)
    if described.num_files != many or any("manifests/" in key for key in spy.read):
        raise AssertionError(f"{described.num_files} files, read {spy.read}")
    times: dict[str, list[float]] = {"few": [], "many": []}
    for _ in range(7):
        times["few"].append(median_of(3, lambda: describe_state(few_env)))
        times["many"].append(median_of(3, lambda: describe_state(many_env)))
    return [
        Bar(
            f"describe state of {many:,} files, no entry read",
            median(times["many"]),
            median(times["few"]),
            "s",
            1.2,
            peer_name="of 1,000",
        )
    ]
