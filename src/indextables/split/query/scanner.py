"""`Scanner` takes words, quoted texts and names out of the text of a query, and knows where it stands."""

from __future__ import annotations

import re
from typing import NoReturn

from indextables.errors import QueryInvalid
from indextables.split.query.ast import Field, Piece

SPACE = " \t\r\n\f\v\u3000"
ONE, MANY = Piece("?", is_wild=True), Piece("*", is_wild=True)

_ENDS_WORD = frozenset(SPACE + '()[]{}^"')
# Runs of characters that mean nothing but themselves, in a word, in the name of a field and in quotes.
_PLAIN_IN_WORD = re.compile(f'[^{re.escape(SPACE)}()\\[\\]{{}}^"*?\\\\&|]+')
_PLAIN_IN_NAME = re.compile(r"[^:.\\]+")
_PLAIN_IN_QUOTES = re.compile(r"""[^"'\\]+""")
_FIELD_NAME = re.compile(r"""(?:\\.|[^\s()\[\]{}^":\\*~])*:(?!//)""", re.DOTALL)


def invalid(query: str, position: int, message: str) -> QueryInvalid:
    """The error for a fault at `position`, with the place shown in its text."""
    near = query[max(0, position - 20) : position + 20].replace("\n", " ")
    return QueryInvalid(f"{message}, at position {position}, near {near!r}", query=query[:1000], position=position)


class Scanner:
    """A text and a place in it. What it takes, it moves behind."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise QueryInvalid, for a fault here or at a place."""
        raise invalid(self.text, self.pos if at is None else at, message)

    def peek(self) -> str:
        """The character that stands here; empty at the end."""
        return self.text[self.pos : self.pos + 1]

    def skip_space(self) -> None:
        """Move behind white space."""
        while self.peek() and self.peek() in SPACE:
            self.pos += 1

    def run(self, plain: re.Pattern[str]) -> str:
        """Take the characters that stand here and are `plain`."""
        found = plain.match(self.text, self.pos)
        if found is None:
            return ""
        self.pos = found.end()
        return found[0]

    def keyword(self, word: str) -> bool:
        """Takes `word` if it stands here by itself."""
        end = self.pos + len(word)
        if not self.text.startswith(word, self.pos) or (end < len(self.text) and self.text[end] not in SPACE + "()"):
            return False
        self.pos = end
        return True

    def quoted_text(self) -> str:
        """Take a text in quotes."""
        quote, at = self.peek(), self.pos
        self.pos += 1
        parts: list[str] = []
        while self.peek() != quote:
            if not self.peek():
                self.fail("this quote is never closed", at)
            parts.append(self.run(_PLAIN_IN_QUOTES) or self.character())
        self.pos += 1
        return "".join(parts)

    def character(self) -> str:
        """Take one character, or the one behind a backslash."""
        if self.peek() == "\\":
            self.pos += 1
            if not self.peek():
                self.fail("a backslash needs a character behind it", self.pos - 1)
        self.pos += 1
        return self.text[self.pos - 1]

    def pieces(self) -> list[Piece]:
        """A word up to white space or a bracket, cut at its wildcards."""
        found: list[Piece] = []
        text = ""
        while self.peek() and self.peek() not in _ENDS_WORD:
            if self.peek() in ("*", "?"):
                found += [Piece(text)] if text else []
                wild = Piece(self.peek(), is_wild=True)
                # Two stars say no more than one.
                found += [] if wild == MANY and found and found[-1] == MANY else [wild]
                self.pos, text = self.pos + 1, ""
                if found == [MANY] and self.text.startswith(":*", self.pos):
                    return found
                continue
            if self.text.startswith(("&&", "||"), self.pos):
                sign = self.text[self.pos : self.pos + 2]
                self.fail(f"{sign} stands between two clauses, with a space on both sides; quote it to search for it")
            text += self.run(_PLAIN_IN_WORD) or self.character()
        return [*found, Piece(text)] if text else found

    def bare(self, stops: str | frozenset[str] = _ENDS_WORD) -> tuple[str, bool]:
        """A word up to white space or a bracket, and whether it ends with an open `*`."""
        parts: list[str] = []
        while self.peek() and self.peek() not in stops:
            if self.peek() == "*":
                following = self.text[self.pos + 1 : self.pos + 2]
                if following and following not in stops:
                    self.fail("* stands alone or at the end of a value here; write \\* for the sign itself")
                self.pos += 1
                return "".join(parts), True
            parts.append(self.character())
        return "".join(parts), False

    def field_name(self) -> Field | None:
        """Takes `name:` if it stands here."""
        if _FIELD_NAME.match(self.text, self.pos) is None:
            return None
        at = self.pos
        parts: list[str] = [""]
        while self.peek() != ":":
            if self.peek() == ".":
                parts.append("")
                self.pos += 1
            else:
                parts[-1] += self.run(_PLAIN_IN_NAME) or self.character()
        self.pos += 1
        if not all(parts):
            self.fail("a field name is missing", at)
        return Field(tuple(parts), at)
