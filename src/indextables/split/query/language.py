r"""What does a search query say? Tantivy's syntax, read into a tree that knows where each part stands.

    query    = clause ((AND | OR | nothing) clause)*          AND binds tighter than OR, OR tighter than nothing
    clause   = (+ | - | NOT | !)? leaf (^ boost)?           && is AND, || is OR, each with a space on both sides
    leaf     = ( query ) | * | *:* | word | word* | w?rd | *rd | word~1 | "a phrase"~2 | "a phra"* | /regex/ | range
    leaf     = IN [a b "c d"]
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
from typing import Literal

import msgspec

from indextables.errors import LimitExceeded
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
    Piece,
    Prefix,
    Range,
    Regex,
    Wildcard,
    Word,
)
from indextables.split.query.scanner import MANY, ONE, SPACE, Scanner

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


def doubts(query: str, default_operator: Operator = "or") -> tuple[str, ...]:
    """What a query that can be read may not mean, in words for its author. Raises as `parse`."""
    parser = _Parser(query, default_operator)
    parser.whole()
    found = []
    if parser.leaves > 1 and parser.small_words:
        small = parser.small_words[0]
        found.append(f"{small!r} in {query[:200]!r} is searched for as a word: the operator is {small.upper()}")
    if parser.open_wildcards:
        found.append(
            f"a wildcard at the beginning, as in {query[:200]!r}, looks at every word of the index: it costs more"
        )
    return tuple(found)


_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_DIGITS = re.compile(r"\d+")
_LONE = re.compile("[\ud800-\udfff]")
_TILDE = re.compile(r"(?<!\\)~")
_SIGNED_WORD = re.compile(r"[-+](?=[^\W\d]|[\"'(])(?!(?:inf|infinity|nan)(?![\w]))", re.IGNORECASE)
_SET_IN_PARENTHESES = re.compile(r"IN\s+\(", re.IGNORECASE)
_SMALL_IN = re.compile(r"in\s+\[", re.IGNORECASE)
_NOT_BEHIND = re.compile(r"NOT\s+[^\s)]")


def _unlike_others(text: str, at: int) -> str | None:
    """Why a value right behind its column is refused: engines read it in different ways."""
    if text.startswith("!", at):
        return "! negates a whole clause: write NOT before the field, or \\! for the sign itself"
    if _SIGNED_WORD.match(text, at):
        return f"{text[at]} stands before the field: write {text[at]}column:value, or quote a value that begins with it"
    if _NOT_BEHIND.match(text, at):
        return "NOT stands before the field: write NOT column:value, or quote the word"
    if _SET_IN_PARENTHESES.match(text, at) or _SMALL_IN.match(text, at):
        return "a set reads column:IN [a b c], with IN in capitals and square brackets"
    return None


class _Item(msgspec.Struct):
    node: Node
    occur: Occur | None
    joined: Literal["", "AND", "OR"]
    """How it hangs on the item before it."""


class _Parser(Scanner):
    def __init__(self, text: str, default_operator: Operator) -> None:
        super().__init__(text)
        self.depth = 0
        self.leaves = 0
        self.small_words: list[str] = []
        self.open_wildcards: list[int] = []
        self.default: Occur = "must" if default_operator == "and" else "should"

    def whole(self) -> Node:
        lone = _LONE.search(self.text)
        if lone is not None:
            self.fail("the query is not valid Unicode", lone.start())
        node = self.sequence(None)
        if self.pos < len(self.text):
            self.fail(f"unexpected {self.text[self.pos]!r}; quote it or put a backslash before it")
        return node

    def sequence(self, field: Field | None) -> Node:
        items: list[_Item] = []
        while True:
            self.skip_space()
            at = self.pos
            joined = self.operator()
            if joined:
                written = self.text[at : self.pos]
                if not items:
                    self.fail(f"{written} needs something on its left; quote it to search for the word", at)
                self.skip_space()
                if not self.peek() or self.peek() == ")" or self.operator():
                    self.fail(f"{written} needs something on its right; quote it to search for the word", at)
            if not self.peek() or self.peek() == ")":
                return self.join(items)
            occur, node = self.clause(field)
            items.append(_Item(node, occur, joined))

    def operator(self) -> Literal["", "AND", "OR"]:
        """Takes the operator that stands here."""
        if self.keyword("AND") or self.keyword("&&"):
            return "AND"
        return "OR" if self.keyword("OR") or self.keyword("||") else ""

    def negation(self) -> bool:
        """Takes `NOT`, or a `!` before anything."""
        if self.peek() != "!":
            return self.keyword("NOT")
        self.pos += 1
        return True

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
            if not following or following in SPACE + ")+-":
                self.fail(f"{sign!r} needs something right behind it; quote it to search for it", self.pos - 1)
            return ("must" if sign == "+" else "must_not"), self.boosted(field)
        negations, start = 0, self.pos
        while self.negation():
            negations += 1
            written = self.text[start : self.pos].split()[-1]
            self.skip_space()
            if not self.peek() or self.peek() == ")":
                self.fail(f"{written} needs something on its right; quote it to search for the word", start)
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
        if named and (said := _unlike_others(self.text, self.pos)):
            self.fail(said)
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
        if self.peek() and self.peek() not in SPACE + ")^":
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

    def regex(self, field: Field | None) -> Node:
        at = self.pos
        end = at + 1
        while end < len(self.text) and self.text[end] != "/":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            self.fail("this regular expression is never closed with /; quote a text that starts with /", at)
        pattern = self.text[at + 1 : end].replace("\\/", "/")
        self.pos = end + 1
        if self.peek() and self.peek() not in SPACE + ")^":
            self.fail("what stands between two slashes is a pattern, and ends there; quote a path", at)
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
        text, star = self.bare(stops=SPACE + "]}")
        if not text and not star:
            self.fail("a bound of the range is missing; an open end is *", at)
        return None if star and not text else Bound(text + ("*" if star else ""), inclusive, at)

    def comparison(self, field: Field | None) -> Node:
        at = self.pos
        sign = self.peek()
        if field is None:
            self.fail(f"{sign} compares the values of a column: write column:{sign}5, or quote it to search for it")
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
        if field is None:
            self.fail("IN lists the values of a column: write column:IN [a b]")
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
                text, star = self.bare(stops=SPACE + "]")
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
        pieces = self.pieces()
        if pieces == [MANY]:
            return self.all_of(field, at)
        if not pieces:
            self.fail(f"unexpected {self.peek()!r}; quote it or put a backslash before it")
        if any(piece.is_wild for piece in pieces):
            return self.wildcard(field, pieces, at)
        if self.text[self.pos - 1] == "~" or re.search(r"[^\\]~\d+$", self.text[at : self.pos]):
            return self.fuzzy(field, at)
        self.check_tildes(at, self.text[at : self.pos])
        self.end_of_leaf()
        text = pieces[0].text
        if text.lower() in ("and", "or", "not") and field is None and self.text[at : self.pos] == text:
            self.small_words.append(text)
        return Word(field, text, at)

    def all_of(self, field: Field | None, at: int) -> Node:
        """`*`, `field:*`, or `*:*` as others write it for every row."""
        if field is None and self.text.startswith(":*", self.pos):
            self.pos += 2
        self.end_of_leaf()
        return Everything(at) if field is None else Exists(field, at)

    def wildcard(self, field: Field | None, pieces: list[Piece], at: int) -> Node:
        written = self.text[at : self.pos]
        if len(pieces) == 2 and pieces[1] == MANY and not pieces[0].is_wild:
            self.end_of_leaf()
            return Prefix(field, pieces[0].text, at)
        if written.startswith("*:"):
            self.fail("a word without a field is looked for in all text columns, and *:* finds every row", at)
        if all(piece.is_wild for piece in pieces):
            self.fail(f"{written[:80]} has no letter to look for", at)
        if pieces[-1] == ONE:
            self.fail(
                "? stands for one character inside a word, as in par?uet; to search for the sign write \\? or quote "
                "the word, and for all that begin like it wor*",
                self.pos - 1,
            )
        if _TILDE.search(written):
            self.fail("a word has either wildcards or ~", at)
        self.end_of_leaf()
        found = Wildcard(field, tuple(pieces), at)
        if found.begins_open:
            self.open_wildcards.append(at)
        return found

    def check_tildes(self, at: int, written: str) -> None:
        found = _TILDE.search(written)
        if found is not None:
            self.fail(
                "~ and 1 or 2, the number of edits, end a word, as in word~1; write \\~ for the sign",
                at + found.start(),
            )

    def fuzzy(self, field: Field | None, at: int) -> Node:
        written = self.text[at : self.pos]
        digits = re.sub(r".*~", "", written, flags=re.DOTALL)
        self.check_tildes(at, written[: len(written) - len(digits) - 1])
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
