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
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from indextables.errors import (
    InvalidArgument,
    LimitExceeded,
    NotSupported,
    QueryInvalid,
    StoreError,
    TableNotFound,
)
from indextables.log.read import Log, Snapshot
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.spark.catalog import install, uninstall
from indextables.spark.scan import native_scan
from indextables.spark.search import count_marked, marked_rows
from indextables.spark.session import (
    frame_of,
    is_temporary_reference,
    jvm_errors,
    plain_reader,
    raising_ours,
    reads_otherwise,
    registry,
    session_zone,
    unknown_table,
)
from indextables.spark.table import IndexTable
from indextables.spark.tasks import SparkHandle, forget_in_workers
from indextables.sql.command import (
    FORMAT,
    Args,
    Found,
    OnlyIfOurs,
    Reference,
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
    moment_ms,
    run_command,
    table_names,
    value_of,
)
from indextables.sql.spark.cached import cached_version
from indextables.sql.spark.catalog import after_alter, run_named
from indextables.sql.spark.frames import unwrap_frames, wrap_frames
from indextables.sql.spark.rewrite import COUNTED, Need, rewrite_for_spark
from indextables.sql.spark.views import SEARCHES_ITSELF, noted, refused_search, searches, with_views
from indextables.table.environment import table_env
from indextables.table.read import MarkedRows, live_rows
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
    rows = run_command(text, context, args)
    if first_word(text) == "ALTER":
        after_alter(spark, text, args, context.is_table_name, is_done=rows is not None)
    if rows is not None:
        return frame_of(spark, rows)
    return _query(spark, text, args, kwargs, original)


