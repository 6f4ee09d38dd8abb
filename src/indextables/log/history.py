"""Who did what when: the history of a table, and which version was newest at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from indextables.errors import InvalidArgument, ObjectNotFound, VersionExpired, VersionNotFound
from indextables.log.actions import CommitInfo
from indextables.log.codec import commit_info_of
from indextables.log.files import STRING_MAP
from indextables.log.listing import Known, discover
from indextables.log.names import check_whole, version_key
from indextables.log.snapshot import Log
from indextables.log.state.base import StateRef
from indextables.log.state.reading import inspect_state

__all__ = ["HISTORY_SCHEMA", "history", "version_at"]

HISTORY_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("operation", pa.string()),
        ("operationParameters", STRING_MAP),
        ("operationMetrics", STRING_MAP),
        ("readVersion", pa.int64()),
        ("isolationLevel", pa.string()),
        ("isBlindAppend", pa.bool_()),
        ("engineInfo", pa.string()),
        ("userMetadata", pa.string()),
        ("user", pa.string()),
        ("token", pa.string()),
    ]
)

_AT_ONCE = 64

# Cleanup works beside readers: look again this often.
_ATTEMPTS = 3


def history(log: Log, limit: int | None = None) -> pa.Table:
    """One row per version whose file is there, newest first; only commit information is read.

    A table that has only checkpoints has a row for each of them. A version that tells no time has the time of its
    file. Raises TableNotFound, LogGap, LogCorrupt, and InvalidArgument for a limit below 1.
    """
    if limit is not None:
        check_whole("the limit of a history", limit)
    if limit is not None and limit < 1:
        raise InvalidArgument(f"the limit of a history is at least 1, not {limit}", limit=limit)
    versions = log.versions()
    if not versions:
        return _of_states(log, limit)
    newest_first = versions[::-1] if limit is None else versions[::-1][:limit]
    rows: list[dict[str, object]] = []
    for start in range(0, len(newest_first), _AT_ONCE):
        part = newest_first[start : start + _AT_ONCE]
        try:
            infos = list(log.env.ambient.map("versions", lambda version: _commit_info(log, version), part))
        except ObjectNotFound:
            # Cleanup took the oldest ones since they were listed: what is left is the history.
            rows += _rows_until_gone(log, part)
            break
        rows += [_row(log, version, info) for version, info in zip(part, infos, strict=True)]
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def version_at(log: Log, timestamp_ms: int) -> int:
    """The newest version whose commit is not later than the time.

    Commit times only ever grow, so that the version is found by halving. The oldest version that cleanup left has no
    file of its own: its checkpoint tells its time. Raises VersionExpired or VersionNotFound for a time before the
    oldest version that is left, and as `history`.
    """
    check_whole("a time in milliseconds", timestamp_ms)
    for _ in range(_ATTEMPTS - 1):
        try:
            return _version_at(log, timestamp_ms)
        except ObjectNotFound:
            # Cleanup took a file since it was listed.
            log.invalidate()
    return _version_at(log, timestamp_ms)


def _version_at(log: Log, timestamp_ms: int) -> int:
    known = discover(log.env)
    low, high = known.first, known.head
    if low > high:
        return _state_at(log, known, timestamp_ms)
    if any(ref.version == low - 1 for ref in known.states):
        low -= 1
    oldest = commit_time(log, low)
    if timestamp_ms < oldest:
        when = f"{timestamp_ms} is before version {low}, whose commit time is {oldest}"
        if low == 0:
            message = f"no version at {log.url} is that old: {when}"
            raise VersionNotFound(message, timestamp_ms=timestamp_ms, earliest=low, url=log.url)
        raise _expired(log, timestamp_ms, low, when)
    while low < high:
        middle = (low + high + 1) // 2
        if commit_time(log, middle) <= timestamp_ms:
            low = middle
        else:
            high = middle - 1
    return low


def _state_at(log: Log, known: Known, timestamp_ms: int) -> int:
    """The newest checkpoint that is not later, where no version file is left. Raises VersionExpired."""
    told = ((ref.version, _time_of_state(log, ref)) for ref in known.states)
    found = next((version for version, time in told if time <= timestamp_ms), None)
    if found is None:
        oldest = known.states[-1].version
        raise _expired(log, timestamp_ms, oldest, f"{timestamp_ms} is before the checkpoint of version {oldest}")
    return found


def _expired(log: Log, timestamp_ms: int, earliest: int, when: str) -> VersionExpired:
    message = f"that version can no longer be read at {log.url}: {when}, the oldest that is left"
    return VersionExpired(message, timestamp_ms=timestamp_ms, earliest=earliest, url=log.url)


def _of_states(log: Log, limit: int | None) -> pa.Table:
    """Where no version file is left, and where IndexTables4Spark never wrote one, the checkpoints are all there is."""
    times: dict[int, int] = {}
    for ref in log.states():
        times.setdefault(ref.version, ref.modified_ms)
    rows = [{"version": version, "timestamp": time} for version, time in list(times.items())[:limit]]
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def commit_time(log: Log, version: int) -> int:
    """The commit time of a version, in milliseconds; the time of its file where it tells none.

    Where cleanup took the file, its checkpoint tells. Raises ObjectNotFound if there is neither.
    """
    try:
        return _time(log, version, _commit_info(log, version))
    except ObjectNotFound:
        ref = next((ref for ref in log.states() if ref.version == version), None)
        if ref is None:
            raise
        return _time_of_state(log, ref)


def _time_of_state(log: Log, ref: StateRef) -> int:
    told = inspect_state(log.env, ref).in_commit_timestamp
    return ref.modified_ms if told is None else told


def _commit_info(log: Log, version: int) -> CommitInfo | None:
    return commit_info_of(log.env.store.get(version_key(version)), version)


def _rows_until_gone(log: Log, versions: Sequence[int]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for version in versions:
        try:
            rows.append(_row(log, version, _commit_info(log, version)))
        except ObjectNotFound:
            break
    return rows


def _row(log: Log, version: int, info: CommitInfo | None) -> dict[str, object]:
    known = info or CommitInfo()
    return {
        "version": version,
        "timestamp": _time(log, version, info),
        "operation": known.operation,
        "operationParameters": list(known.operationParameters.items()),
        "operationMetrics": list(known.operationMetrics.items()),
        "readVersion": known.readVersion,
        "isolationLevel": known.isolationLevel,
        "isBlindAppend": known.isBlindAppend,
        "engineInfo": known.engineInfo,
        "userMetadata": known.userMetadata,
        "user": known.user,
        "token": known.token,
    }


def _time(log: Log, version: int, info: CommitInfo | None) -> int:
    if info is not None and info.inCommitTimestamp is not None:
        return info.inCommitTimestamp
    if info is not None and info.timestamp is not None:
        return info.timestamp
    return log.env.store.head(version_key(version)).modified_ms
