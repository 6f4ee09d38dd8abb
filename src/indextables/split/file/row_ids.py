"""Tells the ids of the rows of a split: a hidden column where rows had one before, else a count from the first row.

The column stands behind all others and is no column of the table: who asks for all columns of a split does not get it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.lazy import pc
from indextables.split.file.fetch import index_array

if TYPE_CHECKING:
    from indextables.split.file.reader import SplitReader

__all__ = ["ROW_ID", "ROW_ID_FIELD", "ids_at", "known_ids", "place_of_ids", "visible", "with_ids"]

ROW_ID = "_row_id"
_KEY, _ID = b"PARQUET:field_id", b"2147483540"

ROW_ID_FIELD = pa.field(ROW_ID, pa.int64(), metadata={_KEY: _ID})
"""As it stands in a split; its field id is Iceberg's for the same thing."""


def place_of_ids(schema: pa.Schema) -> int | None:
    """The place of the hidden column; None if the split has none. A column of a user's is not taken for it."""
    last = len(schema) - 1
    if last < 0 or schema.field(last).name != ROW_ID:
        return None
    return last if (schema.field(last).metadata or {}).get(_KEY) == _ID else None


def visible(schema: pa.Schema) -> pa.Schema:
    """The columns that are the table's."""
    place = place_of_ids(schema)
    return schema if place is None else schema.remove(place)


def with_ids(schema: pa.Schema) -> pa.Schema:
    """The schema of a split whose rows bring their ids along."""
    return visible(schema).append(ROW_ID_FIELD)


def known_ids(
    stored: pa.Array | pa.ChunkedArray | None, base: int | None, numbers: npt.NDArray[np.int64]
) -> pa.Array | pa.ChunkedArray:
    """The ids of these rows: what is stored, else `base` and the number of the row; null where neither is known."""
    if base is None:
        return pa.nulls(len(numbers), pa.int64()) if stored is None else stored
    counted = index_array(numbers + base)
    return counted if stored is None else pc.coalesce(stored, counted)


def ids_at(reader: SplitReader, numbers: npt.NDArray[np.int64], base: int | None) -> pa.Array | pa.ChunkedArray:
    """The ids of the rows of a split with these numbers. Raises SplitCorrupt, StoreError."""
    stored = reader.fetch(numbers, [ROW_ID])[ROW_ID] if reader.has_row_ids else None
    return known_ids(stored, base, numbers)
