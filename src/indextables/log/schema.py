"""Spark's schema JSON and Arrow schemas, both ways, with permanent field ids."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["FIELD_ID", "assign_ids", "schema_from_json", "schema_to_json", "validate_schema"]

FIELD_ID = "indextables.id"


def schema_from_json(text: str) -> pa.Schema:
    """The Arrow schema of a `schemaString`. Raises SchemaInvalid."""
    raise NotImplementedError


def schema_to_json(schema: pa.Schema) -> str:
    """The `schemaString` of an Arrow schema. Raises SchemaInvalid."""
    raise NotImplementedError


def assign_ids(schema: pa.Schema, start: int = 1) -> pa.Schema:
    """Give every field without a permanent id the next free one."""
    raise NotImplementedError


def validate_schema(schema: pa.Schema) -> None:
    """Raises SchemaInvalid for names or types that no table can have."""
    raise NotImplementedError
