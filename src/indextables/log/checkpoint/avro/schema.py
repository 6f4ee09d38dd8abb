"""Declares the Avro records of a state; no other module knows them.

`FileEntry` and `StateManifest` are those of protocol V4 with their field ids and names; what we add is optional, has a
default, and in `FileEntry` an id from 200. A field is never retyped and an id never used again.
"""

from __future__ import annotations

from indextables.log.checkpoint.avro.frame import Shape

__all__ = ["ENTRY", "ENTRY_COLUMNS", "FORMAT_VERSION", "LIST"]

FORMAT_VERSION = 1

_NAMESPACE = "io.indextables.state"
_STRINGS = {"type": "map", "values": "string"}
_LIST_OF_STRINGS = {"type": "array", "items": "string"}


def _field(name: str, kind: object, field_id: int | None = None, **more: object) -> dict[str, object]:
    field: dict[str, object] = {"name": name, "type": kind, **more}
    return field if field_id is None else {**field, "field-id": field_id}


def _optional(name: str, kind: object, field_id: int | None = None) -> dict[str, object]:
    return _field(name, ["null", kind], field_id, default=None)


_VECTOR = {
    "type": "record",
    "name": "DeletionVector",
    "fields": [
        _field("storageType", "string"),
        _field("pathOrInlineDv", "string"),
        _field("sizeInBytes", "long"),
        _field("cardinality", "long"),
        _optional("offset", "long"),
    ],
}

_ENTRY_FIELDS = [
    _field("path", "string", 100),
    _field("partitionValues", _STRINGS, 101),
    _field("size", "long", 102),
    _field("modificationTime", "long", 103),
    _field("dataChange", "boolean", 104),
    _optional("stats", "string", 110),
    _optional("minValues", _STRINGS, 111),
    _optional("maxValues", _STRINGS, 112),
    _optional("numRecords", "long", 113),
    _optional("footerStartOffset", "long", 120),
    _optional("footerEndOffset", "long", 121),
    _field("hasFooterOffsets", "boolean", 124, default=False),
    _optional("splitTags", _LIST_OF_STRINGS, 132),
    _optional("numMergeOps", "int", 134),
    _optional("docMappingRef", "string", 135),
    _optional("uncompressedSizeBytes", "long", 136),
    _field("addedAtVersion", "long", 140),
    _field("addedAtTimestamp", "long", 141),
    _optional("companionSourceFiles", _LIST_OF_STRINGS, 150),
    _optional("companionDeltaVersion", "long", 151),
    _optional("companionFastFieldMode", "string", 152),
    _optional("addedAtLine", "long", 200),
    _optional("tags", _STRINGS, 201),
    _optional("hotcacheStartOffset", "long", 202),
    _optional("hotcacheLength", "long", 203),
    _optional("timeRangeStart", "string", 204),
    _optional("timeRangeEnd", "string", 205),
    _optional("deleteOpstamp", "long", 206),
    _optional("docMappingJson", "string", 207),
    _optional("deletionVector", _VECTOR, 208),
    _optional("splitId", "string", 209),
]

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
]

ENTRY_COLUMNS = tuple(str(field["name"]) for field in _ENTRY_FIELDS)

ENTRY = Shape({"type": "record", "name": "FileEntry", "namespace": _NAMESPACE, "fields": _ENTRY_FIELDS})
LIST = Shape({"type": "record", "name": "StateManifest", "namespace": _NAMESPACE, "fields": _LIST_FIELDS})
