"""Declares the Avro records of a state; no other module knows them.

`FileEntry` and `StateManifest` are those of protocol V4 with their field ids and names; what we add is optional, has a
default, and in `FileEntry` an id from 200. `actions.Add` declares the fields of `FileEntry`. A field is never retyped
and an id never used again.
"""

from __future__ import annotations

from typing import get_origin

from indextables.log.checkpoint.avro.frame import Shape
from indextables.log.wire import ADD_FIELDS, VECTOR_FIELDS, DeletionVector, FileField

__all__ = ["ENTRY", "ENTRY_COLUMNS", "FORMAT_VERSION", "LIST", "SMALL"]

FORMAT_VERSION = 1

_NAMESPACE = "io.indextables.state"
_STRINGS = {"type": "map", "values": "string"}
_LIST_OF_STRINGS = {"type": "array", "items": "string"}


def _field(name: str, kind: object, field_id: int | None = None, **more: object) -> dict[str, object]:
    field: dict[str, object] = {"name": name, "type": kind, **more}
    return field if field_id is None else {**field, "field-id": field_id}


def _optional(name: str, kind: object, field_id: int | None = None) -> dict[str, object]:
    return _field(name, ["null", kind], field_id, default=None)


def _declared(field: FileField) -> dict[str, object]:
    kind = _avro(field)
    if field.is_optional:
        return _optional(field.name, kind, field.avro_id)
    return _field(field.name, kind, field.avro_id, **({} if field.is_required else {"default": field.default}))


def _avro(field: FileField) -> object:
    kind = field.kind
    if kind is DeletionVector:
        return {"type": "record", "name": "DeletionVector", "fields": [_declared(inner) for inner in VECTOR_FIELDS]}
    numbers = {32: "int", 64: "long"}
    simple: dict[object, object] = {str: "string", int: numbers[field.bits], bool: "boolean"}
    return simple.get(kind) or {dict: _STRINGS, list: _LIST_OF_STRINGS}[get_origin(kind)]


# Where an entry came from, beside the fields of `add`.
_ORIGIN = {
    140: _field("addedAtVersion", "long", 140),
    141: _field("addedAtTimestamp", "long", 141),
    200: _optional("addedAtLine", "long", 200),
}
_BY_ID = _ORIGIN | {field.avro_id: _declared(field) for field in ADD_FIELDS if field.avro_id is not None}
_ENTRY_FIELDS = [_BY_ID[avro_id] for avro_id in sorted(_BY_ID)]

SMALL = tuple(field.name for field in ADD_FIELDS if field.bits < 64)
"""Columns whose numbers are smaller in a state than in memory."""

_BOUNDS = {
    "type": "record",
    "name": "PartitionBoundsItem",
    "fields": [_optional("min", "string"), _optional("max", "string"), _optional("hasNull", "boolean")],
}

_MANIFEST_INFO = {
    "type": "record",
    "name": "ManifestInfoItem",
    "fields": [
        _field("path", "string"),
        _field("numEntries", "long"),
        _field("minAddedAtVersion", "long"),
        _field("maxAddedAtVersion", "long"),
        _optional("partitionBounds", {"type": "map", "values": _BOUNDS}),
        _field("tombstoneCount", "long", default=0),
        _field("liveEntryCount", "long", default=-1),
        _optional("sizeInBytes", "long"),
        _optional("crc32c", "long"),
        _optional("setHash", "string"),
        _optional("compacted", "boolean"),
    ],
}

_TOMBSTONE = {
    "type": "record",
    "name": "Tombstone",
    "fields": [_field("path", "string"), _field("version", "long"), _field("line", "long")],
}

_LIST_FIELDS = [
    _field("formatVersion", "int"),
    _field("stateVersion", "long"),
    _field("createdAt", "long"),
    _field("numFiles", "long"),
    _field("totalBytes", "long"),
    _field("manifests", {"type": "array", "items": _MANIFEST_INFO}),
    _field("tombstones", _LIST_OF_STRINGS, default=[]),
    _field("schemaRegistry", _STRINGS, default={}),
    _field("protocolVersion", "int", default=4),
    _optional("metadata", "string"),
    _optional("tableId", "string"),
    _optional("protocol", "string"),
    _optional("setHash", "string"),
    _optional("tombstonesAt", {"type": "array", "items": _TOMBSTONE}),
    _optional("txns", _LIST_OF_STRINGS),
    _optional("domains", _LIST_OF_STRINGS),
    _optional("skips", _LIST_OF_STRINGS),
    _optional("tokensFrom", "long"),
    _optional("tokens", "string"),
    _optional("inCommitTimestamp", "long"),
    _optional("versionFile", "string"),
]

ENTRY_COLUMNS = tuple(str(field["name"]) for field in _ENTRY_FIELDS)

ENTRY = Shape({"type": "record", "name": "FileEntry", "namespace": _NAMESPACE, "fields": _ENTRY_FIELDS})
LIST = Shape({"type": "record", "name": "StateManifest", "namespace": _NAMESPACE, "fields": _LIST_FIELDS})
