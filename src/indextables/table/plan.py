"""Which files does a read touch, and where are their bytes? Pruning over the snapshot, then references to splits."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from indextables.errors import InvalidArgument, NotSupported
from indextables.log.actions import DeletionVector
from indextables.log.env import LogEnv
from indextables.log.paths import key_of
from indextables.log.protocol import is_foreign
from indextables.log.snapshot import Snapshot
from indextables.query.expr import Node
from indextables.query.prune import partition_part, prune
from indextables.query.stats import FOREIGN, OURS
from indextables.split import dv
from indextables.split.ref import SplitRef
from indextables.table.arguments import check_names

__all__ = ["check_rows_readable", "column_names", "prune_files", "refs_of"]


def prune_files(snapshot: Snapshot, where: Node | None) -> pa.Table:
    """The live files that may hold a match, in the order in which they were added.

    A predicate on partition columns spares reading the parts of a checkpoint that cannot hold a match.
    """
    of_partitions = None if where is None else partition_part(where, snapshot.partition_columns)
    files = snapshot.files if of_partitions is None else snapshot.files_where(lambda _: where)
    if where is not None and files.num_rows:
        rules = FOREIGN if is_foreign(snapshot.protocol) else OURS
        files = files.filter(prune(files, where, snapshot.schema, snapshot.partition_columns, rules=rules))
    return files.sort_by([("addedAtVersion", "ascending"), ("addedAtLine", "ascending")])


def check_rows_readable(snapshot: Snapshot, url: str) -> None:
    """Raises NotSupported for tables whose data files this library does not read."""
    if is_foreign(snapshot.protocol) or snapshot.protocol.minReaderVersion < 4:
        message = (
            f"the table at {url} holds splits of IndexTables4Spark, whose rows are not read here: its schema, "
            "history and files() are there"
        )
        raise NotSupported(message, url=url)


def refs_of(env: LogEnv, files: pa.Table) -> list[SplitRef]:
    """One reference per file, with its deletion vector loaded. Raises PathEscape, DvCorrupt, StoreError."""
    names = ["path", "size", "numRecords", "footerStartOffset", "footerEndOffset", "hotcacheStartOffset"]
    rows = files.select([*names, "hotcacheLength", "deletionVector"]).to_pylist()
    return list(env.ambient.map("splits", lambda row: _ref(env, row), rows))


def column_names(schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    """The columns asked for, as the table spells them. Raises InvalidArgument for one that is not there."""
    if columns is None:
        return list(schema.names)
    columns = check_names("columns", columns)
    spelled = {name.lower(): name for name in schema.names}
    missing = [name for name in columns if name.lower() not in spelled]
    if missing:
        message = f"there is no column {', '.join(missing)}: the table has {', '.join(schema.names)}"
        raise InvalidArgument(message, columns=missing)
    return list(dict.fromkeys(spelled[name.lower()] for name in columns))


def _ref(env: LogEnv, row: dict[str, object]) -> SplitRef:
    key = key_of(str(row["path"]), env.store.url)
    ref = msgspec.convert(
        {
            "key": key,
            "size": row["size"],
            "num_rows": row["numRecords"],
            "footer_start": row["footerStartOffset"],
            "footer_end": row["footerEndOffset"],
            "index_start": row["hotcacheStartOffset"],
            "range1_length": row["hotcacheLength"],
        },
        SplitRef,
    )
    if row["deletionVector"] is None:
        return ref
    vector = msgspec.convert(row["deletionVector"], DeletionVector)
    if ref.num_rows is None:
        raise InvalidArgument(f"{key} has a deletion vector but no number of rows in the log", path=key)
    return msgspec.structs.replace(ref, vector=dv.load(env.store, vector, key, ref.num_rows))
