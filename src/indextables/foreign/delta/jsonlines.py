"""Reads JSON lines natively into columns, guarded against what ends the process in the native reader. Pure."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

__all__ = ["read_json_lines"]


def read_json_lines(data: bytes, schema: pa.Schema) -> pa.Table:
    """One row per object, in the columns of `schema`; other keys are left out. Raises ValueError, pa.ArrowException.

    An error of the native reader that quotes a NUL ends the process. So a NUL is refused, and where texts have one
    behind an escape, everything is checked by other code first: then there is nothing to quote.
    """
    import arro3.io

    if b"\0" in data:
        raise ValueError("it holds a NUL byte, which JSON has not")
    if b"\\u0000" in data:
        _check(data, schema)
    rows = data.count(b"\n") + 2
    reader = arro3.io.read_json(io.BytesIO(data), schema, batch_size=min(rows, 1 << 20))
    return pa.RecordBatchReader.from_stream(reader).read_all().cast(schema)


def _check(data: bytes, schema: pa.Schema) -> None:
    """Raises ValueError unless each line is an object of these types."""
    decoder = _decoder(schema)
    try:
        for line in io.BytesIO(data):
            if line.strip():
                decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error


@lru_cache(maxsize=8)
def _decoder(schema: pa.Schema) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_type(pa.struct(list(schema))))


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        fields = [(f"f{at}", _type(field.type), None) for at, field in enumerate(kind)]
        names = {f"f{at}": field.name for at, field in enumerate(kind)}
        return msgspec.defstruct("_Checked", fields, rename=names) | None
    if pa.types.is_map(kind):
        return dict[str, _type(kind.item_type)] | None  # type: ignore[misc]
    if pa.types.is_list(kind):
        return list[_type(kind.value_type)] | None  # type: ignore[misc]
    if pa.types.is_boolean(kind):
        return bool | None
    return (int if pa.types.is_integer(kind) else str) | None
