"""Offers what `table_changes('t', from, to)` stands for, the changes of a table, as a source of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
import pyarrow as pa

from indextables.errors import NotSupported
from indextables.log.read import Log, Snapshot
from indextables.query.expr import Node
from indextables.sql.command import TABLE_CHANGES, feed_calls
from indextables.sql.local.provider import Source
from indextables.table.feed import Changes, changes, columns_of_feed
from indextables.table.read import Mark, lengths_only, limited

__all__ = ["FeedSource", "with_feeds"]


def with_feeds(
    text: str,
    params: Mapping[str, object] | None,
    feed_of: Callable[[str, Changes], Source],
    zone: str = "UTC",
) -> tuple[str, dict[str, Source]]:
    """The statement with a name in the place of each call, and what these names stand for.

    `feed_of` gives the changes of a table that the statement names. Raises QueryInvalid, InvalidArgument.
    """
    sources: dict[str, Source] = {}
    edits = []
    for number, call in enumerate(feed_calls(text, params)):
        name = f"__{TABLE_CHANGES}{number}"
        first, first_ms, last, last_ms = call.ends(zone)
        asked = Changes(from_version=first, from_ms=first_ms, to_version=last, to_ms=last_ms)
        sources[name] = feed_of(call.table, asked)
        edits.append((call.start, call.end, f'"{name}"'))
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text, sources


class FeedSource:
    """The changes of a table, as rows of a SELECT."""

    def __init__(self, log: Log, pinned: Snapshot, asked: Changes) -> None:
        """Raises VersionNotFound, VersionExpired, InvalidArgument."""
        self._log = log
        self._pinned = pinned
        self._asked = asked
        self.schema = columns_of_feed(log, pinned, asked)

    def batches(
        self,
        columns: tuple[str, ...],
        where: Node | None,
        required: tuple[Mark, ...],
        marked: tuple[Mark, ...],
        limit: int | None,
        *,
        scored: bool,
    ) -> Iterator[pa.RecordBatch]:
        del scored
        if required or marked:
            message = (
                f"TEXTSEARCH cannot be asked of {TABLE_CHANGES}: an index holds the rows of a version, not its changes"
            )
            raise NotSupported(message, url=self._log.url)
        asked = msgspec.structs.replace(self._asked, columns=list(columns), where=where)
        rows = iter(changes(self._log, self._pinned, asked))
        for batch in limited(rows, limit):
            yield batch.select(list(columns)) if columns else lengths_only(batch.num_rows)
