r"""Which texts match a Java pattern? As `Matcher.find` answers, in time linear in the text.

Arrow's RE2 answers nearly all rows. It does not know Java's line terminators and takes only ASCII letters for words:
texts in which that matters are run through an automaton of our own. Both are built from one tree.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Any

import pyarrow as pa

from indextables.lazy import pc
from indextables.query.charset import EVERY, CharSet
from indextables.query.java_pattern import Assert, Chars, Choice, PatternRefused, Repeat, Sequence, Tree, read_pattern

__all__ = ["JavaPattern", "java_pattern"]

MAX_STATES = 10_000
_MAX_HELD = 1_000_000
"""Numbers of states in all sets that are remembered; then everything is forgotten, and learned anew."""
_NEVER = r"[^\x00-\x{10FFFF}]"
_TERMINATED = "[\\n\\r\\x{85}\\x{2028}\\x{2029}]\\z"


@lru_cache(maxsize=256)
def java_pattern(pattern: str) -> JavaPattern:
    """The pattern, ready to match. Raises PatternRefused."""
    return JavaPattern(pattern)


class JavaPattern:
    """One pattern, read once."""

    def __init__(self, pattern: str) -> None:
        tree = read_pattern(pattern)
        self._automaton = Automaton(tree)
        kinds = {part.kind for part in self._automaton.asserts}
        self._lines = not kinds.isdisjoint({"line_start", "line_end"})
        self._words = "word" in kinds
        self._last = "last" in kinds
        self._re2: str | None = _as_re2(tree)
        try:
            pc.match_substring_regex(pa.array([""]), self._re2)
        except pa.ArrowInvalid:
            # Too large for RE2's memory.
            self._re2 = None

    def matches(self, values: pa.Array) -> pa.Array:
        """True, false or null for each text."""
        if self._re2 is None or self._lines:
            return self._slowly(values)
        found = pc.match_substring_regex(values, self._re2)
        odd = None
        if self._words:
            odd = pc.invert(pc.string_is_ascii(values))
        if self._last:
            ends = pc.match_substring_regex(values, _TERMINATED)
            odd = ends if odd is None else pc.or_(odd, ends)
        if odd is None or not pc.any(odd, min_count=0).as_py():
            return found
        return pc.replace_with_mask(found, pc.fill_null(odd, False), self._slowly(values.filter(odd)))  # noqa: FBT003

    def _slowly(self, values: pa.Array) -> pa.Array:
        found = [None if text is None else self._automaton.finds(text) for text in values.to_pylist()]
        return pa.array(found, pa.bool_())


def _as_re2(tree: Tree) -> str:
    match tree:
        case Chars(chars=found):
            return _class(found)
        case Assert(kind=kind):
            return {"start": r"\A", "word": r"\b"}.get(kind, r"\z")
        case Sequence(parts=parts):
            return "".join(map(_as_re2, parts))
        case Choice(parts=parts):
            return f"(?:{'|'.join(map(_as_re2, parts))})"
        case Repeat(part=part, least=least, most=most):
            inner = _as_re2(part)
            if most == 0 or not inner:
                return ""
            return f"(?:{inner}){{{least},{'' if most is None else most}}}"


def _class(found: CharSet) -> str:
    if not found.ranges:
        return _NEVER
    if found == EVERY:
        return "(?s:.)"
    return "[" + "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in found.ranges) + "]"


class Automaton:
    """States of a nondeterministic automaton, walked as sets of states that are remembered.

    A state is `(kind, value, next states)`: `set` reads a character of set `value`, `assert` checks a place, `split`
    goes on without either. State 0 is the end.
    """

    def __init__(self, tree: Tree) -> None:
        self.asserts: list[Assert] = []
        self._sets: list[CharSet] = []
        self._numbers: dict[CharSet, int] = {}
        self._states: list[tuple[str, int, list[int]]] = [("end", 0, [])]
        self._start = self._build(tree, 0)
        self._symbols: dict[str, tuple[bool, ...]] = {}
        self._closed: dict[tuple[frozenset[int], int], tuple[frozenset[int], bool]] = {}
        self._steps: dict[tuple[frozenset[int], tuple[bool, ...]], frozenset[int]] = {}
        self._held = 0

    def finds(self, text: str) -> bool:
        """True if any part of `text` matches."""
        marks = self._marks(text)
        now: frozenset[int] = frozenset()
        for at in range(len(text) + 1):
            open_, done = self._closure(now, marks[at] if marks else 0)
            if done:
                return True
            if at < len(text):
                now = self._step(open_, text[at])
        return False

    def _add(self, kind: str, value: int, after: list[int]) -> int:
        if len(self._states) >= MAX_STATES:
            raise PatternRefused("its repetitions make it too large: use smaller counts")
        self._states.append((kind, value, after))
        return len(self._states) - 1

    def _build(self, tree: Tree, after: int) -> int:
        """The state from which `tree` leads to `after`."""
        match tree:
            case Chars(chars=found):
                if found not in self._numbers:
                    self._numbers[found] = len(self._sets)
                    self._sets.append(found)
                return self._add("set", self._numbers[found], [after])
            case Assert():
                if tree not in self.asserts:
                    self.asserts.append(tree)
                return self._add("assert", self.asserts.index(tree), [after])
            case Sequence(parts=parts):
                for part in reversed(parts):
                    after = self._build(part, after)
                return after
            case Choice(parts=parts):
                return self._add("split", 0, [self._build(part, after) for part in parts])
            case Repeat(part=part, least=least, most=most):
                return self._repeat(part, least, most, after)

    def _repeat(self, part: Tree, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._add("split", 0, [])
            self._states[loop][2].extend([self._build(part, loop), after])
            start = loop
        else:
            start = after
            for _ in range(most - least):
                start = self._add("split", 0, [self._build(part, start), after])
        for _ in range(least):
            start = self._build(part, start)
        return start

    def _closure(self, now: frozenset[int], marks: int) -> tuple[frozenset[int], bool]:
        """The states that read a character next, a match beginning here included; and whether the end is reached."""
        known = self._closed.get((now, marks))
        if known is not None:
            return known
        seen: set[int] = set()
        stack = [self._start, *now]
        while stack:
            state = stack.pop()
            if state in seen:
                continue
            seen.add(state)
            kind, value, after = self._states[state]
            if kind == "split" or (kind == "assert" and marks >> value & 1):
                stack.extend(after)
        open_ = frozenset(state for state in seen if self._states[state][0] == "set")
        self._hold(len(now) + len(open_))
        self._closed[now, marks] = open_, 0 in seen
        return open_, 0 in seen

    def _step(self, open_: frozenset[int], char: str) -> frozenset[int]:
        symbol = self._symbols.get(char)
        if symbol is None:
            symbol = self._symbols[char] = tuple(ord(char) in found for found in self._sets)
        known = self._steps.get((open_, symbol))
        if known is None:
            known = frozenset(self._states[state][2][0] for state in open_ if symbol[self._states[state][1]])
            self._hold(len(known) + len(symbol))
            self._steps[open_, symbol] = known
        return known

    def _hold(self, more: int) -> None:
        """Make room for a set of so many states."""
        self._held += more + 1
        if self._held > _MAX_HELD:
            self._closed, self._steps, self._symbols, self._held = {}, {}, {}, more + 1

    def _marks(self, text: str) -> list[int]:
        """Which of the assertions hold, one bit each, at every place of `text`; empty if there are none."""
        if not self.asserts:
            return []
        marks = [0] * (len(text) + 1)
        for number, wanted in enumerate(self.asserts):
            for at in _places(wanted, text):
                marks[at] |= 1 << number
        return marks


def _places(wanted: Assert, text: str) -> Any:
    size = len(text)
    match wanted.kind:
        case "start":
            return [0]
        case "end":
            return [size]
        case "last":
            return {size, _before_last(text, unix=wanted.unix)}
        case "line_start":
            behind = (at for at in range(1, size) if _is_break(text, at - 1, unix=wanted.unix))
            return [*([0] if size else []), *behind]
        case "line_end":
            ahead = (at for at in range(size) if _ends_line(text, at, unix=wanted.unix))
            return [*ahead, size]
        case _:
            words = _words(text)
            return [at for at in range(size + 1) if words[at] != words[at + 1]]


def _before_last(text: str, *, unix: bool) -> int:
    if unix:
        return len(text) - text.endswith("\n")
    if text.endswith("\r\n"):
        return len(text) - 2
    return len(text) - text.endswith(("\n", "\r", "\x85", "\u2028", "\u2029"))


def _is_break(text: str, at: int, *, unix: bool) -> bool:
    """True if a line ends with the character at `at`."""
    if unix:
        return text[at] == "\n"
    return text[at] in "\n\x85\u2028\u2029" or (text[at] == "\r" and text[at + 1 : at + 2] != "\n")


def _ends_line(text: str, at: int, *, unix: bool) -> bool:
    """True if a line terminator begins at `at`."""
    if unix:
        return text[at] == "\n"
    return text[at] in "\r\x85\u2028\u2029" or (text[at] == "\n" and text[at - 1 : at] != "\r")


def _words(text: str) -> list[bool]:
    """For each character, with one more before and one behind, whether Java takes it for part of a word."""
    found = [False]
    based = False
    for char in text:
        kind = unicodedata.category(char)
        if kind != "Mn":
            based = kind[0] == "L" or kind == "Nd"
        found.append(based or char == "_")
    return [*found, False]
