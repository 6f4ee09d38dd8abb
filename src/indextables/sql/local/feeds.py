"""Finds `table_changes('t', from, to)` in a statement, and offers the changes of a table as a source of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from indextables.errors import NotSupported, QueryInvalid
from indextables.log.read import Log, Snapshot
from indextables.query.expr import Node
from indextables.sql.command import Token, moment_ms, tokens, unquoted, value_of
from indextables.sql.local.provider import Source
from indextables.table.feed import Changes, changes, columns_of_feed
from indextables.table.read import Mark, lengths_only, limited

__all__ = ["FUNCTION", "FeedCall", "FeedSource", "feed_calls", "with_feeds"]

FUNCTION = "table_changes"
_SYNTAX = f"{FUNCTION}('table', from [, to]): a version, or a time in quotes"


class FeedCall(NamedTuple):
    """One call: where it stands, the name of the table, and the ends of the range."""

    start: int
    end: int
    table: str
    first: object
    last: object | None


def feed_calls(text: str, params: Mapping[str, object] | None) -> list[FeedCall]:
    """The calls in a statement. Pure. Raises QueryInvalid (with `position`) for one that is not as it should be."""
    if FUNCTION not in text.lower():
        return []
    listed = list(tokens(text))
    found = []
    for place, token in enumerate(listed[:-1]):
        if token.upper == FUNCTION.upper() and listed[place + 1].text == "(":
            found.append(_call(listed, place, params))
    return found


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
        name = f"__{FUNCTION}{number}"
        sources[name] = feed_of(call.table, _range(call, zone))
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
            message = f"TEXTSEARCH cannot be asked of {FUNCTION}: an index holds the rows of a version, not its changes"
            raise NotSupported(message, url=self._log.url)
        asked = msgspec.structs.replace(self._asked, columns=list(columns), where=where)
        rows = iter(changes(self._log, self._pinned, asked))
        for batch in limited(rows, limit):
            yield batch.select(list(columns)) if columns else lengths_only(batch.num_rows)


def _range(call: FeedCall, zone: str) -> Changes:
    first, last = (_end(value, zone) for value in (call.first, call.last))
    return Changes(from_version=first[0], from_ms=first[1], to_version=last[0], to_ms=last[1])


def _end(value: object, zone: str) -> tuple[int | None, int | None]:
    """A version or a time in milliseconds, whichever the value is."""
    if value is None:
        return None, None
    if isinstance(value, int) and not isinstance(value, bool):
        return value, None
    return None, moment_ms(value, zone)  # type: ignore[arg-type]


def _call(listed: Sequence[Token], place: int, params: Mapping[str, object] | None) -> FeedCall:
    """The call that begins at a place: literals and parameters between commas."""
    given: list[Token] = []
    at = place + 2
    while at < len(listed) and listed[at].text != ")":
        given.append(listed[at])
        at += 1
    arguments, commas = given[::2], given[1::2]
    is_list = len(given) in {3, 5} and all(comma.text == "," for comma in commas)
    name = arguments[0] if is_list else None
    if at == len(listed) or name is None or name.kind not in {"text", "word", "name"}:
        raise QueryInvalid(f"this is not {_SYNTAX}", position=listed[place].start)
    for token in arguments[1:]:
        if token.kind not in {"text", "number", "parameter"}:
            raise QueryInvalid(f"this is not {_SYNTAX}", position=token.start)
    first, *last = (value_of(token, listed, params) for token in arguments[1:])
    return FeedCall(listed[place].start, listed[at].end, unquoted(name), first, last[0] if last else None)
