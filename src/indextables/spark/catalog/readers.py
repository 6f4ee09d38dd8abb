"""`spark.read` and `spark.table` in a session with `enable`: Spark's own Parquet reader, where the call allows it.

A call with a schema of its own, a search, a limit or the feed of changes is for the Python reader, which Spark calls.
All else becomes `IndexTable.toDF`: the same rows and columns, and filters of the query reach Parquet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.spark.session import READING, SESSION, ReadOptions, is_of_server, raising_ours, registry
from indextables.spark.table import IndexTable
from indextables.storage.url import parse_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["noting_reader", "table_of"]

_FORMAT = "indextables"
_NATIVE = frozenset({opt.WHERE.key, opt.COLUMNS.key, opt.VERSION_AS_OF.key, opt.TIMESTAMP_AS_OF.key})


def table_of(spark: SparkSession, name: Any, options: dict[str, Any] | None = None) -> DataFrame | None:
    """The rows of a table of ours by its name; None if it is none, or if the options are for the Python reader."""
    if not isinstance(name, str):
        return None
    try:
        url = registry.find(spark, name)
    except InvalidArgument:
        return None
    return None if url is None else _native(spark, url, options or {})


def noting_reader(reader: Any, spark: SparkSession) -> Any:
    """A reader of Spark's, which notes what it is told."""
    base = type(reader)
    reader.__class__ = type(base.__name__, (_Noting, base), {"__doc__": base.__doc__, "__module__": base.__module__})
    reader._session_of_ours = spark  # noqa: SLF001 - an object that was just made
    reader._noted = {"format": None, "schema": None, "options": {}}  # noqa: SLF001
    return reader


class _Noting:
    """Methods of a DataFrameReader, over those of Spark's class."""

    _session_of_ours: SparkSession
    _noted: dict[str, Any]

    def format(self, source: str) -> Any:
        self._noted["format"] = source
        return super().format(source)  # type: ignore[misc]

    def schema(self, schema: Any) -> Any:
        self._noted["schema"] = schema
        return super().schema(schema)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        self._noted["options"][key] = value
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        self._noted["options"] |= options
        return super().options(**options)  # type: ignore[misc]

    def load(self, path: Any = None, format: Any = None, schema: Any = None, **options: Any) -> DataFrame:  # noqa: A002
        """As in Spark."""
        noted = self._noted
        wanted = format or noted["format"]
        if not isinstance(wanted, str) or wanted.lower() != _FORMAT:
            return super().load(path, format, schema, **options)  # type: ignore[misc]
        given = {**noted["options"], **options}
        keys = [key for key in given if key.lower() == "path"]
        place = path if path is not None else (given[keys[-1]] if keys else None)
        others = {key: value for key, value in given.items() if key not in keys}
        if isinstance(place, str) and schema is None and noted["schema"] is None:
            frame = _native(self._session_of_ours, place, others)
            if frame is not None:
                return frame
        with raising_ours():
            return super().load(path, format, schema, **options)  # type: ignore[misc]

    def table(self, tableName: str) -> DataFrame:
        """As in Spark."""
        frame = table_of(self._session_of_ours, tableName, self._noted["options"])
        return super().table(tableName) if frame is None else frame  # type: ignore[misc]


def _native(spark: SparkSession, place: str, given: dict[str, Any]) -> DataFrame | None:
    """The rows as `IndexTable.toDF` gives them; None if an option is for the Python reader. Raises InvalidArgument."""
    texts = {key: _text(value) for key, value in given.items() if value is not None}
    asked = ReadOptions.of(texts)
    if (
        SESSION in texts
        or asked.path is not None
        or any(name in READING and name not in _NATIVE for name in asked.names)
    ):
        return None
    if is_of_server(parse_location(place).url):
        return None
    timestamp: Any = asked.timestamp
    if timestamp is not None and timestamp.isascii() and timestamp.isdigit():
        timestamp = int(timestamp)
    table = IndexTable.forPath(spark, place, asked.table_options)
    return table.toDF(asked.where, asked.columns, asked.version, timestamp)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
