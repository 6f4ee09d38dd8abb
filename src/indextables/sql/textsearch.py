"""Finds which table a `TEXTSEARCH` is about and names its hidden column, for both SQL engines. Pure.

Neither engine knows full-text search, but both know columns. So every call turns into a column that only the one
reference it belongs to has, and that is true in exactly the rows the search matches. Wherever the call stands (under OR
or NOT, beside an outer join, in the SELECT list) the answer is exact. `_score` belongs to one call. A statement is
edited by position: all else reaches the engine as it was typed, and the query text itself never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from indextables.errors import NotSupported, QueryInvalid
from indextables.lazy import LazyModule
from indextables.sql.tracing import Source, Traced, Tracer, cte_of, name_parts, references_of, sources_of
from indextables.table.read import SCORE

if TYPE_CHECKING:
    from sqlglot import expressions as exp
else:
    exp = LazyModule("sqlglot.expressions")

__all__ = [
    "FUNCTION",
    "NEEDS_ONE",
    "SCORE",
    "Call",
    "Mention",
    "Statement",
    "Traced",
    "Word",
    "counts_rows",
    "means_no_columns",
    "not_followed",
    "spelled",
    "unused_prefix",
]

FUNCTION = "textsearch"
NEEDS_ONE = f"{SCORE} needs exactly one TEXTSEARCH beside AND in the WHERE of its table"


class Word(msgspec.Struct, frozen=True):
    """A token at its place, `text` without quotes; `is_paren` for a parenthesis, not for a quoted one."""

    text: str
    start: int
    end: int
    is_paren: bool


class Mention(msgspec.Struct, frozen=True):
    """A reference to a table of ours: its node in the tree, and its columns as the table spells them."""

    number: int
    node: Any
    columns: Sequence[str]


class Call(msgspec.Struct, frozen=True):
    """A search where it stands, from `start` to `end`.

    `parts` are the names of its column, with what stands before and behind; none for all columns, of what `star_of`
    names.
    """

    node: Any
    parts: tuple[str, ...]
    start: int
    end: int
    star_of: str = ""

    @property
    def what(self) -> str:
        """The column as it is written."""
        return ".".join(self.parts) or (f"{self.star_of}.*" if self.star_of else "*")


class Statement:
    """A statement as text, tokens and tree, with its references to tables of ours."""

    def __init__(self, text: str, tokens: Sequence[Word], tree: Any, mentions: Sequence[Mention]) -> None:
        self.text = text
        self.tree = tree
        self.mentions = mentions
        self.words = frozenset(token.text.lower() for token in tokens)
        self._tokens = tokens
        self._parens = [token for token in tokens if token.is_paren]
        self._by_node = {id(mention.node): mention for mention in mentions}
        self._tracer = Tracer(tree, lambda node: self._by_node.get(id(node)))

    def function(self, node: Any, target: Any) -> Call:
        """The call of a function whose first argument is `target`. Raises QueryInvalid if that is no column or `*`."""
        start, end = int(node.meta["start"]), self.closing(int(node.meta["end"]) + 1)
        if isinstance(target, exp.Star) or isinstance(getattr(target, "this", None), exp.Star):
            return Call(node, (), start, end, target.table.lower() if isinstance(target, exp.Column) else "")
        column = target
        while isinstance(column, exp.Dot):
            column = column.this
        if not isinstance(column, exp.Column):
            raise self.fault(start, f"the first argument of {node.name.upper()} must be a column or *")
        return Call(node, name_parts(column), start, end)

    def reference_of(self, call: Call, missing: Callable[[Sequence[Any], str], Exception]) -> tuple[Traced, Any]:
        """The reference that a call is about, and its SELECT: the nearest one around the call, else further out.

        A subquery or WITH name that hands on rows of a table of ours is followed to that table. Where the call may be
        about something that is no table of ours, or is about nothing, raises what `missing` makes of these other
        sources, and of the reason why one cannot be followed. Raises QueryInvalid where it may be about two.
        """
        select = call.node.find_ancestor(exp.Select)
        while select is not None:
            found, stops = self._tracer.in_select(select, call.parts, call.star_of)
            if len(found) > 1:
                names = " or ".join(sorted(_name_of(traced) for traced in found))
                message = f"{self.text[call.start : call.end]} could be about {names}: more than one table has it"
                raise self.fault(call.start, f"{message}; write the table before the column")
            if found:
                return found[0], select
            others = [node for node in sources_of(select) if id(node) not in self._by_node]
            outer = select.find_ancestor(exp.Select)
            qualifier = call.star_of or (call.parts[0].lower() if len(call.parts) > 1 else "")
            is_named = any(node.alias_or_name.lower() == qualifier for node in others)
            # Without a qualifier, a column of theirs hides one of the same name further out.
            if others and (is_named or not qualifier or outer is None):
                raise missing(others, stops[0].why if stops else "")
            select = outer
        raise missing([], "")

    def handed_on(
        self, traced: Traced, names: Sequence[str], quote: str, alias_of: Callable[[Mention], str]
    ) -> Iterator[tuple[int, str]]:
        """What to insert where, so that SELECTs between a table and a search hand on columns of the table.

        Raises QueryInvalid for a SELECT whose list has no end that can be found.
        """
        for place, source in enumerate(traced.through):
            below = traced.through[place + 1 :]
            alias = self.alias_text(below[0].node) if below else alias_of(traced.table)
            before = f"{alias}." if alias else ""
            listed = [f"{before}{quote}{name}{quote} AS {quote}{name}{quote}" for name in names]
            yield self._end_of_list(source), f", {', '.join(listed)} "

    def shown_by(self, traced: Traced) -> Iterator[int]:
        """The ids of nodes in FROM that show what was handed on, for `after_stars`."""
        for source in traced.through:
            cte = cte_of(source.node)
            yield from [id(source.node)] if cte is None else (id(node) for node in references_of(self.tree, cte))

    def alias_text(self, node: Any) -> str:
        """What columns of a source are qualified with, as it is written; empty if it has no name."""
        alias = node.args.get("alias")
        name = alias.this if alias is not None and alias.this is not None else node.this
        if not isinstance(name, exp.Identifier):
            return ""
        return self.text[int(name.meta["start"]) : int(name.meta["end"]) + 1]

    def _end_of_list(self, source: Source) -> int:
        """Where the FROM stands behind the list of a SELECT."""
        item = source.item
        first = item.parts[0] if isinstance(item, exp.Column) else item
        start, depth, last = int(first.meta["start"]), 0, ""
        for token in self._tokens:
            if token.start < start:
                continue
            if token.is_paren:
                depth += 1 if token.text == "(" else -1
            word = self.text[token.start : token.end].upper()
            if depth < 0:
                break
            if depth == 0 and word == "FROM" and last != "DISTINCT":
                return token.start
            last = word
        raise self.fault(start, f"{FUNCTION.upper()} of a subquery needs its FROM behind the columns")

    def wants_score(self, mention: Mention) -> bool:
        """True if the statement asks for `_score` and the table has no such column of its own."""
        return SCORE in self.words and spelled(mention.columns, SCORE) is None

    def after_stars(self, hidden: Mapping[int, Sequence[str]], quote: str) -> Iterator[tuple[int, str]]:
        """What to insert where, so that no `*` shows the `hidden` columns of what it covers, by the id of its node.

        Raises NotSupported for a star that cannot leave columns out.
        """
        for star in self.tree.find_all(exp.Star):
            if means_no_columns(star) or "start" not in star.meta:
                continue
            item = star.parent if isinstance(star.parent, exp.Column) else star
            inside = item.find_ancestor(exp.Select)
            covered = [] if inside is None else sources_of(inside)
            qualifier = item.table.lower() if isinstance(item, exp.Column) else ""
            names = [
                f"{quote}{name}{quote}"
                for node in covered
                if not qualifier or node.alias_or_name.lower() == qualifier
                for name in hidden.get(id(node), ())
            ]
            if not names:
                continue
            if not isinstance(item.parent, exp.Select):
                message = f"* inside an expression is not offered beside {FUNCTION.upper()}: name the columns"
                raise NotSupported(message, query=self.text)
            if any(star.args.get(key) for key in ("except_", "except", "replace", "rename")):
                message = f"* EXCEPT beside {FUNCTION.upper()} is not offered; name the columns"
                raise NotSupported(message, query=self.text)
            yield int(star.meta["end"]) + 1, f" EXCEPT ({', '.join(names)})"

    def closing(self, after: int) -> int:
        """Where the first parenthesis that opens at or after a position ends. Raises QueryInvalid."""
        depth = 0
        for paren in self._parens:
            if paren.start < after:
                continue
            depth += 1 if paren.text == "(" else -1
            if depth == 0:
                return paren.end
        raise self.fault(after, "a parenthesis is not closed")

    def fault(self, position: int, message: str) -> QueryInvalid:
        """What is wrong at a position."""
        return QueryInvalid(message, query=self.text, position=position)


def not_followed(why: str) -> str:
    """What to say of a search about a subquery or WITH name that hands on no rows of a table; `why` may be empty."""
    reason = f"the subquery or WITH name {why}" if why else "the subquery or WITH name shows no such column of a table"
    return (
        f"{FUNCTION.upper()} needs the table itself in FROM, or a subquery that hands on its rows: {reason}; move it "
        "into that subquery, beside FROM"
    )


def spelled(columns: Iterable[str], name: str) -> str | None:
    """The column in the table's own spelling, None if there is none."""
    return next((column for column in columns if column.lower() == name.lower()), None)


def unused_prefix(text: str, columns: Iterable[str]) -> str:
    """With what the names of hidden columns begin: nothing in the statement or among the columns has it."""
    taken = text.lower() + " ".join(name.lower() for name in columns)
    number = 0
    while f"__search{number}_" in taken:
        number += 1
    return f"__search{number}_"


def means_no_columns(star: Any) -> bool:
    """True for the stars of `count(*)` and `TEXTSEARCH(*, ...)`."""
    around = star.parent
    if isinstance(around, exp.Count):
        return counts_rows(around)
    return isinstance(around, exp.Anonymous) and around.name.lower() == FUNCTION


def counts_rows(call: Any) -> bool:
    """True for `count(*)`; `count(*, a)` and `count(* EXCEPT (a))` ask for rows without a null."""
    return isinstance(call.this, exp.Star) and not any(call.this.args.values()) and not call.expressions


def _name_of(traced: Traced) -> str:
    node = traced.through[0].node if traced.through else traced.table.node
    return str(node.alias_or_name)
