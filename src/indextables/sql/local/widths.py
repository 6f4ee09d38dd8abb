"""Computes with whole numbers of 64 bits, whatever the width of the columns: DataFusion wraps 100 * 100 of bytes to 16.

A statement with arithmetic sees narrow columns as wide ones. What it answers has the type that it would have had, or is
an error where a number is beyond that, as in a predicate. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
import pyarrow as pa

from indextables.errors import QueryInvalid
from indextables.sql.command import QUOTED
from indextables.sql.local.rewrite import Rewritten

__all__ = ["as_narrow", "in_types", "widened"]

_EVERYTHING = re.compile(r"\bSELECT\s+(?:DISTINCT\s+)?\*|\.\s*\*|\(\s*\*\s*\)", re.IGNORECASE)
_COMPUTES = re.compile(r"[-+*]|\babs\s*\(", re.IGNORECASE)


def widened(text: str, rewritten: Rewritten, schemas: Mapping[str, pa.Schema]) -> Rewritten:
    """The same statement over wide columns, if it computes and a table has narrow ones."""
    if not _COMPUTES.search(_EVERYTHING.sub(" ", QUOTED.sub("_", text))):
        return rewritten
    if not any(_is_narrow(field.type) for schema in schemas.values() for field in schema):
        return rewritten
    targets = {name: msgspec.structs.replace(target, wide=True) for name, target in rewritten.targets.items()}
    return Rewritten(rewritten.text, targets)


def as_narrow(rewritten: Rewritten) -> Rewritten | None:
    """The statement over the columns as they are; None if it is that already."""
    if not any(target.wide for target in rewritten.targets.values()):
        return None
    targets = {name: msgspec.structs.replace(target, wide=False) for name, target in rewritten.targets.items()}
    return Rewritten(rewritten.text, targets)


def in_types(text: str, result: pa.Table, meant: pa.Schema) -> pa.Table:
    """The answer in the types that the statement has over the columns as they are. Raises QueryInvalid."""
    columns = []
    for column, kind in zip(result.columns, meant.types, strict=True):
        try:
            columns.append(column.cast(kind) if _differs(column.type, kind) else column)
        except pa.ArrowInvalid as cause:
            message = (
                f"a result is too large for its type, {kind}: CAST a side of the arithmetic to BIGINT, which holds it"
            )
            raise QueryInvalid(message, query=text, position=None) from cause
    return pa.Table.from_arrays(columns, names=result.column_names)


def _is_narrow(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) and kind.bit_width < 64)


def _differs(kind: pa.DataType, meant: pa.DataType) -> bool:
    """Whether a column of numbers, or of lists of them, is wider than the one that was meant."""
    if pa.types.is_list(kind) and pa.types.is_list(meant):
        return _differs(kind.value_type, meant.value_type)
    return bool(pa.types.is_integer(kind) and pa.types.is_integer(meant) and kind != meant)
