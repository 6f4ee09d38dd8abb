"""Turns Spark's schema JSON into Arrow schemas and back.

| Spark                                   | Arrow                                        |
|-----------------------------------------|----------------------------------------------|
| boolean, byte, short, integer, long     | bool, int8, int16, int32, int64              |
| float, double, decimal(p,s)             | float32, float64, decimal128(p, s)           |
| string, char(n), varchar(n), binary     | string, string, string, binary               |
| date, timestamp, timestamp_ntz, time(p) | date32, timestamp[us, UTC], timestamp[us], time64[us] |
| interval day .. second, year .. month   | duration[us], int32                          |
| void, struct, array, map                | null, struct, list, map                      |

A Spark type that the Arrow type alone does not tell stands in the field's metadata under `spark.type`. The other
metadata of a field is kept: texts as they are, anything else as JSON under `json:` and its name, the permanent id as
a number. Metadata of Arrow that concerns Parquet files (`PARQUET:`) is not part of a schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from indextables.errors import SchemaInvalid
from indextables.log.wire.field_ids import FIELD_ID, JSON_PREFIX, NESTED_IDS, are_ids, field_id, is_id, nested_ids, walk
from indextables.query.stored import stored_name

__all__ = [
    "MAX_DEPTH",
    "MAX_FIELDS",
    "check_free",
    "schema_from_json",
    "schema_to_json",
    "validate_schema",
    "widened",
    "widens",
    "wider",
]

MAX_DEPTH = 64
MAX_FIELDS = 10_000
MAX_NAME = 255

_SPARK_TYPE = "spark.type"
_ROW_ID = "_row_id"


@lru_cache(maxsize=64)
def schema_from_json(text: str) -> pa.Schema:
    """The Arrow schema of a `schemaString`. Raises SchemaInvalid."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaInvalid(f"the schema is not JSON: {error}") from None
    if not isinstance(value, dict) or value.get("type") != "struct":
        raise SchemaInvalid("the schema is not a JSON object of type struct")
    budget = _Budget()
    schema = pa.schema(_fields_from_json(value, "", budget, 1))
    _check_names(schema)
    return schema


def schema_to_json(schema: pa.Schema) -> str:
    """The `schemaString` of an Arrow schema. Raises SchemaInvalid for types that Spark does not have."""
    budget = _Budget()
    fields = [_field_to_json(field, field.name, budget, 1) for field in schema]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False)


def validate_schema(schema: pa.Schema) -> None:
    """Raises SchemaInvalid for what no new table can have: no columns, or names and types that would not do."""
    if len(schema) == 0:
        raise SchemaInvalid("a table needs at least one column")
    schema_to_json(schema)
    _check_names(schema)
    for path, field in walk(schema):
        if _has_empty_struct(field.type):
            message = f"the column {path!r} has a struct without fields, which Parquet does not have: leave it out"
            raise SchemaInvalid(message, column=path)
        if _BAD_NAME.search(field.name) or len(field.name) > MAX_NAME:
            message = (
                f"the column name {path!r} is refused: dots, quotes, backticks, control characters and names beyond "
                f"{MAX_NAME} characters cannot be written in queries; rename the column"
            )
            raise SchemaInvalid(message, column=path)


def check_free(names: Iterable[str]) -> None:
    """Raises SchemaInvalid for the name of a new column that data files need for something else."""
    for name in names:
        if name.lower() == _ROW_ID:
            message = f"the column name {name!r} is taken: data files keep the ids of rows under it; rename the column"
            raise SchemaInvalid(message, column=name)


def widened(before: pa.DataType, given: pa.DataType) -> pa.DataType | None:
    """The type that holds every value of both, where a merge may go there; None if it may not."""
    for ladder in (_INTEGERS, _FLOATS):
        if before in ladder and given in ladder:
            return max(before, given, key=ladder.index)
    return None


def widens(before: pa.DataType, after: pa.DataType) -> bool:
    """True if every value of `before` is one of `after`, and files with the narrower type are read as the wider."""
    if widened(before, after) == after:
        return True
    if after == pa.float64():
        return before in _INTEGERS[:3]
    if pa.types.is_decimal(before) and pa.types.is_decimal(after):
        return bool(before.scale == after.scale and before.precision <= after.precision)
    return False


def wider(kind: pa.DataType) -> tuple[pa.DataType, ...]:
    """The types that a merge may widen `kind` to, the next first."""
    ladder = next((one for one in (_INTEGERS, _FLOATS) if kind in one), (kind,))
    return ladder[ladder.index(kind) + 1 :]


_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS = (pa.float32(), pa.float64())

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_NAMES: dict[pa.DataType, str] = {kind: name for name, kind in _SIMPLE.items()}
_NAMES.update({pa.duration("us"): "interval day to second", pa.time64("us"): "time(6)"})

