"""Many real processes on one table: nothing lost, nothing twice, no gap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.log.commit.create import create_table
from indextables.options import Options
from indextables.storage import open_store
from tests.log.commits import METADATA, open_log
from tests.servers.s3 import S3Server

ROOT = Path(__file__).parents[2]
WRITERS = int(os.environ.get("INDEXTABLES_WRITERS", "16"))
COMMITS = int(os.environ.get("INDEXTABLES_COMMITS", "20"))


def start(job: dict) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.sim.worker"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    return process


def race(url: str, options: dict, *, writers: int, commits: int) -> list[dict]:
    """Start all, let them go together, collect what they report."""
    job = {"url": url, "options": options, "verb": "many", "commits": commits, "wait": True}
    processes = [start({**job, "name": f"w{i}"}) for i in range(writers)]
    for process in processes:
        assert json.loads(process.stdout.readline())["what"] == "ready"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    reports = []
    for process in processes:
        out, _ = process.communicate(timeout=800)
        assert process.returncode == 0
        reports += [json.loads(line) for line in out.splitlines()]
    return reports


def check(url: str, options: dict, reports: list[dict], *, writers: int, commits: int) -> None:
    committed = {r["path"]: r["version"] for r in reports if r["what"] == "committed"}
    doubtful = [r for r in reports if r["what"] == "unknown"]
    assert len(committed) + len(doubtful) == writers * commits
    log = open_log(Env(open_store(url, Options(options, environ={})), SystemAmbient(), Options(options, environ={})))
    snapshot = log.snapshot()
    live = snapshot.files
    added = dict(zip(live["path"].to_pylist(), live["addedAtVersion"].to_pylist(), strict=True))
    assert {path: added[path] for path in committed} == committed, "an acknowledged commit is lost or moved"
    assert len(set(committed.values())) == len(committed), "two commits share a version"
    assert live.num_rows == snapshot.version, "a version is missing, or one was applied twice"
    assert set(added) <= set(committed) | {r["path"] for r in doubtful}
    tokens = snapshot.tokens
    assert len(set(tokens.tokens)) == len(tokens.tokens) == snapshot.version + 1


def create(url: str, options: dict) -> None:
    resolved = Options(options, environ={})
    create_table(open_log(Env(open_store(url, resolved), SystemAmbient(), resolved)), METADATA)


def run(url: str, options: dict, *, writers: int = WRITERS, commits: int = COMMITS) -> None:
    create(url, options)
    reports = race(url, options, writers=writers, commits=commits)
    check(url, options, reports, writers=writers, commits=commits)


def test_16_processes_with_20_commits_each_on_local_files(tmp_path):
    run(str(tmp_path / "table"), {})


def test_16_processes_with_20_commits_each_on_s3_with_faults():
    race_on_s3(COMMITS)


def race_on_s3(commits: int) -> None:
    with S3Server() as server:
        url = server.table_url("t")
        # Of some ten thousand requests, one may well meet five faults in a row, and all of them a busy machine.
        options = {**server.settings(), "storage.retries": "15", "storage.timeoutSeconds": "600"}
        create(url, options)
        server.chaos(0.05, seed=7)
        reports = race(url, options, writers=WRITERS, commits=commits)
        lost_answers = sum(1 for request in server.requests if request.method == "PUT" and request.status != 200)
        server.calm()
        check(url, options, reports, writers=WRITERS, commits=commits)
        assert lost_answers > 0


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_16_processes_with_50_commits_each_on_s3_with_faults():
    race_on_s3(50)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_64_processes_with_200_commits_each_on_local_files(tmp_path):
    run(str(tmp_path / "table"), {}, writers=64, commits=200)
