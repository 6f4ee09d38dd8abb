r"""Which regular expressions mean the same everywhere? A checked subset, matched against whole terms.

Offered: literals, `\` before punctuation, `.`, `[...]`, `(...)`, `|`, `*`, `+`, `?`, `{m,n}`, ASCII `\d`, `\w`, `\s`.
Not offered: anchors (a term is matched whole), lazy repetition, look-around, back references, flags: Tantivy's automata
and Arrow's RE2, one of which runs depending on where the column is, have no common meaning for them. Both run in time
linear in the text; sizes are capped so that building them is quick too.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_PATTERN_CHARS = 1_000
MAX_REPEAT = 256
MAX_SIZE = 600
"""States of the automaton, roughly: repetitions multiply."""

_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\\t\\n\\x0B\\x0C\\r "}
_DOT = r"[^\n\r\x{85}\x{2028}\x{2029}]"
"""Any character but a line terminator, as in Java; engines differ in which these are."""
_ANY = r"[\x{0}-\x{10FFFF}]"


def checked_regex(pattern: str) -> str:
    """The pattern in the form that all engines read alike. Raises ValueError with the reason."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"it is longer than {MAX_PATTERN_CHARS} characters")
    if not pattern:
        raise ValueError("it is empty")
    reader = _Reader(pattern)
    text, size = reader.alternatives(0)
    if reader.pos < len(pattern):
        raise ValueError("a parenthesis is closed that was not opened")
    if size > MAX_SIZE:
        raise ValueError("its repetitions make it too large: use smaller counts")
    return text


def literal_regex(text: str) -> str:
    """A pattern that matches exactly this text."""
    return "".join(f"\\{c}" if c in _META else c for c in text)


def wildcard_regex(pieces: Sequence[tuple[str, bool]]) -> str:
    """The pattern of texts and wildcards: `?` is one character, `*` any number. Raises ValueError with the reason."""
    size = sum(8 if is_wild else len(text.encode()) for text, is_wild in pieces)
    if size > MAX_SIZE:
        raise ValueError("the word is too long")
    signs = {"?": _ANY, "*": f"{_ANY}*"}
    return "".join(signs[text] if is_wild else literal_regex(text) for text, is_wild in pieces)


_META = frozenset("\\.+*?()|[]{}^$#&-~/")


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.pos = 0

    def peek(self) -> str:
        return self.pattern[self.pos : self.pos + 1]

    def alternatives(self, depth: int) -> tuple[str, int]:
        if depth > 20:
            raise ValueError("its parentheses are nested too deep")
        parts: list[str] = []
        size = 1
        while self.peek() and self.peek() != ")":
            if self.peek() == "|":
                self.pos += 1
                parts.append("|")
                continue
            text, length = self.repeated(depth)
            parts.append(text)
            size += length
        return "".join(parts), size

    def repeated(self, depth: int) -> tuple[str, int]:
        text, size = self.atom(depth)
        here = self.peek()
        if here and here in "*+?":
            self.pos += 1
            text += here
        elif here == "{":
            count, text_count = self.count()
            size *= max(1, count)
            text += text_count
        if self.peek() and self.peek() in "*+?{":
            raise ValueError("two repetitions in a row (lazy ones are not offered)")
        return text, size

    def count(self) -> tuple[int, str]:
        end = self.pattern.find("}", self.pos)
        inside = self.pattern[self.pos + 1 : end] if end > 0 else ""
        low, comma, high = inside.partition(",")
        if not low.isascii() or not low.isdigit() or not (high == "" or (high.isascii() and high.isdigit())):
            raise ValueError("{ begins a count such as {2} or {2,5}; write \\{ for the character")
        most = int(high) if high else int(low) + 1 if comma else int(low)
        if len(low) > 4 or most > MAX_REPEAT or int(low) > most:
            raise ValueError(f"a count goes up to {MAX_REPEAT}, the smaller number first")
        self.pos = end + 1
        return most, "{" + inside + "}"

    def atom(self, depth: int) -> tuple[str, int]:
        here = self.peek()
        if here == "(":
            return self.group(depth)
        if here == "[":
            return self.bracket(), 1
        if here == "\\":
            return self.escape(in_bracket=False), 1
        if here and here in "^$":
            raise ValueError(f"{here} is not needed: it is matched against whole terms")
        if here and here in "*+?{":
            raise ValueError(f"{here} has nothing to repeat")
        self.pos += 1
        # Three bytes of UTF-8 are three states, and a dot stands for all of them.
        return (_DOT, 8) if here == "." else (literal_regex(here), len(here.encode()))

    def group(self, depth: int) -> tuple[str, int]:
        self.pos += 1
        if self.peek() == "?":
            if not self.pattern.startswith("?:", self.pos):
                raise ValueError("(? begins a flag or look-around, which is not offered")
            self.pos += 2
        text, size = self.alternatives(depth + 1)
        if self.peek() != ")":
            raise ValueError("a parenthesis is never closed")
        self.pos += 1
        return f"(?:{text})", size

    def bracket(self) -> str:
        self.pos += 1
        text = "["
        if self.peek() == "^":
            text += "^"
            self.pos += 1
        items = 0
        while self.peek() != "]" or items == 0:
            here = self.peek()
            if not here:
                raise ValueError("a bracket is never closed")
            if here == "[" or (here == "&" and self.pattern.startswith("&&", self.pos)):
                raise ValueError(f"write \\{here} inside brackets")
            if here == "\\":
                text += self.escape(in_bracket=True)
            else:
                self.pos += 1
                text += here if here == "-" or here not in _META else f"\\{here}"
            items += 1
        self.pos += 1
        return text + "]"

    def escape(self, *, in_bracket: bool) -> str:
        self.pos += 1
        here = self.peek()
        self.pos += 1
        if here in _CLASSES:
            return _CLASSES[here] if in_bracket else f"[{_CLASSES[here]}]"
        if here in ("n", "r", "t"):
            return f"\\{here}"
        if not here or here.isalnum() or not here.isascii():
            raise ValueError(f"\\{here} is not offered")
        return f"\\{here}"
