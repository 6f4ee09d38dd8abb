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
from indextables.table.arguments import check_hours
from indextables.table.requests import (
    ClearSkips,
    DropPartitions,
    MergeSplits,
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
        PrewarmReport,
        ReindexReport,
        RestoreReport,
        TruncateReport,
    )
    from indextables.table.maintenance import drop_partitions as drop_verb
    from indextables.table.maintenance import health as health_verb
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

        Appends go on meanwhile. What is finished is committed in batches and stays, whatever happens later.

        Args:
            where: A SQL predicate on partition columns; only their splits are merged.
            target_size: Bytes that the sources of a merged split have together at most (`merge.targetSize`).
            max_dest_splits: Make at most so many merged splits, those with the most sources.
            max_source_splits_per_merge: Merge at most so many splits into one (`merge.maxSourceSplitsPerMerge`).
            cluster_by: Sort rows by these columns, so that predicates on them read fewer files. Without it rows keep
                their order within a partition.
            curve: `zorder` or `hilbert`: how several columns make one order.
            dry_run: Only plan; `plan` of the report says which splits would be merged.
            progress: Called with a `Step` after every batch.

        Raises:
            InvalidArgument: An argument is wrong (QueryInvalid for `where`).
            NotSupported: `where` reads other than partition columns, or the table is another system's.
            MetadataChanged: The schema changed meanwhile; what was committed before stays.
            CommitStateUnknown: Whether the last batch is in the log cannot be told; nothing was deleted.
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
        """The live splits that a merge could not read: path, reason, count, and until when they are left alone."""
        return skips_verb.skips(self._log)

    def clear_skips(self, paths: Sequence[str] | None = None) -> int:
        """Let the next merge try these splits again, or all; how many. Raises InvalidArgument for one not skipped."""
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
        """Delete data files, version files, checkpoints and manifests that no version needs which stays readable.

        Args:
            older_than_hours: Data files younger than this stay (`purge.defaultRetentionHours`).
            tx_log_retention_hours: How long versions stay readable (`purge.txLogRetentionHours`).
            dry_run: List exactly what would go; nothing is written.
            force: Allow ages below `purge.minRetentionHours`; only when nobody else uses the table.
            progress: Called with a `Step` after each listing and batch.

        Raises:
            InvalidArgument: An age is none, or below the safe one without `force`.
            ClockSkew: The store's clock and ours are too far apart to judge any age.
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
        """Remove the partitions for whose values `where` is true, with all their rows, in one version.

        `where` may read partition columns only. Raises QueryInvalid, NotSupported, CommitConflict, CommitStateUnknown.
        """
        request = DropPartitions(where=where, dry_run=dry_run)
        report = drop_verb.drop_partitions(self._log, request, pinned=self._snapshot)
        if not dry_run:
            self._pin(report.version)
        return report

    def truncate_time_travel(self, *, dry_run: bool = False, progress: Progress | None = None) -> TruncateReport:
        """Make every version but the newest unreadable. This cannot be undone; rows of the newest version stay.

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
        """Make the table what it was at a version or at a time, by one more commit.

        Raises VersionNotFound, VersionExpired (`missing` names data files that are gone), CommitConflict,
        CommitStateUnknown, InvalidArgument unless exactly one is given.
        """
        request = Restore(version=version, timestamp=timestamp)
        report = restore_verb.restore(self._log, request, runner=self._runner(), progress=progress)
        self._pin(report.version)
        return report

    def reindex(
        self, where: str | None = None, *, force: bool = False, progress: Progress | None = None
    ) -> ReindexReport:
        """Give a new index to splits whose index is missing, foreign or not what the table wants by now.

        `where` limits it to splits that may hold rows for which it is true; `force` rewrites all of them. Rows stay.

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
        """Load the indexes that searches on `columns` (default: any) read, of the splits that may match `where`.

        Raises QueryInvalid, InvalidArgument for a column that is not there, NotSupported, StoreError.
        """
        request = Prewarm(where=where, columns=columns)
        return prewarm_verb.prewarm(self._log, request, runner=self._runner(), progress=progress)

    def flush_caches(self) -> CacheReport:
        """Delete cached indexes from disk, and forget what is in memory about this table. Results do not change."""
        return prewarm_verb.flush_caches(self._log, runner=self._runner())

    def health(self) -> Health:
        """Facts about log, files and caches of the newest version, and what to do about each problem."""
        return health_verb.health(self._log)

    def protect(self, hours: float = 1.0) -> Protection:
        """Keep this version from cleanup and purge for so long, or until `release()`; a context for `with`.

        `renew()` starts the time again. Raises InvalidArgument for more than a week, VersionExpired if this version can
        no longer be read, StoreError where nothing may be written, or while a cleanup is at work for long.
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
