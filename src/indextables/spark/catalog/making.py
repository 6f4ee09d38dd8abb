"""A new table with a name of the catalog: by its columns, by rows, or one that is at its place already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from indextables.errors import InvalidArgument, NotSupported, SchemaMismatch, TableNotFound
from indextables.spark.catalog.entries import default_location, full_name, is_taken, make_entry, renew_entry
from indextables.spark.session import READING, is_of_server, registry
from indextables.spark.source import write
from indextables.spark.tasks import SparkHandle
from indextables.storage.url import parse_location
from indextables.table.alter import SetNames, SetProperties, alter
from indextables.table.create import create, given_properties
from indextables.table.overwrite import overwrite
from indextables.table.rows import DEFAULT_PREFIX, Rows, check_partition_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from indextables.log.read import Log

__all__ = ["IfThere", "NewTable", "make_table"]

IfThere: TypeAlias = Literal["error", "ignore", "replace", "must"]
"""What a table that has the name means; `must`: there has to be one, and it is replaced."""


class NewTable(msgspec.Struct, frozen=True):
    """What a table shall be. Without columns and rows it is the one that is at `location`."""

    name: str
    columns: pa.Schema | None = None
    location: str | None = None
    partition_by: tuple[str, ...] = ()
    comment: str | None = None
    properties: dict[str, str] = {}
    options: dict[str, Any] = {}
    """Those of the one write that brings the rows."""
    if_there: IfThere = "error"


def make_table(spark: SparkSession, asked: NewTable, rows: DataFrame | None = None) -> int | None:
    """Make the table and its entry; the version that it has then, None where the table that is there stays as it is.

    Raises InvalidArgument, SchemaInvalid, SchemaMismatch, NotSupported for a name of another catalog or format,
    TableNotFound, CommitStateUnknown. Where the table cannot be made, there is no entry.
    """
    full = full_name(spark, asked.name)
    _check(asked)
    entry = registry.entry_of(spark, full)
    taken = entry is not None or is_taken(spark, full)
    if taken and asked.if_there == "ignore":
        return None
    if taken and asked.if_there == "error":
        message = (
            f"there is a table or view {asked.name} in the catalog: write CREATE TABLE IF NOT EXISTS to keep it, "
            "CREATE OR REPLACE TABLE to replace its rows and columns, or DROP TABLE first"
        )
        raise InvalidArgument(message, name=asked.name)
    if taken and entry is None:
        message = f"{asked.name} is in the catalog and no table of IndexTables: DROP it first. Nothing was written"
        raise NotSupported(message, name=asked.name)
    if entry is None and asked.if_there == "must":
        raise TableNotFound(f"there is no table {asked.name} to replace: CREATE OR REPLACE TABLE", name=asked.name)
    if entry is not None:
        return _replaced(spark, full, entry, asked, rows)
    is_managed = asked.location is None
    handle = SparkHandle(spark, default_location(spark, full) if asked.location is None else asked.location)
    if is_of_server(handle.url):
        message = f"{handle.url} is a folder of the server, which this client does not see: LOCATION '<url of a store>'"
        raise NotSupported(message, url=handle.url)
    version = _made(handle, asked, rows)
    make_entry(spark, full, handle.url, handle.log().metadata_at().metadata, is_managed=is_managed)
    return version


def _check(asked: NewTable) -> None:
    given = {key.lower().removeprefix("spark.indextables.") for key in asked.properties}
    reading = [name for name in READING if name.lower() in given]
    if reading:
        message = (
            f"{', '.join(reading)}: an option of reads, which a table of the catalog does not keep. Make a temporary "
            "view with it: CREATE TEMPORARY VIEW v USING indextables OPTIONS (path '...', ...)"
        )
        raise InvalidArgument(message, option=reading[0])


def _made(handle: SparkHandle, asked: NewTable, rows: DataFrame | None) -> int | None:
    """A table where none is, or the one that is there if only its place was named."""
    log = handle.log()
    if rows is not None:
        indexing, others = _properties(asked)
        _check_no_defaults(others)
        write(
            rows,
            handle.url,
            "error",
            partitionBy=list(asked.partition_by) or None,
            options={**asked.options, **indexing},
        )
        return _told(handle, asked, others)
    if asked.columns is None:
        if asked.location is None:
            message = (
                f"{asked.name} has no columns: write CREATE TABLE {asked.name} (<column> <type>, ...) USING indextables"
            )
            raise InvalidArgument(message, name=asked.name)
        return _attached(log, asked)
    taken = (
        f"there is a table at {log.url} already, where {asked.name} would be: CREATE TABLE {asked.name} USING "
        f"indextables LOCATION '{log.url}' gives it the name. Nothing was written"
    )
    try:
        made = create(
            log,
            asked.columns,
            partition_by=asked.partition_by,
            properties=given_properties(asked.properties),
            name=asked.name,
            description=asked.comment,
        )
    except SchemaMismatch as error:
        if asked.location is not None:
            raise
        raise InvalidArgument(taken, url=log.url) from error
    if not made.is_new and asked.location is None:
        raise InvalidArgument(taken, url=log.url)
    return made.version


def _attached(log: Log, asked: NewTable) -> int:
    try:
        version = log.latest_version()
    except TableNotFound as error:
        message = (
            f"{error.args[0]}. To make one there, name its columns: CREATE TABLE {asked.name} (<column> <type>, ...)"
        )
        raise TableNotFound(message, url=log.url) from error
    given = [word for word, value in (("PARTITIONED BY", asked.partition_by), ("COMMENT", asked.comment)) if value]
    given += ["TBLPROPERTIES"] if asked.properties else []
    if given:
        message = f"{', '.join(given)}: the table at {log.url} is there and keeps what it has. ALTER TABLE changes it"
        raise InvalidArgument(message, url=log.url)
    return version


def _replaced(
    spark: SparkSession, full: str, entry: registry.Entry, asked: NewTable, rows: DataFrame | None
) -> int | None:
    """The same table with other columns and rows, in one version; older versions stay readable."""
    if asked.location is not None and parse_location(asked.location).url != entry.url:
        message = f"{asked.name} is at {entry.url}: DROP TABLE it first to have the name elsewhere. Nothing was written"
        raise InvalidArgument(message, url=entry.url)
    handle = SparkHandle(spark, entry.url)
    indexing, others = _properties(asked)
    _check_no_defaults(others)
    if rows is not None:
        partition_by = list(asked.partition_by)
        options = {**asked.options, **indexing, "overwriteSchema": "true"}
        write(rows, entry.url, "overwrite", partitionBy=partition_by, options=options)
    elif asked.columns is not None:
        log = SparkHandle(spark, entry.url, indexing).log()
        columns = check_partition_columns(asked.columns, asked.partition_by)
        before = log.snapshot()
        overwrite(log, before, Rows(asked.columns, ()), since=before, overwrite_schema=True, partition_by=columns)
    else:
        raise InvalidArgument(f"{asked.name} has no columns: name them, or write AS SELECT ...", name=asked.name)
    version = _told(handle, asked, others)
    renew_entry(spark, full, entry)
    return version


def _properties(asked: NewTable) -> tuple[dict[str, str], dict[str, str]]:
    """How columns are indexed, which the rows need at once, and the other properties."""
    given = given_properties(asked.properties)
    indexing = {
        key: value
        for key, value in given.items()
        if key.lower().removeprefix("spark.indextables.").startswith("indexing.")
    }
    return indexing, {key: value for key, value in given.items() if key not in indexing}


def _check_no_defaults(properties: dict[str, str]) -> None:
    """Raises NotSupported where columns of a table that has rows, or had some, are to have defaults at once."""
    named = [key.partition(".")[2] for key in properties if key.lower().startswith(DEFAULT_PREFIX)]
    if named:
        message = (
            f"DEFAULT of {', '.join(named)}: a table is replaced first, then ALTER TABLE t ALTER COLUMN {named[0]} SET "
            "DEFAULT <constant>. Nothing was written"
        )
        raise NotSupported(message, columns=named)


def _told(handle: SparkHandle, asked: NewTable, properties: dict[str, str]) -> int:
    """Write down the properties and the comment; the newest version."""
    if properties:
        alter(handle.log(), SetProperties(properties))
    if asked.comment is not None:
        alter(handle.log(), SetNames(description=asked.comment))
    return handle.log().latest_version()
