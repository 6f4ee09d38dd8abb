"""Which words of a text did the query mean? Places in the text as it is in the rows, and snippets around them.

The text is analysed again with the column's own analyzer, so that every query kind marks what it matched: terms,
phrases (only where the words stand in their order), prefixes, fuzzy words, regular expressions, ranges and sets.
What stands below a negation marks nothing.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from indextables.split.index import Token, analyzer
from indextables.split.query import (
    Bool,
    Boosted,
    Near,
    Plan,
    TermFuzzy,
    TermPrefix,
    TermRange,
    TermRegex,
    Terms,
    TermSet,
    Unscored,
)
from indextables.split.search.columns import term_matches

Place = tuple[int, int]
_OF_TERMS = Terms | Near | TermPrefix | TermFuzzy | TermRegex | TermRange | TermSet


class Highlighter(msgspec.Struct, frozen=True):
    """Marks one column (or a path inside a nested one) for one plan."""

    leaves: tuple[_OF_TERMS, ...]
    before: str = "<em>"
    after: str = "</em>"
    max_chars: int = 160

    def places(self, text: str | None) -> list[Place]:
        """The characters [start, end) of each marked word, in order, neighbours that overlap joined."""
        if not text or not self.leaves:
            return []
        found: set[Place] = set()
        for leaf in self.leaves:
            found.update(_of_leaf(leaf, text))
        return _joined(sorted(found))

    def marked(self, text: str | None) -> str | None:
        """The whole text as HTML with the marks; None if there is none."""
        if text is None:
            return None
        return self._marked(text, self.places(text), 0, len(text))

    def snippet(self, text: str | None) -> str | None:
        """About `max_chars` characters around most of the marks, as HTML; the beginning if nothing is marked."""
        if text is None:
            return None
        places = self.places(text)
        start, end = _window(text, places, self.max_chars)
        return self._marked(text, [p for p in places if p[0] >= start and p[1] <= end], start, end)

    def _marked(self, text: str, places: Sequence[Place], start: int, end: int) -> str:
        parts: list[str] = []
        at = start
        for left, right in places:
            parts += [html.escape(text[at:left]), self.before, html.escape(text[left:right]), self.after]
            at = right
        parts.append(html.escape(text[at:end]))
        return "".join(parts)


def highlighter(
    plan: Plan,
    column: str,
    path: tuple[str, ...] = (),
    *,
    before: str = "<em>",
    after: str = "</em>",
    max_chars: int = 160,
) -> Highlighter:
    """What to mark in a column for a plan."""
    name = column.lower()
    wanted = [leaf for leaf in _positive(plan) if leaf.target.column.lower() == name and leaf.target.path == path]
    return Highlighter(tuple(dict.fromkeys(wanted)), before, after, max_chars)


def snippets(plan: Plan, rows: pa.Table, column: str, *, max_chars: int = 160) -> pa.Array:
    """A snippet of each row's text. A list of texts gives the snippet of its first marked text."""
    marker = highlighter(plan, column, max_chars=max_chars)
    return _texts([_snippet_of(marker, value) for value in rows.column(column).to_pylist()])


def _snippet_of(marker: Highlighter, value: object) -> str | None:
    if isinstance(value, list):
        texts = [text for text in value if isinstance(text, str)]
        value = next((text for text in texts if marker.places(text)), texts[0] if texts else None)
    return marker.snippet(value) if isinstance(value, str) else None


def _positive(plan: Plan) -> Iterator[_OF_TERMS]:
    stack: list[Plan] = [plan]
    while stack:
        node = stack.pop()
        if isinstance(node, Bool):
            stack.extend((*node.must, *node.should))
        elif isinstance(node, Boosted | Unscored):
            stack.append(node.plan)
        elif isinstance(node, _OF_TERMS):
            yield node


def _of_leaf(leaf: _OF_TERMS, text: str) -> Iterator[Place]:
    used = leaf.target.analyzer or analyzer("raw")
    tokens = used.tokens(text)
    if (isinstance(leaf, Terms) and len(leaf.terms) > 1) or isinstance(leaf, Near):
        yield from _in_phrase(leaf.terms, leaf.slop, tokens)
    elif isinstance(leaf, TermPrefix) and leaf.before:
        full = {t.text for t in tokens if t.text.startswith(leaf.prefix)}
        for term in full:
            yield from _in_phrase((*leaf.before, (leaf.position, term)), 0, tokens)
    elif isinstance(leaf, Terms):
        yield from ((token.start, token.end) for token in tokens if token.text == leaf.terms[0][1])
    else:
        # Each distinct word is looked at once: a text repeats its words, and a pattern costs more than a lookup.
        meant = {word for word in {token.text for token in tokens} if term_matches(leaf, word)}
        yield from ((token.start, token.end) for token in tokens if token.text in meant)


def _in_phrase(terms: Sequence[tuple[int, str]], slop: int, tokens: Sequence[Token]) -> Iterator[Place]:
    """The words of every window in which all terms are found at most `slop` moves from their order."""
    wanted: dict[str, list[int]] = {}
    for number, (_, term) in enumerate(terms):
        wanted.setdefault(term, []).append(number)
    shifts = sorted(
        (token.position - terms[number][0], number, token.start, token.end)
        for token in tokens
        for number in wanted.get(token.text, ())
    )
    inside: Counter[int] = Counter()
    end = told = 0
    for first, (low, number, _, _) in enumerate(shifts):
        while end < len(shifts) and shifts[end][0] - low <= slop:
            inside[shifts[end][1]] += 1
            end += 1
        if len(inside) == len(terms):
            yield from (entry[2:] for entry in shifts[max(first, told) : end])
            told = end
        inside[number] -= 1
        if not inside[number]:
            del inside[number]


def _joined(places: Sequence[Place]) -> list[Place]:
    found: list[Place] = []
    for start, end in places:
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _window(text: str, places: Sequence[Place], length: int) -> Place:
    """The part of a text with most marks, cut at blanks where there are any near."""
    if len(text) <= length:
        return 0, len(text)
    most, start = 0, 0
    ends = [right for _, right in places]
    for number, (left, _) in enumerate(places):
        inside = bisect_right(ends, left + length) - number
        if inside > most:
            # A little of what stands before the first mark helps reading.
            most, start = inside, max(0, left - length // 8)
    start = max(0, min(start, len(text) - length))
    end = start + length
    if start > 0:
        blank = text.find(" ", start, start + 20)
        first = min((left for left, _ in places if left >= start), default=end)
        start = blank + 1 if 0 <= blank < first else start
    if end < len(text):
        blank = text.rfind(" ", end - 20, end)
        last = max((right for _, right in places if right <= end), default=start)
        end = blank if blank >= last and blank > start else end
    return start, end


def _texts(values: Sequence[str | None]) -> pa.Array:
    """A string column through its buffers: pa.array would import pandas."""
    encoded = [b"" if value is None else value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    valid = np.packbits(np.array([value is not None for value in values], dtype=bool), bitorder="little")
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)), pa.py_buffer(valid.tobytes())
    )
