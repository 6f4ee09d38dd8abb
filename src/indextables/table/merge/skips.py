"""Splits that could not be merged: recorded in the log, left alone for a while, never hidden from readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.log.commit import Staged, Transaction
from indextables.log.read import Log, Snapshot
from indextables.log.wire import MergeSkip
from indextables.table.requests import ClearSkips
from indextables.table.running import Progress, Runner

__all__ = ["SKIPS_SCHEMA", "clear_skips", "record_skips", "skip_by_hand", "skips"]

SKIPS_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("reason", pa.string()),
        ("operation", pa.string()),
        ("skipCount", pa.int64()),
        ("skippedAt", pa.timestamp("ms", "UTC")),
        ("retryAfter", pa.timestamp("ms", "UTC")),
        ("inCooldown", pa.bool_()),
        ("size", pa.int64()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
    ]
)

_HOUR_MS = 3_600_000


def skips(log: Log) -> pa.Table:
    """The live splits that a merge could not read, by path, with `SKIPS_SCHEMA`. Raises LogError."""
    now_ms = log.env.ambient.now_ms()
    rows = []
    for path, skip in sorted(log.snapshot().skips.items()):
        rows.append(
            {
                "path": path,
                "reason": skip.reason,
                "operation": skip.operation,
                "skipCount": skip.skipCount,
                "skippedAt": skip.skipTimestamp,
                "retryAfter": skip.retryAfter,
                "inCooldown": skip.retryAfter is not None and skip.retryAfter > now_ms,
                "size": skip.size,
                "partitionValues": None if skip.partitionValues is None else list(skip.partitionValues.items()),
            }
        )
    return pa.Table.from_pylist(rows, SKIPS_SCHEMA)


def clear_skips(
    log: Log, request: ClearSkips, *, runner: Runner | None = None, progress: Progress | None = None
) -> int:
    """Let the next merge try these splits again, or all that are skipped; how many are.

    In the log a `mergeskip` with `skipCount` 0 says so. Raises InvalidArgument for a path that is not skipped.
    """
    del runner, progress
    wanted = request.paths
    snapshot = log.snapshot()
    unknown = sorted(set(wanted or ()) - set(snapshot.skips))
    if unknown:
        message = f"{unknown[0]} is not skipped at {log.url}: skips() lists the splits that are"
        raise InvalidArgument(message, paths=unknown)
    if not snapshot.skips or wanted == ():
        return 0
    now_ms = log.env.ambient.now_ms()
    cleared: list[MergeSkip] = []

    def clear(newest: Snapshot) -> Staged:
        cleared[:] = [
            MergeSkip(path, now_ms, "cleared by hand", "CLEAR SKIPS", retryAfter=now_ms, skipCount=0)
            for path in sorted(newest.skips)
            if wanted is None or path in wanted
        ]
        return Staged(skips=tuple(cleared), metrics={"numSkips": str(len(cleared))})

    Transaction(log, snapshot, operation="CLEAR SKIPS").bind(clear).commit_or_raise()
    return len(cleared)


def skip_by_hand(log: Log, paths: Sequence[str], reason: str, hours: int | None) -> int | None:
    """Record that merges leave these live files alone: the version that says so, None if there are none to record.

    Raises InvalidArgument for a path that is not live, and as `record_skips`.
    """
    live = set(log.snapshot().files["path"].to_pylist())
    gone = [path for path in paths if path not in live]
    if gone:
        message = f"{gone[0]} is no live file of {log.url}: files() lists their paths. Nothing was recorded"
        raise InvalidArgument(message, paths=gone)
    cooldown = log.env.options[opt.MERGE_SKIP_COOLDOWN_HOURS] if hours is None else hours
    return record_skips(log, dict.fromkeys(paths, reason), "BY HAND", cooldown_hours=cooldown)


def record_skips(log: Log, reasons: Mapping[str, str], operation: str, *, cooldown_hours: int) -> int | None:
    """Record that these files could not be merged, in one version: that version, None if none of them is live.

    Each is left alone until `cooldown_hours` from now; its count is one more than before. Raises CommitConflict,
    CommitStateUnknown.
    """
    now_ms = log.env.ambient.now_ms()

    paths = pa.array(sorted(reasons), pa.string())

    def count(newest: Snapshot) -> Staged:
        live = newest.gathered(lambda files: files.filter(pc.is_in(files["path"], value_set=paths)))
        columns = (live[name].to_pylist() for name in ("path", "partitionValues", "size"))
        found = []
        for path, values, size in zip(*columns, strict=True):
            before = newest.skips.get(path)
            found.append(
                MergeSkip(
                    path=path,
                    skipTimestamp=now_ms,
                    reason=reasons[path],
                    operation=operation,
                    partitionValues=dict(values or ()),
                    size=size,
                    retryAfter=now_ms + cooldown_hours * _HOUR_MS,
                    skipCount=1 if before is None else before.skipCount + 1,
                )
            )
        return Staged(skips=tuple(found), metrics={"numSkips": str(len(found))})

    snapshot = log.snapshot()
    if not reasons or not count(snapshot).skips:
        return None
    return Transaction(log, snapshot, operation="SKIP").bind(count).commit_or_raise().version
