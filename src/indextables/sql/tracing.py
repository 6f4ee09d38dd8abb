"""Follows a column of a subquery or a WITH name down to the table whose rows it shows. Pure.

A search of a column is about a row of a table. A SELECT that hands rows of that table on, one for one, can hand on
what the search says of each. One that makes other rows of them (DISTINCT, GROUP BY, UNION), or another value, cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from indextables.lazy import LazyModule

if TYPE_CHECKING:
    from sqlglot import expressions as exp
else:
    exp = LazyModule("sqlglot.expressions")

__all__ = ["Source", "Stop", "Traced", "Tracer", "cte_of", "name_parts", "path_in", "references_of", "sources_of"]

_MAKES_OTHER_ROWS = {
    "group": "groups rows",
    "distinct": "leaves out rows that are equal",
    "pivots": "pivots",
    "having": "groups rows",
}
_CHOOSES_ROWS = ("limit", "offset", "qualify", "sample", "windows", "sort", "cluster", "distribute", "match", "fetch")


class Stop(msgspec.Struct, frozen=True):
    """Why a column cannot be followed: `why` continues "the subquery ..."."""

    why: str


class Source(msgspec.Struct, frozen=True):
    """A subquery or WITH name on the way: where it stands in FROM, its SELECT, and what of that shows the column."""

    node: Any
    select: Any
    item: Any


class Traced(msgspec.Struct, frozen=True):
    """A table (what the tracer calls it), the path of a column in it (empty for all), and what lies between.

    `through` begins with the source nearest to the search. `keeps_all` if no SELECT on the way chooses rows by others
    (LIMIT, window functions) or serves a second reader: then rows that do not match need not be read at all.
    """

    table: Any
    path: tuple[str, ...]
    through: tuple[Source, ...] = ()
    keeps_all: bool = True


class Tracer:
    """Finds what a name is about; `mention_of` tells for a node in FROM which table of ours it is, None for others."""

    def __init__(self, tree: Any, mention_of: Callable[[Any], Any | None]) -> None:
        self._tree = tree
        self._mention_of = mention_of

    def in_select(self, select: Any, parts: tuple[str, ...], star_of: str = "") -> tuple[list[Traced], list[Stop]]:
        """What a name may be about in FROM of a SELECT, and why not.

        `parts` are qualifiers, column and fields; none for all columns, of the source that is called `star_of`.
        """
        found: list[Traced] = []
        stops: list[Stop] = []
        nodes = sources_of(select)
        named = [node for node in nodes if path_in(node, parts) is not parts]
        for node in named or nodes:
            if star_of and node.alias_or_name.lower() != star_of:
                continue
            traced = self.in_source(node, path_in(node, parts))
            if isinstance(traced, Traced):
                found.append(traced)
            elif traced is not None:
                stops.append(traced)
        return found, stops

    def in_source(self, node: Any, path: tuple[str, ...]) -> Traced | Stop | None:
        """The table that a path of a source is about; None if the source has no such column."""
        mention = self._mention_of(node)
        if mention is not None:
            known = next((name for name in mention.columns if path and name.lower() == path[0].lower()), None)
            if path and known is None:
                return None
            return Traced(mention, (known, *path[1:]) if known is not None else ())
        inner, shared = self._inner(node)
        if isinstance(inner, Stop) or inner is None:
            return inner
        return self._through(node, inner, path, shared=shared)

    def _inner(self, node: Any) -> tuple[Any | Stop | None, bool]:
        """The SELECT that a source stands for, and whether others read it too."""
        alias = node.args.get("alias")
        if isinstance(node, exp.Subquery):
            inner, shared = node.this, False
        else:
            cte = cte_of(node)
            if cte is None:
                return None, False
            if cte.parent.args.get("recursive"):
                return Stop("is recursive"), False
            inner, shared = cte.this, len(references_of(self._tree, cte)) > 1
            if cte.args["alias"].columns:
                return Stop("gives its columns other names in a list"), False
        if (alias is not None and alias.columns) or node.args.get("pivots") or node.args.get("sample"):
            return Stop("gives its columns other names in a list, pivots or samples"), False
        while isinstance(inner, exp.Subquery) and not inner.alias:
            inner = inner.this
        if isinstance(inner, exp.SetOperation):
            return Stop(f"is a {type(inner).__name__.upper()}"), False
        return (inner if isinstance(inner, exp.Select) else None), shared

    def _through(self, node: Any, select: Any, path: tuple[str, ...], *, shared: bool) -> Traced | Stop | None:
        item, below = _shown(select, path)
        if item is None:
            return Stop(f"computes {path[0]!r}") if below == path and below else None
        found, stops = self.in_select(select, below)
        if len(found) != 1:
            return Stop("joins tables that all have it") if found else (stops[0] if stops else None)
        blocked = next((why for key, why in _MAKES_OTHER_ROWS.items() if select.args.get(key)), None)
        if blocked is not None:
            return Stop(blocked)
        chooses = any(select.args.get(key) for key in _CHOOSES_ROWS) or select.find(exp.Window) is not None
        traced = found[0]
        return Traced(
            traced.table,
            traced.path,
            (Source(node, select, item), *traced.through),
            keeps_all=traced.keeps_all and not shared and not chooses,
        )


def sources_of(select: Any) -> list[Any]:
    """What stands in FROM and JOIN of one SELECT."""
    first = select.args.get("from_") or select.args.get("from")
    found = [] if first is None else [first.this, *(join.this for join in first.this.args.get("joins") or ())]
    return [*found, *(join.this for join in select.args.get("joins") or ())]


def cte_of(node: Any) -> Any | None:
    """What a WITH around a table defines by its name: there, or before it in the same WITH. None if nothing does."""
    if not isinstance(node, exp.Table) or node.db:
        return None
    below: Any = node
    at: Any = node.parent
    while at is not None:
        for cte in _visible(below, at):
            if cte.alias.lower() == node.name.lower():
                return cte
        below, at = at, at.parent
    return None


def references_of(tree: Any, cte: Any) -> list[Any]:
    """The tables in FROM that mean a WITH name."""
    return [node for node in tree.find_all(exp.Table) if node.name.lower() == cte.alias.lower() and cte_of(node) is cte]


def name_parts(column: Any) -> tuple[str, ...]:
    """The names of `a.b.c`, as they are written."""
    parts = [part.name for part in column.parts]
    above = column
    while isinstance(above.parent, exp.Dot) and above.parent.this is above:
        above = above.parent
        parts.append(above.expression.name)
    return tuple(parts)


def _visible(below: Any, at: Any) -> Sequence[Any]:
    """The WITH names that `at` lets `below`, which is in it, see; the nearest definition of a name first."""
    if isinstance(at, exp.With):
        place = next((place for place, cte in enumerate(at.expressions) if cte is below), 0)
        return list(reversed(at.expressions[: place + bool(at.args.get("recursive"))]))
    around = None if isinstance(below, exp.With) else at.args.get("with_") or at.args.get("with")
    return [] if around is None else list(reversed(around.expressions))


def path_in(node: Any, parts: tuple[str, ...]) -> tuple[str, ...]:
    """What `parts` say of a source: the rest behind its name; the same object if they do not begin with it."""
    names = [node.alias] if node.alias else [part.name for part in node.parts] if isinstance(node, exp.Table) else []
    full = [name.lower() for name in (*("spark_catalog", "default")[: max(0, 3 - len(names))], *names)]
    for count in (3, 2, 1):
        is_named = bool(names) and len(parts) > count and [part.lower() for part in parts[:count]] == full[-count:]
        if is_named and (count == 1 or not node.alias):
            return parts[count:]
    return parts


def _shown(select: Any, path: tuple[str, ...]) -> tuple[Any | None, tuple[str, ...]]:
    """The item of a SELECT list that shows a column, and what that is in its FROM.

    No item and the path itself if the column is another value; no item and no path if there is none, or not all.
    """
    stars = [item for item in select.expressions if _is_star(item)]
    if not path:
        bare = (
            len(select.expressions) == 1 and len(stars) == 1 and _is_whole(stars[0]) and isinstance(stars[0], exp.Star)
        )
        return (stars[0], ()) if bare else (None, ())
    named = [
        item for item in select.expressions if not _is_star(item) and item.alias_or_name.lower() == path[0].lower()
    ]
    if named:
        value = named[0].this if isinstance(named[0], exp.Alias) else named[0]
        if len(named) > 1 or not _is_path(value):
            return None, path
        return _first_column(value), (*_path_of(value), *path[1:])
    if len(stars) != 1 or not _is_whole(stars[0]):
        return None, (path if stars else ())
    star = stars[0]
    return star, ((star.table, *path) if isinstance(star, exp.Column) else path)


def _is_star(item: Any) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def _is_whole(item: Any) -> bool:
    star = item.this if isinstance(item, exp.Column) else item
    return not any(star.args.get(key) for key in ("except_", "except", "replace", "rename")) and "start" in star.meta


def _is_path(value: Any) -> bool:
    while isinstance(value, exp.Dot):
        value = value.this
    return isinstance(value, exp.Column) and all("start" in part.meta for part in value.parts)


def _first_column(value: Any) -> Any:
    while isinstance(value, exp.Dot):
        value = value.this
    return value


def _path_of(value: Any) -> tuple[str, ...]:
    return name_parts(_first_column(value))
