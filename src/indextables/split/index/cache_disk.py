"""Handles folders and files of the index cache, which other processes may delete at any time, and what proves them.

An entry has a file `sound` with a line for each file that was proven by its checksum: its name, inode, size and time of
change, and the boot of the machine in which it was proven. A file that was written to since, replaced or copied does
not match its line any more, and none matches after a reboot: what a crash of the machine left half written is checked
again. Lines are appended whole; one that is torn matches nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from indextables.errors import InvalidArgument

__all__ = [
    "SEALS",
    "children",
    "disk_size",
    "exclusive",
    "is_sealed",
    "link_all",
    "private_folder",
    "seal",
    "sweep",
    "write_all",
]


def private_folder(folder: Path) -> None:
    """Make a folder that is the user's alone. Raises InvalidArgument for one that is a link or somebody else's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
            message = (
                f"the cache folder {folder} is a link or belongs to somebody else: set cache.directory to your own"
            )
            raise InvalidArgument(message, option="cache.directory", value=str(folder))
        if stat.S_IMODE(facts.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        message = f"the cache folder {folder} cannot be used ({error}): set cache.directory"
        raise InvalidArgument(message, option="cache.directory", value=str(folder)) from error


def children(folder: Path) -> list[Path]:
    """What is in a folder, by name; nothing if it is gone."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def disk_size(entry: Path) -> int:
    """The bytes that the files of a folder take."""
    total = 0
    for path in children(entry):
        with contextlib.suppress(OSError):
            # Holes take no room: count blocks, not lengths.
            total += path.lstat().st_blocks * 512
    return total


def sweep(folder: Path, before_s: float) -> None:
    """Remove what lies in a folder unchanged since a time."""
    for path in children(folder):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < before_s:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is not there."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def link_all(source: Path, target: Path) -> None:
    """Give the files of a folder second names in another, as far as they are there and the file system has links."""
    for path in children(source):
        with contextlib.suppress(OSError):
            os.link(path, target / path.name, follow_symlinks=False)


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write all of it, however much the system takes at a time."""
    view = memoryview(data)
    while view.nbytes:
        view = view[os.write(handle, view) :]


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
