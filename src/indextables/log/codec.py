"""The bytes of a version file, both ways: JSON lines, plain or gzip, and Arrow columns."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import IndexTablesError, LimitExceeded, PathEscape
from indextables.log.actions import (
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
from indextables.log.arrays import Bools, Ints, bool_array, constant, int64_array, map_entries, validity
from indextables.log.compression import MAX_LINE_BYTES, compress, expand_all, first_bytes, line_blocks, line_too_long
from indextables.log.encoding import encode_lines, encode_rows
from indextables.log.files import ADD_TYPE, FILES_SCHEMA, REMOVE_TYPE
from indextables.log.lines import (
    CHECKED_LINES,
    NOTHING,
    CheckedLine,
    check_depth,
    check_line,
    corrupt,
    count_keys,
    count_nulls,
    explain,
    too_large,
    without_nulls,
)
from indextables.log.names import version_key
from indextables.log.paths import canonical_path, canonical_paths

__all__ = ["REMOVES_SCHEMA", "VersionContent", "commit_info_of", "decode_version", "encode_version", "raw_lines"]

# The fields of `remove`, then its line in the version file, counted from 1.
REMOVES_SCHEMA = pa.schema([*REMOVE_TYPE, pa.field("line", pa.int64())])


class VersionContent(msgspec.Struct, frozen=True):
    """One version file, checked.

    1. `adds` has `FILES_SCHEMA`, `removes` has `REMOVES_SCHEMA`; both are in order of their lines, counted from 1.
    2. Every path is relative and in canonical encoding, so that equal files have equal text.
    3. `addedAtTimestamp` is the commit's time, null where the file tells none.
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

    @property
    def token(self) -> str | None:
        """The commit token, None in files of other systems."""
        return None if self.commit_info is None else self.commit_info.token

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
    ordered = sorted(actions, key=lambda action: not isinstance(action, CommitInfo))
    parts = [encode_lines([{_WRAPPERS[type(action)]: action} for action in ordered])]
    for name, table, kind in (("remove", removes, REMOVE_TYPE), ("add", adds, ADD_TYPE)):
        if table is not None and table.num_rows:
            parts.append(encode_rows(name, table, kind))
    data = b"".join(parts)
    return _compress(data) if compress else data


def decode_version(data: bytes, version: int, *, root_url: str = "", files: bool = True) -> VersionContent:
    """The content of a version file. `root_url` lets absolute paths below it be recognised.

    Without `files` adds and removes are left out, and only their form is checked.

    Raises LogCorrupt (with `version` and `line`), LimitExceeded, PathEscape.
    """
    reader = _Reader(version, root_url, files=files)
    try:
        for block in line_blocks(data, lambda reason: corrupt(version, None, reason)):
            reader.feed(block)
    except LimitExceeded as error:
        if "version" in error.details:
            raise
        message = f"version {version} ({version_key(version)}) is refused: {error}"
        raise LimitExceeded(message, **error.details, version=version, path=version_key(version)) from None
    return reader.finish(len(data))


def commit_info_of(data: bytes, version: int) -> CommitInfo | None:
    """Who wrote the version and when, read from its first line where it stands there. Raises as `decode_version`."""
    start = first_bytes(data, _FIRST_LINE_BYTES, lambda reason: corrupt(version, None, reason))
    line, newline, _ = start.partition(b"\n")
    if newline and line.startswith(b'{"commitInfo":'):
        reader = _Reader(version, "", files=False)
        reader.feed(line + newline)
        return reader.finish(len(data)).commit_info
    return decode_version(data, version, files=False).commit_info


def raw_lines(data: bytes) -> list[bytes]:
    """The non-blank lines of a version file as they stand, for rewriting it without loss of unknown fields.

    Raises LogCorrupt, LimitExceeded.
    """
    text = expand_all(data, lambda reason: corrupt(0, None, reason))
    return [line for line in text.split(b"\n") if line.strip()]


_FIRST_LINE_BYTES = 1 << 20

_NO_ADDS = pa.Table.from_batches([], schema=FILES_SCHEMA)  # empty_table() would import pandas
_NO_REMOVES = pa.Table.from_batches([], schema=REMOVES_SCHEMA)

_compress = compress

_WRAPPERS: dict[type, str] = {
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
_SMALL: dict[str, type] = {name: kind for kind, name in _WRAPPERS.items() if name not in {"add", "remove"}}
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(kind) for name, kind in _SMALL.items()}
_ONCE = ("commitInfo", "protocol", "metaData")

