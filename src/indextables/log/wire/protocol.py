"""Decides which tables this library may read and write."""

from __future__ import annotations

from indextables.errors import NotSupported, ProtocolUnsupported
from indextables.log.wire.actions import Protocol
from indextables.log.wire.paths import PathRule

__all__ = [
    "CHECK_CONSTRAINTS",
    "COLUMN_DEFAULTS",
    "COLUMN_MAPPING",
    "DELETION_VECTORS",
    "DELTA_MIRROR",
    "FEATURES",
    "FOLLOWED",
    "GENERATED_COLUMNS",
    "IDENTITY_COLUMNS",
    "PARQUET_SPLIT",
    "READER_VERSION",
    "ROW_TRACKING",
    "TYPE_WIDENING",
    "V1",
    "WRITER_VERSION",
    "check_readable",
    "check_rows_writable",
    "check_understood",
    "check_writable",
    "follows",
    "has_own_splits",
    "is_foreign",
    "new_table_protocol",
    "path_rule",
    "tracks_rows",
    "upgraded",
    "with_feature",
]

READER_VERSION = 4
WRITER_VERSION = 4

PARQUET_SPLIT = "parquetSplit"
CHECK_CONSTRAINTS = "checkConstraints"
GENERATED_COLUMNS = "generatedColumns"
IDENTITY_COLUMNS = "identityColumns"
TYPE_WIDENING = "typeWidening"
COLUMN_DEFAULTS = "columnDefaults"
COLUMN_MAPPING = "columnMapping"
DELETION_VECTORS = "deletionVectors"
ROW_TRACKING = "rowTracking"
DELTA_MIRROR = "deltaMirror"

FEATURES = frozenset(
    {
        "avroState",
        "changeDataFeed",
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
        "tantivy4java",
        "typeWidening",
    }
)

FOLLOWED = frozenset(
    {"avroState", "checkpoints", "conditionalWrites", "deletionVectors", "deltaMirror", "schemaDeduplication"}
)
"""Features that a table may get while a commit is under way: what the commit writes is right with and without them."""

_WRITER_ONLY = frozenset({CHECK_CONSTRAINTS, GENERATED_COLUMNS, IDENTITY_COLUMNS, ROW_TRACKING, DELTA_MIRROR})
"""Features that change nothing for who reads."""

# What version 4 brings to the log, whoever wrote the data files.
_STATE_FEATURES = ("avroState", "schemaDeduplication")

# A log without a protocol action is the oldest kind.
V1 = Protocol(minReaderVersion=1, minWriterVersion=1)


def new_table_protocol() -> Protocol:
    """The protocol that version 0 of a new table carries."""
    return with_feature(
        Protocol(READER_VERSION, WRITER_VERSION), *_STATE_FEATURES, PARQUET_SPLIT, DELETION_VECTORS, ROW_TRACKING
    )


def check_readable(protocol: Protocol, url: str = "") -> None:
    """Raises ProtocolUnsupported unless this library understands all that reading needs."""
    _check_version("read", protocol.minReaderVersion, READER_VERSION, url)
    _check_features("read", protocol.minReaderVersion, protocol.readerFeatures, url)


def check_understood(protocol: Protocol, url: str = "") -> None:
    """Raises ProtocolUnsupported unless this library knows all that readers and writers need, whoever wrote it."""
    check_readable(protocol, url)
    _check_version("written", protocol.minWriterVersion, WRITER_VERSION, url)
    _check_features("written", protocol.minWriterVersion, protocol.writerFeatures, url)


def check_writable(protocol: Protocol, url: str = "") -> None:
    """Raises ProtocolUnsupported unless both ways are understood, NotSupported for tables of another system."""
    check_understood(protocol, url)
    if is_foreign(protocol):
        message = (
            f"the table{_at(url)} was written by IndexTables4Spark, whose writers would not see ours: it can be read, "
            "not written; convert it into a table of its own to go on writing"
        )
        raise NotSupported(message, url=url)


def check_rows_writable(protocol: Protocol, url: str = "") -> None:
    """As `check_writable`; NotSupported too where the data files are another system's: ours do not mix with them."""
    check_writable(protocol, url)
    if not has_own_splits(protocol):
        message = (
            f"the table{_at(url)} holds splits of IndexTables4Spark: its log can be read and maintained, rows cannot "
            "be added; write them into a table of its own"
        )
        raise NotSupported(message, url=url)


def is_foreign(protocol: Protocol) -> bool:
    """True for tables whose log IndexTables4Spark writes: version 4 without what every version 4 of ours names."""
    named = set(protocol.readerFeatures or [])
    return protocol.minReaderVersion >= READER_VERSION and not ({PARQUET_SPLIT} <= named or named >= {*_STATE_FEATURES})


