"""Encodes and decodes version files: JSON lines, plain or gzip, and Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import google_crc32c
import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import IndexTablesError, LimitExceeded, PathEscape
from indextables.log.wire.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    MergeSkip,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from indextables.log.wire.arrays import Ints, bool_array, bool_values, constant, int64_array
from indextables.log.wire.blocks import ADD, FEW_LINES, OTHER, REMOVE, Block, Rows
from indextables.log.wire.compression import (
    MAX_LINE_BYTES,
    compress,
    expand_all,
    first_bytes,
    line_blocks,
    line_too_long,
)
from indextables.log.wire.encoding import encode_lines, encode_rows
from indextables.log.wire.files import ADD_TYPE, FILES_SCHEMA, REMOVE_TYPE
from indextables.log.wire.lines import (
    CHECKED_LINES,
    CheckedLine,
    check_depth,
    check_line,
    corrupt,
    explain,
    small_action,
    too_large,
    without_nulls,
)
from indextables.log.wire.names import version_key
from indextables.log.wire.paths import PathRule, canonical_path, canonical_paths
from indextables.log.wire.protocol import path_rule
from indextables.process import Lock

__all__ = [
    "MAX_OTHER_LINES",
    "NO_ADDS",
    "NO_REMOVES",
    "REMOVES_SCHEMA",
    "SMALL_BYTES",
    "WRAPPERS",
    "OnDisk",
    "VersionContent",
    "VersionReader",
    "check_numbers",
    "check_version",
    "commit_info_of",
    "decode_version",
    "decoded_lately",
    "encode_version",
    "in_order",
    "keep_lately",
    "raw_lines",
    "rows_of_adds",
    "rows_of_removes",
    "under_rule",
]

# The fields of `remove`, then its line in the version file, counted from 1.
REMOVES_SCHEMA = pa.schema([*REMOVE_TYPE, pa.field("line", pa.int64())])
_OBJECT_BYTES = 56 << 10
"""What a version takes beside its values, nearly all of it Arrow's objects for so many columns."""


class OnDisk(msgspec.Struct, frozen=True):
    """The paths of a version by the other rule, where they differ: as they are on the disk."""

    adds: pa.ChunkedArray
    removes: pa.ChunkedArray
    skips: tuple[str, ...]


