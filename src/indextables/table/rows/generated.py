"""Generated columns: computed where data lacks them, compared where it has them. Pure.

The field's metadata has the expression, which reads other columns of the row. Times without a zone are in UTC, so that
every writer computes the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from indextables.errors import ConstraintViolation, InvalidArgument, LimitExceeded, QueryInvalid, SchemaInvalid
from indextables.lazy import pc
from indextables.options import PREFIX
from indextables.query.convert import as_array
from indextables.query.evaluate import compare, evaluate_value
from indextables.query.expr import Node, columns_of
from indextables.query.parse import parse_value
from indextables.query.stored import GENERATION, MADE_BY, generated_columns, identity_columns
from indextables.table.rows.identity import check_identities, check_not_numbered, identity_from_words, with_identity
from indextables.table.rows.rows import Rows, fits

__all__ = [
    "check_as_personal",
    "check_given",
    "check_not_generated",
    "computed_column",
    "generators",
    "split_generated",
    "with_generated",
    "without_generated",
]

_PROPERTY = "generated."


def generators(schema: pa.Schema) -> dict[str, Node]:
    """What computes each generated column. Raises SchemaInvalid for an expression that no column can have."""
    found: dict[str, Node] = {}
    texts = generated_columns(schema)
    made = {**texts, **identity_columns(schema)}
    for name, text in texts.items():
        field = schema.field(name)
        try:
            node = parse_value(text, schema)
        except (QueryInvalid, LimitExceeded) as fault:
            message = f"column {name} cannot be generated as ({text}): {fault}"
            raise SchemaInvalid(message, column=name, expression=text) from fault
        read = columns_of(node)
        if not read or any(other in made for other in read):
            what = "names no column" if not read else "reads a generated or an identity column"
            message = f"column {name} cannot be generated as ({text}), which {what}: compute it from other columns"
            raise SchemaInvalid(message, column=name, expression=text)
        if not fits(node.type, field.type):
            message = f"column {name} is {field.type}, and ({text}) gives {node.type}: write a CAST, or another type"
            raise SchemaInvalid(message, column=name, expression=text)
        found[name] = node
    return found


def computed_column(node: Node, field: pa.Field, batch: pa.RecordBatch) -> pa.Array:
    """The values of a generated column for these rows. Raises ConstraintViolation where there is none."""
    text = generated_columns(pa.schema([field]))[field.name]
    try:
        values = evaluate_value(node, batch, what=f"the generated column {field.name}")
    except QueryInvalid:
        # The fault may quote a value, which may be personal.
        message = f"the generated column {field.name} ({text}) cannot be computed for a row. Nothing was written"
        raise ConstraintViolation(message, constraint=field.name, expression=text, row=None) from None
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, batch.num_rows)
    made = as_array(values)
    made = made if made.type == field.type else pc.cast(made, field.type)
    if not field.nullable and made.null_count:
        message = f"the generated column {field.name} ({text}) must not be null, and is for a row. Nothing was written"
        raise ConstraintViolation(message, constraint=field.name, expression=text, row=None)
    return made


def check_given(given: pa.Array, made: pa.Array, field: pa.Field) -> None:
    """Raises ConstraintViolation where data brings another value for a generated column than is computed.

    Null is no value: rows of dicts and of frames that were put together hold it where nothing was given.
    """
    same = pc.or_(compare("<=>", given, made), given.is_null())
    if same.true_count == len(same):
        return
    place = pc.index(same, pa.scalar(value=False)).as_py()
    text = generated_columns(pa.schema([field]))[field.name]
    message = (
        f"column {field.name} is generated as ({text}), and row {place + 1} of a batch brings another value than is "
        "computed. Nothing was written; leave the column out"
    )
    raise ConstraintViolation(message, constraint=field.name, expression=text, row=None)


def without_generated(rows: Rows, schema: pa.Schema) -> Rows:
    """Rows that change, without the columns that are computed anew."""
    gone = {name.lower() for name in generated_columns(schema)}
    if not gone:
        return rows
    kept = [name for name in rows.schema.names if name.lower() not in gone]
    chosen = pa.schema([rows.schema.field(name) for name in kept], metadata=rows.schema.metadata)
    return Rows(chosen, (batch.select(kept) for batch in rows.batches))


def check_not_generated(names: Mapping[str, object], schema: pa.Schema, *, inserts: bool = False) -> None:
    """Raises InvalidArgument for a generated or identity column that is set by hand.

    A new row may bring a number for an identity column that is generated BY DEFAULT.
    """
    check_not_numbered(names, schema, inserts=inserts)
    texts = {name.lower(): text for name, text in generated_columns(schema).items()}
    for name in names:
        if name.lower() in texts:
            message = f"column {name} is generated as ({texts[name.lower()]}): it follows by itself, leave it out"
            raise InvalidArgument(message, columns=[name])


def check_as_personal(schema: pa.Schema, personal: Collection[str]) -> None:
    """Raises InvalidArgument for a column that is generated from a personal one and is not personal itself."""
    if not personal or not generated_columns(schema):
        return
    for name, node in generators(schema).items():
        told = [other for other in columns_of(node) if other.lower() in personal]
        if told and name.lower() not in personal:
            message = f"{name} is generated from {told[0]}, which is personal: mark {name} as personal too"
            raise InvalidArgument(message, column=name)


def split_generated(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The expressions of generated columns among the properties of a new table (`generated.<column>`), and the rest."""
    found: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, text in properties.items():
        plain = key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key
        if plain.lower().startswith(_PROPERTY):
            found[plain[len(_PROPERTY) :]] = text
        else:
            others[key] = text
    return found, others


def with_generated(schema: pa.Schema, expressions: Mapping[str, str]) -> pa.Schema:
    """The schema in which these columns are generated: by an expression, or `ALWAYS AS IDENTITY` and the like.

    An empty text makes a plain column.

    Raises InvalidArgument for a column that is not there, SchemaInvalid for what no column can be.
    """
    spelled = {name.lower(): name for name in schema.names}
    for name, text in expressions.items():
        if name.lower() not in spelled:
            raise InvalidArgument(f"there is no column {name} to be generated: add it to the schema", column=name)
        place = schema.get_field_index(spelled[name.lower()])
        field = schema.field(place)
        identity = identity_from_words(text)
        if identity is not None:
            schema = schema.set(place, with_identity(field, identity))
            continue
        told = {key: value for key, value in (field.metadata or {}).items() if key not in MADE_BY}
        told |= {GENERATION: text.strip().encode()} if text.strip() else {}
        schema = schema.set(place, field.with_metadata(told or None))
    check_identities(schema)
    generators(schema)
    return schema
