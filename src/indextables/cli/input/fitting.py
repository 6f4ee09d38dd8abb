"""Fits columns of a file to columns of the table: found by name, converted where no value changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.cli.input.whole_numbers import check_texts
from indextables.errors import SchemaMismatch
from indextables.query.convert import cast_exactly, cast_or_null

__all__ = ["check_distinct", "conform", "from_texts"]

_Rows = int | np.ndarray
"""Which rows of the file values are of: the first of a run of rows, or that of each value; counted from 0."""
_ZONE = r"[0-9]:[0-9.:]+\s*([zZ]|[+-][0-9]{2}(:?[0-9]{2}){0,2}|UTC|GMT)$"
_INTEGER = r"^[+-]?[0-9]+$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_FLOAT = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)$"
_BOOLEAN = r"(?i)^(true|false|1|0)$"


def conform(batch: pa.RecordBatch, schema: pa.Schema, name: str, rows_before: int = 0) -> pa.RecordBatch:
    """`batch` with the columns of `schema`: found in any case, cast where that is exact, null where absent.

    The names in `batch` are distinct: `check_distinct` of its file has said so. Raises SchemaMismatch for a column too
    many, and for a value that is not of its column's type.
    """
    arrays = []
    for field, column in _matched(batch, schema, name):
        arrays.append(_as_type(column, field, name, rows_before))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def from_texts(batch: pa.RecordBatch, schema: pa.Schema, name: str, rows_before: int) -> pa.RecordBatch:
    """The same for columns of texts, none of which means null but the empty one where the column holds no text."""
    arrays = []
    for field, column in _matched(batch, schema, name):
        if column.type == field.type:
            arrays.append(column)
        else:
            arrays.append(_read_texts(column, field, name, rows_before))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_distinct(schema: pa.Schema, name: str) -> None:
    """Raises SchemaMismatch if two columns of a file would be one in a table, where case makes no difference.

    Fields inside of a column are looked at too.
    """
    _check_siblings(list(schema), name, "")


def _check_siblings(fields: Sequence[pa.Field], name: str, parent: str) -> None:
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.get(field.name.lower())
        if other is not None:
            what = f"two fields of {parent[:-1]}" if parent else "two columns"
            called = f"both called {other!r}" if other == field.name else f"called {other!r} and {field.name!r}"
            message = f"{name}: {what} are {called}: rename one of them in the file"
            raise SchemaMismatch(message, path=name, column=f"{parent}{field.name}")
        seen[field.name.lower()] = field.name
        inner = field.type
        while not pa.types.is_struct(inner) and pa.types.is_nested(inner) and inner.num_fields:
            # What a list holds, and the values of a map: its keys are never structs of a file.
            inner = inner.field(inner.num_fields - 1).type
        if pa.types.is_struct(inner):
            _check_siblings(list(inner), name, f"{parent}{field.name}.")


def _matched(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> list[tuple[pa.Field, pa.Array]]:
    places = _places(batch.schema.names, list(schema), name, "")
    return [
        (field, pa.nulls(batch.num_rows, field.type) if place is None else batch.column(place))
        for field, place in zip(schema, places, strict=True)
    ]


def _places(found: Sequence[str], wanted: Sequence[pa.Field], name: str, parent: str) -> list[int | None]:
    """For each wanted field its place in what was found, None if it is not there. Raises SchemaMismatch for others."""
    known = {field.name.lower() for field in wanted}
    extra = [f"{parent}{column}" for column in found if column.lower() not in known]
    if extra:
        has = [f"{parent}{field.name}" for field in wanted]
        message = f"{name}: the table has no column {_listed(sorted(extra))}; it has {_listed(has)}"
        raise SchemaMismatch(message, path=name, columns=extra)
    places = {column.lower(): place for place, column in enumerate(found)}
    return [places.get(field.name.lower()) for field in wanted]


def _listed(names: Sequence[str]) -> str:
    """Names as they are, in quotes where they would not be seen whole."""
    return ", ".join(name if name.replace(".", "").isidentifier() else repr(name) for name in names)


def _as_type(column: pa.Array, field: pa.Field, name: str, rows: _Rows) -> pa.Array:
    if column.type == field.type:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), field.type)
    column = _in_plain_lists(column)
    if _is_alike(column.type, field.type):
        return _parts_as_type(column, field, name, rows)
    _check_zone(column, field, name, rows)
    try:
        if pa.types.is_floating(field.type) and pa.types.is_string(column.type):
            column = pc.utf8_trim_whitespace(column)
            check_texts(column, field.name, field.type, lambda place: _row_at(rows, place))
        return pc.cast(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    if not pa.types.is_nested(column.type) and not pa.types.is_nested(field.type):
        converted = cast_or_null(column, field.type)
        _check_none_lost(column, pc.is_null(converted), field, name, rows)
        return converted
    message = f"{name}: column {field.name} is {field.type} in the table, {column.type} in the file"
    raise SchemaMismatch(message, path=name, column=field.name)


def _in_plain_lists(column: pa.Array) -> pa.Array:
    """Lists of any kind as lists, maps as lists of keys and values: Arrow's cast of them drops fields in silence."""
    kind, types = column.type, pa.types
    if types.is_map(kind):
        return column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    if types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return column.cast(pa.list_(kind.value_type))
    return column


