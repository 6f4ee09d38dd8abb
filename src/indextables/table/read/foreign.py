"""Scans and counts the rows of a table of another system, file by file, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from indextables.env import Env
from indextables.errors import ObjectNotFound, VersionExpired
from indextables.foreign import ForeignFile, ForeignSnapshot, live_rows_of, plain_field, read_rows_of
from indextables.lazy import pc
from indextables.query.expr import Node, columns_of
from indextables.table.read.inspect import live_rows
from indextables.table.read.plan import column_names
from indextables.table.read.scan import limited, read_in_order

__all__ = ["count_foreign", "detail_of_foreign", "scan_foreign"]


def scan_foreign(
    env: Env, snapshot: ForeignSnapshot, columns: Sequence[str] | None, where: Node | None, limit: int | None
) -> pa.RecordBatchReader:
    """A reader over the rows for which `where` is true, at most `limit` of them, in the order of the files.

    Raises at once what the log tells (LogError, InvalidArgument), and while it is read SplitCorrupt, DvCorrupt,
    PathEscape, VersionExpired where a file is gone, StoreError.
    """
    names = column_names(snapshot.schema, columns)
    files = snapshot.data_files(where)

    def read(file: ForeignFile) -> Iterator[pa.RecordBatch]:
        try:
            yield from read_rows_of(env.store, file, snapshot.schema, snapshot.match, names, where)
        except ObjectNotFound as cause:
            raise _gone(env, snapshot, file.key) from cause

    batches = read_in_order(env, files, read, ahead=limit is None)
    schema = pa.schema([plain_field(snapshot.schema.field(name)) for name in names])
    return pa.RecordBatchReader.from_batches(schema, limited(batches, limit))


def count_foreign(env: Env, snapshot: ForeignSnapshot, where: Node | None) -> int:
    """How many rows there are; from the log alone where it tells, else from the footers of the files."""
    if where is not None:
        return sum(batch.num_rows for batch in scan_foreign(env, snapshot, columns_of(where)[:1], where, None))
    told = live_rows(snapshot.files)
    if told is not None:
        return told

    def one(file: ForeignFile) -> int:
        try:
            return live_rows_of(env.store, file)
        except ObjectNotFound as cause:
            raise _gone(env, snapshot, file.key) from cause

    return sum(env.ambient.map("splits", one, snapshot.data_files(None)))


def detail_of_foreign(snapshot: ForeignSnapshot, url: str) -> dict[str, Any]:
    """What a table of another system is: id, name, version, files, bytes, rows, partition columns, properties."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "url": url,
        "system": snapshot.system,
        "version": snapshot.version,
        "createdAt": metadata.createdTime,
        "partitionColumns": snapshot.partition_columns,
        "numFiles": snapshot.files.num_rows,
        "sizeInBytes": pc.sum(snapshot.files["size"], min_count=0).as_py() or 0,
        "numRows": live_rows(snapshot.files),
        "properties": dict(metadata.configuration),
        "minReaderVersion": protocol.minReaderVersion,
        "minWriterVersion": protocol.minWriterVersion,
        "features": sorted({*(protocol.readerFeatures or []), *(protocol.writerFeatures or [])}),
    }


def _gone(env: Env, snapshot: ForeignSnapshot, key: str) -> VersionExpired:
    message = (
        f"{key} of version {snapshot.version} is gone from {env.store.url}: the table was cleaned up by whoever keeps "
        "it; refresh(), or open a newer version"
    )
    return VersionExpired(message, version=snapshot.version, path=key, url=env.store.url)
