"""Finds the value that is none of its column's type, and says so in plain words. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

__all__ = ["unfit"]

_SHOWN = 60


def unfit(values: Sequence[Any], data_type: pa.DataType | None) -> str | None:
    """What is wrong with the first of these values that no array of `data_type` can hold; None if that is not clear.

    Without a type, the first that is of another kind than those before it.
    """
    if data_type is None:
        return _mixed(values)
    types = pa.types
    if types.is_list(data_type) or types.is_large_list(data_type):
        return _first_of(values, data_type, list | tuple, "a list") or unfit(
            list(chain.from_iterable(one for one in values if isinstance(one, list | tuple))), data_type.value_type
        )
    if types.is_struct(data_type):
        rows = [one for one in values if isinstance(one, Mapping)]
        parts = (_inside(field.name, [row.get(field.name) for row in rows], field.type) for field in data_type)
        return _first_of(values, data_type, Mapping, "a dict") or next(filter(None, parts), None)
    if types.is_map(data_type):
        pairs = [list(one.items()) if isinstance(one, Mapping) else one for one in values if one is not None]
        found = [pair for one in pairs if isinstance(one, list | tuple) for pair in one if len(pair) == 2]
        return unfit([key for key, _ in found], data_type.key_type) or unfit(
            [item for _, item in found], data_type.item_type
        )
    return _flat(values, data_type)


def _inside(name: str, values: Sequence[Any], data_type: pa.DataType) -> str | None:
    found = unfit(values, data_type)
    return None if found is None else f"{name}: {found}"


def _flat(values: Iterable[Any], data_type: pa.DataType) -> str | None:
    types = pa.types
    if types.is_timestamp(data_type) or types.is_date(data_type):
        wanted, word = (dt.date, "date") if types.is_date(data_type) else (dt.datetime, "datetime")
        how = f", as {word}.fromisoformat makes of an ISO text"
        odd = next((one for one in values if one is not None and not isinstance(one, wanted)), None)
        return None if odd is None else _told(odd, data_type, f"a datetime.{word}", how if isinstance(odd, str) else "")
    odd = next((one for one in values if not _is_taken(one, data_type)), None)
    if odd is None:
        return None
    if types.is_integer(data_type) and isinstance(odd, int) and not isinstance(odd, bool):
        bits = data_type.bit_width - types.is_signed_integer(data_type)
        least = -(2**bits) if types.is_signed_integer(data_type) else 0
        return f"{_excerpt(odd)} is outside of {data_type}, which holds {least} to {2**bits - 1}"
    for is_kind, wanted_words in _WANTED:
        if is_kind(data_type):
            return _told(odd, data_type, wanted_words)
    return f"{_excerpt(odd)} is no value of {data_type}"


_WANTED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)), "a str"),
    (lambda kind: bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind)), "bytes"),
    (pa.types.is_boolean, "a bool"),
    (pa.types.is_integer, "an int"),
    (pa.types.is_floating, "a float or an int that it holds exactly"),
    (pa.types.is_decimal, "a decimal.Decimal or an int, with no more digits than it has"),
    (pa.types.is_time, "a datetime.time"),
    (pa.types.is_duration, "a datetime.timedelta"),
)


def _first_of(values: Iterable[Any], data_type: pa.DataType, kind: Any, words: str) -> str | None:
    odd = next((one for one in values if not isinstance(one, kind) and not _is_taken(one, data_type)), None)
    return None if odd is None else _told(odd, data_type, words)


def _is_taken(value: Any, data_type: pa.DataType) -> bool:
    try:
        pa.array([value], data_type)
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return False
    return True


def _mixed(values: Iterable[Any]) -> str | None:
    """Of values whose column is new: what they have in common is no type."""
    first: Any = None
    for value in values:
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            return f"{_excerpt(value)} needs more than 64 bits: give it as a decimal.Decimal"
        if value is None or (first is not None and type(value) is type(first)):
            continue
        if first is not None:
            return f"{_excerpt(value)} is {_kind(value)}, {_excerpt(first)} before it {_kind(first)}"
        first = value
    return None if first is None or isinstance(first, list | tuple | Mapping) else f"no column holds {_excerpt(first)}"


def _told(value: object, data_type: pa.DataType, wanted: str, how: str = "") -> str:
    return f"{_excerpt(value)} is {_kind(value)}, and {data_type} takes {wanted}{how}"


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _excerpt(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        return "a number of very many digits"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
