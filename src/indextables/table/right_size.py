"""The small splits of one write become few, before its commit names them: nobody ever sees the small ones.

For writes whose tasks each bring some rows of every partition, where nobody can spread the rows before. The groups are
planned and merged as by merge splits, over the files of this write alone, and bounded in bytes, because the process
that commits does the work.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import SplitCorrupt
from indextables.log.commit import files_of
from indextables.log.wire import Add, Metadata
from indextables.options import Options
from indextables.table.merge import Limits, MergePlan, Merging, Moved, groups_of, plan_groups, run_batch
from indextables.table.read import POSITION
from indextables.table.running import Runner
from indextables.table.writing import discard

__all__ = ["RightSized", "plan_joining", "right_sized"]

_LOGGER = logging.getLogger("indextables")

_SMALL = 2
"""A split is small below the target size divided by this: any two of them fit one."""


class RightSized(msgspec.Struct, frozen=True):
    """The rows of a write in the files to commit.

    `replaced` are files of the write that are not among `adds`: no commit may name them any more.
    """

    adds: list[Add]
    replaced: list[Add] = []


def right_sized(env: Env, metadata: Metadata, adds: Sequence[Add], runner: Runner) -> RightSized:
    """Merge the small files of a write, partition by partition, as far as `optimizeWrite.maxMergeSize` goes.

    `metadata` is what the rows were written for. All files are durable and in no version yet; rows of a task stay in
    their order. A group that cannot be merged stays as it was written, with a warning.

    Raises SplitCorrupt if a file of the write cannot be read back: it must not be committed. Then nothing that was
    merged is left, and no file of the write is touched.
    """
    options = env.over(metadata.configuration)
    plan, left = plan_joining(adds, metadata.partitionColumns, options)
    if left:
        _LOGGER.warning(
            "optimizeWrite: %d small splits of this write at %s stay as they are, because the commit merges at most %d "
            "bytes (optimizeWrite.maxMergeSize). indextables.write(df, path, optimizeWrite=True) shuffles the rows "
            "instead, without that bound; MERGE SPLITS merges what is there",
            left,
            env.store.url,
            options[opt.OPTIMIZE_WRITE_MAX_MERGE_SIZE],
        )
    if not plan.groups:
        return RightSized(list(adds))
    groups = groups_of(plan.files, plan.groups, metadata.partitionColumns)
    done = run_batch(env, runner, Merging(metadata, [], "zorder", _limits(options)), groups)
    if done.broken:
        discard(env, [add for moved in done.moved for add in moved.adds])
        path, reason = next(iter(done.broken.items()))
        message = (
            f"{len(done.broken)} files that this write has just made at {env.store.url} cannot be read back ({path}: "
            f"{reason}). Nothing was committed: write the rows again"
        )
        raise SplitCorrupt(message, path=path, url=env.store.url)
    return _replaced(adds, done.moved)


def plan_joining(adds: Sequence[Add], partition_columns: Sequence[str], options: Options) -> tuple[MergePlan, int]:
    """Which files of a write are merged with which, and how many small ones are left out for their bytes. Pure.

    Only files well below the target size take part; what lies between them does not part them, because nobody has seen
    these files in an order. Where not all fit the bound, those groups are chosen that spare the most files per byte.
    """
    target, bound = options[opt.SPLIT_TARGET_SIZE], options[opt.OPTIMIZE_WRITE_MAX_MERGE_SIZE]
    numbers = [number for number, add in enumerate(adds) if add.size < target // _SMALL]
    files = files_of([adds[number] for number in numbers])
    for name, values in (("addedAtVersion", np.zeros(len(numbers), int)), ("addedAtLine", np.array(numbers, int))):
        files = files.set_column(files.schema.get_field_index(name), name, pa.array(values, pa.int64()))
    limits = _limits(options)
    plan = plan_groups(files, partition_columns, (), limits)
    wanted = sum(map(len, plan.groups))
    if bound < target:
        plan = plan_groups(files, partition_columns, (), msgspec.structs.replace(limits, target_bytes=bound))
    sizes = np.asarray(plan.files["size"].to_numpy(), np.int64)
    chosen = _within([(len(rows), int(sizes[rows].sum())) for rows in plan.groups], bound)
    groups: list[npt.NDArray[np.int64]] = [rows for number, rows in enumerate(plan.groups) if number in chosen]
    return msgspec.structs.replace(plan, groups=groups), max(0, wanted - sum(map(len, groups)))


def _limits(options: Options) -> Limits:
    return Limits(
        target_bytes=options[opt.SPLIT_TARGET_SIZE],
        max_sources=options[opt.MERGE_MAX_SOURCES],
        memory_bytes=options[opt.SPLIT_MEMORY_BUDGET],
    )


def _within(groups: Sequence[tuple[int, int]], most_bytes: int) -> set[int]:
    """The numbers of the groups, each (files, bytes), that are merged: together at most `most_bytes`."""
    chosen: set[int] = set()
    for number in sorted(range(len(groups)), key=lambda n: groups[n][1] / groups[n][0]):
        if groups[number][1] <= most_bytes:
            most_bytes -= groups[number][1]
            chosen.add(number)
    return chosen


def _replaced(adds: Sequence[Add], moved: Sequence[Moved]) -> RightSized:
    """Merged files stand where the first of their sources stood."""
    found: dict[str, list[Add]] = {}
    for group in moved:
        found.update({source.path: [] for source in group.sources})
        found[group.sources[0].path] = [_as_written(add) for add in group.adds]
    kept = [new for add in adds for new in found.get(add.path, [add])]
    return RightSized(kept, [add for add in adds if add.path in found])


def _as_written(add: Add) -> Add:
    """The file as one that a task has written: its rows are new, and their place is that of the commit."""
    tags = {key: value for key, value in (add.tags or {}).items() if key != POSITION}
    return msgspec.structs.replace(add, dataChange=True, tags=tags or None)
