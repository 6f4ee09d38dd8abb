"""Faults for jobs on a cluster: what dies, and where exactly. Nothing here waits for a clock.

A fault happens once: whoever makes its marker file is the one it happens to.
"""

from __future__ import annotations

import importlib
import os
import signal
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from indextables.env import Env
from indextables.table.running import Answer, Job, Runner


def first(marker: str | Path) -> bool:
    """True for exactly one caller on this machine."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def executor() -> int:
    """The JVM of the executor that this Python worker belongs to."""
    return _parent_of(os.getppid())


def kill_executor() -> NoReturn:
    """SIGKILL the JVM of the executor that this Python worker belongs to, then the worker."""
    _kill(executor())


def kill_worker() -> NoReturn:
    """SIGKILL this Python worker; its executor lives on."""
    _kill(os.getpid())


def kill_driver(python: int, jvm: int) -> NoReturn:
    """SIGKILL both processes of a driver, then this one."""
    os.kill(python, signal.SIGKILL)
    _kill(jvm)


def pids_of(spark: Any) -> tuple[int, int]:
    """The driver's Python process and its JVM."""
    return os.getpid(), spark.sparkContext._gateway.proc.pid


class Broken:
    """A runner whose executor dies once, in the first unit that runs: before its job, or after it.

    Raises nothing of its own: what the inner runner makes of a lost executor is what is tested.
    """

    def __init__(self, inner: Runner, marker: str | Path, *, after: bool) -> None:
        self._inner = inner
        self._marker = str(marker)
        self._after = after

    @property
    def width(self) -> int:
        return self._inner.width

    def run(self, job: Job, units: list[bytes]) -> list[Answer]:
        wrapped = [
            msgspec.msgpack.encode((job.__module__, job.__qualname__, self._marker, self._after, unit))
            for unit in units
        ]
        return self._inner.run(breaking_job, wrapped)


def breaking_job(env: Env, packed: bytes) -> bytes:
    """The job of `Broken`: runs the real one, and kills its executor if nobody has."""
    module, name, marker, after, unit = msgspec.msgpack.decode(packed)
    if not after and first(marker):
        kill_executor()
    answer: bytes = getattr(importlib.import_module(module), name)(env, unit)
    if after and first(marker):
        kill_executor()
    return answer


def _parent_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("PPid:")[1].split()[0])


def _kill(pid: int) -> NoReturn:
    os.kill(pid, signal.SIGKILL)
    os._exit(1)
