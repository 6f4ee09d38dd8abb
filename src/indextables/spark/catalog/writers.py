"""`df.write` and `df.writeTo` in a session with `enable`: ours where format or table is ours, else Spark's own.

A writer of Spark's gets a class of ours, which notes what it is told and hands it on. Only the last call decides: if it
is about us, the noted wishes are carried out by `indextables.write` and the catalog; if not, Spark does what it would.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from indextables import options as opt
from indextables.errors import InvalidArgument, NotSupported
from indextables.spark.catalog.entries import check_free, full_name
from indextables.spark.catalog.making import IfThere, NewTable, make_table
from indextables.spark.session import SESSION, registry
from indextables.spark.source import write
from indextables.storage.url import parse_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["noting_writer", "noting_writer_v2"]

_FORMAT = "indextables"
_IF_THERE: dict[str, IfThere] = {"error": "error", "errorifexists": "error", "default": "error", "ignore": "ignore"}


class _Told:
    """What a writer was told so far."""

    def __init__(self, df: DataFrame, name: str = "") -> None:
        self.df = df
        self.name = name
        self.format: str | None = None
        self.mode = "error"
        self.options: dict[str, Any] = {}
        self.properties: dict[str, str] = {}
        self.partition_by: list[str] = []
        self.is_sparks = False
        """True once something was said that only Spark can refuse."""

    def note(self, mode: str | None = None, partition_by: Any = None, **options: Any) -> None:
        if mode is not None:
            self.mode = mode
        if partition_by is not None:
            listed = [partition_by] if isinstance(partition_by, str) else list(partition_by)
            flat = listed[0] if len(listed) == 1 and isinstance(listed[0], list | tuple) else listed
            self.partition_by = [str(name) for name in flat]
        self.options |= {key: value for key, value in options.items() if value is not None}

    def takes_path(self, given: str | None) -> str | None:
        """The place that is named, taken out of the options."""
        keys = [key for key in self.options if key.lower() == "path"]
        named = [self.options.pop(key) for key in keys]
        return given if given is not None else (named[-1] if named else None)

    @property
    def is_ours(self) -> bool:
        """True if the format is ours. Writes of this library itself carry the session and go to Spark."""
        return (self.format or "").lower() == _FORMAT and not self.is_sparks and SESSION not in self.options


class _Noting:
    """Methods of a DataFrameWriter, over those of Spark's class."""

    _told: _Told

    def format(self, source: str) -> Any:
        self._told.format = source
        return super().format(source)  # type: ignore[misc]

    def mode(self, saveMode: str | None) -> Any:
        self._told.note(mode=saveMode)
        return super().mode(saveMode)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        self._told.note(**{key: value})
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        self._told.note(**options)
        return super().options(**options)  # type: ignore[misc]

    def partitionBy(self, *cols: Any) -> Any:
        self._told.note(partition_by=cols)
        return super().partitionBy(*cols)  # type: ignore[misc]

    def bucketBy(self, *args: Any) -> Any:
        self._told.is_sparks = True
        return super().bucketBy(*args)  # type: ignore[misc]

    def sortBy(self, *args: Any) -> Any:
        self._told.is_sparks = True
        return super().sortBy(*args)  # type: ignore[misc]

    def clusterBy(self, *cols: Any) -> Any:
        self._told.is_sparks = True
        return super().clusterBy(*cols)  # type: ignore[misc]

    def save(
        self,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 - Spark's signature
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> int | None:
        """As in Spark; for `indextables` every mode and `partitionBy` work, and the version is returned."""
        told = self._told
        told.format = format or told.format
        told.note(mode, partitionBy, **options)
        place = told.takes_path(path) if told.is_ours else None
        if place is None:
            super().save(path, format, mode, partitionBy, **options)  # type: ignore[misc]
            return None
        # `mode` is checked where it is used.
        wanted: Any = told.mode
        return write(told.df, place, wanted, partitionBy=told.partition_by or None, options=told.options)

    def saveAsTable(
        self,
        name: str,
        format: str | None = None,  # noqa: A002 - Spark's signature
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> int | None:
        """As in Spark; a table of ours is made with its rows, or gets them."""
        told = self._told
        told.format = format or told.format
        spark = told.df.sparkSession
        if told.format is None and registry.entry_of(spark, name) is not None:
            told.format = _FORMAT
        told.note(mode, partitionBy, **options)
        if not told.is_ours:
            if told.mode.lower() == "overwrite" and (told.format or "").lower() != _FORMAT:
                check_free(spark, name)
            super().saveAsTable(name, format, mode, partitionBy, **options)  # type: ignore[misc]
            return None
        return _save_as_table(told, name)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:  # noqa: FBT001 - Spark's signature
        """As in Spark: columns go by their place. Spark casts them as in an INSERT."""
        told = self._told
        if SESSION in told.options or _url_of(told, tableName) is None:
            super().insertInto(tableName, overwrite)  # type: ignore[misc]
            return
        replaces = told.mode == "overwrite" if overwrite is None else overwrite
        _insert(told.df, tableName, "OVERWRITE" if replaces else "INTO")


class _NotingV2:
    """Methods of a DataFrameWriterV2, over those of Spark's class."""

    _told: _Told

    def using(self, provider: str) -> Any:
        self._told.format = provider
        return super().using(provider)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        self._told.note(**{key: value})
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        self._told.note(**options)
        return super().options(**options)  # type: ignore[misc]

    def tableProperty(self, property: str, value: str) -> Any:  # noqa: A002 - Spark's signature
        self._told.properties[property] = value
        return super().tableProperty(property, value)  # type: ignore[misc]

    def partitionedBy(self, col: Any, *cols: Any) -> Any:
        self._told.partition_by = [_column_name(one) for one in (col, *cols)]
        return super().partitionedBy(col, *cols)  # type: ignore[misc]

    def clusterBy(self, col: Any, *cols: Any) -> Any:
        self._told.is_sparks = True
        return super().clusterBy(col, *cols)  # type: ignore[misc]

    def create(self) -> int | None:
        return self._made("error") if self._told.is_ours else super().create()  # type: ignore[misc]

    def replace(self) -> int | None:
        if not self._told.is_ours:
            check_free(self._told.df.sparkSession, self._told.name)
        return self._made("must") if self._told.is_ours else super().replace()  # type: ignore[misc]

    def createOrReplace(self) -> int | None:
        if not self._told.is_ours:
            check_free(self._told.df.sparkSession, self._told.name)
        return self._made("replace") if self._told.is_ours else super().createOrReplace()  # type: ignore[misc]

    def append(self) -> int | None:
        url = self._url()
        return super().append() if url is None else self._written(url, "append")  # type: ignore[misc]

    def overwritePartitions(self) -> int | None:
        """Replace the partitions that the rows are in."""
        url = self._url()
        if url is None:
            super().overwritePartitions()  # type: ignore[misc]
            return None
        self._told.note(**{opt.PARTITION_OVERWRITE_MODE.key: "dynamic"})
        return self._written(url, "overwrite")

    def overwrite(self, condition: Any) -> int | None:
        url = self._url()
        if url is None:
            super().overwrite(condition)  # type: ignore[misc]
            return None
        message = (
            "overwrite(condition) is not offered for tables of IndexTables, to which Spark gives no text of a Column: "
            f"indextables.write(df, {url!r}, mode='overwrite', replaceWhere='<predicate>'). Nothing was written"
        )
        raise NotSupported(message, url=url)

    def _made(self, if_there: IfThere) -> int | None:
        told = self._told
        return make_table(told.df.sparkSession, _new(told, told.name, if_there), told.df)

    def _url(self) -> str | None:
        """Where the table is, if it is ours and the call names no place of its own."""
        told = self._told
        if told.is_sparks or any(key.lower() == "path" for key in told.options):
            return None
        return _url_of(told, told.name)

    def _written(self, url: str, mode: Any) -> int | None:
        return write(self._told.df, url, mode, options=self._told.options)


def noting_writer(writer: Any, df: DataFrame) -> Any:
    """The writer of a DataFrame, which notes what it is told."""
    return _noting(writer, _Noting, _Told(df))


def noting_writer_v2(writer: Any, df: DataFrame, table: str) -> Any:
    """The writer of `writeTo`, which notes what it is told."""
    return _noting(writer, _NotingV2, _Told(df, table))


def _noting(writer: Any, methods: type, told: _Told) -> Any:
    base = type(writer)
    writer.__class__ = type(base.__name__, (methods, base), {"__doc__": base.__doc__, "__module__": base.__module__})
    writer._told = told  # noqa: SLF001 - an object that was just made
    return writer


def _url_of(told: _Told, name: str) -> str | None:
    try:
        return registry.find(told.df.sparkSession, name)
    except InvalidArgument:
        return None


def _new(told: _Told, name: str, if_there: IfThere) -> NewTable:
    location = told.takes_path(None)
    return NewTable(
        name=name,
        location=location,
        partition_by=tuple(told.partition_by),
        properties=told.properties,
        options=dict(told.options),
        if_there=if_there,
    )


def _save_as_table(told: _Told, name: str) -> int | None:
    spark, mode = told.df.sparkSession, told.mode.lower()
    if mode in _IF_THERE:
        return make_table(spark, _new(told, name, _IF_THERE[mode]), told.df)
    if mode not in ("append", "overwrite"):
        raise InvalidArgument(f"mode is error, append, overwrite or ignore, not {told.mode!r}", option="mode")
    entry = registry.entry_of(spark, full_name(spark, name))
    partial = {key.lower() for key in told.options} & {"replacewhere", "partitionoverwritemode"}
    if entry is None or (mode == "overwrite" and not partial):
        return make_table(spark, _new(told, name, "replace"), told.df)
    place = told.takes_path(None)
    if place is not None and parse_location(place).url != entry.url:
        raise InvalidArgument(f"{name} is at {entry.url}, the option path says {place}", option="path")
    wanted: Any = mode
    return write(told.df, entry.url, wanted, partitionBy=told.partition_by or None, options=told.options)


def _insert(df: DataFrame, name: str, how: str) -> None:
    view = f"indextables_{uuid.uuid4().hex}"
    spark = df.sparkSession
    df.createOrReplaceTempView(view)
    try:
        spark.sql(f"INSERT {how} {registry.quoted(name)} SELECT * FROM `{view}`")  # noqa: S608 - quoted
    finally:
        spark.catalog.dropTempView(view)


def _column_name(column: Any) -> str:
    """The name of a column that is given as one. Raises NotSupported for what is computed."""
    if isinstance(column, str):
        return column
    text = str(column).removeprefix("Column<'").removesuffix("'>")
    if not text.replace("_", "a").replace("`", "").replace(" ", "a").isalnum():
        message = (
            f"partitionedBy({text}): a table of IndexTables is partitioned by columns: add one that holds the value"
        )
        raise NotSupported(message, column=text)
    return text.strip("`")
