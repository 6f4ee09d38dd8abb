"""Declares the live file set as Arrow columns: one schema from the first byte read to the scan plan."""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec
import pyarrow as pa

from indextables.lazy import pc
from indextables.log.wire.actions import Add, DeletionVector, DomainMetadata, Remove, Txn
from indextables.log.wire.arrays import combined

__all__ = [
    "ADD_FIELDS",
    "ADD_TYPE",
    "DOMAIN_TYPE",
    "DV_TYPE",
    "FILES_SCHEMA",
    "METADATA_TYPE",
    "PROTOCOL_TYPE",
    "REMOVE_FIELDS",
    "REMOVE_TYPE",
    "STRING_MAP",
    "TXN_TYPE",
    "VECTOR_FIELDS",
    "FileField",
    "empty_files",
    "vector_ids",
]

STRING_MAP = pa.map_(pa.string(), pa.string())
_STRINGS = pa.list_(pa.string())

PROTOCOL_TYPE = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", _STRINGS),
        ("writerFeatures", _STRINGS),
    ]
)
METADATA_TYPE = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", _STRINGS),
        ("configuration", STRING_MAP),
        ("createdTime", pa.int64()),
    ]
)
"""As Delta has both, which Parquet checkpoints of either system hold."""


class FileField(NamedTuple):
    """A field of `add`, `remove` or a deletion vector, as its Struct declares it."""

    name: str
    kind: Any
    """The Python type, without None."""
    is_optional: bool
    default: object
    """`msgspec.NODEFAULT` for what must be there."""
    avro_id: int | None
    bits: int
    """Of a number: it is at most 2^(bits - 1) - 1, and never negative."""

    @property
    def is_required(self) -> bool:
        return self.default is msgspec.NODEFAULT

    @property
    def most(self) -> int:
        return (1 << (self.bits - 1)) - 1


def _fields_of(action: type[msgspec.Struct]) -> tuple[FileField, ...]:
    """What a Struct of `actions` declares."""
    return tuple(_field(told) for told in msgspec.structs.fields(action))


def _field(told: msgspec.structs.FieldInfo) -> FileField:
    kind, extra = told.type, {}
    if get_origin(kind) is Annotated:
        kind, extra = kind.__origin__, kind.__metadata__[0].extra
    given = get_args(kind) if get_origin(kind) in {UnionType, Union} else (kind,)
    (plain,) = (one for one in given if one is not type(None))
    optional = type(None) in given
    return FileField(told.name, plain, optional, told.default, extra.get("avro"), extra.get("bits", 64))


def _arrow(kind: Any) -> pa.DataType:
    if get_origin(kind) is dict:
        return STRING_MAP
    if get_origin(kind) is list:
        return pa.list_(_arrow(*get_args(kind)))
    simple = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
    return DV_TYPE if kind is DeletionVector else simple[kind]


def _struct(fields: Iterable[FileField]) -> pa.StructType:
    return pa.struct([(field.name, _arrow(field.kind)) for field in fields])


ADD_FIELDS = _fields_of(Add)
REMOVE_FIELDS = _fields_of(Remove)
VECTOR_FIELDS = _fields_of(DeletionVector)

DV_TYPE = _struct(VECTOR_FIELDS)
ADD_TYPE = _struct(ADD_FIELDS)
REMOVE_TYPE = _struct(REMOVE_FIELDS)
TXN_TYPE = _struct(_fields_of(Txn))
DOMAIN_TYPE = _struct(_fields_of(DomainMetadata))

# The fields of `add`, then where the entry came from: version and line of its `add`, and that commit's time.
FILES_SCHEMA = pa.schema(
    [
        *ADD_TYPE,
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
