"""Declares the clauses of a MERGE, and binds them to the schemas of a table and a source. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec
import pyarrow as pa

from indextables.errors import InvalidArgument, NotSupported, SchemaMismatch
from indextables.query.expr import And, Column, Comparison, Node, columns_of, conjuncts
from indextables.query.parse import parse
from indextables.query.scope import Side, Sides
from indextables.query.stored import default_meant, generated_columns, identity_columns
from indextables.table.change.assigned import check_storable, named

__all__ = [
    "Aliases",
    "Bound",
    "Choice",
    "Clause",
    "When",
    "bind",
    "check_clauses",
    "keys_in",
    "left_by_star",
    "side_of",
    "source_columns",
    "unused_prefix",
]

When = Literal["matched", "not matched", "not matched by source"]
Action = Literal["update", "delete", "insert"]


class Clause(msgspec.Struct, frozen=True):
    """One WHEN of a MERGE. Without `values` it sets every column to the source's of the same name, but those of `but`.

    `values` give a text of SQL, or a value, for each column that is set.
    """

    when: When
    action: Action
    condition: str | None = None
    values: Mapping[str, object] | None = None
    but: tuple[str, ...] = ()

    @property
    def is_star(self) -> bool:
        """True if columns are set by name."""
        return self.action != "delete" and self.values is None


class Aliases(msgspec.Struct, frozen=True):
    """How texts call the two sides."""

    source: str = "s"
    target: str = "t"


class Choice(msgspec.Struct, frozen=True):
    """A clause with its texts bound. A column without a value stays as it is, or is null in a new row."""

    clause: Clause
    condition: Node | None
    values: dict[str, Node]


class Bound(msgspec.Struct, frozen=True):
    """A MERGE bound to two schemas. Nodes name columns of the table plainly, those of the source behind `prefix`.

    Rows belong together where each pair of `keys` is equal and `rest` is true; `narrow` are the conditions on the table
    alone, and `of_source` those on the source alone, which are in `rest` too. `schema` is the table's, with the columns
    that the source brings.
    """

    prefix: str
    keys: tuple[tuple[Node, Node], ...]
    rest: Node | None
    narrow: tuple[Node, ...]
    of_source: tuple[Node, ...]
    choices: tuple[Choice, ...]
    schema: pa.Schema

    def of(self, when: When) -> list[tuple[int, Choice]]:
        """The clauses for these rows, in order, with their numbers."""
        return [(number, choice) for number, choice in enumerate(self.choices) if choice.clause.when == when]

    def target_columns(self) -> list[str]:
        """The columns of the table that tell which rows belong together and which clause takes them."""
        nodes = [left for left, _ in self.keys]
        nodes += [node for node in (self.rest, *(choice.condition for choice in self.choices)) if node is not None]
        names = (name for node in nodes for name in columns_of(node))
        return list(dict.fromkeys(name for name in names if not name.startswith(self.prefix)))


def check_clauses(clauses: Sequence[Clause]) -> None:
    """Raises InvalidArgument without any clause, and for one that is never reached."""
    if not clauses:
        raise InvalidArgument("a merge without a clause changes nothing: add when_matched_update_all() or another one")
    for when in ("matched", "not matched", "not matched by source"):
        same = [clause for clause in clauses if clause.when == when]
        if any(clause.condition is None for clause in same[:-1]):
            message = f"a clause 'when {when}' without a condition takes every row: it must be the last of its kind"
            raise InvalidArgument(message)


def source_columns(clauses: Sequence[Clause], source: pa.Schema, target: pa.Schema) -> pa.Schema:
    """The columns of a source that may add to the table's schema: those of `*`, and new ones that are set by name."""
    known = {name.lower() for name in target.names}
    wanted: set[str] = set()
    for clause in clauses:
        if clause.is_star:
            wanted |= {name.lower() for name in source.names} - {name.lower() for name in clause.but}
        else:
            wanted |= {name.lower() for name in clause.values or {}} - known
    return pa.schema([field for field in source if field.name.lower() in wanted])


