"""Maintenance on a cluster: what an operator does to a table over the years, as methods of an `IndexTable`.

Long work runs as tasks. A merge has a task for each group of splits; Spark offers Python no way to prefer a machine for
a task. Splits are in an object store or on a shared file system, where every machine is as near as any other.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
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
    MirrorReport,
    PrewarmReport,
    ReindexReport,
    RestoreReport,
    TruncateReport,
    repair_table,
    verify_table,
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
    Verify,
)
from indextables.table.running import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Maintenance"]


class Maintenance:
    """Merge, purge, restore and the like. Parameters, reports and errors are those of the embedded `Table`."""

    def __init__(
        self, spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, object] | None = None
    ) -> None:
        """Raises InvalidArgument, NotSupported for a path or option that is wrong; nothing is read."""
        self._handle = SparkHandle(spark, path, options)

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._handle.spark

    @property
    def url(self) -> str:
        """The URL of the table, without credentials."""
        return self._handle.url

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

        Parameters, report and errors are those of `Table.merge_splits`.
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
        return merge_verb.merge_splits(
            self._handle.log(), request, runner=self._handle.runner(), progress=self._handle.progress(progress)
        )

    def skips(self) -> DataFrame:
        """List the splits that a merge could not read: path, reason, count, and until when merges leave them alone."""
        return frame_of(self.spark, skips_verb.skips(self._handle.log()))

    def clearSkips(self, paths: Sequence[str] | None = None) -> int:
        """Let the next merge try skipped splits again: those at `paths`, or all. Return how many these are.

        Raises InvalidArgument for a path that is not skipped, CommitConflict, CommitStateUnknown.
        """
        return skips_verb.clear_skips(self._handle.log(), ClearSkips(paths=paths))

    def purge(
        self,
        *,
        olderThanHours: float | None = None,
        txLogRetentionHours: float | None = None,
        dryRun: bool = False,
        force: bool = False,
        progress: Progress | None = None,
    ) -> PurgeReport:
        """Delete old versions, and the data files, checkpoints and manifests that no remaining version needs.

        Tasks list and delete. Parameters, report and errors are those of `Table.purge`.
        """
        request = Purge(
            older_than_hours=olderThanHours,
            tx_log_retention_hours=txLogRetentionHours,
            dry_run=dryRun,
            force=force,
        )
        return purge_verb.purge(
            self._handle.log(), request, runner=self._handle.runner(), progress=self._handle.progress(progress)
        )

    def dropPartitions(self, where: str, *, dryRun: bool = False) -> DropReport:
        """Remove the partitions for whose values `where` is true, with all their rows, in one commit.

        Parameters, report and errors are those of `Table.drop_partitions`.
        """
        return drop_verb.drop_partitions(self._handle.log(), DropPartitions(where=where, dry_run=dryRun))

    def truncateTimeTravel(self, *, dryRun: bool = False, progress: Progress | None = None) -> TruncateReport:
        """Make every version but the newest unreadable. This cannot be undone; the rows of the newest version stay.

        Parameters, report and errors are those of `Table.truncate_time_travel`.
        """
        request = TruncateTimeTravel(dry_run=dryRun)
        return truncate_verb.truncate_time_travel(self._handle.log(), request, progress=self._handle.progress(progress))

    def restoreToVersion(self, version: int, *, progress: Progress | None = None) -> RestoreReport:
        """Bring back the table as it was at a version, by a new commit; later versions stay readable.

        Report and errors are those of `Table.restore`.
        """
        told = self._handle.progress(progress)
        request = Restore(version=version)
        return restore_verb.restore(self._handle.log(), request, runner=self._handle.runner(), progress=told)

    def restoreToTimestamp(
        self, timestamp: dt.datetime | str | int, *, progress: Progress | None = None
    ) -> RestoreReport:
        """Bring back the table as it was at a time (a datetime, ISO text, or milliseconds since the epoch).

        A text without a time zone is in that of the session, a datetime without one in that of this process. Report and
        errors are those of `Table.restore`.
        """
        request = Restore(timestamp=instant_ms(timestamp, session_zone(self.spark)))
        told = self._handle.progress(progress)
        return restore_verb.restore(self._handle.log(), request, runner=self._handle.runner(), progress=told)

    def reindex(
        self, where: str | None = None, *, force: bool = False, progress: Progress | None = None
    ) -> ReindexReport:
        """Give a new index to splits whose index is missing, damaged, or made by other rules than the table has now.

        Each split is a task. Parameters, report and errors are those of `Table.reindex`.
        """
        return reindex_verb.reindex(
            self._handle.log(),
            Reindex(where=where, force=force),
            runner=self._handle.runner(),
            progress=self._handle.progress(progress),
        )

    def prewarm(
        self,
        where: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> PrewarmReport:
        """Load into the caches of the executors what searches on `columns` read (default: on any column).

        Parameters, report and errors are those of `Table.prewarm`.
        """
        request = Prewarm(where=where, columns=columns)
        return prewarm_verb.prewarm(
            self._handle.log(), request, runner=self._handle.runner(), progress=self._handle.progress(progress)
        )

    def mirror(self, *, stop: bool = False, progress: Progress | None = None) -> MirrorReport:
        """Keep a Delta table beside the log, over the same data files; `stop` ends it.

        Parameters, report and errors are those of `Table.mirror`.
        """
        return mirror_verb.mirror(
            self._handle.log(),
            Mirror(stop=stop),
            runner=self._handle.runner(),
            progress=self._handle.progress(progress),
        )

    def flushCaches(self) -> CacheReport:
        """Delete cached indexes from the disks of driver and executors; forget what they hold in memory of this table.

        Spark chooses where the tasks run, and a busy executor may get none. `processes` of the report names those
        that were reached, as `host:pid`.
        """
        return prewarm_verb.flush_caches(self._handle.log(), runner=self._handle.runner())

    def invalidateCaches(self) -> CacheReport:
        """Forget what driver and executors hold in memory about this table, in the processes that a task reaches."""
        return prewarm_verb.invalidate_caches(self._handle.log(), runner=self._handle.runner())

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest version, so that opening the table reads less; return that version.

        A table of an older protocol is upgraded first, by a commit of its own. Raises as `Table.checkpoint`.
        """
        return checkpoint(self._newest_env()).version

    def compact(self) -> int:
        """Write a checkpoint of the newest version with all manifests new, sorted by partition; return that version.

        Data files are not touched. Raises as `checkpoint`.
        """
        return checkpoint(self._newest_env(), compact="full").version

    def repair(self, at: str | os.PathLike[str] | None = None) -> RepairReport:
        """Write the newest version that can be read as a new log at `at`, without data files that do not exist.

        Where no version can be read, the new log is made from the splits. Without `at` the log is written in place;
        that is allowed only where no log is left. Report and errors are those of `indextables.repair`.
        """
        target = None if at is None else SparkHandle(self.spark, at, self._handle.options).env()
        return repair_table(self._handle.env(), target)

    def verify(self, *, dataFiles: bool = True, rules: bool = False) -> VerifyReport:
        """Check every file of the log, and that every data file exists and is the one that the log names.

        Nothing is changed, and no row is read. `dataFiles=False` checks the log alone; `rules=True` reads all rows, in
        this process, and tells which break a rule of the table. Raises TableNotFound, StoreError; everything else that
        is wrong stands in the report.
        """
        request = Verify(data_files=dataFiles, rules=rules)
        return verify_table(self._handle.env(), request)

    def describeState(self) -> StateDescription:
        """Describe the newest checkpoint: format, version, files, manifests, tombstones, skips. Raises StoreError."""
        return describe_state(self._handle.env())

    def health(self) -> Health:
        """Report on log, files and caches of the newest version, with what to do about each problem.

        Raises LogError, StoreError.
        """
        return health_verb.health(self._handle.log())

    def _newest_env(self) -> Env:
        log = self._handle.log()
        return table_env(log.env, log.metadata_at().metadata)
