"""Writes the check file of a version that was just committed, and remembers the head that it made."""

from __future__ import annotations

import logging

import pyarrow as pa

from indextables.env import Env
from indextables.errors import IndexTablesError, ObjectNotFound
from indextables.log.commit import Head, Landed, content_of, has_vectors, head, next_row_id
from indextables.log.read import Log
from indextables.log.wire import crc_key, crcfile, with_few_files
from indextables.storage.store import CallPolicy

__all__ = ["note_commit"]

# A check file is advisory: what a crash takes is not missed.
_NOT_DURABLE = CallPolicy(attempts=1, durable=False)

_LOGGER = logging.getLogger("indextables")


def note_commit(log: Log, landed: Landed) -> Head:
    """Write the check file and remember the head, which is returned. A file that is not written is logged only."""
    encoded, base, staged = landed.encoded, landed.base, landed.encoded.staged
    crc = _check_file(log.env, landed)
    txns = base.txns
    if txns is not None and staged.txns:
        txns = {**txns, **{txn.appId: txn for txn in staged.txns}}
    new = Head(
        version=encoded.version,
        protocol=staged.protocol or base.protocol,
        metadata=staged.metadata or base.metadata,
        in_commit_timestamp=encoded.info.inCommitTimestamp,
        token=encoded.info.token,
        identity=landed.identity,
        txns=txns,
        totals=crc.totals(),
        checkpoint=base.checkpoint,
        crc32c=crc.crc32c,
        next_row_id=base.next_row_id if (told := next_row_id(staged.domains)) is None else told,
    )
    head.remember(log, new)
    if landed.meta is not None:
        log.learn_commit(encoded.version, landed.meta, base.identity)
    try:
        log.env.store.put_if_absent(crc_key(encoded.version), crcfile.encode_crc(crc), policy=_NOT_DURABLE)
    except IndexTablesError as error:
        _LOGGER.warning("the check file of version %d was not written: %s", encoded.version, error)
    return new


def _check_file(env: Env, landed: Landed) -> crcfile.CrcFile:
    encoded, staged = landed.encoded, landed.encoded.staged
    before = landed.base.totals if landed.base.totals is not None else _read_totals(env, landed.base)
    if before is None or len(staged.removes) or isinstance(staged.adds, pa.Table) or has_vectors(staged.adds):
        if len(staged.removes) and staged.removed_rows is None:
            before = None
        content = content_of(staged, encoded.info, encoded.version)
        return crcfile.build_next(before, content, encoded.data, removed=staged.removed_rows)
    after = with_few_files(before, staged.adds)
    return crcfile.CrcFile(
        crc32c=crcfile.crc32c(encoded.data),
        token=encoded.info.token,
        tableSizeBytes=after.size_bytes,
        numFiles=after.num_files,
        numRecords=after.num_records,
        numMetadata=1,
        numProtocol=1,
        setHash=after.set_hash,
    )


def _read_totals(env: Env, base: Head) -> crcfile.Totals | None:
    try:
        crc = crcfile.parse_crc(env.store.get(crc_key(base.version)))
    except ObjectNotFound:
        return None
    except IndexTablesError as error:
        _LOGGER.warning("the check file of version %d was not read: %s", base.version, error)
        return None
    return None if crc is None or crc.token is None or crc.token != base.token else crc.totals()
