"""Puts the permanent ids of columns into a Parquet schema, where other readers look for them. Pure."""

from __future__ import annotations

import json
import re

import pyarrow as pa

from indextables.split.file import visible
from indextables.split.index import ID_KEY, is_nested_list

__all__ = ["FIRST_RESERVED", "with_field_ids"]

_PARQUET = b"PARQUET:field_id"
_NESTED = b"json:indextables.nestedIds"

FIRST_RESERVED = 2_147_483_447
"""From here on ids belong to columns that no table declares, in Iceberg's files and in ours."""


def with_field_ids(schema: pa.Schema) -> pa.Schema:
    """The schema with the id of each field, element, key and value that has one, for Parquet's writer."""
    columns = visible(schema)
    numbered = [_field(field, _id_of(field), _nested_of(field), "") for field in columns]
    return pa.schema([*numbered, *list(schema)[len(columns) :]])


def _field(field: pa.Field, number: int | None, nested: dict[str, int], way: str) -> pa.Field:
    """The field, `way` down from the one that has the ids in `nested`."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != _PARQUET}
    if number is not None and 0 < number < FIRST_RESERVED:
        metadata[_PARQUET] = str(number).encode()
    return field.with_type(_type(field.type, nested, way)).with_metadata(metadata or None)


def _type(kind: pa.DataType, nested: dict[str, int], way: str) -> pa.DataType:
    def below(field: pa.Field, name: str) -> pa.Field:
        return _field(field, nested.get(way + name), nested, f"{way}{name}.")

    if pa.types.is_struct(kind):
        return pa.struct([_field(field, _id_of(field), _nested_of(field), "") for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(below(kind.key_field, "key"), below(kind.item_field, "value"), keys_sorted=kind.keys_sorted)
    if pa.types.is_large_list(kind):
        return pa.large_list(below(kind.value_field, "element"))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(below(kind.value_field, "element"), kind.list_size)
    if is_nested_list(kind):
        return pa.list_(below(kind.value_field, "element"))
    return kind


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(ID_KEY)
    return int(text) if text is not None and re.fullmatch(rb"[0-9]{1,18}", text) else None


def _nested_of(field: pa.Field) -> dict[str, int]:
    try:
        found = json.loads((field.metadata or {}).get(_NESTED, b"{}"))
    except ValueError:
        return {}
    return {way: number for way, number in found.items() if isinstance(number, int)} if isinstance(found, dict) else {}
