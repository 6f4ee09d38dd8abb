"""Lets a table have a Delta mirror, brings it up to date, or ends it."""

from __future__ import annotations

import msgspec

from indextables import options as opt
from indextables.errors import NotSupported
from indextables.log.commit import Transaction
from indextables.log.mirror import Basis, catch_up, check_mirror, found_in, is_mirrored, obstacle, remove_mirror
from indextables.log.read import Log, Snapshot
from indextables.log.wire import DELTA_MIRROR, check_rows_writable, with_feature
from indextables.table.requests import Mirror
from indextables.table.running import Progress, Runner, Step

__all__ = ["MirrorReport", "mirror"]


class MirrorReport(msgspec.Struct, frozen=True):
    """The newest version of the table and of its mirror, which is None where the mirror was ended.

    `written` counts the versions that the mirror got, `deleted` the objects that went with it.
    """

    version: int
    mirrored: int | None
    written: int = 0
    deleted: int = 0


def mirror(
    log: Log, request: Mirror, *, runner: Runner | None = None, progress: Progress | None = None
) -> MirrorReport:
    """Mirror every version from now on as a version of Delta, and catch up with what is missing; `stop` ends it.

    Raises:
        NotSupported: The table has what Delta cannot show; the message says what. Nothing was changed.
        MirrorConflict: Somebody else wrote into `_delta_log`. The table is as it was.
        CommitConflict, CommitStateUnknown, LogError, StoreError: As for every commit.
    """
    del runner
    snapshot = log.snapshot()
    check_rows_writable(snapshot.protocol, log.url)
    report = _stop(log, snapshot) if request.stop else _start(log, snapshot)
    if progress is not None:
        progress(Step("mirror", 1, 1, files=report.written))
    return report


def _start(log: Log, snapshot: Snapshot) -> MirrorReport:
    is_on = is_mirrored(snapshot.protocol, snapshot.metadata)
    has_partitions = bool(snapshot.metadata.partitionColumns) and not is_on
    values = snapshot.files["partitionValues"].to_pylist() if has_partitions else []
    reason = obstacle(Basis(snapshot.protocol, snapshot.metadata), (dict(pairs or ()) for pairs in values))
    if reason is not None:
        raise NotSupported(f"the table at {log.url} cannot be mirrored: {reason}", url=log.url)
    before = len(found_in(log.env.store).versions)
    version = snapshot.version
    if not is_on:
        if before:
            # What lies there must be what an earlier mirror left, or nothing is begun.
            catch_up(log, version)
        version = _commit(log, snapshot, is_on=True)
    mirrored = catch_up(log, version)
    return MirrorReport(version, mirrored, written=len(found_in(log.env.store).versions) - before)


def _stop(log: Log, snapshot: Snapshot) -> MirrorReport:
    """The commit first: from then on nobody writes what is deleted afterwards."""
    version = snapshot.version
    if is_mirrored(snapshot.protocol, snapshot.metadata):
        check_mirror(log)
        version = _commit(log, snapshot, is_on=False)
    return MirrorReport(version, None, deleted=remove_mirror(log))


def _commit(log: Log, snapshot: Snapshot, *, is_on: bool) -> int:
    key = opt.MIRROR_DELTA.key
    configuration = {name: value for name, value in snapshot.metadata.configuration.items() if name != key}
    if is_on:
        configuration[key] = "true"
    transaction = Transaction(
        log, snapshot, operation="MIRROR", parameters={"format": "delta", "stop": str(not is_on).lower()}
    ).set_metadata(msgspec.structs.replace(snapshot.metadata, configuration=configuration))
    needed = with_feature(snapshot.protocol, DELTA_MIRROR)
    if is_on and needed is not snapshot.protocol:
        transaction.set_protocol(needed)
    return transaction.commit_or_raise().version
