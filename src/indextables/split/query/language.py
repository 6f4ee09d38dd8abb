r"""What does a search query say? Tantivy's syntax, read into a tree that knows where each part stands.

    query    = clause ((AND | OR | nothing) clause)*          AND binds tighter than OR, OR tighter than nothing
    clause   = (+ | - | NOT)? leaf (^ boost)?
    leaf     = ( query ) | * | word | word* | word~1 | "a phrase"~2 | "a phra"* | /regex/ | range | IN [a b "c d"]
    leaf     = field:leaf, also for a group: field:(a b); field:* asks for rows that have a value
    range    = [a TO b] {a TO b} [a TO b} [a TO *], or > >= < <= and a value

Nothing between two clauses means the default operator. A backslash takes the meaning from the next character. A
field is a column, or a path into a nested one (`a.b.c`). The tree is data without any knowledge of a schema;
`build_plan` gives it types. Tantivy's own parser has no positions and cannot tell a prefix or a fuzzy word from a
literal; a test holds the two together wherever both accept a text.
"""

from __future__ import annotations

import math
import re
from typing import Literal, NoReturn

import msgspec

from indextables.errors import LimitExceeded, QueryInvalid
from indextables.split.query.ast import (
    Boolean,
    Boost,
    Bound,
    Clause,
    Everything,
    Exists,
    Field,
    Fuzzy,
    Node,
    Occur,
    OneOf,
    Operator,
    Prefix,
    Range,
    Regex,
    Word,
)

MAX_QUERY_CHARS = 1_048_576
MAX_CLAUSES = 1_024
MAX_DEPTH = 64
MAX_SET_VALUES = 16_384
MAX_SLOP = 65_535
MAX_FUZZY = 2
MAX_BOOST = 1e6


def parse(query: str, default_operator: Operator = "or") -> Node:
    """The tree of a query; an empty text matches nothing.

    Raises:
        QueryInvalid: with `query` and the `position` of the fault.
        LimitExceeded: longer than MAX_QUERY_CHARS, more than MAX_CLAUSES leaves, deeper than MAX_DEPTH, ...
    """
    if len(query) > MAX_QUERY_CHARS:
        message = f"the query has {len(query)} characters, at most {MAX_QUERY_CHARS} are read: send several queries"
        raise LimitExceeded(message, limit=MAX_QUERY_CHARS, actual=len(query))
    return _Parser(query, default_operator).whole()


def invalid(query: str, position: int, message: str) -> QueryInvalid:
    """The error for a fault at `position`, with the place shown in its text."""
    near = query[max(0, position - 20) : position + 20].replace("\n", " ")
    return QueryInvalid(f"{message}, at position {position}, near {near!r}", query=query[:1000], position=position)


_SPACE = " \t\r\n\f\v\u3000"
_ENDS_WORD = frozenset(_SPACE + '()[]{}^"')
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_DIGITS = re.compile(r"\d+")
_FIELD_NAME = re.compile(r"""(?:\\.|[^\s()\[\]{}^":\\*~])*:(?!//)""", re.DOTALL)


class _Item(msgspec.Struct):
    node: Node
    occur: Occur | None
    joined: Literal["", "AND", "OR"]
    """How it hangs on the item before it."""


