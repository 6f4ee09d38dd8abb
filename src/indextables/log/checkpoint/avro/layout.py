"""Decides how entries are laid out in manifests: sorted by partition, cut where a partition ends. Pure.

A chunk ends at `limit` entries, or at a partition boundary once it holds an eighth of that, so that a filter on one
small partition reads few entries whatever the table's size.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.log.wire import combined
from indextables.query.partition import partition_from_text
from indextables.query.stats import map_values

__all__ = ["SMALLEST_SHARE", "chunks", "partition_order"]

SMALLEST_SHARE = 8

Ints = npt.NDArray[np.int64]


def partition_order(entries: pa.Table, types: dict[str, pa.DataType]) -> tuple[Ints, Ints]:
    """The order of `entries` by partition (then as they are), and the number of the partition at each place of it."""
    count = len(entries)
    group: Ints = np.zeros(count, dtype=np.int64)
    for name, kind in types.items():
        ranks, size = _ranks(map_values(entries.column("partitionValues"), name), kind)
        _, group = np.unique(group * size + ranks, return_inverse=True)
    order = np.argsort(group, kind="stable")
    return order, group[order]


def chunks(groups: Ints, limit: int) -> Iterator[tuple[int, int]]:
    """Where to cut rows whose partition numbers are `groups` (ascending), as [start, end)."""
    least = max(1, limit // SMALLEST_SHARE)
    ends = np.append(np.flatnonzero(np.diff(groups)) + 1, len(groups))
    start = 0
    for end in ends.tolist():
        while end - start > limit:
            yield start, start + limit
            start += limit
        if end - start >= least:
            yield start, end
            start = end
    if start < len(groups):
        yield start, len(groups)


def _ranks(texts: pa.Array, kind: pa.DataType) -> tuple[Ints, int]:
    """The place of each text among the distinct ones, by type; null first, what is not a value of the type last."""
    encoded = combined(pc.dictionary_encode(texts))
    values, _ = partition_from_text(encoded.dictionary, kind)
    order = np.asarray(pc.sort_indices(values))
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    rank[-1] = 0
    codes = np.asarray(pc.fill_null(encoded.indices, len(order)))
    return rank[codes], len(order) + 1
