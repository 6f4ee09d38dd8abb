"""Computes the smallest and largest partition values of a manifest, compared by the type of the column.

A bound that cannot be known (a value that is no literal of the column's type, another system's state) is left out, and
what is left out may match anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from indextables.errors import SchemaInvalid
from indextables.lazy import pc
from indextables.log.wire import Metadata, schema_from_json
from indextables.query.partition import partition_from_text
from indextables.query.stats import map_values

__all__ = ["Bounds", "as_maps", "bounds_of", "partition_types"]


class Bounds(msgspec.Struct, frozen=True):
    """Over all files of a manifest. None for `min` and `max`: no value, or unknown. None for `has_null`: unknown."""

    min: str | None = None
    max: str | None = None
    has_null: bool | None = None


def partition_types(metadata: Metadata) -> dict[str, pa.DataType]:
    """The types of the partition columns, in their order; text where the schema cannot be read."""
    try:
        schema = schema_from_json(metadata.schemaString)
    except SchemaInvalid:
        return dict.fromkeys(metadata.partitionColumns, pa.string())
    known = {field.name: field.type for field in schema}
    return {name: known.get(name, pa.string()) for name in metadata.partitionColumns}


def bounds_of(values: pa.ChunkedArray, types: dict[str, pa.DataType]) -> dict[str, Bounds]:
    """The bounds of every column of `types` over the map column `values`."""
    return {name: _bounds(map_values(values, name), kind) for name, kind in types.items()}


def as_maps(bounds: Sequence[dict[str, Bounds] | None]) -> tuple[pa.Array, pa.Array]:
    """The minima and the maxima of every manifest, as maps; a bound that is not known is not a key."""
    kind = pa.map_(pa.string(), pa.string())
    sides = []
    for side in ("min", "max"):
        rows = [
            [(name, text) for name, b in (known or {}).items() if (text := getattr(b, side)) is not None]
            for known in bounds
        ]
        sides.append(pa.array(rows, kind))
    return sides[0], sides[1]


def _bounds(texts: pa.Array, kind: pa.DataType) -> Bounds:
    has_null = texts.null_count > 0
    distinct = texts.drop_null().unique()
    if len(distinct) == 0:
        return Bounds(has_null=has_null)
    values = partition_from_text(distinct, kind)[0]
    if values.null_count:
        return Bounds(has_null=has_null)
    order = pc.sort_indices(values)
    low, high = distinct[order[0].as_py()], distinct[order[-1].as_py()]
    return Bounds(min=low.as_py(), max=high.as_py(), has_null=has_null)
