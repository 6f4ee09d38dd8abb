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
from indextables.embedded.looking import Looking
from indextables.embedded.maintenance import Maintenance
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
    aggregate_rows,
    count,
    explain_search,
    html_of,
    order_of,
    scan_table,
    search,
)
from indextables.table.rows import read_rows, schema_of

if TYPE_CHECKING:
    from indextables.log.care import CleanupReport
    from indextables.log.care import cleanup as cleanup_verb
    from indextables.log.care import schedule as state_verb
    from indextables.log.wire import Committed
    from indextables.table import append as append_verb
    from indextables.table import create as create_verb
    from indextables.table import overwrite as overwrite_verb
    from indextables.table.writing import start as begun_verb
else:
    state_verb = LazyModule("indextables.log.care.schedule")
    cleanup_verb = LazyModule("indextables.log.care.cleanup")
    append_verb = LazyModule("indextables.table.append")
    begun_verb = LazyModule("indextables.table.writing.start")
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
    name: str | None = None,
    description: str | None = None,
    options: Mapping[str, object] | None = None,
    ambient: Ambient | None = None,
) -> Table:
    """Make a table, or open the one with the same schema and partitioning that is there.

    Args:
        path: A folder or a URL (`s3://`, `az://`, `gs://`, `memory://`).
        schema: A pyarrow Schema, or data that has one.
        partition_by: Columns by whose values files are kept apart.
        indexing: Which string columns are searched as text: `{"message": "text"}`; see the guide for more.
        properties: Table properties, kept in the log.
        name: For people.
        description: For people.
        options: How this process works with the table, credentials included. Never written to the table.
        ambient: Time, chance and threads; the system's by default.

    Raises:
        SchemaInvalid: No table can have this schema.
        SchemaMismatch: A table with another schema is there.
        InvalidArgument: A column or option is wrong; nothing was written.
        CommitStateUnknown: The store did not tell whether the table was made.
    """
    log = open_log(open_env(path, check_spelling("options", options), ambient=ambient))
    arrow = schema_of(schema)
    columns = check_names("partition_by", partition_by)
    wanted = {**create_verb.indexing_properties(indexing, arrow), **create_verb.given_properties(properties)}
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
    """The newest version of the table at `path`, pinned until `refresh()`.

    `version` or `timestamp` opens another one, as `Table.at` does; a version can be opened also where a newer one is
    damaged or lost.

    Raises:
        TableNotFound: There is no table.
        VersionNotFound, VersionExpired: It has no such version, or not any more.
        InvalidArgument: Both a version and a timestamp are given.
        ProtocolUnsupported: It needs a newer library.
        LogError: Its log cannot be read as it stands.
    """
    log = open_log(open_env(path, check_spelling("options", options), ambient=ambient))
    try:
        if version is None and timestamp is None:
            return Table(log, log.snapshot(), is_seen=False)
        return Table(log, _snapshot_at(log, version, timestamp))
    except ObjectNotFound as cause:
        # A place whose name the store does not even take.
        raise TableNotFound(f"there is no table at {log.url[:200]}: {str(cause)[-200:]}", url=log.url) from cause


