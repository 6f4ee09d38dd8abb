"""Reads a schema as people type it: `ts timestamp, host string, tags array<string>`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from indextables.errors import SchemaInvalid
from indextables.query.stored import GENERATION, MADE_BY, Identity
from indextables.query.type_names import scalar_type, type_name
from indextables.table.rows.identity import with_identity

__all__ = ["DEFAULT_PREFIX", "schema_from_ddl", "table_from_ddl"]

DEFAULT_PREFIX = "default."
"""The property `default.<column>` of a new table is the default of that column, as SQL."""

_BEFORE = "CREATE TABLE t ("


_COMMENT = "CommentColumnConstraint"
_DEFAULT = "DefaultColumnConstraint"
_GENERATED = "ComputedColumnConstraint"
_IDENTITY = "GeneratedAsIdentityColumnConstraint"
_NOT_NULL = "NotNullColumnConstraint"
_KNOWN = (_COMMENT, _GENERATED, _IDENTITY, _NOT_NULL)


def schema_from_ddl(text: str) -> pa.Schema:
    """The schema that `name type, ...` states, with Spark's type names. Raises SchemaInvalid."""
    return pa.schema([_field(text, column) for column in _columns(text)])


def table_from_ddl(text: str) -> tuple[pa.Schema, dict[str, str]]:
    """The schema of a new table, and the properties that tell its defaults. Raises SchemaInvalid."""
    from indextables.query.dialect import DIALECT

    fields, defaults = [], {}
    # A default is an expression of predicates; types are spelled as Spark spells them.
    for column, same in zip(_columns(text), _columns(text, DIALECT), strict=True):
        for part in [part for part in column.constraints if type(part.kind).__name__ == _DEFAULT]:
            part.pop()
        for part in same.constraints:
            if type(part.kind).__name__ == _DEFAULT:
                defaults[f"{DEFAULT_PREFIX}{column.name}"] = part.kind.this.sql(DIALECT)
        fields.append(_field(text, column))
    return pa.schema(fields), defaults


def _columns(text: str, dialect: Any = None) -> list[Any]:
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import ParseError, TokenError

    try:
        trees = (dialect or Spark()).parse(f"{_BEFORE}{text}\n)")
    except (ParseError, TokenError, RecursionError) as cause:
        raise _fault(text, cause) from cause
    body = trees[0].this if len(trees) == 1 and isinstance(trees[0], exp.Create) else None
    columns = body.expressions if isinstance(body, exp.Schema) else []
    if not columns or not all(isinstance(column, exp.ColumnDef) for column in columns):
        raise _fault(text)
    return columns


def _field(text: str, column: Any) -> pa.Field:
    if column.kind is None:
        raise _fault(text)
    other = next((part for part in column.constraints if type(part.kind).__name__ not in _KNOWN), None)
    if other is not None:
        word = other.sql("spark")
        message = (
            f"{word!r} of column {column.name} in the schema {text!r} is not offered there: a column has NOT NULL, "
            "COMMENT, GENERATED ALWAYS AS (<expression>), in a new table DEFAULT <constant>, and GENERATED ALWAYS or "
            "BY DEFAULT AS IDENTITY (START WITH s INCREMENT BY i). ALTER TABLE adds constraints; keys are not offered"
        )
        raise SchemaInvalid(message, schema=text, column=column.name)
    required = any(
        type(part.kind).__name__ == _NOT_NULL and not part.kind.args.get("allow_null") for part in column.constraints
    )
    comments = (part.kind.this.name for part in column.constraints if type(part.kind).__name__ == _COMMENT)
    comment = next(comments, None)
    told = {} if comment is None else {"comment": comment}
    made = (part.kind.this.sql("spark") for part in column.constraints if type(part.kind).__name__ == _GENERATED)
    told |= {GENERATION.decode(): expression for expression in made}
    field = pa.field(column.name, _type(text, column.kind), nullable=not required, metadata=told or None)
    numbered = (part.kind for part in column.constraints if type(part.kind).__name__ == _IDENTITY)
    return next((with_identity(field, _identity(text, kind)) for kind in numbered), field)


def _identity(text: str, kind: Any) -> Identity:
    told = {name: kind.args.get(name) for name in ("start", "increment")}
    try:
        numbers = {name: int(value.sql().replace(" ", "")) for name, value in told.items() if value is not None}
    except ValueError as cause:
        raise _fault(text) from cause
    return Identity(numbers.get("start", 1), numbers.get("increment", 1), bool(kind.this))


def _type(text: str, kind: Any) -> pa.DataType:
    scalar = scalar_type(kind)
    if scalar is not None:
        return scalar
    name, inner = type_name(kind), kind.expressions
    if name in ("ARRAY", "LIST") and len(inner) == 1:
        return pa.list_(_type(text, inner[0]))
    if name == "MAP" and len(inner) == 2:
        return pa.map_(_type(text, inner[0]), _type(text, inner[1]))
    if name == "STRUCT" and inner:
        fields = [_field(text, part) for part in inner]
        if any(not MADE_BY.isdisjoint(field.metadata or {}) for field in fields):
            raise SchemaInvalid(f"a field inside a struct cannot be generated: {text!r}", schema=text)
        return pa.struct(fields)
    raise SchemaInvalid(f"type {kind.sql('spark')!r} in the schema {text!r} is not offered", schema=text)


def _fault(text: str, cause: Any = None) -> SchemaInvalid:
    faults = getattr(cause, "errors", None) or [{}]
    word = faults[0].get("highlight") or ""
    where = f": {word!r} is not understood" if word.strip(" )\n") else ""
    message = f"{text!r} is not a schema{where}; write it as: ts timestamp, host string, message string"
    return SchemaInvalid(message, schema=text)
