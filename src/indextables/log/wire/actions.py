"""Declares the wire format of the log: one frozen Struct per action. No other module knows it.

A line of a version file is one `Line` with exactly one field set. Field names are those in the file. A new field
has a default and is never retyped, so that every file ever written stays readable. `null` and absent mean the same.

Version files with many lines are not decoded through these Structs but straight into Arrow columns
(`indextables.log.wire.files` makes their Arrow schema of these Structs).
"""

from __future__ import annotations

import functools
from typing import Annotated

import msgspec

__all__ = [
    "CONSTRAINT_PREFIX",
    "REGISTRY_PREFIX",
    "Action",
    "Add",
    "Cdc",
    "CommitInfo",
    "DeletionVector",
    "DomainMetadata",
    "Format",
    "Line",
    "MergeSkip",
    "Metadata",
    "Protocol",
    "Remove",
    "Txn",
    "engine_info",
]

REGISTRY_PREFIX = "docMappingSchema."
"""Keys of a table's configuration that hold a document mapping: one per table instead of one per `add`."""

CONSTRAINT_PREFIX = "constraints."
"""Keys that hold a CHECK constraint: the name follows, the value is the expression."""


class Protocol(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client must understand to read and to write the table."""

    minReaderVersion: int
    minWriterVersion: int
    readerFeatures: list[str] | None = None
    writerFeatures: list[str] | None = None


class Format(msgspec.Struct, frozen=True):
    """How data files are written; always `indextables` for tables of ours."""

    provider: str = "indextables"
    options: dict[str, str] = {}


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """Identity, schema and properties. `id` and `createdTime` never change in the life of a table."""

    id: str
    schemaString: str
    name: str | None = None
    description: str | None = None
    format: Format = msgspec.field(default_factory=Format)
    partitionColumns: list[str] = []
    configuration: dict[str, str] = {}
    createdTime: int | None = None


class DeletionVector(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which rows of a file are gone. `storageType`: `u` a file named by UUID, `i` inline, `p` an absolute path."""

    storageType: str
    pathOrInlineDv: str
    sizeInBytes: int
    cardinality: int
    offset: int | None = None


def entry(avro_id: int, bits: int = 64) -> msgspec.Meta:
    """A field that Avro states hold too: by this id, which is never used again, and a number of so many bits."""
    return msgspec.Meta(extra={"avro": avro_id, "bits": bits})


class Add(msgspec.Struct, frozen=True, omit_defaults=True):
    """A data file enters the table, or is replaced under the same path.

    This is the one declaration of its fields: Arrow columns, the Avro `FileEntry` and the checks of numbers follow from
    it (`log.wire.files`).
    """

    path: Annotated[str, entry(100)]
    partitionValues: Annotated[dict[str, str | None], entry(101)]
    size: Annotated[int, entry(102)]
    modificationTime: Annotated[int, entry(103)]
    dataChange: Annotated[bool, entry(104)]
    stats: Annotated[str | None, entry(110)] = None
    tags: Annotated[dict[str, str | None] | None, entry(201)] = None
    minValues: Annotated[dict[str, str | None] | None, entry(111)] = None
    maxValues: Annotated[dict[str, str | None] | None, entry(112)] = None
    numRecords: Annotated[int | None, entry(113)] = None
    footerStartOffset: Annotated[int | None, entry(120)] = None
    footerEndOffset: Annotated[int | None, entry(121)] = None
    hotcacheStartOffset: Annotated[int | None, entry(202)] = None
    hotcacheLength: Annotated[int | None, entry(203)] = None
    hasFooterOffsets: Annotated[bool, entry(124)] = False
    timeRangeStart: Annotated[str | None, entry(204)] = None
    timeRangeEnd: Annotated[str | None, entry(205)] = None
    splitTags: Annotated[list[str] | None, entry(132)] = None
    deleteOpstamp: Annotated[int | None, entry(206)] = None
    numMergeOps: Annotated[int | None, entry(134, bits=32)] = None
    docMappingJson: Annotated[str | None, entry(207)] = None
    docMappingRef: Annotated[str | None, entry(135)] = None
    uncompressedSizeBytes: Annotated[int | None, entry(136)] = None
    companionSourceFiles: Annotated[list[str] | None, entry(150)] = None
    companionDeltaVersion: Annotated[int | None, entry(151)] = None
    companionFastFieldMode: Annotated[str | None, entry(152)] = None
    deletionVector: Annotated[DeletionVector | None, entry(208)] = None
    splitId: Annotated[str | None, entry(209)] = None
    baseRowId: Annotated[int | None, entry(210)] = None


class Remove(msgspec.Struct, frozen=True, omit_defaults=True):
    """A data file, with the vector it carried, leaves the table; its bytes stay until purged."""

    path: str
    dataChange: bool
    deletionTimestamp: int | None = None
    extendedFileMetadata: bool | None = None
    partitionValues: dict[str, str | None] | None = None
    size: int | None = None
    tags: dict[str, str | None] | None = None
    deletionVector: DeletionVector | None = None


class MergeSkip(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that could not be merged; it stays readable and is left alone until `retryAfter`."""

    path: str
    skipTimestamp: int
    reason: str
    operation: str
    partitionValues: dict[str, str | None] | None = None
    size: int | None = None
    retryAfter: int | None = None
    skipCount: int = 1


class Previous(msgspec.Struct, frozen=True, omit_defaults=True):
    """The version below a commit: its token, and the CRC-32C of its stored bytes; None where it was not known."""

    token: str | None = None
    crc32c: int | None = None


class CommitInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who did what when. `token` makes the commit recognisable; `inCommitTimestamp` only ever grows.

    `version` is the number of its file and `previous` the version that it follows; older writers tell neither.
    """

    timestamp: int | None = None
    inCommitTimestamp: int | None = None
    operation: str | None = None
    operationParameters: dict[str, str | None] = {}
    operationMetrics: dict[str, str | None] = {}
    readVersion: int | None = None
    isolationLevel: str | None = None
    isBlindAppend: bool | None = None
    engineInfo: str | None = None
    userMetadata: str | None = None
    user: str | None = None
    tableId: str | None = None
    token: str | None = None
    version: int | None = None
    previous: Previous | None = None


class Txn(msgspec.Struct, frozen=True, omit_defaults=True):
    """The highest batch of an application that the table holds; a repeated write of it is a no-op."""

    appId: str
    version: int
    lastUpdated: int | None = None


class Cdc(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of changed rows."""

    path: str
    partitionValues: dict[str, str | None]
    size: int
    dataChange: bool = False
    tags: dict[str, str | None] | None = None


class DomainMetadata(msgspec.Struct, frozen=True):
    """A named piece of configuration; the newest of a domain counts."""

    domain: str
    configuration: str
    removed: bool = False


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a version file: exactly one action, or none that we know."""

    commitInfo: CommitInfo | None = None
    protocol: Protocol | None = None
    metaData: Metadata | None = None
    add: Add | None = None
    remove: Remove | None = None
    mergeskip: MergeSkip | None = None
    txn: Txn | None = None
    cdc: Cdc | None = None
    domainMetadata: DomainMetadata | None = None


Action = Protocol | Metadata | Add | Remove | MergeSkip | CommitInfo | Txn | Cdc | DomainMetadata


@functools.cache
def engine_info() -> str:
    """Who writes, in every `commitInfo` of ours: this library and its version."""
    # Imported late: it costs ten milliseconds that a reader need not pay.
    from importlib.metadata import version

    return f"indextables/{version('indextables')}"
