"""Shows the splits of a version to pyarrow as a dataset: other engines plan over it, and read the Parquet pages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from indextables.env import Env
from indextables.errors import NotSupported, ObjectNotFound, VersionExpired
from indextables.lazy import pc
from indextables.log.read import Snapshot
from indextables.log.wire import COLUMN_DEFAULTS, COLUMN_MAPPING, combined, key_of
from indextables.query.partition import partition_from_text
from indextables.query.stats import map_values
from indextables.storage.store import Store
from indextables.table.read.plan import check_rows_readable
from indextables.table.read.scan import plain_schema

__all__ = ["dataset_of"]

_NOT_IN_FILES = frozenset({COLUMN_DEFAULTS, COLUMN_MAPPING})
"""Features by which a column is more than what the files have under its name."""


def dataset_of(env: Env, snapshot: Snapshot) -> ds.Dataset:
    """A dataset over the files of the snapshot, with the partition values of each, for who prunes by them.

    Raises NotSupported where pages alone do not tell the rows: files with deletion vectors, columns whose names differ
    from those in the files, splits of IndexTables4Spark. Raises LogError, StoreError.
    """
    url = env.store.url
    check_rows_readable(snapshot, url)
    files = snapshot.files
    if files["deletionVector"].null_count < files.num_rows:
        message = (
            f"version {snapshot.version} of the table at {url} has deleted rows that still stand in its files, and a "
            "dataset of pyarrow shows all rows of a file. Use to_polars(), scan(), or the table itself as an Arrow "
            "stream; or merge_splits(), which writes such files anew"
        )
        raise NotSupported(message, url=url, version=snapshot.version)
    if not _NOT_IN_FILES.isdisjoint(snapshot.protocol.readerFeatures or []):
        message = f"columns of the table at {url} have other names or values in its files: use to_polars() or scan()"
        raise NotSupported(message, url=url)
    schema = plain_schema(snapshot.schema, snapshot.schema.names)
    filesystem: Any = pafs.PyFileSystem(_Files(env.store, snapshot.version))
    layout = ds.ParquetFileFormat()
    partitions = _partitions(snapshot)
    fragments = [
        layout.make_fragment(key_of(path, url), filesystem, partition_expression=where)
        for path, where in zip(files["path"].to_pylist(), partitions, strict=True)
    ]
    return ds.FileSystemDataset(fragments, schema, layout, filesystem)


def _partitions(snapshot: Snapshot) -> list[ds.Expression | None]:
    """For each file what its partition values say about its rows; None where they say nothing that Arrow can use."""
    found: list[Any] = [None] * snapshot.files.num_rows
    for name in snapshot.metadata.partitionColumns:
        field = snapshot.schema.field(name)
        if pa.types.is_floating(field.type):
            # NaN and zeros are equal to themselves or not, depending on who asks.
            continue
        values, known = partition_from_text(combined(map_values(snapshot.files["partitionValues"], name)), field.type)
        for place, (value, is_known) in enumerate(zip(values, known.to_pylist(), strict=True)):
            if is_known:
                column = pc.field(name)
                term = column == value if value.is_valid else column.is_null()
                found[place] = term if found[place] is None else found[place] & term
    return found


class _Files(pafs.FileSystemHandler):  # type: ignore[misc]
    """The objects of a version as files that are read by ranges."""

    def __init__(self, store: Store, version: int) -> None:
        self._store = store
        self._version = version

    def open_input_file(self, path: str) -> pa.NativeFile:
        """The object, which is read at any place. Raises VersionExpired, also where another table lies there by now."""
        try:
            size = self._store.head(path).size
        except ObjectNotFound as error:
            url, version = self._store.url, self._version
            message = f"{path} of version {version} is gone from {url}: purge was faster; open the table again"
            raise VersionExpired(message, version=version, path=path, url=url) from error
        return pa.PythonFile(_Object(self._store, path, size), mode="r")

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        """What there is."""
        found = []
        for path in paths:
            try:
                found.append(pafs.FileInfo(path, pafs.FileType.File, size=self._store.head(path).size))
            except ObjectNotFound:
                found.append(pafs.FileInfo(path, pafs.FileType.NotFound))
        return found

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """As `open_input_file`."""
        return self.open_input_file(path)

    def normalize_path(self, path: str) -> str:
        """A key is a key."""
        return path

    def get_type_name(self) -> str:
        """What Arrow calls it."""
        return "indextables"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Files) and other._store.identity == self._store.identity

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._store.identity)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """Raises NotSupported: a dataset names its files."""
        raise _only_read(selector.base_dir)

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: ARG002, FBT001 - Arrow's signature
        """Raises NotSupported, as everything below that writes."""
        raise _only_read(path)

    def delete_dir(self, path: str) -> None:
        raise _only_read(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        raise _only_read(path)

    def delete_root_dir_contents(self) -> None:
        raise _only_read("")

    def delete_file(self, path: str) -> None:
        raise _only_read(path)

    def move(self, src: str, dest: str) -> None:  # noqa: ARG002
        raise _only_read(src)

    def copy_file(self, src: str, dest: str) -> None:  # noqa: ARG002
        raise _only_read(src)

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:  # noqa: ARG002
        raise _only_read(path)

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:  # noqa: ARG002
        raise _only_read(path)


def _only_read(path: str) -> NotSupported:
    return NotSupported(f"{path}: the files of a table are only read here; write with the methods of the table")


class _Object:
    """An object of a store as a file of Python."""

    def __init__(self, store: Store, key: str, size: int) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._at = 0
        self.closed = False

    def read(self, count: int | None = -1) -> bytes:
        end = self._size if count is None or count < 0 else min(self._at + count, self._size)
        if end <= self._at:
            return b""
        data = self._store.get_range(self._key, self._at, end)
        self._at = end
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is written."""

    def close(self) -> None:
        self.closed = True
