"""What each reference of a statement must deliver, and the statement that Spark is given instead. Pure.

A search becomes a hidden column that is true in the rows it matches, as in `indextables.sql.local`; where it stands
beside AND in the WHERE of its table, only those rows need to be delivered at all. All else reaches Spark as typed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from indextables.errors import NotSupported, QueryInvalid
from indextables.sql.command import Args, Found, Reference, Token, query_of
from indextables.sql.spark.filters import filters_of
from indextables.sql.textsearch import NEEDS_ONE, SCORE
from indextables.table.read import Mark

__all__ = ["Need", "Rewritten", "rewrite_for_spark"]

_EVERYWHERE = "_indexall"


class Need(msgspec.Struct, frozen=True):
    """What the rows of one reference must have.

    1. Only rows that every search in `required` matches are needed.
    2. Each search in `marked`, and in `required` if `shows_required`, has a boolean column of its name.
    3. `columns` are those that the statement may read; None for all.
    4. `score` asks for `_score` of the one search that is required.
    5. `counts` asks for nothing but the number of rows.
    6. Rows for which one of `filters` is not true are not needed.
    """

    required: tuple[Mark, ...] = ()
    marked: tuple[Mark, ...] = ()
    shows_required: bool = False
    columns: tuple[str, ...] | None = None
    score: bool = False
    counts: bool = False
    filters: tuple[str, ...] = ()


class Rewritten(msgspec.Struct, frozen=True):
    """`pieces` alternate: text as typed, then the number of a reference (or text of ours), and so on."""

    pieces: list[str | int]
    needs: list[Need]
    args: Args | None


def rewrite_for_spark(found: Found, columns: Sequence[Sequence[str]], args: Args | None) -> Rewritten:
    """The statement without searches, and what each reference must deliver; `columns` are those of each reference.

    Raises QueryInvalid (with `position`), NotSupported.
    """
    return _Rewriter(found, columns, args).run()


class _Call(msgspec.Struct):
    node: Any
    column: str | None
    qualifier: str
    query: Token
    start: int
    end: int
    negated: bool = False


class _Rewriter:
    def __init__(self, found: Found, columns: Sequence[Sequence[str]], args: Args | None) -> None:
        self._found = found
        self._columns = columns
        self._args = args
        self._edits: list[tuple[int, int, str | int]] = []
        self._required: dict[int, list[Mark]] = {}
        self._marked: dict[int, list[Mark]] = {}
        self._bound: list[Token] = []
        self._by_node = {id(node): ref for node, ref in zip(found.nodes, found.references, strict=True)}
        self._starts = {token.start: place for place, token in enumerate(found.tokens)}
        self._ends = {token.end: place for place, token in enumerate(found.tokens)}
        self._prefix = _unused_prefix(found.text, columns)

    def run(self) -> Rewritten:
        for number, call in enumerate(self._calls()):
            self._take(number, call)
        needs = [self._need(reference) for reference in self._found.references]
        for reference in self._found.references:
            self._replace(reference, needs[reference.number])
        self._hide_from_stars(needs)
        self._shorten_qualifiers()
        return Rewritten(self._pieces(), needs, self._rest_of_args())

    # Searches

    def _calls(self) -> list[_Call]:
        from sqlglot import exp

        calls = []
        for node in self._found.tree.walk():
            if isinstance(node, exp.Anonymous) and node.name.lower() in ("textsearch", "indexqueryall"):
                calls.append(self._function(node))
            elif isinstance(node, exp.RegexpLike):
                found = self._operator(node)
                if found is not None:
                    calls.append(found)
        return sorted(calls, key=lambda call: call.start)

    def _function(self, node: Any) -> _Call:
        from sqlglot import exp

        start = int(node.meta["start"])
        opening = self._place(self._starts, start) + 1
        end = self._closing(opening)
        inside = self._found.tokens[opening + 1 : self._ends[end]]
        wants = 1 if node.name.lower() == "indexqueryall" else 2
        name = node.name.upper()
        if len(node.expressions) != wants:
            form = "a query text" if wants == 1 else "a column (or *) and a query text"
            raise self._fault(start, f"{name} takes {form}")
        target = node.expressions[0] if wants == 2 else exp.Star()
        star = isinstance(target, exp.Star) or isinstance(getattr(target, "this", None), exp.Star)
        if not star and not isinstance(target, exp.Column):
            raise self._fault(start, f"the first argument of {name} must be a column or *")
        query = inside[-1] if inside else None
        if query is None or query.kind not in ("text", "parameter") or not _is_plain(node.expressions[-1]):
            raise self._fault(start, f"the query of {name} must be a text in quotes or a parameter")
        qualifier = target.table.lower() if isinstance(target, exp.Column) else ""
        return _Call(node, None if star else target.name, qualifier, query, start, end)

    def _operator(self, node: Any) -> _Call | None:
        from sqlglot import exp

        column = node.this
        if not isinstance(column, exp.Column) or "start" not in column.this.meta:
            return None
        place = self._place(self._ends, int(column.this.meta["end"]) + 1) + 1
        listed = self._found.tokens
        negated = listed[place].upper == "NOT"
        place += negated
        spelled = self._found.operators.get(listed[place].start)
        if spelled is None:
            return None
        first = column.parts[0]
        everywhere = spelled == "INDEXQUERYALL" or column.name.lower() == _EVERYWHERE
        query = listed[place + 1]
        if not _is_plain(node.expression):
            raise self._fault(query.start, f"the query of {spelled} must be a text in quotes or a parameter")
        name = None if everywhere else column.name
        return _Call(node, name, column.table.lower(), query, int(first.meta["start"]), query.end, negated=negated)

    def _take(self, number: int, call: _Call) -> None:
        reference, select = self._resolve(call)
        if reference.shape == "other":
            message = (
                "a search stands beside PIVOT, UNPIVOT, a list of column names or a pipe: search in a subquery, "
                "(SELECT * FROM the table WHERE ...), and put that in the place of the table"
            )
            raise NotSupported(message, query=self._found.text, position=call.start)
        query = query_of(call.query, self._found, self._args)
        if not isinstance(query, str):
            raise self._fault(call.query.start, f"the query of a search is a text, not {query!r}")
        column = None
        if call.column is not None:
            column = next(n for n in self._columns[reference.number] if n.lower() == call.column.lower())
        search = Mark(f"{self._prefix}{number}", column, query)
        is_required = select is call.node.find_ancestor(_select()) and _is_conjunct(call.node) and not call.negated
        # A sample is taken of all rows, before any condition.
        is_required = is_required and reference.shape == "plain"
        kept = self._required if is_required else self._marked
        kept.setdefault(reference.number, []).append(search)
        self._bound.append(call.query)
        hidden = f"`{search.name}`"
        self._edits.append((call.start, call.end, f"(NOT {hidden})" if call.negated else hidden))

    def _resolve(self, call: _Call) -> tuple[Reference, Any]:
        """The reference a search is about: in the nearest SELECT around it, else further out."""
        select = call.node.find_ancestor(_select())
        while select is not None:
            found = [ref for ref in self._of_select(select) if self._is_about(ref, call)]
            if len(found) > 1:
                raise self._fault(call.start, "more than one table has this column; write the table before the column")
            if found:
                return found[0], select
            select = select.find_ancestor(_select())
        what = f"{call.qualifier}.{call.column or '*'}" if call.qualifier else call.column or "*"
        message = (
            f"{what!r} is not a column of a table of IndexTables in this SELECT; a search needs the table itself in "
            "FROM beside it, not a subquery, a view or a WITH name"
        )
        raise self._fault(call.start, message)

    def _of_select(self, select: Any) -> list[Reference]:
        return [self._by_node[id(node)] for node in _sources(select) if id(node) in self._by_node]

    def _is_about(self, reference: Reference, call: _Call) -> bool:
        node = self._found.nodes[reference.number]
        if call.qualifier and node.alias_or_name.lower() != call.qualifier:
            return False
        return call.column is None or call.column.lower() in (n.lower() for n in self._columns[reference.number])

    # What is delivered

    def _need(self, reference: Reference) -> Need:
        required = tuple(self._required.get(reference.number, ()))
        marked = tuple(self._marked.get(reference.number, ()))
        score = self._wants_score(reference) and bool(required or marked)
        if score and len(required) != 1:
            raise NotSupported(NEEDS_ONE, query=self._found.text)
        return Need(
            required=required,
            marked=marked,
            shows_required=bool(required),
            columns=self._read_columns(reference),
            score=score,
            counts=not required and not marked and self._counts(reference),
            filters=tuple(filters_of(self._found, reference, self._columns[reference.number], self._args)),
        )

    def _wants_score(self, reference: Reference) -> bool:
        if any(name.lower() == SCORE for name in self._columns[reference.number]):
            return False
        return any(token.text.strip("`").lower() == SCORE for token in self._found.tokens)

    def _read_columns(self, reference: Reference) -> tuple[str, ...] | None:
        """Columns whose names stand anywhere in the statement; None if a star may mean any."""
        from sqlglot import exp

        tree = self._found.tree
        stars = any(not _means_no_columns(star) for star in tree.find_all(exp.Star))
        natural = any(join.args.get("method") for join in tree.find_all(exp.Join))
        computed = any(token.upper == "IDENTIFIER" for token in self._found.tokens)
        if stars or natural or computed or not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
            return None
        words = {token.text.strip("`").replace("``", "`").lower() for token in self._found.tokens}
        return tuple(name for name in self._columns[reference.number] if name.lower() in words)

    def _counts(self, reference: Reference) -> bool:
        """True for `SELECT count(*) [AS n] FROM t` and nothing more."""
        from sqlglot import exp

        node = self._found.nodes[reference.number]
        select = node.parent.parent if isinstance(node.parent, exp.From) else None
        if not isinstance(select, exp.Select) or len(select.expressions) != 1 or reference.shape != "plain":
            return False
        plain = {"expressions", "from_", "from", "limit", "with_", "with", "kind"}
        if any(value for key, value in select.args.items() if key not in plain) or node.args.get("joins"):
            return False
        item = select.expressions[0]
        call = item.this if isinstance(item, exp.Alias) else item
        return isinstance(call, exp.Count) and _counts_rows(call) and "start" in call.meta

    def _replace(self, reference: Reference, need: Need) -> None:
        end = reference.end if reference.as_of is None else reference.as_of.end
        self._edits.append((reference.start, end, reference.number))
        self._bound += [t for t in self._found.tokens if reference.start <= t.start < end and t.kind == "parameter"]
        if reference.shown:
            self._edits.append((reference.shown_at, reference.shown_at, f" AS {reference.shown}"))
        if need.counts:
            self._count_from_log(reference)

    def _count_from_log(self, reference: Reference) -> None:
        """The rows of this reference are one row that holds the number."""
        from sqlglot import exp

        item = self._found.nodes[reference.number].parent.parent.expressions[0]
        call = item.this if isinstance(item, exp.Alias) else item
        start = int(call.meta["start"])
        end = self._closing(self._place(self._starts, start) + 1)
        shown = "" if isinstance(item, exp.Alias) else " AS `count(1)`"
        self._edits.append((start, end, f"`{COUNTED}`{shown}"))

    def _hide_from_stars(self, needs: Sequence[Need]) -> None:
        """`*` must not show the hidden columns of the tables it covers."""
        from sqlglot import exp

        for star in self._found.tree.find_all(exp.Star):
            if _means_no_columns(star) or "start" not in star.meta:
                continue
            item = star.parent if isinstance(star.parent, exp.Column) else star
            select = item.parent
            inside = item.find_ancestor(_select())
            covered = [] if inside is None else self._of_select(inside)
            qualifier = item.table.lower() if isinstance(item, exp.Column) else ""
            hidden = [
                f"`{name}`"
                for ref in covered
                if not qualifier or self._found.nodes[ref.number].alias_or_name.lower() == qualifier
                for name in _hidden(needs[ref.number])
            ]
            if not hidden:
                continue
            if not isinstance(select, exp.Select) or any(star.args.get(k) for k in ("except_", "except", "replace")):
                raise NotSupported(
                    "* inside of something else, beside a search: name the columns", query=self._found.text
                )
            after = int(star.meta["end"]) + 1
            self._edits.append((after, after, f" EXCEPT ({', '.join(hidden)})"))

    def _shorten_qualifiers(self) -> None:
        """`db.t.id` as `t.id`: an alias, which is what Spark knows a reference by, has no database before it."""
        from sqlglot import exp

        spelled = [_full_name(ref) for ref in self._found.references if ref.shown]
        targets = {id(self._found.nodes[ref.number]) for ref in self._found.references if ref.role == "insert"}
        taken = [
            source.alias_or_name.lower()
            for source in self._found.tree.find_all(exp.Table, exp.DerivedTable, exp.CTE, exp.Lateral)
            if id(source) not in targets and source.find_ancestor(exp.Hint) is None
        ]
        # Where a second source has the name, Spark would look for the column there.
        spelled = [names for names in spelled if taken.count(names[-1]) == 1]
        for column in self._found.tree.find_all(exp.Column) if spelled else ():
            parts = column.parts
            names = [part.name.lower() for part in parts]
            count = next((n for n in (3, 2) if len(names) > n and any(names[:n] == full[-n:] for full in spelled)), 0)
            if not count or not all("start" in part.meta for part in parts[:count]):
                continue
            start, end = int(parts[0].meta["start"]), int(parts[count - 1].meta["start"])
            if not any(first <= start < last for first, last, _ in self._edits):
                self._edits.append((start, end, ""))

    # Text

    def _pieces(self) -> list[str | int]:
        text = self._found.text
        pieces: list[str | int] = []
        at = 0
        for start, end, new in sorted(self._edits, key=lambda edit: (edit[0], edit[1])):
            pieces += [text[at:start], new]
            at = end
        return [*pieces, text[at:]]

    def _rest_of_args(self) -> Args | None:
        """Values by place, without those that were taken here."""
        if self._args is None or isinstance(self._args, Mapping):
            return self._args
        marks = [token.start for token in self._found.tokens if token.kind == "parameter" and token.text == "?"]
        taken = {marks.index(token.start) for token in self._bound if token.text == "?"}
        return [value for place, value in enumerate(self._args) if place not in taken]

    def _closing(self, opening: int) -> int:
        """Where the parenthesis that opens at a token ends."""
        depth = 0
        for token in self._found.tokens[opening:]:
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            if depth == 0:
                return token.end
        raise self._fault(opening, "a parenthesis is not closed")

    def _place(self, places: Mapping[int, int], position: int) -> int:
        """The number of the token at a position, which sqlglot and our own tokens must agree about."""
        if position not in places:
            raise self._fault(position, "this part of the statement cannot be followed: write it in a simpler way")
        return places[position]

    def _fault(self, position: int, message: str) -> QueryInvalid:
        return QueryInvalid(message, query=self._found.text, position=position)


COUNTED = "__indextables_rows"
"""The column of the one row that stands for a table whose rows are only counted."""


def _hidden(need: Need) -> list[str]:
    searches = [*(need.required if need.shows_required else ()), *need.marked]
    return [*(search.name for search in searches), *([SCORE] if need.score else [])]


def _is_conjunct(node: Any) -> bool:
    """True if a condition stands in WHERE, alone or beside AND."""
    from sqlglot import exp

    at = node.parent
    while isinstance(at, exp.And | exp.Paren):
        at = at.parent
    # That of `count(*) FILTER (WHERE ...)` is about one aggregate only.
    return isinstance(at, exp.Where) and isinstance(at.parent, exp.Select)


def _means_no_columns(star: Any) -> bool:
    """True for the stars of `count(*)` and `TEXTSEARCH(*, ...)`."""
    from sqlglot import exp

    around = star.parent
    if isinstance(around, exp.Count):
        return _counts_rows(around)
    return isinstance(around, exp.Anonymous) and around.name.lower() == "textsearch"


def _counts_rows(call: Any) -> bool:
    """True for `count(*)`; `count(*, a)` and `count(* EXCEPT (a))` ask for rows without a null."""
    from sqlglot import exp

    return isinstance(call.this, exp.Star) and not any(call.this.args.values()) and not call.expressions


def _full_name(reference: Reference) -> list[str]:
    """Catalog, database and table, in lower case, as Spark completes them."""
    names = reference.name.lower().split(".")
    return [*("spark_catalog", "default")[: max(0, 3 - len(names))], *names]


def _is_plain(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Literal | exp.Placeholder | exp.Parameter)


def _select() -> Any:
    from sqlglot import exp

    return exp.Select


def _sources(select: Any) -> list[Any]:
    """What stands in FROM and JOIN of one SELECT."""
    first = select.args.get("from_") or select.args.get("from")
    found = [] if first is None else [first.this, *(join.this for join in first.this.args.get("joins") or ())]
    return [*found, *(join.this for join in select.args.get("joins") or ())]


def _unused_prefix(text: str, columns: Sequence[Sequence[str]]) -> str:
    taken = text.lower() + " ".join(name.lower() for names in columns for name in names)
    number = 0
    while f"__search{number}_" in taken:
        number += 1
    return f"__search{number}_"
