"""The read side: planning over the log, and tasks that stream splits as Arrow batches in Spark's exact schema.

What only planning, only a scan or only a search needs is loaded there: a task starts without the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables import options as opt
from indextables.errors import InvalidArgument, SchemaMismatch
from indextables.spark.session import READING, check_session, how_to_renew, task_session
from indextables.spark.tasks import grouped
from indextables.split.file import SplitRef
from indextables.table.environment import open_env

if TYPE_CHECKING:
    from indextables.env import Env
    from indextables.log.read import Snapshot
    from indextables.log.wire import Metadata
    from indextables.options import Options
    from indextables.query.expr import Node
    from indextables.split.search import TermStats

__all__ = ["FoundPartition", "SplitPartition", "TableReader", "as_field"]

_SCORE = "_score"


class SplitPartition(InputPartition):  # type: ignore[misc]
    """The splits of one task, with columns and time zone of the table, so that a task does not read the log."""

    def __init__(
        self, refs: Sequence[SplitRef], schema: pa.Schema, version: int, zone: str, limit: int | None = None
    ) -> None:
        super().__init__(None)
        self.refs = list(refs)
        self.schema = schema
        self.version = version
        self.zone = zone
        self.limit = limit


class FoundPartition(SplitPartition):
    """The splits that one task searches; `stats` are those of the whole table, where the task does not see it all."""

    def __init__(
        self,
        refs: Sequence[SplitRef],
        metadata: Metadata,
        schema: pa.Schema,
        version: int,
        zone: str,
        limit: int | None,
        stats: TermStats | None,
    ) -> None:
        super().__init__(refs, schema, version, zone, limit)
        self.metadata = metadata
        self.stats = stats


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Reads one version, whatever is committed meanwhile."""

    def __init__(
        self,
        *,
        url: str,
        options: Mapping[str, object],
        version: int | None,
        schema: StructType,
        where: str | None,
        session: Mapping[str, str] | None = None,
        search: str | None = None,
        limit: int | None = None,
        table_id: str | None = None,
    ) -> None:
        """`table_id` is the table that the version is one of, where that is known: no other is read."""
        self._url = url
        self._table_id = table_id
        self._options = dict(options)
        self._session = dict(session or {})
        self._version = version
        self._schema = schema
        self._where = where
        self._search = search
        self._limit = limit

    def partitions(self) -> Sequence[InputPartition]:
        """One or more splits per task; an empty table has one task without splits.

        Raises QueryInvalid, SchemaMismatch for columns that the table does not have, NotSupported, LogError,
        TableReplaced.
        """
        from indextables.log.read import Log
        from indextables.table.read import check_rows_readable, planned_files, refs_of

        env = self._env()
        snapshot = Log(env).of_table(self._table_id).snapshot(self._version)
        check_rows_readable(snapshot, self._url)
        _names(
            snapshot.schema, [name for name in self._schema.names if self._search is None or name != _SCORE], self._url
        )
        options = env.over(snapshot.metadata.configuration)
        zone = options[opt.TIME_ZONE]
        self.check_zone(snapshot.schema, options)
        where = self.predicate(snapshot.schema, zone)
        if self._search is not None:
            return self._searches(env, snapshot, self._search, where, zone)
        refs = refs_of(env, planned_files(env, snapshot, where), snapshot.schema)
        if self._limit is not None:
            # One task, which can stop: how many rows the others would find nobody knows.
            refs = refs if where is not None else list(_enough(refs, self._limit))
            return [SplitPartition(refs, snapshot.schema, snapshot.version, zone, self._limit)]
        groups = list(grouped(refs)) or [[]]
        return [SplitPartition(group, snapshot.schema, snapshot.version, zone) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the task's splits. Raises SplitCorrupt, VersionExpired, StoreError."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from indextables.table.read import limited

        wanted = to_arrow_schema(self._schema, timezone="UTC")
        if not isinstance(partition, SplitPartition):
            return
        session = task_session()
        check_session(session, READING)
        env = self._env(session)
        where = self.predicate(partition.schema, partition.zone)
        if isinstance(partition, FoundPartition):
            batches = self._found(env, partition, wanted, where)
        else:
            batches = limited(self._scanned(env, partition, wanted, where), partition.limit)
        for batch in batches:
            columns = [as_field(column, field) for column, field in zip(batch.columns, wanted, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    def check_zone(self, schema: pa.Schema, options: Options) -> None:
        """Raises InvalidArgument for a `where` whose times have no zone, if nobody gave one.

        A worker that plans does not see the zone of the session, and another one would mean other rows.
        """
        if self._where is None or options.given(opt.TIME_ZONE):
            return
        from indextables.query.parse import depends_on_zone

        if depends_on_zone(self._where, schema):
            message = (
                f"where = {self._where!r} has a time without a zone, and a worker of Spark does not see that of the "
                "session: write the zone into it, give the option timeZone, or use IndexTable.forPath(spark, path)"
                ".toDF(where=...)"
            )
            raise InvalidArgument(message, option="where")

    def predicate(self, schema: pa.Schema, zone: str) -> Node | None:
        """The option `where` for this schema, None if it was not given. Raises QueryInvalid."""
        if self._where is None:
            return None
        from indextables.query.parse import parse

        return parse(self._where, schema, time_zone=zone)

    def _scanned(
        self, env: Env, partition: SplitPartition, wanted: pa.Schema, where: Node | None
    ) -> Iterator[pa.RecordBatch]:
        from indextables.table.read import scan_split

        names = _names(partition.schema, wanted.names, self._url)
        for ref in partition.refs:
            yield from scan_split(env, partition.schema, ref, names, where, partition.version)

    def _found(
        self, env: Env, partition: FoundPartition, wanted: pa.Schema, where: Node | None
    ) -> Iterator[pa.RecordBatch]:
        from indextables.table.read import found_batches, searcher_over, still_there

        names = [name for name in wanted.names if name != _SCORE]
        spelled = dict(zip(names, _names(partition.schema, names, self._url), strict=True))
        with still_there(env, partition.version):
            for _, rows in found_batches(
                searcher_over(env, partition.metadata, partition.refs),
                self._search or "",
                list(spelled.values()),
                where=where,
                limit=partition.limit,
                stats=partition.stats,
            ):
                yield from rows.select([spelled.get(name, name) for name in wanted.names]).to_batches()

    def _searches(
        self, env: Env, snapshot: Snapshot, query: str, where: Node | None, zone: str
    ) -> list[InputPartition]:
        from indextables.table.read import planned_files, refs_of, searcher_over, still_there

        metadata = snapshot.metadata
        # A query that is wrong is told here, not by a task.
        searcher_over(env, metadata, []).plan(query, where)
        everything = refs_of(env, planned_files(env, snapshot, None), snapshot.schema)

        def task(refs: Sequence[SplitRef], stats: TermStats | None) -> FoundPartition:
            return FoundPartition(refs, metadata, snapshot.schema, snapshot.version, zone, self._limit, stats)

        left = everything
        if where is not None:
            keys = {ref.key for ref in refs_of(env, planned_files(env, snapshot, where), snapshot.schema)}
            left = [ref for ref in everything if ref.key in keys]
        groups = list(grouped(left)) or [[]]
        if self._limit is not None or (len(groups) == 1 and len(left) == len(everything)):
            return [task(everything, None)]
        with still_there(env, snapshot.version):
            stats = searcher_over(env, metadata, everything).collect_stats(query)
        return [task(group, stats) for group in groups]

    def _env(self, session: Mapping[str, str] | None = None) -> Env:
        return open_env(self._url, self._options, session={**(session or {}), **self._session})


def _enough(refs: Sequence[SplitRef], limit: int) -> Iterator[SplitRef]:
    """The first splits that surely hold `limit` rows together; those with deleted rows count as none."""
    held = 0
    for ref in refs:
        if held >= limit:
            return
        yield ref
        held += (ref.num_rows or 0) if ref.vector is None else 0


def _names(schema: pa.Schema, wanted: Sequence[str], url: str) -> list[str]:
    spelled = {name.lower(): name for name in schema.names}
    missing = [name for name in wanted if name.lower() not in spelled]
    if missing:
        message = (
            f"the schema given to Spark has columns that the table lacks: {', '.join(missing)}; it has "
            f"{', '.join(schema.names)}. {how_to_renew(url)}"
        )
        raise SchemaMismatch(message, differences=missing)
    return [spelled[name.lower()] for name in wanted]


def as_field(column: pa.Array, field: pa.Field) -> pa.Array:
    """A column in the type that Spark asks for. Raises SchemaMismatch."""
    import pyarrow as pa

    if column.type == field.type:
        return column
    if _needs_zone(column.type, field.type):
        message = (
            f"column {field.name} is {column.type} in the table, Spark asks for {field.type}: which instant a day or a "
            "time of the clock is depends on the zone, which is known to the session only. Read the column as it is, "
            "and cast it in the query"
        )
        raise SchemaMismatch(message, differences=[field.name])
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        message = f"column {field.name} is {column.type} in the table, Spark asks for {field.type}: {cause}"
        raise SchemaMismatch(message, differences=[field.name]) from cause


def _needs_zone(given: pa.DataType, wanted: pa.DataType) -> bool:
    """True if a cast, at any depth, is between instants and something that is none."""
    if given.num_fields and given.num_fields == wanted.num_fields:
        return any(_needs_zone(given.field(place).type, wanted.field(place).type) for place in range(given.num_fields))
    return _is_instant(given) != _is_instant(wanted)


def _is_instant(data_type: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(data_type)) and data_type.tz is not None
