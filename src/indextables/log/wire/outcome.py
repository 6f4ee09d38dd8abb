"""What became of a commit: a value, decided by what the log holds and never by what a put answered."""

from __future__ import annotations

from typing import Literal

import msgspec

from indextables import options as opt
from indextables.errors import (
    CommitConflict,
    CommitStateUnknown,
    IndexTablesError,
    MetadataChanged,
    ProtocolChanged,
)

__all__ = ["Committed", "ConflictKind", "Conflicted", "Outcome", "Unknown", "error_of"]

ConflictKind = Literal["metadata", "protocol", "data", "domain", "attempts"]


class Committed(msgspec.Struct, frozen=True):
    """The commit is version `version` of the table, for ever.

    `repeated` tells that the table already held this commit's `txn`: nothing was written, and `version` is the
    version that holds it (or the newest one by which it was there).
    """

    version: int
    token: str
    timestamp_ms: int | None = None
    attempts: int = 1
    repeated: bool = False


class Conflicted(msgspec.Struct, frozen=True):
    """The commit is not in the log and never will be; its data files may be deleted or used again.

    `winner` is the version that stands in its way, `winner_operation` what that commit says it did.
    """

    kind: ConflictKind
    reason: str
    winner: int
    token: str
    winner_operation: str | None = None
    attempts: int = 1


class Unknown(msgspec.Struct, frozen=True):
    """Nobody can tell yet whether the commit is version `version`: look for `token` later, and delete nothing."""

    token: str
    version: int
    reason: str


Outcome = Committed | Conflicted | Unknown


def error_of(outcome: Conflicted | Unknown, url: str) -> IndexTablesError:
    """The exception that an outcome becomes outside."""
    if isinstance(outcome, Unknown):
        message = (
            f"whether version {outcome.version} of {url} is this commit cannot be told ({outcome.reason}). Do not "
            f"delete its files and do not repeat it: "
            f"ask later with resolve({outcome.token!r}, {outcome.version}) of the table"
        )
        return CommitStateUnknown(message, token=outcome.token, version=outcome.version, url=url)
    by = f" by {outcome.winner_operation}" if outcome.winner_operation else ""
    details = {"winner": outcome.winner, "reason": outcome.reason, "attempts": outcome.attempts, "url": url}
    if outcome.kind == "attempts":
        message = (
            f"Failed to write transaction log version {outcome.winner} - file already exists: {outcome.attempts} "
            f"attempts at {url} lost against other writers, the last one{by}. Raise "
            f"{opt.TRANSACTION_RETRY_MAX_ATTEMPTS.key} or run fewer writers at a time"
        )
        return CommitConflict(message, **details)
    kinds: dict[str, type[CommitConflict]] = {"metadata": MetadataChanged, "protocol": ProtocolChanged}
    message = (
        f"this commit to {url} clashes with version {outcome.winner}{by}: {outcome.reason}. Nothing was committed: "
        f"read the table again and repeat the operation"
    )
    return kinds.get(outcome.kind, CommitConflict)(message, **details)