class _Parser:
    def __init__(self, text: str, default_operator: Operator) -> None:
        self.text = text
        self.pos = 0
        self.depth = 0
        self.leaves = 0
        self.default: Occur = "must" if default_operator == "and" else "should"

    def whole(self) -> Node:
        lone = next((i for i, c in enumerate(self.text) if "\ud800" <= c <= "\udfff"), None)
        if lone is not None:
            self.fail("the query is not valid Unicode", lone)
        node = self.sequence(None)
        if self.pos < len(self.text):
            self.fail(f"unexpected {self.text[self.pos]!r}; quote it or put a backslash before it")
        return node

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise invalid(self.text, self.pos if at is None else at, message)

    def peek(self) -> str:
        return self.text[self.pos : self.pos + 1]

    def skip_space(self) -> None:
        while self.peek() and self.peek() in _SPACE:
            self.pos += 1

    def keyword(self, word: str) -> bool:
        """Takes `word` if it stands here by itself."""
        end = self.pos + len(word)
        if not self.text.startswith(word, self.pos) or (end < len(self.text) and self.text[end] not in _SPACE + "()"):
            return False
        self.pos = end
        return True

    def sequence(self, field: Field | None) -> Node:
        items: list[_Item] = []
        while True:
            self.skip_space()
            at = self.pos
            joined: Literal["", "AND", "OR"] = "AND" if self.keyword("AND") else "OR" if self.keyword("OR") else ""
            if joined:
                if not items:
                    self.fail(f"{joined} needs something on its left; quote it to search for the word", at)
                self.skip_space()
                if not self.peek() or self.peek() == ")" or self.keyword("AND") or self.keyword("OR"):
                    self.fail(f"{joined} needs something on its right; quote it to search for the word", at)
            if not self.peek() or self.peek() == ")":
                return self.join(items)
            occur, node = self.clause(field)
            items.append(_Item(node, occur, joined))

    def join(self, items: list[_Item]) -> Node:
        """AND chains first, then OR chains of them, then the default operator."""
        ored: list[list[list[_Item]]] = []
        for item in items:
            if item.joined == "AND":
                ored[-1][-1].append(item)
            elif item.joined == "OR":
                ored[-1].append([item])
            else:
                ored.append([[item]])
        clauses: list[Clause] = []
        for chains in ored:
            if len(chains) == 1 and len(chains[0]) == 1:
                only = chains[0][0]
                clauses.append(Clause(only.occur or self.default, only.node))
            elif len(chains) == 1:
                clauses.append(Clause(self.default, _conjunction(chains[0])))
            else:
                clauses.append(Clause(self.default, _disjunction(chains)))
        if len(clauses) == 1 and clauses[0].occur != "must_not":
            return clauses[0].node
        return Boolean(tuple(clauses))

    def clause(self, field: Field | None) -> tuple[Occur | None, Node]:
        sign = self.peek()
        if sign and sign in "+-":
            self.pos += 1
            following = self.peek()
            if not following or following in _SPACE + ")+-":
                self.fail(f"{sign!r} needs something right behind it; quote it to search for it", self.pos - 1)
            return ("must" if sign == "+" else "must_not"), self.boosted(field)
        negations, start = 0, self.pos
        while self.keyword("NOT"):
            negations += 1
            self.skip_space()
            if not self.peek() or self.peek() == ")":
                self.fail("NOT needs something on its right; quote it to search for the word", start)
        if negations == 0:
            return None, self.boosted(field)
        node = self.boosted(field)
        return ("must_not", node) if negations % 2 else (None, node)

    def boosted(self, field: Field | None) -> Node:
        node = self.leaf(field)
        if self.peek() != "^":
            return node
        at = self.pos
        self.pos += 1
        number = _NUMBER.match(self.text, self.pos)
        if number is None:
            self.fail("a boost is ^ and a number, as in word^2.5", at)
        self.pos = number.end()
        factor = float(number[0])
        if not math.isfinite(factor) or factor > MAX_BOOST:
            self.fail(f"a boost is at most {MAX_BOOST:g}", at)
        self.end_of_leaf()
        return Boost(node, factor)

    def leaf(self, field: Field | None, *, named: bool = False) -> Node:
        """One leaf; `named` if the field's name stands right before it, so that a colon belongs to the value."""
        here, at = self.peek(), self.pos
        if here == "(":
            return self.group(field)
        self.leaves += 1
        if self.leaves > MAX_CLAUSES:
            message = f"the query has more than {MAX_CLAUSES} clauses: use field:IN [a b c] for many values of a field"
            raise LimitExceeded(message, limit=MAX_CLAUSES, actual=self.leaves, position=at)
        if here in ('"', "'"):
            return self.quoted(field)
        if here == "/":
            return self.regex(field)
        if here in ("[", "{"):
            return self.range(field)
        if here in (">", "<"):
            return self.comparison(field)
        if self.text.startswith("IN", self.pos) and re.compile(r"IN\s+\[").match(self.text, self.pos):
            return self.one_of(field)
        return self.word(field, named=named)

    def group(self, field: Field | None) -> Node:
        at = self.pos
        self.depth += 1
        if self.depth > MAX_DEPTH:
            message = f"the query is nested deeper than {MAX_DEPTH} levels, at position {at}"
            raise LimitExceeded(message, limit=MAX_DEPTH, actual=self.depth, position=at)
        self.pos += 1
        self.skip_space()
        if self.peek() == ")":
            self.fail("there is nothing between the parentheses", at)
        node = self.sequence(field)
        if self.peek() != ")":
            self.fail("this parenthesis is never closed", at)
        self.pos += 1
        self.depth -= 1
        return node

    def end_of_leaf(self) -> None:
        if self.peek() and self.peek() not in _SPACE + ")^":
            self.fail(f"unexpected {self.peek()!r} right behind a clause; put a space before it or quote it")

    def quoted(self, field: Field | None) -> Node:
        at = self.pos
        text = self.quoted_text()
        if self.peek() == "*":
            self.pos += 1
            self.end_of_leaf()
            return Prefix(field, text, at, quoted=True)
        slop = 0
        if self.peek() == "~":
            self.pos += 1
            digits = _DIGITS.match(self.text, self.pos)
            if digits is None:
                self.fail('slop is ~ and a whole number, as in "a b"~2')
            if len(digits[0]) > 9 or int(digits[0]) > MAX_SLOP:
                raise LimitExceeded(
                    f"the slop {digits[0][:20]} at position {self.pos} is above {MAX_SLOP}",
                    limit=MAX_SLOP,
                    position=self.pos,
                )
            slop = int(digits[0])
            self.pos = digits.end()
        self.end_of_leaf()
        return Word(field, text, at, slop, quoted=True)

    def quoted_text(self) -> str:
        quote, at = self.peek(), self.pos
        self.pos += 1
        parts: list[str] = []
        while self.peek() != quote:
            if not self.peek():
                self.fail("this quote is never closed", at)
            parts.append(self.character())
        self.pos += 1
        return "".join(parts)

    def character(self) -> str:
        if self.peek() == "\\":
            self.pos += 1
            if not self.peek():
                self.fail("a backslash needs a character behind it", self.pos - 1)
        self.pos += 1
        return self.text[self.pos - 1]

    def regex(self, field: Field | None) -> Node:
        at = self.pos
        end = at + 1
        while end < len(self.text) and self.text[end] != "/":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            self.fail("this regular expression is never closed with /; quote a text that starts with /", at)
        pattern = self.text[at + 1 : end].replace("\\/", "/")
        self.pos = end + 1
        self.end_of_leaf()
        return Regex(field, pattern, at)

    def range(self, field: Field | None) -> Node:
        at = self.pos
        lower_inclusive = self.peek() == "["
        self.pos += 1
        self.skip_space()
        lower = self.bound(inclusive=lower_inclusive)
        self.skip_space()
        if not self.keyword("TO"):
            self.fail("a range reads [a TO b]; the word TO is missing")
        self.skip_space()
        start = self.pos
        upper = self.bound(inclusive=True)
        self.skip_space()
        if self.peek() not in ("]", "}"):
            self.fail("this range is never closed with ] or }", at)
        if upper is not None and self.peek() == "}":
            upper = Bound(upper.text, inclusive=False, at=start)
        self.pos += 1
        self.end_of_leaf()
        return Range(field, lower, upper, at)

    def bound(self, *, inclusive: bool) -> Bound | None:
        at = self.pos
        if self.peek() in ('"', "'"):
            return Bound(self.quoted_text(), inclusive, at)
        text, star = self.bare(stops=_SPACE + "]}")
        if not text and not star:
            self.fail("a bound of the range is missing; an open end is *", at)
        return None if star and not text else Bound(text + ("*" if star else ""), inclusive, at)

    def comparison(self, field: Field | None) -> Node:
        at = self.pos
        sign = self.peek()
        self.pos += 1
        inclusive = self.peek() == "="
        self.pos += inclusive
        self.skip_space()
        start = self.pos
        if self.peek() in ('"', "'"):
            text = self.quoted_text()
        else:
            text, star = self.bare()
            if not text or star:
                self.fail(f"{sign} needs a value on its right", at)
        self.end_of_leaf()
        bound = Bound(text, inclusive, start)
        return Range(field, bound, None, at) if sign == ">" else Range(field, None, bound, at)

    def one_of(self, field: Field | None) -> Node:
        at = self.pos
        self.pos = self.text.index("[", at) + 1
        values: list[tuple[str, int]] = []
        while True:
            self.skip_space()
            start = self.pos
            if not self.peek():
                self.fail("this set is never closed with ]", at)
            if self.peek() == "]":
                break
            if self.peek() in ('"', "'"):
                values.append((self.quoted_text(), start))
            else:
                text, star = self.bare(stops=_SPACE + "]")
                if star or not text:
                    self.fail("a set lists whole values, no prefixes", start)
                values.append((text, start))
            if len(values) > MAX_SET_VALUES:
                message = f"the set at position {at} has more than {MAX_SET_VALUES} values"
                raise LimitExceeded(message, limit=MAX_SET_VALUES, position=at)
        self.pos += 1
        self.end_of_leaf()
        return OneOf(field, tuple(values), at)

    def word(self, field: Field | None, *, named: bool) -> Node:
        at = self.pos
        name = None if named else self.field_name()
        if name is not None:
            self.skip_space()
            if not self.peek() or self.peek() == ")":
                self.fail("a value is missing behind the colon")
            self.leaves -= 1
            return self.leaf(name, named=True)
        text, star = self.bare()
        if star and not text:
            self.end_of_leaf()
            return Everything(at) if field is None else Exists(field, at)
        if not text:
            self.fail(f"unexpected {self.peek()!r}; quote it or put a backslash before it")
        if star:
            self.end_of_leaf()
            return Prefix(field, text, at)
        if self.text[self.pos - 1] == "~" or re.search(r"[^\\]~\d+$", self.text[at : self.pos]):
            return self.fuzzy(field, at)
        self.end_of_leaf()
        return Word(field, text, at)

    def fuzzy(self, field: Field | None, at: int) -> Node:
        written = self.text[at : self.pos]
        digits = re.sub(r".*~", "", written, flags=re.DOTALL)
        end = self.pos
        self.pos = at
        parts: list[str] = []
        while self.pos < end - len(digits) - 1:
            parts.append(self.character())
        self.pos = end
        distance = int(digits) if 0 < len(digits) < 3 else 99 if digits else 1
        if distance > MAX_FUZZY:
            self.fail(f"a fuzzy word allows at most {MAX_FUZZY} edits", at)
        if not parts:
            self.fail("~ needs a word before it", at)
        self.end_of_leaf()
        return Fuzzy(field, "".join(parts), distance, at)

    def bare(self, stops: str | frozenset[str] = _ENDS_WORD) -> tuple[str, bool]:
        """A word up to white space or a bracket, and whether it ends with an open `*`."""
        parts: list[str] = []
        while self.peek() and self.peek() not in stops:
            if self.peek() == "*":
                following = self.text[self.pos + 1 : self.pos + 2]
                if following and following not in stops:
                    self.fail("* stands alone or at the end of a word; use a regular expression, as in /a.*b/, or \\*")
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
                parts[-1] += self.character()
        self.pos += 1
        if not all(parts):
            self.fail("a field name is missing", at)
        return Field(tuple(parts), at)


def _conjunction(chain: list[_Item]) -> Node:
    return Boolean(tuple(Clause("must_not" if i.occur == "must_not" else "must", i.node) for i in chain))


def _disjunction(chains: list[list[_Item]]) -> Node:
    clauses: list[Clause] = []
    for chain in chains:
        if len(chain) > 1:
            clauses.append(Clause("should", _conjunction(chain)))
        elif chain[0].occur == "must_not":
            clauses.append(Clause("should", Boolean((Clause("must_not", chain[0].node),))))
        else:
            clauses.append(Clause(chain[0].occur or "should", chain[0].node))
    return Boolean(tuple(clauses))