# Lines that are neither add nor remove cost a Python object each.
MAX_OTHER_LINES = 1_000_000

# Below this many lines each is checked by itself, which is cheaper than counting.
_FEW_LINES = 32

_ADD_REQUIRED = ("path", "partitionValues", "size", "modificationTime", "dataChange")
_REMOVE_REQUIRED = ("path", "dataChange")
_VECTOR_REQUIRED = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")


class _Reader:
    """Collects the blocks of one version file."""

    def __init__(self, version: int, root_url: str, *, files: bool) -> None:
        self.version = version
        self.files = files
        self.root_url = root_url
        self.line = 1
        self.actions = 0
        self.others = 0
        self.small: dict[str, list[Any]] = {name: [] for name in _SMALL}
        self.rows: dict[str, list[tuple[pa.StructArray, Ints]]] = {"add": [], "remove": []}

    def feed(self, block: bytes) -> None:
        """Take in the next whole lines. Raises as `decode_version`."""
        if b"\r" in block or b"\x00" in block:
            raise corrupt(
                self.version, None, "it holds carriage returns or NUL bytes, so that it is no JSON lines file"
            )
        try:
            if not block.isascii():
                block.decode("utf-8")
            lines = CHECKED_LINES.decode_lines(block)
        except (ValueError, RecursionError) as error:
            explain(block, self.line, self.version, error)
        ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10)
        starts = np.concatenate([[0], ends[:-1] + 1])
        if int((ends - starts).max()) > MAX_LINE_BYTES:
            raise line_too_long(int((ends - starts).max()))
        numbers = np.arange(len(ends), dtype=np.int64)
        if len(lines) != len(ends):
            self._count_ignored(len(ends) - len(lines))
            numbers = np.flatnonzero(ends > starts)
            if len(lines) != len(numbers):
                numbers = np.asarray([i for i in numbers if block[starts[i] : ends[i]].strip()], dtype=np.int64)
            if len(lines) != len(numbers):
                explain(block, self.line, self.version, ValueError("lines and JSON objects do not correspond"))
        kinds = self._kinds(lines, numbers)
        spans = (starts[numbers], ends[numbers])
        small_lines = self._feed_small(block, lines, kinds, spans, numbers)
        if self.files:
            self._feed_rows(block, kinds, numbers, spans, small_lines)
        self.line += len(ends)
        self.actions += len(lines)

    def finish(self, stored_bytes: int) -> VersionContent:
        """The checked content. Raises as `decode_version`."""
        if not self.actions:
            raise corrupt(self.version, None, "it is empty")
        info, protocol, metadata = (next(iter(self.small[name]), None) for name in _ONCE)
        content = VersionContent(
            version=self.version,
            commit_info=info,
            protocol=protocol,
            metadata=metadata,
            adds=_NO_ADDS,
            removes=_NO_REMOVES,
            txns=tuple(self.small["txn"]),
            domains=tuple(self.small["domainMetadata"]),
            skips=tuple(self._skip(skip) for skip in self.small["mergeskip"]),
            cdc=tuple(self.small["cdc"]),
            stored_bytes=stored_bytes,
        )
        adds = [self._adds(struct, numbers, content.timestamp_ms) for struct, numbers in self.rows["add"]]
        removes = [self._removes(struct, numbers) for struct, numbers in self.rows["remove"]]
        return msgspec.structs.replace(
            content,
            adds=pa.Table.from_batches(adds, schema=FILES_SCHEMA) if adds else _NO_ADDS,
            removes=pa.Table.from_batches(removes, schema=REMOVES_SCHEMA) if removes else _NO_REMOVES,
        )

    def _kinds(self, lines: list[CheckedLine], numbers: Ints) -> Ints:
        """1 for an add, 2 for a remove, 0 for the rest. Raises LogCorrupt for a line with both."""
        kinds = np.fromiter(
            ((line.add is not None) + 2 * (line.remove is not None) for line in lines), dtype=np.int64, count=len(lines)
        )
        self._count_ignored(int((kinds == 0).sum()))
        both = np.flatnonzero(kinds == 3)
        if len(both):
            raise corrupt(self.version, self.line + int(numbers[both[0]]), "it holds two actions")
        return kinds

    def _count_ignored(self, more: int) -> None:
        """Raises LimitExceeded when lines that name no file outnumber what any commit has."""
        self.others += more
        if self.others > MAX_OTHER_LINES:
            reason = f"more than {MAX_OTHER_LINES} lines are blank or neither add nor remove"
            raise too_large(self.version, None, reason)

    def _feed_small(
        self, block: bytes, lines: list[CheckedLine], kinds: Ints, spans: tuple[Ints, Ints], numbers: Ints
    ) -> list[bytes]:
        """Decode all but adds and removes, strictly; the lines that were looked at."""
        looked_at: list[bytes] = []
        for i in range(len(lines)) if len(lines) <= _FEW_LINES else np.flatnonzero(kinds == 0).tolist():
            number = self.line + int(numbers[i])
            text = block[spans[0][i] : spans[1][i]]
            for name in self._check_line(text, lines[i], number):
                if name in _ONCE and self.small[name]:
                    raise corrupt(self.version, number, f"{name} stands there a second time")
                self.small[name].append(self._decode_small(name, bytes(getattr(lines[i], name)), number))
            if not kinds[i]:
                looked_at.append(text)
        return looked_at

    def _check_line(self, text: bytes, line: CheckedLine, number: int) -> list[str]:
        """The small actions of a line, at most one. Raises LogCorrupt, LimitExceeded."""
        found = [name for name in _SMALL if (raw := getattr(line, name)) is not NOTHING and bytes(raw) != b"null"]
        actions = len(found) + (line.add is not None) + (line.remove is not None)
        if not actions:
            check_depth(text, self.version, number)
            return found
        check_line(text, self.version, number)
        if actions > 1:
            raise corrupt(self.version, number, "it holds two actions")
        return found

    def _decode_small(self, name: str, raw: bytes, number: int) -> Any:
        try:
            try:
                action = _DECODERS[name].decode(raw)
            except msgspec.ValidationError:
                action = msgspec.convert(without_nulls(raw), _SMALL[name])
        except msgspec.ValidationError as error:
            raise corrupt(self.version, number, f"{name}: {error}") from None
        for field in action.__struct_fields__:
            value = getattr(action, field)
            if isinstance(value, int) and not 0 <= value < 2**63:
                raise too_large(self.version, number, f"{name}.{field} is out of the range 0 to 2^63 - 1")
        return action

    def _feed_rows(
        self, block: bytes, kinds: Ints, numbers: Ints, spans: tuple[Ints, Ints], small_lines: list[bytes]
    ) -> None:
        present = [(name, kind) for name, kind in (("add", ADD_TYPE), ("remove", REMOVE_TYPE)) if _code(name) in kinds]
        if not present:
            return
        batch = self._read_native(block, pa.schema(present), len(kinds))
        keys = 0
        for name, _ in present:
            chosen = kinds == _code(name)
            struct = _chosen(batch.column(name), chosen)
            lines = self.line + numbers[chosen]
            self._check_required(name, struct, lines)
            keys += _decoded_keys(struct) if len(kinds) > _FEW_LINES else 0
            self._check_maps(struct, lines)
            self.rows[name].append((struct, lines))
        if len(kinds) <= _FEW_LINES:
            return
        surplus = count_keys(block) - sum(map(count_keys, small_lines)) - keys
        if surplus and surplus != count_nulls(block) - sum(map(count_nulls, small_lines)) - _null_items(
            self.rows, present
        ):
            for i in np.flatnonzero(kinds).tolist():
                text = block[spans[0][i] : spans[1][i]]
                self._check_line(text, CHECKED_LINES.decode(text), self.line + int(numbers[i]))

    def _read_native(self, block: bytes, schema: pa.Schema, rows: int) -> pa.RecordBatch:
        import arro3.io

        try:
            reader = arro3.io.read_json(io.BytesIO(block), schema, batch_size=rows + 1)
            table = pa.RecordBatchReader.from_stream(reader).read_all()
        except (pa.ArrowException, ValueError, OSError) as error:
            self._bisect(block, schema, error)
        if table.num_rows != rows:
            raise corrupt(self.version, None, "lines and JSON objects do not correspond")
        return table.combine_chunks().to_batches()[0]

    def _bisect(self, block: bytes, schema: pa.Schema, error: Exception) -> Any:
        """Raise LogCorrupt for the first line that the native reader refuses."""
        import arro3.io

        lines = block.split(b"\n")
        low, high = 0, len(lines)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                part = b"\n".join(lines[low:middle]) + b"\n"
                pa.RecordBatchReader.from_stream(arro3.io.read_json(io.BytesIO(part), schema)).read_all()
                low = middle
            except (pa.ArrowException, ValueError, OSError) as narrower:
                high, error = middle, narrower
        raise corrupt(self.version, self.line + low, str(error).rsplit("Json error: ", maxsplit=1)[-1]) from None

    def _check_required(self, name: str, struct: pa.StructArray, lines: Ints) -> None:
        for field in _ADD_REQUIRED if name == "add" else _REMOVE_REQUIRED:
            column = struct.field(field)
            if column.null_count:
                line = lines[np.flatnonzero(~validity(column))[0]]
                raise corrupt(self.version, int(line), f"{name} has no {field}")
        vectors = struct.field("deletionVector")
        if vectors.null_count < len(vectors):
            there = validity(vectors)
            for field in _VECTOR_REQUIRED:
                missing = there & ~validity(vectors.field(field))
                if missing.any():
                    line = lines[np.flatnonzero(missing)[0]]
                    raise corrupt(self.version, int(line), f"the deletionVector of {name} has no {field}")

    def _check_maps(self, struct: pa.StructArray, lines: Ints) -> None:
        if len(struct) <= _FEW_LINES:
            return
        for field in struct.type:
            if pa.types.is_map(field.type):
                row = _repeated_key(struct.field(field.name))
                if row is not None:
                    raise corrupt(self.version, int(lines[row]), f"a key of {field.name} stands twice")

    def _adds(self, struct: pa.StructArray, lines: Ints, timestamp_ms: int | None) -> pa.RecordBatch:
        columns = dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
        columns["path"] = self._paths(columns["path"], lines)
        if columns["hasFooterOffsets"].null_count:
            columns["hasFooterOffsets"] = columns["hasFooterOffsets"].fill_null(False)  # noqa: FBT003 - the default
        columns["addedAtVersion"] = constant(self.version, len(struct))
        columns["addedAtLine"] = int64_array(lines)
        columns["addedAtTimestamp"] = constant(timestamp_ms, len(struct))
        return pa.RecordBatch.from_arrays([columns[name] for name in FILES_SCHEMA.names], schema=FILES_SCHEMA)

    def _removes(self, struct: pa.StructArray, lines: Ints) -> pa.RecordBatch:
        columns = dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
        columns["path"] = self._paths(columns["path"], lines)
        columns["line"] = int64_array(lines)
        return pa.RecordBatch.from_arrays([columns[name] for name in REMOVES_SCHEMA.names], schema=REMOVES_SCHEMA)

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


