"""The verbs of the log: append, overwrite, change metadata or protocol, record a skip, resolve a token."""

from __future__ import annotations

from collections.abc import Mapping

from indextables.errors import CommitStateUnknown, InvalidArgument, VersionExpired, VersionNotFound
from indextables.log.commit.staged import Files, Staged, removes_of
from indextables.log.commit.transaction import Transaction
from indextables.log.read import Log, Snapshot, newest_tokens
from indextables.log.wire import MAX_VERSION, Committed, MergeSkip, Metadata, Protocol, check_whole, upgraded

__all__ = [
    "append",
    "change_metadata",
    "overwrite",
    "record_skip",
    "resolve_token",
    "retry_times",
    "upgrade_protocol",
]

_HOUR_MS = 3_600_000
# A hundred years.
_LONGEST_HOURS = 876_600


def append(
    log: Log,
    adds: Files,
    *,
    txn: tuple[str, int] | None = None,
    operation: str = "WRITE",
    parameters: Mapping[str, str | None] | None = None,
    table_id: str | None = None,
) -> Committed:
    """Add files, in one version and without reading any. Never gives up against other writers.

    `txn` is (application id, batch number): a batch that the table holds already is not written again.
    """
    given = {"mode": "Append"} if parameters is None else parameters
    tx = Transaction(log, operation=operation, parameters=given, table_id=table_id).add(adds)
    if txn is not None:
        tx.set_txn(*txn)
    return tx.commit_or_raise()


def overwrite(
    log: Log,
    adds: Files,
    *,
    txn: tuple[str, int] | None = None,
    parameters: Mapping[str, str | None] | None = None,
    metadata: Metadata | None = None,
    table_id: str | None = None,
) -> Committed:
    """Replace every live file by `adds` (or by nothing), in one version.

    The removes are those of the version that the commit goes on top of, so that an append which won the race is
    replaced too. Raises CommitConflict if the winner removed or replaced rows.
    """
    given = {"mode": "Overwrite"} if parameters is None else parameters
    tx = Transaction(log, operation="WRITE", parameters=given, table_id=table_id).add(adds)
    if metadata is not None:
        tx.set_metadata(metadata)
    if txn is not None:
        tx.set_txn(*txn)

    def remove_all(snapshot: Snapshot) -> Staged:
        files = snapshot.files
        return Staged(removes=removes_of(files, log.env.ambient.now_ms()), removed_rows=files)

    return tx.bind(remove_all, replaces_range=True).commit_or_raise()


def change_metadata(
    log: Log, metadata: Metadata, *, operation: str = "SET TBLPROPERTIES", snapshot: Snapshot | None = None
) -> Committed:
    """Replace the metadata; id and time of creation must be the table's. Raises MetadataChanged on a lost race."""
    return Transaction(log, snapshot, operation=operation).set_metadata(metadata).commit_or_raise()


def upgrade_protocol(log: Log, min_reader: int, min_writer: int) -> Committed:
    """Raise the protocol to at least these versions, never lower it; `repeated` where it is that high already.

    Raises ProtocolUnsupported for versions that this library does not know.
    """
    check_whole("a protocol version", min_reader)
    check_whole("a protocol version", min_writer)
    snapshot = log.snapshot()
    raised: Protocol = upgraded(snapshot.protocol, min_reader, min_writer)
    if raised is snapshot.protocol:
        return Committed(snapshot.version, log.env.ambient.token(), repeated=True)
    return Transaction(log, snapshot, operation="UPGRADE PROTOCOL").set_protocol(raised).commit_or_raise()


def record_skip(
    log: Log,
    path: str,
    reason: str,
    operation: str,
    *,
    partition_values: Mapping[str, str | None] | None = None,
    size: int | None = None,
    cooldown_hours: float = 24,
) -> int:
    """Record that a file could not be merged; the version that says so. The file stays live and readable.

    It is left alone until `cooldown_hours` from now; its count is one more than the highest so far.
    """
    given: object = cooldown_hours
    if not isinstance(given, (int, float)) or not 0 <= given <= _LONGEST_HOURS:
        message = f"the cooldown of a skip is 0 to {_LONGEST_HOURS} hours, not {cooldown_hours!r}"
        raise InvalidArgument(message, cooldown_hours=cooldown_hours)
    now_ms = log.env.ambient.now_ms()

    def count(snapshot: Snapshot) -> Staged:
        before = snapshot.skips.get(path)
        skip = MergeSkip(
            path=path,
            skipTimestamp=now_ms,
            reason=reason,
            operation=operation,
            partitionValues=None if partition_values is None else dict(partition_values),
            size=size,
            retryAfter=now_ms + round(cooldown_hours * _HOUR_MS),
            skipCount=1 if before is None else before.skipCount + 1,
        )
        return Staged(skips=(skip,))

    return Transaction(log, operation="SKIP").bind(count).commit_or_raise().version


def retry_times(snapshot: Snapshot, now_ms: int) -> dict[str, int]:
    """The files that are in their cooldown, each with the time at which it ends."""
    return {
        path: skip.retryAfter
        for path, skip in snapshot.skips.items()
        if skip.retryAfter is not None and skip.retryAfter > now_ms
    }


def resolve_token(log: Log, token: str, version: int) -> int | None:
    """What became of a commit whose outcome was unknown: the version that holds it, or None if it is not in the log.

    `version` is the slot that was tried last. Raises CommitStateUnknown while that slot is still empty (the put may
    yet arrive) or if its token can no longer be told.
    """
    check_whole("a version", version)
    if not 0 <= version <= MAX_VERSION:
        raise InvalidArgument(f"no commit can have tried version {version}", version=version)
    table = log.metadata_at().metadata.id
    found = newest_tokens(log.env, version, table)
    if found is not None:
        window = found.window
        if window is None or not window.covers(version):
            at = found.ref.version
            message = (
                f"the checkpoint of version {at} no longer tells whose commit version {version} was: look for the rows "
                "in the table to see whether the commit landed"
            )
            raise CommitStateUnknown(message, token=token, version=version)
        if token in window.tokens:
            return window.first + window.tokens.index(token)
        return None
    try:
        held = log.read_version(version)
    except (VersionNotFound, VersionExpired) as error:
        if newest_tokens(log.env, version, table) is not None:
            return resolve_token(log, token, version)
        message = (
            f"version {version} is not there yet, and a delayed request may still create it: ask again later, or "
            "commit something else, which takes that version"
        )
        raise CommitStateUnknown(message, token=token, version=version) from error
    return version if held.token == token else None
