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
    "Word",
    "counts_rows",
    "means_no_columns",
    "sources_of",
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

    @property
    def name(self) -> str:
        """What columns of it are qualified with, in lower case."""
        return str(self.node.alias_or_name).lower()


class Call(msgspec.Struct, frozen=True):
    """A search where it stands, from `start` to `end`: about `column` (None for all) of what `qualifier` names."""

    node: Any
    column: str | None
    qualifier: str
    start: int
    end: int


class Statement:
    """A statement as text, tokens and tree, with its references to tables of ours."""

    def __init__(self, text: str, tokens: Sequence[Word], tree: Any, mentions: Sequence[Mention]) -> None:
        self.text = text
        self.tree = tree
        self.mentions = mentions
        self.words = frozenset(token.text.lower() for token in tokens)
        self._parens = [token for token in tokens if token.is_paren]
        self._by_node = {id(mention.node): mention for mention in mentions}

    def function(self, node: Any, target: Any) -> Call:
        """The call of a function whose first argument is `target`. Raises QueryInvalid if that is no column or `*`."""
        start = int(node.meta["start"])
        is_star = isinstance(target, exp.Star) or isinstance(getattr(target, "this", None), exp.Star)
        if not is_star and not isinstance(target, exp.Column):
            raise self.fault(start, f"the first argument of {node.name.upper()} must be a column or *")
        qualifier = target.table.lower() if isinstance(target, exp.Column) else ""
        return Call(node, None if is_star else target.name, qualifier, start, self.closing(int(node.meta["end"]) + 1))

    def reference_of(self, call: Call, missing: Callable[[Sequence[Any]], Exception]) -> tuple[Mention, Any]:
        """The reference that a call is about, and its SELECT: the nearest one around the call, else further out.

        Where it may be about something that is no table of ours, or is about nothing, raises what `missing` makes of
        these other sources. Raises QueryInvalid where it may be about two.
        """
        select = call.node.find_ancestor(exp.Select)
        while select is not None:
            found = [mention for mention in self.of_select(select) if _is_about(mention, call)]
            if len(found) > 1:
                names = " or ".join(sorted(mention.node.alias_or_name for mention in found))
                message = f"{self.text[call.start : call.end]} could be about {names}: more than one table has it"
                raise self.fault(call.start, f"{message}; write the table before the column")
            if found:
                return found[0], select
            others = [node for node in sources_of(select) if id(node) not in self._by_node]
            outer = select.find_ancestor(exp.Select)
            is_named = any(node.alias_or_name.lower() == call.qualifier for node in others)
            # Without a qualifier, a column of theirs hides one of the same name further out.
            if others and (is_named or not call.qualifier or outer is None):
                raise missing(others)
            select = outer
        raise missing([])

    def of_select(self, select: Any) -> list[Mention]:
        """Our tables in FROM and JOIN of one SELECT."""
        return [self._by_node[id(node)] for node in sources_of(select) if id(node) in self._by_node]

    def wants_score(self, mention: Mention) -> bool:
        """True if the statement asks for `_score` and the table has no such column of its own."""
        return SCORE in self.words and spelled(mention.columns, SCORE) is None

    def after_stars(self, hidden: Mapping[int, Sequence[str]], quote: str) -> Iterator[tuple[int, str]]:
        """What to insert where, so that no `*` shows the `hidden` columns of the references it covers, by number.

        Raises NotSupported for a star that cannot leave columns out.
        """
        for star in self.tree.find_all(exp.Star):
            if means_no_columns(star) or "start" not in star.meta:
                continue
            item = star.parent if isinstance(star.parent, exp.Column) else star
            inside = item.find_ancestor(exp.Select)
            covered = [] if inside is None else self.of_select(inside)
            qualifier = item.table.lower() if isinstance(item, exp.Column) else ""
            names = [
                f"{quote}{name}{quote}"
                for mention in covered
                if not qualifier or mention.name == qualifier
                for name in hidden.get(mention.number, ())
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


def sources_of(select: Any) -> list[Any]:
    """What stands in FROM and JOIN of one SELECT."""
    first = select.args.get("from_") or select.args.get("from")
    found = [] if first is None else [first.this, *(join.this for join in first.this.args.get("joins") or ())]
    return [*found, *(join.this for join in select.args.get("joins") or ())]


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


def _is_about(mention: Mention, call: Call) -> bool:
    if call.qualifier and mention.name != call.qualifier:
        return False
    return call.column is None or spelled(mention.columns, call.column) is not None
