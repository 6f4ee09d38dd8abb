"""Turns the columns of an Iceberg table into Arrow's: files know them by number alone. Pure."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from indextables.errors import NotSupported
from indextables.foreign.columns import numbered_field

__all__ = ["partition_scalar", "schema_of"]

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def schema_of(fields: Any, url: str) -> pa.Schema:
    """The columns of a schema of pyiceberg. Raises NotSupported for a type or a default that is not read here."""
    return pa.schema([_field(field, url) for field in fields])


def partition_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A value of an identity partition, as manifests have it, in the type of its column. Raises ArrowException."""
    if value is None:
        return pa.scalar(None, kind)
    if pa.types.is_date32(kind) and isinstance(value, int):
        return pa.scalar(value, pa.int32()).cast(kind)
    if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and isinstance(value, int):
        return pa.scalar(value, pa.int64()).cast(kind)
    return pa.scalar(value, kind)


def _field(field: Any, url: str) -> pa.Field:
    name = field.name
    if field.initial_default is not None:
        message = f"column {name} of {url} has a value for rows that are older than it, which is not read here"
        raise NotSupported(message, column=name, url=url)
    kind = _type(field.field_type, name, url)
    return numbered_field(name, kind, nullable=not field.required, number=field.field_id, comment=field.doc)


def _type(kind: Any, name: str, url: str) -> pa.DataType:
    word = type(kind).__name__
    if word == "StructType":
        return pa.struct([_field(child, url) for child in kind.fields])
    if word == "ListType":
        element = _type(kind.element_type, f"{name}.element", url)
        return pa.list_(pa.field("element", element, not kind.element_required))
    if word == "MapType":
        key, value = _type(kind.key_type, f"{name}.key", url), _type(kind.value_type, f"{name}.value", url)
        return pa.map_(key, pa.field("value", value, not kind.value_required))
    if word == "DecimalType":
        return pa.decimal128(kind.precision, kind.scale)
    if word == "FixedType":
        return pa.binary()
    found = _PLAIN.get(str(kind))
    if found is None:
        message = f"column {name} of the Iceberg table at {url} is {kind}, which is not read here"
        raise NotSupported(message, column=name, url=url)
    return found