class VersionContent(msgspec.Struct, frozen=True):
    """One version file, checked.

    1. `adds` has `FILES_SCHEMA`, `removes` has `REMOVES_SCHEMA`; both are in order of their lines, counted from 1.
    2. Every path is relative and in the canonical form of encoded paths, so that equal files have equal text. Which
       rule the table has is known only with its protocol: `under` gives the same version by that rule.
    3. `addedAtTimestamp` is the commit's time, null where the file tells none.
    4. `crc32c` is that of the stored bytes; None where the content was not read from a file.
    """

    version: int
    commit_info: CommitInfo | None
    protocol: Protocol | None
    metadata: Metadata | None
    adds: pa.Table
    removes: pa.Table
    txns: tuple[Txn, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    skips: tuple[MergeSkip, ...] = ()
    cdc: tuple[Cdc, ...] = ()
    stored_bytes: int = 0
    crc32c: int | None = None
    on_disk: OnDisk | PathEscape | None = None

    def under(self, rule: PathRule) -> VersionContent:
        """The version with its paths by the table's rule. Raises PathEscape for one that the rule refuses."""
        if rule is PathRule.ENCODED or self.on_disk is None:
            return self
        if isinstance(self.on_disk, PathEscape):
            raise self.on_disk
        skips = tuple(
            msgspec.structs.replace(skip, path=path) for skip, path in zip(self.skips, self.on_disk.skips, strict=True)
        )
        return msgspec.structs.replace(
            self,
            adds=self.adds.set_column(0, FILES_SCHEMA.field("path"), self.on_disk.adds),
            removes=self.removes.set_column(0, REMOVES_SCHEMA.field("path"), self.on_disk.removes),
            skips=skips,
            on_disk=None,
        )

    @property
    def token(self) -> str | None:
        """The commit token, None in files of other systems."""
        return None if self.commit_info is None else self.commit_info.token

    @property
    def table_id(self) -> str | None:
        """Which table the version says it belongs to, None where it does not say."""
        if self.metadata is not None:
            return self.metadata.id
        return None if self.commit_info is None else self.commit_info.tableId

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        return int(self.adds.nbytes + self.removes.nbytes) + _OBJECT_BYTES

    @property
    def timestamp_ms(self) -> int | None:
        """The time of the commit, None where the file tells none."""
        if self.commit_info is None:
            return None
        info = self.commit_info
        return info.timestamp if info.inCommitTimestamp is None else info.inCommitTimestamp


def encode_version(
    actions: Sequence[Action],
    *,
    adds: pa.Table | None = None,
    removes: pa.Table | None = None,
    compress: bool,
) -> bytes:
    """The bytes of a version file: `commitInfo` first, the other `actions` in order, then `removes`, then `adds`.

    `adds` and `removes` may lack columns of `FILES_SCHEMA` and `REMOVES_SCHEMA`; `addedAt*` and `line` are left out.
    """
    parts = [encode_lines([{WRAPPERS[type(action)]: action} for action in in_order(actions)])]
    for name, table, kind in (("remove", removes, REMOVE_TYPE), ("add", adds, ADD_TYPE)):
        if table is not None and table.num_rows:
            parts.append(encode_rows(name, table, kind))
    data = b"".join(parts)
    return _compress(data) if compress else data


def in_order(actions: Sequence[Action]) -> list[Action]:
    """The actions in the order of their lines: `commitInfo` first."""
    return sorted(actions, key=lambda action: not isinstance(action, CommitInfo))


def decode_version(data: bytes, version: int, *, root_url: str = "", files: bool = True) -> VersionContent:
    """The content of a version file. `root_url` lets absolute paths below it be recognised.

    Without `files` adds and removes are left out, and only their form is checked.

    Raises LogCorrupt (with `version` and `line`), LimitExceeded, PathEscape.
    """
    if not files or len(data) > SMALL_BYTES:
        return _decoded(data, version, root_url, files=files)
    found = decoded_lately(data, version, root_url)
    return found or keep_lately(_decoded(data, version, root_url, files=True), data, root_url)


def decoded_lately(data: bytes, version: int, root_url: str) -> VersionContent | None:
    """What the last few calls made of the same bytes.

    Who lost a race against a small version reads it again as a part of the table, and with the next checkpoint.
    """
    return _LATELY.get((version, root_url, data))


def keep_lately(content: VersionContent, data: bytes, root_url: str) -> VersionContent:
    """The content, after it has taken the place of the oldest that is kept."""
    with _LATELY_LOCK:
        _LATELY[content.version, root_url, data] = content
        if len(_LATELY) > _LATELY_MOST:
            _LATELY.pop(next(iter(_LATELY)))
    return content


_LATELY: dict[tuple[int, str, bytes], VersionContent] = {}
_LATELY_MOST = 64
_LATELY_LOCK = Lock()


def _decoded(data: bytes, version: int, root_url: str, *, files: bool) -> VersionContent:
    reader = VersionReader(version, root_url, files=files)
    try:
        for block in line_blocks(data, lambda reason: corrupt(version, None, reason)):
            reader.feed(block)
    except LimitExceeded as error:
        if "version" in error.details:
            raise
        message = f"version {version} ({version_key(version)}) is refused: {error}"
        raise LimitExceeded(message, **error.details, version=version, path=version_key(version)) from None
    return reader.finish(data)


def check_version(info: CommitInfo | None, version: int) -> None:
    """Raises LogCorrupt if a file says that it is another version than the one whose name it has."""
    if info is not None and info.version is not None and info.version != version:
        raise corrupt(version, None, f"it holds the bytes of version {info.version}")


def check_numbers(name: str, action: msgspec.Struct) -> None:
    """Raises ValueError if a number of a small action is out of range."""
    for field in action.__struct_fields__:
        value = getattr(action, field)
        if isinstance(value, int) and not 0 <= value < 2**63:
            message = f"{name}.{field} is out of the range 0 to 2^63 - 1"
            raise ValueError(message)


def commit_info_of(data: bytes, version: int) -> CommitInfo | None:
    """Who wrote the version and when, read from its first line where it stands there. Raises as `decode_version`."""
    start = first_bytes(data, _FIRST_LINE_BYTES, lambda reason: corrupt(version, None, reason))
    line, newline, _ = start.partition(b"\n")
    if newline and line.startswith(b'{"commitInfo":'):
        reader = VersionReader(version, "", files=False)
        reader.feed(line + newline)
        return reader.finish(data).commit_info
    return decode_version(data, version, files=False).commit_info


def raw_lines(data: bytes) -> list[bytes]:
    """The non-blank lines of a version file as they stand, for rewriting it without loss of unknown fields.

    Raises LogCorrupt, LimitExceeded.
    """
    text = expand_all(data, lambda reason: corrupt(0, None, reason))
    return [line for line in text.split(b"\n") if line.strip()]


_FIRST_LINE_BYTES = 1 << 20

NO_ADDS = pa.Table.from_batches([], schema=FILES_SCHEMA)  # empty_table() would import pandas
NO_REMOVES = pa.Table.from_batches([], schema=REMOVES_SCHEMA)

_compress = compress

WRAPPERS: dict[type, str] = {
    Add: "add",
    Cdc: "cdc",
    CommitInfo: "commitInfo",
    DomainMetadata: "domainMetadata",
    MergeSkip: "mergeskip",
    Metadata: "metaData",
    Protocol: "protocol",
    Remove: "remove",
    Txn: "txn",
}
_SMALL: dict[str, type] = {name: kind for kind, name in WRAPPERS.items() if name not in {"add", "remove"}}
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(kind) for name, kind in _SMALL.items()}
_ONCE = ("commitInfo", "protocol", "metaData")

