"""Reads the feed of changes as rows of Spark: a range of versions as a batch, or from a place on as a stream.

A task reads units of one version. All units of a version whose rows may pair go to one task, which tells its updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, TimestampType

from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.spark.session import READING, check_session, instant_ms, task_session
from indextables.spark.source.read import TableReader, as_field
from indextables.spark.source.stream_read import TableStreamReader
from indextables.spark.tasks import TASK_BYTES
from indextables.table.feed import (
    Asked,
    Bundle,
    Changes,
    Feed,
    FeedTail,
    Unit,
    feed_schema,
    range_of,
    read_bundle,
    read_net,
)

if TYPE_CHECKING:
    from indextables.log.read import Log, Snapshot
    from indextables.table.read import Tail

__all__ = ["FEED_COLUMNS", "FeedReader", "FeedStreamReader"]

FEED_COLUMNS = (
    StructField("_change_type", StringType()),
    StructField("_commit_version", LongType()),
    StructField("_commit_timestamp", TimestampType()),
)


class FeedPartition(InputPartition):  # type: ignore[misc]
    """What one task reads, with columns and time zone of the table, so that it does not read the log."""

    def __init__(self, bundle: Bundle, schema: pa.Schema, zone: str) -> None:
        super().__init__(None)
        self.bundle = bundle
        self.schema = schema
        self.zone = zone


class NetPartition(InputPartition):  # type: ignore[misc]
    """A whole range, which one task folds."""

    def __init__(self, bundles: list[Bundle], schema: pa.Schema, zone: str) -> None:
        super().__init__(None)
        self.bundles = bundles
        self.schema = schema
        self.zone = zone


class FeedReader(TableReader):
    """Reads the changes up to one version, whatever is committed meanwhile."""

    def __init__(self, *, net: bool = False, skip_unchanged: bool = False, **given: Any) -> None:
        super().__init__(**given)
        self._net = net
        self._skip_unchanged = skip_unchanged

    def partitions(self) -> Sequence[InputPartition]:
        """The changes of the range. Raises VersionExpired, VersionNotFound, InvalidArgument, SchemaMismatch."""
        from indextables.log.read import Log
        from indextables.table.feed import naming_the_first
        from indextables.table.read import check_rows_readable

        env = self._env()
        log = Log(env).of_table(self._table_id)
        end = log.snapshot(self._version)
        check_rows_readable(end, self._url)
        options = env.over(end.metadata.configuration)
        self.check_zone(feed_schema(end.schema), options)
        first, last = range_of(log, end.version, _range(options))
        wanted = self._asked(end.schema, options[opt.TIME_ZONE])
        feed = Feed(log, env, end.metadata, wanted.reads, wanted.pushed)
        with naming_the_first(log, first):
            if self._net:
                return [NetPartition(list(feed.bundles(first, last)), end.schema, options[opt.TIME_ZONE])]
            return feed_partitions(feed.bundles(first, last), end.schema, options[opt.TIME_ZONE])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one task. Raises SplitCorrupt, VersionExpired, StoreError."""
        from pyspark.sql.pandas.types import to_arrow_schema

        if not isinstance(partition, FeedPartition | NetPartition):
            return
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        session = task_session()
        check_session(session, READING)
        env, asked = self._env(session), self._asked(partition.schema, partition.zone)
        if isinstance(partition, NetPartition):
            found = read_net(env, lambda: iter(partition.bundles), asked)
        else:
            found = read_bundle(env, partition.bundle, asked)
        for batch in found:
            spelled = {name.lower(): place for place, name in enumerate(batch.schema.names)}
            columns = [as_field(batch.column(spelled[field.name.lower()]), field) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    def _asked(self, schema: pa.Schema, zone: str) -> Asked:
        where = self.predicate(feed_schema(schema), zone)
        return Asked.of(schema, self._schema.names, where, skip_unchanged=self._skip_unchanged)


class FeedStreamReader(TableStreamReader):
    """Reads what is changed in one table, from a place on."""

    def __init__(self, *, skip_unchanged: bool = False, **given: Any) -> None:
        self._skip_unchanged = skip_unchanged
        super().__init__(**given)

    def make_reader(self, **given: Any) -> TableReader:
        """What reads in tasks."""
        return FeedReader(skip_unchanged=self._skip_unchanged, **given)

    def make_tail(self, log: Log, snapshot: Snapshot) -> Tail:
        """What knows the history."""
        return FeedTail(log, log.env, snapshot)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The changes between two offsets."""
        tail, options = self._open()
        assert isinstance(tail, FeedTail)  # noqa: S101 - as `make_tail` makes it
        self._reader.check_zone(feed_schema(tail.schema), options)
        bundles = tail.bundles_between(*self._between(start, end))
        return feed_partitions(bundles, tail.schema, options[opt.TIME_ZONE])


def feed_partitions(bundles: Iterable[Bundle], schema: pa.Schema, zone: str) -> list[InputPartition]:
    """Tasks for these changes; a batch without any has one that reads nothing."""
    tasks = [FeedPartition(part, schema, zone) for bundle in bundles for part in _apart(bundle)]
    return tasks or [InputPartition(None)]


def _apart(bundle: Bundle) -> Iterator[Bundle]:
    """Some units for each task, up to a size; all in one where rows may pair."""
    if bundle.pairs:
        yield bundle
        return
    units: list[Unit] = []
    size = 0
    for unit in bundle.units:
        if units and size + unit.size > TASK_BYTES:
            yield msgspec.structs.replace(bundle, units=units)
            units, size = [], 0
        units.append(unit)
        size += unit.size
    if units:
        yield msgspec.structs.replace(bundle, units=units)


def _range(options: opt.Options) -> Changes:
    """Where the range begins. Raises InvalidArgument."""
    version, time = options[opt.STARTING_VERSION], options[opt.STARTING_TIMESTAMP]
    if bool(version) == bool(time):
        message = "readChangeFeed needs startingVersion or startingTimestamp, one of them"
        raise InvalidArgument(message, option=opt.STARTING_VERSION.key)
    if time:
        zone = options[opt.TIME_ZONE] if options.given(opt.TIME_ZONE) else None
        is_number = time.isascii() and time.isdigit()
        return Changes(from_ms=instant_ms(int(time) if is_number else time, zone))
    if not version.strip().isdecimal():
        message = f"startingVersion = {version!r} is not a version"
        raise InvalidArgument(message, option=opt.STARTING_VERSION.key, value=version)
    return Changes(from_version=int(version))
