"""Shows Arrow results on a terminal or as JSON lines."""

from __future__ import annotations

import datetime as dt
import html
import re
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from indextables.cli import grid

__all__ = ["answer", "facts", "json_lines", "rows", "size"]

_CELL_CHARS = 300
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_JSON_ROWS = 1024
_TALL = 8
_READABLE = 12


def json_lines(items: Iterable[Mapping[str, Any]]) -> None:
    """One object per line: times in ISO form, bytes in base64, decimals as text, NaN and infinity as null."""
    encode = _encoder().encode
    for item in items:
        sys.stdout.buffer.write(encode(item) + b"\n")
    sys.stdout.buffer.flush()


def rows(table: pa.Table, *, as_json: bool, marked: Mapping[str, str] | None = None, tall: bool = False) -> None:
    """A result; columns of `marked` show their highlighted form, which the column it names holds.

    Rows that are too wide for the terminal are shown line by line, and all rows if that is wanted (`tall`).
    """
    if as_json:
        for batch in table.to_batches(max_chunksize=_JSON_ROWS):
            json_lines(_dicts(batch))
        return
    marked = marked or {}
    shown = {
        name: pa.types.is_integer(kind) or pa.types.is_floating(kind)
        for name, kind in zip(table.schema.names, table.schema.types, strict=True)
        if name not in marked.values()
    }
    cells = ([_spans(row.get(marked.get(name, "")), row[name]) for name in shown] for row in _dicts(table))
    if tall or _is_too_wide(table.select(list(shown))):
        grid.show_tall(list(shown), cells)
    else:
        grid.show(shown, cells)


def answer(table: pa.Table, *, as_json: bool, tall: bool = False) -> None:
    """The rows of a statement; a single one with many columns, as commands give it, is shown line by line."""
    if not as_json and table.num_rows == 1 and table.num_columns > _TALL:
        facts(next(_dicts(table)), as_json=False)
    else:
        rows(table, as_json=as_json, tall=tall)


def _is_too_wide(table: pa.Table) -> bool:
    """Whether the columns do not go beside each other on this terminal so that they can be read."""
    if not sys.stdout.isatty():
        return False
    needed = -3
    for name, column in zip(table.column_names, table.columns, strict=True):
        longest = max((len(_cell(value)) for value in _values(column.slice(0, _JSON_ROWS))), default=0)
        needed += max(min(longest, _READABLE), min(len(name), _READABLE)) + 3
    return needed > shutil.get_terminal_size().columns


def facts(pairs: Mapping[str, Any], *, as_json: bool) -> None:
    """Names and values, one per line."""
    if as_json:
        json_lines([pairs])
        return
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        sys.stdout.write(f"{name:<{width}}  {_cell(value)}\n")


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def _dicts(rows: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows as Python values."""
    columns = [_values(column) for column in rows.columns]
    names = rows.schema.names
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python values of a column. Arrow's own way from instants to datetimes loads pandas."""
    unit = {"us": 1, "ms": 1_000}.get(column.type.unit) if pa.types.is_timestamp(column.type) else None
    if unit is not None:
        zoned = column.type.tz is not None
        return [_moment(number, unit, zoned=zoned) for number in _numbers(column)]
    kind = _plain(column.type)
    # A cast loads Arrow's compute functions.
    plain = column if kind == column.type else column.cast(kind)
    if pa.types.is_timestamp(column.type):
        return [None if text is None else text.replace(" ", "T") for text in plain.to_pylist()]
    with warnings.catch_warnings():
        # Of a key that a map has twice, the last value is shown.
        warnings.simplefilter("ignore", UserWarning)
        try:
            return list(plain.to_pylist(maps_as_pydicts="lossy"))
        except TypeError:
            # Keys that no dict can have: pairs.
            return list(plain.to_pylist())


def _numbers(column: pa.Array | pa.ChunkedArray) -> list[int | None]:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [number for chunk in chunks for number in chunk.view(pa.int64()).to_pylist()]


def _moment(number: int | None, unit: int, *, zoned: bool) -> dt.datetime | str | None:
    try:
        since = None if number is None else dt.timedelta(microseconds=number * unit)
        return None if since is None else dt.datetime(1970, 1, 1, tzinfo=dt.UTC if zoned else None) + since
    except OverflowError:
        # Beyond the years that datetimes have.
        return f"{number} {'us' if unit == 1 else 'ms'} after 1970"


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type whose values Python has: finer times are shown as Arrow writes them."""
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return pa.string() if kind.unit == "ns" else kind
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type), field.nullable) for field in kind])
    return kind


def _spans(highlighted: Any, value: Any) -> grid.Spans:
    """Styled pieces of one cell; a highlight is HTML in which <em> marks what matched."""
    if not isinstance(highlighted, str):
        return [(_cell(value), "" if value is not None else "dim")]
    pieces: grid.Spans = []
    for number, part in enumerate(highlighted.split("<em>")):
        inside, _, outside = part.partition("</em>") if number else ("", "", part)
        pieces += [(_tamed(html.unescape(inside)), "bold yellow"), (_tamed(html.unescape(outside)), "")]
    return pieces


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dt.datetime):
        return _time(value)
    if isinstance(value, bytes):
        return _cut(value[:_CELL_CHARS].hex())
    return _cut(_tamed(_encoder().encode(value).decode() if isinstance(value, dict | list | tuple) else str(value)))


def _cut(text: str) -> str:
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…"


def _tamed(text: str) -> str:
    """Stored text must not command the terminal: control characters are spelled out."""
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


@cache
def _encoder() -> Any:
    import msgspec

    return msgspec.json.Encoder(decimal_format="string", enc_hook=str)


def _time(value: dt.datetime) -> str:
    """To the digit that says something, with Z for UTC."""
    digits = "seconds" if not value.microsecond else "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    return value.isoformat(sep=" ", timespec=digits).replace("+00:00", "Z")
