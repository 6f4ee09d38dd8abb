"""Which file system is this? Some show the work of other machines late, and commits on local files need it at once.

A writer takes a file that is still there for a proof that nothing newer was deleted (`log.commit`). A client of NFS
or SMB answers that question from its own cache for seconds, so that two machines could both commit one version. Such
file systems are refused for writing by their name in the mount table of the system, where there is one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from indextables.errors import StoreUnsafe

__all__ = ["Mounts", "check_mount", "file_system_of", "system_mounts"]

Mounts = Callable[[], str]
"""The mount table, as `/proc/self/mountinfo` has it; empty where the system does not tell."""

_TABLE = Path("/proc/self/mountinfo")
_LATE = frozenset({"afs", "cifs", "fuse.sshfs", "nfs", "nfs4", "smb3", "smbfs"})
_OCTAL = re.compile(r"\\([0-7]{3})")


def system_mounts() -> str:
    """The mount table of this process."""
    try:
        return _TABLE.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def check_mount(url: str, path: str, mounts: Mounts) -> None:
    """Raises StoreUnsafe for a path on a file system that shows deletes of other machines late."""
    kind = file_system_of(os.path.realpath(path), mounts())
    if kind in _LATE:
        message = (
            f"{url} lies on a file system of the kind {kind}, which shows what other machines deleted only after a "
            "while: two of them could commit the same version. Tables there can be read, not written; put the table on "
            "a local disk or into an object store"
        )
        raise StoreUnsafe(message, url=url, file_system=kind)


def file_system_of(path: str, table: str) -> str | None:
    """The kind of the file system that holds an absolute path, by a mount table; None where that does not tell."""
    found: str | None = None
    longest = -1
    for line in table.splitlines():
        fields, _, rest = line.partition(" - ")
        parts = fields.split(" ")
        if len(parts) < 5 or not rest:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), parts[4]).rstrip("/")
        # A later line for the same place lies over the earlier one.
        if (path == point or path.startswith(f"{point}/")) and len(point) >= longest:
            found, longest = rest.split(" ", 1)[0], len(point)
    return found
