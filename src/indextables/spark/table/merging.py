"""Merge splits and its skips on a cluster, as methods of an `IndexTable`.

Each group of splits is a task of its own. Spark offers Python no way to prefer a machine for a task; splits are in an
object store or on a shared file system, where every machine is as near as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from indextables.spark.session import frame_of
from indextables.spark.tasks import SparkHandle
from indextables.table.merge import MergeReport
from indextables.table.merge import skips as skips_verb
from indextables.table.merge import verb as merge_verb
from indextables.table.running import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Merging"]


class Merging(SparkHandle):
    """What turns small splits into large ones."""

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
        return merge_verb.merge_splits(
            self.log(),
            where=where,
            target_size=targetSize,
            max_dest_splits=maxDestSplits,
            max_source_splits_per_merge=maxSourceSplitsPerMerge,
            cluster_by=clusterBy,
            curve=curve,
            dry_run=dryRun,
            runner=self.runner(),
            progress=self.progress(progress),
        )

    def skips(self) -> DataFrame:
        """The live splits that a merge could not read: path, reason, count, and until when they are left alone."""
        return frame_of(self.spark, skips_verb.skips(self.log()))

    def clearSkips(self, paths: Sequence[str] | None = None) -> int:
        """Let the next merge try these splits again, or all; how many. Raises InvalidArgument for one not skipped."""
        return skips_verb.clear_skips(self.log(), paths)
