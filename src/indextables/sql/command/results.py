"""Reports as rows: the columns of a result follow from the type of the report, never from its values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import inspect

__all__ = ["arrow_type", "rows_of", "table_of"]

_PLAIN: dict[type, pa.DataType] = {
    inspect.IntType: pa.int64(),
    inspect.FloatType: pa.float64(),
    inspect.StrType: pa.string(),
    inspect.BoolType: pa.bool_(),
    inspect.BytesType: pa.binary(),
    inspect.LiteralType: pa.string(),
    inspect.EnumType: pa.string(),
    inspect.DateTimeType: pa.timestamp("us", "UTC"),
}


def rows_of(
    kind: type[msgspec.Struct],
    values: Sequence[msgspec.Struct],
    *,
    lead: Mapping[str, object] | None = None,
    leave_out: Sequence[str] = (),
) -> pa.Table:
    """One row per Struct with a column per field; texts in `lead` come first, the same in every row."""
    constants = dict(lead or {})
    fields = [pa.field(name, pa.string()) for name in constants]
    names = []
    for field in _fields(kind):
        if field.name not in leave_out:
            names.append(field.name)
            fields.append(pa.field(field.name, arrow_type(field.type)))
    rows = [{**constants, **{name: _plain(getattr(value, name)) for name in names}} for value in values]
    return table_of(rows, pa.schema(fields))


def table_of(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    """Rows as a table of exactly this schema, also if there are none."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


def arrow_type(kind: inspect.Type) -> pa.DataType:
    """The column type of a field of a report."""
    plain = _PLAIN.get(type(kind))
    if plain is not None:
        return plain
    if isinstance(kind, inspect.UnionType):
        inner = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
        return pa.string() if len(inner) != 1 else arrow_type(inner[0])
    if isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType):
        return pa.list_(arrow_type(kind.item_type))
    if isinstance(kind, inspect.DictType):
        return pa.map_(arrow_type(kind.key_type), arrow_type(kind.value_type))
    if isinstance(kind, inspect.StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in kind.fields])
    return pa.string()


def _fields(kind: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    found = inspect.type_info(kind)
    return found.fields if isinstance(found, inspect.StructType) else ()


def _plain(value: Any) -> Any:
    """A value as Arrow takes it."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return [(key, _plain(item)) for key, item in value.items()]
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(item) for item in value]
    return value
