"""Rows become splits and `add` actions: what append, overwrite and Spark's tasks share. Nothing is committed here."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    CommitError,
    IndexTablesError,
    InvalidArgument,
    LogError,
    NotSupported,
    ProtocolUnsupported,
    SplitCorrupt,
    TableNotFound,
)
from indextables.log.commit import personal_columns
from indextables.log.wire import REGISTRY_PREFIX, Add, Metadata, encode_path, key_of, schema_from_json
from indextables.options import Options
from indextables.query.stored import identity_columns
from indextables.split.file import Columns, with_ids
from indextables.split.index import IndexPlan, plan_fields
from indextables.table.rows import FittedRows, Rules, check_as_personal, folder_of, rules_of, split_rows
from indextables.table.writing.numbering import Numbering

if TYPE_CHECKING:
    # Searches come here for `target_of`, and need no writer.
    from indextables.split.write import SplitWriter, WrittenSplit

__all__ = [
    "NOT_IN_THE_LOG",
    "SPLITS",
    "WriteTarget",
    "add_of",
    "bringing_ids",
    "discard",
    "registered",
    "split_folder",
    "target_of",
    "write_adds",
]


NOT_IN_THE_LOG = (CommitError, LogError, NotSupported, ProtocolUnsupported, TableNotFound)
"""What a commit raises that is provably not in the log, because of what others did: nobody will read its files."""

SPLITS = "splits/"
"""The folder of splits, in the table's or in that of a partition."""

# More partitions than this at a time would hold too much memory: the one longest without rows is closed.
_OPEN_PARTITIONS = 32


class WriteTarget(msgspec.Struct, frozen=True):
    """What a writer must know about the table, so that all its splits are alike."""

    schema: pa.Schema
    partition_columns: tuple[str, ...]
    plan: IndexPlan
    options: Options
    rules: Rules


def target_of(metadata: Metadata, options: Options) -> WriteTarget:
    """How rows of this table are written. `options` hold the table's configuration below the call's.

    Raises InvalidArgument for indexing options that do not fit a column's type.
    """
    schema = schema_from_json(metadata.schemaString)
    personal = personal_columns(metadata.configuration)
    told = [name for name in metadata.partitionColumns if name.lower() in personal]
    if told:
        message = (
            f"{told[0]} is personal, and a table cannot be partitioned by it: its values would be names of folders"
        )
        raise InvalidArgument(message, column=told[0])
    check_as_personal(schema, personal)
    plan = plan_fields(schema, options, previous=_newest_plan(metadata))
    return WriteTarget(schema, tuple(metadata.partitionColumns), plan, options, rules_of(metadata.configuration))


def bringing_ids(target: WriteTarget) -> WriteTarget:
    """The target for rows that had an id before: they bring it along in a last column, null where one is new."""
    return msgspec.structs.replace(target, schema=with_ids(target.schema))


