"""Tells who did what when in a Delta table, and which version was the newest at a time."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import LogCorrupt, VersionExpired, VersionNotFound
from indextables.foreign.delta.log import DeltaLog
from indextables.foreign.delta.names import LogListing, commit_key
from indextables.foreign.delta.segment import earliest
from indextables.log.read import HISTORY_SCHEMA
from indextables.log.wire import Metadata

__all__ = ["delta_history", "delta_version_at"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_AT_ONCE = 64
_MOST_MS = 253_402_300_799_999

_ENABLED = "delta.enableInCommitTimestamps"
_SINCE = "delta.inCommitTimestampEnablementVersion"


class _Info(msgspec.Struct):
    """The fields of `commitInfo` that are shown; writers put what they like into it."""

    timestamp: Any = None
    inCommitTimestamp: Any = None
    operation: Any = None
    operationParameters: Any = None
    operationMetrics: Any = None
    readVersion: Any = None
    isolationLevel: Any = None
    isBlindAppend: Any = None
    engineInfo: Any = None
    userMetadata: Any = None
    userName: Any = None


class _Line(msgspec.Struct):
    commitInfo: _Info | None = None


_LINE = msgspec.json.Decoder(_Line)


def delta_history(log: DeltaLog, metadata: Metadata, limit: int | None) -> pa.Table:
    """One row per version whose file is there, newest first. Raises LogCorrupt, StoreError."""
    listing = log.list_all()
    versions = sorted(listing.commits, reverse=True)[:limit]
    times = _Times(log, listing, metadata)
    rows: list[dict[str, object]] = []
    for at in range(0, len(versions), _AT_ONCE):
        for version, info in times.read(versions[at : at + _AT_ONCE]):
            rows.append(_row(version, info, times.of(version, info)))
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def delta_version_at(log: DeltaLog, metadata: Metadata, timestamp_ms: int) -> int:
    """The newest version whose commit is not later than the time; `metadata` is that of the newest version.

    The time of a commit is the one that it tells, where the table keeps such times, else that of its file. Raises
    VersionExpired for a time before the oldest version that is left, VersionNotFound for one before the first.
    """
    listing = log.list_all()
    times = _Times(log, listing, metadata)
    first = earliest(listing)
    versions = sorted(number for number in listing.commits if first is not None and number >= first)
    found = times.newest_until(versions, timestamp_ms)
    if found is not None:
        return found
    when = (_EPOCH + dt.timedelta(milliseconds=timestamp_ms)).isoformat() if abs(timestamp_ms) < _MOST_MS else ""
    if versions and versions[0] == 0:
        message = f"the Delta table at {log.url} has no version as old as {when or timestamp_ms}: give a later time"
        raise VersionNotFound(message, url=log.url, latest=listing.newest, timestamp=timestamp_ms)
    message = (
        f"the version of the Delta table at {log.url} that was the newest at {when or timestamp_ms} is gone, as its "
        f"log was cleaned up: the oldest that can be read is {first}"
    )
    raise VersionExpired(message, url=log.url, earliest=first, timestamp=timestamp_ms)


class _Times:
    """When each version was committed: by what it says from some version on, by the time of its file before."""

    def __init__(self, log: DeltaLog, listing: LogListing, metadata: Metadata) -> None:
        told = metadata.configuration
        is_on = told.get(_ENABLED, "false").lower() == "true"
        self._log = log
        self._listing = listing
        self._since = _number(told.get(_SINCE), 0) if is_on else None
        self._by_file = _ascending(listing)

    def read(self, versions: Sequence[int]) -> list[tuple[int, _Info | None]]:
        """What each of these versions says of itself."""
        return [(version, _info(version, data)) for version, data in self._log.commits(self._listing, versions)]

    def of(self, version: int, info: _Info | None) -> int:
        """The time of a version, in milliseconds. Raises LogCorrupt where it must say it and does not."""
        if self._since is None or version < self._since:
            return self._by_file[version]
        told = None if info is None else info.inCommitTimestamp
        if not isinstance(told, int) or isinstance(told, bool) or not 0 <= told <= _MOST_MS:
            key = commit_key(version)
            message = f"version {version} ({key}) does not say when it was committed, as every version here must"
            raise LogCorrupt(message, version=version, path=key, reason="no inCommitTimestamp")
        return told

    def newest_until(self, versions: list[int], timestamp_ms: int) -> int | None:
        """The newest of these versions that is not later, by halving; None if all are."""
        since = self._since
        if since is not None:
            told = [version for version in versions if version >= since]
            by_file = [version for version in versions if version < since]
            is_told = bool(told) and (not by_file or timestamp_ms >= self._time(told[0]))
            versions = told if is_told else by_file
        low, high = 0, len(versions)
        while low < high:
            middle = (low + high) // 2
            if self._time(versions[middle]) <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return versions[low - 1] if low else None

    def _time(self, version: int) -> int:
        if self._since is None or version < self._since:
            return self._by_file[version]
        return self.of(version, self.read([version])[0][1])


def _ascending(listing: LogListing) -> dict[int, int]:
    """The times of version files, each later than the one before: where a clock went back, by a millisecond."""
    times: dict[int, int] = {}
    last = -1
    for version in sorted(listing.commits):
        last = max(listing.commits[version].modified_ms, last + 1)
        times[version] = last
    return times


def _info(version: int, data: bytes) -> _Info | None:
    """The first `commitInfo` of a version file, as a rule its first line."""
    try:
        for line in io.BytesIO(data):
            if b'"commitInfo"' in line:
                found = _LINE.decode(line).commitInfo
                if found is not None:
                    return found
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        key = commit_key(version)
        message = f"version {version} ({key}) cannot be read: {error}; restore the file"
        raise LogCorrupt(message, version=version, path=key, reason=str(error)) from error
    return None


def _row(version: int, info: _Info | None, time_ms: int) -> dict[str, object]:
    told = info or _Info()
    blind = told.isBlindAppend
    return {
        "version": version,
        "timestamp": _EPOCH + dt.timedelta(milliseconds=min(time_ms, _MOST_MS)),
        "operation": _text(told.operation),
        "operationParameters": _texts(told.operationParameters),
        "operationMetrics": _texts(told.operationMetrics),
        "readVersion": _number(told.readVersion, None),
        "isolationLevel": _text(told.isolationLevel),
        "isBlindAppend": blind if isinstance(blind, bool) else None,
        "engineInfo": _text(told.engineInfo),
        "userMetadata": _text(told.userMetadata),
        "user": _text(told.userName),
        "token": None,
    }


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _texts(value: Any) -> list[tuple[str, str | None]] | None:
    return [(key, _text(item)) for key, item in value.items()] if isinstance(value, dict) else None


def _number(value: Any, otherwise: int | None) -> Any:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else otherwise
