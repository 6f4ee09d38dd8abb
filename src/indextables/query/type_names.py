"""Gives the Arrow type that a name of Spark means: types of one value, not of lists, maps or structs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from indextables.query.coerce import INSTANT

__all__ = ["scalar_type", "type_name"]

_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": INSTANT,
    "TIMESTAMPTZ": INSTANT,
    "TIMESTAMPLTZ": INSTANT,
    "TIMESTAMPNTZ": pa.timestamp("us"),
}


def type_name(kind: Any) -> str:
    """The name of a type as sqlglot spells it, in capitals."""
    return str(getattr(kind.this, "name", kind.this)).upper()


def scalar_type(kind: Any) -> pa.DataType | None:
    """The type that a `DataType` of sqlglot names; None if it is not one of ours, or a decimal that cannot be.

    Times have six digits behind the second: one with fewer is not ours.
    """
    name = type_name(kind)
    if name.startswith("TIMESTAMP") and [part.name for part in kind.expressions] not in ([], ["6"]):
        return None
    if name != "DECIMAL":
        return _TYPES.get(name)
    numbers = [part.name for part in kind.expressions]
    if not all(number.isdecimal() for number in numbers):
        return None
    precision, scale = [*map(int, numbers), 0][:2] if numbers else (10, 0)
    return pa.decimal128(precision, scale) if 1 <= precision <= 38 and 0 <= scale <= precision else None
