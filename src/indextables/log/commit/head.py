"""`Head` is what a writer must know about the newest version; it says nothing about its files."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import msgspec

from indextables import process
from indextables.errors import ObjectNotFound, VersionExpired, VersionNotFound
from indextables.log.commit import row_ids
from indextables.log.commit.winner import Winner, read_slot
from indextables.log.read import Log, Snapshot, table_of, tokens
from indextables.log.wire import Metadata, Protocol, StateHeader, Txn, VersionContent, crcfile, tracks_rows

__all__ = ["Head", "advance", "following_row_id", "forget", "head_of", "load", "recall", "remember"]


class Head(msgspec.Struct, frozen=True):
    """The newest version that a writer has verified to be part of the history.

    `identity` tells its file from another file of that name, `crc32c` is that of its stored bytes, `txns` is None where
    nobody asked for it, `totals` where they are not known, and `checkpoint` is the newest checkpoint heard of.
    `next_row_id` is the id that the next new row gets, in a table that tracks rows. `mirrored` is the version that its
    Delta mirror is known to have, -1 where nobody knows.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    in_commit_timestamp: int | None = None
    token: str | None = None
    identity: str | None = None
    txns: Mapping[str, Txn] | None = None
    totals: crcfile.Totals | None = None
    checkpoint: int = -1
    crc32c: int | None = None
    next_row_id: int | None = None
    mirrored: int = -1


def head_of(snapshot: Snapshot) -> Head:
    """The head as a snapshot knows it, without reading its files."""
    header = snapshot.header
    window = header.tokens
    return Head(
        version=snapshot.version,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        in_commit_timestamp=header.in_commit_timestamp,
        token=window.token_at(snapshot.version) if window is not None and window.covers(snapshot.version) else None,
        txns=header.txns,
        next_row_id=_next_row_id(header),
    )


def load(log: Log, *, with_txns: bool = False) -> Head:
    """The newest version, from the log itself, without a gap below it.

    Raises TableNotFound, LogGap, and what reading the log raises.
    """
    if with_txns:
        snapshot = log.snapshot()
        log.check_unbroken(snapshot.version, snapshot.table_id)
        return head_of(snapshot)
    version, protocol, metadata = log.metadata_at()
    # Looked at before the file was read and confirmed, whichever read that was.
    known = log.remembered()
    log.check_unbroken(version, metadata.id)
    try:
        content = log.read_version(version)
    except (VersionExpired, VersionNotFound, ObjectNotFound):
        # The newest version is a checkpoint whose version file is gone, or not the one that was committed.
        return head_of(log.snapshot())
    if table_of(content) not in {None, metadata.id}:
        # Another table has taken the place of the one whose metadata was read.
        log.invalidate()
        return head_of(log.snapshot())
    following = row_ids.next_row_id(content.domains)
    if following is None and tracks_rows(protocol):
        following = _next_row_id(log.snapshot(version).header) if version > 0 else 0
    info = content.commit_info
    time = None if info is None else info.inCommitTimestamp
    return Head(
        version,
        protocol,
        metadata,
        time,
        content.token,
        (None if known is None else known.etag_of(version)) or _identity(log, content),
        checkpoint=-1 if known is None else known.newest_state,
        crc32c=content.crc32c,
        next_row_id=following,
    )


def _identity(log: Log, confirmed: VersionContent) -> str | None:
    """What tells the local file of a confirmed version from another, where nobody has noted that before it was read."""
    if not log.env.store.is_local:
        return None
    seen = tokens.identity_of(log.env, confirmed.version)
    held = read_slot(log.env, confirmed.version) if seen is not None and confirmed.token is not None else None
    return seen if held is not None and (held.token, held.crc32c) == (confirmed.token, confirmed.crc32c) else None


def advance(head: Head, winner: Winner, *, identity: str | None = None) -> Head:
    """The head after the version that follows it. Pure."""
    info = winner.commit_info
    time = None if info is None else info.inCommitTimestamp
    return Head(
        version=winner.version,
        protocol=winner.protocol or head.protocol,
        metadata=winner.metadata or head.metadata,
        in_commit_timestamp=time if time is not None else head.in_commit_timestamp,
        token=winner.token,
        identity=identity,
        txns=winner.txns_after(head.txns),
        totals=winner.totals_after(head.totals),
        checkpoint=head.checkpoint,
        crc32c=winner.crc32c,
        next_row_id=told if (told := row_ids.next_row_id(winner.domains)) is not None else head.next_row_id,
        mirrored=head.mirrored,
    )


def following_row_id(log: Log, head: Head) -> int:
    """The id that the next new row of a table gets, which tracks rows; 0 if it is only now that it does."""
    if head.next_row_id is not None or not tracks_rows(head.protocol):
        return head.next_row_id or 0
    return _next_row_id(log.snapshot(head.version).header) or 0


def recall(log: Log) -> Head | None:
    """The head that this process last verified for this log."""
    with _MEMORY.lock:
        return _HEADS.get(log)


def remember(log: Log, head: Head) -> None:
    """Keep a verified head for the next commit, unless a newer one is known."""
    with _MEMORY.lock:
        known = _HEADS.get(log)
        if known is None or known.version <= head.version or known.metadata.id != head.metadata.id:
            _HEADS[log] = head


def forget(log: Log) -> None:
    """Start from the log itself next time."""
    with _MEMORY.lock:
        _HEADS.pop(log, None)


# A head is a fact about an immutable version: it never goes stale, it only stops being the newest.
_HEADS: weakref.WeakKeyDictionary[Log, Head] = weakref.WeakKeyDictionary()


def _clear() -> None:
    with _MEMORY.lock:
        _HEADS.clear()


def _forget_table(url: str) -> int:
    url = url.rstrip("/")
    with _MEMORY.lock:
        found = [log for log in _HEADS if log.url == url or log.url.startswith(url + "/")]
        for log in found:
            del _HEADS[log]
    return len(found)


_MEMORY = process.declare(
    process.Memory(
        name="verified heads",
        where=f"{__name__}._HEADS",
        key="handle (`Log`)",
        bound="one per living handle",
        fork="the child keeps them; the lock is new",
        ends="never wrong; replaced by a newer one, dropped with the handle or by `invalidate_caches`",
        clear=_clear,
        forget=_forget_table,
    )
)


def _next_row_id(header: StateHeader) -> int | None:
    """The next id to give; 0 in a table that tracks rows and has none yet."""
    if not tracks_rows(header.protocol):
        return None
    return row_ids.next_row_id(header.domains.values()) or 0
