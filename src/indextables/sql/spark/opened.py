"""The tables of one statement of Spark: looked at, and given to it as DataFrames and views."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indextables.env import Env
from indextables.errors import InvalidArgument, LimitExceeded, QueryInvalid, TableNotFound
from indextables.log.read import Log, Snapshot
from indextables.query.expr import Node
from indextables.query.parse import parse
from indextables.spark.scan import native_scan
from indextables.spark.search import (
    answer_frame,
    count_marked,
    found_rows,
    live_files,
    marked_rows,
    matches_every_row,
)
from indextables.spark.session import computes_otherwise, insertable, plain_reader, reads_otherwise
from indextables.spark.table import IndexTable
from indextables.spark.tasks import SparkHandle
from indextables.sql.command import Args, Found, Reference, TableName, is_table, moment_ms, value_of
from indextables.sql.spark.answers import NUMBERS, Answer, answer_of, grouped_rows
from indextables.sql.spark.cached import cached_version
from indextables.sql.spark.rewrite import COUNTED, Need, rewrite_for_spark
from indextables.table.environment import table_env
from indextables.table.read import MarkedRows, counted_rows

if TYPE_CHECKING:
    from indextables.spark.session import DataFrame, SparkSession
    from indextables.sql.spark.rewrite import Rewritten
    from indextables.sql.spark.session import SessionContext

__all__ = ["Opened", "kept"]


class Opened:
    """The tables of one statement, each looked at once, so that all references to one see one version."""

    def __init__(
        self, context: SessionContext, found: Found, args: Args | None, write_options: Mapping[str, str]
    ) -> None:
        """`write_options` are those of the write of an INSERT."""
        self._context = context
        self._write_options = write_options
        self._found = found
        self._args = args
        self._tables: dict[tuple[str, bool], SparkHandle] = {}
        self._logs: dict[str, Log] = {}
        self._snapshots: dict[tuple[str, str], Snapshot] = {}
        self._files: dict[Snapshot, pa.Table] = {}
        self._counted: dict[int, int] = {}
        self._are_many = False
        """True where `answered` has seen that the driver finds no rows of the one reference."""

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

    def answered(self, rewritten: Rewritten) -> DataFrame | None:
        """The answer of a statement that shows, counts or groups a few rows of one search; None for all others.

        It is that of Spark, without a plan over rows that Spark was given. Raises as `frame`.
        """
        reference, need = self._found.references[0], rewritten.needs[0]
        is_named = rewritten.args is None or isinstance(rewritten.args, Mapping)
        if need.marked or need.score or not (need.required or need.counts) or not (is_named or not rewritten.args):
            return None
        asked = answer_of(self._found, self.snapshot(reference).schema, len(need.required) + len(need.filters))
        if asked is None:
            return None
        counted = self._counted.get(0)
        if counted is not None:
            return self._shown(reference, asked, pa.table({asked.shown[0].name: pa.array([counted], pa.int64())}))
        snapshot = self.snapshot(reference)
        where, missed = self._understood(need.filters, snapshot)
        if missed or not need.required:
            return None
        env = table_env(self.log(reference).env, snapshot.metadata)
        wanted = MarkedRows(asked.columns, need.required)
        rows = found_rows(env, snapshot, self._live(env, snapshot), wanted, where=where, limit=asked.limit)
        self._are_many = rows is None
        if rows is None:
            return None
        if asked.groups is not None:
            return self._shown(reference, asked, grouped_rows(rows, asked))
        names = [one.name for one in asked.shown]
        return self._shown(reference, asked, rows.select([one.column for one in asked.shown]).rename_columns(names))

    def _shown(self, reference: Reference, asked: Answer, rows: pa.Table | None) -> DataFrame | None:
        if rows is None:
            return None
        shown = [(one.name, None if one.kind in NUMBERS else one.column) for one in asked.shown]
        always = {one.name for one in asked.shown if one.kind in ("rows", "count")}
        return answer_frame(self.table(reference).spark, self.snapshot(reference).metadata, rows, shown, always)

    def columns(self, reference: Reference) -> list[str]:
        return list(self.snapshot(reference).schema.names)

    def table(self, reference: Reference) -> SparkHandle:
        key = (reference.name, reference.is_path)
        if key not in self._tables:
            self._tables[key] = self._context.table(TableName(reference.name, is_path=reference.is_path))
        return self._tables[key]

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
            return self._scan(table, env, snapshot, None, where)
        names = tuple(snapshot.schema.names) if need.columns is None else need.columns
        asked = MarkedRows(names, tuple(need.required), tuple(need.marked), need.score)
        limit = None if missed else need.limit
        files = self._live(env, snapshot)
        is_plain = bool(names) and not need.marked and not need.score and limit is None
        if is_plain and not lasting and matches_every_row(env, snapshot, files, asked):
            found = self._scan(table, env, snapshot, names, where)
            return found.selectExpr("*", *(f"true AS `{mark.name}`" for mark in need.required))
        lasting = lasting or self._are_many
        return marked_rows(table, env, snapshot, files, asked, where=where, limit=limit, lasting=lasting)

    def _live(self, env: Env, snapshot: Snapshot) -> pa.Table:
        """The files of a version, read once: of many files no entries stay in memory (`planned_files`)."""
        if snapshot not in self._files:
            self._files[snapshot] = live_files(env, snapshot)
        return self._files[snapshot]

    def _scan(
        self, table: SparkHandle, env: Env, snapshot: Snapshot, columns: Sequence[str] | None, where: Node | None
    ) -> DataFrame:
        """The rows of a version, read by Spark itself; those in which `where` does not hold may come or not."""
        return native_scan(
            table.spark,
            env,
            snapshot,
            columns=columns,
            where=where,
            text=None,
            fallback=table.reader_options(table.place()),
        )

    def _count(self, reference: Reference, need: Need) -> int | None:
        """The rows that a count asks for; None if Spark had better count them."""
        table, snapshot = self.table(reference), self.snapshot(reference)
        if need.required:
            where, missed = self._understood(need.filters, snapshot)
            env = table_env(self.log(reference).env, snapshot.metadata)
            if missed:
                return None
            asked = MarkedRows((), need.required)
            return count_marked(table, env, snapshot, self._live(env, snapshot), asked, where=where)
        if need.filters:
            return None
        counted = counted_rows(snapshot)
        if counted is None:
            counted = IndexTable(table.spark, table.url).toDF(versionAsOf=snapshot.version).count()
        return int(counted)

    def _understood(self, filters: Sequence[str], snapshot: Snapshot) -> tuple[Node | None, bool]:
        """The filters that mean the same to us, together, and whether there are others, which Spark alone answers."""
        found = []
        zone = self._context.time_zone
        for text in filters:
            try:
                node = parse(text, snapshot.schema, time_zone=zone)
            except (QueryInvalid, LimitExceeded, InvalidArgument):
                # The zone of the session may have no name.
                continue
            spark = self._context.spark
            is_other = computes_otherwise(spark, node)
            if not is_other and not reads_otherwise(spark, text, snapshot.schema, self._found.text):
                found.append(f"({text})")
        where = parse(" AND ".join(found), snapshot.schema, time_zone=zone) if found else None
        return where, len(found) < len(filters)

    def target(self, reference: Reference) -> str:
        """A view that rows can be inserted into."""
        table = self.table(reference)
        if reference.as_of is not None:
            raise InvalidArgument("rows are inserted into the newest version: leave out AS OF")
        if not is_table(self.log(reference)):
            raise TableNotFound(
                f"there is no table at {table.url}: make it with CREATE INDEXTABLE first", url=table.url
            )
        # Spark drops the options that an INSERT gives a view in its text.
        options = {**table.reader_options(table.place()), **self._write_options}
        reader = plain_reader(table.spark).format("indextables").options(**options)
        return kept(reader.schema(insertable(self.snapshot(reference).metadata.schemaString)).load(table.url))


def _number(spark: SparkSession, rows: int) -> DataFrame:
    """One row that stands for so many."""
    return spark.range(1).selectExpr(f"CAST({rows} AS BIGINT) AS {COUNTED}")


def kept(frame: DataFrame) -> str:
    """A temporary view of its own."""
    name = f"indextables_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    return f"`{name}`"
