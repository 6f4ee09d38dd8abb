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
from indextables.log.wire import int64_values
from indextables.query.stats import map_values

__all__ = ["POSITION", "in_order", "position_tag", "positions"]

POSITION = "indextables.position"
"""The tag of an `add`: `<version>.<line>` of the `add` whose place its rows took, with `.<part>` behind the first."""

_FORM = r"^(?P<version>[0-9]{1,18})\.(?P<line>[0-9]{1,18})(?:\.(?P<part>[0-9]{1,18}))?$"

_Numbers = npt.NDArray[np.int64]


def in_order(files: pa.Table) -> pa.Table:
    """The files in the order of their rows."""
    if _is_plain(files):
        known = not files["addedAtVersion"].null_count and not files["addedAtLine"].null_count
        if known and _ascends(int64_values(files["addedAtVersion"]), int64_values(files["addedAtLine"])):
            return files
        return files.sort_by([("addedAtVersion", "ascending"), ("addedAtLine", "ascending")])
    version, line, part = positions(files)
    order = np.lexsort((_numbers(files, "addedAtLine"), _numbers(files, "addedAtVersion"), part, line, version))
    return files.take(pa.array(order))


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
