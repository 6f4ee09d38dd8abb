"""Offers what `table_changes('t', from, to)` stands for, the changes of a table, as a DataFrame in a statement."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from indextables.errors import NotSupported
from indextables.spark.table import IndexTable
from indextables.sql.command import TABLE_CHANGES, FeedCall, TableName, feed_calls, keeps_text, tokens
from indextables.sql.spark.opened import kept

if TYPE_CHECKING:
    from indextables.spark.session import DataFrame
    from indextables.sql.spark.session import SessionContext

__all__ = ["with_feeds"]

_TEMPORARY = frozenset({"TEMP", "TEMPORARY"})
_FOR_ALL = (
    f"a view of the catalog cannot keep {TABLE_CHANGES}, whose rows are those of this session: "
    "CREATE TEMPORARY VIEW, or read the changes where you use them"
)


def with_feeds(
    context: SessionContext, text: str, args: Any, given: Mapping[str, Any]
) -> tuple[str, Any, dict[str, DataFrame]] | None:
    """The statement with `{name}` in the place of each call about a table of ours, and what the names stand for.

    Between them stand the values that the statement still takes; `given` are the names that it has already. None where
    there is no such call. Raises QueryInvalid, InvalidArgument, NotSupported, LogError,
    VersionNotFound, VersionExpired.
    """
    calls = feed_calls(text, args, lambda name: context.means(_target(name)))
    if not calls:
        return None
    is_kept = keeps_text(text)
    if is_kept and _TEMPORARY.isdisjoint(token.upper for token in tokens(text)):
        raise NotSupported(_FOR_ALL, query=text)
    frames: dict[str, DataFrame] = {}
    pieces, at = [], 0
    for call in calls:
        frame = _changes(context, call)
        pieces.append(text[at : call.start])
        if is_kept:
            pieces.append(kept(frame))
        else:
            name = _unused(given, frames)
            frames[name] = frame
            pieces.append(name)
        at = call.end
    pieces.append(text[at:])
    if not is_kept:
        # Braces of the statement itself are doubled where it had no names.
        pieces[::2] = pieces[::2] if given else [_escaped(piece) for piece in pieces[::2]]
        pieces[1::2] = ["{" + name + "}" for name in pieces[1::2]]
    return "".join(pieces), _left(args, {place for call in calls for place in call.marks}), frames


def _changes(context: SessionContext, call: FeedCall) -> DataFrame:
    target = _target(call.table)
    table = (IndexTable.forPath if target.is_path else IndexTable.forName)(context.spark, target.text)
    first, first_ms, last, last_ms = call.ends(context.time_zone)
    return table.changes(first, last, fromTimestamp=first_ms, toTimestamp=last_ms)


def _target(name: str) -> TableName:
    return TableName(name, is_path="/" in name)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _unused(*names: Collection[str]) -> str:
    number = 0
    while any(f"__{TABLE_CHANGES}{number}" in listed for listed in names):
        number += 1
    return f"__{TABLE_CHANGES}{number}"


def _left(args: Any, taken: Collection[int]) -> Any:
    """The values by place that the statement still takes."""
    if not taken or isinstance(args, Mapping):
        return args
    return [value for place, value in enumerate(args) if place not in taken] or None
