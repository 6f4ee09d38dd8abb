"""Snapshots as sources of SQL: scans where no search is asked for, row sets of the index where one is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CommandSyntaxError, InvalidArgument, LimitExceeded, NotSupported, QueryInvalid
from indextables.log.read import Log, Snapshot
from indextables.log.wire import key_of
from indextables.query.expr import Node
from indextables.sql.command import parse_command
from indextables.sql.local.engine import run
from indextables.sql.local.provider import Source
from indextables.table.read import (
    Mark,
    MarkedRows,
    Searchers,
    count_foreign,
    counted_rows,
    lengths_only,
    marked_batches,
    plain_schema,
    prune_files,
    scan_foreign,
    scan_table,
)

if TYPE_CHECKING:
    from indextables.foreign import ForeignSnapshot
    from indextables.table.feed import Changes

__all__ = ["ForeignRows", "SnapshotSource", "select"]

OWN_NAME = "t"


def select(
    text: str,
    own: Source,
    others: Mapping[str, Source],
    *,
    params: Mapping[str, object] | None = None,
    options: opt.Options,
) -> pa.Table:
    """The answer to a SELECT over pinned snapshots: `own` is called t, each of the others by its name.

    Raises InvalidArgument for a name given twice, NotSupported for a command, and what `engine.run`
    raises.
    """
    named: dict[str, Source] = {OWN_NAME: own}
    for name, source in others.items():
        if name.lower() in named:
            raise InvalidArgument(f"two tables are called {name!r} (the table itself is {OWN_NAME})", name=name)
        named[name.lower()] = source
    from indextables.sql.local.feeds import with_feeds

    statement, feeds = with_feeds(text, params, lambda name, asked: _feed(named, name, asked), options[opt.TIME_ZONE])
    try:
        return run(
            statement, {**named, **feeds}, params=params, memory_limit=options[opt.SQL_MEMORY_LIMIT], names=list(named)
        )
    except QueryInvalid as fault:
        if not _is_command(text):
            raise
        message = (
            "this is a command, and sql() of a table answers queries: call the method of that name, or run the text "
            f"with indextables.LocalSession({{{OWN_NAME!r}: path}}).run(text), or with `indextables sql`"
        )
        raise NotSupported(message, query=text) from fault


def _feed(named: Mapping[str, Source], name: str, asked: Changes) -> Source:
    """The changes of one of the tables. Raises InvalidArgument, NotSupported."""
    source = named.get(name.lower())
    if source is None:
        raise InvalidArgument(f"there is no table {name!r} here; the tables are {', '.join(named)}", name=name)
    if not isinstance(source, SnapshotSource):
        raise NotSupported(f"{name} is another system's table, whose changes are not read here", name=name)
    return source.changes(asked)


class SnapshotSource:
    """One snapshot. `searchers` are asked for one only if the statement searches."""

    def __init__(self, log: Log, snapshot: Snapshot, searchers: Searchers) -> None:
        self._log = log
        self._env = log.env
        self._snapshot = snapshot
        self._searchers = searchers

    @property
    def schema(self) -> pa.Schema:
        return plain_schema(self._snapshot.schema, self._snapshot.schema.names)

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
        if required or marked:
            asked = MarkedRows(columns, required, marked, scored)
            searcher = self._searchers.of(self._snapshot)
            keys = None if where is None or required else self._keys(where)
            return marked_batches(searcher, asked, self._snapshot.version, where=where, keys=keys)
        if not columns and where is None:
            counted = counted_rows(self._snapshot)
            if counted is not None:
                return iter([lengths_only(counted)])
        return iter(scan_table(self._env, self._snapshot, columns, where, limit))

    def changes(self, asked: Changes) -> Source:
        """What versions did to the rows, up to this one by default."""
        from indextables.sql.local.feeds import FeedSource

        return FeedSource(self._log, self._snapshot, asked)

    def _keys(self, where: Node) -> set[str]:
        """Those of the splits that may hold what is wanted."""
        paths = prune_files(self._snapshot, where)["path"].to_pylist()
        return {key_of(path, self._env.store.url) for path in paths}


class ForeignRows:
    """One version of another system's table. `searched` gives the same rows where they can be searched."""

    def __init__(self, env: Env, snapshot: ForeignSnapshot, searched: Callable[[], Source]) -> None:
        self._env = env
        self._snapshot = snapshot
        self._searched = searched

    @property
    def schema(self) -> pa.Schema:
        from indextables.foreign import plain_field

        return pa.schema([plain_field(field) for field in self._snapshot.schema])

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
        if required or marked:
            return self._searched().batches(columns, where, required, marked, limit, scored=scored)
        if not columns and where is None:
            return iter([lengths_only(count_foreign(self._env, self._snapshot, None))])
        return iter(scan_foreign(self._env, self._snapshot, columns, where, limit))


def _is_command(text: str) -> bool:
    """True for what a session would take for a command, well said or not."""
    try:
        return parse_command(text) is not None
    except (CommandSyntaxError, LimitExceeded):
        return True
