"""`indextables.sql(spark, text)` and `indextables.enable(spark)`: our commands and tables in the SQL of a session.

Nothing is installed in the JVM: statements are looked at before Spark gets them. A command of ours is run here and its
rows become a DataFrame. In a query, each reference to a table of ours becomes a DataFrame that Spark is given by name;
everything else of the text stays as it was typed. A statement without anything of ours is passed on untouched, with
whatever Spark says about it. Works in classic sessions and over Connect.
"""

from __future__ import annotations

import functools
import logging
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indextables.errors import InvalidArgument, NotSupported, StoreError
from indextables.log.read import Log
from indextables.spark.catalog import install, uninstall
from indextables.spark.session import (
    OVERWRITE_MODE,
    frame_of,
    is_temporary_reference,
    jvm_errors,
    raising_ours,
    registry,
    session_zone,
    spark_schema,
    unknown_table,
)
from indextables.spark.tasks import SparkHandle, forget_in_workers
from indextables.sql.command import (
    FORMAT,
    Found,
    OnlyIfOurs,
    RowChange,
    SourceRows,
    TableName,
    explain_rows,
    find_references,
    first_word,
    has_path,
    has_signs,
    is_table,
    is_unread_query,
    keeps_text,
    may_read,
    run_command,
    table_names,
)
from indextables.sql.spark.catalog import after_alter, run_named
from indextables.sql.spark.feeds import with_feeds
from indextables.sql.spark.frames import unwrap_frames, wrap_frames
from indextables.sql.spark.inserting import Insert, insert_statement, plain_insert
from indextables.sql.spark.opened import Opened, kept
from indextables.sql.spark.views import SEARCHES_ITSELF, noted, noted_text, refused_search, searches, with_views
from indextables.table.running import Progress, Runner

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.spark.session import DataFrame, SparkSession
    from indextables.sql.spark.rewrite import Rewritten

__all__ = ["SessionContext", "disable", "enable", "run_sql"]

_LOGGER = logging.getLogger("indextables")

_OVERRIDES = "_indextables_overrides"
"""Attribute of a `sql` of ours: what stood in its place, None for the method of the class."""
_PLACE = "__indextables_{}"
_CANNOT_FOLLOW = (
    "{} means a table of IndexTables, which cannot be given to Spark in this form of statement: make a temporary view, "
    "IndexTable.forName(spark, name).toDF().createOrReplaceTempView('v'), and name the view"
)
_CANNOT_INSERT = (
    "the query of this INSERT cannot be read: make a temporary view of it, CREATE TEMPORARY VIEW v AS ..., and insert "
    "SELECT * FROM v. Nothing was written"
)
_DYNAMIC = (
    f"{OVERWRITE_MODE} is dynamic in this session, and Spark takes no INSERT OVERWRITE for a source in Python then: "
    "unset it and write INSERT OVERWRITE {0} WITH (partitionOverwriteMode = 'dynamic') ..., or use "
    "df.writeTo('{0}').overwritePartitions(). Nothing was written"
)
_CANNOT_LAST = (
    "{} means a table of IndexTables in this session only, and a view of the catalog is for all: CREATE TEMPORARY VIEW"
)


def enable(spark: SparkSession) -> SparkSession:
    """Let `spark.sql` of this session object understand what `indextables.sql` does; returns the session.

    Only this object changes: not other sessions, not those of `newSession()`. Calling it again does nothing, unless
    this package was imported anew: then its new code takes the place of the old.
    """
    now = spark.__dict__.get("sql")
    if not _is_ours(now) or now.__func__.__globals__ is not globals():
        spark.sql = types.MethodType(_overriding(_original(spark)), spark)
        install(spark)
    wrap_frames(spark)
    return spark


def disable(spark: SparkSession) -> SparkSession:
    """Take back what `enable` did; returns the session."""
    unwrap_frames(spark)
    if _is_ours(spark.__dict__.get("sql")):
        before = _original(spark)
        uninstall(spark)
        del spark.sql
        if before is not None:
            spark.sql = before
    return spark


