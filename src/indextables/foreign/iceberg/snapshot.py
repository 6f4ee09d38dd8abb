"""`IcebergSnapshot` is one snapshot of an Iceberg table: columns, files, deleted rows."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.env import Env
from indextables.errors import DvCorrupt, LogCorrupt, NotSupported
from indextables.foreign.columns import Match, kept_field, number_of
from indextables.foreign.iceberg.columns import names_of, partition_scalar, schema_of
from indextables.foreign.iceberg.files import Locations, guarded, store_io
from indextables.foreign.rows import ForeignFile
from indextables.foreign.snapshot import Files, partition_mask
from indextables.lazy import pc
from indextables.log.wire import DV_TYPE, Metadata, Protocol, schema_to_json
from indextables.query.expr import Node
from indextables.storage.store import Store

__all__ = ["IcebergSnapshot"]

_EQUALITY = 2
_IDENTITY = "identity"


class _Planned(NamedTuple):
    """A data file, the delete files that may concern it, and the values of identity partitions that it has."""

    location: str
    key: str
    size: int
    rows: int
    deletes: tuple[Any, ...]
    partition: dict[str, pa.Scalar]


class IcebergSnapshot:
    """One snapshot; its number is the version. Files are planned when they are first asked for."""

    system = "Iceberg"
    match = Match.ID

    def __init__(self, env: Env, metadata: Any, snapshot: Any) -> None:
        """`snapshot` is None for a table that has none: version 0, without rows. Raises NotSupported."""
        self._env = env
        self._table = metadata
        self._snapshot = snapshot
        self._places = Locations(env.store, metadata.location)
        self.version = 0 if snapshot is None else int(snapshot.snapshot_id)
        url = env.store.url
        with guarded(url, "the schema"):
            is_current = snapshot is None or snapshot.snapshot_id == metadata.current_snapshot_id
            number = metadata.current_schema_id if is_current or snapshot.schema_id is None else snapshot.schema_id
            names = names_of(metadata.name_mapping())
            self.schema = schema_of(_of_number(metadata.schemas, number).fields, names, url)
            self._specs = metadata.specs()
            self._identities = {number: self._identity_columns(spec) for number, spec in self._specs.items()}
        self.partition_columns: list[str] = list(self._identities.get(metadata.default_spec_id, {}).values())

    @cached_property
    def metadata(self) -> Metadata:
        """What a log of ours would say: id, schema, identity partitions, properties."""
        schema = pa.schema([kept_field(field) for field in self.schema])
        return Metadata(
            id=str(self._table.table_uuid),
            schemaString=schema_to_json(schema),
            partitionColumns=self.partition_columns,
            configuration={str(key): str(value) for key, value in self._table.properties.items()},
        )

    @property
    def protocol(self) -> Protocol:
        version = int(self._table.format_version)
        return Protocol(minReaderVersion=version, minWriterVersion=version)

    @cached_property
    def files(self) -> pa.Table:
        """Path, size, rows (null where some are deleted), partition values of each file.

        `modificationTime` is none: a number that tells whether other rows were deleted.
        """
        planned = self._planned
        names = self.partition_columns
        pairs = [[(name, _text(one.partition.get(name))) for name in names] for one in planned]
        return pa.table(
            {
                "path": pa.array([one.key for one in planned], pa.string()),
                "partitionValues": pa.array(pairs, pa.map_(pa.string(), pa.string())),
                "size": pa.array([one.size for one in planned], pa.int64()),
                "modificationTime": pa.array([_mark(one.deletes) for one in planned], pa.int64()),
                "numRecords": pa.array([None if one.deletes else one.rows for one in planned], pa.int64()),
                "deletionVector": pa.nulls(len(planned), DV_TYPE),
            }
        )

    def files_where(self, where: Node | None) -> pa.Table:
        """Those whose identity partitions allow rows for which `where` is true."""
        return self.files.take(pa.array(self._kept(where), pa.int64()))

    def data_files(self, where: Node | None) -> Sequence[ForeignFile]:
        """The same, to be read."""
        kept = self._kept(where)

        def one(place: int) -> ForeignFile:
            found = self._planned[kept[place]]
            alive = None
            if found.deletes:

                def alive(rows: int) -> Any:
                    return _alive(self._env.store, self._places, found, rows, self._live)

            return ForeignFile(found.key, found.size, found.rows, found.partition, alive=alive)

        return Files(len(kept), one)

    def _kept(self, where: Node | None) -> list[int]:
        planned = self._planned
        shared = [name for name in self.schema.names if planned and all(name in one.partition for one in planned)]
        columns = {
            name: pa.array([one.partition[name].as_py() for one in planned], self.schema.field(name).type)
            for name in (shared if where is not None else [])
        }
        mask = partition_mask(columns, where, len(planned))
        everything = range(len(planned))
        return list(everything) if mask is None else np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()

    @cached_property
    def _live(self) -> frozenset[str]:
        return frozenset(one.location for one in self._planned)

    @cached_property
    def _planned(self) -> list[_Planned]:
        """Raises LogCorrupt, NotSupported, PathEscape, StoreError."""
        snapshot, url = self._snapshot, self._env.store.url
        if snapshot is None:
            return []
        with guarded(url, f"snapshot {self.version}"):
            from pyiceberg.manifest import DataFileContent
            from pyiceberg.table.delete_file_index import DeleteFileIndex

            reading = store_io(self._env.store, self._places)
            data: list[Any] = []
            deletes = DeleteFileIndex()
            for manifest in snapshot.manifests(reading):
                for entry in manifest.fetch_manifest_entry(reading, discard_deleted=True):
                    file = entry.data_file
                    file.spec_id = manifest.partition_spec_id
                    self._check(file, entry)
                    if file.content == DataFileContent.DATA:
                        data.append(entry)
                    else:
                        deletes.add_delete_file(entry, partition_key=file.partition)
            found = [
                self._plan(
                    entry.data_file,
                    deletes.for_data_file(entry.sequence_number or 0, entry.data_file, entry.data_file.partition),
                )
                for entry in data
            ]
        if len({one.key for one in found}) != len(found):
            raise LogCorrupt(
                f"a file is twice in snapshot {self.version} of {url}", url=url, reason="one file is live twice"
            )
        return found

    def _check(self, file: Any, entry: Any) -> None:
        """Raises NotSupported for what would be read wrongly."""
        url, content = self._env.store.url, int(file.content)
        if content == _EQUALITY:
            message = (
                f"snapshot {self.version} of the Iceberg table at {url} deletes rows by their values "
                f"({str(file.file_path)[-200:]}, an equality delete), which is not read here: rewrite its data files "
                "with the library that wrote it"
            )
            raise NotSupported(message, url=url, path=str(file.file_path)[-300:])
        form = str(getattr(file.file_format, "value", file.file_format)).upper()
        if form != "PARQUET" and not (content and form == "PUFFIN"):
            message = f"the Iceberg table at {url} keeps rows as {form} ({str(file.file_path)[-200:]}), not Parquet"
            raise NotSupported(message, url=url)
        if getattr(file, "key_metadata", None):
            raise NotSupported(f"the Iceberg table at {url} has files that are encrypted", url=url)
        if not content and (file.record_count < 0 or file.file_size_in_bytes < 0):
            raise LogCorrupt(f"a file of {url} tells no size", url=url, reason=str(entry)[:200])

    def _plan(self, file: Any, deletes: Iterable[Any]) -> _Planned:
        values = {}
        for place, name in self._identities[file.spec_id].items():
            kind = self.schema.field(name).type
            values[name] = partition_scalar(file.partition[place], kind)
        chosen = tuple(sorted(deletes, key=lambda delete: str(delete.file_path)))
        key = self._places.key(file.file_path)
        return _Planned(file.file_path, key, int(file.file_size_in_bytes), int(file.record_count), chosen, values)

    def _identity_columns(self, spec: Any) -> dict[int, str]:
        """The columns whose value is the partition's, by their places in the partition."""
        names = {number_of(field): field.name for field in self.schema}
        return {
            place: names[field.source_id]
            for place, field in enumerate(spec.fields)
            if str(field.transform) == _IDENTITY and field.source_id in names
        }


