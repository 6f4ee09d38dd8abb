"""Says where a split is built: small ones in a memory file system, all others in the system's temporary folder.

Tantivy forces every file of an index to the disk, although nobody needs it before the split itself is put: in memory
that costs nothing. A folder belongs to whoever holds the lock on it. A process that is killed lets go of it, and the
next one that builds at that place takes the folder away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import msgspec

from indextables import process
from indextables.ambient import Ambient
from indextables.storage.mounts import file_system_of, system_mounts

__all__ = ["MOST_BYTES", "MOST_HELD", "SYSTEM", "Places", "Scratch", "fits_memory", "in_memory", "on_disk"]

MOST_BYTES = 16 << 20
"""What one split may take of a memory file system."""

MOST_HELD = 4 << 20
"""Rows of so many bytes are kept back until it is known whether more will come."""

_ROOM = 2
"""A memory file system must have so many times the room, as others use it too."""

_YOUNG_MS = 60_000
"""A folder is made before it is locked: a young one is left alone."""

_PREFIX = "indextables-"
_DISK_PREFIX = "indextables-scratch-"
"""Caches and copies lie in the temporary folder as well, under other names and without a lock."""
_MEMORY_KINDS = frozenset({"tmpfs", "ramfs"})
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - folders are made there under names that nobody else has


@lru_cache(maxsize=1)
def system_memory() -> Path | None:
    """The folder of a memory file system that this machine offers to everybody; None where there is none."""
    if file_system_of(_SHARED_MEMORY, system_mounts()) not in _MEMORY_KINDS:
        return None
    return Path(_SHARED_MEMORY)


def _free_bytes(folder: Path) -> int:
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


class Places(msgspec.Struct, frozen=True):
    """Where scratch folders may be made in memory, asked for when one is needed, and how much room is there."""

    memory: Callable[[], Path | None] = system_memory
    free_bytes: Callable[[Path], int] = _free_bytes


SYSTEM = Places()


class Scratch:
    """A folder of its own, mode 0700, until `remove`."""

    def __init__(self, path: Path, lock: int = -1) -> None:
        self.path = path
        self._lock = lock

    def remove(self) -> None:
        """Delete everything; harmless when already done."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def fits_memory(rows_bytes: int, index_bytes: int) -> bool:
    """True if a split of these rows and this much index may be built in memory. Pure."""
    return rows_bytes + index_bytes <= MOST_BYTES


def on_disk(ambient: Ambient) -> Scratch:
    """A scratch folder in the system's temporary folder. Raises OSError."""
    folder = Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        _sweep_once(folder, _DISK_PREFIX, ambient.now_ms())
    scratch = _locked(folder, _DISK_PREFIX, ambient)
    # Where nothing can be locked, its name must not be one that is taken away.
    return scratch or Scratch(Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{ambient.token()}-", dir=folder)))


def in_memory(places: Places, ambient: Ambient) -> Scratch | None:
    """A scratch folder in memory; None where there is no such file system, too little room, or anything fails."""
    try:
        folder = places.memory()
        if folder is None:
            return None
        _sweep_once(folder, _PREFIX, ambient.now_ms())
        if places.free_bytes(folder) < _ROOM * MOST_BYTES:
            return None
        return _locked(folder, _PREFIX, ambient)
    except OSError:
        return None


def _locked(folder: Path, prefix: str, ambient: Ambient) -> Scratch | None:
    """A folder that this process holds the lock on; None where it cannot be locked. Raises OSError."""
    # Made under a name that nobody else has, whatever tokens another process on this machine counts.
    path = tempfile.mkdtemp(prefix=f"{prefix}{ambient.token()}-", dir=folder)
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        return None
    return Scratch(Path(path), lock)


def _sweep_once(folder: Path, prefix: str, now_ms: int) -> None:
    """Take away what killed processes left there under such names, once in the life of this one."""
    with _MEMORY.lock:
        if (str(folder), prefix) in _SWEPT:
            return
        _SWEPT.add((str(folder), prefix))
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(prefix)]
    for name in names:
        # Another process may take it first.
        with contextlib.suppress(OSError):
            _sweep(folder / name, now_ms)


def _sweep(path: Path, now_ms: int) -> None:
    facts = path.lstat()
    if facts.st_uid != os.geteuid() or facts.st_mtime_ns // 1_000_000 > now_ms - _YOUNG_MS:
        return
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


_SWEPT: set[tuple[str, str]] = set()

_MEMORY = process.declare(
    process.Memory(
        name="swept scratch",
        where=f"{__name__}._SWEPT",
        key="folder where splits are built, and how scratch is named there",
        bound="a few folders",
        fork="the child keeps it: what the parent left there by then is gone, or is the parent's",
        ends="never",
        clear=_SWEPT.clear,
    )
)
