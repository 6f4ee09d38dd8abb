"""The ids of rows, which a table shows nowhere but in its feed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.log.read import Snapshot
from indextables.table.read import column_names, prune_files, refs_of, scan_split

__all__ = ["scan_row_ids"]


def scan_row_ids(env: Env, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """All rows in the order of the table, with the id of each in a last column `ROW_ID`."""
    names = column_names(snapshot.schema, columns)
    files = prune_files(snapshot, None)
    for ref, base in zip(refs_of(env, files, snapshot.schema), files["baseRowId"].to_pylist(), strict=True):
        known = msgspec.structs.replace(ref, base_row_id=base)
        yield from scan_split(env, snapshot.schema, known, names, None, snapshot.version, row_ids=True)
