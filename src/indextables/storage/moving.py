"""Moves bytes between memory, files and files, however few the system takes or gives at a time."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from indextables.errors import InvalidArgument, StoreError

__all__ = ["copy", "pread", "write"]

_CHUNK = 4 << 20
_KERNEL_CHUNK = 64 << 20
_NO_KERNEL_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM}


def write(file: int, data: memoryview) -> None:
    """All of the bytes. Raises OSError."""
    left = data.cast("B") if data.ndim != 1 or data.itemsize != 1 else data
    while left:
        left = left[os.write(file, left) :]


def copy(source: Path, file: int) -> None:
    """All bytes of a file. Raises InvalidArgument if there is none, OSError."""
    try:
        with source.open("rb", buffering=0) as stream:
            if not _copy_in_kernel(stream.fileno(), file):
                while chunk := stream.read(_CHUNK):
                    write(file, memoryview(chunk))
    except FileNotFoundError as error:
        raise InvalidArgument(f"{source} does not exist: there is nothing to put") from error


def _copy_in_kernel(source: int, file: int) -> bool:
    """Copy all bytes without moving them through this process; False, and nothing done, where that is not offered.

    File systems that share blocks between files copy nothing at all.
    """
    if sys.platform != "linux":
        return False
    try:
        moved = os.copy_file_range(source, file, _KERNEL_CHUNK)
    except OSError as error:
        if error.errno in _NO_KERNEL_COPY:
            return False
        raise
    # An empty file and one of /proc, whose size nobody knows, look alike here: the plain way tells them apart.
    if not moved:
        return False
    while os.copy_file_range(source, file, _KERNEL_CHUNK):
        pass
    return True


def pread(file: int, start: int, end: int, key: str) -> bytes:
    """Exactly [start, end), however little the system gives at a time."""
    chunks: list[bytes] = []
    while start < end:
        chunk = os.pread(file, min(end - start, 1 << 30), start)
        if not chunk:
            raise StoreError(f"{key} ended at byte {start}, before byte {end}: it was cut while being read", key=key)
        if start + len(chunk) == end and not chunks:
            return chunk
        chunks.append(chunk)
        start += len(chunk)
    return b"".join(chunks)