class SessionContext:
    """Commands in a Spark session: its names, its tasks, its time zone."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @property
    def progress(self) -> Progress | None:
        return None

    @property
    def time_zone(self) -> str:

        return session_zone(self.spark) or "UTC"

    def knows(self, asked: OnlyIfOurs) -> bool:
        target = asked.target
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
            return registry.find(self.spark, name) is not None
        except InvalidArgument:
            return False

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
        found = self.registered(names)
        if keeps_text(text) or not may_read(text):
            return found
        return found | {name for name in names if name not in found and self.is_table_name(name)}

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
        url = target.text if target.is_path else registry.resolve(self.spark, target.text)
        return SparkHandle(self.spark, url)


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
    spark: SparkSession, text: str, args: Any, kwargs: dict[str, Any], original: Callable[..., Any]
) -> DataFrame:

    given = {} if args is None else {"args": args}
    context = SessionContext(spark)
    has_search = searches(text)
    text = with_views(spark, text, args, context.is_table_name) if has_search else text
    is_known: Callable[[str], bool] = context.is_table_name
    if not has_signs(text):
        known = context.known(text, args)
        if not known:
            return original(text, **given, **kwargs)
        is_known = known.__contains__
    found = find_references(text, is_known, is_format=bool(kwargs), args=args)
    if found is None and has_search:
        return refused_search(text, lambda: original(text, **given, **kwargs))
    if found is None:
        return _not_followed(context, text, args, lambda: original(text, **given, **kwargs))
    opened = _Opened(context, found, args)
    rewritten = opened.rewritten()
    given = {} if rewritten.args is None else {"args": rewritten.args}
    frames = {
        ref.number: opened.frame(ref, need, lasting=found.keeps_names)
        for ref, need in zip(found.references, rewritten.needs, strict=True)
        if ref.role == "read"
    }
    views = {ref.number: opened.target(ref) for ref in found.references if ref.role == "insert"}
    if found.keeps_names:
        views |= {number: _kept(frame) for number, frame in frames.items()}
        frames = {}
    pieces = []
    for piece in rewritten.pieces:
        if isinstance(piece, str):
            pieces.append(piece if kwargs else piece.replace("{", "{{").replace("}", "}}"))
        else:
            pieces.append(views.get(piece) or "{" + _PLACE.format(piece) + "}")
    named = {_PLACE.format(number): frame for number, frame in frames.items()}
    joined = "".join(pieces)
    if not named and not kwargs:
        joined = joined.replace("{{", "{").replace("}}", "}")
    is_kept = False
    try:
        with raising_ours():
            answer = original(joined, **given, **named, **kwargs)
        is_kept = found.keeps_names
    except jvm_errors() as error:
        if not (found.keeps_names and is_temporary_reference(error)):
            raise
        reason = SEARCHES_ITSELF if has_search else _CANNOT_LAST.format(repr(found.references[0].name))
        raise NotSupported(reason, query=text) from error
    finally:
        if not is_kept:
            for view in views.values():
                spark.catalog.dropTempView(view.strip("`"))
    return answer if args or kwargs else noted(spark, answer, found, opened.place)


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


class _Opened:
    """The tables of one statement, each looked at once, so that all references to one see one version."""

    def __init__(self, context: SessionContext, found: Found, args: Args | None) -> None:
        self._context = context
        self._found = found
        self._args = args
        self._tables: dict[str, SparkHandle] = {}
        self._logs: dict[str, Log] = {}
        self._snapshots: dict[tuple[str, str], Snapshot] = {}
        self._counted: dict[int, int] = {}

    def rewritten(self) -> Rewritten:
        """The statement as Spark gets it, in which the rows that our indexes and logs can count are counted."""
        columns = [self.columns(reference) for reference in self._found.references]
        rewritten = rewrite_for_spark(self._found, columns, self._args)
        asked = [ref for ref, need in zip(self._found.references, rewritten.needs, strict=True) if need.counts]
        for reference in asked:
            counted = self._count(reference, rewritten.needs[reference.number])
            if counted is not None:
                self._counted[reference.number] = counted
        left = {reference.number for reference in asked} - self._counted.keys()
        return rewrite_for_spark(self._found, columns, self._args, spark_counts=left) if left else rewritten

    def columns(self, reference: Reference) -> list[str]:
        return list(self.snapshot(reference).schema.names)

    def table(self, reference: Reference) -> SparkHandle:
        table = self._context.table(TableName(reference.name, is_path=reference.is_path))
        return self._tables.setdefault(table.url, table)

    def place(self, reference: Reference) -> tuple[str, int]:
        return self.table(reference).url, self.snapshot(reference).version

    def log(self, reference: Reference) -> Log:
        table = self.table(reference)
        if table.url not in self._logs:
            self._logs[table.url] = table.log()
        return self._logs[table.url]

    def snapshot(self, reference: Reference) -> Snapshot:
        """The version that a reference reads. Raises TableNotFound, VersionNotFound, VersionExpired."""
        log = self.log(reference)
        as_of = reference.as_of
        value = None if as_of is None else value_of(as_of.token, self._found.tokens, self._args)
        key = (log.url, "" if as_of is None else f"{as_of.kind} {value}")
        if key not in self._snapshots:
            self._snapshots[key] = self._load(log, None if as_of is None else as_of.kind, value)
        return self._snapshots[key]

    def _load(self, log: Log, kind: str | None, value: Any) -> Snapshot:
        if kind is None:
            return log.snapshot()
        if kind == "timestamp":
            return log.snapshot(timestamp_ms=moment_ms(value, self._context.time_zone))
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidArgument(f"VERSION AS OF takes the number of a version, not {value!r}", version=value)
        return log.snapshot(value)

    def frame(self, reference: Reference, need: Need, *, lasting: bool = False) -> DataFrame:
        """The rows that a reference stands for; a `lasting` DataFrame keeps none of them in memory."""
        table, snapshot = self.table(reference), self.snapshot(reference)
        if need.counts:
            return _number(table.spark, self._counted[reference.number])
        env = table_env(self.log(reference).env, snapshot.metadata)
        # Spark applies them itself, in its own zone, whatever the options of the table say.
        where, missed = self._understood(need.filters, snapshot)
        if not need.required and not need.marked:
            if cached_version(table.spark, table.url) == snapshot.version:
                where = None
            return native_scan(
                table.spark,
                env,
                snapshot,
                columns=None,
                where=where,
                text=None,
                fallback=table.reader_options(table.place()),
            )
        names = snapshot.schema.names if need.columns is None else need.columns
        asked = MarkedRows(tuple(names), tuple(need.required), tuple(need.marked), need.score)
        limit = None if missed else need.limit
        return marked_rows(table, env, snapshot, asked, where=where, limit=limit, lasting=lasting)

    def _count(self, reference: Reference, need: Need) -> int | None:
        """The rows that a count asks for; None if Spark had better count them."""
        table, snapshot = self.table(reference), self.snapshot(reference)
        if need.required:
            where, missed = self._understood(need.filters, snapshot)
            env = table_env(self.log(reference).env, snapshot.metadata)
            return None if missed else count_marked(table, env, snapshot, MarkedRows((), need.required), where=where)
        if need.filters:
            return None
        counted = live_rows(snapshot.files)
        if counted is None:
            counted = IndexTable(table.spark, table.url).toDF(versionAsOf=snapshot.version).count()
        return int(counted)

    def _understood(self, filters: Sequence[str], snapshot: Snapshot) -> tuple[Node | None, bool]:
        """The filters that mean the same to us, together, and whether there are others, which Spark alone answers."""
        found = []
        zone = self._context.time_zone
        for text in filters:
            try:
                parse(text, snapshot.schema, time_zone=zone)
            except (QueryInvalid, LimitExceeded, InvalidArgument):
                # The zone of the session may have no name.
                continue
            if not reads_otherwise(self._context.spark, text, snapshot.schema, self._found.text):
                found.append(f"({text})")
        node = parse(" AND ".join(found), snapshot.schema, time_zone=zone) if found else None
        return node, len(found) < len(filters)

    def target(self, reference: Reference) -> str:
        """A view that rows can be inserted into."""
        table = self.table(reference)
        if reference.as_of is not None:
            raise InvalidArgument("rows are inserted into the newest version: leave out AS OF")
        if not is_table(self.log(reference)):
            raise TableNotFound(
                f"there is no table at {table.url}: make it with CREATE INDEXTABLE first", url=table.url
            )
        reader = plain_reader(table.spark).format("indextables").options(**table.reader_options(table.place()))
        return _kept(reader.load(table.url))


def _number(spark: SparkSession, rows: int) -> DataFrame:
    """One row that stands for so many."""
    return spark.range(1).selectExpr(f"CAST({rows} AS BIGINT) AS {COUNTED}")


def _kept(frame: DataFrame) -> str:
    """A temporary view of its own."""
    name = f"indextables_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    return f"`{name}`"
