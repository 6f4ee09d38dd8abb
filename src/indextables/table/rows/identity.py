"""Identity columns: how they are declared, and which rows have numbers already. Pure.

Rows are numbered when they are written. Null is no value: what holds it gets a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from indextables.errors import ConstraintViolation, InvalidArgument, SchemaInvalid
from indextables.query.stored import (
    CURRENT_DEFAULT,
    GENERATION,
    IDENTITY_ALWAYS,
    IDENTITY_START,
    IDENTITY_STEP,
    MADE_BY,
    Identity,
    identity_columns,
)

__all__ = [
    "check_identities",
    "check_not_given",
    "check_not_numbered",
    "identity_from_words",
    "places_of_identity",
    "with_identity",
]

_LEAST, _MOST = -(2**63), 2**63 - 1
_WORDS = re.compile(
    r"(?P<how>ALWAYS|BY\s+DEFAULT)\s+AS\s+IDENTITY\s*"
    r"(?:\(\s*(?:START\s+WITH\s+(?P<start>[+-]?[0-9]+)\s*)?,?\s*(?:INCREMENT\s+BY\s+(?P<step>[+-]?[0-9]+)\s*)?\))?",
    re.IGNORECASE,
)


def identity_from_words(text: str) -> Identity | None:
    """What `{ALWAYS | BY DEFAULT} AS IDENTITY [(START WITH s INCREMENT BY i)]` says; None for other words."""
    match = _WORDS.fullmatch(re.sub(r"^\s*GENERATED\s+", "", text, flags=re.IGNORECASE).strip())
    if match is None:
        return None
    return Identity(int(match["start"] or 1), int(match["step"] or 1), match["how"].upper() == "ALWAYS")


def with_identity(field: pa.Field, identity: Identity) -> pa.Field:
    """The column, numbered so."""
    told = {key: value for key, value in (field.metadata or {}).items() if key not in MADE_BY}
    told[IDENTITY_START], told[IDENTITY_STEP] = str(identity.start).encode(), str(identity.step).encode()
    told[IDENTITY_ALWAYS] = b"true" if identity.always else b"false"
    return field.with_metadata(told)


def check_identities(schema: pa.Schema) -> None:
    """Raises SchemaInvalid for an identity column that no table can have."""
    for name, identity in identity_columns(schema).items():
        field = schema.field(name)
        problem = None
        if field.type != pa.int64():
            problem = f"is {field.type}, and identity columns are BIGINT"
        elif GENERATION in (field.metadata or {}) or CURRENT_DEFAULT in (field.metadata or {}):
            problem = "cannot be computed or have a default as well"
        elif identity.step == 0:
            problem = "cannot have the step 0, which would give every row the same number"
        elif not (_LEAST <= identity.start <= _MOST and _LEAST <= identity.step <= _MOST):
            problem = "has a start or a step that is no BIGINT"
        if problem is not None:
            raise SchemaInvalid(f"the identity column {name} {problem}", column=name)


def places_of_identity(identity: Identity) -> int:
    """How many numbers there are."""
    room = _MOST - identity.start if identity.step > 0 else identity.start - _LEAST
    return room // abs(identity.step) + 1


def check_not_given(values: pa.Array, field: pa.Field) -> None:
    """Raises ConstraintViolation where data brings a number for a column that is always generated."""
    if values.null_count == len(values):
        return
    message = (
        f"column {field.name} is GENERATED ALWAYS AS IDENTITY, and the data brings values for it. Nothing was written; "
        "leave the column out"
    )
    raise ConstraintViolation(message, constraint=field.name, expression="GENERATED ALWAYS AS IDENTITY", row=None)


def check_not_numbered(names: Mapping[str, object], schema: pa.Schema, *, inserts: bool = False) -> None:
    """Raises InvalidArgument for an identity column that is set by hand; a new row may bring one BY DEFAULT."""
    numbered = {name.lower(): identity for name, identity in identity_columns(schema).items()}
    for name in names:
        identity = numbered.get(name.lower())
        if identity is not None and (identity.always or not inserts):
            told = f"GENERATED {identity.sql}"
            message = f"column {name} is {told}: a row keeps its number, and gets it by itself. Leave the column out"
            raise InvalidArgument(message, columns=[name])
