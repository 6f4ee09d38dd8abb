"""Reads JSON lines natively into columns. Pure."""

from __future__ import annotations

import io

import pyarrow as pa

from indextables.log.wire import check_quotable

__all__ = ["read_json_lines"]


def read_json_lines(data: bytes, schema: pa.Schema) -> pa.Table:
    """One row per object, in the columns of `schema`; other keys are left out. Raises ValueError, pa.ArrowException."""
    import arro3.io

    check_quotable(data, schema)
    rows = data.count(b"\n") + 2
    reader = arro3.io.read_json(io.BytesIO(data), schema, batch_size=min(rows, 1 << 20))
    return pa.RecordBatchReader.from_stream(reader).read_all().cast(schema)