def run_sql(spark: SparkSession, text: str, args: Any = None, **kwargs: Any) -> DataFrame:
    """Run a command of ours, a statement about tables of ours, or any other statement of Spark.

    Args:
        spark: A session, classic or Connect.
        text: One statement.
        args: Values of `:name` (a dict) or `?` (a list); bound, never pasted.
        **kwargs: What `{name}` in the text stands for, as in `spark.sql`.

    Raises:
        CommandSyntaxError: A command of ours cannot be understood; nothing was looked at.
        QueryInvalid: A search, or where it stands, cannot be understood.
        IndexTablesError: What the verb of a command raises.
    """
    return _run(spark, text, args, kwargs, _original(spark))


def _run(spark: SparkSession, text: Any, args: Any, kwargs: dict[str, Any], before: Any) -> DataFrame:
    """As `run_sql`; `before` is what takes statements that are not ours, None for the method of the class."""
    original = before or functools.partial(type(spark).sql, spark)
    # Spark itself says what it thinks of anything that is not a text.
    if not isinstance(text, str):
        return original(text, args, **kwargs) if args is not None else original(text, **kwargs)
    named = run_named(spark, text, args, lambda query, values: _run(spark, query, values or None, kwargs, before))
    if named is not None:
        return named
    context = SessionContext(spark)
    fed = with_feeds(context, text, args, kwargs)
    if fed is not None:
        text, args, frames = fed
        return _run(spark, text, args, kwargs | frames, before)
    asked = insert_statement(text, args)
    if asked is not None and context.means(asked.target):
        text, options = _plain(context, asked)
        return _query(spark, text, asked.query[1] or None, kwargs, original, options)
    rows = run_command(text, context, args)
    if first_word(text) == "ALTER":
        after_alter(spark, text, args, context.is_table_name, is_done=rows is not None)
    if rows is not None:
        return frame_of(spark, rows)
    return _query(spark, text, args, kwargs, original)


def _plain(context: SessionContext, asked: Insert) -> tuple[str, dict[str, str]]:
    """An INSERT without the clauses that Spark hands to no source of Python, and what they say to the write."""
    metadata = context.log(asked.target).metadata_at().metadata
    columns = {field.name: field.dataType.simpleString() for field in spark_schema(metadata.schemaString).fields}
    if asked.verb == "OVERWRITE" and str(context.spark.conf.get(OVERWRITE_MODE, "static")).lower() == "dynamic":
        raise NotSupported(_DYNAMIC.format(asked.named), name=asked.named)
    return plain_insert(asked, columns, metadata.partitionColumns)


