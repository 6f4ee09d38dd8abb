"""Merge splits and its skips, as methods of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from indextables.embedded.handle import Handle
from indextables.lazy import LazyModule
from indextables.table.running import Progress, Threads

if TYPE_CHECKING:
    from indextables.table.merge import MergeReport
    from indextables.table.merge import skips as skips_verb
    from indextables.table.merge import verb as merge_verb
else:
    merge_verb = LazyModule("indextables.table.merge.verb")
    skips_verb = LazyModule("indextables.table.merge.skips")

__all__ = ["Merging"]


class Merging(Handle):
    """What turns small splits into large ones."""

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
        report = merge_verb.merge_splits(
            self._log,
            where=where,
            target_size=target_size,
            max_dest_splits=max_dest_splits,
            max_source_splits_per_merge=max_source_splits_per_merge,
            cluster_by=cluster_by,
            curve=curve,
            dry_run=dry_run,
            runner=Threads(self._log.env, "maintenance"),
            progress=progress,
        )
        if report.versions:
            self._pin(report.versions[-1])
        return report

    def skips(self) -> pa.Table:
        """The live splits that a merge could not read: path, reason, count, and until when they are left alone."""
        return skips_verb.skips(self._log)

    def clear_skips(self, paths: Sequence[str] | None = None) -> int:
        """Let the next merge try these splits again, or all; how many. Raises InvalidArgument for one not skipped."""
        return skips_verb.clear_skips(self._log, paths)