# Lines that are neither add nor remove cost a Python object each.
MAX_OTHER_LINES = 1_000_000
SMALL_BYTES = 16 << 10


class VersionReader:
    """Collects the blocks of one version file."""

    def __init__(self, version: int, root_url: str, *, files: bool) -> None:
        self.version = version
        self.root_url = root_url
        self.files = files
        self.line = 1
        self.actions = 0
        self.others = 0
        self.small: dict[str, list[Any]] = {name: [] for name in _SMALL}
        self.rows: dict[int, list[Rows]] = {ADD: [], REMOVE: []}

    def feed(self, data: bytes) -> Block:
        """Take in the next whole lines. Raises as `decode_version`."""
        if b"\r" in data or b"\x00" in data:
            reason = "it holds carriage returns or NUL bytes, so that it is not a JSON lines file"
            raise corrupt(self.version, None, reason)
        try:
            if not data.isascii():
                data.decode("utf-8")
            lines = CHECKED_LINES.decode_lines(data)
        except (ValueError, RecursionError) as error:
            explain(data, self.line, self.version, error)
        count = int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 10))
        if len(data) > MAX_LINE_BYTES:
            longest = max(map(len, data.split(b"\n")))
            if longest > MAX_LINE_BYTES:
                raise line_too_long(longest)
        places = np.arange(count) if len(lines) == count else self._places(data, len(lines), count)
        few = len(lines) <= FEW_LINES
        block = Block(data, self.version, self.line, self._kinds(lines, places), places, is_checked=few)
        self._feed_small(block, lines)
        if self.files:
            for code, rows in block.read_rows().items():
                self.rows[code].append(rows)
        self.line += count
        self.actions += len(lines)
        return block

    def finish(self, stored: bytes) -> VersionContent:
        """The checked content. Raises as `decode_version`."""
        content = self.head(stored)
        adds = [self._adds(struct, numbers, content.timestamp_ms) for struct, numbers in self.rows[ADD]]
        removes = [self._removes(struct, numbers) for struct, numbers in self.rows[REMOVE]]
        whole = msgspec.structs.replace(
            content,
            adds=pa.Table.from_batches(adds, schema=FILES_SCHEMA) if adds else NO_ADDS,
            removes=pa.Table.from_batches(removes, schema=REMOVES_SCHEMA) if removes else NO_REMOVES,
        )
        return msgspec.structs.replace(whole, on_disk=self._on_disk(whole))

    def head(self, stored: bytes) -> VersionContent:
        """The checked content without its adds and removes. Raises as `decode_version`."""
        if not self.actions:
            raise corrupt(self.version, None, "it is empty")
        info, protocol, metadata = (next(iter(self.small[name]), None) for name in _ONCE)
        check_version(info, self.version)
        return VersionContent(
            version=self.version,
            commit_info=info,
            protocol=protocol,
            metadata=metadata,
            adds=NO_ADDS,
            removes=NO_REMOVES,
            txns=tuple(self.small["txn"]),
            domains=tuple(self.small["domainMetadata"]),
            skips=tuple(self._skip(skip) for skip in self.small["mergeskip"]),
            cdc=tuple(self.small["cdc"]),
            stored_bytes=len(stored),
            crc32c=int(google_crc32c.value(stored)),
        )

    def _on_disk(self, content: VersionContent) -> OnDisk | PathEscape | None:
        """The paths as they are on the disk, None where that is the same."""
        try:
            adds = self._logged(ADD)
            removes = self._logged(REMOVE)
            skips = tuple(PathRule.ON_DISK.canonical(skip.path, self.root_url) for skip in self.small["mergeskip"])
        except PathEscape as error:
            return error
        same = adds.equals(content.adds.column("path")) and removes.equals(content.removes.column("path"))
        if same and skips == tuple(skip.path for skip in content.skips):
            return None
        return OnDisk(adds, removes, skips)

    def _logged(self, code: int) -> pa.ChunkedArray:
        columns = [struct.field("path") for struct, _ in self.rows[code]]
        chunks = [canonical_paths(column, self.root_url, PathRule.ON_DISK) for column in columns]
        return pa.chunked_array(chunks, pa.string())

    def _places(self, data: bytes, objects: int, count: int) -> Ints:
        """The lines that are not blank. Raises LogCorrupt if they are not one object each."""
        self._count_others(count - objects)
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)
        starts = np.concatenate([[0], ends[:-1] + 1])
        places = np.flatnonzero(ends > starts)
        if len(places) != objects:
            places = np.asarray([i for i in places if data[starts[i] : ends[i]].strip()], dtype=np.int64)
        if len(places) != objects:
            explain(data, self.line, self.version, ValueError("lines and JSON objects do not correspond"))
        return places

    def _kinds(self, lines: list[CheckedLine], places: Ints) -> Ints:
        """What each line is. Raises LogCorrupt for a line with both an add and a remove."""
        adds = [line.add for line in lines]
        if len(lines) > FEW_LINES and None not in adds:
            # A remove beside an add shows as keys that nobody decoded.
            return np.full(len(lines), ADD)
        kinds = np.fromiter((add is not None for add in adds), dtype=np.int64, count=len(lines))
        kinds += REMOVE * np.fromiter((line.remove is not None for line in lines), dtype=np.int64, count=len(lines))
        self._count_others(int(np.count_nonzero(kinds == OTHER)))
        both = np.flatnonzero(kinds == ADD + REMOVE)
        if len(both):
            raise corrupt(self.version, self.line + int(places[both[0]]), "it holds two actions")
        return kinds

    def _count_others(self, more: int) -> None:
        """Raises LimitExceeded when lines that name no file outnumber what any commit has."""
        self.others += more
        if self.others > MAX_OTHER_LINES:
            reason = f"more than {MAX_OTHER_LINES} lines are blank or neither add nor remove"
            raise too_large(self.version, None, reason)

    def _feed_small(self, block: Block, lines: list[CheckedLine]) -> None:
        """Decode all but adds and removes, strictly. In a block of few lines those are checked here too."""
        few = len(lines) <= FEW_LINES
        for i in range(len(lines)) if few else np.flatnonzero(block.kinds == OTHER).tolist():
            number = block.number(i)
            name = small_action(lines[i], self.version, number)
            if name is None and block.kinds[i] == OTHER:
                check_depth(block.text(i), self.version, number)
                continue
            check_line(block.text(i), self.version, number)
            if name is None:
                continue
            if name in _ONCE and self.small[name]:
                raise corrupt(self.version, number, f"{name} stands there a second time")
            self.small[name].append(self._decode_small(name, bytes(getattr(lines[i], name)), number))

    def _decode_small(self, name: str, raw: bytes, number: int) -> Any:
        try:
            try:
                action = _DECODERS[name].decode(raw)
            except msgspec.ValidationError:
                action = msgspec.convert(without_nulls(raw), _SMALL[name])
        except msgspec.ValidationError as error:
            raise corrupt(self.version, number, f"{name}: {error}") from None
        try:
            check_numbers(name, action)
        except ValueError as error:
            raise too_large(self.version, number, str(error)) from None
        return action

    def _adds(self, struct: pa.StructArray, lines: Ints, timestamp_ms: int | None) -> pa.RecordBatch:
        paths = self._paths(struct.field("path"), lines)
        numbers = constant(self.version, len(struct)), int64_array(lines), constant(timestamp_ms, len(struct))
        return rows_of_adds(struct, paths, *numbers)

    def _removes(self, struct: pa.StructArray, lines: Ints) -> pa.RecordBatch:
        return rows_of_removes(struct, self._paths(struct.field("path"), lines), int64_array(lines))

    def _paths(self, paths: pa.Array, lines: Ints) -> pa.Array:
        try:
            return canonical_paths(paths, self.root_url)
        except PathEscape as error:
            row = error.details.pop("row", None)
            line = int(lines[row]) if isinstance(row, int) else None
            raise self._escaped(error, line) from None

    def _skip(self, skip: MergeSkip) -> MergeSkip:
        try:
            return msgspec.structs.replace(skip, path=canonical_path(skip.path, self.root_url))
        except PathEscape as error:
            raise self._escaped(error, None) from None

    def _escaped(self, error: PathEscape, line: int | None) -> IndexTablesError:
        where = f"version {self.version}" if line is None else f"line {line} of version {self.version}"
        return PathEscape(f"{where}: {error}", **{**error.details, "version": self.version, "line": line})


