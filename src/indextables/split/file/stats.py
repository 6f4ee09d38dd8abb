"""What the log says about the values of a split: bounds that never lie, and null counts.

A bound is left out rather than wrong: of columns that hold NaN (which is above every number), of infinities, of
binary and nested columns, of times outside the years 1 to 9999. Texts of bounds:

    integers, decimals   digits                      booleans    true, false
    floating point       shortest exact form         dates       2024-02-29
    timestamps           2024-02-29T12:00:00.000001Z in UTC; without `Z` for those without a zone
    strings              as they are, cut to a number of characters; a cut maximum is rounded up
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt

__all__ = ["Statistics", "StatsBuilder", "cut_maximum"]

_LAST_CHARACTER = 0x10FFFF
_ISO = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Statistics(msgspec.Struct, frozen=True):
    """Bounds as texts, null counts, and both as the JSON of `add.stats`, by column name."""

    num_rows: int
    min_values: dict[str, str]
    max_values: dict[str, str]
    null_counts: dict[str, int]
    json: str


class StatsBuilder:
    """Gathers statistics table by table; bounds of the first columns only (`dataSkippingNumIndexedCols`)."""

    def __init__(self, schema: pa.Schema, options: opt.Options, *, uncut: Collection[str] = ()) -> None:
        """Columns named in `uncut` (the partition columns) keep their strings whole."""
        counted = options[opt.DATA_SKIPPING_NUM_INDEXED_COLS]
        self._columns = [f.name for f in list(schema)[:counted]]
        self._bounded = {f.name for f in list(schema)[:counted] if _has_bounds(f.type)}
        self._limit = options[opt.STATS_TRUNCATION_MAX_LENGTH] if options[opt.STATS_TRUNCATION_ENABLED] else None
        self._uncut = frozenset(uncut)
        self._nulls = dict.fromkeys(self._columns, 0)
        # Delta's readers want an object of counts for a struct, and refuse the whole log over a number.
        self._structs = {name for name in self._columns if pa.types.is_struct(schema.field(name).type)}
        self._bounds: dict[str, tuple[pa.Scalar, pa.Scalar]] = {}
        self._unbounded: set[str] = set()
        self._rows = 0

    def update(self, table: pa.Table) -> None:
        """Take account of the rows of a table of the schema given."""
        self._rows += table.num_rows
        for name in self._columns:
            values = table.column(name)
            self._nulls[name] += values.null_count
            if name in self._bounded and name not in self._unbounded and values.null_count < len(values):
                self._update_bounds(name, values)

    def finish(self) -> Statistics:
        """The statistics of everything seen."""
        low: dict[str, tuple[str, Any]] = {}
        high: dict[str, tuple[str, Any]] = {}
        for name, (least, most) in self._bounds.items():
            if name in self._unbounded:
                continue
            limit = None if name in self._uncut else self._limit
            if (text := _text(least, limit, upper=False)) is not None:
                low[name] = text
            if (text := _text(most, limit, upper=True)) is not None:
                high[name] = text
        logged = {
            "numRecords": self._rows,
            "minValues": {name: typed for name, (_, typed) in low.items()},
            "maxValues": {name: typed for name, (_, typed) in high.items()},
            "nullCount": {name: count for name, count in self._nulls.items() if name not in self._structs},
        }
        return Statistics(
            num_rows=self._rows,
            min_values={name: text for name, (text, _) in low.items()},
            max_values={name: text for name, (text, _) in high.items()},
            null_counts=dict(self._nulls),
            json=msgspec.json.encode(logged).decode(),
        )

    def _update_bounds(self, name: str, values: pa.ChunkedArray) -> None:
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            self._unbounded.add(name)
            return
        found = pc.min_max(values)
        least, most = found["min"], found["max"]
        if name in self._bounds:
            least = _lesser(least, self._bounds[name][0])
            most = _greater(most, self._bounds[name][1])
        self._bounds[name] = (least, most)


def cut_maximum(text: str, limit: int) -> str | None:
    """The least text of at most `limit` characters that is not below `text`; None if there is none."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    while kept:
        last = ord(kept[-1])
        if last < _LAST_CHARACTER:
            # U+D800 to U+DFFF are no characters.
            return kept[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        kept = kept[:-1]
    return None


def _has_bounds(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
    )


def _lesser(a: pa.Scalar, b: pa.Scalar) -> pa.Scalar:
    return a if pc.less(a, b).as_py() else b


def _greater(a: pa.Scalar, b: pa.Scalar) -> pa.Scalar:
    return a if pc.greater(a, b).as_py() else b


def _text(value: pa.Scalar, limit: int | None, *, upper: bool) -> tuple[str, Any] | None:
    """A bound as text and as the value for JSON; None if it cannot be said."""
    kind = value.type
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        whole: str = value.as_py()
        cut = whole if limit is None else cut_maximum(whole, limit) if upper else whole[:limit]
        return None if cut is None else (cut, cut)
    if types.is_floating(kind):
        return _float_text(float(value.cast(pa.float64()).as_py()), upper=upper)
    if types.is_boolean(kind):
        return ("true" if value.as_py() else "false", value.as_py())
    if types.is_decimal(kind):
        number: Decimal = value.as_py()
        return (f"{number:f}", msgspec.Raw(f"{number:f}".encode()))
    if types.is_timestamp(kind) or types.is_date(kind):
        return _time_text(value)
    return (str(value.as_py()), value.as_py())


def _float_text(number: float, *, upper: bool) -> tuple[str, float] | None:
    if not math.isfinite(number):
        return None
    if number == 0:
        # Zero has two signs that compare equal: the bounds take in both.
        number = 0.0 if upper else -0.0
    return (repr(number), number)


def _time_text(value: pa.Scalar) -> tuple[str, str] | None:
    kind = value.type
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns":
            return None
        try:
            value = value.cast(pa.timestamp("us", "UTC" if kind.tz else None))
        except pa.ArrowInvalid:  # seconds and milliseconds reach further than microseconds
            return None
    else:
        value = value.cast(pa.date32())
    text = value.cast(pa.string()).as_py().replace(" ", "T")
    return (text, text) if _ISO.match(text) and not text.startswith("0000") else None
