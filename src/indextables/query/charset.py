"""Sets of characters as sorted ranges of code points, and what Unicode says about them. Pure."""

from __future__ import annotations

import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache

import msgspec

__all__ = ["ASCII_CLASSES", "EVERY", "CharSet", "category", "chars", "span"]

_LAST = sys.maxunicode


class CharSet(msgspec.Struct, frozen=True):
    """Code points in ranges, ascending, with a gap between any two; both ends belong to a range."""

    ranges: tuple[tuple[int, int], ...] = ()

    def __contains__(self, code: int) -> bool:
        at = bisect_right(self.ranges, (code, _LAST)) - 1
        return at >= 0 and code <= self.ranges[at][1]

    def __or__(self, other: CharSet) -> CharSet:
        return _joined([*self.ranges, *other.ranges])

    def __and__(self, other: CharSet) -> CharSet:
        return ~(~self | ~other)

    def __invert__(self) -> CharSet:
        found, start = [], 0
        for low, high in self.ranges:
            if low > start:
                found.append((start, low - 1))
            start = high + 1
        if start <= _LAST:
            found.append((start, _LAST))
        return CharSet(tuple(found))

    def in_any_ascii_case(self) -> CharSet:
        """With the other case of each ASCII letter in it."""
        letters = [code for code in (*range(65, 91), *range(97, 123)) if code in self]
        return self | _joined((code ^ 32, code ^ 32) for code in letters)


def _joined(ranges: Iterable[tuple[int, int]]) -> CharSet:
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return CharSet(tuple(found))


def span(low: int, high: int) -> CharSet:
    """The code points from `low` to `high`."""
    return CharSet(((low, high),))


def chars(text: str) -> CharSet:
    """The characters of `text`."""
    return _joined((ord(char), ord(char)) for char in text)


EVERY = span(0, _LAST)
_DIGIT, _LOWER, _UPPER = span(48, 57), span(97, 122), span(65, 90)
_PUNCT = chars("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_GRAPH = _DIGIT | _LOWER | _UPPER | _PUNCT
ASCII_CLASSES = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": span(0, 127),
    "Alpha": _LOWER | _UPPER,
    "Digit": _DIGIT,
    "Alnum": _DIGIT | _LOWER | _UPPER,
    "Punct": _PUNCT,
    "Graph": _GRAPH,
    "Print": _GRAPH | chars(" "),
    "Blank": chars(" \t"),
    "Cntrl": span(0, 31) | span(127, 127),
    "XDigit": _DIGIT | span(97, 102) | span(65, 70),
    "Space": chars(" \t\n\x0b\f\r"),
}
"""The POSIX names that Java gives to sets of ASCII characters."""


def category(name: str) -> CharSet | None:
    """The characters of a general category (`Lu`) or of a group of them (`L`); None if there is none of that name."""
    found = [ranges for full, ranges in _categories().items() if full == name or full[0] == name]
    if name == "LC":
        found = [_categories()[full] for full in ("Lu", "Ll", "Lt")]
    return _joined(one for ranges in found for one in ranges) if found else None


@cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    """The ranges of every category, found by one walk over all characters."""
    found: dict[str, list[tuple[int, int]]] = {}
    start, before = 0, unicodedata.category("\0")
    for code in range(1, _LAST + 2):
        now = unicodedata.category(chr(code)) if code <= _LAST else ""
        if now != before:
            found.setdefault(before, []).append((start, code - 1))
            start, before = code, now
    return found
