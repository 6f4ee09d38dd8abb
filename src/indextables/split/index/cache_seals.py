"""Which files of the index cache were proven by their checksum already, by whatever process?

An entry has a file `sound` with a line for each proven file: its name, inode, size and time of change, and the boot of
the machine in which it was proven. A file that was written to since, replaced or copied does not match its line any
more, and none matches after a reboot: what a crash of the machine left half written is checked again. Lines are
appended whole; one that is torn matches nothing.
"""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from pathlib import Path

__all__ = ["SEALS", "is_sealed", "seal"]

SEALS = "sound"
_MOST_BYTES = 1 << 20


def is_sealed(path: Path, facts: os.stat_result) -> bool:
    """True if the file is, unchanged, one that was proven since the machine started. `facts` are its `lstat`."""
    line = _line(path.name, facts)
    if line is None:
        return False
    try:
        with path.with_name(SEALS).open("rb") as file:
            return line in file.read(_MOST_BYTES).splitlines(keepends=True)
    except OSError:
        return False


def seal(path: Path, facts: os.stat_result) -> None:
    """Say that the file was proven. Nothing happens where that cannot be written: it is proven again then."""
    line = _line(path.name, facts)
    if line is None:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with contextlib.suppress(OSError):
        handle = os.open(path.with_name(SEALS), flags, 0o600)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)


def _line(name: str, facts: os.stat_result) -> bytes | None:
    boot = _boot()
    return f"{name} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns} {boot}\n".encode() if boot else None


@lru_cache(maxsize=1)
def _boot() -> str:
    """What tells this run of the machine from others; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
