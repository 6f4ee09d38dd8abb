"""Which column does a name mean, and what can be asked of it?"""

from __future__ import annotations

import pyarrow as pa

from indextables.split.index import Analyzer, FieldPlan, IndexPlan, analyzer, is_nested_list, natural_kind
from indextables.split.query.plan import LeafKind, LeafTarget


def resolve_target(schema: pa.Schema, index: IndexPlan, parts: tuple[str, ...]) -> LeafTarget:
    """The target of a dotted name, in any case. Raises LookupError with a message for the user."""
    for length in range(len(parts), 0, -1):
        column = _column(schema, ".".join(parts[:length]))
        if column is not None:
            field = index.by_column(column.name)
            rest = parts[length:]
            return _nested(column, field, rest) if _is_nested(column.type) else _plain(column, field, rest)
    if parts == ("_exists_",):
        raise LookupError("_exists_ is no column: write column:* for rows in which it has a value")
    known = ", ".join(schema.names[:20])
    raise LookupError(f"there is no column {'.'.join(parts)!r}; there are {known}")


def target_of_column(schema: pa.Schema, index: IndexPlan, name: str, path: tuple[str, ...] = ()) -> LeafTarget:
    """As `resolve_target`, for a column whose name is known exactly. Raises LookupError."""
    column = schema.field(name)
    field = index.by_column(name)
    return _nested(column, field, path) if _is_nested(column.type) else _plain(column, field, path)


def _column(schema: pa.Schema, name: str) -> pa.Field | None:
    position = schema.get_field_index(name)
    if position >= 0:
        return schema.field(position)
    wanted = name.lower()
    return next((f for f in schema if f.name.lower() == wanted), None)


def _element(value_type: pa.DataType) -> pa.DataType:
    while is_nested_list(value_type):
        value_type = value_type.value_type
    return value_type


def _is_nested(value_type: pa.DataType) -> bool:
    element = _element(value_type)
    return bool(pa.types.is_struct(element) or pa.types.is_map(element))


def _plain(column: pa.Field, field: FieldPlan | None, rest: tuple[str, ...]) -> LeafTarget:
    if rest:
        raise LookupError(f"the column {column.name!r} has nothing inside it, there is no {'.'.join(rest)!r}")
    multi = is_nested_list(column.type)
    kind = kind_of(_element(column.type)) if field is None else field.kind
    if multi and is_nested_list(column.type.value_type):
        kind = "other"
    analysis: Analyzer | None = None
    if field is not None and field.kind in ("text", "string"):
        analysis = field.analyzer
    elif kind == "string":
        analysis = analyzer("raw")
    if kind == "json":
        kind = "other"
    return LeafTarget(
        column=column.name,
        kind=kind,
        field=None if field is None else field.id,
        analyzer=analysis,
        indexed=field is not None and field.indexed,
        fast=field is not None and field.fast,
        positions=field is not None and field.record == "position",
        multi=multi,
    )


def _nested(column: pa.Field, field: FieldPlan | None, rest: tuple[str, ...]) -> LeafTarget:
    path: list[str] = []
    current = _element(column.type)
    multi = is_nested_list(column.type)
    for part in rest:
        if pa.types.is_struct(current):
            child = next((c for c in current if c.name == part), None)
            child = child or next((c for c in current if c.name.lower() == part.lower()), None)
            if child is None:
                known = ", ".join(c.name for c in list(current)[:20])
                raise LookupError(f"{'.'.join((column.name, *path))!r} has no {part!r}; it has {known}")
            path.append(child.name)
            value_type = child.type
        elif pa.types.is_map(current):
            path.append(part)
            value_type = current.item_type
        else:
            raise LookupError(f"{'.'.join((column.name, *path))!r} has nothing inside it, there is no {part!r}")
        multi = multi or is_nested_list(value_type)
        current = _element(value_type)
    kind = kind_of(current) if path else "other"
    if field is not None and kind == "string":
        kind = "text"
    text = kind in ("text", "string")
    return LeafTarget(
        column=column.name,
        kind=kind,
        path=tuple(path),
        field=None if field is None else field.id,
        analyzer=None if not text else analyzer("raw") if field is None else field.analyzer,
        indexed=field is not None and kind in ("text", "int", "bool"),
        fast=False,
        positions=field is not None and field.record == "position",
        nested=True,
        multi=multi,
    )


def kind_of(value_type: pa.DataType) -> LeafKind:
    """What values of an Arrow type can be compared as, whether or not the index holds them."""
    types = pa.types
    natural = natural_kind(value_type)
    if natural == "json":
        return "other"
    if natural is not None:
        return natural
    if types.is_floating(value_type):
        return "float"
    if types.is_decimal(value_type) or types.is_uint64(value_type):
        return "decimal"
    if types.is_binary(value_type) or types.is_large_binary(value_type) or types.is_fixed_size_binary(value_type):
        return "binary"
    if types.is_timestamp(value_type):
        return "timestamp_ns"
    return "other"
