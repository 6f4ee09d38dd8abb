"""Cuts a table into ranges of its partitions, by what the manifests' bounds tell. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from indextables.lazy import pc
from indextables.log.checkpoint.avro.bounds import as_maps
from indextables.log.checkpoint.avro.manifests import ManifestInfo
from indextables.log.wire import bool_array
from indextables.query.partition import partition_from_text
from indextables.query.stats import map_values

__all__ = ["Within", "partition_ranges", "ranges"]

_MOST_READS = 3
"""An entry is read this often at most, on the average."""

Within = Callable[[pa.Table], pa.Array]
"""Which entries of a table belong to a range."""


def ranges(
    infos: Sequence[ManifestInfo], types: dict[str, pa.DataType], size: int
) -> Iterator[tuple[Within | None, list[ManifestInfo]]]:
    """Ranges of the first partition column of about `size` entries, ascending, with the manifests that may hold some.

    Every entry belongs to exactly one range: null and what is not a value of its type to the first. None for `Within`
    stands for everything.
    """
    total = sum(info.num_entries for info in infos)
    if total <= 2 * size or not types:
        yield None, list(infos)
        return
    name, kind = next(iter(types.items()))
    low, high = as_maps([info.bounds for info in infos])
    lower = partition_from_text(map_values(low, name), kind)[0]
    upper = partition_from_text(map_values(high, name), kind)[0]
    cuts = _cuts(infos, upper, size)
    for at in range(len(cuts) + 1):
        floor = None if at == 0 else cuts[at - 1]
        ceiling = None if at == len(cuts) else cuts[at]
        chosen = [
            info
            for info, least, most in zip(infos, lower, upper, strict=True)
            if _overlaps(info, name, least, most, floor, ceiling)
        ]
        yield _within(name, kind, floor, ceiling), chosen


def partition_ranges(
    infos: Sequence[ManifestInfo], types: dict[str, pa.DataType], size: int
) -> list[tuple[Within, list[ManifestInfo]]]:
    """The same of all partition columns: every partition lies in one range as a whole.

    Where manifests hold so many partitions each that most would be read again and again, ranges are larger.
    """
    entries = sum(info.num_entries for info in infos)
    while True:
        found = list(_nested(infos, types, size))
        if sum(info.num_entries for _, chosen in found for info in chosen) <= _MOST_READS * entries:
            return [(_all_of(filters), chosen) for filters, chosen in found]
        size *= 2


def _nested(
    infos: Sequence[ManifestInfo], types: dict[str, pa.DataType], size: int
) -> Iterator[tuple[tuple[Within, ...], list[ManifestInfo]]]:
    """As `ranges`; what one value of a column makes too large is cut by the next column."""
    rest = dict(list(types.items())[1:])
    for within, chosen in ranges(infos, types, size):
        filters = () if within is None else (within,)
        if rest and sum(info.num_entries for info in chosen) > 2 * size:
            yield from ((filters + more, fewer) for more, fewer in _nested(chosen, rest, size))
        else:
            yield filters, chosen


def _all_of(filters: Sequence[Within]) -> Within:
    def inside(table: pa.Table) -> pa.Array:
        kept = bool_array(np.ones(len(table), np.bool_))
        for within in filters:
            kept = pc.and_(kept, within(table))
        return kept

    return inside


def _cuts(infos: Sequence[ManifestInfo], upper: pa.Array, size: int) -> list[pa.Scalar]:
    """Largest values of manifests, ascending, at which about `size` more entries lie below than at the one before."""
    order = pc.sort_indices(upper).to_pylist()
    cuts: list[pa.Scalar] = []
    held = 0
    for at in order:
        if not upper[at].is_valid:
            break
        held += infos[at].num_entries
        if held >= size and (not cuts or pc.greater(upper[at], cuts[-1]).as_py()):
            cuts.append(upper[at])
            held = 0
    return cuts


def _overlaps(
    info: ManifestInfo,
    name: str,
    least: pa.Scalar,
    most: pa.Scalar,
    floor: pa.Scalar | None,
    ceiling: pa.Scalar | None,
) -> bool:
    """(floor, ceiling] against [least, most]; what is not known may overlap, nulls lie in the first range."""
    if not least.is_valid or not most.is_valid or not pc.equal(most, most).as_py():
        # Not a number: it belongs to the first range, however large the others are.
        return True
    bounds = (info.bounds or {}).get(name)
    if floor is None and (bounds is None or bounds.has_null is not False):
        return True
    above = floor is None or pc.greater(most, floor).as_py()
    below = ceiling is None or pc.less_equal(least, ceiling).as_py()
    return bool(above and below)


def _within(name: str, kind: pa.DataType, floor: pa.Scalar | None, ceiling: pa.Scalar | None) -> Within:
    def inside(table: pa.Table) -> pa.Array:
        values, _ = partition_from_text(map_values(table.column("partitionValues"), name), kind)
        known = np.asarray(values.is_valid())
        kept = np.ones(len(table), dtype=bool)
        if floor is not None:
            kept &= np.asarray(pc.fill_null(pc.greater(values, floor), False)) & known  # noqa: FBT003 - a mask
        if ceiling is not None:
            kept &= ~np.asarray(pc.fill_null(pc.greater(values, ceiling), False))  # noqa: FBT003 - a mask
        return bool_array(kept)

    return inside
