"""Tells who did what when: the history of a table, and which version was newest at a time."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from indextables.errors import InvalidArgument, ObjectNotFound, VersionExpired, VersionNotFound
from indextables.log.read.confirming import Confirmed, Superseded, confirm
from indextables.log.read.log import Log
from indextables.log.read.nearby import oldest_version, window
from indextables.log.read.newest import discover
from indextables.log.read.tokens import tell
from indextables.log.read.versions import Stamp, read_stamp
from indextables.log.wire import (
    LOG_DIR,
    MAX_VERSION,
    STRING_MAP,
    CommitInfo,
    StateRef,
    check_whole,
    parse_key,
    version_key,
)

__all__ = ["HISTORY_SCHEMA", "Moment", "commit_time", "history", "moment", "version_at"]

_LOGGER = logging.getLogger("indextables")

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

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


def history(log: Log, limit: int | None = None) -> pa.Table:
    """One row per version whose file is there, newest first; only commit information is read.

    A table that has only checkpoints has a row for each of them. A version that tells no time has the time of its
    file. Raises TableNotFound, LogGap, LogCorrupt, and InvalidArgument for a limit below 1.
    """
    if limit is not None:
        check_whole("the limit of a history", limit)
    if limit is not None and limit < 1:
        raise InvalidArgument(f"the limit of a history is at least 1, not {limit}", limit=limit)
    versions = log.versions() if limit is None else _newest(log, limit)
    if not versions:
        return _of_states(log, limit)
    first = versions.start
    rows: list[dict[str, object]] = []
    above: Stamp | None = None
    for end in range(versions.stop, first, -_AT_ONCE):
        stamps, is_all = _stamps(log, range(max(first, end - _AT_ONCE), end), above)
        rows += [_row(log, stamp.version, stamp.commit_info) for stamp in reversed(stamps)]
        if not is_all:
            # Cleanup took the older ones since they were listed: what is left is the history.
            break
        above = stamps[0]
    else:
        if limit is None or versions.start > versions.stop - limit:
            _warn_of_a_hole(log, versions.start)
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def _warn_of_a_hole(log: Log, first: int) -> None:
    """Say where a history ends that should not: on local files cleanup leaves nothing below what it takes."""
    if first == 0 or not log.env.store.is_local:
        return
    below = [
        file.version
        for meta in log.env.store.list_from(LOG_DIR)
        if (file := parse_key(meta.key)) is not None and file.kind == "version" and file.version < first
    ]
    if below:
        message = "version %d of %s is gone, although version %d is there: the history begins above it. Run verify"
        _LOGGER.warning(message, first - 1, log.url, max(below))


def version_at(log: Log, timestamp_ms: int) -> int:
    """The newest version whose commit is not later than the time.

    Commit times only ever grow, so that the version is found by halving. The oldest version that cleanup left has no
    file of its own: its checkpoint tells its time. Raises VersionExpired or VersionNotFound for a time before the
    oldest version that is left, and as `history`.
    """
    return moment(log, timestamp_ms).version


class Moment(NamedTuple):
    """A version and the time of its commit, in milliseconds."""

    version: int
    time_ms: int


def moment(log: Log, timestamp_ms: int) -> Moment:
    """The newest version whose commit is not later than the time, and when that was. Raises as `version_at`."""
    check_whole("a time in milliseconds", timestamp_ms)
    versions = _span(log)
    while versions:
        found = _halved(log, versions, timestamp_ms)
        if isinstance(found, Moment):
            return found
        # A slot that cleanup emptied holds what was never committed: the history begins above it.
        versions = range(found + 1, versions.stop)
    return _state_at(log, timestamp_ms)


def _span(log: Log) -> range:
    """The versions whose files are there, as far as that can be told without a listing of the whole log.

    It may begin below the oldest one, where cleanup took what was there. Raises TableNotFound, LogGap, TableReplaced.
    """
    known = log.look()
    if known.head_identity is None or not known.floor:
        return log.versions()
    return range(oldest_version(log.env, known.floor), known.head + 1)


def _newest(log: Log, count: int) -> range:
    """The newest `count` versions at most; the older ones of them may be gone. Raises as `_span`."""
    known = log.look()
    if known.head_identity is None or not known.floor:
        return log.versions()[-count:]
    return range(max(0, known.head + 1 - count), known.head + 1)


def _confirmed(log: Log, stamps: Sequence[Stamp], above: Stamp | None = None) -> Confirmed[Stamp]:
    """Who versions are that have been read, in ascending order. Raises as `confirm`."""
    known = log.remembered()
    if known is not None and stamps and stamps[-1].version < known.floor:
        known = window(log.env, known, stamps[-1].version) or known
    return confirm(log.env, stamps, above=above, log=known)


def _halved(log: Log, versions: range, timestamp_ms: int) -> Moment | int:
    """The moment; or the highest version that was read and is not what was committed."""
    low, high = versions[0], versions[-1]
    read: dict[int, Stamp] = {}

    def stamp_of(version: int) -> Stamp:
        if version not in read:
            read[version] = read_stamp(log.env, version)
        return read[version]

    try:
        if timestamp_ms < _time(log, low, stamp_of(low).commit_info):
            return _before(log, stamp_of(low), timestamp_ms)
        while low < high:
            middle = (low + high + 1) // 2
            if _time(log, middle, stamp_of(middle).commit_info) <= timestamp_ms:
                low = middle
            else:
                high = middle - 1
        # Between what comes before a time and what comes after it lies nothing else, whatever was read on the way.
        around = range(low, min(low + 2, versions.stop))
        stamp = _confirmed(log, [stamp_of(version) for version in around])[0]
    except ObjectNotFound as error:
        gone = error.details.get("version")
        file = parse_key(str(error.details.get("key", "")))
        return gone if isinstance(gone, int) else (low if file is None else file.version)
    return Moment(low, _time(log, low, stamp.commit_info))


def _shown(time_ms: int) -> str:
    """A time as people write it; one that no calendar has as the number it is."""
    try:
        return (_EPOCH + dt.timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{time_ms} ms"


def _before(log: Log, read: Stamp, timestamp_ms: int) -> Moment:
    """The version below the oldest file, where a checkpoint holds it. Raises VersionExpired, VersionNotFound."""
    low, oldest = read.version, _time(log, read.version, _confirmed(log, [read])[0].commit_info)
    when = f"{_shown(timestamp_ms)} is before version {low}, which was committed at {_shown(oldest)}"
    if low == 0:
        message = f"no version at {log.url} is that old: {when}"
        raise VersionNotFound(message, timestamp_ms=timestamp_ms, earliest=low, url=log.url)
    for ref in log.states():
        time_ms = _time_of_state(log, ref) if ref.version == low - 1 else None
        if time_ms is not None and time_ms <= timestamp_ms:
            return Moment(ref.version, time_ms)
    raise _expired(log, timestamp_ms, low, f"{when}, the oldest that is left")


def _state_at(log: Log, timestamp_ms: int) -> Moment:
    """The newest checkpoint that is not later, where no version file is left.

    Raises VersionExpired, also where nothing tells whether the version above that checkpoint is later: it may be the
    one that was meant.
    """
    later: int | None = None
    oldest = 0
    for oldest, refs in itertools.groupby(discover(log.env).states, lambda ref: ref.version):
        time_ms = next((told for ref in refs if (told := _time_of_state(log, ref)) is not None), None)
        if time_ms is None:
            later = later or MAX_VERSION
        elif time_ms > timestamp_ms:
            later = oldest
        elif later in {None, oldest + 1} or time_ms == timestamp_ms:
            return Moment(oldest, time_ms)
        else:
            when = f"{_shown(timestamp_ms)} is after version {oldest}, and nothing tells when version {oldest + 1}"
            raise _expired(log, timestamp_ms, oldest, f"{when} was committed")
    when = f"{_shown(timestamp_ms)} is before the checkpoint of version {oldest}"
    raise _expired(log, timestamp_ms, oldest, f"{when}, the oldest that is left")


def _expired(log: Log, timestamp_ms: int, earliest: int, when: str) -> VersionExpired:
    message = f"that version can no longer be read at {log.url}: {when}"
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

    Where cleanup took the file, its checkpoint tells. Raises VersionExpired, VersionNotFound, LogError.
    """
    try:
        return _time(log, version, log.read_version(version).commit_info)
    except VersionExpired:
        told = (_time_of_state(log, ref) for ref in log.states() if ref.version == version)
        time_ms = next((time_ms for time_ms in told if time_ms is not None), None)
        if time_ms is None:
            raise
        return time_ms


def _time_of_state(log: Log, ref: StateRef) -> int | None:
    """The time of a checkpoint's commit, or of its file where it tells none; None if it cannot be read."""
    told = tell(log.env, ref)
    if told is None or not told.readable:
        return None
    return ref.modified_ms if told.time_ms is None else told.time_ms


def _stamps(log: Log, versions: range, above: Stamp | None) -> tuple[Confirmed[Stamp], bool]:
    """Who the versions are, from the oldest one on from which all are there; whether that is the first."""
    first = versions.start
    try:
        read = list(log.env.ambient.map("versions", lambda version: read_stamp(log.env, version), versions))
    except ObjectNotFound:
        read = _until_gone(log, versions)
        first = versions.stop - len(read)
    while read:
        try:
            return _confirmed(log, read, above), first == versions.start
        except Superseded as error:
            first = int(str(error.details["version"])) + 1
            read = [stamp for stamp in read if stamp.version >= first]
    return Confirmed(), False


def _until_gone(log: Log, versions: range) -> list[Stamp]:
    read: list[Stamp] = []
    for version in reversed(versions):
        try:
            read.append(read_stamp(log.env, version))
        except ObjectNotFound:
            break
    return read[::-1]


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
