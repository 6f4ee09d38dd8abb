"""Long tails of a log in an object store: read by threads, by tasks of Spark, and what workers remember.

Every GET of a version file takes five milliseconds more, as one of a real store does. A tail has no checkpoint, and
nothing of it is remembered: each open reads all of its version files.
"""

from __future__ import annotations

import sys
import time

import pyarrow as pa
from tests.servers.s3 import Fault, S3Server

import indextables
from benchmarks.harness import Bar, median_of
from benchmarks.local_spark import session
from indextables.log.care import open_log
from indextables.spark.tasks import Place
from indextables.spark.tasks.replay import DistributedTail
from indextables.table.environment import open_env

WAIT_S = 0.005
TAILS = {100: (150, 0.3), 50: (80, 0.32), 10: (20, 0.4)}
"""Version files, the milliseconds in which four threads should read them, and the share of what one thread takes."""
NO_CHECKPOINTS = {"checkpoint.enabled": "false"}
COLD = {"transaction.cache.enabled": "false"}
OPENS = 8


def run(scale: str) -> list[Bar]:
    with S3Server() as server:
        settings = server.settings()
        urls = {length: _grown(server.table_url(f"t{length}"), settings, length) for length in TAILS}
        server.inject(Fault(method="GET", key=r"\.json$", hook=lambda: time.sleep(WAIT_S), times=sys.maxsize))
        bars = [bar for length in TAILS for bar in _threads(urls[length], settings, length)]
        return bars if scale == "small" else [*bars, *_tasks(urls, settings)]


def _grown(url: str, settings: dict[str, str], length: int) -> str:
    """A table with so many version files, one append each but the first."""
    rows = pa.table({"id": [1]})
    table = indextables.create(url, rows.schema, options={**settings, **NO_CHECKPOINTS})
    for _ in range(length - 1):
        table.append(rows)
    return url


def _threads(url: str, settings: dict[str, str], length: int) -> list[Bar]:
    def opened(threads: int) -> float:
        options = {**settings, **NO_CHECKPOINTS, **COLD, "checkpoint.parallelism": str(threads)}
        return median_of(5, lambda: indextables.open(url, options).count()) * 1e3

    opened(1)
    one, four = opened(1), opened(4)
    claim, (most, share) = f"a tail of {length} version files, 4 threads", TAILS[length]
    return [
        Bar(claim, four, one, "ms", most, peer_name="1 thread", absolute=True),
        Bar(f"{claim}, against one", four, one, "ms", share, peer_name="1 thread"),
    ]


def _tasks(urls: dict[int, str], settings: dict[str, str]) -> list[Bar]:
    bars = []
    with session() as spark:
        for length, url in urls.items():
            env = open_env(url, {**settings, **NO_CHECKPOINTS, **COLD})
            files = hits = 0
            spent = []
            for _ in range(OPENS):
                tail = DistributedTail(spark, env, Place(url, settings))
                began = time.perf_counter()
                open_log(env, tail=tail).snapshot()
                spent.append(time.perf_counter() - began)
                if tail.metrics is not None and len(spent) > 1:
                    files, hits = files + tail.metrics.files, hits + tail.metrics.hits
            alone = median_of(5, lambda env=env: open_log(env).snapshot()) * 1e3
            claim = f"a tail of {length} version files, read by tasks of 2 cores"
            bars.append(Bar(f"{claim}, first time", spent[0] * 1e3, alone, "ms", peer_name="8 threads of the driver"))
            bars.append(Bar(f"{claim}, again", min(spent[1:]) * 1e3, alone, "ms", peer_name="8 threads of the driver"))
            share = 100 * hits / files if files else 0.0
            bars.append(Bar(f"{claim}: files that workers remember", share, None, "%", 60, "at least", absolute=True))
    return bars
