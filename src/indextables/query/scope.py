"""Which columns may a text name? Those of one table, or those of two sides that have a name each. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

__all__ = ["Scope", "Side", "Sides"]

_SHOWN = 20


class Scope:
    """The columns of one table; upper and lower case do not matter."""

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
            message = f"is no column of this table; it has {', '.join(self.names[:_SHOWN])}"
            raise LookupError(message)
        return place, 1


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
                    if place is None:
                        shown = ", ".join(side.schema.names[:_SHOWN])
                        message = f"is no column of {side.alias}; it has {shown}"
                        raise LookupError(message)
                    return start + place, 2
        name = parts[0].lower()
        found = [(side.alias, start + places[name]) for side, start, places in self._sides if name in places]
        if len(found) == 1:
            return found[0][1], 1
        if found:
            message = f"is a column of both sides: write {' or '.join(f'{alias}.{parts[0]}' for alias, _ in found)}"
            raise LookupError(message)
        known = "; ".join(f"{side.alias} has {', '.join(side.schema.names[:_SHOWN])}" for side, _, _ in self._sides)
        message = f"is no column that can be named here; {known}"
        raise LookupError(message)


def _places(schema: pa.Schema) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, name in enumerate(schema.names):
        places.setdefault(name.lower(), place)
    return places
