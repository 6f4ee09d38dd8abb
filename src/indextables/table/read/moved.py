"""Finds rows again that were moved to other files: a row keeps its id, wherever it stands.

Of the files that rows were moved to only the ids are read, whatever the order of their rows is. No file says from where
its rows came: a table would carry the names of all files that it ever had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from indextables.env import Env
from indextables.split.file import ROW_ID, SplitReader, SplitRef, ids_at, scan
from indextables.table.read.plan import refs_of

__all__ = ["find_again", "follow"]

_NUMBER = "_number"

_Ids = npt.NDArray[np.int64]


def follow(env: Env, rows: Mapping[str, BitMap], before: pa.Table, after: pa.Table) -> dict[str, BitMap] | None:
    """Where rows stand that were moved from files `before` to files `after`; None if that cannot be told of all.

    `rows` are row numbers by path; every path of it is one of `before`. Raises SplitCorrupt, StoreError, ObjectNotFound
    where a file is gone.
    """
    if not any(rows.values()):
        return {}
    ids = []
    for path, ref in _refs(env, before):
        if rows.get(path):
            ids.append((ref, np.fromiter(rows[path], np.int64, len(rows[path]))))
    if sum(len(numbers) for _, numbers in ids) != sum(map(len, rows.values())):
        return None
    places = dict(_refs(env, after))
    found = find_again(env, ids, list(places.values()))
    if found is None:
        return None
    return {
        path: BitMap(numbers.astype(np.uint32)) for path, numbers in zip(places, found, strict=True) if len(numbers)
    }


def find_again(env: Env, rows: Iterable[tuple[SplitRef, _Ids]], after: Sequence[SplitRef]) -> list[_Ids] | None:
    """For each split of `after` the numbers of those of its rows that are these rows of others, ascending.

    None where a row has no id, or is not there exactly once. Raises as `follow`.
    """
    wanted = _ids(env, rows)
    if wanted is None:
        return None
    found, seen = [], 0
    for ref in after:
        whole = SplitReader(env.store, msgspec.structs.replace(ref, vector=None))
        parts = [np.empty(0, np.int64)]
        for batch in scan(whole, [], row_numbers=_NUMBER, row_ids=True):
            ids = batch[ROW_ID]
            is_one = np.isin(ids.fill_null(-1).to_numpy(zero_copy_only=False), wanted)
            parts.append(batch[_NUMBER].to_numpy()[is_one])
        found.append(np.concatenate(parts))
        seen += len(found[-1])
    return found if seen == len(wanted) else None


def _ids(env: Env, rows: Iterable[tuple[SplitRef, _Ids]]) -> _Ids | None:
    """The ids of the rows, ascending, each once; None where one has no id, or one is there twice."""
    found = [np.empty(0, np.int64)]
    for ref, numbers in rows:
        ids = ids_at(SplitReader(env.store, msgspec.structs.replace(ref, vector=None)), numbers, ref.base_row_id)
        if ids.null_count:
            return None
        found.append(ids.to_numpy(zero_copy_only=False) if isinstance(ids, pa.Array) else ids.to_numpy())
    ids = np.concatenate(found)
    unique = np.unique(ids)
    return unique if len(unique) == len(ids) else None


def _refs(env: Env, files: pa.Table) -> list[tuple[str, SplitRef]]:
    bare = files.set_column(
        files.schema.get_field_index("deletionVector"),
        "deletionVector",
        pa.nulls(files.num_rows, files.schema.field("deletionVector").type),
    )
    bases = files["baseRowId"].to_pylist()
    # Ids alone are read, whatever the columns are called.
    pairs = zip(refs_of(env, bare, pa.schema([])), bases, strict=True)
    refs = [msgspec.structs.replace(ref, base_row_id=base) for ref, base in pairs]
    return list(zip(files["path"].to_pylist(), refs, strict=True))
