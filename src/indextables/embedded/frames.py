"""Lets Polars read a table lazily: it asks for columns, a predicate and a number of rows, and gets no more.

Polars applies its predicate to what it is given in any case. What is pushed into the table may therefore be less than
it asks for, never more.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pyarrow as pa

from indextables.errors import QueryInvalid
from indextables.sql.command import literal
from indextables.table.arguments import check_text
from indextables.table.read import SCORE

if TYPE_CHECKING:
    import polars as pl

__all__ = ["lazy_frame", "pushed"]

_COMPARED = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED = {"Eq": "Eq", "NotEq": "NotEq", "Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_INTEGERS = frozenset({"Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"})
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - with a zone or without, as the column is


class Readable(Protocol):
    """What is asked of a table."""

    def scan(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Rows in the order of the table."""
        ...

    def search(
        self, query: str, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = 10
    ) -> pa.Table:
        """Rows that match."""
        ...


_Read = Callable[[Sequence[str] | None, str | None, int | None], Iterator[pa.RecordBatch]]
"""Batches of these columns, of the rows for which a predicate is true, at most so many."""


def lazy_frame(table: Any, schema: pa.Schema, search: str | None) -> pl.LazyFrame:
    """A lazy frame over the rows of a `Readable`, which has these columns; with `search`, over those that match.

    Raises ModuleNotFoundError where there is no Polars, InvalidArgument.
    """
    if search is None:
        return _lazily(schema, _scanned(table))
    query = check_text("search", search)
    return _lazily(schema.append(pa.field(SCORE, pa.float64())), _found(table, schema.names, query))


def _scanned(table: Readable) -> _Read:
    return lambda columns, where, limit: iter(table.scan(columns, where, limit))


def _found(table: Readable, names: Sequence[str], query: str) -> _Read:
    def read(columns: Sequence[str] | None, where: str | None, limit: int | None) -> Iterator[pa.RecordBatch]:
        wanted = [*names, SCORE] if columns is None else columns
        rows = table.search(query, [name for name in wanted if name != SCORE], where, limit)
        return iter(rows.select(wanted).to_batches())

    return read


def _lazily(schema: pa.Schema, read: _Read) -> pl.LazyFrame:
    import polars as pl
    from polars.io.plugins import register_io_source

    def batches(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        where = None if predicate is None else _pushed_expression(predicate, schema)
        # Rows count after the predicate, which is applied below.
        limit = n_rows if predicate is None else None
        left = n_rows
        for batch in _read(read, with_columns, where, limit):
            frame = _frame(pl, batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            if frame.height:
                yield frame
            if left == 0:
                return

    return register_io_source(batches, schema=_frame(pl, schema.empty_table()).schema)


def _frame(polars: Any, rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    found: pl.DataFrame = polars.from_arrow(rows)
    return found


def _read(read: _Read, columns: list[str] | None, where: str | None, limit: int | None) -> Iterator[pa.RecordBatch]:
    try:
        return read(columns, where, limit)
    except QueryInvalid:
        if where is None:
            raise
        # A predicate that the table has no words for is Polars' alone.
        return read(columns, None, limit)


def _pushed_expression(predicate: pl.Expr, schema: pa.Schema) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = msgspec.json.decode(predicate.meta.serialize(format="json"))
    except Exception:  # noqa: BLE001 - what Polars cannot spell stays with Polars
        return None
    return pushed(tree, schema)


def pushed(tree: Any, schema: pa.Schema) -> str | None:
    """The predicate of SQL that is true wherever the tree is, from its JSON form; None if none is known. Pure."""
    match tree:
        case {"BinaryExpr": {"op": "And", "left": left, "right": right}}:
            both = [text for text in (pushed(left, schema), pushed(right, schema)) if text is not None]
            return " AND ".join(f"({text})" for text in both) if both else None
        case {"BinaryExpr": {"op": "Or", "left": left, "right": right}}:
            one, other = pushed(left, schema), pushed(right, schema)
            return None if one is None or other is None else f"({one}) OR ({other})"
        case {"BinaryExpr": {"op": str(op), "left": {"Column": str(name)}, "right": {"Literal": value}}}:
            return _compared(name, op, value, schema)
        case {"BinaryExpr": {"op": str(op), "left": {"Literal": value}, "right": {"Column": str(name)}}}:
            return _compared(name, _MIRRORED.get(op, ""), value, schema)
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNull" | "IsNotNull" as test}}}:
            if name not in schema.names:
                return None
            return f"{_quoted(name)} IS {'NOT ' if test == 'IsNotNull' else ''}NULL"
        case {
            "Function": {
                "input": [{"Column": str(name)}, {"Literal": low}, {"Literal": high}],
                "function": {"Boolean": {"IsBetween": _}},
            }
        }:
            ends = [_compared(name, "GtEq", low, schema), _compared(name, "LtEq", high, schema)]
            known = [text for text in ends if text is not None]
            return " AND ".join(known) if known else None
    return None


def _compared(name: str, op: str, value: Any, schema: pa.Schema) -> str | None:
    """A comparison of a column with a value of its own kind: others would be a conversion, which engines do apart."""
    if name not in schema.names or op not in _COMPARED:
        return None
    kind = schema.field(name).type
    match value:
        case {"Scalar": {"String": str(text)}} if pa.types.is_string(kind):
            known: object = text
        case {"Dyn": {"Int": int(number)}} if pa.types.is_integer(kind):
            known = number
        case {"Scalar": dict(told)} if pa.types.is_integer(kind) and told.keys() <= _INTEGERS:
            (known,) = told.values()
        case {"Scalar": {"Date": int(days)}} if pa.types.is_date32(kind):
            known = _date(lambda: _EPOCH.date() + dt.timedelta(days=days))
        case {"Scalar": {"Datetime": [int(moment), "Microseconds", zone]}} if pa.types.is_timestamp(kind):
            if (zone is None) != (kind.tz is None):
                return None
            known = _date(lambda: _EPOCH.replace(tzinfo=dt.UTC if zone else None) + dt.timedelta(microseconds=moment))
        case _:
            return None
    return None if known is None else f"{_quoted(name)} {_COMPARED[op]} {literal(known)}"


def _date(made: Callable[[], dt.date]) -> dt.date | None:
    try:
        return made()
    except OverflowError:
        return None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
