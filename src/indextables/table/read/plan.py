"""Which files does a read touch, and where are their bytes? Pruning over the snapshot, then references to splits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import InvalidArgument, NotSupported, ObjectNotFound, VersionExpired
from indextables.log.read import Snapshot
from indextables.log.wire import DeletionVector, has_own_splits, key_of
from indextables.query.expr import Node
from indextables.query.prune import partition_part, prune
from indextables.query.stats import FOREIGN, OURS
from indextables.split.file import Columns, SplitRef, dv
from indextables.table.arguments import check_names
from indextables.table.read.implied import with_implied
from indextables.table.read.order import in_order, order_of

__all__ = ["check_rows_readable", "column_names", "planned_files", "prune_files", "refs_of", "still_there"]

# In the order of the fields of SplitRef after its key.
_REF_COLUMNS = (
    "size",
    "numRecords",
    "footerStartOffset",
    "footerEndOffset",
    "hotcacheStartOffset",
    "hotcacheLength",
    "splitId",
)
_PLANNED = ("path", *_REF_COLUMNS, "deletionVector")
_PLACED = ("tags", "addedAtVersion", "addedAtLine")

_PLANNED_AT_ONCE = 4
"""One part in so many of the files whose entries may stay in memory: a plan holds references and units beside them."""


def prune_files(snapshot: Snapshot, where: Node | None) -> pa.Table:
    """The live files that may hold a match, in the order of their rows.

    A predicate on partition columns spares reading the parts of a checkpoint that cannot hold a match.
    """
    return in_order(snapshot.files if where is None else _matching(snapshot, where, lambda files: files))


def planned_files(env: Env, snapshot: Snapshot, where: Node | None) -> pa.Table:
    """As `prune_files`, with no column but those from which `refs_of` makes references.

    Of many files the entries are looked at part by part and not kept: a plan is made once.
    """
    most = env.options[opt.STATE_FILES_IN_MEMORY] // _PLANNED_AT_ONCE

    def kept(files: pa.Table) -> pa.Table:
        return files.select([*_PLANNED, *_PLACED])

    found = snapshot.gathered(kept, most) if where is None else _matching(snapshot, where, kept, most)
    order, found = order_of(found), found.select(_PLANNED)
    return found if order is None else found.take(order)


def _matching(
    snapshot: Snapshot, where: Node, make: Callable[[pa.Table], pa.Table], most: int | None = None
) -> pa.Table:
    """What `make` makes of the live files that may hold a match, in any order."""
    where = with_implied(where, snapshot.schema)
    rules = OURS if has_own_splits(snapshot.protocol) else FOREIGN

    def matching(files: pa.Table) -> pa.Table:
        if files.num_rows:
            files = files.filter(prune(files, where, snapshot.schema, snapshot.partition_columns, rules=rules))
        return make(files)

    if partition_part(where, snapshot.partition_columns) is None:
        return snapshot.gathered(matching, most)
    return matching(snapshot.files_where(lambda _: where))


def check_rows_readable(snapshot: Snapshot, url: str) -> None:
    """Raises NotSupported for tables whose data files are not ours: their rows are scanned, and nothing more."""
    if not has_own_splits(snapshot.protocol):
        message = (
            f"the table at {url} holds splits of IndexTables4Spark, whose rows are scanned and searched, and nothing "
            "more: for this make a table of ours of them with indextables.convert"
        )
        raise NotSupported(message, url=url)


def refs_of(env: Env, files: pa.Table, schema: pa.Schema) -> list[SplitRef]:
    """One reference per file of a table with this schema, with its deletion vector loaded.

    The schema is the table's at the version that is read, as its metadata has it: it tells how columns stand in files.
    Raises PathEscape, DvCorrupt, StoreError, SchemaInvalid.

    The references are of the files that a read opens anyway; only those with a deletion vector cost a look of their
    own.
    """
    url = env.store.url
    keys = (key_of(path, url) for path in files["path"].to_pylist())
    refs = list(map(SplitRef, keys, *(files[name].to_pylist() for name in _REF_COLUMNS)))
    columns = Columns.of(schema)
    if columns is not None:
        refs = [msgspec.structs.replace(ref, columns=columns) for ref in refs]
    vectors = files["deletionVector"]
    if vectors.null_count == len(vectors):
        return refs
    deleted = np.flatnonzero(vectors.is_valid().to_numpy())
    rows = zip(deleted.tolist(), vectors.take(pa.array(deleted)).to_pylist(), strict=True)
    for place, ref in env.ambient.map("splits", lambda row: (row[0], _with_vector(env, refs[row[0]], row[1])), rows):
        refs[place] = ref
    return refs


@contextlib.contextmanager
def still_there(env: Env, version: int) -> Iterator[None]:
    """Around what reads the files of a pinned version. Raises VersionExpired where one of them is gone."""
    try:
        yield
    except ObjectNotFound as cause:
        message = (
            f"a file of version {version} is gone from {env.store.url}: purge was faster, then refresh(), or read the "
            "table again; or somebody deleted it, then verify() tells what else is missing"
        )
        raise VersionExpired(message, version=version, key=cause.details.get("key"), url=env.store.url) from cause


def column_names(schema: pa.Schema, columns: Sequence[str] | None, *, what: str = "columns") -> list[str]:
    """The columns asked for, as the table spells them. Raises InvalidArgument for one that is not there."""
    if columns is None:
        return list(schema.names)
    columns = check_names(what, columns)
    spelled = {name.lower(): name for name in schema.names}
    missing = [name for name in columns if name.lower() not in spelled]
    if missing:
        message = f"there is no column {', '.join(missing)}: the table has {', '.join(schema.names)}"
        raise InvalidArgument(message, columns=missing)
    return list(dict.fromkeys(spelled[name.lower()] for name in columns))


def _with_vector(env: Env, ref: SplitRef, logged: dict[str, object]) -> SplitRef:
    vector = msgspec.convert(logged, DeletionVector)
    if ref.num_rows is None:
        raise InvalidArgument(f"{ref.key} has a deletion vector but no number of rows in the log", path=ref.key)
    return msgspec.structs.replace(ref, vector=dv.load(env.store, vector, ref.key, ref.num_rows))