def _code(name: str) -> int:
    return 1 if name == "add" else 2


def _chosen(column: pa.StructArray, chosen: Bools) -> pa.StructArray:
    """The chosen rows, without a copy where they are neighbours."""
    rows = np.flatnonzero(chosen)
    if len(rows) == rows[-1] - rows[0] + 1:
        return column.slice(int(rows[0]), len(rows))
    return column.filter(bool_array(chosen))


def _decoded_keys(struct: pa.StructArray) -> int:
    """How many keys the lines of these rows have, wrappers included, if each was decoded once."""
    keys = len(struct)
    for field in struct.type:
        column = struct.field(field.name)
        keys += len(column) - column.null_count
        if pa.types.is_map(field.type):
            keys += len(map_entries(column)[0])
        elif pa.types.is_struct(field.type) and column.null_count < len(column):
            keys += sum(len(inner) - inner.null_count for inner in column.flatten())
    return keys


def _null_items(rows: dict[str, list[tuple[pa.StructArray, Ints]]], present: list[tuple[str, pa.DataType]]) -> int:
    """How many map entries of the newest rows have no value: they are counted among the decoded keys already."""
    total = 0
    for name, _ in present:
        struct = rows[name][-1][0]
        for field in struct.type:
            if pa.types.is_map(field.type):
                total += map_entries(struct.field(field.name))[1].null_count
    return total


def _repeated_key(column: pa.MapArray) -> int | None:
    """The first row with a repeated key, or None. Rows that share one list of keys are settled by the first."""
    keys, _, rows = map_entries(column)
    if len(keys) == 0:
        return None
    codes = np.frombuffer(keys.dictionary_encode().indices.buffers()[1], dtype=np.int32)[: len(keys)]
    counts = np.bincount(rows, minlength=len(column))
    width = int(counts.max())
    if (counts == width).all():
        grid = codes.reshape(-1, width)
        if (grid == grid[0]).all():
            return 0 if len(set(grid[0].tolist())) != width else None
    pairs = np.sort(rows << 32 | codes)
    again = np.flatnonzero(pairs[1:] == pairs[:-1])
    return int(pairs[again[0]] >> 32) if len(again) else None
