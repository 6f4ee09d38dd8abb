"""Statements about a table by its name, run: what Spark's catalog would do to an entry is done to the table.

A statement whose table is not ours is passed on untouched. One that Spark can do itself and that leaves entry and table
in agreement is passed on as well: SHOW TABLES, ALTER TABLE ... RENAME TO, REFRESH TABLE, CREATE VIEW.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indextables.errors import InvalidArgument, NotSupported, TableNotFound
from indextables.spark.catalog import NewTable, check_free, drop_named, full_name, make_table, renew_entry
from indextables.spark.session import frame_of, registry
from indextables.spark.table import IndexTable
from indextables.spark.tasks import SparkHandle
from indextables.sql.command import Cursor, ShowTable, is_table, shown, table_names, tokens
from indextables.sql.spark.altering import CANNOT_ALTER, what_it_alters
from indextables.sql.spark.cached import cache_table, uncache_table
from indextables.sql.spark.inserting import partition_values
from indextables.sql.spark.statements import (
    CacheTable,
    CommentOn,
    DropTable,
    MadeOtherwise,
    MakeTable,
    Moved,
    TruncateTable,
    named_statement,
)
from indextables.table.alter import AlterColumn, SetNames, alter
from indextables.table.maintenance import drop_table
from indextables.table.rows import table_from_ddl

if TYPE_CHECKING:
    from indextables.spark.session import DataFrame, SparkSession

__all__ = ["after_alter", "run_named"]

Query = Callable[[str, Any], "DataFrame"]
"""Runs a query in the session and gives its rows."""

_NOTHING = pa.schema([]).empty_table()


def run_named(spark: SparkSession, text: str, args: Any, query: Query) -> DataFrame | None:
    """Run a statement about a table of ours by its name; None if it is Spark's. `query` runs the query of an AS.

    Raises CommandSyntaxError, InvalidArgument, NotSupported, and what the verbs raise.
    """
    asked = named_statement(text, args)
    if asked is None:
        return None
    if isinstance(asked, MakeTable):
        _make(spark, asked, query)
        return _done(spark)
    if isinstance(asked, DropTable):
        return _drop(spark, asked)
    if isinstance(asked, MadeOtherwise):
        check_free(spark, asked.name)
        return None
    url = _url_of(spark, asked.name)
    if url is None:
        return None
    if isinstance(asked, ShowTable):
        return _show(spark, asked, url)
    if isinstance(asked, TruncateTable):
        _truncate(spark, asked, url)
    elif isinstance(asked, CacheTable):
        (cache_table if asked.is_kept else uncache_table)(spark, url, is_lazy=asked.is_lazy)
    elif isinstance(asked, CommentOn):
        _comment(spark, asked, url)
    elif isinstance(asked, Moved):
        raise NotSupported(_CANNOT_MOVE.format(asked.words, asked.name, url), query=text)
    return _done(spark)


_CANNOT_MOVE = (
    "ALTER TABLE ... {0} is not offered for {1}, a table of IndexTables at {2}: its partitions come and go with its "
    "rows (INSERT, DELETE, DROP INDEXTABLES PARTITIONS FROM {1} WHERE ...), and a name is given to another place by "
    "DROP TABLE {1}, then CREATE TABLE {1} USING indextables LOCATION '<path>'. Nothing was changed"
)


def after_alter(spark: SparkSession, text: str, args: Any, is_ours: Callable[[str], bool], *, is_done: bool) -> None:
    """After an ALTER TABLE of ours its entry gets the columns that the table has now.

    Raises NotSupported for one that is not done, where Spark would change the entry of a table of ours alone.
    """
    names = table_names(text, args)
    if not is_done:
        if what_it_alters(text) and any(is_ours(name) for name in names):
            raise NotSupported(CANNOT_ALTER, query=text)
        return
    for name in names[:1]:
        entry = registry.entry_of(spark, name)
        if entry is not None:
            renew_entry(spark, full_name(spark, name), entry)


def _done(spark: SparkSession) -> DataFrame:
    return frame_of(spark, _NOTHING)


def _url_of(spark: SparkSession, name: str) -> str | None:
    try:
        return registry.find(spark, name)
    except InvalidArgument:
        return None


def _make(spark: SparkSession, asked: MakeTable, query: Query) -> None:
    if asked.if_there == "ignore" and asked.query is not None and _url_of(spark, asked.name) is not None:
        return
    columns, defaults = (None, {}) if asked.columns is None else table_from_ddl(asked.columns)
    new = NewTable(
        name=asked.name,
        columns=columns,
        location=asked.location,
        partition_by=asked.partition_by,
        comment=asked.comment,
        properties={**asked.properties, **defaults},
        if_there=asked.if_there,
    )
    make_table(spark, new, None if asked.query is None else query(*asked.query))


def _drop(spark: SparkSession, asked: DropTable) -> DataFrame | None:
    target = asked.target
    if target.is_path:
        return _drop_rows(spark, asked, target.text)
    name = target.text
    full, entry = _entry(spark, name)
    if entry is None and not asked.with_rows and registry.key_is_set(spark, name):
        registry.forget(spark, name)
        return _done(spark)
    if entry is None and not asked.with_rows:
        return None
    url = entry.url if entry is not None else _url_of(spark, name)
    if url is None:
        if asked.if_exists:
            return _done(spark)
        raise TableNotFound(f"no table of IndexTables is called {name!r}: write its path in quotes", name=name)
    uncache_table(spark, url)
    if entry is not None:
        drop_named(spark, full, entry)
    if not asked.with_rows:
        return _done(spark)
    registry.forget(spark, name)
    return _done(spark) if entry is not None and entry.is_managed else _drop_rows(spark, asked, url)


def _drop_rows(spark: SparkSession, asked: DropTable, url: str) -> DataFrame:
    log = SparkHandle(spark, url).log()
    if not (asked.if_exists and not is_table(log)):
        drop_table(log)
    return _done(spark)


def _entry(spark: SparkSession, name: str) -> tuple[str, registry.Entry | None]:
    """The full name and the entry; a name that a temporary view or another catalog has means none of ours."""
    try:
        full = full_name(spark, name)
    except (InvalidArgument, NotSupported):
        return name, None
    return full, registry.entry_of(spark, full)


def _show(spark: SparkSession, asked: ShowTable, url: str) -> DataFrame:
    full, entry = _entry(spark, asked.name)
    snapshot = SparkHandle(spark, url).log().snapshot()
    return frame_of(spark, shown(asked, full, url, snapshot, is_managed=entry is not None and entry.is_managed))


def _comment(spark: SparkSession, asked: CommentOn, url: str) -> None:
    names = SetNames(description=asked.text)
    wish = names if asked.column is None else AlterColumn(column=asked.column, comment=asked.text)
    alter(SparkHandle(spark, url).log(), wish)
    full, entry = _entry(spark, asked.name)
    if entry is not None:
        renew_entry(spark, full, entry)


def _truncate(spark: SparkSession, asked: TruncateTable, url: str) -> None:
    where = None
    table = IndexTable.forPath(spark, url)
    if asked.partition is not None:
        known = {name.lower() for name in SparkHandle(spark, url).log().metadata_at().metadata.partitionColumns}
        where = _values(asked.partition, known, asked.name)
    table.delete(where)


def _values(text: str, known: set[str], name: str) -> str:
    """`a = 1, b = 'x'` as a predicate. Raises InvalidArgument for a column that does not partition the table."""
    at = Cursor(text, list(tokens(text)), None, "PARTITION (<column> = <value>, ...)")
    given = partition_values(at)
    at.end()
    for column, value in given.items():
        if column.lower() not in known:
            raise InvalidArgument(f"{name} is not partitioned by {column}", column=column)
        if value is None:
            raise InvalidArgument(f"PARTITION ({column}) needs a value: {column} = ...", column=column)
    return " AND ".join(f"`{column}` <=> {value}" for column, value in given.items())
