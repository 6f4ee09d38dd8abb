"""What follows a commit and can no longer fail it: the check file, the checkpoint, cleanup, the caches."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec
import pyarrow as pa

from indextables.errors import IndexTablesError, ObjectNotFound
from indextables.log import crcfile, head
from indextables.log.actions import Metadata
from indextables.log.commit import Landed
from indextables.log.env import LogEnv
from indextables.log.head import Head
from indextables.log.names import crc_key
from indextables.log.snapshot import Log
from indextables.log.state import maybe_checkpoint
from indextables.options import Option

__all__ = ["after_commit", "setting"]

T = TypeVar("T")

_LOGGER = logging.getLogger("indextables")


def after_commit(log: Log, landed: Landed, removed: pa.Table | None, *, changes_data: bool = True) -> None:
    """Write the check file, remember the head, write a checkpoint if one is due. Failures are logged, never raised."""
    content = landed.encoded.content
    base = landed.base
    totals = base.totals if base.totals is not None else _read_totals(log.env, base)
    if content.removes.num_rows and removed is None:
        totals = None
    crc = crcfile.build_next(totals, content, landed.encoded.data, removed=removed)
    info = content.commit_info
    known = {} if base.txns is None else {**base.txns, **{txn.appId: txn for txn in content.txns}}
    new = Head(
        version=content.version,
        protocol=content.protocol or base.protocol,
        metadata=content.metadata or base.metadata,
        in_commit_timestamp=None if info is None else info.inCommitTimestamp,
        token=content.token,
        identity=landed.identity,
        txns=None if base.txns is None else known,
        totals=crc.totals(),
        checkpoint=base.checkpoint,
    )
    head.remember(log, new)
    try:
        log.env.store.put_if_absent(crc_key(content.version), crcfile.encode_crc(crc))
    except IndexTablesError as error:
        _LOGGER.warning("the check file of version %d was not written: %s", content.version, error)
    _checkpoint_if_due(log, new, after_merge=bool(content.removes.num_rows) and not changes_data)


def _checkpoint_if_due(log: Log, at: Head, *, after_merge: bool) -> None:
    env = log.env
    if at.metadata.configuration:
        env = msgspec.structs.replace(env, options=env.options.over(at.metadata.configuration))
    newest = maybe_checkpoint(env, at.version, newest=at.checkpoint, after_merge=after_merge)
    if newest > at.version:
        # The checkpoint came with an upgrade of the protocol, in a version of its own: this head is not newest.
        head.forget(log)
    elif newest > at.checkpoint:
        head.remember(log, msgspec.structs.replace(at, checkpoint=newest))


def setting(env: LogEnv, metadata: Metadata, option: Option[T]) -> T:
    """An option as the call, the session or the environment gives it, else as the table's configuration does."""
    options = env.options.over(metadata.configuration) if metadata.configuration else env.options
    return options[option]


def _read_totals(env: LogEnv, base: Head) -> crcfile.Totals | None:
    try:
        crc = crcfile.parse_crc(env.store.get(crc_key(base.version)))
    except ObjectNotFound:
        return None
    except IndexTablesError as error:
        _LOGGER.warning("the check file of version %d was not read: %s", base.version, error)
        return None
    return None if crc is None or crc.token is None or crc.token != base.token else crc.totals()
