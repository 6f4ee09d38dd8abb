"""`Opened` is a table of another system at one version, as a conversion reads it: columns, files, and rows by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from indextables.env import Env
from indextables.errors import InvalidArgument, ObjectNotFound, TableNotFound, VersionExpired
from indextables.foreign import (
    DeltaTable,
    ForeignSnapshot,
    IcebergTable,
    check_types,
    find_source,
    kept_field,
    read_bundle_rows,
    read_rows_of,
)
from indextables.log.care import open_log
from indextables.log.read import Snapshot
from indextables.log.wire import Metadata, has_own_splits, path_rule
from indextables.query.expr import Node
from indextables.table.read import prune_files

if TYPE_CHECKING:
    from indextables.foreign import AddedFile

__all__ = ["PEER", "Opened", "open_source"]

PEER = "IndexTables4Spark"


class Opened(Protocol):
    """One version of a source."""

    @property
    def system(self) -> str:
        """Who wrote it: `Delta`, `Parquet`, `IndexTables4Spark`."""
        ...

    @property
    def version(self) -> int: ...

    @property
    def url(self) -> str: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def schema(self) -> pa.Schema:
        """The columns as a table of ours has them, with their comments."""
        ...

    @property
    def partition_columns(self) -> list[str]: ...

    @property
    def columns(self) -> dict[str, str]:
        """For each column the name that files have for it."""
        ...

    @property
    def files(self) -> pa.Table:
        """A row for each file, with the columns path, size, numRecords and deletionVector at least."""
        ...

    def files_where(self, where: Node | None) -> pa.Table:
        """Those of them that may hold rows for which `where` is true."""
        ...

    def rows(
        self, places: Sequence[int], names: Sequence[str] | None = None, where: Node | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these files, by their places in `files`, for which `where` is true; in all columns by default."""
        ...

    def added_since(self, version: int) -> tuple[list[AddedFile], int | None] | None:
        """The files that brought rows since a version, and the first version that took rows away, if any.

        None where versions do not tell.
        """
        ...


def open_source(env: Env, version: int | None = None) -> Opened:
    """The table of another system at this place. It is only read.

    Raises TableNotFound, InvalidArgument for a table of ours, and what reading its log raises.
    """
    source = find_source(env)
    if source is not None:
        table = source if isinstance(source, DeltaTable | IcebergTable) else None
        return _Foreign(env, source.snapshot(version), table)
    log = open_log(env)
    try:
        snapshot = log.snapshot(version)
    except ObjectNotFound as cause:
        raise TableNotFound(f"there is no table at {env.store.url}: {str(cause)[-200:]}", url=env.store.url) from cause
    if has_own_splits(snapshot.protocol):
        message = (
            f"the table at {env.store.url} is one of ours already: nothing is converted. To copy it, create a table "
            "and append this one to it"
        )
        raise InvalidArgument(message, url=env.store.url)
    return _Peer(env, snapshot)


class _Foreign:
    """A table of Delta or Iceberg, or a folder of Parquet files."""

    def __init__(self, env: Env, snapshot: ForeignSnapshot, table: DeltaTable | IcebergTable | None) -> None:
        self._env = env
        self._snapshot = snapshot
        self._table = table
        self.system = snapshot.system
        self.version = snapshot.version
        self.url = env.store.url
        self.metadata = snapshot.metadata
        self.schema = pa.schema([kept_field(field) for field in snapshot.schema])
        self.partition_columns = snapshot.partition_columns
        self.columns = {field.name: snapshot.match.physical_name(field) for field in snapshot.schema}

    @property
    def files(self) -> pa.Table:
        return self._snapshot.files

    def files_where(self, where: Node | None) -> pa.Table:
        return self._snapshot.files_where(where)

    def rows(
        self, places: Sequence[int], names: Sequence[str] | None = None, where: Node | None = None
    ) -> Iterator[pa.RecordBatch]:
        snapshot = self._snapshot
        wanted = snapshot.schema.names if names is None else names
        files = snapshot.data_files(None)
        for place in places:
            file = files[place]
            try:
                yield from read_rows_of(self._env.store, file, snapshot.schema, snapshot.match, wanted, where)
            except ObjectNotFound as cause:
                raise _gone(self, file.key) from cause

    def added_since(self, version: int) -> tuple[list[AddedFile], int | None] | None:
        found = None if self._table is None else self._table.added_since(version, self.version)
        return None if found is None else (found.files, found.lost)


class _Peer:
    """A table of IndexTables4Spark, whose log is as ours."""

    system = PEER

    def __init__(self, env: Env, snapshot: Snapshot) -> None:
        """Raises NotSupported for columns whose values its splits do not tell."""
        check_types(snapshot.schema, env.store.url)
        self._env = env
        self._snapshot = snapshot
        self.version = snapshot.version
        self.url = env.store.url
        self.metadata = snapshot.metadata
        self.schema = pa.schema([kept_field(field) for field in snapshot.schema])
        self.partition_columns = list(snapshot.metadata.partitionColumns)
        self.columns = {name: name for name in snapshot.schema.names}

    @property
    def files(self) -> pa.Table:
        return self._snapshot.files

    def files_where(self, where: Node | None) -> pa.Table:
        return prune_files(self._snapshot, where)

    def rows(
        self, places: Sequence[int], names: Sequence[str] | None = None, where: Node | None = None
    ) -> Iterator[pa.RecordBatch]:
        wanted = self._snapshot.schema.names if names is None else names
        snapshot, rule = self._snapshot, path_rule(self._snapshot.protocol)
        chosen = snapshot.files.take(pa.array(places, pa.int64()))
        told = zip(*(chosen[name].to_pylist() for name in ("path", "size", "numRecords")), strict=True)
        for path, size, rows in told:
            key = rule.key(path, self.url)
            try:
                yield from read_bundle_rows(self._env.store, key, size, rows, snapshot.schema, wanted, where)
            except ObjectNotFound as cause:
                raise _gone(self, key) from cause

    def added_since(self, version: int) -> tuple[list[AddedFile], int | None] | None:
        from indextables.foreign import AddedFile

        then = set(open_log(self._env).snapshot(version).files["path"].to_pylist())
        now = self.files["path"].to_pylist()
        lost = self.version if then - set(now) else None
        return [AddedFile(self.version, path) for path in now if path not in then], lost


def _gone(source: Opened, key: str) -> VersionExpired:
    message = (
        f"{key} of version {source.version} is gone from {source.url}: whoever keeps that table cleaned it up; convert "
        "a newer version of it"
    )
    return VersionExpired(message, version=source.version, path=key, url=source.url)
