"""Decodes Delta's log: version files and checkpoints, JSON and Parquet, as Arrow columns. No other module knows it.

One row per action, one struct column per kind of action; what a reader of rows does not need is not read. Only the
fields below are looked at; others, and actions that are not known, may be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.errors import CheckpointCorrupt, LimitExceeded, LogCorrupt
from indextables.foreign.delta.jsonlines import read_json_lines
from indextables.foreign.delta.names import commit_key
from indextables.lazy import pc
from indextables.log.wire import DV_TYPE, METADATA_TYPE, PROTOCOL_TYPE, STRING_MAP, Metadata, Protocol, combined

__all__ = [
    "ADD",
    "CHECKPOINT",
    "MAX_FILE_BYTES",
    "decode_commits",
    "decode_json_checkpoint",
    "decode_parquet_checkpoint",
    "last_metadata",
    "last_protocol",
]

MAX_FILE_BYTES = 8 << 30
"""Bytes that one file of the log may have, or claim to have when decompressed."""
MAX_LINE_BYTES = 64 << 20
_BLOCK_BYTES = 16 << 20

T = TypeVar("T", bound=msgspec.Struct)


ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("deletionVector", DV_TYPE),
    ]
)
_REMOVE = pa.struct([("path", pa.string()), ("deletionVector", DV_TYPE), ("dataChange", pa.bool_())])
_SIDECAR = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())])
_ABOUT = pa.struct([("version", pa.int64())])

COMMIT = pa.schema([("add", ADD), ("remove", _REMOVE), ("protocol", PROTOCOL_TYPE), ("metaData", METADATA_TYPE)])
CHECKPOINT = pa.schema(
    [
        ("add", ADD),
        ("protocol", PROTOCOL_TYPE),
        ("metaData", METADATA_TYPE),
        ("sidecar", _SIDECAR),
        ("checkpointMetadata", _ABOUT),
    ]
)

# Stands behind each version file where several are read at once; a file that is cut short would swallow it.
_MARK = "indextables.end"
_MARKED = COMMIT.append(pa.field(_MARK, pa.int64()))


def decode_commits(commits: Sequence[tuple[int, bytes]]) -> pa.Table:
    """The actions of version files, in their order. Raises LogCorrupt and LimitExceeded, which name the version."""
    found = [COMMIT.empty_table()]
    block: list[tuple[int, bytes]] = []
    size = 0
    for version, data in commits:
        _check_lines(data, commit_key(version), version)
        block.append((version, data))
        size += len(data)
        if size >= _BLOCK_BYTES:
            found.append(_decode_block(block))
            block, size = [], 0
    if block:
        found.append(_decode_block(block))
    return pa.concat_tables(found)


def decode_json_checkpoint(data: bytes, key: str) -> pa.Table:
    """The actions of a JSON checkpoint. Raises CheckpointCorrupt, LimitExceeded."""
    _check_lines(data, key, None)
    try:
        return read_json_lines(data, CHECKPOINT)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise _no_checkpoint(key, error) from error


def decode_parquet_checkpoint(data: bytes, key: str) -> pa.Table:
    """The actions of a Parquet checkpoint, or of a sidecar. Raises CheckpointCorrupt, LimitExceeded."""
    try:
        with pq.ParquetFile(
            pa.BufferReader(data),
            thrift_string_size_limit=100 << 20,
            thrift_container_size_limit=10 << 20,
            arrow_extensions_enabled=False,
        ) as file:
            groups = range(file.metadata.num_row_groups)
            claimed = sum(file.metadata.row_group(at).total_byte_size for at in groups)
            if claimed > MAX_FILE_BYTES:
                raise _too_large(key, claimed)
            there = set(file.schema_arrow.names)
            wanted = [
                f"{column.name}.{field.name}" for column in CHECKPOINT if column.name in there for field in column.type
            ]
            table = file.read(columns=wanted, use_threads=False)
        table.validate(full=True)
        return _conformed(table)
    except (pa.ArrowException, ValueError, OSError, KeyError) as error:
        raise _no_checkpoint(key, error) from error


def last_protocol(actions: pa.Table) -> Protocol | None:
    """The last protocol of these actions. Raises ValueError."""
    found = _last(actions, "protocol")
    return None if found is None else _converted(found, Protocol)


def last_metadata(actions: pa.Table) -> Metadata | None:
    """The last metadata of these actions. Raises ValueError."""
    found = _last(actions, "metaData")
    if found is None:
        return None
    form = found.pop("format", None) or {}
    found["format"] = {"provider": form.get("provider") or "parquet", "options": dict(form.get("options") or [])}
    found["configuration"] = {key: value for key, value in found.get("configuration") or [] if value is not None}
    return _converted(found, Metadata)


def _decode_block(block: Sequence[tuple[int, bytes]]) -> pa.Table:
    joined = b"".join(b'%b\n{"%b":%d}\n' % (data, _MARK.encode(), place) for place, (_, data) in enumerate(block))
    try:
        table = read_json_lines(joined, _MARKED)
        marks = table.column(_MARK).drop_null().to_numpy(zero_copy_only=False)
        if np.array_equal(marks, np.arange(len(block))):
            return table.drop_columns([_MARK])
        fault: Exception = ValueError("an action does not end in its file")
    except (pa.ArrowException, ValueError, OSError) as error:
        fault = error
    for version, data in block:
        try:
            read_json_lines(data, COMMIT)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise _corrupt(version, error) from error
    raise _corrupt(block[0][0], fault) from fault


def _conformed(table: pa.Table) -> pa.Table:
    """The columns of a checkpoint under the types above; what it lacks is null."""
    columns = []
    for field in CHECKPOINT:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(table), field.type))
            continue
        columns.append(_struct(combined(table.column(field.name)), field.type))
    return pa.table(columns, schema=CHECKPOINT)


def _struct(column: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    there = {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}
    children = []
    for field in kind:
        child = there.get(field.name)
        if child is None:
            children.append(pa.nulls(len(column), field.type))
        elif pa.types.is_struct(field.type):
            children.append(_struct(child, field.type))
        else:
            children.append(child if child.type == field.type else pc.cast(child, field.type))
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())


def _last(actions: pa.Table, name: str) -> dict[str, Any] | None:
    column = actions.column(name).drop_null()
    return column[-1].as_py() if len(column) else None


def _converted(found: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert({key: value for key, value in found.items() if value is not None}, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _check_lines(data: bytes, key: str, version: int | None) -> None:
    """Raises LimitExceeded for a line, or a file, that no writer makes."""
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(key, len(data))
    if len(data) <= MAX_LINE_BYTES:
        return
    start = 0
    while len(data) - start > MAX_LINE_BYTES:
        end = data.rfind(b"\n", start, start + MAX_LINE_BYTES + 1)
        if end < 0:
            end = data.find(b"\n", start)
            longest = (len(data) if end < 0 else end) - start
            message = f"{key} has a line of {longest} bytes, and no writer makes one above {MAX_LINE_BYTES}"
            raise LimitExceeded(message, path=key, version=version, limit=MAX_LINE_BYTES, actual=longest)
        start = end + 1


def _too_large(key: str, size: int) -> LimitExceeded:
    message = f"{key} has {size} bytes, and no file of a log has more than {MAX_FILE_BYTES}"
    return LimitExceeded(message, path=key, limit=MAX_FILE_BYTES, actual=size)


def _corrupt(version: int, error: Exception) -> LogCorrupt:
    key, reason = commit_key(version), str(error).rsplit("Json error: ", maxsplit=1)[-1][:500]
    message = f"version {version} ({key}) cannot be read: {reason}; restore the file, or read an earlier version"
    return LogCorrupt(message, version=version, path=key, reason=reason)


def _no_checkpoint(key: str, error: Exception) -> CheckpointCorrupt:
    reason = str(error)[:500]
    return CheckpointCorrupt(f"{key} is not a checkpoint of Delta: {reason}", path=key, reason=reason)
