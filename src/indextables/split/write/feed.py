"""Turns Arrow columns into the JSON lines that Tantivy is fed with, one per row, without a Python object per value.

Encoding happens natively (arro3). Before it, each column takes the form its field wants: times become integers, nulls
inside lists go away (Tantivy refuses them), addresses that are none are left out. What the index will not hold of a
column is told by `gaps`, so that a search knows to scan.
"""

from __future__ import annotations

import io
import ipaddress
import re

import arro3.io
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import InvariantViolated
from indextables.split.index import MAX_RAW_BYTES, TIME_TEXT, FieldPlan, IndexPlan, is_nested_list
from indextables.split.write.rows import leaf_arrays

__all__ = ["Feeder"]

_JSON_LIMIT = 60_000
"""A JSON term is path and value together; above this a value may not fit."""

# Bytes of index memory, measured: per row, per fast value, per term that is new, per token of a few characters.
_ROW_COST = 40
_FAST_COST = 20
_TERM_COST = 70
_TOKEN_COST = 6

_IN_TOKEN = bytes(255 if (chr(b).isalnum() and b < 0x80) or b >= 0x80 else 0 for b in range(256))
"""255 for the bytes that can be part of a word; above ASCII all can."""
_NOT_BLANK = bytes(0 if b in b"\t\n\x0b\x0c\r " else 255 for b in range(256))


class Feeder:
    """Makes lines of record batches.

    `gaps` are the fields whose terms do not cover every row, with the reasons. `heap_bytes` estimates, rather high than
    low, the memory that an index of the lines takes until it is written.
    """

    def __init__(self, plan: IndexPlan, schema: pa.Schema) -> None:
        self._fields = [(f, schema.get_field_index(f.column)) for f in plan.fields if f.column is not None]
        self._fast = sum(f.fast for f in plan.fields)
        self._distinct: dict[str, float] = {}
        self.gaps: dict[str, set[str]] = {}
        self.heap_bytes = 0

    def lines(self, batch: pa.RecordBatch) -> list[str]:
        """One JSON object per row, in order."""
        if not self._fields:
            return ["{}"] * batch.num_rows
        columns, names = [], []
        for field, place in self._fields:
            columns.append(self._column(field, batch.column(place)))
            names.append(field.id)
        sink = io.BytesIO()
        arro3.io.write_ndjson(pa.record_batch(columns, names=names), sink)
        lines = sink.getvalue().decode().split("\n")
        lines.pop()
        if len(lines) != batch.num_rows:
            raise InvariantViolated(f"{batch.num_rows} rows became {len(lines)} documents: please report this")
        self.heap_bytes += batch.num_rows * (_ROW_COST + self._fast * _FAST_COST)
        return lines

    def _column(self, field: FieldPlan, values: pa.Array) -> pa.Array:
        if field.multi:
            values = _without_nulls(values)
            items = self._values(field, values.values)
            # A value that was left out is a null again; lists may not hold any.
            listed = type(values).from_arrays(values.offsets, items)
            return _without_nulls(listed) if items.null_count else listed
        return self._values(field, values)

    def _values(self, field: FieldPlan, values: pa.Array) -> pa.Array:
        match field.kind:
            case "text" | "string":
                self._watch(field, values)
                return values
            case "json":
                for _, leaf in leaf_arrays("", values):
                    self.heap_bytes += len(leaf) * _TERM_COST
                    if _is_text(leaf.type):
                        self._watch(field, leaf)
                # arro3 cannot read a struct that is a slice: joining it with nothing makes a whole one.
                return _for_json(pa.concat_arrays([values, values[:0]]))
            case "date":
                days = values.cast(pa.date32()) if pa.types.is_date64(values.type) else values
                return days.cast(pa.int32())
            case "timestamp":
                return self._micros(field, values)
            case "ip":
                return self._addresses(field, values)
            case _:
                return values

    def _micros(self, field: FieldPlan, values: pa.Array) -> pa.Array:
        kind = pa.timestamp("us", values.type.tz)
        try:
            return values.cast(kind).cast(pa.int64())
        except pa.ArrowInvalid:
            # Seconds and milliseconds reach further than microseconds: leave those values out, and say so.
            factor = {"s": 1_000_000, "ms": 1_000}[values.type.unit]
            raw = values.cast(pa.int64())
            edge = (1 << 63) // factor - 1
            fits = pc.and_(pc.greater_equal(raw, -edge), pc.less_equal(raw, edge))
            self._gap(field, "badValue")
            return pc.multiply(pc.if_else(fits, raw, pa.scalar(None, pa.int64())), factor)

    def _addresses(self, field: FieldPlan, values: pa.Array) -> pa.Array:
        coded = values.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        known = pa.array([t if _is_address(t) else None for t in texts], coded.dictionary.type)
        if known.null_count:
            self._gap(field, "badValue")
        return known.take(coded.indices)

    def _watch(self, field: FieldPlan, values: pa.Array) -> None:
        """Flag the field if Tantivy would drop one of its terms; also counts what the terms cost."""
        self._count_terms(field, values)
        lengths = pc.binary_length(values)
        longest = pc.max(lengths).as_py() or 0
        whole = MAX_RAW_BYTES if field.kind != "json" else _JSON_LIMIT
        if longest > whole and (field.tokenizer == "raw" or field.fast or field.kind == "json"):
            self._gap(field, "longValue")
        limit = field.token_length
        if field.tokenizer == "raw" or longest <= limit or "longToken" in self.gaps.get(field.id, ()):
            return
        if not field.analyzer.keeps_positions:
            return
        suspects = values.filter(pc.greater(lengths, limit))
        table = _NOT_BLANK if field.tokenizer == "whitespace" else _IN_TOKEN
        # Only texts with a long run of bytes that may be one token are analysed a second time.
        for place in _with_long_run(suspects, table, limit):
            if field.analyzer.drops_any(suspects.slice(place, 1)):
                self._gap(field, "longToken")
                return

    def _count_terms(self, field: FieldPlan, values: pa.Array) -> None:
        grams = re.match(r"(edge_)?ngram\((\d+),(\d+)\)", field.tokenizer)
        if grams is not None:
            widths = int(grams[3]) - int(grams[2]) + 1
            each = len(values) * _TERM_COST if grams[1] else values.nbytes * _TOKEN_COST
            self.heap_bytes += widths * each
        elif field.tokenizer == "raw":
            # A value that was seen before costs little: the first rows tell how many are new.
            share = self._distinct.get(field.id)
            if share is None and len(values):
                share = self._distinct[field.id] = pc.count_distinct(values).as_py() / len(values)
            self.heap_bytes += int((share or 0) * (values.nbytes + len(values) * _TERM_COST))
        else:
            self.heap_bytes += values.nbytes

    def _gap(self, field: FieldPlan, reason: str) -> None:
        self.gaps.setdefault(field.id, set()).add(reason)


