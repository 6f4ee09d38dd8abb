"""Plans the merge of a whole table some partitions at a time, where it has more files than memory is for.

No group has files of two partitions, so that the plan is that of all files at once: what is in memory are the files of
some partitions, and of the files in groups what is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.log.read import Snapshot
from indextables.query.stats import map_values
from indextables.table.merge.plan import MergePlan, by_partition, is_in, most_sources
from indextables.table.read import in_order

__all__ = ["plan_in_parts"]

_Rows = npt.NDArray[np.int64]

_OF_PLACE = ("partitionValues", "tags", "addedAtVersion", "addedAtLine")
"""What tells where a file stands in the table."""

_OTHER, _GOES_ON, _BEGINS, _COOLS = range(4)
"""What a file is to the plan: the first of its partition alone, one of a group, its first one, left out for now."""


def plan_in_parts(
    snapshot: Snapshot,
    planner: Callable[[pa.Table], MergePlan],
    kept: Sequence[str],
    cooling: Collection[str],
    most: int | None,
) -> MergePlan:
    """What `planner`, which chooses no groups from others, plans for all files; at most `most` groups of that.

    The plan's files have the columns `kept`, and `path`, `size` and `numRecords` are among them. Raises LogError.
    """
    columns = snapshot.partition_columns
    told = snapshot.gathered(lambda files: _told(planner(files), columns, kept, cooling), whole_partitions=True)
    roles = told["role"].to_numpy()
    starts = np.flatnonzero(roles == _BEGINS)
    in_groups = (roles == _BEGINS) | (roles == _GOES_ON)
    counts = np.bincount(np.cumsum(roles == _BEGINS)[in_groups] - 1, minlength=len(starts))
    order = _in_table_order(told["place"], starts, columns)
    groups = [np.arange(start, start + count) for start, count in zip(starts[order], counts[order], strict=True)]
    return MergePlan(told.select(kept), most_sources(groups, most), int(np.count_nonzero(roles == _COOLS)))


def _told(plan: MergePlan, columns: Sequence[str], kept: Sequence[str], cooling: Collection[str]) -> pa.Table:
    """The files of a part of the table that groups have, one group after the other, then others that count.

    `place` is a list of one for the first file of each group and partition, and empty for all others.
    """
    files = plan.files
    rows = np.concatenate([*plan.groups, np.empty(0, np.int64)])
    is_first, cools = _first_of_partitions(files, columns), is_in(files["path"], cooling)
    is_grouped = np.zeros(files.num_rows, np.bool_)
    is_grouped[rows] = True
    others = np.flatnonzero((is_first | cools) & ~is_grouped)
    begins = np.zeros(len(rows), np.bool_)
    begins[np.cumsum([0, *map(len, plan.groups)])[:-1]] = True
    roles = np.concatenate([np.where(begins, _BEGINS, _GOES_ON), np.where(cools[others], _COOLS, _OTHER)])
    chosen = np.concatenate([rows, others])
    is_placed = is_first[chosen]
    is_placed[: len(rows)] |= begins
    found = files.select(kept).take(pa.array(chosen))
    found = found.append_column("role", pa.array(roles.astype(np.int8)))
    return found.append_column("place", _places(files.select(_OF_PLACE).take(pa.array(chosen[is_placed])), is_placed))


def _first_of_partitions(files: pa.Table, columns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """True where a partition begins in files of which those of a partition stand together."""
    begins = np.zeros(files.num_rows, np.bool_)
    begins[:1] = True
    for name in columns:
        values = pc.dictionary_encode(map_values(files["partitionValues"], name), null_encoding="encode")
        indices = values.indices.to_numpy(zero_copy_only=False)
        begins[1:] |= indices[1:] != indices[:-1]
    return begins


def _places(placed: pa.Table, is_placed: npt.NDArray[np.bool_]) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(is_placed)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), placed.to_struct_array().combine_chunks())


def _in_table_order(places: pa.ChunkedArray, starts: _Rows, columns: Sequence[str]) -> _Rows:
    """The order of groups, which begin at the rows `starts`: that of their partitions in the whole table.

    Values of a column are ordered by the first file that has them, which is the first of its partition.
    """
    lengths = pc.list_value_length(places).to_numpy()
    heads = pa.Table.from_struct_array(pa.chunked_array([chunk.flatten() for chunk in places.chunks]))
    heads, codes = by_partition(in_order(heads.append_column("row", pa.array(np.flatnonzero(lengths)))), columns)
    code_at = dict(zip(heads["row"].to_pylist(), codes.tolist(), strict=True))
    return np.argsort(np.array([code_at[start] for start in starts.tolist()], np.int64), kind="stable")
