"""Commits the files of all tasks in one version, or in none where that is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.log.commit import create_table
from indextables.log.wire import Add, Metadata
from indextables.spark.session import WriteOptions, session_overwrites
from indextables.spark.source.write_plan import WritePlan, WriteRequest, replaced_by, target_for
from indextables.table.append import commit_append, holds_batch
from indextables.table.arguments import PartitionMode, check_partition_mode
from indextables.table.overwrite import commit_overwrite
from indextables.table.rows import Evolution, wanted_indexing
from indextables.table.writing import NOT_IN_THE_LOG, WriteTarget, check_there, discard, registered

if TYPE_CHECKING:
    from indextables.log.read import Log, Snapshot

__all__ = ["commit_write"]


def commit_write(log: Log, request: WriteRequest, plan: WritePlan, adds: list[Add], session: Mapping[str, str]) -> None:
    """One version for the files of all tasks. Files that were merged before it go when it is known whether it landed.

    `session` is what the tasks saw of it. Raises as `TableWriter.commit`.
    """
    adds, replaced = _right_sized(log, request, plan, adds)
    try:
        _commit(log, request, plan, adds, _partitions_in(request.asked, session), replaced)
    except NOT_IN_THE_LOG:
        discard(log.env, replaced)
        raise
    discard(log.env, replaced)


def _commit(
    log: Log, request: WriteRequest, plan: WritePlan, adds: list[Add], partitions: PartitionMode, merged: Sequence[Add]
) -> None:
    asked = request.asked
    target = target_for(log.env, plan)
    metadata = _created(log, request, plan, target, adds) if plan.is_new else plan.metadata
    if metadata is None:
        return
    change = _change(log, plan)
    mapping = registered(metadata, target.plan) if adds else None
    if request.overwrite:
        where, text = replaced_by(request, target)
        commit_overwrite(
            log,
            metadata,
            adds,
            since=plan.began,
            where=where,
            text=text,
            partitions=partitions,
            mapping=mapping,
            txn=asked.txn,
            user_metadata=asked.user_metadata,
            change=change,
            merged=merged,
            by=request.by,
        )
    elif adds or asked.txn is not None or change is not None:
        commit_append(
            log,
            metadata,
            adds,
            mapping=mapping,
            txn=asked.txn,
            user_metadata=asked.user_metadata,
            change=change,
            merged=merged,
            by=request.by,
        )


def _created(
    log: Log, request: WriteRequest, plan: WritePlan, target: WriteTarget, adds: Sequence[Add]
) -> Metadata | None:
    """Version 0, made here or by whoever was faster with the same schema; None where that ends this write."""
    wanted = wanted_indexing(log.env.options, target.schema.names)
    configuration = {**wanted, **plan.metadata.configuration}
    metadata = msgspec.structs.replace(plan.metadata, configuration=configuration)
    created = create_table(log, registered(metadata, target.plan) or metadata)
    mode = request.asked.save_mode
    if created.is_new or mode is None:
        check_there(log.env, adds)
        return created.metadata
    discard(log.env, adds)
    if mode == "error":
        message = f"another writer has just created the table at {request.url}: use mode append. Nothing was written"
        raise InvalidArgument(message, url=request.url)
    return None


def _partitions_in(asked: WriteOptions, session: Mapping[str, str]) -> PartitionMode:
    """As the call says, else as Spark's own setting says, which planners do not see and commits do."""
    if asked.partitions is not None:
        return asked.partitions
    if asked.replace_where is not None or asked.overwrite_schema:
        return "static"
    return check_partition_mode(session_overwrites(session) or "static")


def _change(log: Log, plan: WritePlan) -> tuple[Snapshot, Evolution] | None:
    if plan.base is None:
        return None
    return log.of_table(plan.metadata.id).snapshot(plan.base), Evolution(plan.metadata, plan.protocol)


def _right_sized(log: Log, request: WriteRequest, plan: WritePlan, adds: list[Add]) -> tuple[list[Add], list[Add]]:
    """The files to commit, and those that are not: with `optimizeWrite` the small ones of the tasks are merged.

    Those of a batch that the table holds already are not: nobody will ever read them.
    """
    env = log.env
    if not adds or not env.over(plan.metadata.configuration)[opt.OPTIMIZE_WRITE]:
        return adds, []
    # Most writes never get here: what merging needs is loaded when it is needed.
    from indextables.table.right_size import right_sized
    from indextables.table.running import Threads

    if holds_batch(log, request.asked.txn):
        return adds, []
    sized = right_sized(env, plan.metadata, adds, Threads(env))
    return sized.adds, sized.replaced
