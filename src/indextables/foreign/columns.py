"""Finds the columns of a table in a Parquet file of another system, and turns their values into the table's types.

A file may have its columns under other names (`NAME`) or know them by number (`ID`), lack some, hold some in a
narrower type, and be nested in the same ways. A table may say which names its columns have in files that number none,
and which value a column has in files that are older than it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from indextables.errors import SplitCorrupt
from indextables.lazy import pc

__all__ = ["Match", "absent", "fit_column", "kept_field", "number_of", "numbered_field", "place_of", "plain_field"]

_PHYSICAL = b"delta.columnMapping.physicalName"
_ID = b"json:delta.columnMapping.id"
_PARQUET_ID = b"PARQUET:field_id"
_NAMES = b"json:indextables.names"
_DEFAULT = b"indextables.default"
_KEPT = (b"comment", b"spark.type")
_UUID_BYTES, _UUID_LETTERS, _UUID_DASHES = 16, 36, (8, 13, 18, 23)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


class Match(Enum):
    """How a field of the table finds its field in a file."""

    PLAIN = "the name of the column"
    NAME = "the physical name that the log gives it"
    ID = "its number"

    def physical_name(self, field: pa.Field) -> str:
        """The name that partition values and statistics have for a field."""
        told = (field.metadata or {}).get(_PHYSICAL) if self is not Match.PLAIN else None
        return str(field.name if told is None else told.decode())


def numbered_field(
    name: str,
    kind: pa.DataType,
    *,
    nullable: bool,
    number: int,
    comment: str | None = None,
    names: Sequence[str] | None = None,
    default: pa.Scalar | None = None,
) -> pa.Field:
    """A field that files know by a number alone, which is then its physical name too.

    `names` are what it may be called in files that number none; None where the table does not tell. `default` is its
    value in files that do not have it.
    """
    told = {_ID: str(number).encode(), _PHYSICAL: str(number).encode()}
    if comment:
        told[b"comment"] = comment.encode()
    if names is not None:
        told[_NAMES] = msgspec.json.encode(list(names))
    if default is not None:
        told[_DEFAULT] = _packed(default)
    return pa.field(name, kind, nullable, metadata=told)


def number_of(field: pa.Field) -> int:
    """The number that files know a field by. Raises KeyError for one that has none."""
    return int(field.metadata[_ID])


def plain_field(field: pa.Field) -> pa.Field:
    """The field as a user sees it: name, type and nullability, on every level."""
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def kept_field(field: pa.Field) -> pa.Field:
    """The field as a table that takes its rows over has it: as users see it, with its comment, on every level."""
    told = {key: value for key, value in (field.metadata or {}).items() if key in _KEPT}
    return pa.field(field.name, _kept_type(field.type), field.nullable, metadata=told or None)


def _kept_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([kept_field(child) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(kept_field(kind.key_field), kept_field(kind.item_field))
    return pa.list_(kept_field(kind.value_field)) if pa.types.is_list(kind) else kind


def place_of(field: pa.Field, there: list[pa.Field], match: Match, path: str) -> int | None:
    """Which of the fields of a file is this one; None if it is not there. Raises SplitCorrupt."""
    if match is Match.ID:
        wanted, names = ((field.metadata or {}).get(key) for key in (_ID, _NAMES))
        if there and not any(_PARQUET_ID in (other.metadata or {}) for other in there):
            if names is None:
                raise _unfit(path, f"the table knows its columns by number, and the file numbers none ({field.name})")
            called = msgspec.json.decode(names)
            found = [at for at, other in enumerate(there) if other.name in called]
        else:
            found = [at for at, other in enumerate(there) if (other.metadata or {}).get(_PARQUET_ID) == wanted]
            found = found if wanted is not None else []
    else:
        name = match.physical_name(field)
        found = [at for at, other in enumerate(there) if other.name == name]
        if not found and match is Match.PLAIN:
            # Names differ in case at most, as for everything else that reads such files.
            found = [at for at, other in enumerate(there) if other.name.lower() == name.lower()]
    if len(found) > 1:
        raise _unfit(path, f"it has the column {field.name} more than once")
    return found[0] if found else None


def absent(field: pa.Field, rows: int) -> pa.Array | None:
    """So many values of a column that a file does not have; None where the table says nothing of them."""
    kind, packed = _plain_type(field.type), (field.metadata or {}).get(_DEFAULT)
    if packed is not None:
        return pa.repeat(_unpacked(packed, kind), rows)
    return pa.nulls(rows, kind) if field.nullable else None


def fit_column(values: pa.Array, source: pa.Field, field: pa.Field, match: Match, path: str) -> pa.Array:
    """The values of a column of a file as the table has them. Raises SplitCorrupt where they cannot be that."""
    fitted = _fit(values, source.type, field, match, path)
    _check_nulls(fitted, field, path)
    return fitted


def _fit(values: pa.Array, source: pa.DataType, field: pa.Field, match: Match, path: str) -> pa.Array:
    target = field.type
    if pa.types.is_null(target):
        return pa.nulls(len(values), target)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
        source = values.type
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
        source = values.type
    if pa.types.is_struct(target) and pa.types.is_struct(values.type):
        return _fit_struct(values, source, field, match, path)
    if pa.types.is_map(target) and pa.types.is_map(values.type):
        return _fit_map(values, source, field, match, path)
    if pa.types.is_list(target) and _is_list(values.type):
        if not pa.types.is_list(values.type):
            values = pc.cast(values, pa.list_(values.type.value_field))
        inner = _fit(values.values, source.value_type, target.value_field, match, path)
        return _relist(values, pa.list_(plain_field(target.value_field)), inner)
    if pa.types.is_nested(target) or pa.types.is_nested(values.type):
        raise _other_type(values.type, field, path)
    if match is Match.ID and pa.types.is_string(target) and pa.types.is_fixed_size_binary(values.type):
        return _uuid_texts(values, field, path)
    return _cast(values, field, path)


def _fit_struct(values: pa.Array, source: pa.DataType, field: pa.Field, match: Match, path: str) -> pa.Array:
    there, children = list(source), values.flatten()
    fitted = []
    for wanted in field.type:
        place = place_of(wanted, there, match, path)
        if place is None:
            filled = absent(wanted, len(values))
            fitted.append(pa.nulls(len(values), _plain_type(wanted.type)) if filled is None else filled)
        else:
            inner = _fit(children[place], there[place].type, wanted, match, path)
            fitted.append(
                inner if wanted.nullable or not inner.null_count else _without_nulls(inner, values, wanted, path)
            )
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(fitted, fields=[plain_field(wanted) for wanted in field.type], mask=mask)


def _without_nulls(inner: pa.Array, parent: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """A part that is never null, with some value where the whole is null: writers of Parquet want one there.

    Raises SplitCorrupt where the whole is there and the part is not.
    """
    if pc.any(pc.and_(inner.is_null(), parent.is_valid())).as_py():
        raise _holds_nulls(field, path)
    kind, rows = inner.type, len(inner)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(inner.flatten(), fields=list(kind))
    buffers = inner.buffers()
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        entries = (
            pa.StructArray.from_arrays([inner.keys, inner.items], fields=[kind.key_field, kind.item_field])
            if (pa.types.is_map(kind))
            else inner.values
        )
        return pa.Array.from_buffers(kind, rows, [None, buffers[1]], 0, inner.offset, [entries])
    return pa.Array.from_buffers(kind, rows, [None, *buffers[1:]], 0, inner.offset)


def _fit_map(values: pa.Array, source: pa.DataType, field: pa.Field, match: Match, path: str) -> pa.Array:
    target = field.type
    keys = _fit(values.keys, source.key_type, target.key_field, match, path)
    items = _fit(values.items, source.item_type, target.item_field, match, path)
    kind = _plain_type(target)
    entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    return _relist(values, kind, entries)


def _relist(values: pa.Array, kind: pa.DataType, inner: pa.Array) -> pa.Array:
    """The same lists over other values."""
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(kind, len(values), buffers, values.null_count, values.offset, [inner])


def _uuid_texts(values: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """UUIDs as texts: where columns have numbers, sixteen bytes for a text are nothing else."""
    if values.type.byte_width != _UUID_BYTES:
        raise _other_type(values.type, field, path)
    rows = len(values)
    stored = np.frombuffer(values.buffers()[1], np.uint8)
    stored = stored[values.offset * _UUID_BYTES : (values.offset + rows) * _UUID_BYTES].reshape(rows, _UUID_BYTES)
    digits = np.stack([stored >> 4, stored & 15], axis=2).reshape(rows, 2 * _UUID_BYTES)
    texts = np.full((rows, _UUID_LETTERS), ord("-"), np.uint8)
    texts[:, [at for at in range(_UUID_LETTERS) if at not in _UUID_DASHES]] = _HEX[digits]
    offsets = np.arange(rows + 1, dtype=np.int32) * _UUID_LETTERS
    found = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(texts))
    return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.string())) if values.null_count else found


def _cast(values: pa.Array, field: pa.Field, path: str) -> pa.Array:
    source, target = values.type, field.type
    if source == target:
        return values
    if pa.types.is_null(source):
        return pa.nulls(len(values), target)
    if not _may_become(source, target):
        raise _other_type(source, field, path)
    try:
        if pa.types.is_timestamp(source):
            # Times without a zone count from the epoch as instants do: writers mean the same by both.
            return pc.cast(pc.cast(values, pa.timestamp("us", source.tz)), target)
        return pc.cast(values, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(path, f"column {field.name} is {source}, the table has {target}: {error}") from error


def _may_become(source: pa.DataType, target: pa.DataType) -> bool:
    """True where every value of the source that the target holds is the same value there."""
    types: Any = pa.types
    if types.is_integer(source):
        return bool(types.is_integer(target) or types.is_float64(target) or types.is_decimal(target))
    if types.is_floating(source):
        return bool(types.is_floating(target) and target.bit_width >= source.bit_width)
    if types.is_date(source):
        return bool(types.is_date(target) or (types.is_timestamp(target) and target.tz is None))
    if _is_bytes(source):
        return _is_bytes(target)
    return any(
        bool(is_kind(source) and is_kind(target))
        for is_kind in (types.is_decimal, types.is_timestamp, types.is_time, types.is_duration)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_field(kind.key_field), plain_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(plain_field(kind.value_field))
    return kind


def _check_nulls(values: pa.Array, field: pa.Field, path: str) -> None:
    if not field.nullable and values.null_count:
        raise _holds_nulls(field, path)


def _holds_nulls(field: pa.Field, path: str) -> SplitCorrupt:
    return _unfit(path, f"column {field.name} holds nulls, and the table says that it never does")


def _packed(value: pa.Scalar) -> bytes:
    batch = pa.record_batch([pa.array([value.as_py()], value.type)], names=["value"])
    return bytes(batch.serialize())


def _unpacked(packed: bytes, kind: pa.DataType) -> pa.Scalar:
    return pa.ipc.read_record_batch(pa.py_buffer(packed), pa.schema([("value", kind)])).column(0)[0]


def _other_type(source: pa.DataType, field: pa.Field, path: str) -> SplitCorrupt:
    return _unfit(path, f"column {field.name} is {source}, the table has {field.type}")


def _unfit(path: str, reason: str) -> SplitCorrupt:
    return SplitCorrupt(f"{path}: {reason}", path=path, part="rows", reason=reason)
