"""`DeltaSnapshot` is one version of a Delta table: schema, partition values and files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.errors import LogCorrupt, NotSupported, SchemaInvalid
from indextables.foreign.columns import Match
from indextables.foreign.delta.jsonlines import read_json_lines
from indextables.foreign.delta.log import DeltaVersion
from indextables.foreign.delta.protocol import MAPPING, has_feature
from indextables.foreign.delta.replay import live_files
from indextables.foreign.delta.skipping import stats_mask
from indextables.foreign.rows import ForeignFile
from indextables.foreign.snapshot import Files, partition_mask
from indextables.lazy import pc
from indextables.log.wire import DeletionVector, Metadata, Protocol, combined, key_of, schema_from_json
from indextables.query.convert import cast_or_null
from indextables.query.expr import Node
from indextables.query.stats import map_values

__all__ = ["DeltaSnapshot"]

_MODE = "delta.columnMapping.mode"
_MODES = {"none": Match.PLAIN, "name": Match.NAME, "id": Match.ID}
_MAPPING_SINCE = 2


class _Stats(msgspec.Struct):
    numRecords: int | None = None


_STATS = msgspec.json.Decoder(_Stats)
_STATS_SCHEMA = pa.schema([("numRecords", pa.int64())])


class DeltaSnapshot:
    """One version of a Delta table. Files are replayed when they are first asked for."""

    system = "Delta"

    def __init__(self, env: Env, loaded: DeltaVersion) -> None:
        """Raises NotSupported and LogCorrupt for metadata that no table of rows has."""
        self._env = env
        self._loaded = loaded
        self.version = loaded.version
        if self.metadata.format.provider.lower() != "parquet":
            message = (
                f"the Delta table at {env.store.url} keeps its rows as {self.metadata.format.provider}, not Parquet"
            )
            raise NotSupported(message, url=env.store.url)
        known = set(self.schema.names)
        missing = [name for name in self.partition_columns if name not in known]
        if missing:
            raise self._corrupt(f"it is partitioned by {', '.join(missing)}, which its schema has not")

    @property
    def metadata(self) -> Metadata:
        return self._loaded.metadata

    @property
    def protocol(self) -> Protocol:
        return self._loaded.protocol

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns; the metadata of a field says how files name it."""
        try:
            return schema_from_json(self.metadata.schemaString)
        except SchemaInvalid as error:
            message = f"the schema of the Delta table at {self._env.store.url} is not read here: {error}"
            raise NotSupported(message, url=self._env.store.url) from error

    @property
    def partition_columns(self) -> list[str]:
        return list(self.metadata.partitionColumns)

    @cached_property
    def match(self) -> Match:
        """How columns are found in files. Raises NotSupported for a way that is not known."""
        if not has_feature(self.protocol, MAPPING, since=_MAPPING_SINCE):
            return Match.PLAIN
        mode = self.metadata.configuration.get(_MODE, "none").lower()
        if mode not in _MODES:
            message = f"the Delta table at {self._env.store.url} maps its columns by {mode!r}, which is not known here"
            raise NotSupported(message, url=self._env.store.url)
        return _MODES[mode]

    @cached_property
    def files(self) -> pa.Table:
        """The fields of the log's `add` entries, and the rows of each file where the log tells them."""
        return self._live.append_column("numRecords", _row_counts(combined(self._live["stats"])))

    @cached_property
    def _live(self) -> pa.Table:
        found = live_files(self._loaded.base, self._loaded.actions, self._env.store.url)
        if self.partition_columns and found["partitionValues"].null_count:
            path = found.filter(pc.is_null(found["partitionValues"]))["path"][0].as_py()
            raise self._corrupt(f"its log tells no partition values of {path}")
        return found

    @cached_property
    def partition_values(self) -> dict[str, pa.Array]:
        """The values of each partition column, one for each file. Raises LogCorrupt."""
        return {name: self._values(self.schema.field(name)) for name in self.partition_columns}

    def files_where(self, where: Node | None) -> pa.Table:
        """Those whose partition values and statistics allow rows for which `where` is true. Raises LogCorrupt."""
        mask = self._mask(where)
        return self.files if mask is None else self.files.filter(mask)

    def data_files(self, where: Node | None) -> Sequence[ForeignFile]:
        """The files that may hold rows for which `where` is true. Raises LogCorrupt, PathEscape."""
        files, values = self._live, self.partition_values
        mask = self._mask(where)
        if mask is not None:
            files, values = files.filter(mask), {name: column.filter(mask) for name, column in values.items()}
        paths, sizes, stats, vectors = (combined(files[name]) for name in ("path", "size", "stats", "deletionVector"))

        def one(place: int) -> ForeignFile:
            path = paths[place].as_py()
            return ForeignFile(
                key_of(path, self._env.store.url),
                sizes[place].as_py(),
                _rows_told(stats[place].as_py()),
                {name: column[place] for name, column in values.items()},
                self._vector(vectors[place].as_py(), path),
            )

        return Files(len(files), one)

    def _mask(self, where: Node | None) -> pa.BooleanArray | None:
        """For each file whether it may hold rows for which `where` is true; None if all may."""
        by_values = partition_mask(self.partition_values, where, len(self._live))
        by_stats = stats_mask(combined(self._live["stats"]), where, self.schema, self.match)
        if by_values is None or by_stats is None:
            return by_stats if by_values is None else by_values
        return pc.and_(by_values, by_stats)

    def _vector(self, told: dict[str, object] | None, path: str) -> DeletionVector | None:
        if told is None:
            return None
        try:
            return msgspec.convert({key: value for key, value in told.items() if value is not None}, DeletionVector)
        except msgspec.ValidationError as error:
            raise self._corrupt(f"the deletion vector of {path} is not one: {error}") from error

    def _values(self, field: pa.Field) -> pa.Array:
        texts = map_values(self._live["partitionValues"], self.match.physical_name(field))
        distinct = pc.dictionary_encode(pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts))
        known = distinct.dictionary
        typed = known.cast(pa.binary()) if pa.types.is_binary(field.type) else cast_or_null(known, field.type)
        if typed.null_count:
            wrong = known.filter(typed.is_null())[0].as_py()
            raise self._corrupt(f"the partition value {wrong[:200]!r} of column {field.name} is no {field.type}")
        return typed.take(distinct.indices)

    def _corrupt(self, reason: str) -> LogCorrupt:
        message = f"version {self.version} of the Delta table at {self._env.store.url} cannot be read: {reason}"
        return LogCorrupt(message, version=self.version, url=self._env.store.url, reason=reason)


def _rows_told(stats: str | None) -> int | None:
    if not stats:
        return None
    try:
        rows = _STATS.decode(stats).numRecords
    except (msgspec.DecodeError, RecursionError):
        return None
    return rows if rows is not None and 0 <= rows < 1 << 62 else None


def _row_counts(stats: pa.Array) -> pa.Array:
    """`numRecords` of each text, null where it tells none."""
    there = pc.and_(pc.is_valid(stats), pc.not_equal(stats, ""))
    lines = "\n".join(stats.filter(there).to_pylist())
    try:
        told = combined(read_json_lines(lines.encode(), _STATS_SCHEMA).column(0))
        told = pc.if_else(pc.greater_equal(told, 0), told, pa.scalar(None, pa.int64()))
        if len(told) == pc.sum(there, min_count=0).as_py():
            return pc.replace_with_mask(pa.nulls(len(stats), pa.int64()), pc.fill_null(there, False), told)  # noqa: FBT003
    except (pa.ArrowException, ValueError, OSError):
        pass
    return pa.array([_rows_told(text) for text in stats.to_pylist()], pa.int64())
