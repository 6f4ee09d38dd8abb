"""Walks through the tokens of one command, and says what was expected where something else comes. Pure."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from indextables.errors import CommandSyntaxError, InvalidArgument
from indextables.sql.command.lexer import Token, unquoted
from indextables.sql.command.statements import TableName
from indextables.table.requests import Moment

__all__ = ["KEYWORDS", "Args", "Cursor", "literal"]

KEYWORDS = frozenset({"INDEXTABLE", "INDEXTABLES", "INDEXFILES"})
"""The word that makes a command ours; each may stand for the others."""

Args = Mapping[str, object] | Sequence[object]

_NOT_A_NAME = frozenset({"WHERE", "FROM", "TO", "AT", "FOR", "OLDER", "DRY", "SET"})
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_MOST = 2**63
_PAIRS = {"(": ")", "[": "]", "CASE": "END"}
"""What a predicate may open, and what closes it."""


class Cursor:
    """Reads the tokens of `text` one after the other; `syntax` is shown with every fault."""

    def __init__(self, text: str, found: Sequence[Token], args: Args | None, syntax: str) -> None:
        self.text = text
        self.syntax = syntax
        self._tokens = list(found)
        self._at = 0
        self._args: Args = args if args is not None else {}
        marks = (token for token in self._tokens if token.kind == "parameter" and token.text == "?")
        self._places = {token.start: number for number, token in enumerate(marks)}

    # Looking

    @property
    def token(self) -> Token | None:
        """What comes next; None at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    @property
    def position(self) -> int:
        """Where the next token stands, or the end."""
        return len(self.text) if self.token is None else self.token.start

    @property
    def last_end(self) -> int:
        """Where the token that was taken last ends."""
        return self._tokens[self._at - 1].end if self._at else 0

    def ahead(self, count: int) -> Token | None:
        """The token so many places after the next one."""
        place = self._at + count
        return self._tokens[place] if place < len(self._tokens) else None

    def sees(self, *words: str) -> bool:
        """True if these keywords come next; a word may be several joined by `|`."""
        ahead = self._tokens[self._at : self._at + len(words)]
        return len(ahead) == len(words) and all(t.upper in w.split("|") for t, w in zip(ahead, words, strict=True))

    def accept(self, *words: str) -> bool:
        """Take these keywords if they come next."""
        found = self.sees(*words)
        if found:
            self._at += len(words)
        return found

    def accept_keyword(self) -> bool:
        """Take INDEXTABLE, INDEXTABLES or INDEXFILES."""
        return self.accept("|".join(KEYWORDS))

    def accept_mark(self, mark: str) -> bool:
        """Take a sign such as `(`."""
        token = self.token
        found = token is not None and token.kind == "mark" and token.text == mark
        if found:
            self._at += 1
        return found

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            for word in words:
                if not self.accept(word):
                    self.fail(f"{word.replace('|', ' or ')}")

    def expect_mark(self, mark: str) -> None:
        if not self.accept_mark(mark):
            self.fail(f"{mark!r}")

    def end(self, *clauses: str) -> None:
        """Nothing may follow but `;`."""
        while self.accept_mark(";"):
            pass
        if self.token is not None:
            self.fail(f"{', '.join(clauses)} or the end" if clauses else "the end")

    # Taking values

    def target(self) -> TableName:
        """A path in quotes, `` indextables.`path` ``, or a name."""
        token = self.token
        if token is None or token.upper in _NOT_A_NAME:
            self.fail("a path in quotes or the name of a table")
        if token.kind in ("text", "parameter"):
            return TableName(self.string("a path in quotes or the name of a table"), is_path=True, position=token.start)
        parts = self.dotted("a path in quotes or the name of a table")
        last = self._tokens[self._at - 1]
        if self.token is not None and self.token.kind == "mark" and self.token.text in ":/-":
            self.fail("a path is written in quotes: 's3://bucket/table'; here is", bare=True)
        if len(parts) == 2 and parts[0].upper() == "INDEXTABLES" and last.kind == "name":
            return TableName(parts[1], is_path=True, position=token.start)
        return TableName(".".join(parts), is_path=False, position=token.start)

    def dotted(self, what: str) -> list[str]:
        """The parts of a name with dots."""
        parts = [self.name(what)]
        while self._adjacent_dot():
            parts.append(self.name("the next part of the name"))
        return parts

    def name(self, what: str = "a name") -> str:
        token = self._take(what, "word", "name")
        if token.kind == "name" and token.text == "``":
            self.fail_at(token, f"expected {what}, found an empty name")
        return unquoted(token)

    def names(self, what: str = "a column") -> tuple[str, ...]:
        """Names in parentheses, with commas; or without parentheses."""
        inside = self.accept_mark("(")
        found = [self.name(what)]
        while self.accept_mark(","):
            found.append(self.name(what))
        if inside:
            self.expect_mark(")")
        return tuple(found)

    def string(self, what: str = "a text in quotes") -> str:
        token = self._take(what, "text", "parameter")
        if token.kind == "text":
            return unquoted(token)
        value = self._value(token)
        if not isinstance(value, str):
            self.fail_at(token, f"expected {what}, {token.text} is bound to {value!r}")
        return value

    def whole(self, what: str, *, least: int = 0) -> int:
        """A whole number."""
        token = self._take(what, "number", "parameter")
        value = self._value(token) if token.kind == "parameter" else token.text
        if isinstance(value, str) and token.kind == "number" and value.isascii() and value.isdigit():
            value = int(value) if len(value) < 20 else _MOST
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _MOST:
            self.fail_at(token, f"expected {what}, a whole number of at least {least}, found {_shown(token, value)}")
        return value

    def hours(self, what: str) -> float:
        """`7 DAYS`, `48 HOURS`."""
        number = self.whole(what)
        if self.accept("DAY|DAYS"):
            return number * 24
        self.expect("HOUR|HOURS") if self.sees("HOUR|HOURS") else self.fail("DAYS or HOURS")
        return number

    def size(self, what: str) -> int:
        """Bytes: `104857600`, `100M`, `'1 GiB'`, `512 MB`."""
        token = self._take(what, "number", "word", "text", "parameter")
        value = self._value(token) if token.kind == "parameter" else unquoted(token)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        unit = self.token
        if token.kind == "number" and unit is not None and _SIZE.fullmatch(f"1{unit.upper}") and unit.upper:
            self._at += 1
            value = f"{value}{unit.text}"
        parsed = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        if parsed is None or not parsed[1].isascii() or len(parsed[1]) > 24:
            self.fail_at(token, f"expected {what} such as 100M, 1G or a number of bytes, found {_shown(token, value)}")
        found = int(decimal.Decimal(parsed[1]) * (1 << _SHIFTS[parsed[2].upper()]))
        if not 1 <= found < _MOST:
            self.fail_at(token, f"{what} must be at least 1 byte and below 2^63, found {_shown(token, value)}")
        return found

    def moment(self) -> Moment:
        """A time: text in quotes (TIMESTAMP before it is allowed), milliseconds, or a bound datetime."""
        what = "a time in quotes such as '2026-01-31T23:59:59Z'"
        self.accept("TIMESTAMP|DATE")
        token = self._take(what, "text", "number", "parameter")
        if token.kind == "text":
            return unquoted(token)
        value = self._value(token) if token.kind == "parameter" else int(token.text.split(".")[0][:19])
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return value.isoformat()
        if not isinstance(value, str | int | dt.datetime) or isinstance(value, bool):
            self.fail_at(token, f"expected {what}, {token.text} is bound to {value!r}")
        return value

    def predicate(self, *stops: tuple[str, ...], what: str = "a predicate", marks: str = "") -> str:
        """SQL text up to the first of `stops` or `marks` outside of parentheses and CASE, or the end.

        Bound values stand in it as literals.
        """
        first = self.token
        if first is None:
            self.fail(what)
        inside: list[str] = []
        pieces: list[str] = []
        start = end = first.start
        while (token := self.token) is not None:
            is_mark = token.kind == "mark"
            if not inside and (
                token.text == ";" or (is_mark and token.text in marks) or any(self.sees(*stop) for stop in stops)
            ):
                break
            if token.kind == "open":
                self.fail(what, bare=False)
            sign = token.text if is_mark else token.upper
            if sign in _PAIRS:
                inside.append(_PAIRS[sign])
            elif inside and sign == inside[-1]:
                inside.pop()
            if token.kind == "parameter":
                pieces += [self.text[start : token.start], self._literal(token)]
                start = token.end
            end = token.end
            self._at += 1
        if end == first.start:
            self.fail(what)
        return "".join([*pieces, self.text[start:end]])

    def inside(self, what: str) -> str:
        """The text between parentheses, nested ones included."""
        self.expect_mark("(")
        first = self.token
        depth = 0
        while (token := self.token) is not None and token.kind != "open":
            if token.kind == "mark" and token.text == ")" and depth == 0:
                break
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            self._at += 1
        if first is None or token is None or token.kind == "open":
            self.fail(f"{what}, closed by ')'")
        if token is first:
            self.fail(what)
        self._at += 1
        return self.text[first.start : token.start]

    def skip_text_pair(self) -> tuple[str, str]:
        """`'key' = 'value'`; the key may be a name with dots, the value a number or boolean as well."""
        token = self.token
        if token is not None and token.kind in ("text", "parameter"):
            key = self.string("a key")
        else:
            key = self.name("a key")
            while self._adjacent_dot():
                key += "." + self.name("the next part of the key")
        self.accept_mark("=")
        token = self._take("a value", "text", "number", "word", "parameter")
        value = self._value(token) if token.kind == "parameter" else unquoted(token)
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, str | int | float):
            self.fail_at(token, f"expected a value, {token.text} is bound to {value!r}")
        return key, str(value)

    def typed(self, start: int, end: int) -> tuple[str, Args]:
        """The text between two positions as it was typed, and the values of the parameters in it."""
        marks = [t for t in self._tokens if t.kind == "parameter" and start <= t.start < end]
        for token in marks:
            self._value(token)
        text = self.text[start:end]
        if isinstance(self._args, Mapping):
            names = {token.text[1:] for token in marks}
            return text, {name: value for name, value in self._args.items() if name in names}
        return text, [self._value(token) for token in marks]

    # Faults

    def fail(self, expected: str, *, bare: bool = False) -> NoReturn:
        """Raises CommandSyntaxError at the next token."""
        token = self.token
        if token is not None and token.kind == "open":
            what = "comment" if token.text.startswith("/*") else "quote"
            self.fail_at(token, f"a {what} is not closed")
        found = "the end" if token is None else repr(token.text[:60])
        lead = expected if bare else f"expected {expected}, found"
        self.fail_at(token, f"{lead} {found}")

    def fail_at(self, token: Token | None, message: str) -> NoReturn:
        """Raises CommandSyntaxError at a token, at the end for None."""
        position = len(self.text.rstrip().rstrip(";").rstrip()) if token is None else token.start
        raise fault(self.text, position, message, self.syntax)

    def _take(self, what: str, *kinds: str) -> Token:
        token = self.token
        if token is None or token.kind not in kinds:
            self.fail(what)
        self._at += 1
        return token

    def _adjacent_dot(self) -> bool:
        """Take a dot that touches the name before it."""
        token = self.token
        if token is None or token.text != "." or token.start != self._tokens[self._at - 1].end:
            return False
        self._at += 1
        return True

    def _value(self, token: Token) -> object:
        """What a parameter is bound to."""
        args = self._args
        if token.text == "?":
            place = self._places[token.start]
            if isinstance(args, Mapping) or place >= len(args):
                self.fail_at(token, f"no value is bound to the parameter {place + 1}: give it in args")
            return args[place]
        name = token.text[1:]
        if not isinstance(args, Mapping) or name not in args:
            self.fail_at(token, f"no value is bound to {token.text}: give it in args")
        return args[name]

    def _literal(self, token: Token) -> str:
        try:
            return literal(self._value(token))
        except InvalidArgument as cause:
            self.fail_at(token, f"{token.text} cannot be bound: {cause}")


