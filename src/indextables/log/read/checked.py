"""Is the newest version what was written, its file and the table at it? Its check file tells, for one request."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.env import Env
from indextables.errors import LogCorrupt, ObjectNotFound
from indextables.log.wire import CrcFile, VersionContent, check_bytes, crc_key, parse_crc

__all__ = ["check_counts", "check_newest", "read_check_file"]


def read_check_file(env: Env, version: int) -> CrcFile | None:
    """The check file of a version; None if there is none that can be read: it is advisory. Raises StoreError."""
    try:
        return parse_crc(env.store.get(crc_key(version)))
    except ObjectNotFound:
        return None


def check_newest(env: Env, contents: Sequence[VersionContent]) -> CrcFile | None:
    """The check file of the last of these versions, where it has one of its own.

    Those below it are proven by what the version above says of them. Raises LogCorrupt if the version has other bytes
    than its check file was made of.
    """
    newest = contents[-1] if contents else None
    actual = None if newest is None else newest.crc32c
    if newest is None or actual is None:
        return None
    told = read_check_file(env, newest.version)
    check_bytes(told, newest, actual)
    return told if told is not None and told.token is not None and told.token == newest.token else None


def check_counts(url: str, told: CrcFile | None, version: int, count: int, size: int) -> None:
    """Raises LogCorrupt if the check file of a version says other numbers of files or bytes than these.

    One of them is wrong: a checkpoint that the version was built on, or the check file. Nobody can tell which.
    """
    reason = "" if told is None else told.difference(count, size)
    if not reason:
        return
    message = (
        f"version {version} at {url} is not what was written: {reason}. Run verify, and delete the checkpoint "
        f"that is wrong; if it is {crc_key(version)} that is, delete this one"
    )
    raise LogCorrupt(message, version=version, url=url, reason=reason)
