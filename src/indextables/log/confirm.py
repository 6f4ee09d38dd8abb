"""Was a version file that has just been read the one that was committed?

Cleanup may take a version file while somebody reads the log, and a writer that had been asleep may then put its own
file into the empty slot. That writer will be told by the checkpoint above that it has not committed; a reader that
was between its listing and its reads must find out too. It looks, after the reads, for a sign that nothing it read
can have been deleted before:

- The checkpoint that it started from is still there. Cleanup deletes all checkpoints below its cut before it deletes
  a version file, so that nothing above this checkpoint has been touched.
- There is no checkpoint at or above the first version that was read.
- There is one, and its list of tokens names the tokens that were read.
- Version 0 was read, and is still there: cleanup deletes the oldest version file before any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from indextables.errors import ObjectNotFound
from indextables.log.codec import VersionContent
from indextables.log.env import LogEnv
from indextables.log.names import version_key
from indextables.log.state.base import StateRef
from indextables.log.tokens import newest_tokens

__all__ = ["confirm"]


def confirm(env: LogEnv, base: StateRef | None, contents: Sequence[VersionContent]) -> None:
    """Check that `contents`, which were read above `base` (or from the first version on), are what was committed.

    Raises ObjectNotFound where that cannot be shown: list and read again.
    """
    if not contents or (base is not None and env.store.exists(base.keys[0])):
        return
    found = newest_tokens(env, contents[0].version)
    if found is None:
        return
    ref, window = found.ref, found.window
    covered = [content for content in contents if content.version <= ref.version]
    told = [content for content in covered if window is not None and window.covers(content.version)]
    for content in told:
        if window is not None and window.token_at(content.version) != content.token:
            raise _gone(content)
    if len(told) == len(covered):
        return
    from_the_start = contents[0].version == 0 and len({_table_id(content) for content in contents} - {None}) == 1
    if not from_the_start or not env.store.exists(version_key(0)):
        raise _gone(contents[0])


def _table_id(content: VersionContent) -> str | None:
    if content.metadata is not None:
        return content.metadata.id
    return None if content.commit_info is None else content.commit_info.tableId


def _gone(content: VersionContent) -> ObjectNotFound:
    message = f"version {content.version} was cleaned up while it was read"
    return ObjectNotFound(message, key=version_key(content.version), version=content.version)
