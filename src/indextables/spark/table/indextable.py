"""`IndexTable`: a table as a Spark program sees it, in the manner of DeltaTable."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import InvalidArgument, TableNotFound
from indextables.log.read import Log, Snapshot, history
from indextables.log.wire import has_own_splits
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.spark.scan import native_scan
from indextables.spark.search import Question, count_matches, search_rows
from indextables.spark.session import (
    instant_ms,
    names_text,
    note_rows,
    path_at,
    plain_reader,
    registry,
    select_of,
    session_zone,
    spark_schema,
)
from indextables.spark.table.altering import Altering
from indextables.spark.table.builder import TableBuilder
from indextables.spark.table.changing import Changing
from indextables.spark.tasks import Place, SparkHandle, forget_in_workers
from indextables.table.arguments import check_count, check_flag, check_mapping, check_names, check_text, check_version
from indextables.table.environment import table_env
from indextables.table.feed import Changes, range_of
from indextables.table.maintenance import CacheReport
from indextables.table.read import column_names, counted_rows, detail_of, lease_if_asked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from indextables.spark.table.foreign import SearchedCopy
    from indextables.table.convert import ConvertReport
    from indextables.table.running import Progress

__all__ = ["IndexTable", "detail_frame"]


class IndexTable(Altering, Changing):
    """A table in a Spark session. Every call works on the newest version, unless it names another."""

    _copied: SearchedCopy | None = None

    @classmethod
    def forPath(
        cls, spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, object] | None = None
    ) -> IndexTable:
        """Return the table at a path or URL; a table of another system is only read.

        Raises TableNotFound, InvalidArgument, LogError, StoreError, NotSupported for what is not read here.
        """
        table = cls(spark, path, options)
        try:
            table._handle.log().latest_version()
        except TableNotFound:
            from indextables.spark.table.foreign import foreign_table

            found = foreign_table(spark, path, options)
            if found is None:
                raise
            return found
        return table

    @classmethod
    def forName(cls, spark: SparkSession, name: str, options: Mapping[str, object] | None = None) -> IndexTable:
        """Return the table that has this name in the session. Raises as `forPath`."""
        return cls.forPath(spark, registry.resolve(spark, name), options)

    @classmethod
    def isIndexTable(
        cls, spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, object] | None = None
    ) -> bool:
        """Tell whether a table of ours is at this path. Raises StoreError where the store does not tell, LogError."""
        try:
            SparkHandle(spark, path, options).log().latest_version()
        except TableNotFound:
            return False
        return True

    @classmethod
    def create(cls, spark: SparkSession) -> TableBuilder[IndexTable]:
        """Return a builder that describes a new table; its `execute()` creates it, or raises if there is one."""
        return TableBuilder(spark, cls, "error")

    @classmethod
    def createIfNotExists(cls, spark: SparkSession) -> TableBuilder[IndexTable]:
        """Return a builder as `create` does; its `execute()` takes an existing table that has the same columns."""
        return TableBuilder(spark, cls, "ignore")

    @classmethod
    def convert(
        cls,
        spark: SparkSession,
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        system: str | None = None,
        version: int | None = None,
        partitionBy: Sequence[str] | None = None,
        indexing: Mapping[str, Any] | None = None,
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> ConvertReport:
        """Copy a table of another system, or a folder of Parquet files, into a table of ours, by tasks.

        Parameters, report and errors are those of `indextables.convert`.
        """
        from indextables.table.convert import ConvertRequest
        from indextables.table.convert import convert as convert_verb
        from indextables.table.create import given_properties

        request = ConvertRequest(
            system=system,
            version=None if version is None else check_version(version),
            partition_by=None if partitionBy is None else check_names("partitionBy", partitionBy),
            indexing=check_mapping("indexing", indexing),
            properties=given_properties(properties),
        )
        handle = SparkHandle(spark, target, options)
        source_env = SparkHandle(spark, source, options).env()
        return convert_verb(
            source_env, handle.log(), request, runner=handle.runner(), progress=handle.progress(progress)
        )

    # What is it?

    @property
    def version(self) -> int:
        """The number of the newest version. Raises TableNotFound, LogError, StoreError."""
        return self._handle.log().latest_version()

    def schema(self) -> StructType:
        """Return the columns of the newest version. Raises TableNotFound, LogError, StoreError."""
        return spark_schema(self._handle.log().metadata_at().metadata.schemaString)

    def detail(self) -> DataFrame:
        """Tell what the table is, in one row: id, name, url, version, files, bytes, rows, columns and so on."""
        return detail_frame(self.spark, detail_of(self._handle.log().snapshot(), self.url))

    def history(self, limit: int | None = None) -> DataFrame:
        """List the commits, newest first, a row for each. Raises InvalidArgument for a limit below 1, LogError."""
        check_count("limit", limit, least=1)
        return self.spark.createDataFrame(history(self._handle.log(), limit))

    # Read

    def toDF(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        versionAsOf: int | None = None,
        timestampAsOf: dt.datetime | str | int | None = None,
    ) -> DataFrame:
        """Return the rows as a DataFrame, which Spark itself reads. It stays at the version that is newest now.

        Args:
            where: A SQL predicate. Splits that cannot match are left out before Spark plans; a later `.where()` of the
                DataFrame gives the same rows, but reads every split.
            columns: The columns to return; all by default. Spark sees every column as nullable.
            versionAsOf: Read this version instead of the newest.
            timestampAsOf: Read the version that was the newest at this time: a datetime, text, or milliseconds since
                the epoch. A text without a time zone is in that of the session, a datetime without one in that of this
                process, as everywhere in Spark.

        Raises:
            QueryInvalid: `where` cannot be understood; `position` says where.
            InvalidArgument: A column is not there, or an argument is wrong.
            VersionNotFound, VersionExpired: The table never had this version, or no longer has it.
            NotSupported: The table is another system's, and has what is not read here.
        """
        place = self._handle.place()
        log = self._handle.log(place)
        snapshot = _snapshot(log, versionAsOf, timestampAsOf, session_zone(self.spark))
        if not has_own_splits(snapshot.protocol):
            from indextables.spark.table.foreign import foreign_frame

            _predicate(where, snapshot, log.env.options)
            return foreign_frame(self.spark, place, log.env, snapshot.version, columns=columns, where=where)
        lease_if_asked(log, snapshot)
        env = table_env(log.env, snapshot.metadata)
        frame = native_scan(
            self.spark,
            env,
            snapshot,
            columns=columns,
            where=_predicate(where, snapshot, env.options),
            text=where,
            fallback=self._handle.reader_options(place),
        )
        # Who reads it by its path alone has neither the options of this object, nor its way to read a predicate.
        is_plain = where is None and not self._handle.options
        names = "*" if columns is None else ", ".join(f"`{name.replace('`', '``')}`" for name in columns)
        return note_rows(frame, select_of(names, path_at(self.url, snapshot.version)) if is_plain else None)

    def changes(
        self,
        fromVersion: int | None = None,
        toVersion: int | None = None,
        *,
        fromTimestamp: dt.datetime | str | int | None = None,
        toTimestamp: dt.datetime | str | int | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        net: bool = False,
        skipUnchanged: bool = False,
    ) -> DataFrame:
        """Return which rows versions inserted, deleted and updated, as a DataFrame that tasks read.

        Beside the columns a row has `_change_type` (`insert`, `delete`, `update_preimage`, `update_postimage`),
        `_commit_version` and `_commit_timestamp`. Nothing has to be switched on before.

        Args:
            fromVersion: The first version whose changes are read; 0 by default.
            toVersion: The last one; by default the version that is newest now.
            fromTimestamp: Instead: begin at the first commit at this time or later, as `timestampAsOf` of `toDF`.
            toTimestamp: Instead: end at the last commit at this time or earlier.
            columns: The columns of the table to return; all by default.
            where: A SQL predicate, which may also read `_change_type` and the like.
            net: Fold the range into one change per row: its first and its last image. One task does it.
            skipUnchanged: Leave out updates whose two images are equal in the columns that are returned.

        Raises:
            VersionExpired: Cleanup took what the range needs; `earliest` is the first version that works.
            VersionNotFound: The table does not have these versions.
            QueryInvalid, InvalidArgument: `where` or another argument is wrong.
        """
        zone, options = session_zone(self.spark), self._handle.reader_options()
        if fromVersion is not None and fromTimestamp is not None:
            raise InvalidArgument("give fromVersion or fromTimestamp, not both")
        if toVersion is not None and toTimestamp is not None:
            raise InvalidArgument("give toVersion or toTimestamp, not both")
        asked = _range_of_feed(fromVersion, toVersion, fromTimestamp, toTimestamp, zone)
        log = self._handle.log()
        # Tasks would tell of it in Spark's words, when the rows are asked for.
        range_of(log, log.latest_version(), asked)
        ends = {
            opt.STARTING_VERSION.key: asked.from_version,
            opt.STARTING_TIMESTAMP.key: asked.from_ms,
            opt.ENDING_VERSION.key: asked.to_version,
            opt.ENDING_TIMESTAMP.key: asked.to_ms,
        }
        given: dict[str, object] = {opt.READ_CHANGE_FEED.key: "true"}
        given |= {key: end for key, end in ends.items() if end is not None}
        if columns is not None:
            given[opt.COLUMNS.key] = names_text(columns)
        if where is not None:
            given[opt.WHERE.key] = check_text("where", where)
            if zone is not None:
                given[opt.TIME_ZONE.key] = zone
        flags = {opt.NET_CHANGES.key: ("net", net), opt.SKIP_UNCHANGED.key: ("skipUnchanged", skipUnchanged)}
        given |= {key: "true" for key, (name, flag) in flags.items() if check_flag(name, flag)}
        reader = plain_reader(self.spark).format("indextables")
        for key, value in {**options, **given}.items():
            reader = reader.option(key, str(value))
        return reader.load(self.url)

    def search(
        self,
        query: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        highlight: Sequence[str] | None = None,
    ) -> DataFrame:
        """Search: return the rows that match a query, with a column `_score`; with a limit the best ones, best first.

        This call checks the query and gathers the statistics that scores need. Tasks read the rows when the DataFrame
        is used; in a small table (`search.driver.maxSplits`) the driver finds a small answer at once.

        Args:
            query: Words, phrases and fields: `timeout`, `message:"connection reset"`, `level:ERROR AND NOT retry`.
                Words without a field are looked for in all text columns, and any of them will do.
            columns: The columns to return; all by default.
            where: A SQL predicate that the rows must satisfy as well.
            limit: At most this many rows; all by default, in no order.
            highlight: Text columns; each adds a column `_highlight_<name>`, a piece of the text as HTML in which what
                matched stands in `<em>`.

        Raises:
            QueryInvalid: The query or the predicate cannot be understood; `position` says where.
            InvalidArgument: A column is not there, or an argument is wrong.
            NotSupported: The table is another system's.
        """
        check_count("limit", limit)
        place = self._handle.place()
        snapshot, env, question = self._asked(place, check_text("a query", query), where, columns, highlight, limit)
        if not has_own_splits(snapshot.protocol):
            return self._copy_of(snapshot, env).search(query, columns, where, limit, highlight)
        return search_rows(self.spark, env, snapshot, question, self._handle.runner(place=place), place)

    def count(self, query: str | None = None, where: str | None = None) -> int:
        """Count the rows that match. Without a query and a predicate the log tells, and no data file is opened.

        Raises as `search`.
        """
        if query is not None:
            place = self._handle.place()
            snapshot, env, question = self._asked(place, check_text("a query", query), where)
            if not has_own_splits(snapshot.protocol):
                return self._copy_of(snapshot, env).count(query, where)
            return count_matches(env, snapshot, question, self._handle.runner(place=place))
        known = counted_rows(self._handle.log().snapshot()) if where is None else None
        return int(self.toDF(where).count()) if known is None else known

    def invalidateCaches(self) -> CacheReport:
        """Forget what driver and executors hold in memory about this table; results do not change.

        A worker that no task of this call reaches forgets the log files when it next reads some.
        """
        forget_in_workers(self.url)
        return super().invalidateCaches()

    def _copy_of(self, snapshot: Snapshot, env: Env) -> IndexTable:
        """The rows of a version whose splits are of IndexTables4Spark, whose indexes cannot be asked."""
        from indextables.spark.table.foreign import searched_copy

        if self._copied is None or self._copied.version != snapshot.version:
            self._copied = searched_copy(self, env, snapshot.version)
        return self._copied.table

    def _asked(
        self,
        place: Place,
        query: str,
        where: str | None,
        columns: Sequence[str] | None = None,
        highlight: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> tuple[Snapshot, Env, Question]:
        log = self._handle.log(place)
        snapshot = log.snapshot()
        env = table_env(log.env, snapshot.metadata)
        _predicate(where, snapshot, env.options)
        names = () if columns is None else tuple(column_names(snapshot.schema, columns))
        if columns is not None and not names:
            raise InvalidArgument("columns = []: name at least one column, or use count()", columns=[])
        return snapshot, env, Question(query, where, names, tuple(highlight or ()), limit)

    def __repr__(self) -> str:
        return f"IndexTable({self.url!r})"


def _snapshot(log: Log, version: int | None, timestamp: dt.datetime | str | int | None, zone: str | None) -> Snapshot:
    if version is not None and timestamp is not None:
        raise InvalidArgument("give versionAsOf or timestampAsOf, not both")
    if timestamp is not None:
        return log.snapshot(timestamp_ms=instant_ms(timestamp, zone))
    return log.snapshot(None if version is None else check_version(version))


def _predicate(where: Any, snapshot: Snapshot, options: opt.Options) -> Node | None:
    if where is None:
        return None
    if not isinstance(where, str):
        message = f"where is a SQL predicate as text, not {where!r}: a Column goes to .where() of the DataFrame"
        raise InvalidArgument(message)
    return parse(where, snapshot.schema, time_zone=options[opt.TIME_ZONE])


def detail_frame(spark: SparkSession, found: dict[str, Any]) -> DataFrame:
    """What a table is, in one row."""
    plain = pa.Table.from_pylist([found], schema=_detail_schema())
    pairs = pa.array([list(found["properties"].items())], pa.map_(pa.string(), pa.string()))
    return spark.createDataFrame(plain.append_column("properties", pairs))


def _detail_schema() -> pa.Schema:
    text = pa.string()
    return pa.schema(
        [
            ("id", text),
            ("name", text),
            ("description", text),
            ("url", text),
            ("version", pa.int64()),
            ("createdAt", pa.int64()),
            ("partitionColumns", pa.list_(text)),
            ("numFiles", pa.int64()),
            ("sizeInBytes", pa.int64()),
            ("numRows", pa.int64()),
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("features", pa.list_(text)),
        ]
    )


def _range_of_feed(
    first: int | None,
    last: int | None,
    since: dt.datetime | str | int | None,
    until: dt.datetime | str | int | None,
    zone: str | None,
) -> Changes:
    """The range that is asked of a feed, from its start where nothing is said. Raises InvalidArgument."""
    return Changes(
        from_version=check_version(first or 0) if since is None else None,
        from_ms=None if since is None else instant_ms(since, zone),
        to_version=None if last is None else check_version(last),
        to_ms=None if until is None else instant_ms(until, zone),
    )
