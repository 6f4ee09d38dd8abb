"""Reads columns as people type them in ALTER TABLE: `note string DEFAULT 'none' COMMENT 'why' AFTER id`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from indextables.errors import SchemaInvalid
from indextables.table.alter.wishes import NewColumn
from indextables.table.rows import schema_from_ddl

__all__ = ["columns_from_ddl", "type_from_ddl"]

_FORM = "write it as: note string NOT NULL DEFAULT 'none' COMMENT 'why' AFTER id, size bigint FIRST"


def columns_from_ddl(text: str) -> tuple[NewColumn, ...]:
    """The columns that `name type [NOT NULL] [DEFAULT constant] [COMMENT 'text'] [FIRST | AFTER column], ...` states.

    Raises SchemaInvalid.
    """
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    from indextables.query.dialect import DIALECT

    try:
        trees = DIALECT.parse(f"ALTER TABLE t ADD COLUMNS ({text}\n)")
    except (ParseError, TokenError, RecursionError) as cause:
        raise SchemaInvalid(f"{text!r} is no list of columns; {_FORM}", schema=text) from cause
    actions = trees[0].args.get("actions") if len(trees) == 1 and isinstance(trees[0], exp.Alter) else None
    listed = actions[0].expressions if actions and isinstance(actions[0], exp.Schema) else []
    if not listed or not all(isinstance(column, exp.ColumnDef) and column.kind is not None for column in listed):
        raise SchemaInvalid(f"{text!r} is no list of columns; {_FORM}", schema=text)
    return tuple(_column(text, column) for column in listed)


def type_from_ddl(text: str) -> pa.DataType:
    """The type of this name. Raises SchemaInvalid."""
    schema = schema_from_ddl(f"c {text}")
    if len(schema) != 1 or not schema.field(0).nullable:
        raise SchemaInvalid(f"{text!r} is no type; write bigint, double or decimal(20,2), for example", schema=text)
    return schema.field(0).type


def _column(text: str, column: Any) -> NewColumn:
    from indextables.query.dialect import DIALECT

    default: str | None = None
    comment: str | None = None
    required = False
    for part in column.constraints:
        kind = type(part.kind).__name__
        if kind == "DefaultColumnConstraint":
            default = part.kind.this.sql(DIALECT)
        elif kind == "CommentColumnConstraint":
            comment = part.kind.this.name
        elif kind == "NotNullColumnConstraint" and not part.kind.args.get("allow_null"):
            required = True
        elif kind != "NotNullColumnConstraint":
            word = part.sql("spark")
            raise SchemaInvalid(f"{word!r} in {text!r} is not offered for a column that is added; {_FORM}", schema=text)
    kind_text = column.kind.sql("spark")
    named = schema_from_ddl(f"{_quoted(column.name)} {kind_text}").field(0)
    position = column.args.get("position")
    after = None if position is None or position.this is None else position.this.name
    return NewColumn(
        field=named.with_nullable(not required),
        comment=comment,
        default=default,
        first=position is not None and after is None,
        after=after,
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
