"""Where do the rows of a file stand among the table's? In the order in which they were written, wherever they moved.

A file stands at the (version, line) of its `add`, unless a tag tells another place: a file that was made from others
(merge splits, a new index, a new vector) carries the place of what it was made from. Files that share a place have
numbers in it; what is equal even then is told apart by the (version, line) of the `add`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.lazy import pc
from indextables.log.wire import ADD_TYPE, combined, int64_array, int64_values
from indextables.query.stats import map_values

__all__ = ["POSITION", "in_order", "order_of", "placed_again", "position_tag", "positions"]

POSITION = "indextables.position"
"""The tag of an `add`: `<version>.<line>` of the `add` whose place its rows took, with `.<part>` behind the first."""

_FORM = r"^(?P<version>[0-9]{1,18})\.(?P<line>[0-9]{1,18})(?:\.(?P<part>[0-9]{1,18}))?$"

_PAIRS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]))
"""A map as a list, which Arrow can measure and flatten."""

_Numbers = npt.NDArray[np.int64]


def in_order(files: pa.Table) -> pa.Table:
    """The files in the order of their rows."""
    order = order_of(files)
    return files if order is None else files.take(order)


def order_of(files: pa.Table) -> pa.Array | None:
    """The places of the files in the order of their rows; None where they stand in it."""
    if _is_plain(files):
        known = not files["addedAtVersion"].null_count and not files["addedAtLine"].null_count
        if known and _ascends(int64_values(files["addedAtVersion"]), int64_values(files["addedAtLine"])):
            return None
        keys = [("addedAtVersion", "ascending"), ("addedAtLine", "ascending")]
        return pc.sort_indices(files, sort_keys=keys)
    version, line, part = positions(files)
    order = np.lexsort((_numbers(files, "addedAtLine"), _numbers(files, "addedAtVersion"), part, line, version))
    return pa.array(order)


def positions(files: pa.Table) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Version and line of the place of each file, and its number there; a tag that cannot be read counts as none."""
    version, line = _numbers(files, "addedAtVersion"), _numbers(files, "addedAtLine")
    part = np.zeros(len(version), np.int64)
    if _is_plain(files):
        return version, line, part
    told = pc.extract_regex(map_values(files["tags"], POSITION), _FORM)
    known = told.is_valid().to_numpy(zero_copy_only=False)
    version, line = version.copy(), line.copy()
    version[known] = pc.struct_field(told, "version").drop_null().cast(pa.int64()).to_numpy()
    line[known] = pc.struct_field(told, "line").drop_null().cast(pa.int64()).to_numpy()
    parts = pc.struct_field(told, "part").drop_null()
    part[known] = pc.if_else(pc.equal(parts, ""), "0", parts).cast(pa.int64()).to_numpy()
    return version, line, part


def position_tag(version: int, line: int, part: int = 0) -> dict[str, str | None]:
    """The tag of a file that takes this place, behind `part` others that have taken it."""
    return {POSITION: f"{version}.{line}.{part}" if part else f"{version}.{line}"}


def placed_again(files: pa.Table) -> pa.Table:
    """The live files as rows of `add` that change data, each with the place among the rows that it has."""
    version, line, part = (int64_array(column).cast(pa.string()) for column in positions(files))
    places = pc.binary_join_element_wise(version, line, ".")
    places = pc.if_else(pc.equal(part, "0"), places, pc.binary_join_element_wise(places, part, "."))
    added = files.select([field.name for field in ADD_TYPE])
    added = added.set_column(added.column_names.index("tags"), "tags", _placed(combined(files["tags"]), places))
    changes = pa.repeat(pa.scalar(value=True), added.num_rows)
    return added.set_column(added.column_names.index("dataChange"), "dataChange", changes)


def _is_plain(files: pa.Table) -> bool:
    tags = files["tags"]
    return bool(tags.null_count == len(tags))


def _ascends(version: _Numbers, line: _Numbers) -> bool:
    later = version[1:] > version[:-1]
    return bool((later | ((version[1:] == version[:-1]) & (line[1:] >= line[:-1]))).all())


def _numbers(files: pa.Table, name: str) -> _Numbers:
    column = files[name].combine_chunks() if isinstance(files[name], pa.ChunkedArray) else files[name]
    filled = pc.fill_null(column, 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _placed(tags: pa.Array, places: pa.Array) -> pa.Array:
    """The tags of each file with its place behind them, whatever place they told."""
    owners, names, values = np.arange(len(places)), pa.repeat(pa.scalar(POSITION), len(places)), places
    if tags.null_count < len(tags):
        listed = tags.cast(_PAIRS)
        lengths = pc.fill_null(pc.list_value_length(listed), 0).to_numpy(zero_copy_only=False)
        given = listed.flatten()
        keys = pc.struct_field(given, 0)
        stays = pc.not_equal(keys, POSITION)
        owners = np.concatenate([np.repeat(owners, lengths)[stays.to_numpy(zero_copy_only=False)], owners])
        names = pa.concat_arrays([keys.filter(stays), names])
        values = pa.concat_arrays([pc.struct_field(given, 1).filter(stays), values])
        order = int64_array(np.argsort(owners, kind="stable"))
        names, values = names.take(order), values.take(order)
    ends = np.cumsum(np.bincount(owners, minlength=len(places)))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.MapArray.from_arrays(offsets, names, values)
