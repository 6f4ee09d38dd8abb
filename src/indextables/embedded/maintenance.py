"""Maintenance: what an operator does to a table over the years, merges among it, as methods of the table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from indextables.embedded.handle import Handle
from indextables.errors import VersionExpired
from indextables.lazy import LazyModule
from indextables.log.care import MAX_TTL_MS, Protection, await_sweeps, protect_version
from indextables.log.commit import permission
from indextables.log.read import Snapshot
from indextables.table.arguments import check_count, check_hours, check_names, check_text
from indextables.table.requests import (
    ClearSkips,
    DropPartitions,
    MergeSplits,
    Mirror,
    Prewarm,
    Purge,
    Reindex,
    Restore,
    TruncateTimeTravel,
)
from indextables.table.running import Progress, Runner, Threads

if TYPE_CHECKING:
    from indextables.table.maintenance import (
        CacheReport,
        DropReport,
        Health,
        MirrorReport,
        PrewarmReport,
        ReindexReport,
        RestoreReport,
        TruncateReport,
    )
    from indextables.table.maintenance import drop_partitions as drop_verb
    from indextables.table.maintenance import health as health_verb
    from indextables.table.maintenance import mirror as mirror_verb
    from indextables.table.maintenance import prewarm as prewarm_verb
    from indextables.table.maintenance import reindex as reindex_verb
    from indextables.table.maintenance import restore as restore_verb
    from indextables.table.maintenance import truncate as truncate_verb
    from indextables.table.maintenance.purge import PurgeReport
    from indextables.table.maintenance.purge import verb as purge_verb
    from indextables.table.merge import MergeReport
    from indextables.table.merge import skips as skips_verb
    from indextables.table.merge import verb as merge_verb
else:
    drop_verb = LazyModule("indextables.table.maintenance.drop_partitions")
    health_verb = LazyModule("indextables.table.maintenance.health")
    merge_verb = LazyModule("indextables.table.merge.verb")
    mirror_verb = LazyModule("indextables.table.maintenance.mirror")
    prewarm_verb = LazyModule("indextables.table.maintenance.prewarm")
    purge_verb = LazyModule("indextables.table.maintenance.purge.verb")
    reindex_verb = LazyModule("indextables.table.maintenance.reindex")
    restore_verb = LazyModule("indextables.table.maintenance.restore")
    skips_verb = LazyModule("indextables.table.merge.skips")
    truncate_verb = LazyModule("indextables.table.maintenance.truncate")

__all__ = ["Maintenance"]

_HOUR_MS = 3_600_000


class Maintenance(Handle):
    """Merge, purge, restore and the like, over the newest version."""

    def merge_splits(
        self,
        where: str | None = None,
        *,
        target_size: int | None = None,
        max_dest_splits: int | None = None,
        max_source_splits_per_merge: int | None = None,
        cluster_by: Sequence[str] = (),
        curve: str = "zorder",
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> MergeReport:
        """Merge small splits of the newest version into larger ones; rows and searches stay the same.

        Others may append meanwhile. Finished splits are committed in batches, and stay if a later batch fails.

        Args:
            where: Merge only in partitions for whose values this SQL predicate is true. It may read partition columns
                only.
            target_size: Splits are merged into one as long as they have at most this many bytes together (default:
                the option `merge.targetSize`).
            max_dest_splits: Make at most this many merged splits, those with the most sources.
            max_source_splits_per_merge: Merge at most this many splits into one (default: the option
                `merge.maxSourceSplitsPerMerge`).
            cluster_by: Sort rows by these columns, so that predicates on them read fewer files. Without it rows keep
                their order within a partition.
            curve: `zorder` or `hilbert`: how several columns of `cluster_by` make one order.
            dry_run: Only plan; `plan` of the report says which splits would be merged.
            progress: A function that is called with a `Step` after every batch.

        Raises:
            InvalidArgument: An argument is wrong.
            QueryInvalid: `where` cannot be understood.
            NotSupported: `where` reads other than partition columns, or the table is another system's.
            MetadataChanged: Somebody changed the schema meanwhile; batches that were committed before stay.
            CommitStateUnknown: The store did not tell whether the last batch is in the log; nothing was deleted.
        """
        request = MergeSplits(
            where=where,
            target_size=target_size,
            max_dest_splits=max_dest_splits,
            max_source_splits_per_merge=max_source_splits_per_merge,
            cluster_by=cluster_by,
            curve=curve,
            dry_run=dry_run,
        )
        report = merge_verb.merge_splits(self._log, request, runner=self._runner(), progress=progress)
        if report.versions:
            self._pin(report.versions[-1])
        return report

    def skips(self) -> pa.Table:
        """List the splits that a merge could not read: path, reason, count, and until when merges leave them alone."""
        return skips_verb.skips(self._log)

    def skip(self, paths: Sequence[str], reason: str, hours: int | None = None) -> int | None:
        """Let merges leave these files alone for so many hours, as if one of them could not read them.

        Args:
            paths: Files of the newest version, as `files()` names them.
            reason: What `skips()` shows for them.
            hours: How long; `skippedFiles.cooldownDuration` by default.

        Returns the version that says so, None for no paths. Raises InvalidArgument for a path that is not live,
        CommitConflict, CommitStateUnknown.
        """
        check_count("hours", hours)
        given = list(check_names("paths", paths))
        version = skips_verb.skip_by_hand(self._log, given, check_text("reason", reason), hours)
        if version is not None:
            self._pin(version)
        return version

    def clear_skips(self, paths: Sequence[str] | None = None) -> int:
        """Let the next merge try skipped splits again: those at `paths`, or all. Return how many these are.

        Raises InvalidArgument for a path that is not skipped, CommitConflict, CommitStateUnknown.
        """
        return skips_verb.clear_skips(self._log, ClearSkips(paths=paths))

    def purge(
        self,
        *,
        older_than_hours: float | None = None,
        tx_log_retention_hours: float | None = None,
        dry_run: bool = False,
        force: bool = False,
        progress: Progress | None = None,
    ) -> PurgeReport:
        """Delete old versions, and the data files, checkpoints and manifests that no remaining version needs.

        Args:
            older_than_hours: Keep data files that are younger than this many hours (default: the option
                `purge.defaultRetentionHours`).
            tx_log_retention_hours: Keep versions readable for this many hours (default: the option
                `purge.txLogRetentionHours`, or `logRetention.duration`). When a file was removed goes with the version:
                of fewer hours than `older_than_hours`, a later purge takes files that were removed since.
            dry_run: Delete nothing; the report lists exactly what would be deleted.
            force: Allow fewer hours than `purge.minRetentionHours`. This is safe only if nobody else uses the table.
            progress: A function that is called with a `Step` after each listing and batch.

        Raises:
            InvalidArgument: A number of hours is wrong, or below `purge.minRetentionHours` without `force`.
            ClockSkew: This machine's clock and the store's disagree too much to tell how old a file is.
            LogError, StoreError: Something could not be read. Nothing was deleted.
        """
        request = Purge(
            older_than_hours=older_than_hours,
            tx_log_retention_hours=tx_log_retention_hours,
            dry_run=dry_run,
            force=force,
        )
        return purge_verb.purge(self._log, request, runner=self._runner(), progress=progress)

    def drop_partitions(self, where: str, *, dry_run: bool = False) -> DropReport:
        """Remove the partitions for whose values `where` is true, with all their rows, in one commit.

        `where` may read partition columns only. With `dry_run` the report says what would be removed. Older versions
        still hold the rows until they are purged.

        Raises QueryInvalid, NotSupported, CommitConflict, CommitStateUnknown.
        """
        request = DropPartitions(where=where, dry_run=dry_run)
        report = drop_verb.drop_partitions(self._log, request, pinned=self._snapshot)
        if not dry_run:
            self._pin(report.version)
        return report

    def truncate_time_travel(self, *, dry_run: bool = False, progress: Progress | None = None) -> TruncateReport:
        """Make every version but the newest unreadable. This cannot be undone; the rows of the newest version stay.

        With `dry_run` the report says what would be deleted.

        Raises ClockSkew, CommitConflict, CommitStateUnknown, LogError, StoreError.
        """
        report = truncate_verb.truncate_time_travel(self._log, TruncateTimeTravel(dry_run=dry_run), progress=progress)
        if not dry_run:
            self._pin(report.version)
        return report

    def restore(
        self,
        version: int | None = None,
        *,
        timestamp: dt.datetime | str | int | None = None,
        progress: Progress | None = None,
    ) -> RestoreReport:
        """Bring back the table as it was at a version or at a time, by a new commit; later versions stay readable.

        A time is a datetime, ISO text, or milliseconds since the epoch.

        Raises VersionNotFound, VersionExpired (`missing` names data files that are gone), CommitConflict,
        CommitStateUnknown, and InvalidArgument unless exactly one of the two is given.
        """
        request = Restore(version=version, timestamp=timestamp)
        report = restore_verb.restore(self._log, request, runner=self._runner(), progress=progress)
        self._pin(report.version)
        return report

    def reindex(
        self, where: str | None = None, *, force: bool = False, progress: Progress | None = None
    ) -> ReindexReport:
        """Give a new index to splits whose index is missing, damaged, or made by other rules than the table has now.

        `where` limits this to splits that may hold rows for which it is true; `force` gives all of them a new index.
        Rows stay the same.

        Raises QueryInvalid, NotSupported, MetadataChanged, CommitConflict, CommitStateUnknown.
        """
        request = Reindex(where=where, force=force)
        report = reindex_verb.reindex(self._log, request, runner=self._runner(), progress=progress)
        if report.versions:
            self._pin(report.versions[-1])
        return report

    def prewarm(
        self,
        where: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> PrewarmReport:
        """Load into the cache what searches on `columns` read (default: on any), of the splits that may match `where`.

        Raises QueryInvalid, InvalidArgument for a column that is not there, NotSupported, StoreError.
        """
        request = Prewarm(where=where, columns=columns)
        return prewarm_verb.prewarm(self._log, request, runner=self._runner(), progress=progress)

    def mirror(self, *, stop: bool = False, progress: Progress | None = None) -> MirrorReport:
        """Keep a Delta table beside the log, over the same data files, for every engine that reads Delta.

        Each version from now on becomes a version of the same number in `_delta_log`. Where that is behind, because a
        process ended too early, this catches up. `stop` ends it and deletes `_delta_log`.

        Raises NotSupported for what Delta cannot show, MirrorConflict where somebody else wrote into `_delta_log`,
        CommitError, CommitStateUnknown, LogError, StoreError.
        """
        report = mirror_verb.mirror(self._log, Mirror(stop=stop), runner=self._runner(), progress=progress)
        self._pin(report.version)
        return report

    def flush_caches(self) -> CacheReport:
        """Delete cached indexes from the disk, and forget what this process holds in memory about this table.

        Results do not change; the next searches read more.
        """
        return prewarm_verb.flush_caches(self._log, runner=self._runner())

    def health(self) -> Health:
        """Report on log, files and caches of the newest version, with what to do about each problem.

        Raises LogError, StoreError.
        """
        return health_verb.health(self._log)

    def protect(self, hours: float = 1.0) -> Protection:
        """Keep cleanup and purge from deleting this version for some hours, or until `release()` of what is returned.

        Use it in `with`, which releases it at the end. `renew()` starts the hours again.

        Raises InvalidArgument for more than a week, VersionExpired if this version can no longer be read, StoreError
        where this process may not write, or if a cleanup that runs now does not end within 30 seconds. One that was
        killed, or that got no answer to a delete, counts as running for five minutes after its last step.
        """
        check_hours("hours", hours, most=MAX_TTL_MS // _HOUR_MS)
        snapshot = self._snapshot
        permission.ask(self._log.env)
        held = protect_version(
            self._log.env, snapshot.version, ttl_ms=round(hours * _HOUR_MS), table_id=snapshot.table_id
        )
        try:
            await_sweeps(self._log.env)
            self._check_still_there(snapshot)
        except BaseException:
            held.release()
            raise
        return held

    def _check_still_there(self, snapshot: Snapshot) -> None:
        """Raises VersionExpired unless this version can be read, by a new look at the log."""
        self._log.invalidate()
        if self._log.snapshot(snapshot.version).table_id != snapshot.table_id:
            message = f"version {snapshot.version} is gone with its table: {self.url} holds another one"
            raise VersionExpired(message, version=snapshot.version, url=self.url)

    def _runner(self) -> Runner:
        return Threads(self._log.env, "maintenance")