def fault(text: str, position: int, message: str, syntax: str) -> CommandSyntaxError:
    """An error that shows the line with a mark below the place, and the grammar."""
    start = text.rfind("\n", 0, position) + 1
    stop = text.find("\n", position)
    line = text[start : len(text) if stop < 0 else stop].rstrip("\r")
    column = position - start
    if len(line) > _WIDE:
        cut = max(0, column - _WIDE // 2)
        line, column = line[cut : cut + _WIDE], column - cut
    where = f"line {text.count(chr(10), 0, position) + 1}, column {position - start + 1}"
    pointer = "".join("\t" if char == "\t" else " " for char in line[:column]) + "^"
    shown = f"{message} ({where})\n  {line}\n  {pointer}\nsyntax: {syntax}"
    return CommandSyntaxError(shown, command=text, position=position, syntax=syntax)


def literal(value: Any) -> str:
    """A bound value as one literal of the predicate language: it cannot become anything else there.

    Raises InvalidArgument for what has no literal.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"({value})"
    if isinstance(value, float) and math.isfinite(value):
        return f"({value!r})"
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return f"({value:f})"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    raise InvalidArgument(f"a value of type {type(value).__name__} has no literal: give text, a number or a date")


def _shown(token: Token, value: object) -> str:
    return repr(value) if token.kind != "parameter" else f"{token.text} = {value!r}"


_WIDE = 160
