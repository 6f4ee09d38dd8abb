"""Delta tables made by hand, action by action, so that a test can say exactly what lies there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from indextables.log.wire import schema_to_json

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"row {i}" for i in ids]}, schema=SCHEMA)


def with_features(*features: str) -> dict[str, Any]:
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(features),
        "writerFeatures": list(features),
    }


class DeltaWorld:
    """A Delta table in a folder. Nothing is checked: hostile tables are made in the same way."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "_delta_log"
        self.log.mkdir(parents=True)
        self.next = 0

    def commit(self, *actions: Mapping[str, Any], end: str = "\n") -> int:
        text = "\n".join(json.dumps(action) for action in actions) + end
        (self.log / f"{self.next:020d}.json").write_text(text)
        self.next += 1
        return self.next - 1

    def create(
        self,
        schema: pa.Schema | str = SCHEMA,
        *,
        protocol: Mapping[str, Any] = PLAIN,
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        more: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        text = schema if isinstance(schema, str) else schema_to_json(schema)
        return self.commit(
            {"protocol": protocol}, self.metadata(text, partition_by=partition_by, configuration=configuration), *more
        )

    def metadata(
        self,
        schema: str,
        *,
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        return {
            "metaData": {
                "id": "5f6d1a9e-0000-4000-8000-000000000001",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": list(partition_by),
                "configuration": dict(configuration or {}),
            }
        }

    def write(self, table: pa.Table, name: str | None = None, **options: Any) -> tuple[str, int]:
        """A data file; its name on disk and its size."""
        name = name or f"part-{uuid.uuid4()}.parquet"
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, **options)
        return name, path.stat().st_size

    def add(
        self,
        table: pa.Table,
        *,
        path: str | None = None,
        name: str | None = None,
        values: Mapping[str, str | None] | None = None,
        stats: str | None = "",
        vector: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """A data file and the `add` that names it: by `path` where that is not its name on disk."""
        on_disk, size = self.write(table, name, **options)
        told = json.dumps({"numRecords": table.num_rows}) if stats == "" else stats
        return {
            "add": {
                "path": on_disk if path is None else path,
                "partitionValues": dict(values or {}),
                "size": size,
                "modificationTime": 1_700_000_000_000,
                "dataChange": True,
                **({} if told is None else {"stats": told}),
                **({} if vector is None else {"deletionVector": vector}),
            }
        }

    def remove(self, add: Mapping[str, Any]) -> dict[str, Any]:
        told = add["add"]
        vector = {"deletionVector": told["deletionVector"]} if "deletionVector" in told else {}
        return {"remove": {"path": told["path"], "deletionTimestamp": 1, "dataChange": True, **vector}}

    def checkpoint(self, version: int, actions: Sequence[Mapping[str, Any]], name: str = "checkpoint.parquet") -> Path:
        """A checkpoint with these actions, in one file under this name."""
        path = self.log / f"{version:020d}.{name}"
        if name.endswith(".json"):
            path.write_text("".join(json.dumps(action) + "\n" for action in actions))
        else:
            pq.write_table(checkpoint_rows(actions), path)
        return path

    def sidecar(self, adds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        name = f"{uuid.uuid4()}.parquet"
        path = self.log / "_sidecars" / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(checkpoint_rows(adds), path)
        return {"sidecar": {"path": name, "sizeInBytes": path.stat().st_size, "modificationTime": 1}}

    def point_to(self, text: str) -> None:
        (self.log / "_last_checkpoint").write_text(text)


_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("deletionVector", _VECTOR),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _TEXTS),
    ]
)
_CHECKPOINT = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        ("add", _ADD),
        ("remove", pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64())])),
        ("metaData", _METADATA),
        ("protocol", _PROTOCOL),
        ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])),
        ("checkpointMetadata", pa.struct([("version", pa.int64())])),
    ]
)


def checkpoint_rows(actions: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Actions as the rows of a Parquet checkpoint."""
    return pa.Table.from_pylist([_with_pairs(action) for action in actions], schema=_CHECKPOINT)


def _with_pairs(value: Any, key: str = "") -> Any:
    """Objects that are maps, as Arrow takes them."""
    if key in {"partitionValues", "configuration", "options"}:
        return list(value.items())
    if isinstance(value, Mapping):
        return {name: _with_pairs(item, name) for name, item in value.items()}
    return value
