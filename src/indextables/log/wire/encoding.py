"""Encodes rows of Arrow columns as JSON lines, without a Python object per row."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from indextables.log.wire.arrays import map_entries, validity

__all__ = ["encode_lines", "encode_rows"]


def encode_lines(lines: Sequence[object]) -> bytes:
    """One JSON line per object, each with its newline."""
    return _ENCODER.encode_lines(lines)


def encode_rows(name: str, table: pa.Table, kind: pa.StructType) -> bytes:
    """The rows, as lines `{name: {...}}` with the fields of `kind` that the table has; nulls are left out.

    Natively, but for rows that have a null inside a map, which arrow-rs would leave out too.
    """
    fields = [field for field in kind if field.name in table.column_names]
    batch = table.select([field.name for field in fields]).combine_chunks()
    columns = [_chunk(batch.column(field.name)).cast(field.type) for field in fields]
    nullish = np.zeros(table.num_rows, dtype=np.bool_)
    for column in columns:
        if pa.types.is_map(column.type):
            _, items, rows = map_entries(column)
            nullish[rows[~validity(items)]] = True
    struct = pa.StructArray.from_arrays(columns, fields=fields)
    if not nullish.any():
        return _native_lines(name, struct)
    starts = [0, *(np.flatnonzero(np.diff(nullish)) + 1).tolist(), len(struct)]
    parts: list[bytes] = []
    for start, end in itertools.pairwise(starts):
        piece = struct.slice(start, end - start)
        parts.append(_python_lines(name, piece) if nullish[start] else _native_lines(name, piece))
    return b"".join(parts)


_ENCODER = msgspec.json.Encoder()


def _native_lines(name: str, struct: pa.StructArray) -> bytes:
    import arro3.io

    out = io.BytesIO()
    batch = pa.RecordBatch.from_arrays([struct], names=[name])
    if _is_sliced(struct):
        # arrow-rs takes the offset of an imported array twice; what went through IPC has none.
        batch = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
    arro3.io.write_ndjson(pa.RecordBatchReader.from_batches(batch.schema, [batch]), out)
    return out.getvalue()


def _is_sliced(array: pa.Array) -> bool:
    if array.offset:
        return True
    return pa.types.is_struct(array.type) and any(
        _is_sliced(array.field(index)) for index in range(array.type.num_fields)
    )


def _python_lines(name: str, struct: pa.StructArray) -> bytes:
    rows = struct.to_pylist(maps_as_pydicts="strict")
    kept = [{name: {key: value for key, value in row.items() if value is not None}} for row in rows]
    return _ENCODER.encode_lines(kept)


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)