class Table(Looking, Maintenance):
    """One version of a table, until `refresh()` or a write of this handle moves it on.

    Made by `indextables.open` and `indextables.create`. Safe to use from several threads.
    """

    # When?

    def at(self, version: int | None = None, timestamp: dt.datetime | str | int | None = None) -> Table:
        """The table at a version, or as it was at a time (a datetime, ISO text, or milliseconds since the epoch).

        Raises VersionNotFound, VersionExpired, InvalidArgument unless exactly one is given.
        """
        return Table(self._log, _snapshot_at(self._log, version, timestamp))

    def refresh(self) -> Table:
        """Move this handle to the newest version, also where another table lives here by now; returns itself."""
        self._move_on()
        return self

    # Write

    def append(
        self,
        data: Any,
        *,
        txn: tuple[str, int] | None = None,
        merge_schema: bool = False,
        user_metadata: str | None = None,
    ) -> int:
        """Add rows in one commit; returns the version that holds them (this handle's, if there were none).

        When the commit is in the log the version is returned, whatever becomes of reading it: what stands in the way
        of that is logged, and raised by the next call that reads.

        Args:
            data: A pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, or a list of dicts.
                Columns are found in any case; a missing one becomes null.
            txn: (application, batch number): a batch that the table holds already is not written again.
            merge_schema: Add the columns that only the data has, and widen types (int to long, float to double) where
                it needs that; rows that are there hold null in new columns.
            user_metadata: A text that the history keeps with the commit.

        Raises:
            SchemaMismatch: The data does not fit; names each difference. Nothing was written.
            CommitConflict: The schema was changed meanwhile. Nothing was committed, no file stays.
            CommitStateUnknown: The store did not tell; `token` finds out. Nothing was deleted.
        """
        version = self._snapshot.version
        committed = self._append(data, txn, merge_schema=merge_schema, user_metadata=user_metadata)
        return version if committed is None else committed.version

    def _append(
        self,
        data: Any,
        txn: tuple[str, int] | None = None,
        *,
        merge_schema: bool = False,
        user_metadata: str | None = None,
    ) -> Committed | None:
        """As `append`: the commit, which tells whether it was one; None if there were no rows."""
        snapshot = self._snapshot
        committed = append_verb.append(
            self._log,
            snapshot,
            read_rows(data, snapshot.schema),
            txn=check_txn(txn),
            merge_schema=merge_schema,
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
        """Replace all rows, those of the partitions that `where` names, or those of the partitions of the new rows.

        Somebody else's overwrite, delete or update of these rows since this call began is a CommitConflict; what was
        appended meanwhile is replaced too. A serializable table counts from the version of this handle, and appends as
        well. Returns the version. Raises as `append`, and NotSupported for other predicates.

        Args:
            data: As for `append`.
            where: A predicate on partition columns, which the new rows must satisfy.
            partitions: "dynamic" replaces the partitions that the new rows are in, and no others.
            txn: As for `append`.
            merge_schema: As for `append`.
            overwrite_schema: The schema of the data becomes the table's; all rows are replaced.
            partition_by: With `overwrite_schema`, the partition columns from now on; by default they stay.
            user_metadata: As for `append`.
        """
        snapshot, batch = self._snapshot, check_txn(txn)
        predicate = self._predicate(where)
        # Before the first row is asked for: whoever makes the rows may take long.
        since = begun_verb.begun(self._log, begun_verb.newest(self._log), snapshot, txn=batch)
        committed = overwrite_verb.overwrite(
            self._log,
            snapshot,
            read_rows(data, None if overwrite_schema else snapshot.schema),
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
        """Write the state of the newest version, so that opening it reads less; returns that version.

        Raises NotSupported for tables of another system, CheckpointError, LogError, StoreError.
        """
        return state_verb.checkpoint(self._newest_env()).version

    def compact(self) -> int:
        """As `checkpoint`, laid out anew by partition; data files are not touched."""
        return state_verb.checkpoint(self._newest_env(), compact="full").version

    def clean_up(self, *, dry_run: bool | None = None) -> CleanupReport:
        """Delete old checkpoints and the version files that they cover, as far as retention lets them go.

        `dry_run` only lists them (default: `cleanup.dryRun`); data files are not touched. Raises StoreError.
        """
        return cleanup_verb.clean_up(self._newest_env(), dry_run=dry_run)

    def invalidate_cache(self) -> None:
        """Forget what is in memory about this table; results do not change."""
        self._log.invalidate()

    # Read

    def scan(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """The rows for which `where` is true, in the order in which they were written, batch by batch.

        Raises QueryInvalid, InvalidArgument, NotSupported for tables of another system; while it is read SplitCorrupt,
        VersionExpired, StoreError.
        """
        check_count("limit", limit)
        return self._answer(
            lambda snapshot: scan_table(self._log.env, snapshot, columns, self._predicate(where), limit)
        )

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """As `scan`, all in memory."""
        return self.scan(columns, where, limit).read_all()

    def search(
        self,
        query: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = 10,
        offset: int = 0,
        order_by: str | tuple[str, str] | None = None,
        highlight: Sequence[str] | None = None,
    ) -> pa.Table:
        """The rows that match a query, best first, with a column `_score`.

        Args:
            query: Words, phrases and fields: `timeout`, `message:"connection reset"`, `level:ERROR AND NOT retry`.
                Words without a field are looked for in all text columns, and any of them will do.
            columns: The columns to return; all by default.
            where: A SQL predicate that the rows must satisfy as well.
            limit: At most so many rows; None for all.
            offset: Leave out the first so many.
            order_by: A column, `"time desc"`, to order by instead of the score; then there is no `_score`.
            highlight: Text columns; each adds a column `_highlight_<name>`, a piece of the text as HTML in which what
                matched stands in `<em>`.

        Raises:
            QueryInvalid: The query or the predicate cannot be understood; `position` says where.
            InvalidArgument: A column is not there.
            NotSupported: The table is another system's.
        """
        check_count("limit", limit)
        check_count("offset", offset)
        return self._answer(
            lambda snapshot: search(
                self._log.env,
                self._searchers,
                snapshot,
                query,
                columns=columns,
                where=self._predicate(where),
                limit=limit,
                offset=offset,
                order_by=order_of(order_by),
                highlight=highlight or (),
            )
        )

    def explain(self, query: str | None, where: str | None = None) -> dict[str, Any]:
        """How `search` understands a query and a predicate, and what it reads to answer them. For people; no row comes.

        `conditions` lists the conditions, each with its kind, its columns and what answers it: the `index`, or the
        Parquet `columns`, which takes longer. `components` are the parts of an index that are read; `indexes` and
        `segments` count what is opened, `splits` the files of the table, `splits_loaded` those whose index is read, and
        `rows_scanned` the rows of which Parquet columns are read. `fallbacks` names each split whose index could not be
        used, with the reason; `reindex` mends it.

        Raises as `search`.
        """
        return self._answer(
            lambda snapshot: explain_search(self._log.env, self._searchers, snapshot, query, self._predicate(where))
        )

    def aggregate(
        self,
        query: str | None,
        aggregations: Mapping[str, Mapping[str, Mapping[str, Any]]],
        where: str | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Buckets and statistics over the rows that match, exact, by name.

        Kinds are `terms`, `date_histogram`, `histogram`, `range`, `stats`, `cardinality` and `percentiles`:
        `{"levels": {"terms": {"field": "level", "size": 10}}}`. Without a query all rows count.

        Raises QueryInvalid, InvalidArgument for an aggregation that is none, NotSupported.
        """
        return self._answer(
            lambda snapshot: aggregate_rows(
                self._log.env, self._searchers, snapshot, query, aggregations, self._predicate(where)
            )
        )

    def count(self, query: str | None = None, where: str | None = None) -> int:
        """How many rows match; all rows are counted from the log, without opening a file. Raises as `search`."""
        return self._answer(
            lambda snapshot: count(self._log.env, self._searchers, snapshot, query, self._predicate(where))
        )

    def sql(
        self,
        statement: str,
        *,
        tables: Mapping[str, Table] | None = None,
        params: Mapping[str, object] | None = None,
    ) -> pa.Table:
        """The answer to a SELECT over this version, which is called `t` in it.

        `TEXTSEARCH(column | *, 'query')` is true where a search matches, exactly, wherever it stands. Only queries are
        run; for another version, ask `at(...)` first.

        Args:
            statement: One SELECT in DataFusion's dialect.
            tables: Other tables, by the names they have in the statement.
            params: Values of `$name` in the statement; they are bound, never pasted.

        Raises:
            QueryInvalid: The statement, or a search in it, cannot be understood or evaluated.
            NotSupported: It is not a query, or TEXTSEARCH stands where no table is.
            InvalidArgument: Two tables have one name, or the statement is not a text.
        """
        from indextables.sql.local import SnapshotSource, select

        statement = check_text("statement", statement)

        def source(table: Table) -> SnapshotSource:
            return SnapshotSource(table._log.env, table._snapshot, table._searchers)

        others = {name: source(table) for name, table in check_mapping("tables", tables).items()}
        options = self._log.env.options
        return self._answer(lambda _: select(statement, source(self), others, params=params, options=options))

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
