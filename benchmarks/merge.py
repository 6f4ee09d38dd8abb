"""Merge splits: against writing the same rows once; its memory; appends beside it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import indextables
from benchmarks import corpus
from benchmarks.harness import Bar
from indextables.env import Env
from indextables.log.care.opening import open_log
from indextables.split.write.writer import write_splits
from indextables.storage import open_store
from indextables.table.environment import open_env, table_env
from indextables.table.merge.verb import merge_splits
from indextables.table.requests import MergeSplits
from indextables.table.running import Answer, Job
from indextables.table.writing.splits import target_of

_ROWS = 50_000
_OPTIONS = {"split.memoryBudget": str(2 << 30), "storage.fsync": "true"}


def run(scale: str) -> list[Bar]:
    sources = 200 if scale == "full" else 20
    folder = Path(tempfile.mkdtemp(prefix="merge-bench-"))
    try:
        return _merge(folder, sources) + _appends(folder, 40 if scale == "full" else 12)
    finally:
        shutil.rmtree(folder)


def _merge(folder: Path, sources: int) -> list[Bar]:
    """Both sides in a process of their own with one thread, so that memory and time are those of one task."""
    path = folder / "t"
    _fill(path, sources, _ROWS)
    size = sum(_files(path)["size"].to_pylist())
    target = size * 2 // 3
    written = _child("write", path, target)
    merged = _child("merge", path, target)
    memory = written["memory"]
    return [
        Bar(
            f"merge {sources} splits of {_ROWS} lines to 2",
            merged["seconds"],
            written["seconds"],
            "s",
            1.3,
            peer_name="writing the rows once",
        ),
        Bar("the same, CPU", merged["cpu"], written["cpu"], "s", None, peer_name="writing the rows once"),
        Bar("splits after the merge", merged["files"], None, "splits", 2, absolute=True),
        Bar(
            "peak memory of the task that merges",
            merged["memory"] / 1e6,
            memory / 1e6,
            "MB",
            None,
            peer_name="writing the rows once",
        ),
    ]


def _appends(folder: Path, sources: int) -> list[Bar]:
    """Appends of 100 lines in this process beside one that merges, which is stopped for every second append.

    So both medians are of the same minutes of a machine that others use, too.
    """
    busy = folder / "busy"
    _fill(busy, sources, _ROWS)
    table = indextables.open(busy, options=_OPTIONS)
    rows = corpus.logs(100)
    table.append(rows)
    child = _start("maintain", busy, 1 << 40)
    assert child.stdout is not None
    child.stdout.readline()
    taken: dict[bool, list[float]] = {True: [], False: []}
    stopped = False
    while child.poll() is None:
        os.kill(child.pid, signal.SIGSTOP if stopped else signal.SIGCONT)
        began = time.perf_counter()
        table.append(rows)
        taken[stopped].append(time.perf_counter() - began)
        stopped = not stopped
    beside, alone = (statistics.median(taken[key]) * 1000 for key in (False, True))
    claim = f"append while splits are merged, median of {len(taken[False])}"
    return [Bar(claim, beside, alone, "ms", 1.3, peer_name="alone")]


class _OneByOne:
    """One task at a time, as each of a cluster's does."""

    width = 1

    def __init__(self, env: Env) -> None:
        self._env = env

    def run(self, job: Job, units: Sequence[bytes]) -> list[Answer]:
        return [job(self._env, unit) for unit in units]


def _fill(path: Path, splits: int, rows: int) -> None:
    table = indextables.create(
        path, corpus.LOGS_SCHEMA, indexing={"message": "text"}, options=_OPTIONS, properties=corpus.QUIET
    )
    for number in range(splits):
        table.append(corpus.logs(rows, seed=number))
    assert table.files().num_rows == splits


def _files(path: Path) -> pa.Table:
    return indextables.open(path).files()


def _start(what: str, path: Path, target: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.merge", what, str(path), str(target)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def _child(what: str, path: Path, target: int) -> dict[str, float]:
    output, _ = _start(what, path, target).communicate()
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def _in_child(what: str, path: Path, target: int) -> None:
    import resource

    log = open_log(open_env(path, _OPTIONS))
    snapshot = log.snapshot()
    env = table_env(log.env, snapshot.metadata)
    files = 0
    # What a process imports once is no matter of the rows.
    merge_splits(log, MergeSplits(target_size=target, dry_run=True), runner=_OneByOne(env))
    pa.array([1]).to_numpy()
    print("ready", flush=True)
    if what == "maintain":
        indextables.open(path, options=_OPTIONS).merge_splits(target_size=target)
        return
    if what == "write":
        rows = indextables.open(path).to_arrow()
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    if what == "write":
        plan = target_of(snapshot.metadata, env.options).plan
        options = table_env(open_env(path, {**_OPTIONS, "split.targetSize": str(target * 3 // 4)}), snapshot.metadata)
        store = open_store(path.parent / "written", options.options)
        files = len(write_splits(store, rows.to_batches(), snapshot.schema, options.options, plan=plan))
    else:
        merge_splits(log, MergeSplits(target_size=target), runner=_OneByOne(env))
        files = log.snapshot().files.num_rows
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu, "memory": after.ru_maxrss * 1024, "files": files}))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _in_child(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
