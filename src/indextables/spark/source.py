"""`format("indextables")`: the door that works in every session, classic or Connect.

Spark runs planning, tasks and the commit in separate Python workers; everything that passes between them is plain data.
Filters of a query are not pushed down: Spark 4.3 keeps one plan per `load()`, so that a plan pruned for one query would
be used by the next one and lose rows. What prunes is an option of the `load()` itself: `where`, `versionAsOf`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from indextables.errors import InvalidArgument, NotSupported
from indextables.storage.url import parse_location

if TYPE_CHECKING:
    from indextables.log.snapshot import Log

__all__ = ["IndexTablesSource", "drop_ids", "spark_schema"]

_LATER = ("search", "columns", "limit")
_OWN = frozenset(
    {"path", "where", "versionasof", "timestampasof", "partitionby", "replacewhere", "txnappid", "txnversion"}
)


class IndexTablesSource(DataSource):  # type: ignore[misc]
    """A table at the option `path`."""

    _is_pinned = False
    """True if the user named a version or time to read."""

    @classmethod
    def name(cls) -> str:
        return "indextables"

    def schema(self) -> StructType:
        """The columns at the version that reads of this DataFrame are pinned to."""
        log = self._log()
        version, _, metadata = log.metadata_at(self._version(log))
        self._is_pinned = "versionAsOf" in self.options or "timestampAsOf" in self.options
        self.options["versionAsOf"] = str(version)
        self.options.pop("timestampasof", None)
        return spark_schema(metadata.schemaString)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the pinned version. Raises InvalidArgument, NotSupported, TableNotFound, QueryInvalid."""
        from indextables.spark.read import TableReader

        for name in _LATER:
            if name in self.options:
                message = f"option {name!r} is not offered by format('indextables') yet: use DataFrame operations"
                raise NotSupported(message, option=name)
        log = self._log()
        return TableReader(
            url=self._path(),
            options=self._table_options(),
            version=self._version(log),
            schema=schema,
            where=self.options.get("where"),
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Appends or overwrites; a table that is not there is made by the commit. Raises SchemaMismatch at once."""
        from indextables.spark.write import TableWriter

        return TableWriter(
            url=self._path(),
            options=self._table_options(),
            settings=dict(self.options),
            schema=schema,
            overwrite=overwrite,
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads what is added to the table, from the version on that the query was planned with or an option names.

        Raises InvalidArgument for a version or time that a stream cannot be pinned to.
        """
        from indextables.spark.stream_read import TableStreamReader

        if self._is_pinned:
            message = "a stream has no versionAsOf or timestampAsOf: say startingVersion or startingTimestamp"
            raise InvalidArgument(message, option="versionAsOf")
        return TableStreamReader(
            url=self._path(),
            options=self._table_options(),
            schema=schema,
            version=self._version(self._log()),
            where=self.options.get("where"),
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001 - as writer
        """Appends every micro-batch once. Raises SchemaMismatch at once, NotSupported for outputMode complete."""
        from indextables.spark.stream_write import TableStreamWriter

        return TableStreamWriter(
            url=self._path(),
            options=self._table_options(),
            settings=dict(self.options),
            schema=schema,
            overwrite=overwrite,
        )

    def _path(self) -> str:
        """The place as an absolute URL: tasks run in other folders than the driver."""
        path = self.options.get("path")
        if not path:
            message = (
                "format('indextables') needs a path: load(path), save(path), or option('path', ...). Tables of the "
                "catalog lose their options in Spark: use a temporary view over load(path), or INSERT INTO t "
                "WITH (path='...')"
            )
            raise InvalidArgument(message)
        return parse_location(path).url

    def _table_options(self) -> dict[str, object]:
        return {key: value for key, value in dict(self.options).items() if key.lower() not in _OWN}

    def _log(self) -> Log:
        from indextables.log.snapshot import Log
        from indextables.table.environment import open_env

        return Log(open_env(self._path(), self._table_options()))

    def _version(self, log: Log) -> int | None:
        version, timestamp = self.options.get("versionAsOf"), self.options.get("timestampAsOf")
        if version is not None and timestamp is not None:
            raise InvalidArgument("give versionAsOf or timestampAsOf, not both")
        if timestamp is not None:
            from indextables.table.arguments import millis

            return log.snapshot(timestamp_ms=millis(timestamp)).version
        if version is None:
            return None
        if not version.isdigit():
            raise InvalidArgument(f"versionAsOf = {version!r} is no version", option="versionAsOf", value=version)
        return int(version)


def spark_schema(text: str) -> StructType:
    """The schema of the log as Spark has it, without our ids."""
    parsed = json.loads(text)
    drop_ids(parsed)
    return StructType.fromJson(parsed)


def drop_ids(node: Any) -> None:
    """Take our ids out of a schema as JSON values, in place: they belong to one table."""
    if isinstance(node, Mapping):
        metadata = node.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("indextables.id", None)
        for child in node.values():
            drop_ids(child)
    elif isinstance(node, list):
        for child in node:
            drop_ids(child)
