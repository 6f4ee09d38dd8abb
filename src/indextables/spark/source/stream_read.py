"""The streaming source: rows that were added to a table, batch by batch, each once.

An offset says how far a query has read: `indextables.table.read.tail.Place`, with the table's id. What lies between two
offsets depends on the log alone, so that a batch that Spark repeats after a failure has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from indextables import options as opt
from indextables.errors import TableReplaced
from indextables.spark.source.read import SplitPartition, TableReader
from indextables.spark.tasks import grouped
from indextables.table.environment import open_env
from indextables.table.read import LATEST, Limits, Place, Tail, first_place, place_from, place_to

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.env import Env
    from indextables.log.read import Log, Snapshot
    from indextables.split.file import SplitRef

__all__ = ["TableStreamReader"]


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads what is added to one table.

    A query that names no start first reads the rows that are there, then what is added. Its methods raise
    NotSupported at a commit that removed or rewrote rows, SchemaMismatch where the schema has changed, VersionExpired
    where cleanup was faster than the query, TableReplaced if the table was made anew.
    """

    def __init__(
        self,
        *,
        url: str,
        options: Mapping[str, object],
        schema: StructType,
        version: int | None,
        where: str | None,
        session: Mapping[str, str] | None = None,
        table_id: str | None = None,
    ) -> None:
        """`version` of `table_id` is what the query was planned with. Raises InvalidArgument, QueryInvalid."""
        self._url = url
        self._table_id = table_id
        self._options = dict(options)
        self._session = dict(session or {})
        self._version = version
        self._reader = self.make_reader(
            url=url, options=options, version=version, schema=schema, where=where, session=self._session
        )
        self._tail: Tail | None = None
        self._last: int | None = None
        self._first: Place | None = None
        self._begun = False

    def make_reader(self, **given: Any) -> TableReader:
        """What reads in tasks."""
        return TableReader(**given)

    def make_tail(self, log: Log, snapshot: Snapshot) -> Tail:
        """What knows the history."""
        return Tail(log, snapshot.metadata, skip_change_commits=log.env.options[opt.SKIP_CHANGE_COMMITS])

    def __getstate__(self) -> dict[str, object]:
        """What travels to tasks: no open log."""
        return {**self.__dict__, "_tail": None}

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins. Spark asks more than once before its first batch, and is told the same."""
        from indextables.spark.session import instant_ms

        tail, options = self._open()
        if self._first is not None:
            return self._offset(self._first)
        version, time = options[opt.STARTING_VERSION], options[opt.STARTING_TIMESTAMP]
        zone = options[opt.TIME_ZONE] if version or options.given(opt.TIME_ZONE) else None
        self._first = tail.starting(version or None, instant_ms(time, zone) if time else None)
        return self._offset(self._first)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options allow. One limit is all that Spark can carry; `latestOffset` keeps both."""
        limits = self._limits()
        return ReadMaxFiles(limits.files) if limits.files is not None else ReadMaxBytes(limits.bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than what is there now."""
        tail, _ = self._open()
        self._last = tail.log.latest_version()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes; `start` itself if nothing was added.

        The first batch of a query that begins at the latest version is empty: it writes down where that is.
        """
        tail, _ = self._open()
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self._limits()
        place = self._place(start)
        if place == self._first and not self._begun:
            self._begun = True
            if self._begins_at_latest():
                return start
        end = tail.reach(place, limits, self._last)
        # Nothing new and fewer versions than were read, or something new: it may be another table's.
        if end != place or tail.log.latest_version() < place.version - 1:
            self._check_still_there(tail)
        return self._offset(end)

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of what is there, for the progress of the query."""
        tail, _ = self._open()
        return self._offset(Place(tail.log.latest_version() + 1, 0))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The splits between two offsets, small ones together in a task, of whatever version they are."""
        from indextables.query.prune import prune
        from indextables.table.read import refs_of

        tail, options = self._open()
        zone = options[opt.TIME_ZONE]
        self._reader.check_zone(tail.schema, options)
        predicate = self._reader.predicate(tail.schema, zone)
        refs: list[SplitRef] = []
        newest = 0
        for version, files in tail.files_between(*self._between(start, end)):
            kept = files
            if predicate is not None:
                kept = files.filter(prune(files, predicate, tail.schema, tail.baseline.partitionColumns))
            refs += refs_of(tail.log.env, kept, tail.schema)
            newest = version
        return [SplitPartition(group, tail.schema, newest, zone) for group in grouped(refs)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's splits."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept for a query here: its checkpoint holds the offset."""

    def _offset(self, place: Place) -> dict[str, Any]:
        tail, _ = self._open()
        return place_to(place, tail.baseline.id)

    def _place(self, offset: Mapping[str, Any]) -> Place:
        tail, _ = self._open()
        return place_from(offset, tail.baseline.id, self._url)

    def _between(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> tuple[Place, Place]:
        """The places of a batch, of which the first one may be planned again, after more versions have come."""
        first, last = self._place(start), self._place(end)
        if first == self._first and last.version < first.version and self._begins_at_latest():
            # The first batch is empty, and was planned when the latest version was an earlier one.
            return last, last
        return first_place(first, last), last

    def _begins_at_latest(self) -> bool:
        _, options = self._open()
        return str(options[opt.STARTING_VERSION]).strip().lower() == LATEST

    def _check_still_there(self, tail: Tail) -> None:
        """Raises TableReplaced if the table was dropped and made anew since this reader opened it."""
        from indextables.log.read import Log

        now = Log(self._env()).metadata_at().metadata.id
        if now != tail.baseline.id:
            message = (
                f"the stream reads the table {tail.baseline.id}, at {self._url} there is {now} now: it was dropped and "
                "re-created. Use a new checkpoint location to read the new one"
            )
            raise TableReplaced(message, url=self._url, table_id=tail.baseline.id)

    def _limits(self) -> Limits:
        _, options = self._open()
        most_bytes = options[opt.MAX_BYTES_PER_TRIGGER] or None
        if most_bytes is not None and not options.given(opt.MAX_FILES_PER_TRIGGER):
            return Limits(bytes=most_bytes)
        return Limits(files=options[opt.MAX_FILES_PER_TRIGGER], bytes=most_bytes)

    def _open(self) -> tuple[Tail, opt.Options]:
        """The log and the options over the table's, opened once per process."""
        from indextables.log.read import Log
        from indextables.table.read import check_rows_readable

        if self._tail is None:
            log = Log(self._env())
            snapshot = log.of_table(self._table_id).snapshot(self._version)
            check_rows_readable(snapshot, self._url)
            self._tail = self.make_tail(log, snapshot)
        tail = self._tail
        return tail, tail.log.env.over(tail.baseline.configuration)

    def _env(self) -> Env:
        return open_env(self._url, self._options, session=self._session)
