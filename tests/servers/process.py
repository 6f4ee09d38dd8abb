"""Starts a server as a process of its own, waits until it answers, and ends it."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

START_SECONDS = 300.0
PORTS = (20_000, 32_000)
"""Below those that Linux and macOS hand out by themselves."""


def cache_folder(name: str) -> Path:
    """Where downloads and builds are kept between runs: outside the checkout."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "indextables-test" / name


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to nobody who asks for any port.

    A server may need seconds until it listens, and other tests of the machine open ports all the time: the port is
    claimed by a lock on a file, which lasts as long as this process.
    """
    claims = cache_folder("ports")
    claims.mkdir(parents=True, exist_ok=True)
    while True:
        port = random.SystemRandom().randrange(*PORTS)
        claim = os.open(claims / str(port), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
                return port
        except OSError:
            os.close(claim)


def build(folder: Path, result: str, make: Callable[[Path], tuple[Sequence[str | Path], Mapping[str, str]]]) -> Path:
    """`folder/result`, which is made if it is not there yet.

    `make` is given a folder and says which command, in which environment, fills it. Raises RuntimeError with the
    output if that fails; what was made half way is never taken for the whole.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        # Two test runs may come here at the same time; the second waits and finds it done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / result).exists():
            return folder / result
        partial = folder.with_name(f"{folder.name}.partial")
        for old in (partial, folder):
            shutil.rmtree(old, ignore_errors=True)
        partial.mkdir()
        command, env = make(partial)
        done = subprocess.run(
            [str(part) for part in command],
            cwd=partial,
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode or not (partial / result).exists():
            raise RuntimeError(f"{command[0]} could not provide {result}:\n{done.stdout.decode(errors='replace')}")
        partial.rename(folder)
    return folder / result


@contextlib.contextmanager
def running(
    command: Sequence[str | Path], *, port: int, host: str = "127.0.0.1", env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that listens there. Raises RuntimeError with its output if it does not get that far."""
    folder = Path(tempfile.mkdtemp(prefix="indextables-server-"))
    output = folder / "output.txt"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - a system call and nothing else
        )
    try:
        _wait_for(process, host, port, output)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(process: subprocess.Popen[bytes], host: str, port: int, output: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        time.sleep(0.02)
    text = output.read_text(errors="replace")[-4000:]
    raise RuntimeError(f"{process.args!r} does not listen on port {port} of {host}:\n{text}")


# Looked up here: between fork and exec, a lock of the loader may be held by a thread that is no longer there.
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def _die_with_parent() -> None:
    set_parent_death_signal = 1
    if _PRCTL is not None:
        _PRCTL(set_parent_death_signal, signal.SIGKILL)
