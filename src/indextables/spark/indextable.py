"""`IndexTable`: a table as a Spark program sees it, in the manner of DeltaTable."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indextables import options as opt
from indextables.errors import InvalidArgument, TableNotFound
from indextables.log.history import history
from indextables.log.snapshot import Log, Snapshot
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.spark import registry
from indextables.spark.builder import TableBuilder
from indextables.spark.handle import SparkHandle
from indextables.spark.merging import Merging
from indextables.spark.scan_native import native_scan
from indextables.spark.source import spark_schema
from indextables.table.arguments import check_count, check_version, millis
from indextables.table.environment import table_env
from indextables.table.inspect import detail_of, live_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["IndexTable"]


class IndexTable(Merging, SparkHandle):
    """A table and the session that works with it. Every call sees the newest version, unless it names another."""

    @classmethod
    def forPath(  # noqa: N802 - Spark's manner
        cls, spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, object] | None = None
    ) -> IndexTable:
        """The table at a path or URL. Raises TableNotFound, InvalidArgument."""
        table = cls(spark, path, options)
        table.log().latest_version()
        return table

    @classmethod
    def forName(  # noqa: N802 - Spark's manner
        cls, spark: SparkSession, name: str, options: Mapping[str, object] | None = None
    ) -> IndexTable:
        """The table of this name in the session. Raises TableNotFound, InvalidArgument."""
        return cls.forPath(spark, registry.resolve(spark, name), options)

    @classmethod
    def isIndexTable(  # noqa: N802 - Spark's manner
        cls, spark: SparkSession, path: str | os.PathLike[str], options: Mapping[str, object] | None = None
    ) -> bool:
        """True if there is a table at this path. Raises StoreError where the store does not tell."""
        try:
            cls.forPath(spark, path, options)
        except TableNotFound:
            return False
        return True

    @classmethod
    def create(cls, spark: SparkSession) -> TableBuilder[IndexTable]:
        """Begin to describe a table; `execute()` makes it, or fails if there is one."""
        return TableBuilder(spark, cls, "error")

    @classmethod
    def createIfNotExists(cls, spark: SparkSession) -> TableBuilder[IndexTable]:  # noqa: N802 - Spark's manner
        """As `create`; a table with the same schema and partitioning is taken as it is."""
        return TableBuilder(spark, cls, "ignore")

    # What is it?

    @property
    def version(self) -> int:
        """The newest version."""
        return self.log().latest_version()

    def schema(self) -> StructType:
        """The columns."""
        return spark_schema(self.log().metadata_at()[2].schemaString)

    def detail(self) -> DataFrame:
        """One row: id, name, url, version, files, bytes, rows, partition columns, properties, protocol."""
        found = detail_of(self.log().snapshot(), self.url)
        properties = found.pop("properties")
        plain = pa.Table.from_pylist([found], schema=_detail_schema())
        pairs = pa.array([list(properties.items())], pa.map_(pa.string(), pa.string()))
        return self.spark.createDataFrame(plain.append_column("properties", pairs))

    def history(self, limit: int | None = None) -> DataFrame:
        """One row per commit, newest first. Raises InvalidArgument for a limit below 1."""
        check_count("limit", limit, least=1)
        return self.spark.createDataFrame(history(self.log(), limit))

    # Read

    def toDF(  # noqa: N802 - Spark's manner
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        versionAsOf: int | None = None,  # noqa: N803 - Spark's manner
        timestampAsOf: dt.datetime | str | int | None = None,  # noqa: N803 - Spark's manner
    ) -> DataFrame:
        """The rows, read by Spark itself. The DataFrame stays at the version that is newest now.

        `where` leaves out splits before Spark plans and is answered exactly; a later `.where()` only filters rows.
        Columns have the names and types of the table and may be null for Spark.

        Raises QueryInvalid, InvalidArgument, VersionNotFound, VersionExpired, NotSupported for tables of another
        system.
        """
        log = self.log()
        snapshot = _snapshot(log, versionAsOf, timestampAsOf)
        env = table_env(log.env, snapshot.metadata)
        return native_scan(
            self.spark,
            env,
            snapshot,
            columns=columns,
            where=_predicate(where, snapshot, env.options),
            text=where,
            fallback=self.reader_options(),
        )

    def count(self, query: str | None = None, where: str | None = None) -> int:
        """How many rows match; all rows are counted from the log, without opening a file. Raises as `search`."""
        log = self.log()
        snapshot = log.snapshot()
        if query is None and where is None:
            known = live_rows(snapshot.files)
            if known is not None:
                return known
        return int(self.toDF(where).count())

    def __repr__(self) -> str:
        return f"IndexTable({self.url!r})"


def _snapshot(log: Log, version: int | None, timestamp: dt.datetime | str | int | None) -> Snapshot:
    if version is not None and timestamp is not None:
        raise InvalidArgument("give versionAsOf or timestampAsOf, not both")
    if timestamp is not None:
        return log.snapshot(timestamp_ms=millis(timestamp))
    return log.snapshot(None if version is None else check_version(version))


def _predicate(where: Any, snapshot: Snapshot, options: opt.Options) -> Node | None:
    if where is None:
        return None
    if not isinstance(where, str):
        message = f"where is a SQL predicate as text, not {where!r}: a Column goes to .where() of the DataFrame"
        raise InvalidArgument(message)
    return parse(where, snapshot.schema, time_zone=options[opt.TIME_ZONE])


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