def _with_long_run(texts: pa.Array, in_token: bytes, limit: int) -> list[int]:
    """The places of the texts that may hold more than `limit` bytes in a row of one token; none that does is missed.

    A run that long covers three whole blocks of a quarter of it, wherever blocks begin: looking at blocks instead of
    bytes makes this cheap beside indexing.
    """
    wide = pa.types.is_large_string(texts.type)
    buffers = texts.buffers()
    offsets = np.frombuffer(buffers[1], np.int64 if wide else np.int32)[texts.offset : texts.offset + len(texts) + 1]
    block = (limit + 2) // 4 // 8 * 8
    if block == 0 or buffers[2] is None:
        return list(range(len(texts)))
    first, last = int(offsets[0]), int(offsets[-1])
    flags = memoryview(buffers[2])[first:last].tobytes().translate(in_token)
    words = np.frombuffer(flags + bytes(-len(flags) % block), np.uint64) == np.iinfo(np.uint64).max
    full = words.reshape(-1, block // 8).all(axis=1)
    third = np.flatnonzero(full[:-2] & full[1:-1] & full[2:])
    # A run over the end of a text counts for both: the analyzer decides.
    ends = np.concatenate([third * block, third * block + 3 * block - 1]) + first
    places = np.unique(np.searchsorted(offsets, ends, side="right") - 1)
    return [int(place) for place in places if place < len(texts)]


def _without_nulls(values: pa.Array) -> pa.Array:
    """The same lists with neither null lists nor null items, and offsets that start at zero."""
    items = values.flatten()
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if items.null_count:
        valid = pc.is_valid(items).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(valid)])[offsets]
        items = items.drop_null()
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items)


def _for_json(values: pa.Array) -> pa.Array:
    """Nested values in a form that JSON can say: keys are strings, binary and the like are left out."""
    kind = values.type
    if _is_text(kind):
        return _as_words(values)
    if _json_ready(kind):
        return values
    if pa.types.is_struct(kind):
        children = [_for_json(child) for child in values.flatten()]
        return pa.StructArray.from_arrays(children, names=[f.name for f in kind], mask=values.is_null())
    if pa.types.is_map(kind):
        keys = values.keys if _is_text(kind.key_type) else _key_texts(values.keys)
        return pa.MapArray.from_arrays(values.offsets, keys, _for_json(values.items), mask=values.is_null())
    if is_nested_list(kind):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, _for_json(values.flatten()), mask=values.is_null())
    if pa.types.is_decimal(kind):
        return values.cast(pa.string())
    return pa.nulls(len(values))


def _as_words(texts: pa.Array) -> pa.Array:
    """The same words, kept from being taken for a time: Tantivy indexes a text of RFC 3339 as a date and nothing else.

    A blank at the end makes it no time and adds no word. Where whole values are terms, it is part of the term: columns
    answer who asks for such a text.
    """
    dated = pc.match_substring_regex(texts, TIME_TEXT)
    if not pc.any(dated).as_py():
        return texts
    blank, nothing = pa.scalar(" ", texts.type), pa.scalar("", texts.type)
    return pc.if_else(dated, pc.binary_join_element_wise(texts, blank, nothing), texts)


def _key_texts(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.array([str(k) for k in keys.to_pylist()])


def _json_ready(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_null(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_address(text: str | None) -> bool:
    if text is None or "%" in text:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
