"""Plans a write before any file is written: for which table and which schema, and what is refused.

Whether the table is there, which schema the rows are written for, whether they fit it: tasks and commit get the answers
as plain data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from indextables import options as opt
from indextables.errors import InvalidArgument, NotSupported, TableNotFound
from indextables.log.commit import new_metadata
from indextables.log.wire import Metadata, Protocol, check_not_foreign, check_rows_writable
from indextables.query.parse import depends_on_zone, parse
from indextables.query.prune import is_partition_only
from indextables.spark.session import WriteOptions, planning
from indextables.table.after_write import Writer
from indextables.table.rows import (
    SPARK_DOOR,
    Rows,
    check_indexing,
    check_merge_options,
    check_partition_columns,
    fit,
    merged_schema,
    nested_texts,
    replaced_schema,
    typed_only,
    wanted_indexing,
)
from indextables.table.writing import WriteTarget, newest, target_of

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.env import Env
    from indextables.log.read import Log, Snapshot
    from indextables.query.expr import Node

__all__ = ["WritePlan", "WriteRequest", "plan_write", "replaced_by", "target_for"]


class WriteRequest(msgspec.Struct, frozen=True):
    """One write as it was asked for."""

    url: str
    asked: WriteOptions
    overwrite: bool
    by: Writer = "batch"


class WritePlan(msgspec.Struct, frozen=True):
    """What is written for which table.

    `metadata` is what the rows are written for; where the commit brings it as a new schema, `base` is the version it
    was made from and `protocol` what it needs. `is_new`: the commit makes the table. `is_idle`: nothing is to be done.
    `began` is the newest version when the job began.
    """

    metadata: Metadata
    is_new: bool = False
    is_idle: bool = False
    base: int | None = None
    protocol: Protocol | None = None
    began: int = 0


def plan_write(log: Log, request: WriteRequest, given: pa.Schema) -> WritePlan:
    """What to write for rows of the schema `given`. Raises everything that can be told before a task runs."""
    asked, url = request.asked, request.url
    _check(request)
    try:
        with planning(asked):
            snapshot = newest(log)
    except TableNotFound:
        return _planned_new(log, request, given)
    check_rows_writable(snapshot.protocol, url)
    if asked.save_mode == "error":
        message = f"there is a table at {url} already: use mode append or overwrite. Nothing was written"
        raise InvalidArgument(message, url=url)
    if asked.save_mode == "ignore":
        return WritePlan(snapshot.metadata, is_idle=True)
    return _planned_for(log, snapshot, request, given)


def target_for(env: Env, plan: WritePlan) -> WriteTarget:
    """How rows of this write become splits."""
    return target_of(plan.metadata, env.over(plan.metadata.configuration))


def replaced_by(request: WriteRequest, target: WriteTarget) -> tuple[Node | None, str]:
    """The predicate of `replaceWhere` and its text. Raises InvalidArgument, NotSupported, QueryInvalid."""
    text = request.asked.replace_where
    if text is None:
        return None, ""
    if not request.overwrite:
        raise InvalidArgument("replaceWhere goes with mode('overwrite')", option="replaceWhere")
    if request.asked.partitions == "dynamic":
        message = "replaceWhere and partitionOverwriteMode=dynamic each say what is replaced: give one"
        raise InvalidArgument(message, option="partitionOverwriteMode")
    where = parse(text, target.schema, time_zone=target.options[opt.TIME_ZONE])
    if not is_partition_only(where, target.partition_columns):
        raise NotSupported(f"replaceWhere = {text!r} reads columns that are not partition columns")
    if not target.options.given(opt.TIME_ZONE) and depends_on_zone(text, target.schema):
        message = (
            f"replaceWhere = {text!r} has a time without a zone, and a worker of Spark does not see that of the "
            "session: write the zone into it, give the option timeZone, or use indextables.write(df, path, "
            "mode='overwrite', replaceWhere=...). Nothing was written"
        )
        raise InvalidArgument(message, option="replaceWhere")
    return where, text


def _check(request: WriteRequest) -> None:
    """Wishes that exclude each other, or that Spark gives a Python source no way to grant."""
    asked = request.asked
    partial = not request.overwrite or asked.replace_where is not None or asked.partitions == "dynamic"
    check_merge_options(
        merge_schema=asked.merge_schema, overwrite_schema=asked.overwrite_schema, partial=partial, door=SPARK_DOOR
    )


def _planned_new(log: Log, request: WriteRequest, given: pa.Schema) -> WritePlan:
    check_not_foreign(log.env.store)
    columns = check_partition_columns(given, request.asked.partition_by or [])
    configuration = nested_texts(given, wanted_indexing(log.env.options, given.names))
    plan = WritePlan(new_metadata(log, given, partition_by=tuple(columns), configuration=configuration), is_new=True)
    replaced_by(request, target_for(log.env, plan))
    return plan


def _planned_for(log: Log, snapshot: Snapshot, request: WriteRequest, given: pa.Schema) -> WritePlan:
    asked, options = request.asked, log.env.options
    rows = Rows(given, ())
    change = None
    if asked.overwrite_schema:
        change = replaced_schema(snapshot.metadata, given, options, partition_by=asked.partition_by)
    else:
        _check_partitioning(request, snapshot.partition_columns)
        if asked.merge_schema:
            rows = typed_only(rows, snapshot.schema)
            change = merged_schema(
                snapshot.metadata, snapshot.protocol, rows.schema, options, url=request.url, door=SPARK_DOOR
            )
    plan = WritePlan(snapshot.metadata, began=snapshot.version)
    if change is not None:
        plan = WritePlan(change.metadata, base=snapshot.version, protocol=change.protocol, began=snapshot.version)
    target = target_for(log.env, plan)
    check_indexing(options.from_call("indexing."), target.schema.names, "call")
    fit(rows, target.schema, url=request.url, door=SPARK_DOOR)
    replaced_by(request, target)
    return plan


def _check_partitioning(request: WriteRequest, table: Sequence[str]) -> None:
    given = request.asked.partition_by
    if given and [name.lower() for name in given] != [name.lower() for name in table]:
        message = f"the table at {request.url} is partitioned by {list(table)}, not by {list(given)}"
        raise InvalidArgument(message, option="partitionBy")
