"""What does each column cost? The bytes of rows and index of a table's splits, added up by column and component."""

from __future__ import annotations

import pyarrow as pa

from indextables.env import Env
from indextables.log.read import Snapshot
from indextables.split.file import SplitReader, SplitRef
from indextables.split.index import SCHEMA, field_sizes
from indextables.table.read.plan import check_rows_readable, prune_files, refs_of

__all__ = ["column_sizes"]


def column_sizes(env: Env, snapshot: Snapshot, most_splits: int | None = 100) -> pa.Table:
    """Bytes by column, kind and component, largest first, of the splits that were added last (None: of all).

    Two small ranged reads per split. `bytes` are those at rest; an index component is compressed as a whole, so that
    they are shared out by `raw_bytes`. Raises NotSupported for another system's tables, SplitCorrupt, StoreError.
    """
    check_rows_readable(snapshot, env.store.url)
    files = prune_files(snapshot, None)
    last = files if most_splits is None else files.slice(max(0, files.num_rows - most_splits))
    refs = refs_of(env, last)

    def one(ref: SplitRef) -> pa.Table:
        return field_sizes(SplitReader(env.store, ref))

    tables = list(env.ambient.map("splits", one, refs))
    found = pa.concat_tables([SCHEMA.empty_table(), *tables])
    keys = ["column", "kind", "indexed", "fast", "component"]
    summed = found.group_by(keys).aggregate([("bytes", "sum"), ("raw_bytes", "sum")])
    return summed.rename_columns([*keys, "bytes", "raw_bytes"]).sort_by([("bytes", "descending")]).select(SCHEMA.names)
