"""Which small splits does a table merge by itself? A pure decision by tiers over the live files.

A tier holds files of about one size, by rows or by bytes, whichever puts a file higher; the next one holds files that
are `fan_in` times as large. Only neighbours are merged, so that rows keep their order, and new files come behind all
others. So the files of a partition are looked at in blocks: a block ends where no file behind it is of as high a tier
as its highest, its *tier*. A block with `fan_in` files or more is merged,

    as a whole              where half of `fan_in` files are of its tier: they climb
    between those files     else: nothing will ever come between the smaller ones that stand there

A file that must not be merged (large, in its cooldown, closed for want of memory, sorted by somebody) is of the
highest tier and only parts others. Fewer than `fan_in` files are left in every block: `fan_in - 1` per tier is the
bound on small splits, and a row is rewritten a few times per tier.

A file too many of whose rows are deleted, of whatever size, is folded: written anew alone, unless it is in a group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.log.wire import int64_array, int64_values, validity
from indextables.query.stats import map_values
from indextables.table.merge.plan import CLUSTERED, MergePlan, by_partition, deleted_shares, is_full, is_in
from indextables.table.read import in_order

__all__ = ["Crowd", "Due", "Tiers", "crowd_of", "plan_due", "within"]

_ROWS = 256
_BYTES = 65_536
"""Files below both are of tier 0: what they cost is opening and writing a split, not their rows."""

_LARGE = 99
"""The tier of what is not merged."""

_CROWDED = 4
"""A partition with so many times `fan_in` small files is crowded: whoever writes next merges, however little time."""

_START_S, _PER_SOURCE_S, _PER_BYTE_S = 0.04, 0.005, 1 / 4e6
"""What a merge takes, roughly: it is compared with the age of a process, not with a clock."""

_PIECE_S = 0.5
"""What whoever finds something due does at least, however short it has lived."""

_NARROW = ("path", "partitionValues", "size", "numRecords", "tags", "addedAtVersion", "addedAtLine", "deletionVector")
_ROW = "row"

_Rows = npt.NDArray[np.int64]


class Tiers(msgspec.Struct, frozen=True):
    """How a table is kept. Files below `small_bytes` are small; sources of a group add up to at most `target_bytes`.

    Files with a larger share of deleted rows than `fold_above` are folded.
    """

    fan_in: int
    small_bytes: int
    target_bytes: int
    memory_bytes: int
    fold_above: float = 1.0


class Due(msgspec.Struct, frozen=True):
    """Groups that are due, those of low tiers first, folds last; `plan.files` holds their sources and nothing else.

    `seconds` is about what each takes, `crowded` tells whether its partition has too many small files to wait.
    """

    plan: MergePlan
    seconds: list[float]
    crowded: list[bool]


class Crowd(msgspec.Struct, frozen=True):
    """How many small files there are: in all, in the partition that has the most, and of each tier from 0 on."""

    small: int
    most: int
    tiers: list[int]


def plan_due(files: pa.Table, partition_columns: Collection[str], cooling: Collection[str], tiers: Tiers) -> Due:
    """What is due. `cooling` are the paths that are left alone for now.

    1. The sources of a group are neighbours in one partition, in the order of their rows, all of them small.
    2. No file is in two groups, and there are at least two in each, unless the only one is folded.
    3. As long as a partition has `fan_in` files or more in a block of small ones, something of it is due.
    """
    few = files.num_rows < tiers.fan_in or int((int64_values(files["size"]) < tiers.small_bytes).sum()) < tiers.fan_in
    if few and not (deleted_shares(files) > tiers.fold_above).any():
        return Due(MergePlan(files.slice(0, 0), [], 0), [], [])
    narrow, codes, levels = _levels(files, partition_columns, cooling, tiers)
    is_small = levels < _LARGE
    counts = np.bincount(codes, weights=is_small).astype(np.int64) if len(codes) else np.zeros(0, np.int64)
    sizes = int64_values(narrow["size"])
    found: list[tuple[int, float, bool, _Rows]] = []
    for code in np.flatnonzero(counts >= tiers.fan_in).tolist():
        start, end = np.searchsorted(codes, [code, code + 1]).tolist()
        for level, first, last in _due_in(levels[start:end], tiers.fan_in):
            cut = _cut(sizes, start + first, start + last, tiers)
            crowded = bool(counts[code] >= _CROWDED * tiers.fan_in)
            found += [(level, _takes(sizes[group]), crowded, group) for group in cut]
    folds = (deleted_shares(narrow) > tiers.fold_above) & ~is_in(narrow["path"], cooling)
    folds[np.concatenate([*(rows for *_, rows in found), np.empty(0, np.int64)])] = False
    found += [(_LARGE, _takes(sizes[[row]]), False, np.array([row])) for row in np.flatnonzero(folds).tolist()]
    found.sort(key=lambda group: (group[0], group[3][0]))
    chosen = np.concatenate([*(rows for *_, rows in found), np.empty(0, np.int64)])
    ends = np.cumsum([len(rows) for *_, rows in found]).tolist()
    groups = [np.arange(end - len(rows), end) for (*_, rows), end in zip(found, ends, strict=True)]
    cooled = int(is_in(narrow["path"], cooling).sum()) if cooling else 0
    sources = files.take(int64_array(int64_values(narrow[_ROW])[chosen]))
    return Due(MergePlan(sources, groups, cooled), [s for _, s, _, _ in found], [c for _, _, c, _ in found])


def within(due: Due, seconds: float, *, most: int, crowded: int, piece: bool = True) -> tuple[MergePlan, float]:
    """The groups that a process merges now, `most` of them, as far as `seconds` go; and what they take, about.

    With `piece` the first one, which is of the lowest tier, is taken anyway where it is a small piece of work; so are
    up to `crowded` groups of crowded partitions, whatever they take.
    """
    chosen: list[int] = []
    left = seconds
    for number, takes in enumerate(due.seconds):
        if len(chosen) == most:
            break
        is_piece = piece and number == 0 and takes <= _PIECE_S
        if takes <= left or is_piece or (due.crowded[number] and crowded > 0):
            chosen.append(number)
            left -= takes
            crowded -= due.crowded[number]
    return msgspec.structs.replace(due.plan, groups=[due.plan.groups[number] for number in chosen]), seconds - left


def _takes(sizes: _Rows) -> float:
    """About how many seconds it takes to merge files of these sizes."""
    return _START_S + _PER_SOURCE_S * len(sizes) + _PER_BYTE_S * float(sizes.sum())


def crowd_of(files: pa.Table, partition_columns: Collection[str], tiers: Tiers) -> Crowd:
    """How the small files of a table are spread. Those in their cooldown count, too."""
    _, codes, levels = _levels(files, partition_columns, (), tiers)
    small = levels < _LARGE
    if not small.any():
        return Crowd(0, 0, [])
    most = int(np.bincount(codes[small]).max())
    return Crowd(int(small.sum()), most, np.bincount(levels[small]).tolist())


def _levels(
    files: pa.Table, partition_columns: Collection[str], cooling: Collection[str], tiers: Tiers
) -> tuple[pa.Table, _Rows, _Rows]:
    """The files in the order of their rows within each partition, a number per partition, and the tier of each file."""
    narrow = files.select(_NARROW).append_column(_ROW, int64_array(np.arange(files.num_rows)))
    narrow, codes = by_partition(in_order(narrow), partition_columns)
    sizes, rows = int64_values(narrow["size"]), int64_values(narrow["numRecords"])
    levels = np.maximum(_climbed(rows, _ROWS, tiers.fan_in), _climbed(sizes, _BYTES, tiers.fan_in))
    parts = (sizes >= tiers.small_bytes) | is_in(narrow["path"], cooling) | is_full(narrow, tiers.memory_bytes)
    if narrow["tags"].null_count < narrow.num_rows:
        parts |= validity(map_values(narrow["tags"], CLUSTERED))
    return narrow, codes, np.where(parts, _LARGE, levels)


def _climbed(amounts: _Rows, least: int, fan_in: int) -> _Rows:
    """0 below `least`, 1 from there on, and one more for every factor of `fan_in`."""
    bounds: list[int] = []
    bound = least
    while bound <= np.iinfo(np.int64).max // fan_in and len(bounds) < _LARGE - 1:
        bounds.append(bound)
        bound *= fan_in
    return np.searchsorted(np.array(bounds), amounts, side="right").astype(np.int64)


def _due_in(levels: _Rows, fan_in: int) -> Iterator[tuple[int, int, int]]:
    """(tier, first, last + 1) of what is due among the files of one partition, given by their tiers in order."""
    highest_behind = np.maximum.accumulate(levels[::-1])[::-1]
    for start, end in _stretches(highest_behind):
        level = int(highest_behind[start])
        block = levels[start:end]
        among = block < level
        others = 0 if level == _LARGE else int((~among).sum())
        if int(among.sum()) + others < fan_in:
            continue
        if 2 * others >= fan_in:
            yield level, start, end
            continue
        for first, last in _stretches(among):
            if among[first] and last - first > 1:
                yield int(block[first:last].max()), start + first, start + last


def _stretches(values: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """[start, end) of equal neighbours."""
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    yield from zip(starts.tolist(), [*starts[1:].tolist(), len(values)], strict=True)


def _cut(sizes: _Rows, first: int, last: int, tiers: Tiers) -> Iterator[_Rows]:
    """The files from `first` to before `last` in groups that are no larger than one may be."""
    until = np.cumsum(sizes[first:last])
    start, most = 0, tiers.fan_in * tiers.fan_in
    while start < last - first:
        before = int(until[start - 1]) if start else 0
        fits = int(np.searchsorted(until, before + tiers.target_bytes, side="right"))
        end = max(start + 1, min(fits, start + most, last - first))
        if end - start > 1:
            yield np.arange(first + start, first + end)
        start = end
