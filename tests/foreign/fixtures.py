"""Tables that other systems wrote, which lie beside the checkout, and what these systems read of them."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

_CHECKOUT = Path(__file__).parent.parent.parent

MISSING = "shared/fixtures is not beside this checkout"


def folder(system: str) -> Path | None:
    """The fixtures of a system; None where they are not beside the checkout."""
    places = (parent / "shared" / "fixtures" / system for parent in _CHECKOUT.parents)
    return next((place for place in places if place.is_dir()), None)


def needed(system: str) -> Path:
    """The fixtures of a system; the test is skipped where they are not beside the checkout."""
    return folder(system) or pytest.skip(MISSING)


def cases(system: str) -> list[Any]:
    """A parameter for each fixture; one that is skipped where there are none."""
    root = folder(system)
    if root is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason=MISSING))]
    return [pytest.param(place, id=place.name) for place in sorted(root.iterdir()) if place.is_dir()]


def expected(case: Path) -> dict[str, Any]:
    return json.loads((case / "expected.json").read_text())


def rows_of(table: pa.Table) -> list[str]:
    """The rows as the fixtures spell them, sorted by their text."""
    plain = [{name: _spelled(value) for name, value in row.items()} for row in _pylist(table)]
    return sorted(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in plain)


def told_rows(told: dict[str, Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in told["rows"])


def _pylist(table: pa.Table) -> list[dict[str, Any]]:
    """As `to_pylist`, with instants as microseconds: Python's own begin and end too near."""
    return [
        dict(zip(table.column_names, values, strict=True)) for values in zip(*map(_values, table.columns), strict=True)
    ]


def _values(column: pa.ChunkedArray) -> list[Any]:
    return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_timestamp(kind):
        when = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=scalar.cast(pa.int64()).as_py())  # noqa: DTZ001
        return when.isoformat(timespec="microseconds") + ("Z" if kind.tz else "")
    if pa.types.is_struct(kind):
        return {field.name: _value(scalar[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return {_value(entry["key"]): _value(entry["value"]) for entry in scalar.values}
    if pa.types.is_list(kind):
        return [_value(item) for item in scalar.values]
    return scalar.as_py()


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _spelled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_spelled(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dt.date):
        return value.isoformat()
    return value
