"""Writes a state of ours as a checkpoint of Delta: one Parquet file, one struct column per action. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from indextables.lazy import pc
from indextables.log.mirror.actions import Basis, delta_metadata, delta_partition, delta_protocol, moments_of
from indextables.log.wire import METADATA_TYPE, PROTOCOL_TYPE, STRING_MAP, TXN_TYPE, TableState, combined

__all__ = ["checkpoint_bytes", "pointer_bytes", "state_has_vectors"]

# Readers of Delta want these numbers with 32 bits.
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
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("deletionVector", _VECTOR),
    ]
)
_SCHEMA = pa.schema([("txn", TXN_TYPE), ("add", _ADD), ("metaData", METADATA_TYPE), ("protocol", PROTOCOL_TYPE)])


def state_has_vectors(files: pa.Table) -> bool:
    """True if a live file has a deletion vector."""
    return bool(files["deletionVector"].null_count < files.num_rows)


def checkpoint_bytes(state: TableState) -> bytes:
    """The checkpoint of a version."""
    files = state.files
    metadata: dict[str, Any] = delta_metadata(state.metadata)
    metadata["configuration"] = list(metadata["configuration"].items())
    metadata["format"] = {"provider": "parquet", "options": []}
    heads: list[dict[str, object]] = [
        {"protocol": delta_protocol(Basis(state.protocol, state.metadata), vectors=state_has_vectors(files))},
        {"metaData": metadata},
        *({"txn": msgspec.to_builtins(txn)} for txn in state.txns.values()),
    ]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, _SCHEMA, compression="snappy") as writer:
        writer.write_table(pa.Table.from_pylist(heads, schema=_SCHEMA))
        if files.num_rows:
            writer.write_table(_adds(files, moments_of(state.metadata)))
    return bytes(sink.getvalue())


def pointer_bytes(version: int, size: int) -> bytes:
    """`_last_checkpoint`; `size` is the number of actions in the checkpoint."""
    return msgspec.json.encode({"version": version, "size": size})


def _adds(files: pa.Table, moments: dict[str, str]) -> pa.Table:
    columns = {field.name: combined(files[field.name]) for field in _ADD}
    columns["deletionVector"] = _vectors(columns["deletionVector"])
    if moments:
        columns["partitionValues"] = _respelled(columns["partitionValues"], moments)
    columns["dataChange"] = pa.repeat(pa.scalar(value=False), files.num_rows)
    stats = columns["stats"]
    # The JSON of an object ends with a brace, before which one more fact goes.
    wide = pc.binary_join_element_wise(pc.utf8_slice_codeunits(stats, 0, -1), ',"tightBounds":false}', "")
    columns["stats"] = pc.if_else(columns["deletionVector"].is_valid(), wide, stats)
    structs = pa.StructArray.from_arrays([columns[field.name] for field in _ADD], fields=list(_ADD))
    shown = [structs if field.name == "add" else pa.nulls(files.num_rows, field.type) for field in _SCHEMA]
    return pa.table(shown, schema=_SCHEMA)


def _vectors(vectors: pa.Array) -> pa.Array:
    parts = dict(zip((field.name for field in vectors.type), vectors.flatten(), strict=True))
    columns = [parts[field.name].cast(field.type) for field in _VECTOR]
    return pa.StructArray.from_arrays(columns, fields=list(_VECTOR), mask=vectors.is_null())


def _respelled(values: pa.Array, moments: dict[str, str]) -> pa.Array:
    """Partition values as Delta spells them; only of tables that are partitioned by times or floating-point numbers."""
    rows = [
        [(name, delta_partition(text, moments[name]) if name in moments else text) for name, text in row or ()]
        for row in values.to_pylist()
    ]
    return pa.array(rows, STRING_MAP)
