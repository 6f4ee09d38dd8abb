"""Search over a snapshot: all its splits as one index, so that scores do not depend on how rows are spread.

Files are not pruned by `where` here: the statistics that scores are made of are those of the whole table. A predicate
becomes part of the query instead and is answered exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from indextables.env import Env
from indextables.errors import InvalidArgument
from indextables.log.read import Snapshot
from indextables.log.wire import has_own_splits
from indextables.query.expr import Node, columns_of
from indextables.split.search import Hits, OrderBy, SplitSearcher, TermStats
from indextables.table.read.inspect import counted_rows
from indextables.table.read.plan import column_names, still_there
from indextables.table.read.scan import scan_table
from indextables.table.read.shared import Searchers

__all__ = [
    "SCORE",
    "Order",
    "aggregate_rows",
    "count",
    "explain_search",
    "found_batches",
    "order_of",
    "search",
    "search_batches",
    "show_hits",
]

SCORE = "_score"
_BATCH_ROWS = 8192


def search(
    env: Env,
    searchers: Searchers,
    snapshot: Snapshot,
    query: str,
    *,
    columns: Sequence[str] | None,
    where: Node | None,
    limit: int | None,
    offset: int,
    order_by: OrderBy | None,
    highlight: Sequence[str] = (),
) -> pa.Table:
    """The matching rows, best first, with their `_score`; in the order of a column instead if that is asked for.

    For each column of `highlight` a column `_highlight_<name>` follows: a piece of its text as HTML, matches in `<em>`.

    Raises QueryInvalid with the position, LimitExceeded, InvalidArgument, SplitCorrupt, VersionExpired, StoreError.
    """
    names, marked = _shown(snapshot, columns, highlight, scored=order_by is None)
    with still_there(env, snapshot.version):
        searcher = searchers.of(snapshot)
        hits = searcher.search(query, where=where, limit=limit, offset=offset, order_by=order_by).hits
        return show_hits(searcher, query, hits, names, marked, score=order_by is None)


def search_batches(
    env: Env,
    searchers: Searchers,
    snapshot: Snapshot,
    query: str,
    *,
    columns: Sequence[str] | None,
    where: Node | None,
    limit: int | None,
    offset: int,
    order_by: OrderBy | None,
    highlight: Sequence[str] = (),
) -> pa.RecordBatchReader:
    """The same rows, some at a time. Raises as `search`: at once for the query, and while it is read for files."""
    names, marked = _shown(snapshot, columns, highlight, scored=order_by is None)
    with still_there(env, snapshot.version):
        searcher = searchers.of(snapshot)
        hits = searcher.search(query, where=where, limit=limit, offset=offset, order_by=order_by).hits
        first = hits.take(np.arange(min(_BATCH_ROWS, len(hits))))
        shown = show_hits(searcher, query, first, names, marked, score=order_by is None)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from shown.to_batches()
        for start in range(_BATCH_ROWS, len(hits), _BATCH_ROWS):
            part = hits.take(np.arange(start, min(start + _BATCH_ROWS, len(hits))))
            with still_there(env, snapshot.version):
                rows = show_hits(searcher, query, part, names, marked, score=order_by is None)
            yield from rows.to_batches()

    return pa.RecordBatchReader.from_batches(shown.schema, batches())


def _shown(
    snapshot: Snapshot, columns: Sequence[str] | None, highlight: Sequence[str], *, scored: bool
) -> tuple[list[str], list[str]]:
    """The columns of an answer, and those that are highlighted. Raises InvalidArgument."""
    names = column_names(snapshot.schema, columns)
    marked = column_names(snapshot.schema, highlight, what="highlight")
    if SCORE in names and scored:
        raise InvalidArgument(f"the table has a column {SCORE!r} of its own: name the columns to read, without it")
    return names, marked


def found_batches(
    searcher: SplitSearcher,
    query: str,
    columns: Sequence[str],
    *,
    highlight: Sequence[str] = (),
    where: Node | None = None,
    limit: int | None = None,
    stats: TermStats | None = None,
) -> Iterator[tuple[Hits, pa.Table]]:
    """Matching rows of the searcher's splits, best first, some at a time: which they are, and as `show_hits`.

    `stats` are those of a larger collection that the splits are part of. Raises as `search`, but ObjectNotFound where
    a file is gone.
    """
    hits = searcher.search(query, where=where, limit=limit, stats=stats).hits
    for start in range(0, len(hits), _BATCH_ROWS):
        part = hits.take(np.arange(start, min(start + _BATCH_ROWS, len(hits))))
        yield part, show_hits(searcher, query, part, columns, highlight)


def show_hits(
    searcher: SplitSearcher,
    query: str,
    hits: Hits,
    columns: Sequence[str],
    highlight: Sequence[str] = (),
    *,
    score: bool = True,
) -> pa.Table:
    """The rows of hits, in their order: columns, `_score`, and a piece of each text of `highlight` as HTML."""
    rows = searcher.rows(hits, [*columns, *(name for name in highlight if name not in columns)], score=score)
    if not highlight:
        return rows
    from indextables.split.search import snippets

    shown = rows.select([*columns, *([SCORE] if score else [])])
    plan = searcher.plan(query)
    for name in highlight:
        shown = shown.append_column(f"_highlight_{name}", snippets(plan, rows, name))
    return shown


def count(env: Env, searchers: Searchers, snapshot: Snapshot, query: str | None, where: Node | None) -> int:
    """How many rows match; from the log alone where nothing is asked."""
    if query is not None:
        with still_there(env, snapshot.version):
            return searchers.of(snapshot).count(query, where=where)
    if where is None:
        known = counted_rows(snapshot)
        if known is not None:
            return known
    columns = columns_of(where)[:1] if where is not None else snapshot.schema.names[:1]
    return sum(batch.num_rows for batch in scan_table(env, snapshot, columns, where, None))


def aggregate_rows(
    env: Env,
    searchers: Searchers,
    snapshot: Snapshot,
    query: str | None,
    aggregations: Mapping[str, Mapping[str, Mapping[str, Any]]],
    where: Node | None,
) -> dict[str, dict[str, Any]]:
    """What the matching rows add up to. Raises as `search`, and InvalidArgument for an aggregation that is none."""
    from indextables.split.search import aggregate

    with still_there(env, snapshot.version):
        return aggregate(searchers.of(snapshot), query, aggregations, where=where)


def explain_search(
    env: Env, searchers: Searchers, snapshot: Snapshot, query: str | None, where: Node | None
) -> dict[str, Any]:
    """How a query is understood and who answers it. Raises as `search`."""
    from indextables.split.search import explain_query
    from indextables.table.read.per_split import per_split

    if not has_own_splits(snapshot.protocol):
        # A copy is searched, whose files are not those of the table.
        return explain_query(searchers.of(snapshot), query, where)
    with still_there(env, snapshot.version):
        # First, while the caches hold nothing that only the other question put there.
        each = per_split(env, snapshot, query, where)
        return {**explain_query(searchers.of(snapshot), query, where), "per_split": each}


Order = str | tuple[str, str] | Sequence[str | tuple[str, str]] | None
"""What callers say about an order: a column, one with its direction, or several of them."""


def order_of(order_by: Order) -> OrderBy | None:
    """`"time"`, `"time desc"`, `("time", "desc")`, `"host, time desc"` or a list of such. Raises InvalidArgument."""
    if order_by is None:
        return None
    if isinstance(order_by, str):
        several: Sequence[Any] = [part for part in order_by.split(",") if part.strip()] or [order_by]
    else:
        several = order_by if isinstance(order_by, list) else [order_by]
    found = None
    for one in reversed([_one_order(one) for one in several]):
        found = OrderBy(one.column, one.direction, found)
    if found is None:
        raise InvalidArgument("order_by names no column", order_by=str(order_by))
    return found


def _one_order(order_by: Any) -> OrderBy:
    words: object = _words(order_by) if isinstance(order_by, str) else order_by
    if isinstance(words, tuple) and len(words) == 2 and all(isinstance(word, str) for word in words):
        column, direction = words
        if direction.lower() == "asc":
            return OrderBy(column, "asc")
        if direction.lower() == "desc":
            return OrderBy(column, "desc")
    raise InvalidArgument(f"order_by {order_by!r}: give a column, or a column and asc or desc", order_by=str(order_by))


def _words(text: str) -> tuple[str, str]:
    nulls = re.search(r"\s+nulls\s+(?P<place>first|last)\s*$", text, re.IGNORECASE)
    if nulls is not None and nulls["place"].lower() == "first":
        message = f"order_by {text!r}: rows without a value come last, nulls first is not offered; sql has it"
        raise InvalidArgument(message, order_by=text)
    text = text if nulls is None else text[: nulls.start()]
    column, _, direction = text.strip().rpartition(" ")
    if column and direction.lower() in ("ascending", "descending"):
        short = direction.lower().removesuffix("ending")
        raise InvalidArgument(f"order_by {text!r}: write {short} for {direction}: '{column} {short}'", order_by=text)
    return (column.strip(), direction) if column and direction.lower() in ("asc", "desc") else (text.strip(), "asc")
