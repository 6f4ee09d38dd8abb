"""Which files of a Delta table may hold rows that match, by the statistics of its log? Pure.

Whatever is not told, or not understood, means "may match". Delta cuts long texts and leaves out parts of milliseconds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from indextables.foreign.columns import Match
from indextables.foreign.delta.jsonlines import read_json_lines
from indextables.lazy import pc
from indextables.query.expr import Node, columns_of
from indextables.query.prune import prune
from indextables.query.stats import StatsRules
from indextables.query.stored import PHYSICAL_NAME

__all__ = ["stats_mask"]

_RULES = StatsRules(nan_hidden=True)
_CUT = 32
"""Texts of so many characters may have been cut."""
_PART_OF_A_MILLISECOND = 999


def stats_mask(stats: pa.Array, where: Node | None, schema: pa.Schema, match: Match) -> pa.BooleanArray | None:
    """For each file whether its statistics, as JSON, allow a row for which `where` is true; None if all do."""
    if where is None or not len(stats):
        return None
    fields = [schema.field(name) for name in columns_of(where) if _kind(schema.field(name).type) is not None]
    if not fields:
        return None
    stored = {field.name: match.physical_name(field) for field in fields}
    told = _parsed(stats, {stored[field.name]: field.type for field in fields})
    if told is None:
        return None
    files = pa.table(
        {
            "minValues": _maps(told["minValues"], {}),
            "maxValues": _maps(told["maxValues"], {stored[field.name]: field.type for field in fields}),
            "numRecords": told["numRecords"].combine_chunks(),
            "stats": stats,
        }
    )
    named = [field.with_metadata({PHYSICAL_NAME: match.physical_name(field).encode()}) for field in schema]
    return prune(files, where, pa.schema(named), [], rules=_RULES)


def _kind(kind: pa.DataType) -> pa.DataType | None:
    """How bounds of a type stand in JSON; None for types whose bounds are not used."""
    types = pa.types
    if types.is_integer(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_decimal(kind) or types.is_boolean(kind):
        return kind
    return pa.string() if types.is_string(kind) or types.is_date(kind) or types.is_timestamp(kind) else None


def _parsed(stats: pa.Array, kinds: dict[str, pa.DataType]) -> pa.Table | None:
    """The statistics as columns; None where a text is not what it should be."""
    bounds = pa.struct([(name, _kind(kind)) for name, kind in kinds.items()])
    schema = pa.schema([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds)])
    given = pc.if_else(pc.fill_null(pc.equal(stats, ""), True), "{}", stats)  # noqa: FBT003 - a value
    try:
        told = read_json_lines("\n".join(given.to_pylist()).encode(), schema)
    except (pa.ArrowException, ValueError, OSError):
        return None
    return told if len(told) == len(stats) else None


def _maps(column: pa.ChunkedArray, upper: dict[str, pa.DataType]) -> pa.Array:
    """A struct of bounds as maps of texts; `upper` are the types of those that may lie below the values they bound."""
    structs = column.combine_chunks()
    rows, names = len(structs), [field.name for field in structs.type]
    texts = []
    for field, child in zip(structs.type, structs.flatten(), strict=True):
        values = _raised(child, upper[field.name]) if field.name in upper else child
        texts.append(values if pa.types.is_string(values.type) else pc.cast(values, pa.string()))
    # Entries of one file stand together: the columns side by side, row by row.
    flat = pa.concat_arrays(texts)
    places = np.arange(len(names) * rows)
    order = places.reshape(len(names), rows).T.ravel()
    keys = pa.array(names, pa.string()).take(pa.array(places % len(names)))
    offsets = np.arange(rows + 1, dtype=np.int32) * len(names)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, flat.take(pa.array(order)))


def _raised(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        return pc.if_else(pc.less(pc.utf8_length(values), _CUT), values, pa.scalar(None, pa.string()))
    if pa.types.is_timestamp(kind):
        return _end_of_milliseconds(values)
    return values


def _end_of_milliseconds(texts: pa.Array) -> pa.Array:
    """Instants with at most three decimals, at the end of their millisecond; others are not known."""
    plain = pc.replace_substring_regex(texts, r"^(\d{4}-\d{2}-\d{2})$", r"\1T00:00:00")
    seconds, zone = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}", r"(Z|[+-]\d{2}:\d{2})?"
    whole = pc.replace_substring_regex(plain, rf"^({seconds}){zone}$", r"\1.000\2")
    pattern = rf"^({seconds}\.\d{{3}})\d*{zone}$"
    known = pc.match_substring_regex(whole, pattern)
    raised = pc.replace_substring_regex(whole, pattern, rf"\1{_PART_OF_A_MILLISECOND}\2")
    return pc.if_else(known, raised, pa.scalar(None, pa.string()))
