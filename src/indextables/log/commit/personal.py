"""Keeps the values of personal columns out of the log: bounds of files, and literals in what the history tells. Pure.

A table names such columns in its property `indexing.personal`. Whatever writes a version, and whenever the column was
marked, goes through here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.lazy import pc
from indextables.log.wire import STRING_MAP, Add, Metadata, combined, schema_from_json
from indextables.query.stored import stored_name

if TYPE_CHECKING:
    # Searches ask which columns are personal, and need nothing that writes.
    from indextables.log.commit.staged import Files, Staged

__all__ = ["personal_columns", "redacted", "scrubbed"]

_CLAUSES = ("matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates")
_LITERAL = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|\b\d[\w.]*""", re.DOTALL)
_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^,{}"]+)'
_PAIRS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]))


def personal_columns(configuration: Mapping[str, str]) -> list[str]:
    """The columns that the properties of a table call personal, in lower case."""
    key = opt.INDEXING_PERSONAL.key.lower()
    told = [value for name, value in configuration.items() if name.lower().removeprefix(opt.PREFIX) == key]
    return [name.strip().lower() for value in told for name in value.split(",") if name.strip()]


def scrubbed(staged: Staged, metadata: Metadata) -> Staged:
    """What is staged, without bounds of personal columns."""
    names = _stored(metadata)
    if not names or not len(staged.adds):
        return staged
    adds = _without_bounds(staged.adds, names)
    return msgspec.structs.replace(staged, adds=adds)


def redacted(parameters: Mapping[str, str | None], metadata: Metadata) -> dict[str, str | None]:
    """What the history tells of a verb, without literals where they may be values of a personal column.

    Those are all of a search and of a merge, and those of a predicate that names such a column.
    """
    names = personal_columns(metadata.configuration)
    if not names:
        return dict(parameters)
    is_merge = any(name in parameters for name in _CLAUSES)
    told: dict[str, str | None] = {}
    for key, text in parameters.items():
        if text is None or key not in {"predicate", "search", *_CLAUSES}:
            told[key] = text
        elif key == "search":
            told[key] = "?"
        elif key in _CLAUSES:
            told[key] = json.dumps([_clause(form) for form in json.loads(text)])
        else:
            told[key] = _LITERAL.sub("?", text) if is_merge or _mentions(text, names) else text
    return told


def _clause(form: dict[str, str]) -> dict[str, str]:
    return {key: _LITERAL.sub("?", text) if key == "predicate" else text for key, text in form.items()}


def _mentions(text: str, names: list[str]) -> bool:
    return any(name in text.lower() for name in names)


def _stored(metadata: Metadata) -> list[str]:
    """The names that personal columns have in files."""
    names = set(personal_columns(metadata.configuration))
    if not names:
        return []
    return [stored_name(field) for field in schema_from_json(metadata.schemaString) if field.name.lower() in names]


def _without_bounds(adds: Files, names: list[str]) -> Files:
    pattern = _pattern(names)
    if not isinstance(adds, pa.Table):
        return tuple(_one(add, names, pattern) for add in adds)
    for name in ("minValues", "maxValues"):
        if name in adds.column_names:
            place = adds.column_names.index(name)
            adds = adds.set_column(place, name, _without_keys(combined(adds[name]), names))
    if "stats" in adds.column_names:
        texts = adds["stats"].cast(pa.string())
        for expression, new in ((pattern, ""), (r",+\}", "}"), (r"\{,+", "{")):
            texts = pc.replace_substring_regex(texts, expression, new)
        adds = adds.set_column(adds.column_names.index("stats"), "stats", texts)
    for name in ("timeRangeStart", "timeRangeEnd"):
        if name in adds.column_names:
            place = adds.column_names.index(name)
            adds = adds.set_column(place, name, pa.nulls(adds.num_rows, pa.string()))
    return adds


def _one(add: Add, names: list[str], pattern: str) -> Add:
    def kept(bounds: dict[str, str | None] | None) -> dict[str, str | None] | None:
        return None if bounds is None else {name: text for name, text in bounds.items() if name not in names}

    stats = add.stats
    if stats is not None:
        for expression, new in ((pattern, ""), (r",+\}", "}"), (r"\{,+", "{")):
            stats = re.sub(expression, new, stats)
    low, high = kept(add.minValues), kept(add.maxValues)
    # The range of times is that of the first such column, whichever it is.
    return msgspec.structs.replace(
        add, minValues=low, maxValues=high, stats=stats, timeRangeStart=None, timeRangeEnd=None
    )


def _pattern(names: list[str]) -> str:
    """Matches the entries of these columns in statistics, with the comma behind them."""
    keys = "|".join(re.escape(json.dumps(name, ensure_ascii=False)) for name in names)
    return rf"(?:{keys})\s*:\s*{_VALUE},?"


def _without_keys(maps: pa.Array, names: list[str]) -> pa.Array:
    """The maps without these keys; a map that is null stays so."""
    if maps.null_count == len(maps):
        return maps
    listed = maps.cast(_PAIRS)
    lengths = pc.fill_null(pc.list_value_length(listed), 0).to_numpy(zero_copy_only=False)
    entries = listed.flatten()
    stays = pc.invert(pc.is_in(pc.struct_field(entries, 0), value_set=pa.array(names, pa.string())))
    owners = np.repeat(np.arange(len(maps)), lengths)[stays.to_numpy(zero_copy_only=False)]
    ends = np.cumsum(np.bincount(owners, minlength=len(maps)))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    found = pa.MapArray.from_arrays(
        offsets, pc.struct_field(entries, 0).filter(stays), pc.struct_field(entries, 1).filter(stays)
    )
    if not maps.null_count:
        return found
    return pc.if_else(maps.is_valid(), found, pa.nulls(len(maps), STRING_MAP))
