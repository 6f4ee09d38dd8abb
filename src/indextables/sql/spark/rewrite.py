"""What each reference of a statement must deliver, and the statement that Spark is given instead. Pure.

A search becomes a hidden column that is true in the rows it matches (`indextables.sql.textsearch`); where it stands
beside AND in the WHERE of its table, only those rows need to be delivered at all. All else reaches Spark as typed.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from indextables.errors import NotSupported
from indextables.lazy import LazyModule
from indextables.sql.command import Args, Found, Reference, Token, query_of
from indextables.sql.spark.filters import WholeSelect, filters_of
from indextables.sql.textsearch import (
    FUNCTION,
    NEEDS_ONE,
    SCORE,
    Call,
    Mention,
    Statement,
    Traced,
    Word,
    means_no_columns,
    not_followed,
    unused_prefix,
)
from indextables.sql.tracing import name_parts
from indextables.table.read import Mark

if TYPE_CHECKING:
    from sqlglot import expressions as exp
else:
    exp = LazyModule("sqlglot.expressions")

__all__ = ["Need", "Rewritten", "rewrite_for_spark"]

_ALL = "indexqueryall"
_EVERYWHERE = "_indexall"
_BEHIND_WHERE = frozenset({"LIMIT", "UNION", "EXCEPT", "MINUS", "INTERSECT"})
_BEFORE_ITEMS = frozenset({"DISTINCT", "ALL"})
_BEHIND_ITEMS = frozenset({"FROM", "WHERE", "INTO", *_BEHIND_WHERE})


class Need(msgspec.Struct, frozen=True):
    """What the rows of one reference must have.

    1. Only rows that every search in `required` matches are needed.
    2. Each search in `marked`, and in `required` if `shows_required`, has a boolean column of its name.
    3. `columns` are those that the statement may read; None for all.
    4. `score` asks for `_score` of the one search that is required.
    5. `counts` asks for nothing but the number of rows for which all of `filters` are true.
    6. Rows for which one of `filters` is not true are not needed.
    7. With a `limit`, any so many rows do, if all of `filters` are true in them.
    """

    required: tuple[Mark, ...] = ()
    marked: tuple[Mark, ...] = ()
    shows_required: bool = False
    columns: tuple[str, ...] | None = None
    score: bool = False
    counts: bool = False
    filters: tuple[str, ...] = ()
    limit: int | None = None


class Rewritten(msgspec.Struct, frozen=True):
    """`pieces` alternate: text as typed, then the number of a reference (or text of ours), and so on."""

    pieces: list[str | int]
    needs: list[Need]
    args: Args | None


def rewrite_for_spark(
    found: Found, columns: Sequence[Sequence[str]], args: Args | None, *, spark_counts: Container[int] = ()
) -> Rewritten:
    """The statement without searches, and what each reference must deliver; `columns` are those of each reference.

    The references in `spark_counts` are counted by Spark itself if the statement has conditions on them. Raises
    QueryInvalid (with `position`), NotSupported.
    """
    return _Rewriter(found, columns, args, spark_counts).run()


class _SearchCall(msgspec.Struct, frozen=True):
    """A call with the token that says what it searches for."""

    call: Call
    query: Token
    negated: bool = False


class _Rewriter:
    def __init__(
        self, found: Found, columns: Sequence[Sequence[str]], args: Args | None, spark_counts: Container[int]
    ) -> None:
        self._found = found
        self._spark_counts = spark_counts
        self._columns = columns
        self._args = args
        self._edits: list[tuple[int, int, str | int]] = []
        self._required: dict[int, list[Mark]] = {}
        self._marked: dict[int, list[Mark]] = {}
        self._handed_on: list[tuple[Traced, str]] = []
        self._names: dict[tuple[Any, ...], str] = {}
        self._named_items: set[int] = set()
        self._bound: list[Token] = []
        self._calls: list[tuple[int, int]] = []
        words = [Word(_plain(t), t.start, t.end, t.kind == "mark" and t.text in "()") for t in found.tokens]
        mentions = [Mention(place, node, columns[place]) for place, node in enumerate(found.nodes)]
        self._statement = Statement(found.text, words, found.tree, mentions)
        self._starts = {token.start: place for place, token in enumerate(found.tokens)}
        self._ends = {token.end: place for place, token in enumerate(found.tokens)}
        self._prefix = unused_prefix(found.text, (name for names in columns for name in names))

    def run(self) -> Rewritten:
        for number, search in enumerate(self._searches()):
            self._take(number, search)
        needs = [self._need(reference) for reference in self._found.references]
        for reference in self._found.references:
            self._replace(reference, needs[reference.number])
        hidden = {id(node): _hidden(need) for node, need in zip(self._found.nodes, needs, strict=True)}
        for traced, name in self._handed_on:
            names = [name, *([SCORE] if needs[traced.table.number].score else [])]
            self._edits += [(at, at, new) for at, new in self._statement.handed_on(traced, names, "`", lambda _: "")]
            for node in self._statement.shown_by(traced):
                hidden.setdefault(node, []).extend(name for name in names if name not in hidden[node])
        self._edits += [(after, after, new) for after, new in self._statement.after_stars(hidden, "`")]
        self._shorten_qualifiers()
        return Rewritten(self._pieces(), needs, self._rest_of_args())

    # Searches

    def _searches(self) -> list[_SearchCall]:
        searches = []
        for node in self._found.tree.walk():
            if isinstance(node, exp.Anonymous) and node.name.lower() in (FUNCTION, _ALL):
                searches.append(self._function(node))
            elif isinstance(node, exp.RegexpLike):
                found = self._operator(node)
                if found is not None:
                    searches.append(found)
        return sorted(searches, key=lambda search: search.call.start)

    def _function(self, node: Any) -> _SearchCall:
        name, fault = node.name.upper(), self._statement.fault
        start = int(node.meta["start"])
        wants = 1 if node.name.lower() == _ALL else 2
        if len(node.expressions) != wants:
            form = "a query text" if wants == 1 else "a column (or *) and a query text"
            raise fault(start, f"{name} takes {form}")
        self._place(self._starts, start)
        call = self._statement.function(node, node.expressions[0] if wants == 2 else exp.Star())
        query = self._found.tokens[self._place(self._ends, call.end) - 1]
        if query.kind not in ("text", "parameter") or not _is_plain(node.expressions[-1]):
            raise fault(start, f"the query of {name} must be a text in quotes or a parameter")
        return _SearchCall(call, query)

    def _operator(self, node: Any) -> _SearchCall | None:
        column = node.this
        if not isinstance(column, exp.Column) or "start" not in column.this.meta:
            return None
        place = self._place(self._ends, int(column.this.meta["end"]) + 1) + 1
        listed = self._found.tokens
        negated = listed[place].upper == "NOT"
        place += negated
        operator = self._found.operators.get(listed[place].start)
        if operator is None:
            return None
        everywhere = operator == _ALL.upper() or column.name.lower() == _EVERYWHERE
        query = listed[place + 1]
        if not _is_plain(node.expression):
            message = f"the query of {operator} must be a text in quotes or a parameter"
            raise self._statement.fault(query.start, message)
        start = int(column.parts[0].meta["start"])
        parts = () if everywhere else name_parts(column)
        call = Call(node, parts, start, query.end, column.table.lower() if everywhere else "")
        return _SearchCall(call, query, negated=negated)

    def _take(self, number: int, found: _SearchCall) -> None:
        call = found.call
        traced, select = self._statement.reference_of(call, lambda _, why: self._missing(call, why))
        reference = self._found.references[traced.table.number]
        if reference.shape == "other":
            message = (
                "a search stands beside PIVOT, UNPIVOT, a list of column names or a pipe: search in a subquery, "
                "(SELECT * FROM the table WHERE ...), and put that in the place of the table"
            )
            raise NotSupported(message, query=self._found.text, position=call.start)
        query = query_of(found.query, self._found, self._args)
        if not isinstance(query, str):
            raise self._statement.fault(found.query.start, f"the query of a search is a text, not {query!r}")
        is_required = select is call.node.find_ancestor(exp.Select) and _is_conjunct(call.node) and not found.negated
        # A sample is taken of all rows, before any condition.
        is_required = is_required and reference.shape == "plain" and traced.keeps_all
        # The same search has the same column, so that SELECT, GROUP BY and ORDER BY see that it is the same value.
        key = (is_required, reference.number, tuple(id(source.node) for source in traced.through), traced.path, query)
        name = self._names.setdefault(key, f"{self._prefix}{number}")
        if name == f"{self._prefix}{number}":
            kept = self._required if is_required else self._marked
            kept.setdefault(reference.number, []).append(Mark(name, ".".join(traced.path) or None, query))
            self._handed_on += [(traced, name)] if traced.through else []
        self._bound.append(found.query)
        self._calls.append((call.start, call.end))
        hidden = f"`{name}`"
        if traced.through:
            alias = self._statement.alias_text(traced.through[0].node)
            hidden = f"{alias}.{hidden}" if alias else hidden
        text = self._found.text
        if text[: call.start].rstrip().endswith("(") and text[call.end :].lstrip().startswith(")"):
            # Spark takes `FROM {table} WHERE (name)` for a table that is called `where` and has a list of columns.
            hidden = f"{hidden} = true"
        self._edits.append((call.start, call.end, f"(NOT {hidden})" if found.negated else hidden))
        self._name_item(call)

    def _name_item(self, call: Call) -> None:
        """Call an item of a SELECT list that has no name by its text as typed, not by that of our column."""
        item = call.node
        while item.parent is not None and not isinstance(item.parent, exp.Select):
            item = item.parent
        if item.arg_key != "expressions" or isinstance(item, exp.Alias | exp.Aliases) or id(item) in self._named_items:
            return
        self._named_items.add(id(item))
        first, last = self._item_around(self._place(self._starts, call.start))
        shown = " ".join(self._found.text[first:last].split()).replace("`", "``")
        self._edits.append((last, last, f" AS `{shown}`"))

    def _item_around(self, place: int) -> tuple[int, int]:
        """From where to where the item of a SELECT list stands that a token is in."""
        tokens = self._found.tokens
        begin, closed = place, 0
        while begin > 0 and (tokens[begin].upper != "SELECT" or closed):
            closed = max(0, closed - _depth_of(tokens[begin]))
            begin -= 1
        first, depth = begin + 1, 0
        for at in range(begin + 1, len(tokens)):
            token = tokens[at]
            depth += _depth_of(token)
            is_end = token.upper in _BEHIND_ITEMS and tokens[at - 1].upper != "DISTINCT"
            if at > place and (depth < 0 or (depth == 0 and (token.text in (",", ";") or is_end))):
                return tokens[first].start, tokens[at - 1].end
            if depth == 0 and at < place and (token.text == "," or token.upper in _BEFORE_ITEMS):
                first = at + 1
        return tokens[first].start, tokens[-1].end

    def _missing(self, call: Call, why: str) -> Exception:
        if why:
            return self._statement.fault(call.start, not_followed(why))
        message = (
            f"{call.what!r} is not a column of a table of IndexTables in this SELECT; a search needs the table itself "
            "in FROM beside it, or a subquery, WITH name or view that hands on its rows"
        )
        return self._statement.fault(call.start, message)

    # What is delivered

    def _need(self, reference: Reference) -> Need:
        required = tuple(self._required.get(reference.number, ()))
        marked = tuple(self._marked.get(reference.number, ()))
        score = bool(required or marked) and self._statement.wants_score(self._statement.mentions[reference.number])
        if score and len(required) != 1:
            raise NotSupported(NEEDS_ONE, query=self._found.text)
        filters = tuple(filters_of(self._found, reference, self._columns[reference.number], self._args))
        whole = WholeSelect.of(self._found, reference, searches=len(required), filters=len(filters))
        counts = whole is not None and self._counts(reference, whole, is_search=bool(required))
        return Need(
            required=required,
            marked=marked,
            shows_required=bool(required),
            columns=self._read_columns(reference),
            score=score,
            counts=counts,
            filters=filters,
            limit=None if whole is None else whole.limit,
        )

    def _read_columns(self, reference: Reference) -> tuple[str, ...] | None:
        """Columns whose names stand anywhere in the statement but in a search; None if a star may mean any."""
        tree = self._found.tree
        stars = any(not means_no_columns(star) for star in tree.find_all(exp.Star))
        natural = any(join.args.get("method") for join in tree.find_all(exp.Join))
        computed = any(token.upper == "IDENTIFIER" for token in self._found.tokens)
        if stars or natural or computed or not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
            return None
        tokens = self._found.tokens
        words = {_plain(t).lower() for t in tokens if not any(a <= t.start < b for a, b in self._calls)}
        return tuple(name for name in self._columns[reference.number] if name.lower() in words)

    def _counts(self, reference: Reference, whole: WholeSelect, *, is_search: bool) -> bool:
        """True for `SELECT count(*) [AS n] FROM t`, with no condition, or with a search and others that we answer."""
        if not whole.has_conditions:
            return whole.counts
        is_ours = is_search and reference.number not in self._spark_counts
        return whole.counts and is_ours and self._where(reference) is not None

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
        item = self._found.nodes[reference.number].parent.parent.expressions[0]
        call = item.this if isinstance(item, exp.Alias) else item
        start = int(call.meta["start"])
        self._place(self._starts, start)
        end = self._statement.closing(start)
        shown = "" if isinstance(item, exp.Alias) else " AS `count(1)`"
        where = self._where(reference)
        if where is not None:
            # The number is that of the rows for which they hold.
            self._edits = [edit for edit in self._edits if not where[0] <= edit[0] < where[1]]
            self._edits.append((*where, " "))
        self._edits.append((start, end, f"`{COUNTED}`{shown}"))

    def _where(self, reference: Reference) -> tuple[int, int] | None:
        """From where to where the conditions of a SELECT stand that has nothing behind them but a limit."""
        depth, start = 0, None
        for token in self._found.tokens:
            if token.start < reference.end:
                continue
            depth += (token.kind, token.text) == ("mark", "(")
            depth -= (token.kind, token.text) == ("mark", ")")
            if depth == 0 and start is None and token.upper == "WHERE":
                start = token.start
            elif depth < 0 or (depth == 0 and (token.upper in _BEHIND_WHERE or token.text == ";")):
                return None if start is None else (start, token.start)
        return None if start is None else (start, len(self._found.text))

    def _shorten_qualifiers(self) -> None:
        """`db.t.id` as `t.id`: an alias, which is what Spark knows a reference by, has no database before it."""
        qualified = [_full_name(ref) for ref in self._found.references if ref.shown]
        targets = {id(self._found.nodes[ref.number]) for ref in self._found.references if ref.role == "insert"}
        taken = [
            source.alias_or_name.lower()
            for source in self._found.tree.find_all(exp.Table, exp.DerivedTable, exp.CTE, exp.Lateral)
            if id(source) not in targets and source.find_ancestor(exp.Hint) is None
        ]
        # Where a second source has the name, Spark would look for the column there.
        qualified = [names for names in qualified if taken.count(names[-1]) == 1]
        for column in self._found.tree.find_all(exp.Column) if qualified else ():
            parts = column.parts
            names = [part.name.lower() for part in parts]
            count = next((n for n in (3, 2) if len(names) > n and any(names[:n] == full[-n:] for full in qualified)), 0)
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

    def _place(self, places: Mapping[int, int], position: int) -> int:
        """The number of the token at a position, which sqlglot and our own tokens must agree about."""
        if position not in places:
            raise self._statement.fault(
                position, "this part of the statement cannot be followed: write it in a simpler way"
            )
        return places[position]


COUNTED = "__indextables_rows"
"""The column of the one row that stands for a table whose rows are only counted."""


def _hidden(need: Need) -> list[str]:
    searches = [*(need.required if need.shows_required else ()), *need.marked]
    return [*(search.name for search in searches), *([SCORE] if need.score else [])]


def _is_conjunct(node: Any) -> bool:
    """True if a condition stands in WHERE, alone or beside AND."""
    at = node.parent
    while isinstance(at, exp.And | exp.Paren):
        at = at.parent
    # That of `count(*) FILTER (WHERE ...)` is about one aggregate only.
    return isinstance(at, exp.Where) and isinstance(at.parent, exp.Select)


def _depth_of(token: Token) -> int:
    return (token.kind == "mark") * ((token.text == "(") - (token.text == ")"))


def _full_name(reference: Reference) -> list[str]:
    """Catalog, database and table, in lower case, as Spark completes them."""
    names = reference.name.lower().split(".")
    return [*("spark_catalog", "default")[: max(0, 3 - len(names))], *names]


def _is_plain(node: Any) -> bool:
    return isinstance(node, exp.Literal | exp.Placeholder | exp.Parameter)


def _plain(token: Token) -> str:
    return token.text.strip("`").replace("``", "`")
