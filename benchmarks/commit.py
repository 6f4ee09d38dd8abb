"""Commits: what one costs as the log grows, and how many writers get through at a time.

Ours against the least that durability costs (one fsync of a file and of its folder, with the file's creation), and
against delta-rs with the same adds, each in the same run. Checkpoints are off, on both sides: they are a matter of
their own and measured with the state.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.world.commits import append

from benchmarks.harness import Bar
from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.log.care.opening import open_log
from indextables.log.commit.create import create_table
from indextables.log.read.cache import LogCache
from indextables.log.read.log import Log
from indextables.log.wire.actions import Add, CommitInfo, Metadata
from indextables.log.wire.codec import encode_version
from indextables.log.wire.names import version_key
from indextables.options import Options
from indextables.storage import open_store

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{"indextables.id":1}}]}'
METADATA = Metadata(id="benchmark", schemaString=SCHEMA, createdTime=1)
WRITERS, COMMITS = 8, 50


def run(scale: str) -> list[Bar]:
    lengths = (10, 1_000, 10_000) if scale == "full" else (10, 1_000)
    return [*_one_writer_local(lengths), *_one_writer_s3(lengths), *_many_writers()]


def _one_writer_local(lengths: tuple[int, ...]) -> list[Bar]:
    """The median of ours and of the bare fsyncs, taken in turns."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("INDEXTABLES_BENCH_DIR")) as folder:
        medians = {}
        for length in lengths:
            log = _log(str(Path(folder) / f"t{length}"), {})
            _grow(log, length)
            bare = Path(folder) / f"bare{length}"
            bare.mkdir()
            for i in range(length):
                (bare / f"{i:020d}.json").write_bytes(b"x")
            append(log, [_add("warm")])
            medians[length] = _in_turns(
                100, lambda i, log=log: append(log, [_add(f"n{i}")]), lambda i, bare=bare: _bare(bare, f"n{i}")
            )
    bars = [
        Bar(f"one commit at {n:,} versions, local, fsync", o * 1e3, p * 1e3, "ms", 2.0, peer_name="bare fsyncs")
        for n, (o, p) in medians.items()
    ]
    return [*bars, _flat("local", {n: o / p for n, (o, p) in medians.items()}, "x bare")]


def _one_writer_s3(lengths: tuple[int, ...]) -> list[Bar]:
    from tests.servers.s3 import S3Server

    medians = {}
    with S3Server() as server:
        for length in lengths:
            url = server.table_url(f"t{length}")
            log = _log(url, server.settings())
            _grow(log, length, lambda key, data, length=length: server.put_directly(f"t{length}/{key}", data))
            append(log, [_add("warm")])
            medians[length] = _in_turns(60, lambda i, log=log: append(log, [_add(f"n{i}")]))[0] * 1e3
    return [_flat("S3 server", medians, "ms")]


def _flat(where: str, medians: dict[int, float], unit: str) -> Bar:
    shortest, longest = min(medians), max(medians)
    claim = f"growth from {shortest:,} to {longest:,} versions, {where}"
    return Bar(claim, medians[longest], medians[shortest], unit, 1.3, peer_name=f"at {shortest:,}")


def _many_writers() -> list[Bar]:
    """Eight processes, fifty commits each: ours, delta-rs, ours, delta-rs; the better of two each."""
    ours, peer = [], []
    for _ in range(2):
        ours.append(_race("ours"))
        peer.append(_race("delta"))
    best, delta = max(ours, key=lambda r: r["rate"]), max(peer, key=lambda r: r["rate"])
    name = f"{WRITERS} processes x {COMMITS}"
    return [
        Bar(f"{name}, commits per second", best["rate"], delta["rate"], "/s", 3.0, "at least", "delta-rs"),
        Bar(f"{name}, refused", max(r["refused"] for r in ours), None, "commits", 0, absolute=True),
        Bar(f"{name}, refused by delta-rs", max(r["refused"] for r in peer), None, "commits"),
        Bar(f"{name}, lost", max(r["lost"] for r in ours), None, "commits", 0, absolute=True),
        Bar(f"{name}, p99", max(r["p99"] for r in ours) * 1e3, delta["p99"] * 1e3, "ms", 1000, absolute=True),
    ]


