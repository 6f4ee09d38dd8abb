"""One writer as a process of its own: `python -m tests.sim.worker` reads a job as JSON and reports each commit.

With `kill_at` it dies by SIGKILL at that step: the steps are the calls of the store and, inside a local store, the
system calls that change something.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.context import ForkServerContext
from typing import Any

from indextables.ambient import SystemAmbient
from indextables.env import Env
from indextables.errors import CommitStateUnknown
from indextables.log.care.opening import open_log
from indextables.log.commit.create import create_table
from indextables.log.commit.resolve import resolve_token
from indextables.log.read.cache import LogCache
from indextables.log.read.log import Log
from indextables.options import Options
from indextables.storage import open_store
from tests.log.commits import METADATA, add
from tests.world.commits import append, overwrite

_PRELOADED = ["pandas", "pyarrow.pandas_compat", "pyarrow.parquet"]
SYSTEM_CALLS = ("fsync", "link", "unlink", "rename", "mkdir", "write", "open", "close", "stat", "pread")


def main() -> None:
    job = json.loads(sys.stdin.readline())
    options = Options(job["options"], environ={})
    store = open_store(job["url"], options)
    countdown = Countdown(job["kill_at"]) if job.get("kill_at") is not None else None
    if countdown is not None:
        countdown.watch(store)
    log = open_log(Env(store, SystemAmbient(), options), cache=LogCache())
    report("ready")
    if job.get("wait"):
        sys.stdin.readline()
    VERBS[job["verb"]](log, job)
    if countdown is not None:
        report("steps", steps=countdown.steps)


def commit_many(log: Log, job: dict[str, Any]) -> None:
    """Append as often as asked, each commit under a name that can be found again."""
    for number in range(job["commits"]):
        path = f"{job['name']}-{number}"
        started = time.perf_counter()
        try:
            outcome = append(log, [add(path)])
        except CommitStateUnknown as unknown:
            report("unknown", path=path, token=unknown.token, version=unknown.version)
            continue
        report("committed", path=path, version=outcome.version, seconds=time.perf_counter() - started)


def resolve_all(log: Log, job: dict[str, Any]) -> None:
    for token, version in job["doubts"]:
        report("resolved", token=token, version=resolve_token(log, token, version))


def create(log: Log, job: dict[str, Any]) -> None:
    created = create_table(log, METADATA)
    report("committed", version=created.version)


def append_one(log: Log, job: dict[str, Any]) -> None:
    report("committed", version=append(log, [add(job["name"])]).version)


def overwrite_one(log: Log, job: dict[str, Any]) -> None:
    report("committed", version=overwrite(log, [add(job["name"])]).version)


VERBS = {
    "many": commit_many,
    "resolve": resolve_all,
    "create": create,
    "append": append_one,
    "overwrite": overwrite_one,
}


def fork_server(module: str) -> ForkServerContext:
    """Starts children of a process that has imported everything and run nothing, `module` included.

    Arrow imports pandas when it first makes an array, which takes longer than all that a child does until it dies.
    """
    server = multiprocessing.get_context("forkserver")
    _PRELOADED.append(module)
    server.set_forkserver_preload(list(_PRELOADED))
    return server


class Countdown:
    """Counts steps, and ends the process without any goodbye at the one that was asked for."""

    def __init__(self, kill_at: int) -> None:
        self.steps = 0
        self.kill_at = kill_at

    def watch(self, store: Any) -> None:
        for verb in ("get", "put", "put_if_absent", "list_from", "head", "exists", "delete_many", "probe"):
            self._wrap(store, verb)
        for call in SYSTEM_CALLS:
            self._wrap(os, call)

    def _wrap(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def counted(*args: Any, **more: Any) -> Any:
            self.step()
            return real(*args, **more)

        setattr(owner, name, counted)

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def report(what: str, **facts: object) -> None:
    sys.stdout.write(json.dumps({"what": what, **facts}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
