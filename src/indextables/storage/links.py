"""Gives a finished file its name, without ever replacing another one."""

from __future__ import annotations

import errno
import os
import stat

from indextables.errors import StoreError, StoreUnsafe
from indextables.storage.store import PutAnswer

__all__ = ["PASSING", "is_same_file", "is_taken", "link"]

PASSING = {errno.EIO, errno.EAGAIN, errno.ESTALE, errno.EINTR, errno.ETIMEDOUT}
# What link() says where there are no hard links: FUSE and SMB mounts, some container volumes.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


def is_taken(folder: int, name: str, key: str) -> bool:
    """True if there is such an object. Raises StoreError if something that is no object has its name."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"a folder or link stands where the file {key} must go: move it away", key=key)
    return True


def link(temp_folder: int, temp: str, folder: int, name: str, key: str) -> PutAnswer:
    """Give the temporary file its name, unless that is taken. Raises what proves that it did not get it."""
    try:
        os.link(temp, name, src_dir_fd=temp_folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        # Over a network the answer to a link that was made may be an error, so that we look who has the name.
        landed = is_same_file(temp_folder, temp, folder, name)
        if landed:
            return PutAnswer.CREATED
        if isinstance(error, FileExistsError):
            return PutAnswer.REFUSED
        if landed is None or error.errno in PASSING:
            return PutAnswer.UNKNOWN
        if error.errno in _NO_LINKS:
            message = (
                f"this file system cannot make the hard link that a safe commit needs ({error.strerror}): "
                "use a local disk or an object store"
            )
            raise StoreUnsafe(message, key=key) from error
        raise
    return PutAnswer.CREATED


def is_same_file(temp_folder: int, temp: str, folder: int, name: str) -> bool | None:
    """True if both names belong to one file, None if that cannot be found out."""
    try:
        ours = os.stat(temp, dir_fd=temp_folder, follow_symlinks=False)
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return (ours.st_dev, ours.st_ino) == (found.st_dev, found.st_ino)
