"""Maintenance on a cluster: what an operator does to a table over the years, as methods of an `IndexTable`.

Long work runs as tasks. A merge has a task for each group of splits; Spark offers Python no way to prefer a machine for
a task. Splits are in an object store or on a shared file system, where every machine is as near as any other.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from indextables.env import Env
from indextables.log.care import RepairReport, StateDescription, VerifyReport, checkpoint, describe_state
from indextables.spark.session import frame_of, instant_ms, session_zone
from indextables.spark.tasks import SparkHandle
from indextables.table.environment import table_env
from indextables.table.maintenance import (
    CacheReport,
    DropReport,
    Health,
    PrewarmReport,
    ReindexReport,
    RestoreReport,
    TruncateReport,
    verify_table,
)
from indextables.table.maintenance import drop_partitions as drop_verb
from indextables.table.maintenance import health as health_verb
from indextables.table.maintenance import prewarm as prewarm_verb
from indextables.table.maintenance import reindex as reindex_verb
from indextables.table.maintenance import repairing as maintain
from indextables.table.maintenance import restore as restore_verb
from indextables.table.maintenance import truncate as truncate_verb
from indextables.table.maintenance.purge import PurgeReport
from indextables.table.maintenance.purge import verb as purge_verb
from indextables.table.merge import MergeReport
from indextables.table.merge import skips as skips_verb
from indextables.table.merge import verb as merge_verb
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
from indextables.table.running import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Maintenance"]


class Maintenance(SparkHandle):
    """Merge, purge, restore and the like. Parameters, reports and errors are those of the embedded table."""

    def mergeSplits(
        self,
        where: str | None = None,
        *,
        targetSize: int | None = None,
        maxDestSplits: int | None = None,
        maxSourceSplitsPerMerge: int | None = None,
        clusterBy: Sequence[str] = (),
        curve: str = "zorder",
        dryRun: bool = False,
        progress: Progress | None = None,
    ) -> MergeReport:
        """Merge small splits of the newest version into larger ones, a task per group; rows stay the same.

        Parameters and report are those of the embedded `Table.merge_splits`; so is what it raises.
        """
        request = MergeSplits(
            where=where,
            target_size=targetSize,
            max_dest_splits=maxDestSplits,
            max_source_splits_per_merge=maxSourceSplitsPerMerge,
            cluster_by=clusterBy,
            curve=curve,
            dry_run=dryRun,
        )
        return merge_verb.merge_splits(self.log(), request, runner=self.runner(), progress=self.progress(progress))

    def skips(self) -> DataFrame:
        """The live splits that a merge could not read: path, reason, count, and until when they are left alone."""
        return frame_of(self.spark, skips_verb.skips(self.log()))

    def clearSkips(self, paths: Sequence[str] | None = None) -> int:
        """Let the next merge try these splits again, or all; how many. Raises InvalidArgument for one not skipped."""
        return skips_verb.clear_skips(self.log(), ClearSkips(paths=paths))

    def purge(
        self,
        *,
        olderThanHours: float | None = None,
        txLogRetentionHours: float | None = None,
        dryRun: bool = False,
        force: bool = False,
        progress: Progress | None = None,
    ) -> PurgeReport:
        """Delete what no version needs that stays readable; listing and deleting are tasks."""
        request = Purge(
            older_than_hours=olderThanHours,
            tx_log_retention_hours=txLogRetentionHours,
            dry_run=dryRun,
            force=force,
        )
        return purge_verb.purge(self.log(), request, runner=self.runner(), progress=self.progress(progress))

    def dropPartitions(self, where: str, *, dryRun: bool = False) -> DropReport:
        """Remove the partitions for whose values `where` is true, with all their rows, in one version."""
        return drop_verb.drop_partitions(self.log(), DropPartitions(where=where, dry_run=dryRun))

    def truncateTimeTravel(self, *, dryRun: bool = False, progress: Progress | None = None) -> TruncateReport:
        """Make every version but the newest unreadable. This cannot be undone; rows of the newest version stay."""
        request = TruncateTimeTravel(dry_run=dryRun)
        return truncate_verb.truncate_time_travel(self.log(), request, progress=self.progress(progress))

    def restoreToVersion(self, version: int, *, progress: Progress | None = None) -> RestoreReport:
        """Make the table what it was at a version, by one more commit."""
        told = self.progress(progress)
        request = Restore(version=version)
        return restore_verb.restore(self.log(), request, runner=self.runner(), progress=told)

    def restoreToTimestamp(
        self, timestamp: dt.datetime | str | int, *, progress: Progress | None = None
    ) -> RestoreReport:
        """Make the table what it was at a time (a datetime, ISO text, or milliseconds since the epoch).

        A text that names no zone is in that of the session, a datetime without one in that of this process.
        """
        request = Restore(timestamp=instant_ms(timestamp, session_zone(self.spark)))
        told = self.progress(progress)
        return restore_verb.restore(self.log(), request, runner=self.runner(), progress=told)

    def reindex(
        self, where: str | None = None, *, force: bool = False, progress: Progress | None = None
    ) -> ReindexReport:
        """Give a new index to splits whose index is missing, foreign or not what the table wants; a task each."""
        return reindex_verb.reindex(
            self.log(), Reindex(where=where, force=force), runner=self.runner(), progress=self.progress(progress)
        )

    def prewarm(
        self,
        where: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> PrewarmReport:
        """Load indexes into the caches of the executors: those that searches on `columns` read (default: all)."""
        request = Prewarm(where=where, columns=columns)
        return prewarm_verb.prewarm(self.log(), request, runner=self.runner(), progress=self.progress(progress))

    def flushCaches(self) -> CacheReport:
        """Delete cached indexes from the disks of driver and executors, and what they hold in memory of this table.

        Spark chooses who runs the tasks: a busy executor may get none. `processes` of the report are those that did.
        """
        return prewarm_verb.flush_caches(self.log(), runner=self.runner())

    def invalidateCaches(self) -> CacheReport:
        """Forget what driver and executors hold in memory about this table; as `flushCaches`, those that answer."""
        return prewarm_verb.invalidate_caches(self.log(), runner=self.runner())

    def checkpoint(self) -> int:
        """Write the state of the newest version now; the version that it holds. Upgrades tables of older protocols."""
        return checkpoint(self._newest_env()).version

    def compact(self) -> int:
        """As `checkpoint`, and lay all manifests out anew, sorted by partition, without tombstones."""
        return checkpoint(self._newest_env(), compact="full").version

    def repair(self, at: str | os.PathLike[str] | None = None) -> RepairReport:
        """Write the newest version that can be read as a new log at `at`, without data files that do not exist.

        Where no version can be read, the log is made of the splits; without `at` in place, where no log is left.
        """
        return maintain.repair(self.url, at=at, options=self.options)

    def verify(self, *, dataFiles: bool = True) -> VerifyReport:
        """Check every file of the log, and that every live data file is there; changes nothing."""
        return verify_table(self.env(), data_files=dataFiles)

    def describeState(self) -> StateDescription:
        """The newest checkpoint as data; no file entries are read."""
        return describe_state(self.env())

    def health(self) -> Health:
        """Facts about log, files and caches of the newest version, and what to do about each problem."""
        return health_verb.health(self.log())

    def _newest_env(self) -> Env:
        log = self.log()
        return table_env(log.env, log.metadata_at().metadata)