# Spark types with more to say than Arrow keeps: pattern, Arrow type, and whether the name is the usual one for it.
_DETAILED: tuple[tuple[re.Pattern[str], pa.DataType], ...] = (
    (re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?"), pa.duration("us")),
    (re.compile(r"interval (year|month)( to month)?"), pa.int32()),
    (re.compile(r"time\(([0-6])\)"), pa.time64("us")),
    (re.compile(r"(char|varchar)\([1-9][0-9]{0,9}\)"), pa.string()),
)
_ALIASES = {
    "null": "void",
    "int": "integer",
    "bigint": "long",
    "smallint": "short",
    "tinyint": "byte",
    "time": "time(6)",
}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")

# What would need quoting in paths of columns and in queries, and what no terminal shows.
_BAD_NAME = re.compile(r"[.`'\"\x00-\x1f\x7f\ud800-\udfff]")


class _Budget:
    """Counts fields, so that a hostile schema ends in an error and not in memory."""

    def __init__(self) -> None:
        self.fields = 0

    def spend(self, path: str, depth: int) -> None:
        self.fields += 1
        if self.fields > MAX_FIELDS:
            raise SchemaInvalid(f"the schema has more than {MAX_FIELDS} fields", limit=MAX_FIELDS)
        if depth > MAX_DEPTH:
            raise SchemaInvalid(f"the schema is nested deeper than {MAX_DEPTH} at {path[:200]!r}", limit=MAX_DEPTH)


def _fields_from_json(value: dict[str, Any], path: str, budget: _Budget, depth: int) -> list[pa.Field]:
    fields = value.get("fields")
    if not isinstance(fields, list):
        raise SchemaInvalid(f"the struct {path!r} has no list of fields", column=path)
    return [_field_from_json(field, path, budget, depth) for field in fields]


def _field_from_json(value: Any, parent: str, budget: _Budget, depth: int) -> pa.Field:
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name:
        raise SchemaInvalid(f"a field of {parent!r} has no name", column=parent)
    path = f"{parent}.{name}" if parent else name
    nullable, metadata = value.get("nullable", True), value.get("metadata")
    metadata = {} if metadata is None else metadata
    if not isinstance(nullable, bool) or not isinstance(metadata, dict):
        raise SchemaInvalid(f"nullable or metadata of the column {path!r} is of a wrong type", column=path)
    kind, detail = _type_from_json(value.get("type"), path, budget, depth)
    stored = _metadata_from_json(metadata, path)
    if detail is not None:
        stored[_SPARK_TYPE] = detail
    return _arrow_field(name, kind, nullable, path).with_metadata(stored or None)


def _arrow_field(name: str, kind: pa.DataType, nullable: object, path: str) -> pa.Field:
    if pa.types.is_null(kind) and nullable is False:
        raise SchemaInvalid(f"the column {path!r} has no type, so that it can only be null", column=path)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SchemaInvalid(f"the column name {path!r} is not valid Unicode", column=path) from None
    return pa.field(name, kind, nullable is not False)


def _type_from_json(value: Any, path: str, budget: _Budget, depth: int) -> tuple[pa.DataType, str | None]:
    """The Arrow type, and the name of the Spark type where Arrow's does not tell it."""
    budget.spend(path, depth)
    if isinstance(value, str):
        return _named_type(value, path)
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "struct":
        return pa.struct(_fields_from_json(value, path, budget, depth + 1)), None
    if kind == "array":
        element = _inner(value, "elementType", f"{path}.element", budget, depth)
        return pa.list_(_arrow_field("element", element, value.get("containsNull"), path)), None
    if kind == "map":
        key = _inner(value, "keyType", f"{path}.key", budget, depth)
        item = _inner(value, "valueType", f"{path}.value", budget, depth)
        if pa.types.is_null(key):
            raise SchemaInvalid(f"the keys of the map {path!r} have no type", column=path)
        return pa.map_(key, _arrow_field("value", item, value.get("valueContainsNull"), path)), None
    raise SchemaInvalid(f"the column {path!r} has an unknown type: {json.dumps(value)[:200]}", column=path)


def _inner(value: dict[str, Any], name: str, path: str, budget: _Budget, depth: int) -> pa.DataType:
    kind, detail = _type_from_json(value.get(name), path, budget, depth + 1)
    if detail is not None:
        message = f"the type {detail} is not supported inside an array or a map ({path!r}): put it into a struct"
        raise SchemaInvalid(message, column=path)
    return kind


def _named_type(name: str, path: str) -> tuple[pa.DataType, str | None]:
    usual = _ALIASES.get(name, name)
    if usual in _SIMPLE:
        return _SIMPLE[usual], None
    if usual == "decimal":
        return pa.decimal128(10, 0), None
    match = _DECIMAL.fullmatch(usual)
    if match is not None:
        precision, scale = int(match[1]), int(match[2])
        if not (1 <= precision <= 38 and scale <= precision):
            raise SchemaInvalid(f"the column {path!r} has an impossible type: {name}", column=path)
        return pa.decimal128(precision, scale), None
    for pattern, kind in _DETAILED:
        if pattern.fullmatch(usual):
            return kind, None if _NAMES.get(kind) == usual else usual
    message = f"the column {path!r} has the type {name[:100]!r}, which is not supported: cast it, to string for example"
    raise SchemaInvalid(message, column=path)


def _field_to_json(field: pa.Field, path: str, budget: _Budget, depth: int) -> dict[str, Any]:
    if not field.name:
        raise SchemaInvalid(f"a column below {path!r} has an empty name", column=path)
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    detail = metadata.pop(_SPARK_TYPE, None)
    kind = _type_to_json(field.type, path, budget, depth)
    if detail is not None and _named_type(detail, path)[0] == field.type:
        kind = detail
    return {"name": field.name, "type": kind, "nullable": field.nullable, "metadata": _metadata_to_json(metadata)}


def _type_to_json(kind: pa.DataType, path: str, budget: _Budget, depth: int) -> Any:
    budget.spend(path, depth)
    kind = _spark_compatible(kind)
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        fields = [_field_to_json(field, f"{path}.{field.name}", budget, depth + 1) for field in kind]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type_to_json(kind.key_type, f"{path}.key", budget, depth + 1),
            "valueType": _type_to_json(kind.item_type, f"{path}.value", budget, depth + 1),
            "valueContainsNull": kind.item_field.nullable,
        }
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = _type_to_json(kind.value_type, f"{path}.element", budget, depth + 1)
        return {"type": "array", "elementType": element, "containsNull": kind.value_field.nullable}
    raise SchemaInvalid(f"the column {path!r} has the type {kind}, which Spark does not have: cast it", column=path)


