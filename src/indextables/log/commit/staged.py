"""`Staged` is what a transaction will write, as values: actions, and files as Structs or as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import pyarrow as pa

from indextables.log.wire import (
    DV_TYPE,
    FILES_SCHEMA,
    REMOVES_SCHEMA,
    Action,
    Add,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    MergeSkip,
    Metadata,
    Protocol,
    Remove,
    Txn,
    VersionContent,
    admitted,
    empty_files,
)

__all__ = [
    "Files",
    "Removes",
    "Staged",
    "changes_data",
    "content_of",
    "encode",
    "files_of",
    "has_vectors",
    "paths_of",
    "removes_of",
    "slim_adds",
]

Files: TypeAlias = "Sequence[Add] | pa.Table"
Removes: TypeAlias = "Sequence[Remove] | pa.Table"


_NO_FILES = empty_files()
_NO_REMOVES = pa.Table.from_batches([], schema=REMOVES_SCHEMA)  # empty_table() would import pandas


class Staged(msgspec.Struct, frozen=True):
    """Everything of a commit but its `commitInfo`.

    Files come as Structs where they are few, as a table with the columns of `FILES_SCHEMA` (or fewer) where they are
    many. `removed_rows` holds the live rows that `removes` takes away, where they are known: totals need them.
    `metrics` are told in `commitInfo` beside those of the transaction: what is counted anew for each attempt.
    """

    adds: Files = ()
    removes: Removes = ()
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    txns: tuple[Txn, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    skips: tuple[MergeSkip, ...] = ()
    removed_rows: pa.Table | None = None
    metrics: dict[str, str | None] = {}


def encode(staged: Staged, info: CommitInfo, *, version: int, root_url: str, compress: bool) -> bytes:
    """The bytes of the version file. Raises InvalidArgument for what no reader would accept."""
    actions, adds, removes = _arranged(staged, info)
    return admitted(actions, adds=adds, removes=removes, version=version, root_url=root_url, compress=compress)


def _arranged(staged: Staged, info: CommitInfo) -> tuple[list[Action], pa.Table | None, pa.Table | None]:
    """Actions, adds and removes as `encode_version` takes them."""
    actions: list[Action] = [info]
    if staged.protocol is not None:
        actions.append(staged.protocol)
    if staged.metadata is not None:
        actions.append(staged.metadata)
    actions += [*staged.txns, *staged.domains, *staged.skips]
    adds, removes = staged.adds, staged.removes
    if isinstance(adds, pa.Table) and not isinstance(removes, pa.Table):
        return [*actions, *removes], adds, None
    if isinstance(removes, pa.Table) and not isinstance(adds, pa.Table):
        # Removes come before adds, so that a file may get a new vector in one commit.
        return actions, files_of(adds) if adds else None, removes
    if isinstance(removes, pa.Table):
        return actions, adds, removes
    return [*actions, *removes, *adds], None, None


def content_of(staged: Staged, info: CommitInfo, version: int) -> VersionContent:
    """What the version holds, as far as totals and heads need it: paths, sizes, rows and vectors of the files."""
    return VersionContent(
        version=version,
        commit_info=info,
        protocol=staged.protocol,
        metadata=staged.metadata,
        adds=_completed(staged.adds) if isinstance(staged.adds, pa.Table) else slim_adds(staged.adds),
        removes=_completed(staged.removes) if isinstance(staged.removes, pa.Table) else _slim_removes(staged.removes),
        txns=staged.txns,
        domains=staged.domains,
        skips=staged.skips,
    )


def paths_of(files: Files | Removes) -> pa.Array | pa.ChunkedArray | None:
    """The paths as a column; None if there are none."""
    if isinstance(files, pa.Table):
        return files["path"] if files.num_rows else None
    return pa.array([file.path for file in files], pa.string()) if files else None


def changes_data(staged: Staged) -> bool:
    """True if rows appear or vanish, False if they only move between files."""
    return any(_any_data_change(files) for files in (staged.adds, staged.removes))


def has_vectors(adds: Files) -> bool:
    """True if one of the files carries a deletion vector."""
    if not isinstance(adds, pa.Table):
        return any(add.deletionVector is not None for add in adds)
    return "deletionVector" in adds.column_names and adds["deletionVector"].null_count < adds.num_rows


def files_of(adds: Sequence[Add]) -> pa.Table:
    """The files as columns of `FILES_SCHEMA`; where they were added nobody knows yet."""
    rows = [{name: _plain(getattr(add, name, None)) for name in FILES_SCHEMA.names} for add in adds]
    return pa.Table.from_pylist(rows, FILES_SCHEMA)


def removes_of(files: pa.Table, deleted_ms: int) -> pa.Table:
    """A `remove` for each live row of `files`, with what it needs to be undone or shown as a change."""
    rows = files.num_rows
    columns = {
        "path": files["path"],
        "dataChange": pa.repeat(pa.scalar(value=True), rows),
        "deletionTimestamp": pa.repeat(pa.scalar(deleted_ms, pa.int64()), rows),
        "extendedFileMetadata": pa.repeat(pa.scalar(value=True), rows),
        "partitionValues": files["partitionValues"],
        "size": files["size"],
        "tags": files["tags"],
        "deletionVector": files["deletionVector"],
    }
    return pa.table(columns)


def slim_adds(adds: Sequence[Add]) -> pa.Table:
    """The columns of `adds` that totals and set hash need."""
    if not adds:
        return _NO_FILES
    return pa.table(
        {
            "path": pa.array([add.path for add in adds], pa.string()),
            "size": pa.array([add.size for add in adds], pa.int64()),
            "numRecords": pa.array([add.numRecords for add in adds], pa.int64()),
            "dataChange": pa.array([add.dataChange for add in adds], pa.bool_()),
            "deletionVector": _vectors([add.deletionVector for add in adds]),
        }
    )


def _completed(files: pa.Table) -> pa.Table:
    """The table with the columns that totals need, null where it lacks them."""
    for name, kind in (("size", pa.int64()), ("numRecords", pa.int64()), ("deletionVector", DV_TYPE)):
        if name not in files.column_names:
            files = files.append_column(name, pa.nulls(files.num_rows, kind))
    return files


def _any_data_change(files: Files | Removes) -> bool:
    if isinstance(files, pa.Table):
        return bool(files.num_rows) and bool(files["dataChange"].combine_chunks().true_count)
    return any(file.dataChange for file in files)


def _slim_removes(removes: Sequence[Remove]) -> pa.Table:
    if not removes:
        return _NO_REMOVES
    return pa.table(
        {
            "path": pa.array([remove.path for remove in removes], pa.string()),
            "size": pa.array([remove.size for remove in removes], pa.int64()),
            "dataChange": pa.array([remove.dataChange for remove in removes], pa.bool_()),
            "deletionVector": _vectors([remove.deletionVector for remove in removes]),
        }
    )


def _vectors(vectors: list[DeletionVector | None]) -> pa.Array:
    if not any(vectors):
        return pa.nulls(len(vectors), DV_TYPE)
    return pa.array([None if v is None else msgspec.to_builtins(v) for v in vectors], DV_TYPE)


def _plain(value: object) -> object:
    if isinstance(value, DeletionVector):
        return msgspec.to_builtins(value)
    return list(value.items()) if isinstance(value, dict) else value
