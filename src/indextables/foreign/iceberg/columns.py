"""Turns the columns of an Iceberg table into Arrow's: files know them by number, or by names that it tells. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import NotSupported
from indextables.foreign.columns import numbered_field

__all__ = ["check_types", "names_of", "partition_scalar", "schema_of"]

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
    # Text, as in Spark: we have no type of its own for it.
    "uuid": pa.string(),
    "binary": pa.binary(),
    "unknown": pa.null(),
}
_WITH_NUMBERS = ("decimal(", "fixed[")
_NESTED = frozenset({"struct", "list", "map"})

Names = Mapping[int, Sequence[str]] | None
"""For each number the names that a column has in files that number none; None where the table does not tell."""


def schema_of(fields: Iterable[Any], names: Names, url: str) -> pa.Schema:
    """The columns of a schema of pyiceberg. Raises NotSupported for what is not read here."""
    return pa.schema(_fields(fields, names, url))


def names_of(mapping: Any) -> Names:
    """What pyiceberg understands of the names that a table tells (`schema.name-mapping.default`)."""
    if mapping is None:
        return None
    found: dict[int, Sequence[str]] = {}
    left = list(mapping)
    while left:
        told = left.pop()
        if told.field_id is not None:
            found[int(told.field_id)] = list(told.names)
        left += told.fields
    return found


def check_types(metadata: bytes, url: str) -> None:
    """Raises NotSupported where the JSON of a table's metadata has a column of a type that pyiceberg does not know."""
    try:
        told = msgspec.json.decode(metadata)
        schemas = told.get("schemas") or [told["schema"]]
        for schema in schemas:
            _check_struct(schema, "", url)
    except (msgspec.DecodeError, RecursionError, AttributeError, KeyError, TypeError):
        return


def partition_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A value of an identity partition, as manifests have it, in the type of its column. Raises ArrowException."""
    if value is None:
        return pa.scalar(None, kind)
    if pa.types.is_date32(kind) and isinstance(value, int):
        return pa.scalar(value, pa.int32()).cast(kind)
    if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and isinstance(value, int):
        return pa.scalar(value, pa.int64()).cast(kind)
    if pa.types.is_string(kind) and not isinstance(value, str):
        return pa.scalar(str(value), kind)
    return pa.scalar(value, kind)


def _fields(fields: Iterable[Any], names: Names, url: str) -> list[pa.Field]:
    found = [_field(field, names, url) for field in fields]
    seen: dict[str, str] = {}
    for name in (field.name for field in found):
        if name.lower() in seen:
            message = (
                f"the Iceberg table at {url} has the columns {seen[name.lower()]} and {name}, which are one name here, "
                "where the case of letters does not count: rename one of them"
            )
            raise NotSupported(message, column=name, url=url)
        seen[name.lower()] = name
    return found


def _field(field: Any, names: Names, url: str) -> pa.Field:
    kind = _type(field.field_type, field.name, names, url)
    return numbered_field(
        field.name,
        kind,
        nullable=not field.required,
        number=field.field_id,
        comment=field.doc,
        names=None if names is None else names.get(field.field_id, ()),
        default=_default(field, kind, url),
    )


def _default(field: Any, kind: pa.DataType, url: str) -> pa.Scalar | None:
    """The value in rows that are older than the column."""
    value = field.initial_default
    if value is None:
        return None
    if pa.types.is_nested(kind):
        message = (
            f"column {field.name} of {url} has a nested value for rows that are older than it, which is not read here"
        )
        raise NotSupported(message, column=field.name, url=url)
    if pa.types.is_string(kind):
        return pa.scalar(str(value), kind)
    if pa.types.is_binary(kind) and isinstance(value, str):
        return pa.scalar(bytes.fromhex(value), kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None and isinstance(value, dt.datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    return pa.scalar(value, kind)


def _type(kind: Any, name: str, names: Names, url: str) -> pa.DataType:
    word = type(kind).__name__
    if word == "StructType":
        return pa.struct(_fields(kind.fields, names, url))
    if word == "ListType":
        element = _type(kind.element_type, f"{name}.element", names, url)
        return pa.list_(pa.field("element", element, not kind.element_required))
    if word == "MapType":
        key = _type(kind.key_type, f"{name}.key", names, url)
        value = _type(kind.value_type, f"{name}.value", names, url)
        return pa.map_(key, pa.field("value", value, not kind.value_required))
    if word == "DecimalType":
        return pa.decimal128(kind.precision, kind.scale)
    if word == "FixedType":
        return pa.binary()
    found = _PLAIN.get(str(kind))
    if found is None:
        raise _not_read(name, str(kind), url)
    return found


def _check_struct(told: Any, parent: str, url: str) -> None:
    for field in told["fields"]:
        _check_type(field["type"], f"{parent}{field['name']}", url)


def _check_type(kind: Any, name: str, url: str) -> None:
    if isinstance(kind, str):
        if kind not in _PLAIN and not kind.startswith(_WITH_NUMBERS):
            raise _not_read(name, kind, url)
        return
    if kind["type"] not in _NESTED:
        raise _not_read(name, str(kind["type"]), url)
    if kind["type"] == "struct":
        _check_struct(kind, f"{name}.", url)
    for part in ("element", "key", "value"):
        if part in kind:
            _check_type(kind[part], f"{name}.{part}", url)


def _not_read(name: str, kind: str, url: str) -> NotSupported:
    message = f"column {name} of the Iceberg table at {url} is {kind[:100]}, which is not read here"
    return NotSupported(message, column=name, url=url)
