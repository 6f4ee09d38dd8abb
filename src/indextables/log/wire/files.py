"""Declares the live file set as Arrow columns: one schema from the first byte read to the scan plan."""

from __future__ import annotations

import pyarrow as pa

from indextables.lazy import pc
from indextables.log.wire.arrays import combined

__all__ = ["ADD_TYPE", "DV_TYPE", "FILES_SCHEMA", "REMOVE_TYPE", "STRING_MAP", "empty_files", "vector_ids"]

STRING_MAP = pa.map_(pa.string(), pa.string())

DV_TYPE = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("cardinality", pa.int64()),
        ("offset", pa.int64()),
    ]
)

_ADD_FIELDS: list[tuple[str, pa.DataType]] = [
    ("path", pa.string()),
    ("partitionValues", STRING_MAP),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("stats", pa.string()),
    ("tags", STRING_MAP),
    ("minValues", STRING_MAP),
    ("maxValues", STRING_MAP),
    ("numRecords", pa.int64()),
    ("footerStartOffset", pa.int64()),
    ("footerEndOffset", pa.int64()),
    ("hotcacheStartOffset", pa.int64()),
    ("hotcacheLength", pa.int64()),
    ("hasFooterOffsets", pa.bool_()),
    ("timeRangeStart", pa.string()),
    ("timeRangeEnd", pa.string()),
    ("splitTags", pa.list_(pa.string())),
    ("deleteOpstamp", pa.int64()),
    ("numMergeOps", pa.int64()),
    ("docMappingJson", pa.string()),
    ("docMappingRef", pa.string()),
    ("uncompressedSizeBytes", pa.int64()),
    ("companionSourceFiles", pa.list_(pa.string())),
    ("companionDeltaVersion", pa.int64()),
    ("companionFastFieldMode", pa.string()),
    ("deletionVector", DV_TYPE),
    ("splitId", pa.string()),
]

ADD_TYPE = pa.struct(_ADD_FIELDS)

REMOVE_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("dataChange", pa.bool_()),
        ("deletionTimestamp", pa.int64()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("tags", STRING_MAP),
        ("deletionVector", DV_TYPE),
    ]
)

# The fields of `add`, then where the entry came from: version and line of its `add`, and that commit's time.
FILES_SCHEMA = pa.schema(
    [
        *_ADD_FIELDS,
        ("addedAtVersion", pa.int64()),
        ("addedAtLine", pa.int64()),
        ("addedAtTimestamp", pa.int64()),
    ]
)


def empty_files() -> pa.Table:
    """A file set without files."""
    return pa.Table.from_batches([], schema=FILES_SCHEMA)


def vector_ids(vectors: pa.Array | pa.ChunkedArray) -> pa.Array:
    """What tells deletion vectors apart: storage type, path or inline text, and offset; null for no vector."""
    column = combined(vectors)
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    kind, text, _, _, offset = column.flatten()
    place = pc.binary_join_element_wise(pc.fill_null(offset.cast(pa.string()), ""), text, "|")
    return pc.binary_join_element_wise(kind, place, "|")
