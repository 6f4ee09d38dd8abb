"""Turns rows given as dicts into typed columns with the same values, or raises a SchemaMismatch that names the column.

Arrow converts what it can, and cuts while it does (1.5 to an integer, a time to a date, keys that a struct lacks). So
what came out is compared with what was given, unless the Python types alone prove that nothing can have been lost.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from indextables.errors import SchemaMismatch
from indextables.log.wire import wider
from indextables.query.stored import current_default
from indextables.table.arguments import is_unicode
from indextables.table.rows.unfit import unfit

__all__ = ["batch_of_dicts"]


def batch_of_dicts(
    rows: Sequence[Mapping[Any, Any]], schema: pa.Schema | None, *, widens: bool = False, fills: bool = False
) -> pa.RecordBatch:
    """Columns are the keys of all rows, in order of appearance; keys that the schema knows get its types.

    Where it `widens`, a column whose values do not fit gets the next wider type that they fit, if there is one. Where
    it `fills`, a row without a key that others have gets the column's default, else null.

    Raises SchemaMismatch for keys that are no names and for values that are none of the column's type.
    """
    names = list(dict.fromkeys(key for row in rows for key in row))
    for name in names:
        if not isinstance(name, str) or not is_unicode(name):
            raise SchemaMismatch(f"{name!r} is not a name of a column. Nothing was written", differences=[repr(name)])
    if not names:
        return pa.record_batch([pa.nulls(len(rows))], names=["none"]).select([])
    known = {field.name.lower(): field for field in schema} if schema is not None else {}
    columns = []
    for name in names:
        field = known.get(name.lower())
        default = current_default(field) if fills and field is not None else None
        missing = None if default is None else default.as_py()
        values, kind = [row.get(name, missing) for row in rows], None if field is None else field.type
        columns.append(_widest(name, values, kind) if widens and kind is not None else _column(name, values, kind))
    return pa.RecordBatch.from_arrays(columns, names=names)


def _widest(name: str, values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return _column(name, values, kind)
    except SchemaMismatch:
        for other in wider(kind):
            with contextlib.suppress(SchemaMismatch):
                return _column(name, values, other)
        raise


def _column(name: str, values: list[Any], data_type: pa.DataType | None) -> pa.Array:
    try:
        column = pa.array(values, data_type)
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as cause:
        raise _misfit(name, unfit(values, data_type) or str(cause), _first_bad(values, data_type)) from cause
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if data_type is None or _is_safe(data_type, values):
        return column
    for row, (given, kept) in enumerate(zip(values, column.to_pylist(), strict=True)):
        if not _is_same(given, kept, data_type):
            raise _misfit(name, f"{given!r} would become {kept!r} as {data_type}", row)
    return column


def _first_bad(values: list[Any], data_type: pa.DataType | None) -> int | None:
    """The place of the first value that no array of the type holds; None if only some together make a fault."""
    for row, value in enumerate(values):
        try:
            pa.array([value], data_type)
        except (pa.ArrowException, TypeError, OverflowError, ValueError):
            return row
    return None


def _misfit(name: str, reason: str, row: int | None) -> SchemaMismatch:
    where = "" if row is None else f" in row {row + 1:,}"
    message = f"the values of {name!r} do not fit: {reason}{where}. Nothing was written"
    return SchemaMismatch(message, differences=[f"{name}: {reason}"], row=None if row is None else row + 1)


def _is_safe(data_type: pa.DataType, values: Sequence[Any]) -> bool:
    """True if Arrow converts values of these Python types exactly or refuses them."""
    types = pa.types
    kinds = set(map(type, values)) - {type(None)}
    if types.is_list(data_type) or types.is_large_list(data_type):
        return kinds <= {list, tuple} and _is_safe(
            data_type.value_type, list(chain.from_iterable(filter(None, values)))
        )
    if types.is_timestamp(data_type):
        plain = kinds <= {dt.datetime} and data_type.unit == "us"
        return plain and (data_type.tz is not None or all(one is None or one.tzinfo is None for one in values))
    if types.is_string(data_type) or types.is_large_string(data_type):
        return kinds <= {str}
    if types.is_binary(data_type) or types.is_large_binary(data_type):
        return kinds <= {bytes}
    if types.is_integer(data_type):
        return kinds <= {int}
    if types.is_float64(data_type):
        return kinds <= {int, float}
    if types.is_decimal(data_type):
        return kinds <= {int, decimal.Decimal}
    if types.is_boolean(data_type):
        return kinds <= {bool}
    return bool(types.is_date(data_type) and kinds <= {dt.date})


def _is_same(given: Any, kept: Any, data_type: pa.DataType) -> bool:
    """True if `kept`, as Arrow gives it back, is the value that was given."""
    types = pa.types
    if kept is None:
        return given is None or type(given).__name__ in {"NaTType", "NAType"}
    if types.is_floating(data_type):
        return _is_same_float(given, kept, data_type)
    if types.is_timestamp(data_type):
        return _is_same_time(given, kept, data_type)
    if types.is_struct(data_type):
        return _is_same_struct(given, kept, data_type)
    if types.is_map(data_type):
        pairs = list(given.items()) if isinstance(given, Mapping) else list(given)
        return len(pairs) == len(kept) and all(
            _is_same(pair[0], key, data_type.key_type) and _is_same(pair[1], item, data_type.item_type)
            for pair, (key, item) in zip(pairs, kept, strict=True)
        )
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        if isinstance(given, str | bytes) or len(given) != len(kept):
            return False
        return all(_is_same(one, other, data_type.value_type) for one, other in zip(given, kept, strict=True))
    return bool(given == kept)


def _is_same_float(given: Any, kept: float, data_type: pa.DataType) -> bool:
    """Narrow floats round to the nearest value they have, as for every number; they never overflow or vanish."""
    if isinstance(given, str | bytes):
        return False
    number = float(given)
    if math.isnan(number) or math.isnan(kept):
        return math.isnan(number) and math.isnan(kept)
    if pa.types.is_float64(data_type):
        return bool(given == kept)
    return math.isinf(number) == math.isinf(kept) and (number == 0) == (kept == 0)


def _is_same_time(given: Any, kept: Any, data_type: pa.DataType) -> bool:
    """A time without a zone is UTC where the column has one; a time with a zone fits no column without."""
    if isinstance(given, np.datetime64):
        plain = kept if kept.tzinfo is None else kept.astimezone(dt.UTC).replace(tzinfo=None)
        return bool(np.datetime64(plain) == given)
    if not isinstance(given, dt.datetime):
        return False
    if data_type.tz is not None and given.tzinfo is None:
        given = given.replace(tzinfo=dt.UTC)
    return (given.tzinfo is None) == (kept.tzinfo is None) and bool(given == kept)


def _is_same_struct(given: Any, kept: Mapping[str, Any], data_type: pa.DataType) -> bool:
    if not isinstance(given, Mapping):
        return bool(given == kept)
    fields = {field.name: field.type for field in data_type.fields}
    return set(given) <= set(fields) and all(_is_same(given.get(name), kept[name], fields[name]) for name in fields)
