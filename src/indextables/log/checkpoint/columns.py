"""Brings the columns of file sets into one form, checks, hashes and joins them by path, without a row in Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from indextables.errors import CheckpointCorrupt, CheckpointInvalid
from indextables.lazy import pc
from indextables.log.wire import FILES_SCHEMA, STRING_MAP, StateTotals, set_hash

__all__ = ["conform", "drop_null_items", "newest_per_path", "totals_of", "validate"]


def conform(entries: pa.Table, name: str) -> pa.Table:
    """`entries` with the columns of FILES_SCHEMA: what is missing is null, what has a default has it.

    Raises CheckpointCorrupt if a path or a size is missing or impossible; `name` is for messages.
    """
    columns = []
    present = set(entries.column_names)
    try:
        for field in FILES_SCHEMA:
            if field.name not in present:
                columns.append(pa.nulls(len(entries), field.type))
                continue
            column = entries.column(field.name)
            columns.append(column if column.type == field.type else column.cast(field.type))
    except pa.ArrowException as error:
        raise CheckpointCorrupt(
            f"{name} has a column of a wrong type: {error}", path=name, reason=str(error)
        ) from error
    table = pa.Table.from_arrays(columns, schema=FILES_SCHEMA)
    table = _filled(table, "hasFooterOffsets", value=False)
    table = _filled(table, "dataChange", value=True)
    table = _filled(table, "modificationTime", value=0)
    table = _filled(table, "partitionValues", value={})
    if table.column("path").null_count or table.column("size").null_count:
        raise CheckpointCorrupt(f"{name} has an entry without path or size", path=name, reason="path or size missing")
    # Comparing with a Python number would import pandas.
    least = (pc.min(table.column("size")).as_py(), pc.min(pc.binary_length(table.column("path"))).as_py())
    if len(table) and (least[0] < 0 or least[1] < 1):
        raise CheckpointCorrupt(f"{name} has an entry with an empty path or a negative size", path=name, reason="entry")
    return table


def newest_per_path(entries: pa.Table) -> pa.Table:
    """One row per path, the one with the largest (addedAtVersion, addedAtLine); of equals the last counts."""
    encoded = entries.column("path").combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    if len(encoded.dictionary) == len(entries):
        return entries
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    version = _numbers(entries.column("addedAtVersion"))
    line = _numbers(entries.column("addedAtLine"))
    order = np.lexsort((np.arange(len(codes)), line, version, codes))
    last = np.flatnonzero(np.append(codes[order][1:] != codes[order][:-1], True))
    return entries.take(pa.array(np.sort(order[last])))


def totals_of(files: pa.Table) -> StateTotals:
    """A recount."""
    total = pc.sum(files.column("size")).as_py() or 0
    return StateTotals(num_files=len(files), total_bytes=total, set_hash=set_hash(files))


def validate(stated: StateTotals, counted: StateTotals, version: int, name: str) -> None:
    """Raises CheckpointInvalid where the two differ; a hash that one of them lacks is not compared."""
    for what, said, found in (
        ("files", stated.num_files, counted.num_files),
        ("bytes", stated.total_bytes, counted.total_bytes),
        ("set hash", stated.set_hash, counted.set_hash),
    ):
        if said is not None and found is not None and said != found:
            message = f"{name} says {said} ({what}), a recount gives {found}"
            raise CheckpointInvalid(message, version=version, path=name, reason=what)


def drop_null_items(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A map column in which a key with a null value is left out, which means the same."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], STRING_MAP)
    items = array.items
    if items.null_count == 0:
        return array
    kept = items.is_valid()
    offsets = np.asarray(array.offsets)
    before = np.concatenate(([0], np.cumsum(kept.to_numpy(zero_copy_only=False))))
    fresh = pa.array(before[offsets - offsets[0]] if offsets[0] else before[offsets], pa.int32())
    result = pa.MapArray.from_arrays(fresh, array.keys.filter(kept), items.filter(kept))
    if array.null_count:
        bitmap = pa.compute.is_valid(array)
        return pc.if_else(bitmap, result, pa.nulls(len(array), result.type))
    return result


def _filled(table: pa.Table, name: str, value: object) -> pa.Table:
    column = table.column(name)
    if column.null_count == 0:
        return table
    at = FILES_SCHEMA.get_field_index(name)
    field = FILES_SCHEMA.field(at)
    if isinstance(value, dict):
        filled = pc.if_else(pc.is_valid(column), column, pa.scalar([], field.type))
    else:
        filled = pc.fill_null(column, pa.scalar(value, field.type))
    return table.set_column(at, field, filled)


def _numbers(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(pc.fill_null(column, -1).to_numpy(), dtype=np.int64)
