"""The table as a Python process sees it: `Table`, and the doors `create` and `open_table`.

No Spark, no JVM. Arrow goes in and comes out. Every method that reads uses the version that the handle is pinned to;
every method that writes moves the pin to the version it made.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from indextables.ambient import Ambient
from indextables.embedded.altering import Altering
from indextables.embedded.changing import Changing
from indextables.embedded.exchange import Exchange
from indextables.embedded.looking import Looking
from indextables.embedded.maintenance import Maintenance
from indextables.embedded.searching import Searching
from indextables.errors import InvalidArgument, ObjectNotFound, TableNotFound
from indextables.lazy import LazyModule
from indextables.log.care import open_log
from indextables.log.read import Log, Snapshot, snapshot_at
from indextables.table.arguments import (
    check_count,
    check_mapping,
    check_names,
    check_note,
    check_partition_mode,
    check_spelling,
    check_text,
    check_txn,
    check_version,
    millis,
)
from indextables.table.environment import open_env
from indextables.table.read import (
    html_of,
    scan_table,
)
from indextables.table.rows import read_rows, schema_of

if TYPE_CHECKING:
    from indextables.embedded import foreign as foreign_verb
    from indextables.log.care import CleanupReport
    from indextables.log.care import cleanup as cleanup_verb
    from indextables.log.care import schedule as schedule_verb
    from indextables.log.wire import Committed
    from indextables.table import append as append_verb
    from indextables.table import create as create_verb
    from indextables.table import overwrite as overwrite_verb
    from indextables.table.writing import start as start_verb
else:
    foreign_verb = LazyModule("indextables.embedded.foreign")
    schedule_verb = LazyModule("indextables.log.care.schedule")
    cleanup_verb = LazyModule("indextables.log.care.cleanup")
    append_verb = LazyModule("indextables.table.append")
    start_verb = LazyModule("indextables.table.writing.start")
    create_verb = LazyModule("indextables.table.create")
    overwrite_verb = LazyModule("indextables.table.overwrite")

__all__ = ["Table", "create", "open_table"]

_LOGGER = logging.getLogger("indextables")


def create(
    path: str | os.PathLike[str],
    schema: Any,
    *,
    partition_by: Sequence[str] = (),
    indexing: Mapping[str, str | Mapping[str, object]] | None = None,
    properties: Mapping[str, str] | None = None,
    constraints: Mapping[str, str] | None = None,
    generated: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    options: Mapping[str, object] | None = None,
    ambient: Ambient | None = None,
) -> Table:
    """Create a table; if `path` has one with the same schema and partition columns, open that.

    Args:
        path: A folder or a URL (`s3://`, `az://`, `gs://`, `memory://`).
        schema: A pyarrow Schema, or data that has one.
        partition_by: The partition columns: each combination of their values gets its own files.
        indexing: How columns are indexed: `{"message": "text"}` makes the words of `message` searchable. The guide
            on the embedded table lists the kinds.
        properties: Table properties, kept in the log.
        constraints: Rules that every row keeps, by name: `{"sane": "size >= 0"}`. As `Table.add_constraint` takes them.
        generated: Columns of the schema that are computed from others of the row: `{"day": "CAST(ts AS DATE)"}`.
        defaults: What rows hold in columns that they do not bring, as SQL: `{"host": "'unknown'"}`.
        name: A name for people to read; nothing finds the table by it.
        description: A description for people to read.
        options: How this process works with the table, credentials included. They are never written to the table.
        ambient: The source of time, chance and threads, which tests replace; the system's by default.

    Raises:
        SchemaInvalid: No table can have this schema.
        SchemaMismatch: The path has a table with another schema.
        InvalidArgument: A column or option is wrong; nothing was written.
        StoreError: The store refused, or is not safe for commits.
        CommitStateUnknown: The store did not tell whether the table was created.
    """
    log = open_log(open_env(path, check_spelling("options", options), ambient=ambient))
    arrow = schema_of(schema)
    columns = check_names("partition_by", partition_by)
    wanted = {**create_verb.indexing_properties(indexing, arrow), **create_verb.given_properties(properties)}
    wanted |= create_verb.given_constraints(constraints) | create_verb.given_expressions(generated)
    wanted |= create_verb.given_defaults(defaults)
    for what, text in (("name", name), ("description", description)):
        if text is not None:
            check_text(f"the {what} of a table", text)
    made = create_verb.create(log, arrow, partition_by=columns, properties=wanted, name=name, description=description)
    return Table(log, log.snapshot(made.version))


def open_table(
    path: str | os.PathLike[str],
    options: Mapping[str, object] | None = None,
    *,
    version: int | None = None,
    timestamp: dt.datetime | str | int | None = None,
    ambient: Ambient | None = None,
) -> Table:
    """Open the table at `path`; the handle reads the version that is newest now until `refresh()`.

    Where there is none of ours but one of Delta, or a folder of Parquet files, it reads that, and refuses to write.

    Args:
        path: A folder or a URL (`s3://`, `az://`, `gs://`, `memory://`).
        options: How this process works with the table, credentials included. They are never written to the table.
        version: Open this version instead; that works even where a newer one is damaged or lost.
        timestamp: Open the version that was the newest at this time (a datetime, ISO text, or milliseconds since the
            epoch).
        ambient: The source of time, chance and threads, which tests replace; the system's by default.

    Raises:
        TableNotFound: There is no table.
        VersionNotFound: The table never had this version.
        VersionExpired: The table had this version, but cleanup has deleted it.
        InvalidArgument: A path or option is wrong, or both a version and a timestamp are given.
        ProtocolUnsupported: The table needs a newer library, or it is another system's and asks for what is not read.
        LogError: The log is damaged; `indextables.repair` may help.
        StoreError: The store did not answer, or refused.
    """
    log = open_log(open_env(path, check_spelling("options", options), ambient=ambient))
    try:
        if version is None and timestamp is None:
            return Table(log, log.snapshot(), is_seen=False)
        return Table(log, _snapshot_at(log, version, timestamp))
    except TableNotFound:
        other = foreign_verb.open_foreign(log.env, version, timestamp)
        if other is None:
            raise
        return other
    except ObjectNotFound as cause:
        # A place whose name the store does not even take.
        raise TableNotFound(f"there is no table at {log.url[:200]}: {str(cause)[-200:]}", url=log.url) from cause


class Table(Searching, Changing, Altering, Looking, Maintenance, Exchange):
    """A table in this process. It reads one version, until `refresh()` or one of its own writes moves it to another.

    `indextables.open` and `indextables.create` return one. Several threads may use it at the same time.
    """

    # When?

    def at(self, version: int | None = None, timestamp: dt.datetime | str | int | None = None) -> Table:
        """Return a handle on another version: by its number, or the one that was the newest at a time.

        A time is a datetime, ISO text, or milliseconds since the epoch.

        Raises VersionNotFound, VersionExpired, and InvalidArgument unless exactly one of the two is given.
        """
        return Table(self._log, _snapshot_at(self._log, version, timestamp))

    def refresh(self) -> Table:
        """Move this handle to the newest version and return it; if the table was replaced by another, to that one.

        Raises TableNotFound, LogError, StoreError; the handle then stays where it was.
        """
        self._move_on()
        return self

    # Write

    def append(
        self,
        data: Any,
        *,
        txn: tuple[str, int] | None = None,
        merge_schema: bool = False,
        indexing: Mapping[str, str | Mapping[str, object]] | None = None,
        user_metadata: str | None = None,
    ) -> int:
        """Add rows in one commit; return the version that holds them, or this handle's version if there were no rows.

        Once it is in the log this returns, though it cannot be read back. Threads may share a commit.

        Args:
            data: A pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a pandas or polars frame, anything else
                that has an Arrow stream (another Table), dicts, or an iterator of batches or dicts. Upper and lower
                case of column names do not matter; a missing column gets its default, or null.
            txn: (application, batch number): a batch that the table holds already is not written again.
            merge_schema: Add the columns that only the data has, null in older rows, and widen types where needed.
            indexing: How columns are indexed from this commit on, as for `set_indexing`.
            user_metadata: A text that the history keeps with the commit.

        Raises:
            SchemaMismatch: The data does not fit; names each difference. Nothing was written.
            InvalidArgument: An argument is wrong. Nothing was written.
            CommitConflict: Somebody changed the schema meanwhile. Nothing was committed, no file stays.
            CommitStateUnknown: The store did not tell; `resolve(error.token, error.version)` finds out.
            StoreError: The store did not answer, or refused. Nothing was committed.
        """
        version = self._snapshot.version
        committed = self._append(data, txn, merge_schema=merge_schema, indexing=indexing, user_metadata=user_metadata)
        if committed is None:
            self._log.check_table()
            return version
        return committed.version

    def _append(
        self,
        data: Any,
        txn: tuple[str, int] | None = None,
        *,
        along: tuple[str, int] | None = None,
        merge_schema: bool = False,
        indexing: Mapping[str, str | Mapping[str, object]] | None = None,
        user_metadata: str | None = None,
    ) -> Committed | None:
        """As `append`: the commit, which tells whether it was one; None if there were no rows."""
        snapshot = self._base if merge_schema or indexing else self._snapshot
        self._check_there(snapshot)
        committed = append_verb.append(
            self._log,
            snapshot,
            read_rows(data, snapshot.schema, widens=merge_schema),
            txn=check_txn(txn),
            along=along,
            merge_schema=merge_schema,
            indexing=None if indexing is None else check_mapping("indexing", indexing),
            user_metadata=check_note(user_metadata),
        )
        if committed is not None:
            self._pin(committed.version)
        return committed

    def overwrite(
        self,
        data: Any,
        where: str | None = None,
        *,
        partitions: Literal["static", "dynamic"] = "static",
        txn: tuple[str, int] | None = None,
        merge_schema: bool = False,
        overwrite_schema: bool = False,
        partition_by: Sequence[str] | None = None,
        user_metadata: str | None = None,
    ) -> int:
        """Replace rows by new ones in one commit: all rows, or whole partitions. Return the version.

        If somebody else overwrote, deleted or updated these rows since this call began, it raises CommitConflict; rows
        that were appended meanwhile are replaced too. In a table with `isolationLevel` serializable, appends conflict
        as well, and commits count from the version of this handle on.

        Args:
            data: As for `append`.
            where: Replace only the partitions for whose values this predicate is true. It may read partition columns
                only, and the new rows must satisfy it.
            partitions: "dynamic" replaces the partitions that the new rows are in, and no others.
            txn: As for `append`.
            merge_schema: As for `append`.
            overwrite_schema: The schema of the data becomes the table's; all rows are replaced.
            partition_by: With `overwrite_schema`, the partition columns from now on; by default they stay.
            user_metadata: As for `append`.

        Raises:
            SchemaMismatch, InvalidArgument, CommitStateUnknown, StoreError: As for `append`.
            CommitConflict: Somebody changed these rows or the schema meanwhile. Nothing was committed.
            QueryInvalid: `where` cannot be understood; `position` says where.
            NotSupported: `where` reads other than partition columns.
        """
        snapshot, batch = self._base if merge_schema or overwrite_schema else self._snapshot, check_txn(txn)
        predicate = self._predicate(where)
        self._check_there(snapshot)
        # Before the first row is asked for: whoever makes the rows may take long.
        since = start_verb.begun(self._log, start_verb.newest(self._log), snapshot, txn=batch)
        committed = overwrite_verb.overwrite(
            self._log,
            snapshot,
            read_rows(data, None if overwrite_schema else snapshot.schema, widens=merge_schema),
            since=since,
            where=predicate,
            text=where or "",
            partitions=check_partition_mode(partitions),
            merge_schema=merge_schema,
            overwrite_schema=overwrite_schema,
            partition_by=None if partition_by is None else check_names("partition_by", partition_by),
            txn=batch,
            user_metadata=check_note(user_metadata),
        )
        return self._pin(committed.version)

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest version, so that opening the table reads less; return that version.

        A table of an older protocol is upgraded first, by a commit of its own.

        Raises NotSupported for tables of another system, CheckpointError, CommitError, LogError, StoreError.
        """
        return schedule_verb.checkpoint(self._newest_env()).version

    def compact(self) -> int:
        """Write a checkpoint of the newest version with all manifests new, sorted by partition; return that version.

        Data files are not touched. Raises as `checkpoint`.
        """
        return schedule_verb.checkpoint(self._newest_env(), compact="full").version

    def clean_up(self, *, dry_run: bool | None = None) -> CleanupReport:
        """Delete checkpoints and version files of the log that are older than the table keeps them.

        Data files are not touched. With `dry_run` nothing is deleted, and the report lists what would be (default: the
        option `cleanup.dryRun`). Raises LogError, StoreError.
        """
        return cleanup_verb.clean_up(self._newest_env(), dry_run=dry_run)

    def invalidate_cache(self, what: Literal["all", "metadata", "protocol"] = "all") -> None:
        """Forget what this process holds in memory about this table, or its metadata or protocol alone.

        Results do not change. Raises InvalidArgument for another word.
        """
        if what not in ("all", "metadata", "protocol"):
            raise InvalidArgument(f"what is 'all', 'metadata' or 'protocol', not {what!r}", what=what)
        self._log.invalidate(None if what == "all" else (what,))

    # Read

    def scan(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Read the rows for which `where` is true, in the order in which they were written, batch by batch.

        Args:
            columns: The columns to return; all by default.
            where: A SQL predicate: `"status >= 500"`.
            limit: At most this many rows; all by default.

        Raises QueryInvalid, InvalidArgument, NotSupported for tables of another system; while the batches are read
        SplitCorrupt, VersionExpired, StoreError.
        """
        check_count("limit", limit)
        return self._answer(
            lambda snapshot: scan_table(self._log.env, snapshot, columns, self._predicate(where), limit)
        )

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """Read the same rows as `scan`, all at once into memory. Raises as `scan`."""
        return self.scan(columns, where, limit).read_all()

    def sql(
        self,
        statement: str,
        *,
        tables: Mapping[str, Table] | None = None,
        params: Mapping[str, object] | None = None,
    ) -> pa.Table:
        """Run a SELECT over this version and return its rows. In the statement the table is called `t`.

        `TEXTSEARCH(column, 'query')` is true for the rows that match a search in a column, `TEXTSEARCH(*, 'query')` in
        any text column. Only queries are run. To query another version, call `at(...)` first.

        Args:
            statement: One SELECT in DataFusion's dialect.
            tables: Other tables, by the names they have in the statement.
            params: Values of `$name` in the statement; they are passed as values, never pasted into the text.

        Raises:
            QueryInvalid: The statement, or a search in it, cannot be understood or evaluated.
            NotSupported: The statement is not a query, or uses what cannot be answered correctly.
            InvalidArgument: Two tables have the same name, or the statement is not a text.
        """
        from indextables.sql.command import shown, what_to_show
        from indextables.sql.local import OWN_NAME, select

        statement = check_text("statement", statement)
        asked = what_to_show(statement)
        if asked is not None and asked.name.lower() == OWN_NAME:
            return self._answer(lambda snapshot: shown(asked, asked.name, self.url, snapshot))
        others = self._sources(tables)
        options = self._log.env.options
        return self._answer(lambda _: select(statement, self._source(), others, params=params, options=options))

    def __repr__(self) -> str:
        return f"Table({self.url!r}, version={self.version})"

    def _repr_html_(self) -> str:
        return self._answer(lambda snapshot: html_of(snapshot, self.url))

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a table is read with scan() or to_arrow()")


def _snapshot_at(log: Log, version: int | None, timestamp: dt.datetime | str | int | None) -> Snapshot:
    if (version is None) == (timestamp is None):
        raise InvalidArgument("give either a version or a timestamp")
    if version is not None:
        return snapshot_at(log, check_version(version))
    return log.snapshot(timestamp_ms=millis(timestamp))  # type: ignore[arg-type]
