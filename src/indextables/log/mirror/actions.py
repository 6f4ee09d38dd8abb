"""Turns a version of ours into a version of Delta: the same files and rows, in the words of Delta's protocol. Pure.

Nothing of a clock or a machine goes into the bytes: whoever mirrors a version writes the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from indextables.log.wire import (
    CONSTRAINT_PREFIX,
    FIELD_ID,
    TYPE_WIDENING,
    Add,
    CommitInfo,
    DeletionVector,
    Line,
    Metadata,
    Protocol,
    Remove,
    Txn,
    raw_lines,
    schema_from_json,
)
from indextables.query.stored import EXISTS_DEFAULT, GENERATION, PHYSICAL_NAME

__all__ = [
    "GUARD",
    "Basis",
    "Content",
    "delta_metadata",
    "delta_partition",
    "delta_protocol",
    "delta_stats",
    "delta_version",
    "moments_of",
    "obstacle",
    "read_content",
]

GUARD = "indextablesMirror"
"""A feature that nobody but us knows: readers pass it over, writers refuse the table."""

_MAPPED = re.compile(r"[ ,;{}()\n\t=]")
_TEXTS = re.compile(r"(char|varchar)\(\d+\)")
_NOT_IN_DELTA = re.compile(r"time(\(\d+\))?|interval.*|void|variant|calendar.*")
_SHOWN = frozenset(
    {
        "avroState",
        "checkConstraints",
        "checkpoints",
        "columnDefaults",
        "columnMapping",
        "conditionalWrites",
        "deletionVectors",
        "deltaMirror",
        "footerOffsets",
        "generatedColumns",
        "identityColumns",
        "parquetSplit",
        "rowTracking",
        "schemaDeduplication",
        "typeWidening",
    }
)
"""Features of tables whose rows a reader of Delta shows. Whatever is not named here is not shown."""
_MICROS = 6
_ID, _STORED = FIELD_ID, PHYSICAL_NAME.decode()
_DEFAULT, _NO_DEFAULT = EXISTS_DEFAULT.decode(), "NULL"
_GENERATION = GENERATION.decode()


class Basis(msgspec.Struct, frozen=True):
    """Protocol and metadata of ours that are in force at a version."""

    protocol: Protocol
    metadata: Metadata

    def after(self, content: Content) -> Basis:
        """Those after a version that may change them."""
        if content.protocol is None and content.metadata is None:
            return self
        return Basis(content.protocol or self.protocol, content.metadata or self.metadata)


class Content(msgspec.Struct):
    """The actions of one version of ours that a mirror shows."""

    info: CommitInfo | None = None
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    adds: list[Add] = []
    removes: list[Remove] = []
    txns: list[Txn] = []


def read_content(data: bytes) -> Content:
    """The actions of a version file of ours. Raises LogCorrupt, msgspec.DecodeError."""
    found = Content(adds=[], removes=[], txns=[])
    for raw in raw_lines(data):
        line = _LINE.decode(raw)
        found.info = line.commitInfo or found.info
        found.protocol = line.protocol or found.protocol
        found.metadata = line.metaData or found.metadata
        if line.add is not None:
            found.adds.append(line.add)
        elif line.remove is not None:
            found.removes.append(line.remove)
        elif line.txn is not None:
            found.txns.append(line.txn)
    return found


def obstacle(basis: Basis, partitions: Iterable[dict[str, str | None]] = ()) -> str | None:
    """Why no reader of Delta could show these rows; None if every one can.

    `partitions` are the partition values of files that the version brings.
    """
    features = set(basis.protocol.writerFeatures or []) | set(basis.protocol.readerFeatures or [])
    for feature in sorted(features - _SHOWN):
        return f"the table has a feature ({feature}) that a mirror does not show"
    schema = json.loads(basis.metadata.schemaString)
    for field in schema["fields"]:
        if (field.get("metadata") or {}).get(_DEFAULT, _NO_DEFAULT) != _NO_DEFAULT:
            return f"rows that are older than the column {field['name']} hold its default there, and null for Delta"
    for kind in sorted(_types(schema)):
        if _NOT_IN_DELTA.fullmatch(kind):
            return f"the table has a column of type {kind}, which Delta does not have"
    for values in partitions:
        empty = next((name for name, value in values.items() if value == ""), None)
        if empty is not None:
            return f"the partition column {empty} holds an empty text, which Delta reads as null"
    return None


def delta_version(content: Content, basis: Basis, version: int, has_vectors: Callable[[], bool]) -> bytes:
    """The version file of Delta for a version of ours.

    `basis` is what is in force at it, `has_vectors` tells whether a live file of it has a deletion vector; it is asked
    where the version itself does not tell.
    """
    moments = moments_of(basis.metadata)
    lines: list[dict[str, Any]] = [{"commitInfo": _commit_info(content.info, version)}]
    brings_vectors = any(add.deletionVector is not None for add in content.adds)
    if content.metadata is not None or content.protocol is not None or brings_vectors:
        lines.append({"protocol": delta_protocol(basis, vectors=brings_vectors or has_vectors())})
    if content.metadata is not None:
        lines.append({"metaData": delta_metadata(basis.metadata)})
    when = _moment(content.info)
    lines += [{"remove": _remove(remove, moments, when)} for remove in content.removes]
    lines += [{"add": _add(add, moments)} for add in content.adds]
    lines += [{"txn": _told(appId=t.appId, version=t.version, lastUpdated=t.lastUpdated)} for t in content.txns]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def delta_protocol(basis: Basis, *, vectors: bool) -> dict[str, Any]:
    """What a reader must know, and the guard; features in lists wherever there are any."""
    kinds = _types(json.loads(basis.metadata.schemaString))
    wanted = {
        "columnMapping": _is_mapped(basis.metadata),
        "deletionVectors": vectors,
        "timestampNtz": "timestamp_ntz" in kinds,
        # Nothing but our own protocol tells that files may hold narrower types.
        "typeWidening": TYPE_WIDENING in (basis.protocol.readerFeatures or []),
    }
    features = sorted(name for name, is_wanted in wanted.items() if is_wanted)
    # Readers pass over what only writers must know.
    rules = {"checkConstraints": _constraints(basis.metadata), "generatedColumns": _generates(basis.metadata)}
    writers = [*features, GUARD, *(name for name, is_there in rules.items() if is_there)]
    if not features:
        return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": sorted(writers)}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": sorted(writers),
    }


def delta_metadata(metadata: Metadata) -> dict[str, Any]:
    """The same table, without what only we know: index settings, document mappings, defaults."""
    told = json.loads(metadata.schemaString)["fields"]
    mapped = _is_mapped(metadata)
    ids = _Numbers(told)
    fields = [_field(field, mapped, ids) for field in told]
    configuration = {"delta.enableExpiredLogCleanup": "false", "indextables.mirror": "true"}
    configuration |= _constraints(metadata)
    if mapped:
        configuration |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(ids.last)}
    schema = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False)
    return _told(
        id=metadata.id,
        name=metadata.name,
        description=metadata.description,
        format={"provider": "parquet", "options": {}},
        schemaString=schema,
        partitionColumns=list(metadata.partitionColumns),
        configuration=configuration,
        createdTime=metadata.createdTime,
    )


def _constraints(metadata: Metadata) -> dict[str, str]:
    """The constraints of the table, as Delta calls them."""
    told = metadata.configuration.items()
    return {f"delta.{key}": text for key, text in sorted(told) if key.startswith(CONSTRAINT_PREFIX)}


def _generates(metadata: Metadata) -> bool:
    told = json.loads(metadata.schemaString)["fields"]
    return any(_GENERATION in (field.get("metadata") or {}) for field in told)


def moments_of(metadata: Metadata) -> dict[str, str]:
    """The partition columns that are spelled otherwise in Delta, with their types."""
    if not metadata.partitionColumns:
        return {}
    schema = schema_from_json(metadata.schemaString)
    kinds = {name: str(schema.field(name).type) for name in metadata.partitionColumns}
    return {name: kind for name, kind in kinds.items() if kind.startswith(("timestamp", "float", "double"))}


def delta_partition(text: str | None, kind: str) -> str | None:
    """A partition value as Delta spells it: instants with six decimals, numbers that are none by their names."""
    if text is None:
        return None
    if not kind.startswith("timestamp"):
        return _ODD.get(text.lower(), text)
    zoned = text.endswith("Z")
    plain, _, fraction = text.rstrip("Z").partition(".")
    whole = f"{plain}.{fraction.ljust(_MICROS, '0')}"
    return whole + "Z" if zoned else whole.replace("T", " ")


def delta_stats(stats: str | None, *, wide: bool) -> str | None:
    """The statistics of a file; `wide` where rows of it are deleted, so that its bounds need not be reached."""
    if not stats or not wide:
        return stats
    return f'{stats.rstrip().removesuffix("}")},"tightBounds":false}}'


def _add(add: Add, moments: dict[str, str]) -> dict[str, Any]:
    vector = add.deletionVector
    return _told(
        path=add.path,
        partitionValues=_partitions(add.partitionValues, moments),
        size=add.size,
        modificationTime=add.modificationTime,
        dataChange=add.dataChange,
        stats=delta_stats(add.stats, wide=vector is not None),
        deletionVector=_vector(vector),
    )


def _remove(remove: Remove, moments: dict[str, str], when: int | None) -> dict[str, Any]:
    values = remove.partitionValues
    is_whole = values is not None and remove.size is not None
    return _told(
        path=remove.path,
        deletionTimestamp=when if remove.deletionTimestamp is None else remove.deletionTimestamp,
        dataChange=remove.dataChange,
        extendedFileMetadata=is_whole,
        partitionValues=_partitions(values, moments) if values is not None and is_whole else None,
        size=remove.size if is_whole else None,
        deletionVector=_vector(remove.deletionVector),
    )


def _vector(vector: DeletionVector | None) -> dict[str, Any] | None:
    if vector is None:
        return None
    return _told(
        storageType=vector.storageType,
        pathOrInlineDv=vector.pathOrInlineDv,
        offset=vector.offset,
        sizeInBytes=vector.sizeInBytes,
        cardinality=vector.cardinality,
    )


def _partitions(values: dict[str, str | None], moments: dict[str, str]) -> dict[str, str | None]:
    return {name: delta_partition(text, moments[name]) if name in moments else text for name, text in values.items()}


def _commit_info(info: CommitInfo | None, version: int) -> dict[str, Any]:
    told = info or CommitInfo()
    ours = _told(version=version, token=told.token, tableId=told.tableId)
    return _told(
        timestamp=_moment(info),
        operation=told.operation,
        operationParameters={key: value for key, value in told.operationParameters.items() if value is not None},
        operationMetrics={key: value for key, value in told.operationMetrics.items() if value is not None},
        isBlindAppend=told.isBlindAppend,
        engineInfo=told.engineInfo,
        userMetadata=told.userMetadata,
        txnId=told.token,
        indextables=ours,
    )


def _moment(info: CommitInfo | None) -> int | None:
    if info is None:
        return None
    return info.timestamp if info.inCommitTimestamp is None else info.inCommitTimestamp


def _told(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


class _Numbers:
    """The numbers of fields, for a schema whose names are mapped: those that they have for good, or counted ones.

    Where one field has no number of its own, all are counted: no two may have the same.
    """

    def __init__(self, fields: Sequence[dict[str, Any]]) -> None:
        self._own = all(_ID in (field.get("metadata") or {}) for field in _all_fields(fields))
        self.last = 0

    def of(self, field: dict[str, Any]) -> int:
        number = int(field["metadata"][_ID]) if self._own else self.last + 1
        self.last = max(self.last, number)
        return number


def _field(field: dict[str, Any], mapped: bool, ids: _Numbers) -> dict[str, Any]:  # noqa: FBT001
    comment = (field.get("metadata") or {}).get("comment")
    metadata: dict[str, Any] = {} if comment is None else {"comment": comment}
    if (expression := (field.get("metadata") or {}).get(_GENERATION)) is not None:
        metadata["delta.generationExpression"] = expression
    if mapped:
        physical = (field.get("metadata") or {}).get(_STORED, field["name"])
        metadata |= {"delta.columnMapping.id": ids.of(field), "delta.columnMapping.physicalName": physical}
    return {
        "name": field["name"],
        "type": _type(field["type"], mapped, ids),
        "nullable": field.get("nullable", True),
        "metadata": metadata,
    }


def _type(kind: Any, mapped: bool, ids: _Numbers) -> Any:  # noqa: FBT001
    if isinstance(kind, str):
        return "string" if _TEXTS.fullmatch(kind) else kind
    if kind["type"] == "struct":
        return {"type": "struct", "fields": [_field(field, mapped, ids) for field in kind["fields"]]}
    inner = [name for name in ("elementType", "keyType", "valueType") if name in kind]
    return {**kind, **{name: _type(kind[name], mapped, ids) for name in inner}}


def _types(kind: Any) -> set[str]:
    """The names of all plain types in a schema."""
    if isinstance(kind, str):
        return {kind}
    if kind["type"] == "struct":
        return {name for field in kind["fields"] for name in _types(field["type"])}
    return {name for part in ("elementType", "keyType", "valueType") if part in kind for name in _types(kind[part])}


def _is_mapped(metadata: Metadata) -> bool:
    """True if a column is called otherwise in files, or has a name that Delta takes only where names are mapped."""
    fields = _all_fields(json.loads(metadata.schemaString)["fields"])
    return any(_STORED in (field.get("metadata") or {}) or _MAPPED.search(field["name"]) for field in fields)


def _all_fields(fields: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields of a schema on every level."""
    return [one for field in fields for one in (field, *_fields_in(field["type"]))]


def _fields_in(kind: Any) -> list[dict[str, Any]]:
    if isinstance(kind, str):
        return []
    if kind["type"] == "struct":
        return _all_fields(kind["fields"])
    parts = [kind[part] for part in ("elementType", "keyType", "valueType") if part in kind]
    return [field for part in parts for field in _fields_in(part)]


_ODD = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

_LINE = msgspec.json.Decoder(Line)
