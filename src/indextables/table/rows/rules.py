"""Checks rows against the CHECK constraints of their table: every write evaluates them on every batch. Pure.

A constraint is a property `constraints.<name>` whose value is an expression of the predicate language. A row keeps it
if the expression is true; one for which it is unknown (null) breaks it, as in Delta. Times without a zone are in UTC,
so that every writer means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import ConstraintViolation, InvalidArgument, LimitExceeded, QueryInvalid
from indextables.lazy import pc
from indextables.log.commit import personal_columns
from indextables.log.wire import CONSTRAINT_PREFIX
from indextables.options import PREFIX
from indextables.query.evaluate import evaluate
from indextables.query.expr import Node, columns_of
from indextables.query.parse import parse
from indextables.split.file import ROW_ID

__all__ = [
    "Check",
    "Rules",
    "bound",
    "check_name",
    "constraint_properties",
    "rules_of",
    "shown_row",
    "words_of",
]

_OF_DELTA = "delta." + CONSTRAINT_PREFIX
_LONGEST_NAME = 255
_SHOWN_CHARS = 300

BatchCheck = Callable[[pa.RecordBatch], None]


class Check(msgspec.Struct, frozen=True):
    """A constraint: its name, and the expression that must be true for every row."""

    name: str
    text: str


class Rules(msgspec.Struct, frozen=True):
    """The constraints of a table, and the columns whose values no error shows."""

    checks: tuple[Check, ...] = ()
    personal: tuple[str, ...] = ()

    def over(self, schema: pa.Schema) -> BatchCheck | None:
        """What raises ConstraintViolation for a batch of `schema` that breaks a rule; None where there is no rule.

        Raises InvalidArgument for a constraint that means nothing for these columns.
        """
        if not self.checks:
            return None
        terms = [(check, bound(check, schema)) for check in self.checks]

        def check_batch(batch: pa.RecordBatch) -> None:
            for check, node in terms:
                self._keep(check, node, batch)

        return check_batch

    def _keep(self, check: Check, node: Node, batch: pa.RecordBatch) -> None:
        try:
            kept = evaluate(node, batch)
        except QueryInvalid as fault:
            # The fault may quote a value.
            private = {name.lower() for name in columns_of(node)} & set(self.personal)
            why = "it cannot be computed for a row" if private else str(fault)
            message = f"the constraint {check.name} ({check.text}) is broken: {why}. Nothing was written"
            raise ConstraintViolation(message, constraint=check.name, expression=check.text, row=None) from (
                None if private else fault
            )
        if kept.true_count == len(kept):
            return
        place = pc.index(pc.fill_null(kept, False), pa.scalar(value=False)).as_py()  # noqa: FBT003 - Arrow's order
        row = shown_row(batch.slice(place, 1), self.personal)
        unknown = " (it is null, which is not true)" if not kept[place].is_valid else ""
        message = (
            f"a row breaks the constraint {check.name} ({check.text}){unknown}: {words_of(row)}. Nothing was written; "
            f"correct the row, or drop the constraint with ALTER TABLE ... DROP CONSTRAINT {check.name}"
        )
        raise ConstraintViolation(message, constraint=check.name, expression=check.text, row=row)


def rules_of(configuration: Mapping[str, str]) -> Rules:
    """The rules that the properties of a table tell."""
    checks = [
        Check(key.removeprefix(CONSTRAINT_PREFIX), text)
        for key, text in sorted(configuration.items())
        if key.startswith(CONSTRAINT_PREFIX)
    ]
    return Rules(tuple(checks), tuple(personal_columns(configuration)) if checks else ())


def bound(check: Check, schema: pa.Schema) -> Node:
    """What a constraint means for rows of `schema`. Raises InvalidArgument for what is no predicate about them."""
    try:
        node = parse(check.text, schema)
    except (QueryInvalid, LimitExceeded) as fault:
        message = (
            f"the constraint {check.name} ({check.text}) cannot be evaluated: {fault}. Write another, or drop it first"
        )
        raise InvalidArgument(message, constraint=check.name, expression=check.text) from fault
    if not columns_of(node):
        message = f"the constraint {check.name} ({check.text}) says nothing about a row: name a column in it"
        raise InvalidArgument(message, constraint=check.name, expression=check.text)
    return node


def check_name(name: str) -> str:
    """The name of a constraint as the log has it, in lower case. Raises InvalidArgument."""
    if not name or name != name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        message = f"{name[:40]!r} is no name of a constraint: give letters, digits and _, at most {_LONGEST_NAME}"
        raise InvalidArgument(message, constraint=name)
    return name.lower()


def constraint_properties(properties: Mapping[str, str], schema: pa.Schema) -> tuple[dict[str, str], dict[str, str]]:
    """The constraints among the properties of a new table, as the log has them, and the other properties.

    `constraints.<name>` and Delta's `delta.constraints.<name>` are one. Raises InvalidArgument for one that is there
    twice, and for one that cannot be evaluated.
    """
    found: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, text in properties.items():
        plain = key.lower().removeprefix(PREFIX)
        if not plain.startswith((CONSTRAINT_PREFIX, _OF_DELTA)):
            others[key] = text
            continue
        name = check_name(plain.removeprefix("delta.").removeprefix(CONSTRAINT_PREFIX))
        if found.setdefault(CONSTRAINT_PREFIX + name, text) != text:
            raise InvalidArgument(f"the constraint {name} is given twice: give it once", constraint=name)
        bound(Check(name, text), schema)
    return found, others


def shown_row(row: pa.RecordBatch | pa.Table, personal: Sequence[str], known: Sequence[str] = ()) -> dict[str, Any]:
    """The first row as a dict, for an error: without what the columns `personal`, in lower case, hold.

    Of the columns of a source, those that the table (its columns are `known`) does not have may be meant for a
    personal one: where there is any, they are not shown either. A value that Python has no object for is a text.
    """
    names = row.schema.names
    said = {name.lower() for name in known or names} - set(personal)
    return {
        name: _value(column.slice(0, 1)) if not personal or name.lower() in said else "(personal)"
        for name, column in zip(names, row.columns, strict=True)
        if name != ROW_ID
    }


def _value(one: pa.Array | pa.ChunkedArray) -> Any:
    try:
        return one.to_pylist()[0]
    except (ValueError, OverflowError):
        # A time outside of the years 1 to 9999, or one with nanoseconds.
        return " ".join(str(one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one).split()).strip("[ ]")


def words_of(row: Mapping[str, object]) -> str:
    """The row in words, cut where it is long."""
    text = ", ".join(f"{name} = {value!r}" for name, value in row.items())
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
