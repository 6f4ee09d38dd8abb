"""Which columns may a text name? Those of one table, or those of two sides that have a name each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.query.expr import Column

__all__ = ["SEARCH", "Scope", "Search", "Side", "Sides", "searched", "shown_names"]

_SHOWN = 20

SEARCH = "textsearch"
"""The function that a search is called by."""


class Search(msgspec.Struct, frozen=True):
    """A search in a text: nodes name it as a column `name`. It looks into `column`, None for all."""

    name: str
    column: str | None
    query: str


class Scope:
    """The columns of one table; upper and lower case do not matter."""

    searches: list[Search] | None = None
    """The searches that a text has, as they are found; None where it may have none."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        """The columns as nodes name them."""
        self.names: list[str] = schema.names
        """The columns as a text names them."""
        self._places = _places(schema)

    def find(self, parts: Sequence[str]) -> tuple[int, int]:
        """The place of a column in `schema`, and how many parts of a name with dots it takes.

        Raises LookupError, whose text goes on where the name ends.
        """
        place = self._places.get(parts[0].lower())
        if place is None:
            message = f"is no column of this table; it has {shown_names(self.names, parts[0])}"
            raise LookupError(message)
        return place, 1

    def unused_name(self) -> str:
        """The name of the next search, which no column has."""
        name = f"__search{len(self.searches or ())}"
        while any(name == known.lower() for known in self.schema.names):
            name += "_"
        return name


class Side(msgspec.Struct, frozen=True):
    """One of several tables that a text is about. `prefix` stands before its columns where nodes name them."""

    alias: str
    schema: pa.Schema
    prefix: str = ""


class Sides(Scope):
    """The columns of several tables: `alias.column`, or the column alone where only one of them has it."""

    def __init__(self, sides: Sequence[Side]) -> None:
        fields = [(side.prefix + field.name, field.type) for side in sides for field in side.schema]
        super().__init__(pa.schema([pa.field(name, kind) for name, kind in fields]))
        self.names = [name for side in sides for name in side.schema.names]
        starts = [sum(len(side.schema) for side in sides[:place]) for place in range(len(sides))]
        self._sides = [(side, start, _places(side.schema)) for side, start in zip(sides, starts, strict=True)]

    def find(self, parts: Sequence[str]) -> tuple[int, int]:
        if len(parts) > 1:
            for side, start, places in self._sides:
                if side.alias.lower() == parts[0].lower():
                    place = places.get(parts[1].lower())
                    if place is None and parts[0].lower() in places:
                        # A struct of the same name as its table.
                        break
                    if place is None:
                        message = f"is no column of {side.alias}; it has {shown_names(side.schema.names, parts[1])}"
                        raise LookupError(message)
                    return start + place, 2
        name = parts[0].lower()
        found = [(side.alias, start + places[name]) for side, start, places in self._sides if name in places]
        if len(found) == 1:
            return found[0][1], 1
        if found:
            message = f"is a column of both sides: write {' or '.join(f'{alias}.{parts[0]}' for alias, _ in found)}"
            raise LookupError(message)
        sides = [f"{side.alias} has {shown_names(side.schema.names, parts[0])}" for side, _, _ in self._sides]
        message = f"is no column that can be named here; {'; '.join(sides)}"
        raise LookupError(message)


def shown_names(names: Sequence[str], missed: str) -> str:
    """Some of the columns that there are, and the one that was probably meant."""
    from difflib import get_close_matches

    spelled = {name.lower(): name for name in names}
    near = get_close_matches(missed.lower(), spelled, n=1)
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return shown + (f" (did you mean {spelled[near[0]]}?)" if near else "")


def searched(tree: Any, scope: Scope) -> Column:
    """The column that stands for a call of `SEARCH`, true in the rows that it finds; `scope` keeps what it asks for.

    Raises LookupError, whose text goes on where the call ends.
    """
    from sqlglot import exp

    if scope.searches is None:
        message = "is a search, which is not offered here: it stands in the WHERE of DELETE, UPDATE and SELECT only"
        raise LookupError(message)
    if len(tree.expressions) != 2:
        message = "takes a column, or *, and the text of a query"
        raise LookupError(message)
    target, query = tree.expressions
    if not isinstance(query, exp.Literal) or not query.is_string:
        message = "needs the text of its query in quotes"
        raise LookupError(message)
    column = None
    if not isinstance(target, exp.Star | exp.Column):
        message = "searches a column, or * for all of them"
        raise LookupError(message)  # noqa: TRY004 - a fault of the text
    if isinstance(target, exp.Column):
        parts = [part.name for part in target.parts]
        try:
            place, taken = scope.find(parts)
        except LookupError as unknown:
            message = f"searches {'.'.join(parts)}, which {unknown}"
            raise LookupError(message) from None
        column = ".".join([scope.schema.field(place).name, *parts[taken:]])
    search = Search(scope.unused_name(), column, query.this)
    scope.searches.append(search)
    return Column(search.name, pa.bool_())


def _places(schema: pa.Schema) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, name in enumerate(schema.names):
        places.setdefault(name.lower(), place)
    return places
