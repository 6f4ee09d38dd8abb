"""Answers a query split by split, to tell of each what spared it, who answered, and what that cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pyarrow as pa

from indextables.env import Env
from indextables.log.read import Snapshot
from indextables.query.expr import Node, columns_of
from indextables.query.prune import partition_part, prune
from indextables.query.stats import OURS
from indextables.split.file import SplitRef
from indextables.split.search import SearchMemory, SearchMetrics, answerers
from indextables.storage import Store
from indextables.table.read.order import in_order
from indextables.table.read.plan import refs_of
from indextables.table.read.scan import scan_split
from indextables.table.read.shared import searcher_with, shared_index_cache

__all__ = ["PER_SPLIT_SCHEMA", "per_split"]

PER_SPLIT_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("skipped_by", pa.string()),
        ("answered_by", pa.string()),
        ("matches", pa.int64()),
        ("bytes", pa.int64()),
        ("milliseconds", pa.float64()),
    ]
)


class _Counting:
    """A store that counts the bytes that are read from it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: str, **more: Any) -> bytes:
        """As the store."""
        return self._counted(self._store.get(key, **more))

    def get_range(self, key: str, start: int, end: int, **more: Any) -> bytes:
        """As the store."""
        return self._counted(self._store.get_range(key, start, end, **more))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]], **more: Any) -> list[bytes]:
        """As the store."""
        return [self._counted(part) for part in self._store.get_ranges(key, ranges, **more)]

    def _counted(self, data: bytes) -> bytes:
        self.bytes += len(data)
        return data


def per_split(env: Env, snapshot: Snapshot, query: str | None, where: Node | None) -> pa.Table:
    """A row per split. Without a query it is about a scan, which the log can spare files; a search asks them all.

    The bytes are those that the caches did not have. Raises as `search`.
    """
    files = in_order(snapshot.files)
    skipped = _skipped(snapshot, files, where) if query is None else [None] * files.num_rows
    counting = _Counting(env.store)
    env = msgspec.structs.replace(env, store=cast("Store", counting))
    memory = SearchMemory(shared_index_cache(env.options, env.ambient))
    rows = []
    for ref, reason in zip(refs_of(env, files, snapshot.schema), skipped, strict=True):
        began, before = env.ambient.monotonic(), counting.bytes
        answered: tuple[str | None, str | None, int] = (reason, None, 0)
        if reason is None and query is None:
            answered = (None, *_scanned(env, snapshot, ref, where))
        elif reason is None:
            searcher = searcher_with(env, snapshot.metadata, [ref], memory)
            found = searcher.matches(query, where=where)
            told = _by_whom(found.metrics, len(found.hits), answerers(searcher.plan(query, where)))
            answered = (*told, len(found.hits))
        spent = (env.ambient.monotonic() - began) * 1000
        values = (ref.key, ref.num_rows, *answered, counting.bytes - before, round(spent, 3))
        rows.append(dict(zip(PER_SPLIT_SCHEMA.names, values, strict=True)))
    return pa.Table.from_pylist(rows, PER_SPLIT_SCHEMA)


def _skipped(snapshot: Snapshot, files: pa.Table, where: Node | None) -> list[str | None]:
    """What the log says of each file that cannot hold a match."""
    if where is None or not files.num_rows:
        return [None] * files.num_rows
    columns = snapshot.partition_columns
    partition = partition_part(where, columns)
    whole = prune(files, where, snapshot.schema, columns, rules=OURS).to_pylist()
    by_partition = whole if partition is None else prune(files, partition, snapshot.schema, columns).to_pylist()
    return [
        None if may else "partition values" if partition is not None and not by else "statistics"
        for may, by in zip(whole, by_partition, strict=True)
    ]


def _scanned(env: Env, snapshot: Snapshot, ref: SplitRef, where: Node | None) -> tuple[str, int]:
    columns = columns_of(where)[:1] if where is not None else snapshot.schema.names[:1]
    batches = scan_split(env, snapshot.schema, ref, columns, where, snapshot.version, ahead=False)
    return "columns", sum(batch.num_rows for batch in batches)


def _by_whom(metrics: SearchMetrics, matches: int, asked: Sequence[str]) -> tuple[str | None, str | None]:
    """What spared the split, and who answered."""
    if metrics.fallbacks:
        return None, "columns, without the index"
    if not metrics.splits_loaded and not metrics.rows_scanned and not matches:
        return "dictionary", None
    return None, " and ".join(asked)
