"""Finds `table_changes('t', from, to)` in a statement. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from indextables.errors import QueryInvalid
from indextables.sql.command.context import moment_ms
from indextables.sql.command.cursor import Args
from indextables.sql.command.lexer import Token, tokens, unquoted
from indextables.sql.command.references import value_of

__all__ = ["TABLE_CHANGES", "FeedCall", "feed_calls"]

TABLE_CHANGES = "table_changes"
_NAMES = frozenset({"text", "word", "name"})
_SYNTAX = f"{TABLE_CHANGES}('table', from [, to]): a version, or a time in quotes"


class FeedCall(NamedTuple):
    """One call: where it stands, the name of the table, the ends of the range, and the places of `?` that it takes."""

    start: int
    end: int
    table: str
    first: object
    last: object | None
    marks: tuple[int, ...] = ()

    def ends(self, zone: str) -> tuple[int | None, int | None, int | None, int | None]:
        """The first version or its time in milliseconds, whichever is given, and the last. Raises InvalidArgument."""
        return *_end(self.first, zone), *_end(self.last, zone)


def feed_calls(text: str, args: Args | None, is_ours: Callable[[str], bool] = lambda _: True) -> list[FeedCall]:
    """The calls in a statement about tables of ours.

    Raises QueryInvalid (with `position`) for one that is not as it should be.
    """
    if TABLE_CHANGES not in text.lower():
        return []
    listed = list(tokens(text))
    found = []
    for place in range(len(listed) - 2):
        call, bracket, name = listed[place : place + 3]
        is_call = call.kind == "word" and call.upper == TABLE_CHANGES.upper() and bracket.text == "("
        if is_call and (name.kind not in _NAMES or is_ours(unquoted(name))):
            found.append(_call(listed, place, args))
    return found


def _end(value: object, zone: str) -> tuple[int | None, int | None]:
    """A version or a time in milliseconds, whichever the value is."""
    if value is None:
        return None, None
    if isinstance(value, int) and not isinstance(value, bool):
        return value, None
    return None, moment_ms(value, zone)  # type: ignore[arg-type]


def _call(listed: Sequence[Token], place: int, args: Args | None) -> FeedCall:
    """The call that begins at a place: literals and parameters between commas."""
    given: list[Token] = []
    at = place + 2
    while at < len(listed) and listed[at].text != ")":
        given.append(listed[at])
        at += 1
    arguments, commas = given[::2], given[1::2]
    is_list = len(given) in {3, 5} and all(comma.text == "," for comma in commas)
    name = arguments[0] if is_list else None
    if at == len(listed) or name is None or name.kind not in _NAMES:
        raise QueryInvalid(f"this is not {_SYNTAX}", position=listed[place].start)
    for token in arguments[1:]:
        if token.kind not in {"text", "number", "parameter"}:
            raise QueryInvalid(f"this is not {_SYNTAX}", position=token.start)
    first, *last = (value_of(token, listed, args) for token in arguments[1:])
    marks = [token.start for token in listed if token.kind == "parameter" and token.text == "?"]
    taken = tuple(marks.index(token.start) for token in arguments[1:] if token.start in marks)
    return FeedCall(listed[place].start, listed[at].end, unquoted(name), first, last[0] if last else None, taken)
