"""Adds the columns that a file has to those of a table. Pure."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["with_new_columns"]


def with_new_columns(has: pa.Schema, found: pa.Schema) -> pa.Schema:
    """`has` with the columns that only `found` has, in whatever case; the others keep their types."""
    known = {name.lower() for name in has.names}
    more = [field.with_nullable(True) for field in found if field.name.lower() not in known]  # noqa: FBT003
    return pa.schema([*has, *more], metadata=has.metadata)
