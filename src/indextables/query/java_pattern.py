r"""Regular expressions as `java.util.regex.Pattern` (Java 17) reads them: a tree over sets of characters. Pure.

Whatever has no exact meaning here raises `PatternRefused`, which names it and says what to write instead: look-around,
back references, atomic groups, the flags x, u and U, properties that need tables of Unicode that Python does not have.
"""

from __future__ import annotations

from typing import Literal, NoReturn, TypeAlias

import msgspec

from indextables.query.charset import ASCII_CLASSES, EVERY, CharSet, category, chars, span

__all__ = ["Assert", "Chars", "Choice", "PatternRefused", "Repeat", "Sequence", "Tree", "read_pattern"]

MAX_DEPTH = 50
MAX_COUNT = 1_000


class PatternRefused(ValueError):
    """A pattern that is wrong, or whose meaning in Java cannot be kept. The text says which part and what to do."""


class Chars(msgspec.Struct, frozen=True):
    """One character of a set."""

    chars: CharSet


class Assert(msgspec.Struct, frozen=True):
    r"""A place: `start` or `end` of the text, `last` (its end, or before a last line terminator), edge of a `word`.

    `line_start` and `line_end` are `^` and `$` under `(?m)`. `unix` leaves only `\n` as a line terminator.
    """

    kind: Literal["start", "end", "last", "word", "line_start", "line_end"]
    unix: bool = False


class Sequence(msgspec.Struct, frozen=True):
    """One after the other."""

    parts: tuple[Tree, ...]


class Choice(msgspec.Struct, frozen=True):
    """One of them."""

    parts: tuple[Tree, ...]


class Repeat(msgspec.Struct, frozen=True):
    """So many times; `most` None is without limit."""

    part: Tree
    least: int
    most: int | None


Tree: TypeAlias = Chars | Assert | Sequence | Choice | Repeat

_VERTICAL = chars("\n\x0b\f\r\x85\u2028\u2029")
_HORIZONTAL = chars(" \t\xa0\u1680\u180e\u202f\u205f\u3000") | span(0x2000, 0x200A)
_CLASSES = {
    "d": ASCII_CLASSES["Digit"],
    "w": ASCII_CLASSES["Alnum"] | chars("_"),
    "s": ASCII_CLASSES["Space"],
    "h": _HORIZONTAL,
    "v": _VERTICAL,
}
_LINE = chars("\n\r\x85\u2028\u2029")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\x07", "e": "\x1b"}
_AFTER_GROUP = {
    "=": "look-ahead (?=...): combine two RLIKE with AND instead",
    "!": "look-ahead (?!...): combine RLIKE and NOT RLIKE with AND instead",
    ">": "atomic groups (?>...): write (?:...) with parts that exclude each other",
    "<=": "look-behind (?<=...): put what stands before into the pattern itself",
    "<!": "look-behind (?<!...): combine RLIKE and NOT RLIKE with AND instead",
}
_NOT_OFFERED = {
    "G": "write ^",
    "X": "write . or a class of characters",
    "B": r"it also holds inside of a character beyond U+FFFF in Java; write what stands beside it, such as \w",
    "k": "back references have no linear meaning: compare the parts outside the pattern",
    "N": r"write the character itself or \x{...}",
}
_PROPERTIES = {"letter": "L", "digit": "Nd", "punctuation": "P", "control": "Cc", "titlecase": "Lt"}
_CASED = frozenset({"Lower", "Upper", "Lu", "Ll", "Lt", "LC"})


