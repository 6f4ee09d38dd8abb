"""What a table looks like to people: details, actions, what each column costs, a small page for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from indextables.env import Env
from indextables.lazy import pc
from indextables.log.read import Snapshot
from indextables.log.wire import constant, int64_array, text_array
from indextables.split.file import SplitReader, SplitRef
from indextables.split.index import SCHEMA, field_sizes
from indextables.table.read.plan import check_rows_readable, prune_files, refs_of, still_there

__all__ = ["actions_of", "column_sizes", "counted_rows", "detail_of", "html_of", "live_rows"]


def detail_of(snapshot: Snapshot, url: str) -> dict[str, Any]:
    """Sizes and counts of one version."""
    counts = snapshot.gathered(_counts)
    metadata = snapshot.metadata
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "url": url,
        "version": snapshot.version,
        "createdAt": metadata.createdTime,
        "partitionColumns": snapshot.partition_columns,
        "numFiles": pc.sum(counts["files"]).as_py(),
        "sizeInBytes": pc.sum(counts["bytes"]).as_py(),
        "numRows": _sum_if_known(counts["rows"]),
        "properties": dict(metadata.configuration),
        "minReaderVersion": snapshot.protocol.minReaderVersion,
        "minWriterVersion": snapshot.protocol.minWriterVersion,
        "features": sorted({*(snapshot.protocol.readerFeatures or []), *(snapshot.protocol.writerFeatures or [])}),
    }


def counted_rows(snapshot: Snapshot) -> int | None:
    """`live_rows` of all files of a version. Raises LogError."""
    return _sum_if_known(snapshot.gathered(_counts)["rows"])


def _counts(files: pa.Table) -> pa.Table:
    """One row: how many files, bytes and rows; null where a file does not tell."""
    size = pc.sum(files["size"], min_count=0).as_py() or 0
    counts = (files.num_rows, size, live_rows(files))
    return pa.table([constant(count, 1) for count in counts], names=["files", "bytes", "rows"])


def _sum_if_known(counts: pa.ChunkedArray) -> int | None:
    return None if counts.null_count else int(pc.sum(counts, min_count=0).as_py() or 0)


def live_rows(files: pa.Table) -> int | None:
    """Rows of all files less those that vectors delete; None if a file does not tell."""
    if files["numRecords"].null_count:
        return None
    rows = pc.sum(files["numRecords"], min_count=0).as_py() or 0
    vectors = files["deletionVector"].combine_chunks()
    if vectors.null_count == len(vectors):
        return int(rows)
    deleted = pc.sum(pc.struct_field(vectors.drop_null(), "cardinality"), min_count=0).as_py() or 0
    return int(rows - deleted)


def actions_of(lines: Sequence[bytes]) -> pa.Table:
    """Lines of a version file as columns: number from 1, name of the action, its JSON."""
    decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
    numbers, names, values = [], [], []
    for number, line in enumerate(lines, 1):
        for name, value in decode(line).items():
            if bytes(value) == b"null":
                continue
            numbers.append(number)
            names.append(name)
            values.append(bytes(value).decode())
    columns = [int64_array(np.asarray(numbers, dtype=np.int64)), text_array(names), text_array(values)]
    return pa.table(columns, names=["line", "action", "value"])


def html_of(snapshot: Snapshot, url: str) -> str:
    """A table for notebooks: where, which version, the columns."""
    import html

    partitions = set(snapshot.partition_columns)
    rows = "".join(
        f"<tr><td>{html.escape(field.name)}</td><td>{html.escape(str(field.type))}</td>"
        f"<td>{'' if field.nullable else 'not null'}{' partition' if field.name in partitions else ''}</td></tr>"
        for field in snapshot.schema
    )
    title = snapshot.metadata.name or url
    return (
        f"<div><strong>{html.escape(title)}</strong> version {snapshot.version}<br><small>{html.escape(url)}</small>"
        f"<table><tr><th>column</th><th>type</th><th></th></tr>{rows}</table></div>"
    )


def column_sizes(env: Env, snapshot: Snapshot, most_splits: int | None = 100) -> pa.Table:
    """Bytes by column, kind and component, largest first, of the splits that were added last (None: of all).

    Two small ranged reads per split. `bytes` are those at rest; an index component is compressed as a whole, so that
    they are shared out by `raw_bytes`. Raises NotSupported for another system's tables, SplitCorrupt, StoreError,
    VersionExpired where a split is gone.
    """
    check_rows_readable(snapshot, env.store.url)
    files = prune_files(snapshot, None)
    last = files if most_splits is None else files.slice(max(0, files.num_rows - most_splits))
    refs = refs_of(env, last, snapshot.schema)

    def one(ref: SplitRef) -> pa.Table:
        return field_sizes(SplitReader(env.store, ref))

    with still_there(env, snapshot.version):
        tables = list(env.ambient.map("splits", one, refs))
    found = pa.concat_tables([SCHEMA.empty_table(), *tables])
    keys = ["column", "kind", "indexed", "fast", "component"]
    summed = found.group_by(keys).aggregate([("bytes", "sum"), ("raw_bytes", "sum")])
    return summed.rename_columns([*keys, "bytes", "raw_bytes"]).sort_by([("bytes", "descending")]).select(SCHEMA.names)
