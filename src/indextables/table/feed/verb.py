"""`Feed` is the changes between two versions, derived from log and splits: nothing is written for it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyroaring import BitMap

from indextables import options as opt
from indextables.env import Env
from indextables.errors import InvalidArgument, SchemaMismatch, VersionExpired, VersionNotFound
from indextables.lazy import pc
from indextables.log.read import Log, Snapshot, commit_time, moment
from indextables.log.wire import Metadata, VersionContent, former_names, schema_from_json
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.query.prune import prune
from indextables.query.stored import stored_name
from indextables.split.file import SplitRef, dv
from indextables.table.environment import table_env
from indextables.table.feed.rows import Asked, feed_schema, read_bundle, read_net
from indextables.table.feed.units import Bundle, Touched, Unit, alone, differing, may_pair, touched, unknown_paths
from indextables.table.read import check_rows_readable, differences, in_order, refs_of

__all__ = ["Changes", "Feed", "changes", "columns_of_feed", "first_version", "naming_the_first", "range_of"]

_AT_ONCE = 16
"""Version files that are read together."""


class Changes(msgspec.Struct, frozen=True):
    """Which changes are asked for: those of the versions from the first to the last one, by number or by time."""

    from_version: int | None = None
    to_version: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    columns: Sequence[str] | None = None
    where: str | Node | None = None
    net: bool = False
    skip_unchanged: bool = False


def changes(log: Log, pinned: Snapshot, asked: Changes) -> pa.RecordBatchReader:
    """The changes, oldest first. Without an end they go to the version that is `pinned`, without a start from 0 on.

    Raises at once InvalidArgument, QueryInvalid, VersionNotFound, VersionExpired with the first version that works as
    `earliest`, SchemaMismatch, NotSupported; and while it is read VersionExpired, SplitCorrupt, DvCorrupt, StoreError.
    """
    first, last = range_of(log, pinned.version, asked)
    end = _end(log, pinned, last)
    env = table_env(log.env, end.metadata)
    where = asked.where if isinstance(asked.where, Node) else None
    if isinstance(asked.where, str):
        where = parse(asked.where, feed_schema(end.schema), time_zone=env.options[opt.TIME_ZONE])
    wanted = Asked.of(end.schema, asked.columns, where, skip_unchanged=asked.skip_unchanged)
    feed = Feed(log, env, end.metadata, wanted.reads, wanted.pushed)
    batches = _read(log, feed, first, last, wanted, net=asked.net)
    # The first rows are asked for at once, so that a range that has expired is told here.
    begun = list(itertools.islice(batches, 1))
    return pa.RecordBatchReader.from_batches(wanted.output, itertools.chain(begun, batches))


def columns_of_feed(log: Log, pinned: Snapshot, asked: Changes) -> pa.Schema:
    """The columns of these changes. Raises as `changes` does at once."""
    end = _end(log, pinned, range_of(log, pinned.version, asked)[1])
    return Asked.of(end.schema, asked.columns, None, skip_unchanged=asked.skip_unchanged).output


def _end(log: Log, pinned: Snapshot, last: int) -> Snapshot:
    """The last version of a range."""
    end = pinned if last == pinned.version else log.snapshot(max(last, 0))
    check_rows_readable(end, log.url)
    return end


def _read(log: Log, feed: Feed, first: int, last: int, wanted: Asked, *, net: bool) -> Iterator[pa.RecordBatch]:
    with naming_the_first(log, first):
        if net:
            yield from read_net(feed.env, lambda: feed.bundles(first, last), wanted)
            return
        for bundle in feed.bundles(first, last):
            yield from read_bundle(feed.env, bundle, wanted)


class Feed:
    """The changes of versions of one log, in the schema of a `baseline`, as bundles to read.

    Raises SchemaMismatch at a version whose rows that schema cannot hold.
    """

    def __init__(self, log: Log, env: Env, baseline: Metadata, names: Sequence[str], where: Node | None = None) -> None:
        """`names` are the columns that are read; `where` leaves out files that hold none of its rows."""
        self.log = log
        self.env = env
        self.baseline = baseline
        self.schema = schema_from_json(baseline.schemaString)
        wanted = {name.lower() for name in names}
        self._stored = {stored_name(field).lower() for field in self.schema if field.name.lower() in wanted}
        self._where = where
        self._is_prunable = True

    def bundles(self, first: int, last: int) -> Iterator[Bundle]:
        """What the versions changed, in order; a version that changed no row is left out. Raises as `changes`."""
        if first > last:
            return
        if first > 0:
            with contextlib.suppress(VersionExpired):
                below = self.log.metadata_at(first - 1).metadata
                self._check(below, first - 1)
                self._check_known(below, first - 1)
        for begin in range(first, last + 1, _AT_ONCE):
            for content in self.log.read_versions(range(begin, min(begin + _AT_ONCE, last + 1))):
                bundle = self.bundle(content)
                if bundle is not None:
                    yield bundle

    def bundle(self, content: VersionContent) -> Bundle | None:
        """What one version changed; None if it changed no row."""
        if content.metadata is not None:
            self._check(content.metadata, content.version)
        unknown = unknown_paths(content)
        before = content.adds.slice(0, 0)
        if len(unknown) and content.version > 0:
            files = self.log.snapshot(content.version - 1).files
            before = files.filter(pc.is_in(files["path"], value_set=unknown))
        units = self._units(touched(content, before))
        if not units:
            return None
        info = content.commit_info
        time_ms = None if info is None else (info.inCommitTimestamp or info.timestamp)
        if time_ms is None:
            time_ms = commit_time(self.log, content.version)
        return Bundle(content.version, time_ms, units, may_pair(units))

    def inserted(self, files: pa.Table) -> list[Unit]:
        """All rows of these files, as if they had just come."""
        return list(self._whole(files, is_new=True))

    def _units(self, files: Touched) -> list[Unit]:
        """The rows that are touched, those that go first."""
        old = list(self._whole(in_order(files.gone), is_new=False))
        new = list(self._whole(in_order(files.came), is_new=True))
        for ref, size, lost, won, wanted in self._split(files):
            for rows, side in ((lost, old), (won, new)):
                if rows:
                    share = max(1, size * len(rows) // max(1, ref.num_rows or 1))
                    side.append(Unit(alone(ref, ref.num_rows or 0, rows), side is new, share, wanted))
        return [*old, *new]

    def _whole(self, files: pa.Table, *, is_new: bool) -> Iterator[Unit]:
        refs, bases, sizes = (
            refs_of(self.env, files, self.schema),
            files["baseRowId"].to_pylist(),
            files["size"].to_pylist(),
        )
        for ref, base, size, wanted in zip(refs, bases, sizes, self._wanted(files), strict=True):
            yield Unit(msgspec.structs.replace(ref, base_row_id=base), is_new, size, wanted)

    def _split(self, files: Touched) -> Iterator[tuple[SplitRef, int, BitMap, BitMap, bool]]:
        """The files that stay, each with the rows that it loses and gets back."""
        again = files.again
        if not again.num_rows:
            return
        earlier = again.set_column(again.column_names.index("deletionVector"), "deletionVector", files.before)
        after, before = refs_of(self.env, again, self.schema), refs_of(self.env, earlier, self.schema)
        told = zip(
            after, before, again["baseRowId"].to_pylist(), again["size"].to_pylist(), self._wanted(again), strict=True
        )
        for new, old, base, size, wanted in told:
            rows = [_deleted(ref) for ref in (old, new)]
            yield msgspec.structs.replace(new, base_row_id=base), size, *differing(*rows), wanted

    def _wanted(self, files: pa.Table) -> list[bool]:
        if self._where is None or not self._is_prunable:
            return [True] * files.num_rows
        return list(prune(files, self._where, self.schema, self.baseline.partitionColumns).to_pylist())

    def _check_known(self, below: Metadata, version: int) -> None:
        """Raises SchemaMismatch for a column that had been dropped below the range and was restored in it.

        Its values are back in rows of which no version of the range tells anything.
        """
        there = {stored_name(field).lower() for field in schema_from_json(below.schemaString)}
        dropped = {name.lower() for name in former_names(below.configuration)} - there
        back = [f.name for f in self.schema if stored_name(f).lower() in dropped & self._stored]
        if back:
            message = (
                f"{', '.join(back)} had been dropped at version {version} of {self.log.url}, and a restore brought the "
                "values back, which is no change of rows. Leave the column out with columns=[...], or read the changes "
                "from before the drop or after the restore on"
            )
            raise SchemaMismatch(message, columns=back, version=version, url=self.log.url)

    def _check(self, metadata: Metadata, version: int) -> None:
        """Raises SchemaMismatch for rows that cannot be given in the schema of the end."""
        self._is_prunable = self._is_prunable and metadata.partitionColumns == self.baseline.partitionColumns
        if metadata.schemaString == self.baseline.schemaString:
            return
        theirs = schema_from_json(metadata.schemaString)
        kept = pa.schema([field for field in theirs if stored_name(field).lower() in self._stored])
        problems = differences(kept, self.schema)
        if problems:
            message = (
                f"version {version} at {self.log.url} has another schema than the end of the range: "
                f"{'; '.join(problems)}. Leave the column out with columns=[...], or read the changes up to this "
                "version apart"
            )
            raise SchemaMismatch(message, differences=problems, version=version, url=self.log.url)


def _deleted(ref: SplitRef) -> BitMap:
    if ref.vector is None:
        return BitMap()
    return dv.decode(ref.vector, ref.num_rows or 0, ref.key)


def range_of(log: Log, pinned: int, asked: Changes) -> tuple[int, int]:
    """The first and last version of a range. A range that begins one version above its end is empty.

    Raises InvalidArgument, VersionNotFound, VersionExpired.
    """
    if asked.from_version is not None and asked.from_ms is not None:
        raise InvalidArgument("give from_version or from_time, not both")
    if asked.to_version is not None and asked.to_ms is not None:
        raise InvalidArgument("give to_version or to_time, not both")
    last = pinned if asked.to_version is None else asked.to_version
    if asked.to_ms is not None:
        last = moment(log, asked.to_ms).version
    first = 0 if asked.from_version is None else asked.from_version
    if asked.from_ms is not None:
        first = _first_at(log, asked.from_ms)
        return min(first, last + 1), last
    if first > last + 1 or (first > last and asked.to_version is not None):
        if asked.to_version is None and asked.to_ms is None:
            message = (
                f"version {first} is above {last}, the newest that is read at {log.url}; a handle sees newer ones "
                "after refresh()"
            )
            raise VersionNotFound(message, version=first, latest=last, url=log.url)
        raise InvalidArgument(f"the range of changes from version {first} to {last} goes backwards", version=first)
    return first, last


def _first_at(log: Log, time_ms: int) -> int:
    """The first version whose commit is not earlier than the time; one above the newest if there is none."""
    try:
        found = moment(log, time_ms)
    except VersionExpired:
        raise
    except VersionNotFound:
        return 0
    return found.version if found.time_ms == time_ms else found.version + 1


def first_version(log: Log) -> int:
    """The first version from which on all changes can be read: that one, and what the table was below it, are there."""
    versions = log.versions()
    if versions and versions.start == 0:
        return 0
    bases = [ref.version for ref in log.states() if not versions or ref.version + 1 >= versions.start]
    return min(bases) + 1 if bases else (versions.stop if versions else 0)


@contextlib.contextmanager
def naming_the_first(log: Log, version: int) -> Iterator[None]:
    """Raises VersionExpired that says from which version on changes can be read."""
    try:
        yield
    except VersionExpired as cause:
        earliest = first_version(log)
        message = (
            f"the changes of version {cause.details.get('version', version)} can no longer be read at {log.url}: "
            f"cleanup took what they need. The first version whose changes are there is {earliest}"
        )
        raise VersionExpired(message, version=version, earliest=earliest, url=log.url) from cause
