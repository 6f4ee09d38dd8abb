"""The read side: planning over the log, and tasks that stream splits as Arrow batches in Spark's exact schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables import options as opt
from indextables.errors import SchemaMismatch
from indextables.split.ref import SplitRef

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.log.env import LogEnv
    from indextables.query.expr import Node

__all__ = ["SplitPartition", "TableReader", "grouped"]

_TASK_BYTES = 128 << 20
"""Small splits share a task up to this size."""


class SplitPartition(InputPartition):  # type: ignore[misc]
    """The splits of one task, with columns and time zone of the table, so that a task does not read the log."""

    def __init__(self, refs: Sequence[SplitRef], schema: pa.Schema, version: int, zone: str) -> None:
        super().__init__(None)
        self.refs = list(refs)
        self.schema = schema
        self.version = version
        self.zone = zone


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Reads one version, whatever is committed meanwhile."""

    def __init__(
        self, *, url: str, options: Mapping[str, object], version: int | None, schema: StructType, where: str | None
    ) -> None:
        self._url = url
        self._options = dict(options)
        self._version = version
        self._schema = schema
        self._where = where

    def partitions(self) -> Sequence[InputPartition]:
        """One or more splits per task; an empty table has one task without splits."""
        from indextables.log.snapshot import Log
        from indextables.table.plan import check_rows_readable, prune_files, refs_of

        env = self._env()
        snapshot = Log(env).snapshot(self._version)
        check_rows_readable(snapshot, self._url)
        zone = env.options.over(snapshot.metadata.configuration)[opt.TIME_ZONE]
        refs = refs_of(env, prune_files(snapshot, self.predicate(snapshot.schema, zone)))
        groups = list(grouped(refs)) or [[]]
        return [SplitPartition(group, snapshot.schema, snapshot.version, zone) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the task's splits. Raises SplitCorrupt, VersionExpired, StoreError."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        from indextables.table.scan import scan_split

        wanted = to_arrow_schema(self._schema, timezone="UTC")
        if not isinstance(partition, SplitPartition):
            return
        env = self._env()
        names = _names(partition.schema, wanted)
        predicate = self.predicate(partition.schema, partition.zone)
        for ref in partition.refs:
            for batch in scan_split(env, partition.schema, ref, names, predicate, partition.version):
                columns = [_as_field(column, field) for column, field in zip(batch.columns, wanted, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    def _env(self) -> LogEnv:
        from indextables.table.environment import open_env

        return open_env(self._url, self._options)

    def predicate(self, schema: pa.Schema, zone: str) -> Node | None:
        """The option `where` for this schema, None if it was not given. Raises QueryInvalid."""
        if self._where is None:
            return None
        from indextables.query.parse import parse

        return parse(self._where, schema, time_zone=zone)


def grouped(refs: Sequence[SplitRef]) -> Iterator[list[SplitRef]]:
    """The splits of each task: small ones share one."""
    group: list[SplitRef] = []
    size = 0
    for ref in refs:
        if group and size + (ref.size or 0) > _TASK_BYTES:
            yield group
            group, size = [], 0
        group.append(ref)
        size += ref.size or 0
    if group:
        yield group


def _names(schema: pa.Schema, wanted: pa.Schema) -> list[str]:
    spelled = {name.lower(): name for name in schema.names}
    missing = [name for name in wanted.names if name.lower() not in spelled]
    if missing:
        message = f"the schema given to Spark has columns that the table lacks: {', '.join(missing)}"
        raise SchemaMismatch(message, differences=missing)
    return [spelled[name.lower()] for name in wanted.names]


def _as_field(column: pa.Array, field: pa.Field) -> pa.Array:
    import pyarrow as pa

    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        message = f"column {field.name} is {column.type} in the table, Spark asks for {field.type}: {cause}"
        raise SchemaMismatch(message, differences=[field.name]) from cause