class SessionContext:
    """Commands in a Spark session: its names, its tasks, its time zone."""

    def __init__(self, spark: SparkSession, *, is_query: bool = False) -> None:
        """That of a query looks for each name once: a query gives no name another meaning."""
        self.spark = spark
        self._urls: dict[str, str | None] | None = {} if is_query else None

    @property
    def progress(self) -> Progress | None:
        return None

    @property
    def time_zone(self) -> str:

        return session_zone(self.spark) or "UTC"

    def knows(self, asked: OnlyIfOurs) -> bool:
        return self.means(asked.target)

    def means(self, target: TableName) -> bool:
        """True if a path or a name is that of a table of ours."""
        if not target.is_path:
            return self.is_table_name(target.text)
        try:
            return is_table(self.log(target))
        except (StoreError, NotSupported, InvalidArgument) as error:
            # Another system may reach what we cannot: its statement stays its own.
            _LOGGER.warning("%s is taken for no table of ours: %s", target.text, error)
            return False

    def is_table_name(self, name: str) -> bool:
        """True if a name means a table of ours, in this session or in Spark's catalog."""
        try:
            return self._find(name) is not None
        except InvalidArgument:
            return False

    def _find(self, name: str) -> str | None:
        if self._urls is None:
            return registry.find(self.spark, name)
        if name not in self._urls:
            self._urls[name] = registry.find(self.spark, name)
        return self._urls[name]

    def registered(self, names: Sequence[str]) -> set[str]:
        """Those of the names that this session knows; the catalog is not asked."""
        found = set()
        for name in names:
            try:
                key = registry.key_of_name(name)
            except InvalidArgument:
                continue
            if self.spark.conf.get(key, None) is not None:
                found.add(name)
        return found

    def known(self, text: str, args: Any) -> set[str]:
        """The names in a statement that mean tables of ours.

        A view that Spark keeps as text names those of the catalog itself: so it is for all, and shows later versions.
        """
        names = table_names(text, args)
        if keeps_text(text) or not may_read(text):
            return self.registered(names)
        return {name for name in names if self.is_table_name(name)}

    def is_of_spark(self, name: str) -> bool:
        """True if Spark has a table or view of this name."""
        return bool(self.spark.catalog.tableExists(registry.quoted(name)))

    def log(self, target: TableName) -> Log:
        return self.table(target).log()

    def runner(self, log: Log) -> Runner:
        return SparkHandle(self.spark, log.url).runner()

    def register(self, name: str, url: str) -> None:
        registry.register(self.spark, name, url)

    def forget(self, url: str) -> None:
        forget_in_workers(url)

    def change(self, statement: RowChange) -> pa.Table:
        from indextables.sql.spark.changing import change_in_spark

        handle = self.table(statement.target)
        return change_in_spark(handle, statement, lambda source: self._rows_of(source, handle.url))

    def explain(self, statement: RowChange) -> pa.Table:
        return explain_rows(self.log(statement.target), statement, read=self._columns_of)

    def _columns_of(self, source: SourceRows, _beside: object) -> pa.Table:
        """The columns of a source; its query asks for no row."""
        args: Any = source.args or None
        return run_sql(self.spark, source.query, args).toArrow()

    def _rows_of(self, source: SourceRows, url: str) -> tuple[DataFrame, bool]:
        """The rows of a source, and whether it reads the table at `url` as it is now."""
        args: Any = source.args or None
        frame = run_sql(self.spark, source.query, args)
        found = find_references(source.query, self.is_table_name, args=args)
        mentions = [] if found is None else [one for one in found.references if one.as_of is None]
        return frame, any(self.table(TableName(one.name, one.is_path)).url == url for one in mentions)

    def table(self, target: TableName) -> SparkHandle:
        """The table that is meant; not looked at yet. Raises TableNotFound for a name that means nothing."""
        url = target.text if target.is_path else self._find(target.text)
        return SparkHandle(self.spark, registry.resolve(self.spark, target.text) if url is None else url)


def _overriding(before: Any) -> Callable[..., DataFrame]:
    """A `sql` for a session, which knows itself what it overrides: whatever is put over it cannot make it go round."""

    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 - Spark's
        """As `spark.sql`, and what `indextables.sql` understands."""
        return _run(self, sqlQuery, args, kwargs, before)

    setattr(sql, _OVERRIDES, before)
    return sql


def _is_ours(method: Any) -> bool:
    """True for a `sql` that `enable` made, of this import of the package or of another one."""
    return hasattr(getattr(method, "__func__", None), _OVERRIDES)


def _original(spark: SparkSession) -> Any:
    """What takes statements that are not ours; None for the method of the class."""
    now = spark.__dict__.get("sql")
    return getattr(now.__func__, _OVERRIDES) if _is_ours(now) else now


