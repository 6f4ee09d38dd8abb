"""Turns `TEXTSEARCH(column | *, 'query')` into a hidden boolean column of its table, for DataFusion. Pure.

DataFusion's own optimizer brings the column to the scan, where the index answers it (`indextables.sql.textsearch`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from indextables.errors import LimitExceeded, NotSupported, QueryInvalid
from indextables.lazy import LazyModule
from indextables.sql.textsearch import (
    FUNCTION,
    NEEDS_ONE,
    SCORE,
    Mention,
    Statement,
    Traced,
    Word,
    not_followed,
    unused_prefix,
)
from indextables.table.read import Mark

if TYPE_CHECKING:
    from sqlglot import expressions as exp
else:
    exp = LazyModule("sqlglot.expressions")

__all__ = [
    "MAX_DEPTH",
    "MAX_TEXT_CHARS",
    "Rewritten",
    "TableReference",
    "mentions_search",
    "parse",
    "rewrite",
]

MAX_TEXT_CHARS = 1_000_000
MAX_DEPTH = 64


class TableReference(msgspec.Struct, frozen=True):
    """One table reference of the statement: the table it reads and the hidden columns it has on top.

    With `score` there is one more, `_score`: that of its only search, in rows that match it. A `wide` one shows whole
    numbers with 64 bits.
    """

    table: str
    searches: tuple[Mark, ...] = ()
    score: bool = False
    wide: bool = False


class Rewritten(msgspec.Struct, frozen=True):
    """A statement without `TEXTSEARCH`, and what each table name in it stands for."""

    text: str
    targets: dict[str, TableReference]


def mentions_search(text: str) -> bool:
    """False if the statement surely has no TEXTSEARCH; then nothing needs to be rewritten."""
    return FUNCTION in text.lower()


def rewrite(text: str, tables: Mapping[str, pa.Schema], params: Mapping[str, object] | None = None) -> Rewritten:
    """`text` with every TEXTSEARCH resolved against `tables` (names in lower case).

    Raises QueryInvalid (with `position`) for a call that is not `TEXTSEARCH(column | *, 'query')`, for columns and
    tables it cannot be about, and for text that is no SQL; LimitExceeded for text that is too long or too deep;
    NotSupported for a call whose table reference cannot carry it.
    """
    plain = {name: TableReference(name) for name in tables}
    if not mentions_search(text):
        return Rewritten(text, plain)
    tree, words = parse(text)
    calls = [node for node in tree.walk() if isinstance(node, exp.Anonymous) and node.name.lower() == FUNCTION]
    if not calls:
        return Rewritten(text, plain)
    return _Rewriter(text, tree, words, tables, params or {}).run(calls, plain)


class _Rewriter:
    """Collects edits of one statement, then applies them from the end to the start."""

    def __init__(
        self,
        text: str,
        tree: Any,
        words: Sequence[Word],
        tables: Mapping[str, pa.Schema],
        params: Mapping[str, object],
    ) -> None:
        self._tables = tables
        self._params = params
        self._ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        ours = [node for node in tree.find_all(exp.Table) if self._is_ours(node)]
        mentions = [Mention(place, node, tables[node.name.lower()].names) for place, node in enumerate(ours)]
        self._statement = Statement(text, words, tree, mentions)
        self._edits: list[tuple[int, int, str]] = []
        self._searches: dict[int, list[Mark]] = {}
        self._handed_on: list[tuple[Traced, str]] = []
        self._names: dict[tuple[Any, ...], str] = {}
        self._prefix = unused_prefix(text, (name for schema in tables.values() for name in schema.names))

    def run(self, calls: list[Any], plain: dict[str, TableReference]) -> Rewritten:
        """The whole statement."""
        statement = self._statement
        for number, call in enumerate(calls):
            self._replace_call(number, call)
        targets = dict(plain)
        hidden: dict[int, list[str]] = {}
        scores: set[int] = set()
        for number, (place, searches) in enumerate(self._searches.items()):
            mention = statement.mentions[place]
            scored = statement.wants_score(mention)
            if scored and len(searches) > 1:
                raise NotSupported(NEEDS_ONE, query=statement.text)
            scores |= {place} if scored else set()
            hidden[id(mention.node)] = [*(search.name for search in searches), *([SCORE] if scored else [])]
            name = f"{self._prefix}t{number}"
            targets[name] = TableReference(mention.node.name.lower(), tuple(searches), scored)
            self._rename_table(mention.node, name)
        for traced, name in self._handed_on:
            names = [name, *([SCORE] if traced.table.number in scores else [])]
            given = statement.handed_on(traced, names, '"', lambda mention: self._alias(mention.node))
            self._edits += [(at, at, new) for at, new in given]
            for node in statement.shown_by(traced):
                hidden.setdefault(node, []).extend(name for name in names if name not in hidden[node])
        self._edits += [(after, after, new) for after, new in statement.after_stars(hidden, '"')]
        text = statement.text
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        return Rewritten(text, targets)

    def _replace_call(self, number: int, node: Any) -> None:
        statement = self._statement
        if len(node.expressions) != 2:
            raise self._fault(node, f"{FUNCTION.upper()} takes a column (or *) and a query text")
        target, query = node.expressions
        call = statement.function(node, target)

        def missing(others: Sequence[Any], why: str) -> Exception:
            return self._not_the_table(others[0], why) if others else self._no_column(node, call.what)

        traced, _ = statement.reference_of(call, missing)
        asked = self._query_text(node, query)
        # The same search has the same column, so that SELECT, GROUP BY and ORDER BY see that it is the same value.
        key = (traced.table.number, tuple(id(source.node) for source in traced.through), traced.path, asked)
        name = self._names.setdefault(key, f"{self._prefix}{number}")
        if name == f"{self._prefix}{number}":
            self._searches.setdefault(traced.table.number, []).append(Mark(name, ".".join(traced.path) or None, asked))
            self._handed_on += [(traced, name)] if traced.through else []
        alias = self._alias(traced.table.node)
        if traced.through:
            alias = statement.alias_text(traced.through[0].node)
        self._edits.append((call.start, call.end, f'{alias}."{name}"' if alias else f'"{name}"'))

    def _query_text(self, call: Any, node: Any) -> str:
        if isinstance(node, exp.Literal) and node.is_string:
            return str(node.this)
        if isinstance(node, exp.Parameter | exp.Placeholder):
            value = self._params.get(node.name)
            if isinstance(value, str):
                return value
            raise self._fault(call, f"the parameter ${node.name} of {FUNCTION.upper()} must be given as text")
        message = f"the second argument of {FUNCTION.upper()} must be a text in single quotes or a $parameter"
        raise self._fault(call, message)

    def _is_ours(self, table: Any) -> bool:
        name = table.name.lower()
        return not table.db and name not in self._ctes and name in self._tables

    def _not_the_table(self, source: Any, why: str) -> Exception:
        if isinstance(source, exp.Table) and source.name.lower() not in self._ctes:
            known = ", ".join(sorted(self._tables))
            return self._fault(source.this, f"there is no table {source.name!r} here; the tables are {known}")
        return NotSupported(not_followed(why), query=self._statement.text)

    def _no_column(self, call: Any, what: str) -> Exception:
        known = ", ".join(sorted(self._tables))
        return self._fault(call, f"{what!r} is not a column of a table of this statement; the tables are {known}")

    def _rename_table(self, reference: Any, name: str) -> None:
        start, end = _span(reference.this)
        alias = "" if reference.alias else f" AS {self._statement.text[start:end]}"
        self._edits.append((start, end, f'"{name}"{alias}'))

    def _alias(self, reference: Any) -> str:
        alias = reference.args.get("alias")
        start, end = _span(alias.this if alias is not None else reference.this)
        return self._statement.text[start:end]

    def _fault(self, node: Any, message: str) -> QueryInvalid:
        return self._statement.fault(int(node.meta.get("start", 0)), message)


def _span(identifier: Any) -> tuple[int, int]:
    return int(identifier.meta["start"]), int(identifier.meta["end"]) + 1


def parse(text: str) -> tuple[Any, list[Word]]:
    """The one statement as sqlglot reads it, and its tokens but for texts. Raises QueryInvalid, LimitExceeded."""
    if len(text) > MAX_TEXT_CHARS:
        message = f"the statement has {len(text)} characters, the limit is {MAX_TEXT_CHARS}"
        raise LimitExceeded(message, limit=MAX_TEXT_CHARS, actual=len(text))
    from sqlglot import TokenType
    from sqlglot.dialects.postgres import Postgres
    from sqlglot.errors import ParseError, TokenError

    dialect = Postgres()
    try:
        tokens = dialect.tokenize(text)
        depth = 0
        for token in tokens:
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth > MAX_DEPTH:
                raise _too_deep()
        trees = [tree for tree in dialect.parser().parse(tokens, text) if tree is not None]
    except TokenError as cause:
        raise QueryInvalid(f"a quote is not closed in {_excerpt(text)}", query=text, position=0) from cause
    except ParseError as cause:
        fault: Any = cause.errors[0] if cause.errors else {}
        what = f"{fault.get('description') or 'not SQL'} (line {fault.get('line', 1)}, column {fault.get('col', 1)})"
        raise QueryInvalid(f"{what} in {_excerpt(text)}", query=text, position=0) from cause
    except RecursionError:
        raise _too_deep() from None
    except AttributeError as cause:
        # sqlglot ends so where a pipe follows `SELECT * FROM t`.
        raise QueryInvalid(f"{_excerpt(text)} cannot be read: write it without |>", query=text, position=0) from cause
    if len(trees) != 1:
        raise QueryInvalid("give one SELECT statement", query=text, position=0)
    parens = (TokenType.L_PAREN, TokenType.R_PAREN)
    return trees[0], [
        Word(t.text, t.start, t.end + 1, t.token_type in parens)
        for t in tokens
        # A text in quotes is no word of the statement: it names nothing.
        if not t.token_type.name.endswith("STRING")
    ]


def _too_deep() -> LimitExceeded:
    return LimitExceeded(f"the statement is nested deeper than {MAX_DEPTH} levels", limit=MAX_DEPTH)


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:120] + "...")
