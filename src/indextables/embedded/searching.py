"""`Searching` finds rows: search, count, aggregations, and how a query is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from indextables.embedded.handle import Handle
from indextables.table.arguments import check_count
from indextables.table.read import Order, aggregate_rows, count, explain_search, order_of, search, search_batches

__all__ = ["Searching"]


class Searching(Handle):
    """The methods of a table that search; none of them writes."""

    def search(
        self,
        query: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = 10,
        offset: int = 0,
        order_by: Order = None,
        highlight: Sequence[str] | None = None,
    ) -> pa.Table:
        """Search: return the rows that match a query, best first, with a column `_score`.

        Args:
            query: Words, phrases and fields: `timeout`, `message:"connection reset"`, `level:ERROR AND NOT retry`.
                Words without a field are looked for in all text columns, and any of them will do.
            columns: The columns to return; all by default.
            where: A SQL predicate that the rows must satisfy as well.
            limit: At most this many rows; None for all.
            offset: Leave out this many rows at the beginning.
            order_by: Columns instead of the score, as `"host, time desc"` or `["host", ("time", "desc")]`; then there
                is no `_score`.
            highlight: Text columns; each adds a column `_highlight_<name>`, a piece of the text as HTML in which what
                matched stands in `<em>`.

        Raises:
            QueryInvalid: The query or the predicate cannot be understood; `position` says where.
            InvalidArgument: A column is not there, or an argument is wrong.
            NotSupported: The table is another system's.
            SplitCorrupt, VersionExpired, StoreError: A file of the table is damaged, deleted or out of reach.
        """
        check_count("limit", limit)
        check_count("offset", offset)
        return self._answer(
            lambda snapshot: search(
                self._log.env,
                self._searchers,
                snapshot,
                query,
                columns=columns,
                where=self._predicate(where),
                limit=limit,
                offset=offset,
                order_by=order_of(order_by),
                highlight=highlight or (),
            )
        )

    def search_batches(
        self,
        query: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        order_by: Order = None,
        highlight: Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Search as `search` does, all matches by default, and read their rows batch by batch, as they are asked for.

        Which rows match is known at once, in some bytes for each; of their columns no more than a batch is in memory.
        Arguments and errors are those of `search`.
        """
        check_count("limit", limit)
        check_count("offset", offset)
        return self._answer(
            lambda snapshot: search_batches(
                self._log.env,
                self._searchers,
                snapshot,
                query,
                columns=columns,
                where=self._predicate(where),
                limit=limit,
                offset=offset,
                order_by=order_of(order_by),
                highlight=highlight or (),
            )
        )

    def explain(self, query: str | None, where: str | None = None) -> dict[str, Any]:
        """Tell how `search` understands a query and a predicate, and what it reads to answer them. For people.

        `conditions` lists the conditions, each with its kind, its columns and what answers it: the `index`, or the
        Parquet `columns`, which takes longer. `components` are the parts of an index that are read; `indexes` and
        `segments` count what is opened, `splits` the files of the table, `splits_loaded` those whose index is read, and
        `rows_scanned` the rows of which Parquet columns are read. `fallbacks` names each split whose index could not be
        used, with the reason; `reindex` mends it.

        `per_split` is a table with a row per file, which are asked one after the other: what spared it (`skipped_by`),
        who answered, its matches, the bytes that no cache had, and the milliseconds. Raises as `search`.
        """
        return self._answer(
            lambda snapshot: explain_search(self._log.env, self._searchers, snapshot, query, self._predicate(where))
        )

    def aggregate(
        self,
        query: str | None,
        aggregations: Mapping[str, Mapping[str, Mapping[str, Any]]],
        where: str | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Compute buckets and statistics over the rows that match, exactly.

        Args:
            query: As for `search`; None takes all rows.
            aggregations: What to compute, by name: `{"levels": {"terms": {"field": "level", "size": 10}}}`. Kinds are
                `terms`, `date_histogram`, `histogram`, `range`, `stats`, `avg`, `sum`, `min`, `max`, `value_count`,
                `cardinality` and `percentiles`. Buckets hold others below `"aggs"`; fields of structs are paths.
            where: A SQL predicate that the rows must satisfy as well.

        Raises as `search`, and InvalidArgument for an aggregation that cannot be computed.
        """
        return self._answer(
            lambda snapshot: aggregate_rows(
                self._log.env, self._searchers, snapshot, query, aggregations, self._predicate(where)
            )
        )

    def count(self, query: str | None = None, where: str | None = None) -> int:
        """Count the rows that match. Without a query and a predicate the log tells, and no data file is opened.

        Raises as `search`.
        """
        return self._answer(
            lambda snapshot: count(self._log.env, self._searchers, snapshot, query, self._predicate(where))
        )
