"""Reads a folder of Parquet files, partitioned by folder names or not, as a table with one version: the present."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from indextables.env import Env
from indextables.errors import NotSupported, SchemaInvalid, TableNotFound
from indextables.foreign.columns import Match
from indextables.foreign.hive import partitions_of, typed_values
from indextables.foreign.rows import ForeignFile, footer_of
from indextables.foreign.snapshot import Files, partition_mask
from indextables.log.wire import (
    DV_TYPE,
    Metadata,
    Protocol,
    int64_array,
    schema_from_json,
    schema_to_json,
    text_array,
    widened,
)
from indextables.query.expr import Node
from indextables.storage.store import ObjectMeta

__all__ = ["ParquetFolder", "ParquetSnapshot"]


class ParquetFolder:
    """The Parquet files below the root of a store. Nothing is ever written."""

    system = "Parquet"

    def __init__(self, env: Env, files: Sequence[ObjectMeta], list_again: Callable[[], Sequence[ObjectMeta]]) -> None:
        """`files` are those that were found just now: the first snapshot has them."""
        self._env = env
        self._found: Sequence[ObjectMeta] = files
        self._list_again = list_again

    def snapshot(self, version: int | None = None, timestamp_ms: int | None = None) -> ParquetSnapshot:
        """What lies there. Raises NotSupported for another version than 0 and a time, TableNotFound, SplitCorrupt."""
        url = self._env.store.url
        if version not in (None, 0) or timestamp_ms is not None:
            raise NotSupported(f"the folder of Parquet files at {url} has no versions: open it as it is now", url=url)
        files, self._found = self._found or self._list_again(), ()
        if not files:
            raise TableNotFound(f"there are no Parquet files at {url} any more", url=url)
        return ParquetSnapshot(self._env, files)

    def history(self, limit: int | None = None) -> pa.Table:  # noqa: ARG002 - as for every source
        """Raises NotSupported: nobody wrote down what happened here."""
        message = f"the folder of Parquet files at {self._env.store.url} has no history"
        raise NotSupported(message, url=self._env.store.url)


class ParquetSnapshot:
    """The files of a folder and the columns that they have together. Every footer is read once, when it is made."""

    system = "Parquet"
    version = 0
    match = Match.PLAIN

    def __init__(self, env: Env, files: Sequence[ObjectMeta]) -> None:
        """Raises NotSupported where columns or folders of files do not go together, SplitCorrupt, StoreError."""
        self._env = env
        self._metas = files
        footers = list(env.ambient.map("requests", lambda meta: footer_of(env.store, meta.key, meta.size), files))
        self._rows = [rows for rows, _ in footers]
        stored = _merged(env, [(meta.key, schema) for meta, (_, schema) in zip(files, footers, strict=True)])
        self._texts = partitions_of([meta.key for meta in files], env.store.url)
        kinds = {field.name.lower(): field.type for field in stored}
        self.partition_values = {
            name: typed_values(texts, kinds.get(name.lower())) for name, texts in self._texts.items()
        }
        self.schema = _with_partitions(stored, self.partition_values)

    @property
    def partition_columns(self) -> list[str]:
        return list(self.partition_values)

    @cached_property
    def metadata(self) -> Metadata:
        """What a log would say: the schema and the partition columns. There is no id."""
        return Metadata(id="", schemaString=schema_to_json(self.schema), partitionColumns=self.partition_columns)

    @property
    def protocol(self) -> Protocol:
        return Protocol(minReaderVersion=1, minWriterVersion=1)

    @cached_property
    def files(self) -> pa.Table:
        """Path, size, time, rows and partition values of each file."""
        metas = self._metas
        pairs = [list(zip(self._texts, texts, strict=True)) for texts in zip(*self._texts.values(), strict=True)]
        return pa.table(
            {
                "path": text_array([meta.key for meta in metas]),
                "partitionValues": pa.array(pairs or [[]] * len(metas), pa.map_(pa.string(), pa.string())),
                "size": int64_array(np.asarray([meta.size for meta in metas], np.int64)),
                "modificationTime": int64_array(np.asarray([meta.modified_ms for meta in metas], np.int64)),
                "numRecords": int64_array(np.asarray(self._rows, np.int64)),
                "deletionVector": pa.nulls(len(metas), DV_TYPE),
            }
        )

    def files_where(self, where: Node | None) -> pa.Table:
        """Those whose partition values allow rows for which `where` is true."""
        mask = partition_mask(self.partition_values, where, len(self._metas))
        return self.files if mask is None else self.files.filter(mask)

    def data_files(self, where: Node | None) -> Sequence[ForeignFile]:
        """The same, to be read."""
        mask = partition_mask(self.partition_values, where, len(self._metas))
        kept = range(len(self._metas)) if mask is None else np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()

        def one(place: int) -> ForeignFile:
            number = kept[place]
            meta = self._metas[number]
            values = {name: column[number] for name, column in self.partition_values.items()}
            return ForeignFile(meta.key, meta.size, self._rows[number], values)

        return Files(len(kept), one)


def _merged(env: Env, schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """The columns of all files: in the order in which they first appear, each of a type that holds every value."""
    url = env.store.url
    fields: dict[str, pa.Field] = {}
    for number, (key, schema) in enumerate(schemas):
        if number and schema.equals(schemas[number - 1][1]):
            continue
        for field in _ours(schema, key, url):
            before = fields.get(field.name.lower())
            kind = field.type if before is None else _united(before.type, field.type)
            if kind is None or (before is not None and before.name != field.name):
                message = (
                    f"the Parquet files below {url} do not go together: column {field.name} of {key} is {field.type}, "
                    f"others have {before}; open the folder that holds one table"
                )
                raise NotSupported(message, url=url, path=key, column=field.name)
            fields[field.name.lower()] = pa.field(field.name, kind)
    return pa.schema(list(fields.values()))


def _ours(schema: pa.Schema, key: str, url: str) -> pa.Schema:
    """The columns of a file in the types that we have for them."""
    try:
        return schema_from_json(schema_to_json(_nullable(schema)))
    except SchemaInvalid as error:
        raise NotSupported(
            f"{key} below {url} has columns that are not read here: {error}", url=url, path=key
        ) from error


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _united(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one == other or pa.types.is_null(other):
        return one
    return other if pa.types.is_null(one) else widened(one, other)


def _with_partitions(stored: pa.Schema, values: dict[str, pa.Array]) -> pa.Schema:
    """The columns of the files and of the folders: a folder's word counts, at the place that the files have for it."""
    given = {name.lower(): pa.field(name, column.type) for name, column in values.items()}
    fields = [given.pop(field.name.lower(), field) for field in stored]
    return pa.schema([*fields, *given.values()])