def _alive(store: Store, places: Locations, file: _Planned, rows: int, live: frozenset[str]) -> Any:
    """For each row whether no delete file deletes it. Raises DvCorrupt, StoreError."""
    mask = np.ones(rows, bool)
    for delete in file.deletes:
        with guarded(store.url, str(delete.file_path)[-200:]):
            positions = _positions(store.get(places.key(delete.file_path)), delete, file.location, live)
        if len(positions) and (int(positions.min()) < 0 or int(positions.max()) >= rows):
            message = f"{delete.file_path} deletes a row that {file.key} has not"
            raise DvCorrupt(message, path=file.key, reason="a row that is not there")
        mask[positions] = False
    return mask


def _positions(data: bytes, delete: Any, location: str, live: frozenset[str]) -> Any:
    """The rows of a file that a delete file takes away; none where it speaks of other files only.

    pyiceberg offers a file of vectors to every data file of its partition, and does not tell whose vector an entry of
    the manifest means. Raises DvCorrupt for vectors of files that the snapshot has not, and for changed bytes.
    """
    form = str(getattr(delete.file_format, "value", delete.file_format)).upper()
    if form == "PUFFIN":
        from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
        from pyiceberg.table.puffin import PuffinFile

        puffin = PuffinFile(data)
        vectors = deletion_vectors_from_puffin_file(puffin)
        sums = [_has_its_checksum(puffin.get_blob_payload(blob)) for blob in puffin.footer.blobs]
        if not all(sums) or not any(vector.referenced_data_file in live for vector in vectors):
            message = f"{delete.file_path} has no deletion vector of a file of this snapshot, or one that was changed"
            raise DvCorrupt(message, path=str(delete.file_path)[-300:], reason="no vector that can be believed")
        found = [vector.to_vector() for vector in vectors if vector.referenced_data_file == location]
        return np.concatenate([np.asarray(one.to_numpy(), np.int64) for one in found] or [np.empty(0, np.int64)])
    table = pq.read_table(pa.BufferReader(data), columns=["file_path", "pos"], use_threads=False)
    return table.filter(pc.equal(table["file_path"], location))["pos"].to_numpy().astype(np.int64)


def _has_its_checksum(blob: bytes) -> bool:
    """A vector is a length, magic bytes and a bitmap, and the CRC-32 of these two (numbers in big endian)."""
    end = 4 + int.from_bytes(blob[:4], "big")
    return len(blob) == end + 4 and zlib.crc32(blob[4:end]) == int.from_bytes(blob[end:], "big")


def _mark(deletes: Sequence[Any]) -> int:
    return zlib.crc32("\n".join(str(delete.file_path) for delete in deletes).encode()) if deletes else 0


def _of_number(schemas: Iterable[Any], number: int) -> Any:
    return next(schema for schema in schemas if schema.schema_id == number)


def _text(value: pa.Scalar | None) -> str | None:
    return None if value is None or not value.is_valid else str(value.as_py())
