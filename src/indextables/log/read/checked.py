"""Is the newest version file the one that was written? Its check file tells, for one request."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.env import Env
from indextables.errors import ObjectNotFound
from indextables.log.wire import CrcFile, VersionContent, check_bytes, crc_key, parse_crc

__all__ = ["check_newest", "read_check_file"]


def read_check_file(env: Env, version: int) -> CrcFile | None:
    """The check file of a version; None if there is none that can be read: it is advisory. Raises StoreError."""
    try:
        return parse_crc(env.store.get(crc_key(version)))
    except ObjectNotFound:
        return None


def check_newest(env: Env, contents: Sequence[VersionContent]) -> None:
    """Raises LogCorrupt if the last of these versions has other bytes than its check file was made of.

    Those below it are proven by what the version above says of them.
    """
    if contents and contents[-1].crc32c is not None:
        check_bytes(read_check_file(env, contents[-1].version), contents[-1], contents[-1].crc32c)