def _spark_compatible(kind: pa.DataType) -> pa.DataType:
    """The type of our own that holds every value of `kind`, where there is one."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz is not None else None)
    if types.is_date64(kind):
        return pa.date32()
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_time(kind):
        return pa.time64("us")
    return _WIDENED.get(kind, kind)


_WIDENED: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def _metadata_from_json(metadata: dict[str, Any], path: str) -> dict[str, str]:
    stored: dict[str, str] = {}
    for key, value in metadata.items():
        if key == FIELD_ID:
            if not is_id(value):
                raise SchemaInvalid(f"the id of the column {path!r} is not a positive number", column=path)
            stored[key] = str(value)
        elif key == NESTED_IDS and not are_ids(value):
            raise SchemaInvalid(f"the ids below the column {path!r} are not positive numbers", column=path)
        elif isinstance(value, str):
            stored[key] = value
        else:
            stored[JSON_PREFIX + key] = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    try:
        "".join([*stored, *stored.values()]).encode()
    except UnicodeEncodeError:
        raise SchemaInvalid(f"the metadata of the column {path!r} is not valid Unicode", column=path) from None
    return stored


def _metadata_to_json(metadata: dict[str, str]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, text in metadata.items():
        if key == FIELD_ID:
            plain[key] = int(text)
        elif key.startswith(JSON_PREFIX):
            try:
                plain[key[len(JSON_PREFIX) :]] = json.loads(text)
            except ValueError:
                plain[key] = text
        elif not key.startswith("PARQUET:"):
            plain[key] = text
    return plain


def _has_empty_struct(kind: pa.DataType) -> bool:
    """True if values of this type, or those of lists and maps in it, are structs without fields."""
    if pa.types.is_map(kind):
        return _has_empty_struct(kind.key_type) or _has_empty_struct(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _has_empty_struct(kind.value_type)
    return bool(pa.types.is_struct(kind)) and kind.num_fields == 0


def _check_names(schema: pa.Schema) -> None:
    """Raises SchemaInvalid for names of one struct that differ in case only, and for ids that stand twice."""
    seen: dict[int, str] = {}
    for path, field in walk(schema):
        number = field_id(field)
        named = [] if number is None else [(path, number)]
        for place, used in [*named, *((f"{path}.{way}", below) for way, below in nested_ids(field).items())]:
            if seen.setdefault(used, place) != place:
                raise SchemaInvalid(f"the columns {seen[used]!r} and {place!r} have the same id {used}", column=place)
    _check_siblings(schema, "")
    stored: dict[str, str] = {}
    for field in schema:
        other = stored.setdefault(stored_name(field).casefold(), field.name)
        if other != field.name:
            message = f"the columns {other!r} and {field.name!r} have the same name {stored_name(field)!r} in files"
            raise SchemaInvalid(message, column=field.name)


def _check_siblings(fields: Iterable[pa.Field], parent: str) -> None:
    names: dict[str, str] = {}
    for field in fields:
        other = names.setdefault(field.name.casefold(), field.name)
        path = f"{parent}.{field.name}" if parent else field.name
        if other != field.name:
            message = f"the columns {other!r} and {field.name!r} differ in case only: rename one"
            raise SchemaInvalid(message, column=path)
        for inner in _structs(field.type):
            _check_siblings(inner, path)
    given = list(fields)
    if len(names) != len(given):
        repeated = next(f.name for i, f in enumerate(given) if f.name in {g.name for g in given[:i]})
        raise SchemaInvalid(f"the column {repeated!r} stands twice: rename one", column=repeated)


def _structs(kind: pa.DataType) -> list[pa.StructType]:
    if pa.types.is_struct(kind):
        return [kind]
    if pa.types.is_map(kind):
        return [*_structs(kind.key_type), *_structs(kind.item_type)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _structs(kind.value_type)
    return []
