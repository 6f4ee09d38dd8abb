"""Declares the wire format of the log: one frozen Struct per action. No other module knows it.

A line of a version file is one `Line` with exactly one field set. Field names are those in the file. A new field
has a default and is never retyped, so that every file ever written stays readable. `null` and absent mean the same.

Version files with many lines are not decoded through these Structs but straight into Arrow columns
(`indextables.log.wire.files` holds the same fields as an Arrow schema; a test keeps the two in step).
"""

from __future__ import annotations

import msgspec

__all__ = [
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
]


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


class Add(msgspec.Struct, frozen=True, omit_defaults=True):
    """A data file enters the table, or is replaced under the same path."""

    path: str
    partitionValues: dict[str, str | None]
    size: int
    modificationTime: int
    dataChange: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    minValues: dict[str, str | None] | None = None
    maxValues: dict[str, str | None] | None = None
    numRecords: int | None = None
    footerStartOffset: int | None = None
    footerEndOffset: int | None = None
    hotcacheStartOffset: int | None = None
    hotcacheLength: int | None = None
    hasFooterOffsets: bool = False
    timeRangeStart: str | None = None
    timeRangeEnd: str | None = None
    splitTags: list[str] | None = None
    deleteOpstamp: int | None = None
    numMergeOps: int | None = None
    docMappingJson: str | None = None
    docMappingRef: str | None = None
    uncompressedSizeBytes: int | None = None
    companionSourceFiles: list[str] | None = None
    companionDeltaVersion: int | None = None
    companionFastFieldMode: str | None = None
    deletionVector: DeletionVector | None = None
    splitId: str | None = None


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
