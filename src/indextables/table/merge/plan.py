"""Which splits are merged with which? A pure decision over the live files.

A group is a run of neighbours: files of one partition between which, in the order of the table's rows, stands no other
file of that partition. So the merged file can take the place of its sources, and rows keep their order. What must not
be merged (a file that is large enough, one in its cooldown, one that no memory budget lets grow) ends a run.

A file too many of whose rows are deleted is folded: it counts by what is left of it, and is written anew alone where
nothing can be merged with it. Otherwise the vector of a large file would stay for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.query.stats import map_values
from indextables.table.read import in_order

__all__ = [
    "FULL",
    "Limits",
    "MergePlan",
    "by_partition",
    "clustering_groups",
    "deleted_shares",
    "full_tag",
    "is_full",
    "is_in",
    "most_sources",
    "plan_groups",
]

FULL = "indextables.fullAt"
"""The tag of an `add` that was closed because index memory ran out: the budget, in bytes, that closed it."""

_Rows = npt.NDArray[np.int64]


class Limits(msgspec.Struct, frozen=True):
    """How far a merge may go.

    `target_bytes` bounds the sources of a group together, `max_sources` their number. At most `max_groups` groups are
    planned, those with the most sources. Files with a larger share of deleted rows than `fold_above` are folded.
    """

    target_bytes: int
    max_sources: int
    memory_bytes: int
    max_groups: int | None = None
    fold_above: float = 1.0


class MergePlan(msgspec.Struct, frozen=True):
    """`files` in the order of their rows within each partition; a group is an ascending run of row numbers of it."""

    files: pa.Table
    groups: list[_Rows]
    cooling: int
    """Files left out because they failed not long ago."""


def plan_groups(
    files: pa.Table, partition_columns: Collection[str], cooling: Collection[str], limits: Limits
) -> MergePlan:
    """The groups to merge, in the order of the table. `cooling` are the paths that are left alone for now.

    1. The sources of a group are neighbours in one partition, in the order of their rows.
    2. No file is in two groups.
    3. Sizes, of a file that is folded that of its live rows, add up to at most `target_bytes`, and there are 2 to
       `max_sources` of them. A file that is folded may be alone, and then it is of any size.
    """
    files, codes = by_partition(in_order(files), partition_columns)
    if not files.num_rows:
        return MergePlan(files, [], 0)
    left_alone = is_in(files["path"], cooling)
    shares = deleted_shares(files)
    folds = (shares > limits.fold_above) & ~left_alone
    sizes = np.where(folds, _sizes(files) * (1 - shares), _sizes(files)).astype(np.int64)
    takes_part = (sizes < limits.target_bytes) & ~left_alone & ~is_full(files, limits.memory_bytes)
    groups = list(_packed(sizes, _runs(codes, takes_part), limits))
    folds[np.concatenate([*groups, np.empty(0, np.int64)])] = False
    groups = sorted([*groups, *np.flatnonzero(folds).reshape(-1, 1)], key=lambda group: int(group[0]))
    return MergePlan(files, most_sources(groups, limits.max_groups), int(left_alone.sum()))


def clustering_groups(
    files: pa.Table, partition_columns: Collection[str], cooling: Collection[str], limits: Limits, done: str
) -> MergePlan:
    """One group per partition, of all its files, for rows that are sorted anew.

    A partition all of whose files carry the tag value `done` under `CLUSTERED` is left as it is. Of one that has more
    files than a group may have, those without the tag are sorted, in as many groups as it takes: so that every run gets
    further, and one that is repeated comes to an end. Of files that stay, those that are folded are, each alone.
    """
    files, codes = by_partition(in_order(files), partition_columns)
    if not files.num_rows:
        return MergePlan(files, [], 0)
    left_alone = is_in(files["path"], cooling)
    sorted_already = np.asarray(
        pc.fill_null(pc.equal(map_values(files["tags"], CLUSTERED), done), fill_value=False).to_numpy(
            zero_copy_only=False
        )
    )
    folds = deleted_shares(files) > limits.fold_above
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    groups: list[_Rows] = []
    for start, end in zip(starts, np.r_[starts[1:], len(codes)], strict=True):
        rows = np.arange(start, end)[~left_alone[start:end]]
        fresh = rows[~sorted_already[rows]]
        if len(fresh) and len(rows) <= limits.max_sources:
            groups.append(rows)
            continue
        if len(fresh):
            groups += np.split(fresh, range(limits.max_sources, len(fresh), limits.max_sources))
        groups += [*rows[sorted_already[rows] & folds[rows]].reshape(-1, 1)]
    return MergePlan(files, most_sources(groups, limits.max_groups), int(left_alone.sum()))


CLUSTERED = "indextables.clusterBy"
"""The tag of an `add` whose rows are sorted: the curve and the columns."""


def full_tag(memory_bytes: int) -> dict[str, str | None]:
    """The tag of a file that would be larger, had there been memory."""
    return {FULL: str(memory_bytes)}


def deleted_shares(files: pa.Table) -> npt.NDArray[np.float64]:
    """For each file the share of its rows that its vector deletes; 0 where its rows are not known."""
    shares = np.zeros(files.num_rows, np.float64)
    vectors = files["deletionVector"]
    if vectors.null_count == files.num_rows:
        return shares
    gone = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0).to_numpy()
    rows = pc.fill_null(files["numRecords"], 0).to_numpy()
    return np.asarray(np.divide(gone, rows, out=shares, where=rows > 0), np.float64)


def by_partition(files: pa.Table, partition_columns: Collection[str]) -> tuple[pa.Table, _Rows]:
    """The files, those of a partition together, and a number per partition."""
    codes = np.zeros(files.num_rows, np.int64)
    for name in partition_columns:
        values = pc.dictionary_encode(map_values(files["partitionValues"], name), null_encoding="encode")
        indices = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * (len(values.dictionary) + 1) + indices, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    if len(order) and (np.diff(order) != 1).any():
        return files.take(pa.array(order)), codes[order]
    return files, codes


def _runs(codes: _Rows, takes_part: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """[start, end) of every stretch of two or more files of a partition that all take part."""
    ends_before = np.r_[True, codes[1:] != codes[:-1]] | ~takes_part | ~np.r_[False, takes_part[:-1]]
    starts = np.flatnonzero(ends_before)
    ends = np.r_[starts[1:], len(codes)]
    long = takes_part[starts] & (ends - starts > 1)
    yield from zip(starts[long].tolist(), ends[long].tolist(), strict=True)


def _packed(sizes: _Rows, runs: Iterator[tuple[int, int]], limits: Limits) -> Iterator[_Rows]:
    until = np.cumsum(sizes)
    for first, last in runs:
        start = first
        while start < last:
            before = int(until[start - 1]) if start else 0
            fits = int(np.searchsorted(until, before + limits.target_bytes, side="right"))
            end = max(start + 1, min(fits, start + limits.max_sources, last))
            if end - start > 1:
                yield np.arange(start, end)
            start = end


def most_sources(groups: list[_Rows], most: int | None) -> list[_Rows]:
    """At most so many groups, those with the most sources, in their order."""
    if most is None or len(groups) <= most:
        return groups
    chosen = sorted(sorted(range(len(groups)), key=lambda place: -len(groups[place]))[:most])
    return [groups[place] for place in chosen]


def _sizes(files: pa.Table) -> _Rows:
    return np.asarray(files["size"].to_numpy(), np.int64)


def is_in(paths: pa.ChunkedArray, wanted: Collection[str]) -> npt.NDArray[np.bool_]:
    """True for the paths that are wanted."""
    if not wanted:
        return np.zeros(len(paths), bool)
    return np.asarray(pc.is_in(paths, value_set=pa.array(sorted(wanted), pa.string())).to_numpy(), bool)


def is_full(files: pa.Table, memory_bytes: int) -> npt.NDArray[np.bool_]:
    """True for files that this memory budget, or a larger one, has closed before."""
    tags = files["tags"]
    if tags.null_count == len(tags):
        return np.zeros(len(tags), bool)
    texts = map_values(tags, FULL)
    numbers = pc.if_else(pc.match_substring_regex(texts, "^[0-9]{1,18}$"), texts, pa.scalar(None, pa.string()))
    budgets = pc.fill_null(numbers.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return np.asarray(budgets >= memory_bytes, bool)