def bind(
    on: str,
    clauses: Sequence[Clause],
    *,
    source: pa.Schema,
    target: pa.Schema,
    evolved: pa.Schema | None,
    aliases: Aliases,
    zone: str,
    logged: pa.Schema,
) -> Bound:
    """What a MERGE means for these schemas; `evolved` is the table's with new columns, if it may have some.

    `logged` is the table's with what the log says about columns: `*` leaves out those that follow by themselves.

    Raises QueryInvalid, InvalidArgument, SchemaMismatch, NotSupported where no equality tells which rows belong
    together.
    """
    prefix = unused_prefix(target)
    sides = {
        "matched": [Side(aliases.target, target), Side(aliases.source, source, prefix)],
        "not matched": [Side(aliases.source, source, prefix)],
        "not matched by source": [Side(aliases.target, target)],
    }
    scopes = {when: Sides(known) for when, known in sides.items()}
    keys, rest = keys_in(parse(on, scopes["matched"], time_zone=zone), prefix)
    if not keys:
        message = (
            f"{on!r} has no equality of a column of {aliases.target} and one of {aliases.source}, so that every row "
            "would be compared with every other: add one, as in t.id = s.id"
        )
        raise NotSupported(message, on=on)
    schema = target if evolved is None else evolved
    choices = []
    for clause in clauses:
        scope = scopes[clause.when]
        condition = None if clause.condition is None else parse(clause.condition, scope, time_zone=zone)
        values = (
            _star(clause, source, schema, prefix, lenient=evolved is not None, logged=logged)
            if clause.is_star
            else named(_meant(clause.values or {}, logged), scope, schema, zone)
        )
        for name, node in values.items():
            check_storable(node.type, schema.field(name).type, name)
        choices.append(Choice(clause, condition, values))
    narrow = tuple(term for term in rest if side_of(term, prefix) == "target")
    of_source = tuple(term for term in rest if side_of(term, prefix) == "source")
    return Bound(prefix, keys, And(rest) if rest else None, narrow, of_source, tuple(choices), schema)


def _meant(values: Mapping[str, object], logged: pa.Schema) -> dict[str, object]:
    """The values with the defaults of today in the place of the word."""
    fields = {field.name.lower(): field for field in logged}
    return {
        name: value if name.lower() not in fields else default_meant(value, fields[name.lower()])
        for name, value in values.items()
    }


def unused_prefix(target: pa.Schema) -> str:
    """What no column of the table begins with."""
    prefix = "s."
    while any(name.startswith(prefix) for name in target.names):
        prefix = "s" + prefix
    return prefix


def keys_in(on: Node, prefix: str) -> tuple[tuple[tuple[Node, Node], ...], tuple[Node, ...]]:
    """The equalities of a side with the other one, and all other conditions."""
    keys, rest = [], []
    for term in conjuncts(on):
        if isinstance(term, Comparison) and term.op == "=":
            sides = (side_of(term.left, prefix), side_of(term.right, prefix))
            if sides in {("target", "source"), ("source", "target")}:
                keys.append((term.left, term.right) if sides[0] == "target" else (term.right, term.left))
                continue
        rest.append(term)
    return tuple(keys), tuple(rest)


def side_of(node: Node, prefix: str) -> str | None:
    """Whose columns a node is computed from; None for both, and for neither."""
    of_source = [name.startswith(prefix) for name in columns_of(node)]
    if not of_source or any(of_source) != all(of_source):
        return None
    return "source" if of_source[0] else "target"


def left_by_star(clause: Clause, schema: pa.Schema, given: Collection[str]) -> list[str]:
    """The columns of the table that `*` leaves out: generated ones, and those whose numbers rows keep or get.

    New rows bring their number in an identity column that is generated BY DEFAULT, if the source, which has the columns
    `given`, has it.
    """
    there = {name.lower() for name in given}
    numbered = identity_columns(schema).items()
    return [
        *generated_columns(schema),
        *(n for n, told in numbered if clause.action == "update" or told.always or n.lower() not in there),
    ]


def _star(
    clause: Clause, source: pa.Schema, schema: pa.Schema, prefix: str, *, lenient: bool, logged: pa.Schema
) -> dict[str, Node]:
    places = {name.lower(): place for place, name in enumerate(source.names)}
    known = places.keys() | {name.lower() for name in schema.names}
    if unknown := [name for name in clause.but if name.lower() not in known]:
        raise InvalidArgument(f"except_cols: there is no column {', '.join(unknown)}", columns=unknown)
    left = {name.lower() for name in (*clause.but, *left_by_star(clause, logged, source.names))}
    wanted = [field for field in schema if field.name.lower() not in left]
    missing = [field.name for field in wanted if field.name.lower() not in places]
    if missing and not lenient:
        message = (
            f"the source has no column {', '.join(missing)}, which every row is to be set to: leave it out with "
            "except_cols (in SQL * EXCEPT), or keep it as it is with merge_schema=True (WITH SCHEMA EVOLUTION, "
            "--merge-schema). Nothing was written"
        )
        raise SchemaMismatch(message, differences=[f"{name} is missing" for name in missing])
    found = [(field.name, source.field(places[field.name.lower()])) for field in wanted if field.name not in missing]
    return {name: Column(prefix + field.name, field.type) for name, field in found}