def _race(kind: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("INDEXTABLES_BENCH_DIR")) as folder:
        path = f"{folder}/table"
        SIDES[kind][0](path)
        command = [sys.executable, "-m", "benchmarks.commit", kind, path]
        root = Path(__file__).parents[1]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": root}
        workers = [subprocess.Popen([*command, f"w{i}"], **pipes) for i in range(WRITERS)]
        for worker in workers:
            assert worker.stdout.readline().strip() == "ready"
        started = time.perf_counter()
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        reports = [json.loads(worker.communicate()[0]) for worker in workers]
        seconds = time.perf_counter() - started
        done = sorted(s for report in reports for s in report["seconds"])
        kept = SIDES[kind][2](path)
        lost = len({file for report in reports for file in report["paths"]} - kept)
    return {
        "rate": len(done) / seconds,
        "refused": sum(report["refused"] for report in reports),
        "lost": lost,
        "p99": done[int(len(done) * 0.99)],
    }


def _worker(kind: str, path: str, name: str) -> None:
    commit = SIDES[kind][1](path)
    print("ready", flush=True)
    sys.stdin.readline()
    seconds, paths, refused = [], [], 0
    for i in range(COMMITS):
        file = f"{name}-{i}.parquet"
        started = time.perf_counter()
        if commit(file):
            seconds.append(time.perf_counter() - started)
            paths.append(file)
        else:
            refused += 1
    print(json.dumps({"seconds": seconds, "paths": paths, "refused": refused}))


def _create_ours(path: str) -> None:
    create_table(_log(path, {"storage.fsync": "false"}), METADATA)


def _open_ours(path: str):
    log = _log(path, {"storage.fsync": "false"})

    def commit(file: str) -> bool:
        append(log, [_add(file)])
        return True

    return commit


def _paths_ours(path: str) -> set[str]:
    return set(_log(path, {}).snapshot().files["path"].to_pylist())


def _create_delta(path: str) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable

    schema = pa.schema([("id", pa.int64())])
    DeltaTable.create(path, schema, configuration={"delta.checkpointInterval": "1000000"})


def _open_delta(path: str):
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction

    table = DeltaTable(path)
    schema = table.schema()

    def commit(file: str) -> bool:
        action = AddAction(file, 100, {}, 1, data_change=True, stats='{"numRecords":10}')
        try:
            table.create_write_transaction([action], "append", schema, [])
        except DeltaError:
            table.update_incremental()
            return False
        return True

    return commit


def _paths_delta(path: str) -> set[str]:
    from deltalake import DeltaTable

    return {Path(uri).name for uri in DeltaTable(path).file_uris()}


SIDES = {
    "ours": (_create_ours, _open_ours, _paths_ours),
    "delta": (_create_delta, _open_delta, _paths_delta),
}


def _log(url: str, options: dict[str, str]) -> Log:
    given = Options({"checkpoint.enabled": "false", **options}, environ={})
    return open_log(Env(open_store(url, given), SystemAmbient(), given), cache=LogCache())


def _grow(log: Log, length: int, put=None) -> None:
    """A log of `length` versions: version 0 made properly, the others put as fast as the files can be written."""
    create_table(log, METADATA)
    store = log.env.store
    for version in range(1, length):
        info = CommitInfo(
            inCommitTimestamp=10**12 + version, operation="WRITE", token=f"{version:032x}", tableId="benchmark"
        )
        data = encode_version([info, _add(f"f{version}")], compress=True)
        if put is not None:
            put(version_key(version), data)
        else:
            (store.root / version_key(version)).write_bytes(data)


def _add(path: str) -> Add:
    return Add(path, {}, 100, 1, dataChange=True, numRecords=10)


def _bare(folder: Path, name: str) -> None:
    """The least that makes a new file and its name survive a power loss."""
    target = folder / name
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(file, b"x" * 300)
    os.fsync(file)
    os.close(file)
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def _in_turns(times: int, *calls) -> list[float]:
    taken: list[list[float]] = [[] for _ in calls]
    for i in range(times):
        for call, seconds in zip(calls, taken, strict=True):
            started = time.perf_counter()
            call(i)
            seconds.append(time.perf_counter() - started)
    return [median(seconds) for seconds in taken]


if __name__ == "__main__":
    _worker(*sys.argv[1:])