def split_folder(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """Where the splits of a partition lie, with a slash at the end."""
    return folder_of(columns, values) + SPLITS


def registered(metadata: Metadata, plan: IndexPlan) -> Metadata | None:
    """The metadata with the plan, as files have it, in its registry; None if it is there."""
    columns = Columns.of(schema_from_json(metadata.schemaString))
    stored = plan if columns is None else plan.renamed(columns.stored)
    key = REGISTRY_PREFIX + stored.doc_mapping_ref()
    if key in metadata.configuration:
        return None
    configuration = {**metadata.configuration, key: stored.doc_mapping()}
    return msgspec.structs.replace(metadata, configuration=configuration)


def write_adds(env: Env, target: WriteTarget, rows: FittedRows, *, numbers: bool = True) -> list[Add]:
    """Durable splits for all rows, which fit the target's schema, as `add` actions; on any failure nothing of it stays.

    Where it `numbers` rows, those without a number in an identity column get one.
    Raises what taking a batch raises (SchemaMismatch for a value that does not fit), ConstraintViolation for a row that
    breaks a rule of the table, SplitError, StoreError.
    """
    if numbers and identity_columns(target.schema):
        rows = rows.changed_by(Numbering(env, target.schema).into)
    check = target.rules.over(target.schema)
    rows = rows if check is None else rows.checked_by(check)
    with contextlib.closing(_Writers(env, target)) as writers:
        for batch in rows.batches:
            for part in split_rows(batch, target.partition_columns):
                writers.of(part.values).write_fitted(part.rows)
        return writers.finish()


def discard(env: Env, adds: Sequence[Add]) -> None:
    """Delete the files of a commit that is provably not in the log. What cannot be deleted is left for purge."""
    with contextlib.suppress(IndexTablesError):
        env.store.delete_many([key_of(add.path, env.store.url) for add in adds])


def add_of(split: WrittenSplit, partition_columns: Sequence[str], values: Sequence[str | None]) -> Add:
    """The `add` of a split that was just written."""
    return Add(
        path=encode_path(split.key),
        partitionValues=dict(zip(partition_columns, values, strict=True)),
        size=split.size,
        modificationTime=split.put_ms,
        dataChange=True,
        stats=split.statistics.json,
        minValues=dict(split.statistics.min_values),
        maxValues=dict(split.statistics.max_values),
        numRecords=split.num_rows,
        footerStartOffset=split.footer_start,
        footerEndOffset=split.footer_end,
        hotcacheStartOffset=split.index_start,
        hotcacheLength=split.range1_length,
        hasFooterOffsets=True,
        timeRangeStart=split.time_range_start,
        timeRangeEnd=split.time_range_end,
        numMergeOps=0,
        docMappingRef=split.doc_mapping_ref,
        uncompressedSizeBytes=split.uncompressed_bytes,
        splitId=split.id,
    )


class _Writers:
    """One open split writer per partition, within a bound. `close` undoes everything unless `finish` was reached."""

    def __init__(self, env: Env, target: WriteTarget) -> None:
        self._env = env
        self._target = target
        self._open: OrderedDict[tuple[str | None, ...], SplitWriter] = OrderedDict()
        self._adds: list[Add] = []
        tags = target.options[opt.WRITE_TAGS]
        self._tags: dict[str, str | None] = dict(tags.items())
        self._finished = False

    def of(self, values: tuple[str | None, ...]) -> SplitWriter:
        """The writer of a partition."""
        writer = self._open.get(values)
        if writer is None:
            if len(self._open) >= _OPEN_PARTITIONS:
                self._end(next(iter(self._open)))
            columns = self._target.partition_columns
            from indextables.split.write import SplitWriter

            writer = SplitWriter(
                self._env.store,
                self._target.schema,
                self._target.options,
                plan=self._target.plan,
                prefix=split_folder(columns, values),
                partition_columns=columns,
                ambient=self._env.ambient,
            )
            self._open[values] = writer
        self._open.move_to_end(values)
        return writer

    def finish(self) -> list[Add]:
        """Close all writers; everything that was written."""
        while self._open:
            self._end(next(iter(self._open)))
        self._finished = True
        return self._adds

    def close(self) -> None:
        """Nothing stays of an unfinished write."""
        if self._finished:
            return
        for writer in self._open.values():
            with contextlib.suppress(IndexTablesError, OSError):
                writer.abort()
        if self._adds:
            discard(self._env, self._adds)

    def _end(self, values: tuple[str | None, ...]) -> None:
        writer = self._open[values]
        for split in writer.finish():
            add = add_of(split, self._target.partition_columns, values)
            self._adds.append(msgspec.structs.replace(add, tags=self._tags) if self._tags else add)
        del self._open[values]


def _newest_plan(metadata: Metadata) -> IndexPlan | None:
    """The registered plan with the most fields: plans only ever grow at their end."""
    plans = list(_plans(metadata))
    return max(plans, key=lambda plan: len(plan.fields)) if plans else None


def _plans(metadata: Metadata) -> Iterator[IndexPlan]:
    for key, text in sorted(metadata.configuration.items()):
        if key.startswith(REGISTRY_PREFIX):
            with contextlib.suppress(SplitCorrupt):
                yield IndexPlan.from_doc_mapping(text)
