"""Tells that the table holds a batch already, and since which version: a commit of it again is a repetition."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.errors import LogError, StoreError
from indextables.log.commit import head
from indextables.log.commit.head import Head
from indextables.log.read import Log
from indextables.log.wire import Committed, Txn

__all__ = ["held_at", "newest_of_log", "repetition", "repetition_by_now"]

_LOOK_BACK = 1000


def held_at(base: Head, txns: Sequence[Txn]) -> Txn | None:
    """One of these batches that the table holds at `base`, or a later one of its application. Pure."""
    for txn in txns:
        held = (base.txns or {}).get(txn.appId)
        if held is not None and held.version >= txn.version:
            return txn
    return None


def newest_of_log(log: Log) -> Head:
    """The newest version with its batches, from the log that is there now. Raises as `head.load`."""
    head.forget(log)
    log.look_again()
    return head.load(log, with_txns=True)


def repetition(log: Log, base: Head, txns: Sequence[Txn], token: str) -> Committed | None:
    """The outcome of a commit with these batches on top of `base`, if that holds one of them."""
    txn = held_at(base, txns)
    return None if txn is None else Committed(_holder(log, txn, base.version), token, repeated=True)


def repetition_by_now(log: Log, base: Head, txns: Sequence[Txn], token: str) -> Committed | None:
    """As `repetition`, of the newest version: for a commit that clashed with one before that which holds its batch.

    None also where the log cannot be read: then the clash is all that is known.
    """
    if not txns:
        return None
    try:
        newest = newest_of_log(log)
    except (LogError, StoreError):
        return None
    return repetition(log, newest, txns, token) if newest.metadata.id == base.metadata.id else None


def _holder(log: Log, txn: Txn, newest: int) -> int:
    """The newest version that brought this or a later batch; `newest` if that cannot be read any more."""
    for version in range(newest, max(newest - _LOOK_BACK, -1), -1):
        try:
            content = log.read_version(version)
        except LogError:
            break
        if any(held.appId == txn.appId and held.version >= txn.version for held in content.txns):
            return version
    return newest
