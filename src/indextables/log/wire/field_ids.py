"""Gives the fields of a schema their permanent ids. Pure.

A field has its id in its metadata, under `indextables.id`. Elements of lists, keys and values of maps are no fields of
Spark's: their ids stand with the nearest field above, under `indextables.nestedIds`, by their way down from there:
`element`, `value.element`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from indextables.query.stored import MADE_BY, OF_ONE_TABLE, PHYSICAL_NAME, stored_name

__all__ = [
    "FIELD_ID",
    "FORMER_NAMES_KEY",
    "JSON_PREFIX",
    "MAX_ID_KEY",
    "NESTED_IDS",
    "are_ids",
    "assign_ids",
    "field_id",
    "former_names",
    "highest_ever",
    "highest_id",
    "is_id",
    "nested_ids",
    "remember_ids",
    "same_ids",
    "walk",
    "with_stored_name",
    "with_stored_names",
    "without_ids",
]

FIELD_ID = "indextables.id"
NESTED_IDS = "indextables.nestedIds"
FORMER_NAMES_KEY = "columnMapping.formerNames"
"""Property of a table: the stored names of columns that were dropped, as a JSON array. No new column gets one."""
MAX_ID_KEY = "columnMapping.maxColumnId"
"""Property of a table: the highest permanent id that was ever given in it, where its columns alone do not tell."""
JSON_PREFIX = "json:"
"""Metadata of a field that is no text is JSON under this and its name."""

_ID = FIELD_ID.encode()
_NESTED = (JSON_PREFIX + NESTED_IDS).encode()


def assign_ids(schema: pa.Schema, start: int | None = None) -> pa.Schema:
    """Give every field without a permanent id, nested ones included, the next free one; then elements, keys and values.

    Ids count from `start`, at least one above the highest in use; those that are there stay.
    """
    counter = _Counter(max(highest_id(schema) + 1, 1 if start is None else start))
    fields = [_with_ids(field, counter) for field in schema]
    return pa.schema([_with_nested_ids(field, counter) for field in fields], metadata=schema.metadata)


def field_id(field: pa.Field) -> int | None:
    """The permanent id of a field, None if it has none."""
    text = (field.metadata or {}).get(_ID)
    return int(text) if text is not None and re.fullmatch(rb"[0-9]{1,18}", text) else None


def nested_ids(field: pa.Field) -> dict[str, int]:
    """The permanent ids of elements, keys and values below a field, down to the next fields."""
    text = (field.metadata or {}).get(_NESTED)
    try:
        found = {} if text is None else json.loads(text)
    except ValueError:
        return {}
    there = set(_nested_paths(field.type))
    return {path: number for path, number in found.items() if path in there} if are_ids(found) else {}


def is_id(value: object) -> bool:
    """True if this is a permanent id as JSON has it."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**18


def are_ids(value: object) -> bool:
    """True if these are ids of elements, keys and values as JSON has them."""
    return isinstance(value, dict) and all(is_id(number) for number in value.values())


def highest_id(schema: pa.Schema) -> int:
    """The highest permanent id in use, 0 for none."""
    return max((number for _, field in walk(schema) for number in _ids_of(field)), default=0)


def highest_ever(schema: pa.Schema, configuration: Mapping[str, str]) -> int:
    """The highest permanent id that a table with this schema and these properties has or had."""
    told = configuration.get(MAX_ID_KEY, "")
    return max(highest_id(schema), int(told) if re.fullmatch("[0-9]{1,18}", told) else 0)