def read_pattern(pattern: str) -> Tree:
    """The tree of a pattern. Raises PatternRefused."""
    reader = _Reader(pattern)
    tree = reader.alternatives(0)
    if reader.pos < len(pattern):
        raise PatternRefused(f"a parenthesis at character {reader.pos + 1} closes none")
    return tree


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.pos = 0
        self.flags: frozenset[str] = frozenset()
        self.names: set[str] = set()

    def fail(self, what: str) -> NoReturn:
        raise PatternRefused(f"{what} (at character {self.pos + 1})")

    def peek(self, ahead: int = 0) -> str:
        return self.pattern[self.pos + ahead : self.pos + ahead + 1]

    def take(self) -> str:
        self.pos += 1
        return self.pattern[self.pos - 1 : self.pos]

    def skip(self, text: str) -> bool:
        found = self.pattern.startswith(text, self.pos)
        self.pos += len(text) if found else 0
        return found

    # What a pattern is made of

    def alternatives(self, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            self.fail(f"groups are nested deeper than {MAX_DEPTH}")
        found = [self.sequence(depth)]
        while self.skip("|"):
            found.append(self.sequence(depth))
        return found[0] if len(found) == 1 else Choice(tuple(found))

    def sequence(self, depth: int) -> Tree:
        parts: list[Tree] = []
        possessive: list[int] = []
        while (here := self.peek()) and here not in "|)":
            if here in "*+?{":
                self.fail(f"{here} has nothing to repeat; write \\{here} for the character")
            if self.skip("\\Q"):
                parts += self.quoted()
                continue
            part = self.atom(depth)
            if part is None:
                continue
            part, is_possessive = self.repeated(part)
            if is_possessive:
                possessive.append(len(parts))
            parts.append(part)
        for place in possessive:
            self.check_possessive(parts, place, depth)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def quoted(self) -> list[Tree]:
        end = self.pattern.find("\\E", self.pos)
        text = self.pattern[self.pos :] if end < 0 else self.pattern[self.pos : end]
        self.pos = len(self.pattern) if end < 0 else end + 2
        parts: list[Tree] = [Chars(self.cased(chars(char))) for char in text]
        if parts:
            parts[-1], is_possessive = self.repeated(parts[-1])
            if is_possessive:
                self.refuse_possessive()
        elif self.peek() and self.peek() in "*+?{":
            self.fail(f"{self.peek()} has nothing to repeat")
        return parts

    def repeated(self, part: Tree) -> tuple[Tree, bool]:
        here = self.peek()
        counts: tuple[int, int | None]
        if here and here in "*+?":
            self.pos += 1
            counts = {"*": (0, None), "+": (1, None), "?": (0, 1)}[here]
        elif here == "{":
            counts = self.count()
        else:
            return part, False
        if _has_line_break(part):
            self.fail(r"\R under a repetition: write (?:\r\n|[\n\r]) instead")
        found = Repeat(part, *counts)
        if self.skip("+"):
            return found, True
        # Lazy or not is a question of what is captured, not of whether the text matches.
        self.skip("?")
        if self.peek() and self.peek() in "*+?{":
            self.fail(f"{self.peek()} behind a repetition: put the repetition into (?:...)")
        return found, False

    def count(self) -> tuple[int, int | None]:
        end = self.pattern.find("}", self.pos)
        inside = self.pattern[self.pos + 1 : end] if end > 0 else ""
        low, comma, high = inside.partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            self.fail("{ begins a count such as {2}, {2,} or {2,5}; write \\{ for the character")
        if len(low) > 9 or len(high) > 9 or max(int(low), int(high or 0)) > MAX_COUNT:
            self.fail(f"a count goes up to {MAX_COUNT}")
        if high and int(high) < int(low):
            self.fail("the smaller number of a count comes first")
        self.pos = end + 1
        return int(low), int(high) if high else None if comma else int(low)

    def check_possessive(self, parts: list[Tree], place: int, depth: int) -> None:
        """`a++` means `a+` if what follows cannot begin with what it repeats, or if nothing follows at all."""
        part = parts[place]
        following = parts[place + 1 :]
        if isinstance(part, Repeat) and isinstance(part.part, Chars):
            if not following and depth == 0:
                return
            after = following[0] if following else None
            if isinstance(after, Repeat) and after.least > 0:
                after = after.part
            if isinstance(after, Chars) and not (after.chars & part.part.chars).ranges:
                return
            ends = isinstance(after, Assert) and after.kind in ("end", "last", "line_end")
            if ends and not (_LINE & part.part.chars).ranges:
                return
        self.refuse_possessive()

    def refuse_possessive(self) -> NoReturn:
        self.fail("a possessive repetition (*+, ++, ?+, {n}+) is kept only before something it cannot match itself")

    def atom(self, depth: int) -> Tree | None:
        here = self.peek()
        if here == "(":
            return self.group(depth)
        if here == "[":
            self.pos += 1
            return Chars(self.bracket(depth))
        if here == "\\":
            return self.escape()
        self.pos += 1
        unix = "d" in self.flags
        if here == ".":
            return Chars(EVERY if "s" in self.flags else ~(chars("\n") if unix else _LINE))
        if here == "^":
            return Assert("line_start", unix) if "m" in self.flags else Assert("start")
        if here == "$":
            return Assert("line_end" if "m" in self.flags else "last", unix)
        return Chars(self.cased(chars(here)))

    def group(self, depth: int) -> Tree | None:
        self.pos += 1
        outside = self.flags
        if self.skip("?"):
            for mark in ("<=", "<!", "=", "!", ">"):
                if self.pattern.startswith(mark, self.pos):
                    self.fail(_AFTER_GROUP[mark])
            if self.skip("<"):
                end = self.pattern.find(">", self.pos)
                name = self.pattern[self.pos : max(end, self.pos)]
                if not name.isascii() or not name.isalnum() or name[0].isdigit():
                    self.fail("the name of a group has ASCII letters and digits only")
                if name in self.names:
                    self.fail(f"two groups are named {name}")
                self.names.add(name)
                self.pos = end + 1
            elif not self.skip(":"):
                self.switch()
                if self.skip(")"):
                    return None
                if not self.skip(":"):
                    self.fail("(? begins flags such as (?i), or (?:...)")
        tree = self.alternatives(depth + 1)
        if not self.skip(")"):
            self.fail("a parenthesis is never closed")
        self.flags = outside
        return tree

    def switch(self) -> None:
        """Flags that hold until the end of the group."""
        on = True
        while (here := self.peek()) and here not in ":)":
            self.pos += 1
            if here == "-" and on:
                on = False
            elif here in "isdm":
                self.flags = self.flags | {here} if on else self.flags - {here}
            elif here in "xuU" and on:
                what = {"x": "without comments", "u": "both cases of each letter", "U": r"\p{...}"}[here]
                self.fail(f"the flag (?{here}) is not offered: write {what} instead")
            elif here not in "xuU":
                self.fail(f"there is no flag {here}")

    def cased(self, found: CharSet) -> CharSet:
        return found.in_any_ascii_case() if "i" in self.flags else found

    # Behind a backslash

    def escape(self) -> Tree:
        behind = self.peek(1)
        if behind in ("A", "z", "Z", "b"):
            self.pos += 2
            if self.peek() == "{" and behind == "b":
                self.fail(r"\b{g} is not offered")
            kinds = {"A": Assert("start"), "z": Assert("end"), "Z": Assert("last", "d" in self.flags)}
            return kinds.get(behind, Assert("word"))
        if behind == "R":
            self.pos += 2
            return _LINE_BREAK
        found = self.class_escape()
        return Chars(found if found is not None else self.cased(chars(self.char_escape())))

    def class_escape(self) -> CharSet | None:
        r"""`\d`, `\P{L}` and their like; None for an escape of one character, which is left unread."""
        behind = self.peek(1)
        if behind.lower() in _CLASSES and behind.isascii():
            self.pos += 2
            return _CLASSES[behind] if behind.islower() else ~_CLASSES[behind.lower()]
        if behind in ("p", "P"):
            self.pos += 2
            found = self.property()
            return found if behind == "p" else ~found
        return None

    def property(self) -> CharSet:
        if self.skip("{"):
            end = self.pattern.find("}", self.pos)
            if end < 0:
                self.fail(r"\p{ is never closed")
            name = self.pattern[self.pos : end]
            self.pos = end + 1
        else:
            name = self.take()
        plain = name
        if name.startswith("Is"):
            plain = _PROPERTIES.get(name[2:].lower(), name[2:])
        elif name.partition("=")[0].lower() in ("gc", "general_category"):
            plain = name.partition("=")[2]
        found = ASCII_CLASSES.get(name) or (category(plain) if plain else None)
        if found is None:
            self.fail(f"\\p{{{name}}} is not offered: write ranges of characters, or a category such as \\p{{L}}")
        if "i" in self.flags and plain in _CASED:
            self.fail(f"\\p{{{name}}} under (?i) means different things in different versions of Java: write [a-z]")
        return found

    def char_escape(self) -> str:
        self.pos += 1
        here = self.take()
        if not here:
            self.fail("a backslash stands at the end")
        if here in _CONTROLS:
            return _CONTROLS[here]
        if here == "0":
            return self.octal()
        if here in "xu":
            return self.hexadecimal(here)
        if here == "c":
            return chr(ord(self.take() or self.fail(r"\c needs a character")) ^ 64)
        if here.isascii() and here.isalnum():
            self.pos -= 2
            why = "back references are not offered" if here.isdigit() else _NOT_OFFERED.get(here, "it means nothing")
            self.fail(f"\\{here}: {why}")
        return here

    def octal(self) -> str:
        digits = ""
        while self.peek() and self.peek() in "01234567" and len(digits) < 3 and int(digits + self.peek(), 8) <= 0o377:
            digits += self.take()
        if not digits:
            self.fail(r"\0 begins an octal number")
        return chr(int(digits, 8))

    def hexadecimal(self, kind: str) -> str:
        if kind == "x" and self.skip("{"):
            end = self.pattern.find("}", self.pos)
            digits = self.pattern[self.pos : max(end, self.pos)]
            self.pos = end + 1
        else:
            length = 2 if kind == "x" else 4
            digits = self.pattern[self.pos : self.pos + length]
            if len(digits) < length:
                self.fail(f"\\{kind} needs {length} hexadecimal digits")
            self.pos += length
        if not digits or len(digits) > 8 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            self.fail(f"\\{kind} needs hexadecimal digits")
        code = int(digits, 16)
        if kind == "u" and 0xD800 <= code < 0xDC00 and self.skip("\\u"):
            low = ord(self.hexadecimal("low"))
            code = 0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)
        elif kind == "low" and 0xDC00 <= code < 0xE000:
            return chr(code)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000 or kind == "low":
            self.fail("half a surrogate pair is not a character; write the character itself")
        return chr(code)

    # Inside brackets; `&&`, nested classes and a literal `]` as Java takes them

    def bracket(self, depth: int, *, inner: bool = False) -> CharSet:
        """The class whose `[` was read; with `inner` the right side of `&&`, which leaves the `]` to its class."""
        if depth > MAX_DEPTH:
            self.fail(f"brackets are nested deeper than {MAX_DEPTH}")
        negated = not inner and self.skip("^")
        found: CharSet | None = None
        while True:
            here = self.peek()
            if not here:
                self.fail("a bracket is never closed; write \\[ for the character")
            if here == "[":
                self.pos += 1
                item = self.bracket(depth + 1)
            elif here == "]" and found is not None:
                self.pos += 0 if inner else 1
                return ~found if negated else found
            elif self.pattern.startswith("&&", self.pos):
                self.pos += 2
                right = self.intersected(depth)
                if found is None:
                    self.fail("&& needs a class on its left")
                found = found & right
                continue
            else:
                item = self.item()
            found = item if found is None else found | item

    def intersected(self, depth: int) -> CharSet:
        """The right side of `&&`: classes in brackets, and behind them everything up to the end of the class."""
        found: CharSet | None = None
        while (here := self.peek()) and here not in "]&":
            if here == "[":
                self.pos += 1
                item = self.bracket(depth + 1)
            else:
                item = self.bracket(depth + 1, inner=True)
            found = item if found is None else found | item
        if found is None:
            self.fail("&& needs a class on its right")
        if self.peek() == "&" and self.peek(1) != "&":
            self.fail("& beside &&: write \\&")
        if self.peek() not in ("]", "&"):
            self.fail("a bracket is never closed")
        return found

    def item(self) -> CharSet:
        """A character, a range, or a class behind a backslash."""
        if self.peek() == "&" and self.peek(1) != "&" and "&&" in self.pattern:
            self.fail("& beside &&: write \\&")
        low = self.one()
        if isinstance(low, CharSet):
            return low
        if self.peek() != "-" or self.peek(1) in ("]", "[", ""):
            return self.cased(chars(low))
        self.pos += 1
        high = self.one()
        if isinstance(high, CharSet) or ord(high) < ord(low):
            self.fail("a range goes from a lower to a higher character; write \\- for the character")
        return self.cased(span(ord(low), ord(high)))

    def one(self) -> str | CharSet:
        if self.peek() != "\\":
            return self.take()
        if self.peek(1) in ("Q", "E"):
            self.fail("\\Q inside brackets is not offered")
        found = self.class_escape()
        if found is None:
            return self.char_escape()
        if self.peek() == "-" and self.peek(1) not in ("]", ""):
            self.fail("a range cannot begin with a class of characters; write \\- for the character")
        return found


_LINE_BREAK: Tree = Choice((Sequence((Chars(chars("\r")), Chars(chars("\n")))), Chars(_VERTICAL)))


def _has_line_break(tree: Tree) -> bool:
    if tree is _LINE_BREAK:
        return True
    if isinstance(tree, Repeat):
        return _has_line_break(tree.part)
    return isinstance(tree, Sequence | Choice) and any(_has_line_break(part) for part in tree.parts)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
