"""Declares the parts of a search query, as data: `language.py` makes them, `resolve.py` turns them into a plan.

`at` is the position of a part in the text that it was read from.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Operator = Literal["or", "and"]
Occur = Literal["must", "should", "must_not"]
Path = tuple[str, ...]


class Field(msgspec.Struct, frozen=True):
    """What stands before the colon, cut at its dots; an escaped dot does not cut."""

    parts: Path
    at: int


class Word(msgspec.Struct, frozen=True):
    """One bare or quoted text. Several terms after analysis are a phrase with this slop."""

    field: Field | None
    text: str
    at: int
    slop: int = 0
    quoted: bool = False


class Prefix(msgspec.Struct, frozen=True):
    """`foo*`, or `"foo ba"*` where the last term is a beginning."""

    field: Field | None
    text: str
    at: int
    quoted: bool = False


class Wildcard(msgspec.Struct, frozen=True):
    """`par?uet`, `*uet`, `p*t`: texts and, between them, `?` for one character and `*` for any number of them."""

    field: Field | None
    pieces: tuple[Piece, ...]
    at: int

    @property
    def begins_open(self) -> bool:
        """True if any term may match, whatever it begins with."""
        return self.pieces[0].is_wild


class Piece(msgspec.Struct, frozen=True):
    """A text, or one of the two signs."""

    text: str
    is_wild: bool = False


class Fuzzy(msgspec.Struct, frozen=True):
    """Terms within `distance` edits (a swap of neighbours is one)."""

    field: Field | None
    text: str
    distance: int
    at: int


class Bound(msgspec.Struct, frozen=True):
    """One end of a range, as it was written."""

    text: str
    inclusive: bool
    at: int


class Range(msgspec.Struct, frozen=True):
    """`None` is an open end."""

    field: Field | None
    lower: Bound | None
    upper: Bound | None
    at: int


class OneOf(msgspec.Struct, frozen=True):
    """Any of these values."""

    field: Field | None
    values: tuple[tuple[str, int], ...]
    at: int


class Regex(msgspec.Struct, frozen=True):
    """Terms that the pattern matches as a whole."""

    field: Field | None
    pattern: str
    at: int


class Exists(msgspec.Struct, frozen=True):
    """Rows with a value."""

    field: Field
    at: int


class Everything(msgspec.Struct, frozen=True):
    """Every row."""

    at: int


class Clause(msgspec.Struct, frozen=True):
    """One part of a Boolean."""

    occur: Occur
    node: Node


class Boolean(msgspec.Struct, frozen=True):
    """All `must`, no `must_not`; and, where nothing must, at least one `should` (if there is one)."""

    clauses: tuple[Clause, ...]


class Boost(msgspec.Struct, frozen=True):
    """The score times `factor`."""

    node: Node
    factor: float


Leaf = Word | Prefix | Wildcard | Fuzzy | Range | OneOf | Regex | Exists
Node = Leaf | Everything | Boolean | Boost
