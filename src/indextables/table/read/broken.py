"""Tells for how many rows of a version a predicate is not true. Files of which statistics prove it are not read."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from indextables.env import Env
from indextables.log.commit import personal_columns
from indextables.log.read import Snapshot
from indextables.log.wire import Metadata, has_own_splits, schema_from_json, schema_to_json
from indextables.query.expr import IsNull, Node, Not, Or
from indextables.query.prune import all_match
from indextables.table.read.plan import refs_of, still_there
from indextables.table.read.shared import searcher_over
from indextables.table.rows import shown_row

__all__ = ["broken_rows"]

_AT_ONCE = 10_000
"""Files whose statistics are looked at together: null counts are told for no more than so many."""


def broken_rows(
    env: Env, snapshot: Snapshot, node: Node, *, by_rows: bool = False
) -> tuple[int, dict[str, object] | None]:
    """For how many rows a predicate is not true, and the first of them, if any.

    Files whose partition values, bounds and null counts prove that it is true for all rows are not read, unless it is
    to be told `by_rows` alone.
    """
    files = snapshot.files if by_rows else _unproven(snapshot, node)
    if not files.num_rows:
        return 0, None
    with still_there(env, snapshot.version):
        metadata = _lenient(snapshot.metadata) if by_rows else snapshot.metadata
        searcher = searcher_over(env, metadata, refs_of(env, files, snapshot.schema))
        found = searcher.matches(None, where=Or((Not(node), IsNull(node)))).hits
        if not len(found):
            return 0, None
        first = searcher.rows(found.take(pa.array([0]).to_numpy()))
    return len(found), shown_row(first, personal_columns(snapshot.metadata.configuration))


def _lenient(metadata: Metadata) -> Metadata:
    """The metadata of a table whose rows may hold null anywhere."""
    fields = [field.with_nullable(nullable=True) for field in schema_from_json(metadata.schemaString)]
    return msgspec.structs.replace(metadata, schemaString=schema_to_json(pa.schema(fields)))


def _unproven(snapshot: Snapshot, node: Node) -> pa.Table:
    """The files that may hold a row for which a predicate is not true."""
    files = snapshot.files
    if not files.num_rows or not has_own_splits(snapshot.protocol):
        return files
    proven = [_proven(files.slice(start, _AT_ONCE), snapshot, node) for start in range(0, files.num_rows, _AT_ONCE)]
    return files.filter(pa.array(~np.concatenate(proven)))


def _proven(files: pa.Table, snapshot: Snapshot, node: Node) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    told = all_match(files, node, snapshot.schema, snapshot.partition_columns)
    return np.asarray(told.to_numpy(zero_copy_only=False), bool)