def remember_ids(schema: pa.Schema, configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table with this schema: they count ids that not every library looks for in a schema."""
    if not any(nested_ids(field) for _, field in walk(schema)):
        return dict(configuration)
    return {**configuration, MAX_ID_KEY: str(highest_ever(schema, configuration))}


def former_names(configuration: Mapping[str, str]) -> list[str]:
    """The stored names of columns that were dropped. A property that cannot be read counts as none."""
    try:
        found = json.loads(configuration.get(FORMER_NAMES_KEY, "[]"))
    except ValueError:
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def with_stored_names(schema: pa.Schema, is_new: Sequence[bool], configuration: Mapping[str, str]) -> pa.Schema:
    """The schema, whose fields have ids, in which each new column has a stored name that no column had before.

    That is its own name, or `<name>__<id>` where files may hold another column under it.
    """
    taken = {name.lower() for name in former_names(configuration)}
    taken |= {stored_name(field).lower() for field, new in zip(schema, is_new, strict=True) if not new}
    fields = []
    for field, new in zip(schema, is_new, strict=True):
        stored = field.name
        while new and stored.lower() in taken:
            stored = f"{stored}__{field_id(field)}"
        taken.add(stored.lower())
        named = field if stored == field.name or not new else with_stored_name(field, stored)
        fields.append(named)
    return pa.schema(fields, metadata=schema.metadata)


def with_stored_name(field: pa.Field, stored: str) -> pa.Field:
    """The column under this name in files."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != PHYSICAL_NAME}
    if stored != field.name:
        metadata[PHYSICAL_NAME] = stored.encode()
    return field.with_metadata(metadata or None)


def without_ids(field: pa.Field) -> pa.Field:
    """A column of somebody else's: ids, at any depth, stored name, defaults and rules of it mean nothing here."""
    own = {_ID, _NESTED, *MADE_BY, *OF_ONE_TABLE}
    metadata = {key: value for key, value in (field.metadata or {}).items() if key not in own}
    return pa.field(field.name, _mapped(field.type, without_ids), field.nullable, metadata=metadata or None)


def same_ids(schema: pa.Schema, known: pa.Schema) -> pa.Schema:
    """The schema with the ids of elements, keys and values that its columns have in `known`, where it has none."""
    nested = {number: nested_ids(field) for _, field in walk(known) if (number := field_id(field)) is not None}

    def told(field: pa.Field) -> pa.Field:
        below = {**nested.get(field_id(field) or 0, {}), **nested_ids(field)}
        return _numbered(field, {path: below[path] for path in _nested_paths(field.type) if path in below}, told)

    return pa.schema([told(field) for field in schema], metadata=schema.metadata)


def walk(fields: Iterable[pa.Field], parent: str = "") -> Iterable[tuple[str, pa.Field]]:
    """Every field with its path, nested ones included."""
    for field in fields:
        path = f"{parent}.{field.name}" if parent else field.name
        yield path, field
        yield from walk(_children(field.type), path)


def _children(kind: pa.DataType) -> Iterable[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [*_children(kind.key_type), *_children(kind.item_type)]
    if _is_list(kind):
        return _children(kind.value_type)
    return []


class _Counter:
    def __init__(self, following: int) -> None:
        self.following = following

    def take(self) -> int:
        self.following += 1
        return self.following - 1


def _with_ids(field: pa.Field, counter: _Counter) -> pa.Field:
    metadata = dict(field.metadata or {})
    if field_id(field) is None:
        metadata[_ID] = str(counter.take()).encode()
    kind = _mapped(field.type, lambda inner: _with_ids(inner, counter))
    return pa.field(field.name, kind, field.nullable, metadata=metadata)


def _mapped(kind: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """The type with the fields of its structs changed, at whatever depth they come first."""
    if pa.types.is_struct(kind):
        return pa.struct([change(field) for field in kind])
    if pa.types.is_map(kind):
        key, item = _mapped(kind.key_type, change), _mapped(kind.item_type, change)
        return pa.map_(key, pa.field("value", item, kind.item_field.nullable))
    if _is_list(kind):
        return pa.list_(pa.field("element", _mapped(kind.value_type, change), kind.value_field.nullable))
    return kind


def _with_nested_ids(field: pa.Field, counter: _Counter) -> pa.Field:
    """The field with an id for each element, key and value below it, and below the fields of its structs."""
    known = nested_ids(field)
    found = {path: known[path] if path in known else counter.take() for path in _nested_paths(field.type)}
    return _numbered(field, found, lambda inner: _with_nested_ids(inner, counter))


def _numbered(field: pa.Field, nested: dict[str, int], change: Callable[[pa.Field], pa.Field]) -> pa.Field:
    """The field with these ids for what is below it and is no field, and with the fields of its structs changed."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != _NESTED}
    if nested:
        metadata[_NESTED] = json.dumps(nested, separators=(",", ":"), sort_keys=True).encode()
    return pa.field(field.name, _mapped(field.type, change), field.nullable, metadata=metadata or None)


def _nested_paths(kind: pa.DataType, parent: str = "") -> Iterable[str]:
    """The way to each element, key and value of a type, down to the next struct."""
    if pa.types.is_map(kind):
        inner = [("key", kind.key_type), ("value", kind.item_type)]
    elif _is_list(kind):
        inner = [("element", kind.value_type)]
    else:
        return
    for name, below in inner:
        yield parent + name
        yield from _nested_paths(below, f"{parent}{name}.")


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _ids_of(field: pa.Field) -> Iterable[int]:
    number = field_id(field)
    return [*([] if number is None else [number]), *nested_ids(field).values()]