def _query(
    spark: SparkSession,
    text: str,
    args: Any,
    kwargs: dict[str, Any],
    original: Callable[..., Any],
    write_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Run a statement that is no command; `write_options` are those of the write of an INSERT."""
    given = {} if args is None else {"args": args}
    context = SessionContext(spark, is_query=True)
    has_search = searches(text)
    text = with_views(spark, text, args, context.is_table_name) if has_search else text
    is_known: Callable[[str], bool] = context.is_table_name
    if not has_signs(text):
        known = context.known(text, args)
        if not known:
            answer = original(text, **given, **kwargs)
            if keeps_text(text) and not args and not kwargs:
                noted_text(spark, text, context.is_table_name)
            return answer
        is_known = known.__contains__
    found = find_references(text, is_known, is_format=bool(kwargs), args=args)
    if found is None and write_options:
        # Spark would drop them, and replace other rows than the statement says.
        raise NotSupported(_CANNOT_INSERT, query=text)
    if found is None and has_search:
        return refused_search(text, lambda: original(text, **given, **kwargs))
    if found is None:
        return _not_followed(context, text, args, lambda: original(text, **given, **kwargs))
    opened = Opened(context, found, args, write_options or {})
    rewritten = opened.rewritten()
    answer = None if kwargs else opened.answered(rewritten)
    if answer is None:
        answer = _given(spark, opened, rewritten, found, kwargs, original, has_search=has_search)
    return answer if args or kwargs else noted(spark, answer, found, opened.place)


def _given(
    spark: SparkSession,
    opened: Opened,
    rewritten: Rewritten,
    found: Found,
    kwargs: dict[str, Any],
    original: Callable[..., Any],
    *,
    has_search: bool,
) -> DataFrame:
    """What Spark answers to a statement that is given our tables as DataFrames and views."""
    given = {} if rewritten.args is None else {"args": rewritten.args}
    frames = {
        ref.number: opened.frame(ref, need, lasting=found.keeps_names)
        for ref, need in zip(found.references, rewritten.needs, strict=True)
        if ref.role == "read"
    }
    views = {ref.number: opened.target(ref) for ref in found.references if ref.role == "insert"}
    if found.keeps_names:
        views |= {number: kept(frame) for number, frame in frames.items()}
        frames = {}
    named = {_PLACE.format(number): frame for number, frame in frames.items()}
    joined = _joined(rewritten, views, is_format=bool(kwargs))
    if not named and not kwargs:
        joined = joined.replace("{{", "{").replace("}}", "}")
    is_kept = False
    try:
        with raising_ours():
            answer: DataFrame = original(joined, **given, **named, **kwargs)
        is_kept = found.keeps_names
    except jvm_errors() as error:
        if not (found.keeps_names and is_temporary_reference(error)):
            raise
        reason = SEARCHES_ITSELF if has_search else _CANNOT_LAST.format(repr(found.references[0].name))
        raise NotSupported(reason, query=found.text) from error
    finally:
        if not is_kept:
            for view in views.values():
                spark.catalog.dropTempView(view.strip("`"))
    return answer


def _joined(rewritten: Rewritten, views: Mapping[int, str], *, is_format: bool) -> str:
    """The text for Spark, where `{name}` stands for a DataFrame; braces of the statement itself are doubled."""
    pieces = []
    for piece in rewritten.pieces:
        if isinstance(piece, str):
            pieces.append(piece if is_format else piece.replace("{", "{{").replace("}", "}}"))
        else:
            pieces.append(views.get(piece) or "{" + _PLACE.format(piece) + "}")
    return "".join(pieces)


def _not_followed(context: SessionContext, text: str, args: Any, run: Callable[[], DataFrame]) -> DataFrame:
    """What Spark says to a statement in which no table of ours was found.

    Raises NotSupported where it is about one all the same: Spark would not find it, or read its own of that name.
    """
    known = context.registered(table_names(text, args))
    if not known and not has_path(text):
        return run()
    taken = next((name for name in sorted(known) if context.is_of_spark(name)), None)
    if taken is not None and is_unread_query(text, args):
        raise NotSupported(_CANNOT_FOLLOW.format(repr(taken)), query=text)
    try:
        frame = run()
        # Connect looks at a statement when it is asked what comes of it.
        _ = frame.schema
    except jvm_errors() as error:
        unknown = unknown_table(error)
        if unknown is None or not (unknown == FORMAT or context.registered([unknown])):
            raise
        raise NotSupported(_CANNOT_FOLLOW.format(repr(unknown)), query=text) from error
    return frame
