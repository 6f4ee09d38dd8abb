"""Divides in SELECT as predicates do: `7 / 2` is 3.5, `7 div 2` is 3, and a number divided by zero is an error.

DataFusion leaves out the remainder of whole numbers and knows no `div`. Every division of a statement is written as a
call of a function of our own, which the name of a column in the answer does not show. Pure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from indextables.sql.command import QUOTED

__all__ = ["SIGNS", "ZERO", "with_quotients", "without_quotients"]

ZERO = "Divide by zero"
"""What the error of a division by zero says, as that of DataFusion does."""
_QUOTIENT = "__quotient"
_WHOLE = "__whole_quotient"
SIGNS = {_QUOTIENT: "/", _WHOLE: "div"}
"""The operator that each of our functions stands for."""
_DIVIDES = re.compile(r"/|\bdiv\b", re.IGNORECASE)
_TOKEN = re.compile(
    rf"{QUOTED.pattern}|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[$@]?[^\W\d][\w$]*|\$\d+|::|\S", re.DOTALL
)
_SHOWN = re.compile(rf"\b(?P<name>{_QUOTIENT}|{_WHOLE})\(")
# Words that stand before a value without being a part of it; every other word may be a name or a function.
_BEFORE = frozenset(
    {"all", "and", "any", "as", "between", "by", "case", "distinct", "div", "else", "end", "escape", "except", "exists"}
    | {"filter", "from", "having", "ilike", "in", "intersect", "is", "like", "limit", "not", "offset", "on", "or"}
    | {
        "over",
        "qualify",
        "rlike",
        "select",
        "some",
        "then",
        "to",
        "union",
        "using",
        "values",
        "when",
        "where",
        "within",
    }
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_MAX_DEPTH = 100
"""DataFusion refuses a statement that is nested half as deep."""


def with_quotients(text: str) -> str:
    """`text` with a call of ours for each division in it."""
    if not _DIVIDES.search(QUOTED.sub(" ", text)):
        return text
    found = [_Token(match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)]
    reader = _Reader(text, [token for token in found if not token.text.startswith(("--", "/*"))])
    try:
        return reader.until(None) + text[reader.end :]
    except _TooDeepError:
        return text


def without_quotients(name: str) -> str:
    """The name of a column of an answer, with the divisions as they were written."""
    while found := _SHOWN.search(name):
        comma, end = _places(name, found.end())
        left, right = name[found.end() : comma].strip(), name[comma + 1 : end].strip()
        name = f"{name[: found.start()]}{left} {SIGNS[found['name']]} {right}{name[end + 1 :]}"
    return name


def _places(name: str, start: int) -> tuple[int, int]:
    """Where the first of two arguments ends, and where the second does."""
    depth, comma = 0, len(name)
    for token in _TOKEN.finditer(name, start):
        if token[0] == "," and not depth:
            comma = token.start()
        depth += (token[0] in _PAIRS) - (token[0] in _PAIRS.values())
        if depth < 0:
            return comma, token.start()
    return comma, len(name)


class _Token(NamedTuple):
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        return self.text.lower()


class _TooDeepError(Exception):
    """A statement whose parentheses nest deeper than any that runs."""


class _Reader:
    """Reads tokens from the left, and gives them back with what stood between them."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._place = 0
        self._depth = 0
        self.end = 0

    def until(self, close: str | None) -> str:
        """Everything before the token `close`, or before the end."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _TooDeepError
        parts: list[str] = []
        while (word := self._ahead()) and word != close:
            parts.append(self._term() if self._is_value() else self._take())
        self._depth -= 1
        return "".join(parts)

    def _ahead(self, by: int = 0) -> str:
        place = self._place + by
        return self._tokens[place].word if place < len(self._tokens) else ""

    def _is_value(self, by: int = 0) -> bool:
        word = self._ahead(by)
        if word == "case":
            return True
        return bool(word) and (word in _PAIRS or word[0] in "'\"`$@_." or word[0].isalnum()) and word not in _BEFORE

    def _take(self) -> str:
        token = self._tokens[self._place]
        taken = self._text[self.end : token.end]
        self._place, self.end = self._place + 1, token.end
        return taken

    def _term(self) -> str:
        """Values with `*`, `/`, `%` and `div` between them, which are computed from the left."""
        left = self._value()
        while (sign := self._ahead()) in ("*", "/", "%", "div"):
            signs = 1
            while self._ahead(signs) in ("-", "+"):
                signs += 1
            if not self._is_value(signs):
                break
            shown = self._take()
            right = "".join(self._take() for _ in range(signs - 1)) + self._value()
            if sign in ("*", "%"):
                left = f"{left}{shown}{right}"
            else:
                gap = left[: len(left) - len(left.lstrip())]
                left = f"{gap}{_QUOTIENT if sign == '/' else _WHOLE}({left.lstrip()}, {right.lstrip()})"
        return left

    def _value(self) -> str:
        word = self._ahead()
        if word == "case":
            return self._take() + self.until("end") + self._closing()
        parts = [self._bracket() if word in _PAIRS else self._take()]
        if word[0].isalpha() and self._ahead()[:1] == "'":
            # DATE '2026-01-01' and the like.
            parts.append(self._take())
        while (more := self._more()) is not None:
            parts.append(more)
        return "".join(parts)

    def _more(self) -> str | None:
        """What belongs to the value before it, if anything does."""
        word, after = self._ahead(), self._ahead(1)
        if word in ("(", "["):
            return self._bracket()
        if word in (".", "::"):
            return self._take() + (self._take() if after else "")
        if word == "over" and after != "(":
            return self._take() + (self._take() if after else "")
        if word in ("filter", "over") and after == "(":
            return self._take() + self._bracket()
        if word == "within" and after == "group" and self._ahead(2) == "(":
            return self._take() + self._take() + self._bracket()
        return None

    def _bracket(self) -> str:
        close = _PAIRS[self._ahead()]
        return self._take() + self.until(close) + self._closing()

    def _closing(self) -> str:
        return self._take() if self._ahead() else ""
