"""`format("indextables")`: the door that works in every session, classic or Connect.

Spark runs planning, tasks and the commit in separate Python workers; everything that passes between them is plain data.
Filters of a query are not pushed down: Spark 4.3 keeps one plan per `load()`, so that a plan pruned for one query would
be used by the next one and lose rows. What prunes is an option of the `load()` itself: `where`, `search`, `columns`,
`limit`, `versionAsOf`, `timestampAsOf`.

A table of Spark's catalog loses its options. Its columns carry the path, which reads take, unless Spark copied the
columns from another table (`indextables.spark.session.registry.OWN_KEY`); a write that finds such a
path cannot tell whether it is that of the table it goes to or of the one it comes from, so that writes take a path from
the statement only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import DoubleType, StructField, StructType

from indextables import options as opt
from indextables.errors import InvalidArgument, SchemaMismatch
from indextables.spark.session import (
    COLUMN_KEY,
    NOT_TOLD,
    OWN_KEY,
    PATH_KEY,
    READING,
    CallOptions,
    ReadOptions,
    WriteOptions,
    carried_path,
    how_to_renew,
    planning,
    spark_schema,
)
from indextables.storage.url import parse_location

if TYPE_CHECKING:
    from indextables.log.read import Log

__all__ = ["SCORE", "IndexTablesSource"]

SCORE = "_score"

_FEED_NAMES = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})

_CATALOG = ("provider", "location")
"""Options that only CREATE TABLE brings."""

_WAYS_TO_READ = (
    "spark.read.format('indextables').load(path), a temporary view over that, IndexTable.forPath(spark, path).toDF(), "
    "or a table made by CREATE TABLE t USING indextables OPTIONS (path '...') without a list of columns"
)
_WAYS_TO_WRITE = (
    "df.write.format('indextables').mode('append').save(path), indextables.write(df, path), INSERT INTO t WITH "
    "(path='...') SELECT ..., or INSERT INTO a temporary view over the path"
)

_BY_PATH = (
    "{}: load the path with these options, or make a temporary view with them (CREATE TEMPORARY VIEW v USING "
    "indextables OPTIONS (path '...', ...))"
)


class IndexTablesSource(DataSource):  # type: ignore[misc]
    """A table at the option `path`."""

    _is_pinned: bool | None = None
    """True if the user named a version or time to read; None as long as nobody asked for the schema."""

    _table_id: str | None = None
    """The table that the schema was read of: another one that takes its place is not read as if it were this one."""

    @classmethod
    def name(cls) -> str:
        return "indextables"

    def schema(self) -> StructType:
        """The columns at the version that reads of this DataFrame are pinned to.

        For CREATE TABLE they carry the path of the table, which is all that a table of the catalog keeps.
        """
        asked = ReadOptions.of(self.options)
        _check_feed(asked)
        url = self._path(asked)
        log = _log(asked, url)
        with planning(asked):
            version, _, metadata = log.metadata_at(_version(asked, log))
        whole = spark_schema(metadata.schemaString)
        if any(name in self.options for name in _CATALOG):
            return _for_catalog(asked, whole, url)
        self._is_pinned = _names_a_version(asked)
        pinned, time = opt.VERSION_AS_OF.key, opt.TIMESTAMP_AS_OF.key
        self.options[pinned] = str(version)
        self._table_id = metadata.id
        for key in (time, opt.PREFIX + time, opt.PREFIX + pinned):
            self.options.pop(key.lower(), None)
        return _shown(asked, whole)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the pinned version. Raises InvalidArgument, NotSupported, TableNotFound, QueryInvalid."""
        from indextables.spark.source.read import TableReader

        asked = ReadOptions.of(self.options)
        _check_columns(asked, schema)
        _check_feed(asked)
        if _carried(schema) is not None:
            # Two references to one table of the catalog in one statement both get the options of the first.
            why = "Spark mixes up options of a table of the catalog that a statement names twice:"
            _refuse_reading(asked, f"{why} {_BY_PATH}")
        url = self._path(asked, schema)
        _check_renamed(schema, url)
        kind: Callable[..., TableReader] = TableReader
        if asked.change_feed:
            from indextables.spark.source.feed_read import FeedReader

            kind = partial(FeedReader, net=asked.net, skip_unchanged=asked.skip_unchanged)
        return kind(
            url=url,
            options=asked.table_options,
            session=asked.session,
            version=_version(asked, _log(asked, url)),
            table_id=self._table_id,
            schema=schema,
            where=asked.where,
            search=asked.search,
            limit=asked.limit,
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Appends or overwrites; a table that is not there is made by the commit. Raises SchemaMismatch at once."""
        from indextables.spark.source.writer import TableWriter

        asked = WriteOptions.of(self.options)
        _refuse_in_writes(asked)
        return TableWriter(self._path(asked, writes=True), asked, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads what is added to the table, from the version on that the query was planned with or an option names.

        Raises InvalidArgument for a version or time that a stream cannot be pinned to.
        """
        from indextables.spark.source.stream_read import TableStreamReader

        asked = ReadOptions.of(self.options)
        _check_columns(asked, schema)
        is_pinned = self._is_pinned
        if is_pinned is None:
            is_pinned = _names_a_version(asked)
        if is_pinned:
            message = (
                "a stream has no end, no versionAsOf and no timestampAsOf: say startingVersion or startingTimestamp"
            )
            raise InvalidArgument(message, option="versionAsOf")
        for name in (opt.SEARCH.key, opt.LIMIT.key):
            if name in asked.names:
                raise InvalidArgument(f"a stream has no {name}: use where", option=name)
        url = self._path(asked, schema)
        kind: Callable[..., TableStreamReader] = TableStreamReader
        if asked.net:
            raise InvalidArgument("a stream cannot be folded: it has no end", option=opt.NET_CHANGES.key)
        if asked.change_feed:
            from indextables.spark.source.feed_read import FeedStreamReader

            kind = partial(FeedStreamReader, skip_unchanged=asked.skip_unchanged)
        return kind(
            url=url,
            options=asked.table_options,
            schema=schema,
            version=_version(asked, _log(asked, url)),
            table_id=self._table_id,
            where=asked.where,
            session=asked.session,
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001 - as writer
        """Appends every micro-batch once. Raises SchemaMismatch at once, NotSupported for outputMode complete."""
        from indextables.spark.source.stream_write import TableStreamWriter

        asked = WriteOptions.of(self.options)
        _refuse_in_writes(asked)
        return TableStreamWriter(self._path(asked, writes=True), asked, schema, overwrite=overwrite)

    def _path(self, asked: CallOptions, schema: StructType | None = None, *, writes: bool = False) -> str:
        """The place as an absolute URL: tasks run in other folders than the driver."""
        if "paths" in asked.names:
            message = "format('indextables') reads one table at a time: load each path and use union"
            raise InvalidArgument(message, option="paths")
        path, carried = asked.path, _carried(schema)
        if path or carried:
            location = parse_location(path or carried or "")
            url = location.url
            if carried is not None and url != carried:
                message = f"the table of the catalog is the one at {carried}, the option path says {url}: load the path"
                raise InvalidArgument(message, option="path")
            if not location.outlives_process:
                message = f"{url} is in the memory of one process, and Spark works in several: use a folder or a store"
                raise InvalidArgument(message, option="path")
            return url
        if not writes and self.options.get("location"):
            return parse_location(self.options["location"]).url
        what = "write to" if writes else "read from"
        ways = _WAYS_TO_WRITE if writes else _WAYS_TO_READ
        message = (
            f"format('indextables') {NOT_TOLD} {what}: a table of the catalog loses its options in "
            f"Spark. What works: {ways}. Nothing was {'written' if writes else 'read'}"
        )
        raise InvalidArgument(message, option="path")


def _log(asked: CallOptions, url: str) -> Log:
    from indextables.log.care import open_log
    from indextables.table.environment import open_env

    return open_log(open_env(url, asked.table_options, session=asked.session))


def _version(asked: ReadOptions, log: Log) -> int | None:
    """The version to read, the last one of a feed; None for the newest. Once it is planned, `versionAsOf` tells it."""
    timestamp, version = asked.timestamp, asked.version
    if version is None and timestamp is None:
        timestamp, version = asked.ending_timestamp, asked.ending_version
    if timestamp is None:
        return version
    from indextables.spark.session import instant_ms

    is_number = timestamp.isascii() and timestamp.isdigit()
    options = log.env.options
    zone = options[opt.TIME_ZONE] if options.given(opt.TIME_ZONE) else None
    return log.snapshot(timestamp_ms=instant_ms(int(timestamp) if is_number else timestamp, zone)).version


def _shown(asked: ReadOptions, whole: StructType) -> StructType:
    """The columns that are asked for, and the score of a search."""
    names = asked.columns
    shown = whole
    if names is not None:
        spelled = {name.lower(): name for name in whole.names}
        missing = [name for name in names if name.lower() not in spelled]
        if missing or not names:
            there = ", ".join(whole.names)
            message = f"option columns: there is no column {', '.join(missing) or 'named'}; the table has {there}"
            raise InvalidArgument(message, option="columns")
        shown = StructType([whole[name] for name in dict.fromkeys(spelled[name.lower()] for name in names)])
    if asked.change_feed:
        from indextables.spark.source.feed_read import FEED_COLUMNS

        return StructType([*shown.fields, *FEED_COLUMNS])
    if asked.search is None:
        return shown
    if SCORE in (name.lower() for name in shown.names):
        message = f"the table has a column {SCORE!r} of its own: name the others in option columns"
        raise InvalidArgument(message, option="columns")
    return StructType([*shown.fields, StructField(SCORE, DoubleType())])


def _check_columns(asked: ReadOptions, schema: StructType) -> None:
    """Raises InvalidArgument where a schema of the reader's own says something else than the option `columns`."""
    names = asked.columns
    if names is None:
        return
    shown = [name.lower() for name in schema.names]
    if asked.search is not None:
        shown = [name for name in shown if name != SCORE]
    if asked.change_feed:
        shown = [name for name in shown if name not in _FEED_NAMES]
    if shown != list(dict.fromkeys(name.lower() for name in names)):
        message = "schema() and the option columns both say which columns are read: give one of them"
        raise InvalidArgument(message, option="columns")


def _names_a_version(asked: ReadOptions) -> bool:
    given = (asked.version, asked.timestamp, asked.ending_version, asked.ending_timestamp)
    return any(one is not None for one in given)


def _check_feed(asked: ReadOptions) -> None:
    """Raises InvalidArgument for what cannot be asked of a change feed, or of anything else."""
    ends = [name for name in (opt.ENDING_VERSION.key, opt.ENDING_TIMESTAMP.key) if name in asked.names]
    if len(ends) > 1 or (ends and not asked.change_feed):
        message = "endingVersion or endingTimestamp, one of them, goes with readChangeFeed"
        raise InvalidArgument(message, option=ends[0])
    alone = [name for name in (opt.NET_CHANGES.key, opt.SKIP_UNCHANGED.key) if name in asked.names]
    if alone and not asked.change_feed:
        raise InvalidArgument(f"{alone[0]} goes with readChangeFeed", option=alone[0])
    for name in (opt.SEARCH.key, opt.LIMIT.key) if asked.change_feed else ():
        if name in asked.names:
            raise InvalidArgument(f"a change feed has no {name}: use where, or limit() of the DataFrame", option=name)


def _refuse_in_writes(asked: WriteOptions) -> None:
    """Raises InvalidArgument for options of reads: an overwrite that heeds no `where` would replace every row."""
    _refuse_reading(
        asked,
        "{}: an option of reads, which a write does not heed. A filtered view is not written to: use the path; "
        "replaceWhere says which partitions an overwrite replaces. Nothing was written",
    )


def _for_catalog(asked: ReadOptions, whole: StructType, url: str) -> StructType:
    _refuse_reading(asked, f"a table of the catalog keeps its path only, so that it would forget {_BY_PATH}")
    carries = {PATH_KEY: url, OWN_KEY: False}
    fields = [
        StructField(f.name, f.dataType, f.nullable, {**(f.metadata or {}), **carries, COLUMN_KEY: f.name})
        for f in whole.fields
    ]
    return StructType(fields)


def _check_renamed(schema: StructType, url: str) -> None:
    """Raises SchemaMismatch if the catalog calls a column by another name than it was made with.

    The table may have another column of that name: its rows would be taken for those of the first.
    """
    told = {f.name: f.metadata.get(COLUMN_KEY, f.name) for f in schema.fields if carried_path(f.metadata) is not None}
    renamed = [f"{was} is called {name}" for name, was in told.items() if name.lower() != was.lower()]
    if renamed:
        message = f"the entry of the catalog has other columns than {url}: {', '.join(renamed)}. {how_to_renew(url)}"
        raise SchemaMismatch(message, differences=renamed)


def _refuse_reading(asked: CallOptions, why: str) -> None:
    """Raises InvalidArgument with `why`, where {} stands for the options of reads that were given; if there are any."""
    given = [name for name in READING if name in asked.names]
    if given:
        raise InvalidArgument(why.format(", ".join(given)), option=given[0])


def _carried(schema: StructType | None) -> str | None:
    """The path that the columns of a catalog table carry. Raises InvalidArgument if they do not agree."""
    told = (carried_path(field.metadata) for field in (schema.fields if schema is not None else ()))
    found = {path for path in told if path is not None}
    if len(found) > 1:
        message = f"the columns belong to {len(found)} tables ({', '.join(sorted(found))}): name the path to read from"
        raise InvalidArgument(message, option="path")
    return found.pop() if found else None
