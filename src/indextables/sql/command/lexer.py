"""Cuts SQL text into tokens with positions. Pure, never raises: what it cannot read is a token `open` or `mark`.

Texts are Spark's: in single or double quotes, a backslash or a doubled quote inside. Comments (`--` to the end of the
line, `/* */`) and blanks are no tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

__all__ = ["Kind", "Token", "first_word", "tokens", "unquoted"]

Kind: TypeAlias = Literal["word", "name", "text", "number", "parameter", "mark", "open"]


class Token(msgspec.Struct, frozen=True):
    """`text` is as typed, `start` and `end` its place. `open` is a quote or comment that is never closed.

    A `word` may begin with a digit (`100M`), a `number` has digits only, with a fraction or without.
    """

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def upper(self) -> str:
        """The word as a keyword; empty for anything else."""
        return self.text.upper() if self.kind == "word" else ""


_BLANK = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)+", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<name>`(?:[^`]|``)*`)
    |(?P<open>'|"|`|/\*)
    |(?P<number>\d+(?:\.\d+)?(?![\w.]))
    |(?P<parameter>[:$][^\W\d]\w*|\?)
    |(?P<word>\w+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[01][0-7]{2}|.)|''|\"\"", re.DOTALL)


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a statement, in order, made as they are asked for; the last one may be `open`."""
    at = 0
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank is not None:
            at = blank.end()
            continue
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup == "open":
            yield Token("open", text[at:], at)
            return
        yield Token(found.lastgroup, found.group(), at)  # type: ignore[arg-type]
        at = found.end()


def first_word(text: str) -> str:
    """The first word of a statement in capitals, comments skipped; empty if it begins with something else."""
    token = next(tokens(text), None)
    return "" if token is None else token.upper


def _unescaped(escaped: str) -> str:
    """What Spark reads behind a backslash: a sign by its number, one that has a name, or itself."""
    if len(escaped) > 1:
        number = int(escaped, 8) if escaped.isdigit() else int(escaped[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    # Both keep the backslash: it is there for LIKE.
    return f"\\{escaped}" if escaped in "%_" else _ESCAPES.get(escaped, escaped)


def unquoted(token: Token) -> str:
    """What a text or a name in backticks stands for; a word is itself."""
    if token.kind == "name":
        return token.text[1:-1].replace("``", "`")
    if token.kind != "text":
        return token.text
    quote = token.text[0]

    def plain(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped is not None:
            return _unescaped(escaped)
        return quote if match.group() == quote * 2 else match.group()

    found = _ESCAPED.sub(plain, token.text[1:-1])
    # Two halves of a pair are one character, half of one is none.
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