def has_own_splits(protocol: Protocol) -> bool:
    """True if the data files are ours; where they are not, their statistics follow the rules of IndexTables4Spark."""
    return PARQUET_SPLIT in (protocol.readerFeatures or [])


def tracks_rows(protocol: Protocol) -> bool:
    """True if every row of the table has an id of its own, which writers give and keep."""
    return ROW_TRACKING in (protocol.writerFeatures or [])


def path_rule(protocol: Protocol | None) -> PathRule:
    """How the table logs the paths of its files: those of IndexTables4Spark stand there as they are on disk."""
    return PathRule.ENCODED if has_own_splits(protocol or V1) else PathRule.ON_DISK


def with_feature(protocol: Protocol, *features: str) -> Protocol:
    """The protocol that also asks for `features`; the same object if it already does. Raises ValueError if unknown."""
    unknown = set(features) - FEATURES
    if unknown:
        message = f"unknown features: {', '.join(sorted(unknown))}"
        raise ValueError(message)
    readers, writers = set(protocol.readerFeatures or []), set(protocol.writerFeatures or [])
    read = set(features) - _WRITER_ONLY
    if read <= readers and set(features) <= writers:
        return protocol
    return Protocol(
        max(protocol.minReaderVersion, READER_VERSION),
        max(protocol.minWriterVersion, WRITER_VERSION),
        sorted(readers | read),
        sorted(writers | set(features)),
    )


def upgraded(protocol: Protocol, min_reader: int, min_writer: int) -> Protocol:
    """The protocol raised to at least these versions, never lowered; the same object if nothing changes.

    A table of version 1 to 3 does not become one of ours: its splits stay what they are, and `parquetSplit` would say
    that their rows and statistics follow our rules.

    Raises ProtocolUnsupported for versions that this library does not know itself.
    """
    _check_version("read", min_reader, READER_VERSION, "")
    _check_version("written", min_writer, WRITER_VERSION, "")
    reader, writer = max(protocol.minReaderVersion, min_reader), max(protocol.minWriterVersion, min_writer)
    if (reader, writer) == (protocol.minReaderVersion, protocol.minWriterVersion):
        return protocol
    raised = Protocol(reader, writer, protocol.readerFeatures, protocol.writerFeatures)
    return with_feature(raised, *_STATE_FEATURES) if reader == READER_VERSION else raised


def follows(before: Protocol, after: Protocol, *, only_adds: bool = False) -> bool:
    """True if `after` differs from `before` by features of `FOLLOWED` alone, which it asks for in addition.

    A commit that `only_adds` new rows also follows row tracking: they get their ids when it is put.
    """
    followed = FOLLOWED | {ROW_TRACKING} if only_adds else FOLLOWED
    if (before.minReaderVersion, before.minWriterVersion) != (after.minReaderVersion, after.minWriterVersion):
        return False
    pairs = ((before.readerFeatures, after.readerFeatures), (before.writerFeatures, after.writerFeatures))
    return all(set(old or []) <= set(new or []) and set(new or []) - set(old or []) <= followed for old, new in pairs)


def joined(before: Protocol, asked: Protocol) -> Protocol:
    """The protocol that asks for all that either does: a table's protocol is never lowered."""
    return Protocol(
        max(before.minReaderVersion, asked.minReaderVersion),
        max(before.minWriterVersion, asked.minWriterVersion),
        _united(before.readerFeatures, asked.readerFeatures),
        _united(before.writerFeatures, asked.writerFeatures),
    )


def _united(before: list[str] | None, asked: list[str] | None) -> list[str] | None:
    if before is None or asked is None:
        return asked if before is None else before
    return before if set(asked) <= set(before) else sorted({*before, *asked})


def _check_version(verb: str, required: int, supported: int, url: str) -> None:
    if required <= supported:
        return
    message = (
        f"the table{_at(url)} can only be {verb} by clients of protocol version {required}, this library has "
        f"{supported}: upgrade the library"
    )
    raise ProtocolUnsupported(message, required=required, supported=supported, url=url)


def _check_features(verb: str, version: int, features: list[str] | None, url: str) -> None:
    unknown = sorted(set(features or []) - FEATURES) if version >= 3 else []
    if unknown:
        message = (
            f"the table{_at(url)} can only be {verb} by clients that know {', '.join(unknown)}: upgrade the library"
        )
        raise ProtocolUnsupported(message, required=unknown, supported=sorted(FEATURES), url=url)


def _at(url: str) -> str:
    return f" at {url}" if url else ""
