"""Tells what a column is called in files, and what rows hold in it that were written before it was there. Pure.

Both stand in the metadata of the column's field: `indextables.physicalName`, absent while equal to the name, and the
defaults under Spark's keys, as SQL text. Files, statistics and bounds know the stored name alone.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import InvalidArgument, SchemaInvalid

__all__ = [
    "CURRENT_DEFAULT",
    "EXISTS_DEFAULT",
    "GENERATION",
    "IDENTITY_ALWAYS",
    "IDENTITY_START",
    "IDENTITY_STEP",
    "MADE_BY",
    "OF_ONE_TABLE",
    "PHYSICAL_NAME",
    "Identity",
    "current_default",
    "default_meant",
    "default_text",
    "exists_default",
    "generated_columns",
    "has_stored_name",
    "identity_columns",
    "identity_of",
    "stored_name",
    "stored_names",
]

PHYSICAL_NAME = b"indextables.physicalName"
CURRENT_DEFAULT = b"CURRENT_DEFAULT"
"""What a row gets that is written without a value for the column."""
EXISTS_DEFAULT = b"EXISTS_DEFAULT"
"""What rows hold in files that were written before the column was there."""
GENERATION = b"generationExpression"
"""What a generated column is computed by, as SQL."""
IDENTITY_START = b"identity.start"
"""The first number of an identity column."""
IDENTITY_STEP = b"identity.step"
"""How far the numbers of an identity column are apart."""
IDENTITY_ALWAYS = b"identity.always"
"""`true` for an identity column whose numbers nobody may give."""
MADE_BY = frozenset({GENERATION, IDENTITY_START, IDENTITY_STEP, IDENTITY_ALWAYS})
"""Metadata of a column that says where its values come from."""
OF_ONE_TABLE = frozenset({PHYSICAL_NAME, CURRENT_DEFAULT, EXISTS_DEFAULT})
"""Metadata of a column that means nothing in another table."""


class Identity(msgspec.Struct, frozen=True):
    """An identity column: the value at place n of its sequence is `start + n * step`."""

    start: int = 1
    step: int = 1
    always: bool = True

    @property
    def sql(self) -> str:
        """As a schema of words has it, behind GENERATED."""
        how = "ALWAYS" if self.always else "BY DEFAULT"
        return f"{how} AS IDENTITY (START WITH {self.start} INCREMENT BY {self.step})"


def stored_name(field: pa.Field) -> str:
    """What the column is called in files and statistics."""
    told = (field.metadata or {}).get(PHYSICAL_NAME)
    return str(field.name) if told is None else str(told.decode())


def has_stored_name(field: pa.Field) -> bool:
    """True if the column is called otherwise in files than in the table."""
    return PHYSICAL_NAME in (field.metadata or {})


def stored_names(schema: pa.Schema) -> dict[str, str]:
    """The stored name of each column that is called otherwise in files."""
    return {field.name: stored_name(field) for field in schema if has_stored_name(field)}


def generated_columns(schema: pa.Schema) -> dict[str, str]:
    """The expression of each generated column."""
    told = ((field.name, (field.metadata or {}).get(GENERATION)) for field in schema)
    return {name: text.decode() for name, text in told if text is not None}


def identity_of(field: pa.Field) -> Identity | None:
    """What numbers the column; None for one that is no identity column. Raises SchemaInvalid."""
    told = field.metadata or {}
    if IDENTITY_START not in told and IDENTITY_STEP not in told:
        return None
    try:
        start, step = int(told.get(IDENTITY_START, b"1")), int(told.get(IDENTITY_STEP, b"1"))
    except ValueError as error:
        message = f"column {field.name} is an identity column whose start or step is no whole number"
        raise SchemaInvalid(message, column=field.name) from error
    return Identity(start, step, told.get(IDENTITY_ALWAYS, b"true") != b"false")


def identity_columns(schema: pa.Schema) -> dict[str, Identity]:
    """What numbers each identity column. Raises SchemaInvalid."""
    found = ((field.name, identity_of(field)) for field in schema)
    return {name: identity for name, identity in found if identity is not None}


def current_default(field: pa.Field) -> pa.Scalar | None:
    """What a row gets that is written without a value for the column; None for null. Raises SchemaInvalid."""
    return _default(field, CURRENT_DEFAULT)


def exists_default(field: pa.Field) -> pa.Scalar | None:
    """What rows of files without the column hold in it; None for null. Raises SchemaInvalid."""
    return _default(field, EXISTS_DEFAULT)


def default_meant(given: object, field: pa.Field) -> object:
    """What a column is set to: the word DEFAULT is its default, as SQL, or NULL where it has none."""
    if isinstance(given, str) and given.strip().upper() == "DEFAULT":
        return (field.metadata or {}).get(CURRENT_DEFAULT, b"NULL").decode()
    return given


def default_text(value: pa.Scalar) -> str:
    """The value as SQL that this library and Spark read as the same value. Raises InvalidArgument for other types."""
    kind, plain = value.type, value.as_py()
    if plain is None:
        return "NULL"
    if pa.types.is_string(kind):
        return "'" + str(plain).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if pa.types.is_boolean(kind):
        return "true" if plain else "false"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return f"CAST('{_digits(plain)}' AS {_SQL_NAMES.get(kind) or f'DECIMAL({kind.precision},{kind.scale})'})"
    if pa.types.is_date(kind):
        return f"DATE '{plain.isoformat()}'"
    if pa.types.is_timestamp(kind):
        return _time_text(value)
    message = f"a column of type {kind} can have no default: numbers, texts, booleans, dates and times can"
    raise InvalidArgument(message, type=str(kind))


_SQL_NAMES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}


def _digits(value: float | decimal.Decimal) -> str:
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _time_text(value: pa.Scalar) -> str:
    zoned = value.type.tz is not None
    plain: dt.datetime = value.cast(pa.timestamp("us", "UTC" if zoned else None)).as_py()
    text = plain.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return f"TIMESTAMP '{text}+00:00'" if zoned else f"TIMESTAMP_NTZ '{text}'"


def _default(field: pa.Field, key: bytes) -> pa.Scalar | None:
    text = (field.metadata or {}).get(key)
    if text is None:
        return None
    value = _constant(text.decode(), field.type, field.name)
    return value if value.is_valid else None


@lru_cache(maxsize=256)
def _constant(text: str, kind: pa.DataType, column: str) -> Any:
    from indextables.errors import QueryInvalid
    from indextables.query.evaluate import evaluate_value
    from indextables.query.parse import parse_value

    try:
        node = parse_value(text, pa.schema([]))
        found = evaluate_value(node, pa.table({"": pa.nulls(1)}), what=f"the default of {column}")
        value = found if isinstance(found, pa.Scalar) else found[0]
        return value.cast(kind)
    except (QueryInvalid, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = f"the default of column {column!r}, {text[:200]}, is no value of type {kind}: {error}"
        raise SchemaInvalid(message, column=column) from error
