"""Folders and files of the index cache, which other processes may take away at any time."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from indextables.errors import InvalidArgument

__all__ = ["children", "disk_size", "link_all", "private_folder", "write_all"]


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
