"""Which table does a name mean? Names of a session are kept in its configuration, so that Connect has them too.

`spark.indextables.tables.<name>` holds the URL of the table. Names are compared in lower case and without the catalog
`spark_catalog` and the schema `default`, as Spark does. A table of Spark's catalog that was made with a path is found
by the path that its columns carry. A view of it, and a table of another format that was made from it, carry the path in
their columns too and are other rows: they are no tables of ours.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from indextables.errors import InvalidArgument, TableNotFound
from indextables.options import PREFIX
from indextables.spark.session.failures import jvm_errors
from indextables.spark.session.frames import plain_reader
from indextables.storage.url import parse_location
from indextables.table.arguments import check_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "COLUMN_KEY",
    "MANAGED_KEY",
    "NOT_TOLD",
    "OWN_KEY",
    "PATH_KEY",
    "REGISTRY_PREFIX",
    "Entry",
    "carried_path",
    "entry_of",
    "forget",
    "key_is_set",
    "key_of_name",
    "names",
    "quoted",
    "register",
    "resolve",
]

REGISTRY_PREFIX = f"{PREFIX}tables."
"""Session settings that name tables begin with it."""

PATH_KEY = "indextables.path"
"""Metadata of a column of a catalog table: the path of the table that it belongs to."""

COLUMN_KEY = "indextables.column"
"""Metadata of a column of a catalog table: what the table calls it, whatever the entry calls it by now."""

OWN_KEY = "__qualified_access_only"
"""Metadata that stands beside the path. Spark takes it away, and leaves the path, where it makes a new entry of the
catalog from the columns of a query: such an entry would be read from the table that its columns came from. On columns
that are no metadata columns it means nothing to Spark."""


MANAGED_KEY = "indextables.managed"
"""Metadata of a column of a catalog table: true where the catalog chose the place: DROP TABLE takes the rows."""

NOT_TOLD = "is not told which path to"
"""What reads and writes say that have no path."""


class Entry(NamedTuple):
    """An entry of Spark's catalog: where its table is, and whether the catalog chose that place."""

    url: str
    is_managed: bool


def register(spark: SparkSession, name: str, path: str | os.PathLike[str]) -> str:
    """Let a name of this session mean the table at `path`; returns its URL. Raises InvalidArgument."""
    url = parse_location(path).url
    spark.conf.set(key_of_name(name), url)
    return url


def forget(spark: SparkSession, name: str) -> bool:
    """Let a name mean nothing any more; False if it meant nothing here. The table stays."""
    key = key_of_name(name)
    if spark.conf.get(key, None) is None:
        return False
    spark.conf.unset(key)
    return True


def key_is_set(spark: SparkSession, name: str) -> bool:
    """True if this session itself gives the name a meaning. Raises InvalidArgument for what is not a name."""
    return spark.conf.get(key_of_name(name), None) is not None


def names(spark: SparkSession) -> dict[str, str]:
    """The names of this session and what they mean."""
    settings = dict(spark.conf.getAll)
    return {
        key[len(REGISTRY_PREFIX) :]: value for key, value in sorted(settings.items()) if key.startswith(REGISTRY_PREFIX)
    }


def find(spark: SparkSession, name: str) -> str | None:
    """What a name means in this session, or in Spark's catalog; None if nothing."""
    url: str | None = spark.conf.get(key_of_name(name), None)
    if url is not None:
        return url
    entry = entry_of(spark, name)
    return None if entry is None else entry.url


def resolve(spark: SparkSession, name: str) -> str:
    """As `find`. Raises TableNotFound that names what to do."""
    url = find(spark, name)
    if url is None:
        message = (
            f"no table is called {name!r} in this session: use IndexTable.forPath(spark, path), or give the name with "
            f"spark.conf.set('{key_of_name(name)}', path)"
        )
        raise TableNotFound(message, name=name)
    return url


def carried_path(metadata: Mapping[str, Any]) -> str | None:
    """The path that a column of a catalog table carries; None for one that was copied from such a table."""
    path: str | None = metadata.get(PATH_KEY)
    return path if OWN_KEY in metadata else None


def how_to_renew(url: str) -> str:
    """What to do about an entry of the catalog that does not have the columns of the table any more."""
    path = url.replace("'", "\\'")
    return (
        "ALTER TABLE changes the entry of Spark's catalog only, and the entry keeps the columns that it was made with. "
        f"Renew it: DROP TABLE name, then CREATE TABLE name USING indextables OPTIONS (path '{path}'); no row is lost"
    )


def key_of_name(name: str) -> str:
    """The key of the session's configuration for a name. Raises InvalidArgument for what is not a name."""
    parts = [part.strip().strip("`").strip().lower() for part in check_text("the name of a table", name).split(".")]
    if parts[:1] == ["spark_catalog"]:
        parts = parts[1:]
    if len(parts) > 1 and parts[0] == "default":
        parts = parts[1:]
    if not parts or any(not part or any(char.isspace() or char in "/\\:=" for char in part) for part in parts):
        raise InvalidArgument(f"{name!r} is not a name of a table: use letters, digits, _ and dots", name=name)
    return REGISTRY_PREFIX + ".".join(parts)


def quoted(name: str) -> str:
    """A name of several parts as Spark reads it, whatever letters it has."""
    return name if "`" in name else ".".join(f"`{part}`" for part in name.split("."))


def entry_of(spark: SparkSession, name: str) -> Entry | None:
    """What Spark's catalog has under a name, if that is a table of ours; None for all else."""
    spelled = quoted(name)
    try:
        fields = plain_reader(spark).table(spelled).schema.fields
    except jvm_errors():
        return None
    for field in fields:
        path = field.metadata.get(PATH_KEY)
        if path and _is_table_of_ours(spark, spelled) and _has_own_path(spark, spelled):
            return Entry(parse_location(path).url, bool(field.metadata.get(MANAGED_KEY)))
    return None


def _has_own_path(spark: SparkSession, spelled: str) -> bool:
    """False for a name that Spark made from columns of another table of ours, and that reads refuse for that.

    Only the source is shown `OWN_KEY`. It is asked for something that it refuses to every name, before it looks at any
    table: which of two reasons it gives is the answer.
    """
    try:
        type(spark).sql(spark, f"SELECT 1 FROM {spelled} WITH ('limit' = '0')").collect()  # noqa: S608 - quoted
    except jvm_errors() as error:
        return NOT_TOLD not in str(error)
    return True


def _is_table_of_ours(spark: SparkSession, spelled: str) -> bool:
    """False for views, and for tables of which Spark tells that they are in another format."""
    known = spark.catalog.getTable(spelled)
    if known.isTemporary or known.tableType not in ("MANAGED", "EXTERNAL"):
        return False
    # Spark's own `sql`, whatever was put in its place; of a source that is written in Python it tells no provider.
    told = type(spark).sql(spark, f"DESCRIBE TABLE EXTENDED {spelled}").where("col_name = 'Provider'").collect()
    return all(row.data_type == "indextables" for row in told)
