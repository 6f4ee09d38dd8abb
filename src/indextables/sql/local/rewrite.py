"""`TEXTSEARCH(column | *, 'query')` becomes a hidden boolean column of the table it speaks about. Pure.

DataFusion knows no full-text search, but it knows columns. So every call turns into a column that only the one table
reference it belongs to has, and that is true in exactly the rows the search matches. Wherever the call stands (under OR
or NOT, beside an outer join, in the SELECT list) the answer is exact, and DataFusion's own optimizer brings the column
to the scan, where the index answers it. The statement is edited in place, by position: all else reaches DataFusion as
it was typed, and the query text itself never does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import LimitExceeded, NotSupported, QueryInvalid
from indextables.sql.textsearch import NEEDS_ONE, SCORE
from indextables.table.read import Mark

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
_FUNCTION = "textsearch"


class TableReference(msgspec.Struct, frozen=True):
    """One table reference of the statement: the table it reads and the hidden columns it has on top.

    With `score` there is one more, `_score`: that of its only search, in rows that match it.
    """

    table: str
    searches: tuple[Mark, ...] = ()
    score: bool = False


class Rewritten(msgspec.Struct, frozen=True):
    """A statement without `TEXTSEARCH`, and what each table name in it stands for."""

    text: str
    targets: dict[str, TableReference]


def mentions_search(text: str) -> bool:
    """False if the statement surely has no TEXTSEARCH; then nothing needs to be rewritten."""
    return _FUNCTION in text.lower()


def rewrite(text: str, tables: Mapping[str, pa.Schema], params: Mapping[str, object] | None = None) -> Rewritten:
    """`text` with every TEXTSEARCH resolved against `tables` (names in lower case).

    Raises QueryInvalid (with `position`) for a call that is not `TEXTSEARCH(column | *, 'query')`, for columns and
    tables it cannot be about, and for text that is no SQL; LimitExceeded for text that is too long or too deep;
    NotSupported for a call whose table reference cannot carry it.
    """
    plain = {name: TableReference(name) for name in tables}
    if not mentions_search(text):
        return Rewritten(text, plain)
    tree, tokens = parse(text)
    calls = [node for node in tree.walk() if _is_call(node)]
    if not calls:
        return Rewritten(text, plain)
    return _Rewriter(text, tree, tokens, tables, params or {}).run(calls, plain)


class _Rewriter:
    """Collects edits of one statement, then applies them from the end to the start."""

    def __init__(
        self, text: str, tree: Any, tokens: Any, tables: Mapping[str, pa.Schema], params: Mapping[str, object]
    ) -> None:
        from sqlglot import exp

        self._text = text
        self._tokens = tokens
        self._tables = tables
        self._params = params
        self._ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        self._edits: list[tuple[int, int, str]] = []
        self._searches: dict[int, list[Mark]] = {}
        self._references: dict[int, Any] = {}
        self._prefix = _unused_prefix(text, tables)

    def run(self, calls: list[Any], plain: dict[str, TableReference]) -> Rewritten:
        """The whole statement."""
        for number, call in enumerate(calls):
            self._replace_call(number, call)
        targets = dict(plain)
        for number, (key, searches) in enumerate(self._searches.items()):
            reference = self._references[key]
            name = f"{self._prefix}t{number}"
            scored = self._is_scored(reference)
            if scored and len(searches) > 1:
                raise NotSupported(NEEDS_ONE, query=self._text)
            targets[name] = TableReference(reference.name.lower(), tuple(searches), scored)
            self._rename_table(reference, name)
        self._hide_from_stars()
        text = self._text
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        return Rewritten(text, targets)

    def _replace_call(self, number: int, call: Any) -> None:
        from sqlglot import exp

        if len(call.expressions) != 2:
            raise self._fault(call, f"{_FUNCTION.upper()} takes a column (or *) and a query text")
        target, query = call.expressions
        star = isinstance(target, exp.Star) or isinstance(getattr(target, "this", None), exp.Star)
        if not star and not isinstance(target, exp.Column):
            raise self._fault(call, f"the first argument of {_FUNCTION.upper()} must be a column or *")
        qualifier = target.table.lower() if isinstance(target, exp.Column) else ""
        column = None if star else target.name
        reference = self._resolve(call, qualifier, column)
        if column is not None:
            column = _spelled(self._tables[reference.name.lower()], column)
        search = Mark(f"{self._prefix}{number}", column, self._query_text(call, query))
        self._references[id(reference)] = reference
        self._searches.setdefault(id(reference), []).append(search)
        start, end = call.meta["start"], self._closing_paren(call.meta["end"])
        self._edits.append((start, end + 1, f'{self._alias(reference)}."{search.name}"'))

    def _query_text(self, call: Any, node: Any) -> str:
        from sqlglot import exp

        if isinstance(node, exp.Literal) and node.is_string:
            return str(node.this)
        if isinstance(node, exp.Parameter | exp.Placeholder):
            value = self._params.get(node.name)
            if isinstance(value, str):
                return value
            raise self._fault(call, f"the parameter ${node.name} of {_FUNCTION.upper()} must be given as text")
        message = f"the second argument of {_FUNCTION.upper()} must be a text in single quotes or a $parameter"
        raise self._fault(call, message)

    def _resolve(self, call: Any, qualifier: str, column: str | None) -> Any:
        """The table reference a call is about: in the nearest SELECT around it, else further out."""
        from sqlglot import exp

        select = call.find_ancestor(exp.Select)
        while select is not None:
            sources = list(_sources(select))
            found = [source for source in sources if self._is_about(source, qualifier, column)]
            if len(found) > 1:
                message = f"{self._slice(call)} could be about {' or '.join(sorted(s.alias_or_name for s in found))}"
                raise self._fault(call, f"{message}; write the table before the column")
            if found:
                return found[0]
            outer = select.find_ancestor(exp.Select)
            derived = [s for s in sources if self._is_derived(s)]
            if any(s.alias_or_name.lower() == qualifier for s in derived) or (outer is None and derived):
                raise self._not_the_table(derived[0])
            select = outer
        known = ", ".join(sorted(self._tables))
        what = f"{qualifier}.{column or '*'}" if qualifier else column or "*"
        raise self._fault(call, f"{what!r} is not a column of a table of this statement; the tables are {known}")

    def _is_about(self, source: Any, qualifier: str, column: str | None) -> bool:
        if self._is_derived(source) or (qualifier and source.alias_or_name.lower() != qualifier):
            return False
        return column is None or _spelled(self._tables[source.name.lower()], column) is not None

    def _is_derived(self, source: Any) -> bool:
        from sqlglot import exp

        name = source.name.lower() if isinstance(source, exp.Table) else ""
        return not name or bool(source.db) or name in self._ctes or name not in self._tables

    def _not_the_table(self, source: Any) -> Exception:
        from sqlglot import exp

        if isinstance(source, exp.Table) and source.name.lower() not in self._ctes:
            known = ", ".join(sorted(self._tables))
            return self._fault(source.this, f"there is no table {source.name!r} here; the tables are {known}")
        message = f"{_FUNCTION.upper()} needs the table itself in FROM, not a subquery or WITH name"
        return NotSupported(f"{message}; move it into that subquery, beside FROM", query=self._text)

    def _rename_table(self, reference: Any, name: str) -> None:
        identifier = reference.this
        start, end = identifier.meta["start"], identifier.meta["end"]
        alias = "" if reference.alias else f" AS {self._text[start : end + 1]}"
        self._edits.append((start, end + 1, f'"{name}"{alias}'))

    def _hide_from_stars(self) -> None:
        """`*` must not show the hidden columns of the tables it covers."""
        from sqlglot import exp

        selects: dict[int, Any] = {}
        for reference in self._references.values():
            select = reference.find_ancestor(exp.Select)
            selects[id(select)] = select
        for select in selects.values():
            own = [s for s in _sources(select) if id(s) in self._searches]
            for item in select.expressions:
                star = item.this if isinstance(item, exp.Column) else item
                if not isinstance(star, exp.Star):
                    continue
                qualifier = item.table.lower() if isinstance(item, exp.Column) else ""
                covered = [s for s in own if not qualifier or s.alias_or_name.lower() == qualifier]
                hidden = [f'"{search.name}"' for source in covered for search in self._searches[id(source)]]
                hidden += [f'"{SCORE}"' for source in covered if self._is_scored(source)]
                if hidden and any(star.args.get(key) for key in ("except_", "except", "replace", "rename")):
                    message = f"* EXCEPT beside {_FUNCTION.upper()} is not offered"
                    raise NotSupported(f"{message}; name the columns", query=self._text)
                if hidden:
                    after = star.meta["end"] + 1
                    self._edits.append((after, after, f" EXCEPT ({', '.join(hidden)})"))

    def _is_scored(self, reference: Any) -> bool:
        """True if the statement asks for `_score` and the table has no such column of its own."""
        if _spelled(self._tables[reference.name.lower()], SCORE) is not None:
            return False
        return any(token.text.lower() == SCORE for token in self._tokens)

    def _alias(self, reference: Any) -> str:
        alias = reference.args.get("alias")
        identifier = alias.this if alias is not None else reference.this
        return self._text[identifier.meta["start"] : identifier.meta["end"] + 1]

    def _closing_paren(self, after: int) -> int:
        from sqlglot import TokenType

        depth = 0
        for token in self._tokens:
            if token.start <= after:
                continue
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth == 0:
                return int(token.end)
        raise QueryInvalid("a parenthesis is not closed", query=self._text, position=after)

    def _slice(self, call: Any) -> str:
        return self._text[call.meta["start"] : self._closing_paren(call.meta["end"]) + 1]

    def _fault(self, node: Any, message: str) -> QueryInvalid:
        return QueryInvalid(message, query=self._text, position=int(node.meta.get("start", 0)))


def _is_call(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Anonymous) and node.name.lower() == _FUNCTION


def _sources(select: Any) -> Iterator[Any]:
    """What stands in FROM and JOIN of one SELECT."""
    first = select.args.get("from_") or select.args.get("from")
    if first is not None:
        yield first.this
        for join in first.this.args.get("joins") or ():
            yield join.this
    for join in select.args.get("joins") or ():
        yield join.this


def _spelled(schema: pa.Schema, column: str) -> str | None:
    """The column in the table's own spelling."""
    for name in schema.names:
        if name.lower() == column.lower():
            return str(name)
    return None


def _unused_prefix(text: str, tables: Mapping[str, pa.Schema]) -> str:
    taken = text.lower() + " ".join(name.lower() for schema in tables.values() for name in schema.names)
    number = 0
    while f"__search{number}_" in taken:
        number += 1
    return f"__search{number}_"


def parse(text: str) -> tuple[Any, Any]:
    """The one statement as sqlglot reads it, and its tokens; raises QueryInvalid and LimitExceeded."""
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
    if len(trees) != 1:
        raise QueryInvalid("give one SELECT statement", query=text, position=0)
    return trees[0], tokens


def _too_deep() -> LimitExceeded:
    return LimitExceeded(f"the statement is nested deeper than {MAX_DEPTH} levels", limit=MAX_DEPTH)


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:120] + "...")
