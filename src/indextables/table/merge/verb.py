"""Small splits become few large ones; rows, their order and what readers see stay the same.

Groups of neighbours are merged as independent units by a `Runner` and committed in batches, so that a run that ends
early keeps what it has finished. Nothing is locked: appends go on, and a commit takes only sources that are live with
the vector they had when they were read. Where rows were deleted meanwhile, the vector moves to the merged file; where
that cannot be, the group is given up and nothing is lost but the work.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CommitConflict, CommitStateUnknown, NotSupported
from indextables.log.care import Protection, protect_keys, store_now_ms
from indextables.log.commit import retry_times
from indextables.log.read import Log, Snapshot
from indextables.log.wire import check_rows_writable
from indextables.query.expr import columns_of
from indextables.query.parse import parse
from indextables.query.prune import is_partition_only
from indextables.table.environment import table_env
from indextables.table.merge.batch import GROUPED, Merging, Moved, cluster_tag, groups_of, run_batch
from indextables.table.merge.clustering import check_columns
from indextables.table.merge.in_parts import plan_in_parts
from indextables.table.merge.landing import Landing, land
from indextables.table.merge.plan import Limits, MergePlan, clustering_groups, plan_groups
from indextables.table.merge.skips import record_skips
from indextables.table.requests import MergeSplits
from indextables.table.running import Progress, Runner, Step
from indextables.table.writing import files_inside

__all__ = ["MergeReport", "Skipped", "merge_planned", "merge_splits"]

_LOGGER = logging.getLogger("indextables")

OPERATION = "MERGE SPLITS"
_WHAT = "merge splits"
_PROTECTED_MS = 24 * 3_600_000

PLAN_SCHEMA = pa.schema(
    [("group", pa.int64()), ("path", pa.string()), ("size", pa.int64()), ("numRecords", pa.int64())]
)


_FEW_RUNS = 1000
"""Rows that follow each other, on the average, from which on taking them one by one is not worth it."""


class Skipped(msgspec.Struct, frozen=True):
    """A split that could not be read; it stays in the table."""

    path: str
    reason: str


class MergeReport(msgspec.Struct, frozen=True):
    """What a merge did, or with `dry_run` would do.

    `plan` has a row per source: the number of its group, path, size and rows. `versions` are the commits, oldest first.
    `given_up` groups lost a race, `failed` are the reasons of groups that ended with an error: both can be merged
    again. `cooling` splits were left out because of earlier failures. `carried_vectors` counts merged files that took
    over deletions which came meanwhile. `memory_bytes` is the most that a process which merged has had.
    """

    plan: pa.Table
    dry_run: bool = False
    versions: list[int] = []
    groups: int = 0
    merged_groups: int = 0
    given_up: int = 0
    failed: list[str] = []
    source_splits: int = 0
    new_splits: int = 0
    source_bytes: int = 0
    new_bytes: int = 0
    rows: int = 0
    deleted_rows: int = 0
    carried_vectors: int = 0
    skipped: list[Skipped] = []
    cooling: int = 0
    memory_bytes: int = 0


def merge_splits(
    log: Log,
    request: MergeSplits,
    *,
    runner: Runner,
    progress: Progress | None = None,
) -> MergeReport:
    """Merge small splits of the newest version, and write those anew that have many deleted rows.

    Args:
        log: The table.
        request: Which splits, how large, and in which order of rows. Columns to cluster by sort rows over all splits
            of a partition, so that fewer files match a predicate on them; without them rows keep their order within a
            partition (the table's, where there are none).
        runner: Where the work is done.
        progress: Told after every batch.

    Raises:
        InvalidArgument: A column to cluster by is not there, or `where` cannot be parsed (QueryInvalid).
        NotSupported: `where` reads other than partition columns, or the table is another system's.
        MetadataChanged: The schema changed meanwhile; what was committed before stays.
        CommitStateUnknown: Whether the last batch is in the log cannot be told; nothing was deleted.
        LogError, StoreError: The log or the store failed; what was committed before stays.
    """
    snapshot = log.snapshot()
    check_rows_writable(snapshot.protocol, log.url)
    env = table_env(log.env, snapshot.metadata)
    columns = check_columns(snapshot.schema, snapshot.partition_columns, request.cluster_by)
    limits = _limits(env, request)
    plan = _planned(env, snapshot, request, columns, limits)
    if request.dry_run or not plan.groups:
        return MergeReport(_plan_table(plan), dry_run=request.dry_run, groups=len(plan.groups), cooling=plan.cooling)
    merging = Merging(snapshot.metadata, columns, request.shape, limits)
    return _merged(log, env, plan, merging, _parameters(request, columns, limits), runner, progress)


def merge_planned(
    log: Log, snapshot: Snapshot, plan: MergePlan, limits: Limits, parameters: dict[str, str | None], *, runner: Runner
) -> MergeReport:
    """Merge the groups of a plan over the files of a snapshot, rows in their order: a merge that nobody asked for.

    Raises as `merge_splits`.
    """
    check_rows_writable(snapshot.protocol, log.url)
    env = table_env(log.env, snapshot.metadata)
    return _merged(log, env, plan, Merging(snapshot.metadata, [], "zorder", limits), parameters, runner, None)


def _merged(
    log: Log,
    env: Env,
    plan: MergePlan,
    merging: Merging,
    parameters: dict[str, str | None],
    runner: Runner,
    progress: Progress | None,
) -> MergeReport:
    told, metadata = _plan_table(plan), merging.metadata
    with protect_keys(env, since_ms=store_now_ms(env), ttl_ms=_PROTECTED_MS, table_id=metadata.id) as protection:
        run = _Run(log, env, merging, parameters, runner, progress, protection)
        run.all(plan, metadata.partitionColumns)
    return run.report(told, plan)


class _Run:
    """One merge, batch by batch."""

    def __init__(
        self,
        log: Log,
        env: Env,
        merging: Merging,
        parameters: dict[str, str | None],
        runner: Runner,
        progress: Progress | None,
        protection: Protection,
    ) -> None:
        self._log = log
        self._env = env
        self._merging = merging
        self._parameters = parameters
        self._runner = runner
        self._progress = progress or (lambda _: None)
        self._protection = protection
        self._landing = Landing()
        self._skipped: list[Skipped] = []
        self._failed: list[str] = []
        self._memory = 0

    def all(self, plan: MergePlan, partition_columns: Sequence[str]) -> None:
        """Run and commit all groups."""
        size = self._env.options[opt.MERGE_GROUPS_PER_COMMIT] or max(1, 4 * self._runner.width)
        total = len(plan.groups)
        self._progress(Step(_WHAT, 0, total))
        for start in range(0, total, size):
            groups = groups_of(plan.files, plan.groups[start : start + size], partition_columns)
            done = run_batch(self._env, self._runner, self._merging, groups)
            self._failed += done.failed
            self._memory = max(self._memory, done.memory_bytes)
            self._skip(done.broken)
            self._commit(done.moved)
            landing = self._landing
            at = min(total, start + size)
            self._progress(Step(_WHAT, at, total, landing.rows, landing.new_bytes, landing.new_splits))

    def report(self, told: pa.Table, plan: MergePlan) -> MergeReport:
        """What has been done."""
        landing = self._landing
        return MergeReport(
            told,
            versions=landing.versions,
            groups=len(plan.groups),
            merged_groups=landing.groups,
            given_up=landing.given_up,
            failed=self._failed,
            source_splits=landing.source_splits,
            new_splits=landing.new_splits,
            source_bytes=landing.source_bytes,
            new_bytes=landing.new_bytes,
            rows=landing.rows,
            deleted_rows=landing.deleted_rows,
            carried_vectors=landing.carried_vectors,
            skipped=self._skipped,
            cooling=plan.cooling,
            memory_bytes=self._memory,
        )

    def _commit(self, moved: list[Moved]) -> None:
        if moved:
            # Should it have slept past its time, no purge begins from now on; what one has taken is found missing.
            self._protection.renew()
            land(self._log, self._env, self._merging, moved, OPERATION, self._parameters, self._landing)

    def _skip(self, broken: dict[str, str]) -> None:
        if not broken:
            return
        for path, reason in broken.items():
            _LOGGER.warning("%s of %s could not be merged and is left alone: %s", path, self._log.url, reason)
        hours = self._env.options[opt.MERGE_SKIP_COOLDOWN_HOURS]
        try:
            record_skips(self._log, broken, OPERATION, cooldown_hours=hours)
        except (CommitConflict, CommitStateUnknown) as error:
            # The merge of the others matters more; whoever meets the file next records it.
            _LOGGER.warning("skipped splits of %s were not recorded: %s", self._log.url, error)
        self._skipped += [Skipped(path, reason) for path, reason in broken.items()]


def _limits(env: Env, request: MergeSplits) -> Limits:
    return Limits(
        target_bytes=request.target_size or env.options[opt.MERGE_TARGET_SIZE],
        max_sources=request.max_source_splits_per_merge or env.options[opt.MERGE_MAX_SOURCES],
        memory_bytes=env.options[opt.SPLIT_MEMORY_BUDGET],
        max_groups=request.max_dest_splits,
        fold_above=env.options[opt.MERGE_MAX_DELETED_ROWS_RATIO],
    )


def _parameters(request: MergeSplits, columns: list[str], limits: Limits) -> dict[str, str | None]:
    """What `commitInfo` tells about what was asked for."""
    told: dict[str, str | None] = {"targetSize": str(limits.target_bytes)}
    if request.where is not None:
        told["predicate"] = request.where
    if columns:
        told |= {"clusterBy": ",".join(columns), "curve": request.shape}
    return told


def _planned(env: Env, snapshot: Snapshot, request: MergeSplits, columns: list[str], limits: Limits) -> MergePlan:
    cooling = retry_times(snapshot, env.ambient.now_ms())

    def plan_of(files: pa.Table, limits: Limits) -> MergePlan:
        if columns:
            done = cluster_tag(columns, request.shape)
            return clustering_groups(files, snapshot.partition_columns, cooling, limits, done)
        return plan_groups(files, snapshot.partition_columns, cooling, limits)

    if request.where is None and snapshot.has_more_files(env.options[opt.STATE_FILES_IN_MEMORY]):
        every = msgspec.structs.replace(limits, max_groups=None)
        kept = PLAN_SCHEMA.names[1:] if request.dry_run else GROUPED
        plan = plan_in_parts(snapshot, lambda files: plan_of(files, every), kept, cooling, limits.max_groups)
    else:
        plan = plan_of(_chosen(env, snapshot, request), limits)
    if plan.cooling:
        _LOGGER.info("%d splits of %s are in their cooldown and not merged", plan.cooling, env.store.url)
    return plan


def _chosen(env: Env, snapshot: Snapshot, request: MergeSplits) -> pa.Table:
    """The files that are asked for. Raises NotSupported, QueryInvalid, LogError."""
    if request.where is None:
        return snapshot.files
    predicate = parse(request.where, snapshot.schema, time_zone=env.options[opt.TIME_ZONE])
    if not is_partition_only(predicate, snapshot.partition_columns):
        others = [name for name in columns_of(predicate) if name not in snapshot.partition_columns]
        message = f"merge splits takes whole partitions: {', '.join(others)} are not partition columns"
        raise NotSupported(message, columns=others)
    found = snapshot.files_where(lambda _: predicate)
    return files_inside(found, predicate, snapshot.schema, snapshot.partition_columns)


def _plan_table(plan: MergePlan) -> pa.Table:
    rows = np.concatenate([*plan.groups, np.empty(0, np.int64)])
    numbers = np.repeat(np.arange(len(plan.groups)), [len(group) for group in plan.groups])
    chosen = _rows_of(plan.files.select(PLAN_SCHEMA.names[1:]), rows)
    columns = [pa.chunked_array([pa.array(numbers)]), chosen["path"], chosen["size"], chosen["numRecords"]]
    return pa.table(columns, schema=PLAN_SCHEMA)


def _rows_of(files: pa.Table, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
    """These rows; where most follow each other, the memory of the files is used again."""
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    if len(starts) * _FEW_RUNS >= len(rows):
        return files.take(pa.array(rows))
    ends = np.append(starts[1:], len(rows))
    slices = [files.slice(int(rows[start]), int(end - start)) for start, end in zip(starts, ends, strict=True)]
    return pa.concat_tables([files.slice(0, 0), *slices])
