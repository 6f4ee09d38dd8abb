"""Entries of Spark's session catalog: made, renewed and dropped. An entry is external, so that Spark deletes no rows.

Spark keeps of a table in a Python source its columns and nothing else. So the columns carry what an entry is: the path,
what the table calls each column, and whether the catalog chose the place.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from indextables.errors import InvalidArgument, NotSupported, ObjectNotFound, TableNotFound
from indextables.spark.session import COLUMN_KEY, OWN_KEY, PATH_KEY, registry, spark_schema
from indextables.spark.tasks import SparkHandle
from indextables.table.maintenance import check_droppable, drop_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from indextables.log.wire import Metadata

__all__ = ["check_free", "default_location", "drop_named", "full_name", "is_taken", "make_entry", "renew_entry"]

_SESSION_CATALOG = "spark_catalog"
_PARTS = 3


def full_name(spark: SparkSession, name: str) -> str:
    """`spark_catalog.<schema>.<table>`, quoted: no temporary view is meant by it.

    Raises NotSupported for a table of another catalog, InvalidArgument for what is not a name.
    """
    registry.key_of_name(name)
    parts = [part.strip().strip("`") for part in name.split(".")]
    if len(parts) == 1:
        parts = [spark.catalog.currentDatabase(), *parts]
    if len(parts) == _PARTS - 1:
        parts = [spark.catalog.currentCatalog(), *parts]
    if len(parts) != _PARTS or parts[0].lower() != _SESSION_CATALOG:
        message = (
            f"{name!r} is in a catalog of its own, and tables of IndexTables have names in {_SESSION_CATALOG}: write "
            f"{_SESSION_CATALOG}.default.{parts[-1]}, or USE {_SESSION_CATALOG}.default first"
        )
        raise NotSupported(message, name=name)
    return ".".join(f"`{part}`" for part in parts)


def is_taken(spark: SparkSession, full: str) -> bool:
    """True if the catalog has a table or view of this full name, whoever's it is."""
    return bool(spark.catalog.tableExists(full))


def check_free(spark: SparkSession, name: str) -> None:
    """Raises NotSupported for the name of a table of ours that a table of another format would replace.

    Spark would take the entry away first, and then find the rows of our table in its place.
    """
    try:
        entry = registry.entry_of(spark, full_name(spark, name))
    except (InvalidArgument, NotSupported):
        return
    if entry is not None:
        message = (
            f"{name} is a table of IndexTables at {entry.url}, which a table of another format does not replace: DROP "
            f"TABLE {name} first, or write USING indextables. Nothing was written"
        )
        raise NotSupported(message, name=name)


def default_location(spark: SparkSession, full: str) -> str:
    """Where the catalog puts a table that names no place: in the folder of its schema. Raises InvalidArgument."""
    _, schema, table = (part.strip("`") for part in full.split("."))
    found = spark.catalog.getDatabase(f"`{_SESSION_CATALOG}`.`{schema}`").locationUri
    if not found:
        raise InvalidArgument(f"the schema {schema} has no place for tables: write LOCATION '<path>'", name=table)
    return f"{found.rstrip('/')}/{table.lower()}"


def make_entry(spark: SparkSession, full: str, url: str, metadata: Metadata, *, is_managed: bool) -> None:
    """Let a name of the catalog mean the table at `url`, which has this metadata. Spark looks at no file of it."""
    from pyspark.sql.types import StructField, StructType

    carries = {PATH_KEY: url, OWN_KEY: False, **({registry.MANAGED_KEY: True} if is_managed else {})}
    fields = [
        StructField(f.name, f.dataType, f.nullable, {**(f.metadata or {}), **carries, COLUMN_KEY: f.name})
        for f in spark_schema(metadata.schemaString).fields
    ]
    made = spark.catalog.createTable(full, path=url, source="indextables", schema=StructType(fields))
    # Connect makes the entry when it is asked what it has.
    _ = made.schema


def renew_entry(spark: SparkSession, full: str, entry: registry.Entry) -> None:
    """Give an entry the columns that its table has now: sessions that are not ours read by them."""
    metadata = SparkHandle(spark, entry.url).log().metadata_at().metadata
    type(spark).sql(spark, f"DROP TABLE IF EXISTS {full}")
    make_entry(spark, full, entry.url, metadata, is_managed=entry.is_managed)


def drop_named(spark: SparkSession, full: str, entry: registry.Entry) -> int:
    """Take a name out of the catalog, with the rows if the catalog chose their place; how many objects were deleted.

    What must not be deleted keeps its name. The name goes first: what is left by a delete that fails is in nobody's way
    but that of its place.
    """
    log = SparkHandle(spark, entry.url).log() if entry.is_managed else None
    if log is not None:
        with suppress(TableNotFound, ObjectNotFound):
            check_droppable(log)
    type(spark).sql(spark, f"DROP TABLE IF EXISTS {full}")
    if log is None:
        return 0
    try:
        return drop_table(log)
    except (TableNotFound, ObjectNotFound):
        return 0
