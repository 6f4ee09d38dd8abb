"""Folds actions into the live files: columns in, columns out. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from indextables.errors import LogCorrupt, PathEscape
from indextables.foreign.delta.actions import ADD
from indextables.lazy import pc
from indextables.log.wire import canonical_paths, combined, int64_array, validity, vector_ids

__all__ = ["FILES", "live_files"]

FILES = pa.schema(list(ADD))
"""The columns of a Delta table's live files."""


def live_files(base: pa.Table | None, actions: pa.Table, url: str) -> pa.Table:
    """The files after `actions` on top of the adds of a checkpoint: for each file and vector the last action counts.

    Paths come out relative and in one spelling. Raises PathEscape for a path that leaves the table, LogCorrupt for an
    action that lacks what it must have, and for a file that is live twice.
    """
    adds = _adds(actions.column("add"), url)
    removes = combined(actions.column("remove"))
    added, removed = validity(combined(actions.column("add"))), validity(removes)
    gone = _keys(*_named(removes.filter(pa.array(removed)), "remove", url))
    first = _adds(base.column("add"), url) if base is not None else FILES.empty_table()
    files = pa.concat_tables([first, adds])
    # Adds of the checkpoint, then adds and removes in the order of their lines.
    order = np.concatenate(
        [np.arange(len(first)), len(first) + np.flatnonzero(added), len(first) + np.flatnonzero(removed)]
    )
    keys = pa.concat_arrays([_keys(files["path"], files["deletionVector"]), gone])
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    by_time = np.argsort(order, kind="stable")
    last = np.full(int(codes.max()) + 1 if len(codes) else 0, -1, np.int64)
    last[codes[by_time]] = by_time
    live = np.sort(last[last < len(files)])
    found = files.take(int64_array(live)) if len(live) < len(files) else files
    _check_once(found)
    return found


def _adds(column: pa.ChunkedArray, url: str) -> pa.Table:
    structs = combined(column).drop_null()
    columns = dict(zip((field.name for field in ADD), structs.flatten(), strict=True))
    columns["path"] = _named(structs, "add", url)[0]
    sizes = columns["size"]
    if sizes.null_count or (len(sizes) and pc.min(sizes).as_py() < 0):
        raise LogCorrupt(f"an add in the log of {url} tells no size", url=url, reason="add without size")
    return pa.table([columns[name] for name in FILES.names], schema=FILES)


def _named(structs: pa.StructArray, action: str, url: str) -> tuple[pa.Array, pa.Array]:
    """Paths and vectors. Raises LogCorrupt, PathEscape."""
    paths, vectors = (child for child, field in zip(structs.flatten(), structs.type, strict=True) if _is_name(field))
    if paths.null_count:
        raise LogCorrupt(
            f"an action {action} in the log of {url} has no path", url=url, reason=f"{action} without path"
        )
    if not len(paths):
        return paths, vectors
    try:
        return canonical_paths(paths, url), vectors
    except PathEscape as error:
        message = (
            f"the Delta table at {url} has a file elsewhere, as shallow clones do, or a path that is none: {error}. "
            "Nothing outside the table is read: copy its rows with the library that wrote it"
        )
        raise PathEscape(message, **error.details) from None


def _is_name(field: pa.Field) -> bool:
    return field.name in ("path", "deletionVector")


def _keys(paths: pa.Array | pa.ChunkedArray, vectors: pa.Array | pa.ChunkedArray) -> pa.Array:
    """What tells files with their vectors apart."""
    ids = vector_ids(vectors)
    if ids.null_count == len(ids):
        return combined(paths)
    texts = combined(paths)
    return pc.if_else(pc.is_null(ids), texts, pc.binary_join_element_wise(texts, ids, "\n"))


def _check_once(files: pa.Table) -> None:
    """Raises LogCorrupt where a file is live with two vectors: its rows would come twice."""
    if files["deletionVector"].null_count == len(files) or pc.count_distinct(files["path"]).as_py() == len(files):
        return
    counts = files.group_by("path").aggregate([([], "count_all")])
    path = counts.filter(pc.greater(counts["count_all"], 1))["path"][0].as_py()
    message = f"{path} is in the table twice, with different deletion vectors: the log contradicts itself"
    raise LogCorrupt(message, path=path, reason="one file is live twice")