def rows_of_adds(
    struct: pa.StructArray, paths: pa.Array, versions: pa.Array, lines: pa.Array, timestamps: pa.Array
) -> pa.RecordBatch:
    """Adds as rows of `FILES_SCHEMA`: `paths` in canonical form, and where and when each came."""
    columns = dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
    columns["path"] = paths
    if columns["hasFooterOffsets"].null_count:
        columns["hasFooterOffsets"] = bool_array(bool_values(columns["hasFooterOffsets"]))
    columns |= {"addedAtVersion": versions, "addedAtLine": lines, "addedAtTimestamp": timestamps}
    return pa.RecordBatch.from_arrays([columns[name] for name in FILES_SCHEMA.names], schema=FILES_SCHEMA)


def rows_of_removes(struct: pa.StructArray, paths: pa.Array, lines: pa.Array) -> pa.RecordBatch:
    """Removes as rows of `REMOVES_SCHEMA`: `paths` in canonical form."""
    columns = dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
    columns |= {"path": paths, "line": lines}
    return pa.RecordBatch.from_arrays([columns[name] for name in REMOVES_SCHEMA.names], schema=REMOVES_SCHEMA)


def under_rule(below: Protocol | None, versions: Sequence[VersionContent]) -> list[VersionContent]:
    """The versions, above the protocol `below`, with their paths by the rule of the table that they lead to.

    Raises PathEscape.
    """
    told = (content.protocol for content in reversed(versions) if content.protocol is not None)
    rule = path_rule(next(told, below))
    return [content.under(rule) for content in versions]
