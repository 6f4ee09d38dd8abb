"""What was added to a table since a place in its history, in pieces: the reading side of a stream.

A `Place` is where a reader stands: everything before it has been read, nothing at or after it. A reader that begins
without a version first reads the files of one snapshot, then the files that each later version added, in the order of
the version file. Which files lie between two places depends on the log alone, so that a reader that repeats a piece
gets the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import (
    InvalidArgument,
    NotSupported,
    SchemaMismatch,
    TableReplaced,
    VersionExpired,
    VersionNotFound,
)
from indextables.log.read import Confirmed, Log, Snapshot, commit_time, moment, table_of
from indextables.log.wire import Metadata, VersionContent, check_readable, schema_from_json, widens
from indextables.query.stored import stored_name
from indextables.table.read.order import in_order

__all__ = [
    "LATEST",
    "Limits",
    "Piece",
    "Place",
    "Sizes",
    "Tail",
    "differences",
    "first_place",
    "pieces_between",
    "place_after",
    "place_from",
    "place_to",
]

Sizes = npt.NDArray[np.int64]

LATEST = "latest"
"""The start of a reader that wants nothing of what is there."""

_AT_ONCE = 16
"""Version files that are read together."""


class Place(msgspec.Struct, frozen=True):
    """Before file `index` of a version, counted from 0; of its whole snapshot where `is_starting_version`."""

    version: int
    index: int
    is_starting_version: bool = False


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Wire(msgspec.Struct, frozen=True):
    """A place as Spark keeps it in the checkpoint of a query."""

    tableId: str
    version: _Count
    index: _Count
    isStartingVersion: bool


class Limits(msgspec.Struct, frozen=True):
    """How much a piece may hold. One file is always taken, be it larger than `bytes`."""

    files: int | None = None
    bytes: int | None = None


class Piece(msgspec.Struct, frozen=True):
    """Files `first` to `last` of a version, without `last`; to its end where that is None."""

    version: int
    first: int
    last: int | None
    is_snapshot: bool


def place_after(start: Place, sizes: Iterable[tuple[int, Sizes]], limits: Limits) -> Place:
    """How far a reader gets from `start`.

    `sizes` gives the bytes of every file of each version from `start` on, in order, beginning with the version of
    `start` (all of its files, those before `start` too). It is read no further than the limits allow.
    """
    place, files, total = start, limits.files, limits.bytes
    is_empty = True
    for version, all_bytes in sizes:
        first = place.index if version == place.version else 0
        left = all_bytes[first:]
        taken = _how_many(left, files, total, at_least_one=is_empty)
        if taken < len(left):
            return Place(version, first + taken, place.is_starting_version)
        files = None if files is None else files - taken
        total = None if total is None else total - int(left.sum())
        is_empty = is_empty and not taken
        place = Place(version + 1, 0)
    return place


def pieces_between(start: Place, end: Place) -> list[Piece]:
    """What lies from `start` to before `end`, in order. Raises InvalidArgument where `end` is before `start`."""
    is_same = start.version == end.version
    if _key(end) < _key(start) or (end.is_starting_version and not (is_same and start.is_starting_version)):
        raise InvalidArgument(f"a stream cannot go back from {end} to {start}: was its checkpoint changed?")
    if is_same:
        if start.index == end.index:
            return []
        return [Piece(start.version, start.index, end.index, start.is_starting_version)]
    pieces = [Piece(start.version, start.index, None, start.is_starting_version)]
    pieces += [Piece(version, 0, None, is_snapshot=False) for version in range(start.version + 1, end.version)]
    if end.index:
        pieces.append(Piece(end.version, 0, end.index, is_snapshot=False))
    return pieces


def first_place(start: Place, end: Place) -> Place:
    """Where the batch up to `end` begins; `start` itself, unless that is the beginning of a whole snapshot.

    Nobody writes down where the first batch of a reader begins: it is asked for again, and by then the table has gone
    on. The end, which is written down, says it: rows that were there or added until then, as one snapshot.
    """
    if not start.is_starting_version or start.index or not (end.is_starting_version or end.version):
        return start
    return Place(end.version if end.is_starting_version else end.version - 1, 0, is_starting_version=True)


def place_to(place: Place, table_id: str) -> dict[str, Any]:
    """The place as plain values, in the order in which they are written down: equal places have equal text."""
    wire = _Wire(table_id, place.version, place.index, place.is_starting_version)
    return {name: getattr(wire, name) for name in wire.__struct_fields__}


def place_from(values: Mapping[str, Any], table_id: str, url: str = "") -> Place:
    """The place that `place_to` wrote down. Raises InvalidArgument, and TableReplaced for that of another table."""
    try:
        wire = msgspec.convert(dict(values), _Wire)
    except msgspec.ValidationError as cause:
        message = f"{dict(values)!r} is not an offset of this source ({cause}): use a new checkpoint location"
        raise InvalidArgument(message) from cause
    if wire.tableId != table_id:
        message = (
            f"the stream has read the table {wire.tableId}, at {url} there is {table_id} now: it was dropped and "
            "re-created. Use a new checkpoint location to read the new one"
        )
        raise TableReplaced(message, url=url, table_id=wire.tableId)
    return Place(wire.version, wire.index, wire.isStartingVersion)


class Tail:
    """The history of a table as a stream reads it: rows that were added, and nothing else.

    Versions whose commit changed no data (merge splits, new indexes, properties) are passed over. A commit that removed
    or rewrote rows stops the reader with NotSupported, unless `skip_change_commits`: then it is passed over as a whole.
    A version whose rows the `baseline` schema cannot hold stops it with SchemaMismatch, one that needs a newer library
    with ProtocolUnsupported.
    """

    def __init__(self, log: Log, baseline: Metadata, *, skip_change_commits: bool = False) -> None:
        self.log = log
        self.baseline = baseline
        self.schema = schema_from_json(baseline.schemaString)
        self._skip = skip_change_commits
        self._snapshot: tuple[Snapshot, pa.Table] | None = None
        self._read: Confirmed[VersionContent] = Confirmed()

    def starting(self, version: str | None = None, timestamp_ms: int | None = None) -> Place:
        """Where a new reader begins: at the whole newest snapshot, or at the changes from a version or time on.

        `version` is a number or `latest`. Raises VersionExpired for one that cleanup took, VersionNotFound for one that
        is not there, InvalidArgument.
        """
        head = self.log.latest_version()
        if version is not None and timestamp_ms is not None:
            raise InvalidArgument("give startingVersion or startingTimestamp, not both", option="startingVersion")
        if timestamp_ms is not None:
            return Place(self._first_at(timestamp_ms, head), 0)
        if version is None:
            return Place(head, 0, is_starting_version=True)
        if version.strip().lower() == LATEST:
            return Place(head + 1, 0)
        if not version.strip().isdecimal():
            message = f"startingVersion = {version!r} is neither a version nor latest"
            raise InvalidArgument(message, option="startingVersion", value=version)
        first = int(version)
        if first > head + 1:
            message = f"startingVersion = {first} does not exist at {self.log.url}: the newest is {head}"
            raise VersionNotFound(message, version=first, latest=head, url=self.log.url)
        if first <= head:
            self.log.read_version(first)
        return Place(first, 0)

    def reach(self, start: Place, limits: Limits, head: int | None = None) -> Place:
        """How far a reader gets from `start` within the limits, with nothing above `head` (the newest version).

        Raises as the class tells, VersionExpired where cleanup was faster, LogError.
        """
        newest = self.log.latest_version() if head is None else head
        return place_after(start, self._sizes(start, newest), limits)

    def files_between(self, start: Place, end: Place) -> Iterator[tuple[int, pa.Table]]:
        """Version and files of each piece, in order; pieces without files are left out. Raises as `reach`."""
        for piece in pieces_between(start, end):
            if piece.is_snapshot:
                files = self._snapshot_files(piece.version)
            else:
                files = self._added(self._content(piece.version, end))
            if piece.last is not None and piece.last > files.num_rows:
                message = f"version {piece.version} at {self.log.url} has {files.num_rows} files, the stream saw more"
                raise InvalidArgument(message, version=piece.version)
            part = files.slice(piece.first, None if piece.last is None else piece.last - piece.first)
            if part.num_rows:
                yield piece.version, part

    def _sizes(self, start: Place, head: int) -> Iterator[tuple[int, Sizes]]:
        first = start.version
        if start.is_starting_version:
            yield first, _bytes_of(self._snapshot_files(first))
            first += 1
        for begin in range(first, head + 1, _AT_ONCE):
            versions = range(begin, min(begin + _AT_ONCE, head + 1))
            for content in self.log.read_versions(versions):
                yield content.version, _bytes_of(self._added(content))

    def _content(self, version: int, end: Place) -> VersionContent:
        """A version, read together with those that follow it up to `end`, of which some are asked for next."""
        read = self._read
        if not read or not read[0].version <= version <= read[-1].version:
            last = end.version if end.index else end.version - 1
            read = self._read = self.log.read_versions(range(version, min(version + _AT_ONCE, last + 1)))
        return read[version - read[0].version]

    def _snapshot_files(self, version: int) -> pa.Table:
        if self._snapshot is None or self._snapshot[0].version != version:
            snapshot = self.log.snapshot(version)
            self._check(snapshot.metadata, version)
            # Sorted by path first: files without a place of their own keep one order all the same.
            self._snapshot = snapshot, in_order(snapshot.files.sort_by("path"))
        return self._snapshot[1]

    def _added(self, content: VersionContent) -> pa.Table:
        if content.protocol is not None:
            check_readable(content.protocol, self.log.url)
        if table_of(content) not in {None, self.baseline.id}:
            raise self._replaced(content.version, table_of(content))
        if content.metadata is not None:
            self._check(content.metadata, content.version)
        if _changes_rows(content):
            if self._skip:
                return content.adds.slice(0, 0)
            operation = content.commit_info.operation if content.commit_info is not None else None
            message = (
                f"version {content.version} at {self.log.url} ({operation or 'an unnamed operation'}) removed or "
                "rewrote rows, and a stream reads rows that were added. Set skipChangeCommits to pass over such "
                "commits, or start anew from a later version with a new checkpoint location"
            )
            raise NotSupported(message, version=content.version, operation=operation, url=self.log.url)
        return content.adds.filter(content.adds["dataChange"]) if content.adds.num_rows else content.adds

    def _check(self, metadata: Metadata, version: int) -> None:
        """Raises TableReplaced, and SchemaMismatch for a schema that the baseline cannot hold."""
        if metadata.id != self.baseline.id:
            raise self._replaced(version, metadata.id)
        if metadata.schemaString == self.baseline.schemaString:
            return
        theirs = schema_from_json(metadata.schemaString)
        problems = differences(theirs, self.schema)
        if problems:
            message = (
                f"version {version} at {self.log.url} has another schema than the stream: {'; '.join(problems)}. Start "
                "the stream again: it then reads with the newest schema. If it stops here again, columns were dropped "
                "or retyped: start anew from a later version with a new checkpoint location"
            )
            raise SchemaMismatch(message, differences=problems, version=version, url=self.log.url)

    def _replaced(self, version: int, table_id: str | None) -> TableReplaced:
        message = (
            f"version {version} at {self.log.url} belongs to the table {table_id}: the table was re-created. Use a new "
            "checkpoint location to read the new one"
        )
        return TableReplaced(message, url=self.log.url, table_id=self.baseline.id)

    def _first_at(self, timestamp_ms: int, head: int) -> int:
        """The first version whose commit is not earlier than the time."""
        newest = commit_time(self.log, head)
        if timestamp_ms > newest:
            message = f"startingTimestamp is after the newest commit at {self.log.url}, which was at {newest}"
            raise InvalidArgument(message, option="startingTimestamp", timestamp_ms=timestamp_ms, latest=newest)
        try:
            found = moment(self.log, timestamp_ms)
        except VersionExpired:
            raise
        except VersionNotFound:
            return 0
        return found.version if found.time_ms == timestamp_ms else found.version + 1


def _changes_rows(content: VersionContent) -> bool:
    """True if rows that were there left or changed: a file was removed, or got a vector, with or without a remove."""
    vectors = content.adds["deletionVector"]
    changed = [content.removes["dataChange"]] if content.removes.num_rows else []
    if vectors.null_count < len(vectors):
        changed.append(content.adds["dataChange"].filter(vectors.is_valid()))
    return any(pc.any(flags, min_count=0).as_py() for flags in changed)


def differences(theirs: pa.Schema, wanted: pa.Schema) -> list[str]:
    """Why rows with `theirs` cannot be read as `wanted`, column by column; a column that they lack is null.

    Columns are the same if files call them the same, whatever their names were.
    """
    spelled = {stored_name(field).lower(): field for field in wanted}
    problems = []
    for field in theirs:
        known = spelled.get(stored_name(field).lower())
        if known is None:
            problems.append(f"column {field.name} is not in the schema of the stream")
        elif known.type != field.type and not widens(field.type, known.type):
            problems.append(f"column {known.name} is {field.type}, the stream has {known.type}")
    return problems


def _how_many(sizes: Sizes, files: int | None, total: int | None, *, at_least_one: bool) -> int:
    most = len(sizes) if files is None else min(len(sizes), max(files, 0))
    if total is not None:
        most = min(most, int(np.searchsorted(np.cumsum(sizes), total, side="right")))
    return max(most, min(1, len(sizes))) if at_least_one else most


def _bytes_of(files: pa.Table) -> Sizes:
    return np.asarray(files["size"].to_numpy(), np.int64)


def _key(place: Place) -> tuple[int, int]:
    return place.version, place.index
