"""Schemas of Spark and of the log, both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from indextables.errors import NotSupported
from indextables.query.stored import CURRENT_DEFAULT, MADE_BY, OF_ONE_TABLE
from indextables.spark.session.registry import COLUMN_KEY, MANAGED_KEY, OWN_KEY, PATH_KEY

__all__ = ["arrow_schema", "check_texts", "drop_ids", "insertable", "spark_schema"]

# Where a table keeps the permanent ids of a column.
_IDS = ("indextables.id", "indextables.nestedIds")
# Where an entry of the catalog keeps which table it is.
_OF_ONE_ENTRY = (PATH_KEY, COLUMN_KEY, OWN_KEY, MANAGED_KEY)
_DEFAULT, _MADE_BY = CURRENT_DEFAULT.decode(), frozenset(key.decode() for key in MADE_BY)
_OF_ONE_TABLE = tuple(key.decode() for key in (*OF_ONE_TABLE, *MADE_BY))
# Where Spark keeps the collations, and the lengths of CHAR and VARCHAR, of a column.
_COLLATIONS, _LENGTHS = "__COLLATIONS", "__CHAR_VARCHAR_TYPE_STRING"


def spark_schema(text: str) -> StructType:
    """The schema of the log as Spark has it, without our ids."""
    parsed = json.loads(text)
    drop_ids(parsed)
    return StructType.fromJson(parsed)


def insertable(text: str) -> StructType:
    """The schema of the log as Spark needs it to insert rows: a column that a statement leaves out gets its default.

    One that the table fills itself may be left out too, whether or not it may be null.
    """
    schema = spark_schema(text)
    fields = []
    for field, told in zip(schema.fields, json.loads(text)["fields"], strict=True):
        known = told.get("metadata") or {}
        default = {key: known[key] for key in (_DEFAULT,) if key in known}
        is_made = not _MADE_BY.isdisjoint(known)
        fields.append(StructField(field.name, field.dataType, field.nullable or is_made, {**field.metadata, **default}))
    return StructType(fields)


def drop_ids(node: Any) -> None:
    """Take our ids and paths out of a schema as JSON values, in place: they belong to one table.

    So do rules by which Spark would compare texts in another way than by their letters: indexes and bounds know none.
    """
    if isinstance(node, Mapping):
        metadata = node.get("metadata")
        if isinstance(metadata, dict):
            for key in (*_IDS, *_OF_ONE_TABLE, *_OF_ONE_ENTRY, _COLLATIONS, _LENGTHS):
                metadata.pop(key, None)
        for child in node.values():
            drop_ids(child)
    elif isinstance(node, list):
        for child in node:
            drop_ids(child)


def check_texts(schema: StructType) -> None:
    """Raises NotSupported for texts that Spark compares in another way than letter by letter."""

    def check(node: Any, name: str) -> None:
        if isinstance(node, Mapping):
            name = str(node.get("name", name))
            metadata = node.get("metadata") or {}
            if _COLLATIONS in metadata or "char(" in str(metadata.get(_LENGTHS, "")).replace("varchar(", ""):
                message = (
                    f"column {name!r} is a text with a collation, or a CHAR that Spark fills up with blanks: rows "
                    f"would be found by one way of reading and not by another. Write cast({name} as string)"
                )
                raise NotSupported(message, column=name)
        children = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
        for child in children:
            check(child, name)

    check(schema.jsonValue(), "")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's schema as the log would have it, without ids that came with another table's columns.

    Raises NotSupported for texts with a collation and for values that Spark does not hand to Python, SchemaInvalid for
    types that no table has.
    """
    from indextables.log.wire import schema_from_json

    check_texts(schema)
    parsed = schema.jsonValue()
    drop_ids(parsed)
    found = schema_from_json(msgspec.json.encode(parsed).decode())
    for field in schema.fields:
        _check_handed(field)
    return found


def _check_handed(field: StructField) -> None:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        to_arrow_schema(StructType([field]), timezone="UTC")
    except PySparkTypeError as cause:
        kind = field.dataType.simpleString()
        message = (
            f"column {field.name!r} is {kind}, which Spark does not hand to Python: cast it, to string for example"
        )
        raise NotSupported(message, column=field.name) from cause
