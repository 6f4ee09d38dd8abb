"""What follows a commit and can no longer fail it: the check file, the checkpoint, cleanup, the caches."""

from __future__ import annotations

import logging

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError
from indextables.log.care.check_file import note_commit
from indextables.log.care.schedule import is_due, maybe_checkpoint
from indextables.log.commit import Head, Landed, changes_data, head
from indextables.log.read import Log
from indextables.log.wire import DELTA_MIRROR
from indextables.process import WANT

__all__ = ["after_commit"]


_LOGGER = logging.getLogger("indextables")

# Want of threads, memory or disk too: the commit stands, and who was told otherwise would do it again.
_NOT_THE_COMMITS = (IndexTablesError, pa.ArrowException, *WANT)


def after_commit(log: Log, landed: Landed) -> None:
    """Write the check file, remember the head, write a checkpoint if one is due. Failures are logged, never raised."""
    try:
        new = _mirrored(log, landed, note_commit(log, landed))
        _checkpoint_if_due(log, new, after_merge=_is_merge(landed))
    except _NOT_THE_COMMITS as error:
        version, reason = landed.encoded.version, str(error) or type(error).__name__
        _LOGGER.warning("what follows version %d of %s was not done: %s", version, log.url, reason)
        # The next commit looks for itself.
        head.forget(log)


def _mirrored(log: Log, landed: Landed, new: Head) -> Head:
    """Mirror the version before the verb returns: who leaves this to others leaves a mirror that is behind."""
    if DELTA_MIRROR not in (new.protocol.writerFeatures or []):
        return new
    from indextables.log.mirror import Basis, follow

    below = -1 if new.version == 0 else landed.base.mirrored
    mirrored = follow(log, new.version, landed.encoded.data, Basis(new.protocol, new.metadata), below)
    new = msgspec.structs.replace(new, mirrored=mirrored)
    head.remember(log, new)
    return new


def _is_merge(landed: Landed) -> bool:
    """True if rows moved and somebody asked for it: what a table does by itself moves a few files, often."""
    staged, info = landed.encoded.staged, landed.encoded.info
    unasked = "auto" in (info.operationParameters or {})
    return bool(len(staged.removes)) and not changes_data(staged) and not unasked


def _checkpoint_if_due(log: Log, at: Head, *, after_merge: bool) -> None:
    env = log.env
    env = msgspec.structs.replace(env, options=env.over(at.metadata.configuration))
    newest = maybe_checkpoint(env, at.version, newest=at.checkpoint, after_merge=after_merge)
    if newest > at.version:
        # The checkpoint came with an upgrade of the protocol, in a version of its own: this head is not newest.
        head.forget(log)
    elif newest > at.checkpoint:
        head.remember(log, msgspec.structs.replace(at, checkpoint=newest))
    elif _is_overdue(env, at.version, newest):
        # It failed, perhaps because a version file below is missing or damaged: the next commit looks for itself.
        head.forget(log)
        log.invalidate()


def _is_overdue(env: Env, version: int, newest: int) -> bool:
    options = env.options
    waits = options[opt.CHECKPOINT_ENABLED] and not options[opt.CHECKPOINT_ASYNC]
    return waits and is_due(version, newest, options[opt.CHECKPOINT_INTERVAL])
