"""Raises the protocol, resolves a token, and tells which files rest after a merge that failed."""

from __future__ import annotations

from indextables.errors import CommitStateUnknown, InvalidArgument, VersionExpired, VersionNotFound
from indextables.log.commit.transaction import Transaction
from indextables.log.read import Log, Snapshot, newest_tokens
from indextables.log.wire import MAX_VERSION, Committed, Protocol, check_whole, upgraded

__all__ = ["resolve_token", "retry_times", "upgrade_protocol"]


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
    found = newest_tokens(log.env, version, table, token)
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
        if newest_tokens(log.env, version, table, token) is not None:
            return resolve_token(log, token, version)
        message = (
            f"version {version} is not there yet, and a delayed request may still create it: ask again later, or "
            "commit something else, which takes that version"
        )
        raise CommitStateUnknown(message, token=token, version=version) from error
    return version if held.token == token else None
