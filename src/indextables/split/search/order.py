"""Orders hits by a column: by the index where it holds the values, else by reading the column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import tantivy

from indextables.errors import InvalidArgument
from indextables.lazy import pc
from indextables.split.query import HasValue, LeafTarget, Plan, boolean, leaves, resolve_target, unscored
from indextables.split.search.answer import IndexShard
from indextables.split.search.hits import Hits, SearchMetrics, join_hits
from indextables.split.search.shards import ShardMaker

_FAST_ORDER = ("int", "date", "timestamp")


class OrderBy(msgspec.Struct, frozen=True):
    """A column and a direction. Rows without a value come last, equal values in the order `then`, by split and row."""

    column: str
    direction: Literal["asc", "desc"] = "asc"
    then: OrderBy | None = None


def ordered_hits(maker: ShardMaker, plan: Plan, order: OrderBy, limit: int, metrics: SearchMetrics) -> Hits:
    """The first `limit` matching rows in this order, with the score 0. Raises InvalidArgument for a column."""
    wanted = [(_target_of(maker, one), one) for one in _each(order)]
    target, _ = wanted[0]
    if len(wanted) == 1 and target.fast and target.kind in _FAST_ORDER:
        found = _by_index(maker, plan, target, order, limit, metrics)
        if found is not None:
            return found
    return _by_columns(maker, plan, wanted, limit, metrics)


def _each(order: OrderBy | None) -> Iterator[OrderBy]:
    while order is not None:
        yield order
        order = order.then


def _target_of(maker: ShardMaker, order: OrderBy) -> LeafTarget:
    """The column of an order. Raises InvalidArgument."""
    try:
        target = resolve_target(maker.schema, maker.table, (order.column,))
    except LookupError as error:
        raise InvalidArgument(f"order by: {error.args[0]}", column=order.column) from error
    if target.multi or target.nested:
        raise InvalidArgument(
            f"{target.column} has several values in a row, which give no order: order by another column",
            column=target.column,
        )
    return target


def _by_index(
    maker: ShardMaker, plan: Plan, target: LeafTarget, order: OrderBy, limit: int, metrics: SearchMetrics
) -> Hits | None:
    having = unscored(boolean(must=(plan, HasValue(target))))
    shards = maker.shards(having, metrics, scored=False)
    # A split whose rows said where values are has an index that cannot order by them.
    if not all(isinstance(shard, IndexShard) and HasValue(target) in leaves(shard.plan) for shard in shards):
        return None
    direction = tantivy.Order.Asc if order.direction == "asc" else tantivy.Order.Desc
    parts: list[Hits] = []
    keys: list[Any] = []
    for shard in shards:
        if isinstance(shard, IndexShard):
            settings = {"limit": limit, "count": False, "order_by_field": target.field, "order": direction}
            found = shard.run(shard.query(scored=False), **settings).hits
            keys.extend(int(value) for value, _ in found)
            parts.append(shard.hits([(0.0, address) for _, address in found]))
    hits = join_hits(parts)
    values = np.array(keys, dtype=np.int64)
    # Ascending keys both ways; the smallest integer has no negative, its complement does.
    ranked = values if order.direction == "asc" else ~values
    hits = hits.take(np.lexsort((hits.rows, hits.splits, ranked))[:limit])
    if len(hits) < limit:
        lacking = unscored(boolean(must=(plan,), must_not=(HasValue(target),)))
        rest = join_hits(shard.everything() for shard in maker.shards(lacking, metrics, scored=False)).in_place()
        hits = join_hits([hits, rest.take(np.arange(min(limit - len(hits), len(rest))))])
    return hits


def _by_columns(
    maker: ShardMaker,
    plan: Plan,
    wanted: Sequence[tuple[LeafTarget, OrderBy]],
    limit: int,
    metrics: SearchMetrics,
) -> Hits:
    shards = maker.shards(unscored(plan), metrics, scored=False)
    hits = join_hits(shard.everything() for shard in shards).in_place()
    names = list(dict.fromkeys(target.column for target, _ in wanted))
    parts = [maker.states[int(place)].fetch(hits.rows[hits.splits == place], names) for place in np.unique(hits.splits)]
    table = pa.table({"place": _ints(np.arange(len(hits)))})
    keys = []
    for number, (target, order) in enumerate(wanted):
        kind = maker.schema.field(target.column).type
        chunks = [chunk.cast(kind) for part in parts for chunk in part.column(target.column).chunks]
        values = pa.chunked_array(chunks, kind)
        if pa.types.is_floating(kind) and order.direction == "desc":
            # NaN is above every number; Arrow puts it last whichever way it sorts.
            nan = pc.fill_null(pc.is_nan(values), False)  # noqa: FBT003
            table = table.append_column(f"nan{number}", nan)
            keys.append((f"nan{number}", "descending"))
        table = table.append_column(f"value{number}", values)
        keys.append((f"value{number}", "ascending" if order.direction == "asc" else "descending"))
    picked = pc.sort_indices(table, sort_keys=[*keys, ("place", "ascending")])[:limit]
    return hits.take(picked.to_numpy().astype(np.int64))


def _ints(values: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values.astype(np.int64))])