def _is_alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values are found in the parts that they are wanted in: a map as a list of keys and values."""
    if pa.types.is_struct(wanted):
        return bool(pa.types.is_struct(found))
    if pa.types.is_map(wanted):
        pair = found.value_type if pa.types.is_list(found) else None
        return pair is not None and bool(pa.types.is_struct(pair)) and [part.name for part in pair] == ["key", "value"]
    return bool(pa.types.is_list(wanted) and pa.types.is_list(found))


def _parts_as_type(column: pa.Array, field: pa.Field, name: str, rows: _Rows) -> pa.Array:
    """A struct, list or map of the parts of `column`, each of them of its type."""

    def part(values: pa.Array, path: str, kind: pa.DataType, its_rows: _Rows) -> pa.Array:
        return _as_type(values, pa.field(path, kind), name, its_rows)

    if pa.types.is_struct(field.type):
        found = column.flatten()
        places = _places([one.name for one in column.type], list(field.type), name, f"{field.name}.")
        inner = [
            pa.nulls(len(column), one.type)
            if place is None
            else part(found[place], f"{field.name}.{one.name}", one.type, rows)
            for place, one in zip(places, field.type, strict=True)
        ]
        return pa.StructArray.from_arrays(inner, fields=list(field.type), mask=column.is_null())
    parents = pc.list_parent_indices(column).to_numpy()
    inside = np.arange(rows, rows + len(column))[parents] if isinstance(rows, int) else rows[parents]
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int32)
    absent = np.append(np.asarray(column.is_null()), False)
    starts = pa.array(ends, mask=absent)
    items = column.flatten()
    if pa.types.is_list(field.type):
        values = part(items, f"{field.name}[]", field.type.value_type, inside)
        return pa.ListArray.from_arrays(starts, values, type=field.type)
    keys, values = items.flatten()
    keys = part(keys, f"{field.name}{{}}", field.type.key_type, inside)
    values = part(values, f"{field.name}{{}}", field.type.item_type, inside)
    return pa.MapArray.from_arrays(starts, keys, values, type=field.type)


def _row_at(rows: _Rows, place: int) -> int:
    return int(rows + place if isinstance(rows, int) else rows[place]) + 1


def _read_texts(texts: pa.Array, field: pa.Field, name: str, rows_before: int) -> pa.Array:
    """Texts of a file that has nothing else, as values of a column."""
    if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type) or pa.types.is_large_string(field.type):
        return pc.cast(texts, field.type)
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    trimmed = pc.utf8_trim_whitespace(texts)
    shape = _shape_of(field.type)
    if shape is not None:
        _check_none_lost(texts, pc.invert(pc.match_substring_regex(trimmed, shape)), field, name, rows_before)
    if pa.types.is_temporal(field.type):
        return _as_type(trimmed, field, name, rows_before)
    if pa.types.is_nested(field.type):
        converted = pa.nulls(len(texts), field.type)
    elif pa.types.is_decimal(field.type):
        converted = cast_exactly(trimmed, field.type)
    else:
        converted = cast_or_null(trimmed, field.type)
    lost = pc.is_null(converted)
    if pa.types.is_floating(field.type):
        check_texts(trimmed, field.name, field.type, lambda place: rows_before + place + 1)
        lost = pc.or_(lost, pc.and_(pc.is_inf(converted), pc.invert(pc.match_substring_regex(trimmed, _INFINITE))))
    _check_none_lost(texts, lost, field, name, rows_before)
    return converted


def _shape_of(data_type: pa.DataType) -> str | None:
    if pa.types.is_integer(data_type):
        return _INTEGER
    if pa.types.is_floating(data_type):
        return _FLOAT
    return _BOOLEAN if pa.types.is_boolean(data_type) else None


def _check_zone(column: pa.Array, field: pa.Field, name: str, rows: _Rows) -> None:
    """Raises SchemaMismatch for a text with a zone where the column keeps none."""
    if pa.types.is_string(column.type) and pa.types.is_timestamp(field.type) and field.type.tz is None:
        zoned = pc.match_substring_regex(pc.utf8_trim_whitespace(column), _ZONE)
        advice = (
            ": it has a zone, and a timestamp_ntz keeps none; use a column of type timestamp, or leave the zone out"
        )
        _check_none_lost(column, zoned, field, name, rows, advice)


def _check_none_lost(
    column: pa.Array, lost: pa.Array, field: pa.Field, name: str, rows: _Rows, advice: str = ""
) -> None:
    """Raises SchemaMismatch for the first value that is there and `lost`, with its row and column."""
    bad = pc.index(pc.and_(pc.is_valid(column), pc.fill_null(lost, False)), True).as_py()  # noqa: FBT003
    if bad < 0:
        return
    value, row = column[bad].as_py(), _row_at(rows, bad)
    message = f"{name}: row {row:,}: column {field.name} is {field.type}, {str(value)[:80]!r} is not{advice}"
    raise SchemaMismatch(message, path=name, column=field.name, row=row)
