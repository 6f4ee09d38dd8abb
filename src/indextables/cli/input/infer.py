"""Suggests the schema of a file by its first megabytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from indextables.cli.input.blocks import BOM, blocks_of, end_of_lines, is_blank
from indextables.cli.input.csv_files import even_rows, sample_texts, suggested_type
from indextables.cli.input.faults import UNREADABLE, Fault, unreadable
from indextables.cli.input.fitting import check_distinct
from indextables.cli.input.json_lines import check_objects, first_fault
from indextables.cli.input.patterns import JSON_INSIDE, Pattern
from indextables.cli.input.sources import Format, head_of, is_stream, open_stream, parquet_source
from indextables.cli.input.text_lines import PREFIX, sample_of
from indextables.cli.input.whole_numbers import InexactNumber, large_numbers
from indextables.errors import InvalidArgument
from indextables.query.convert import cast_or_null

__all__ = ["infer_schema", "whole_schema"]

_WHOLE = pa.decimal128(38, 0)
_TOLERANT_BYTES = 2**20
_MOST_BAD = 200
_SCAN_BYTES = 16 * 2**20
_FEW = 16


def infer_schema(name: str, kind: Format, pattern: Pattern | None = None, *, tolerant: bool = False) -> pa.Schema:
    """The schema that the first megabytes of a file suggest; of those lines that can be read, if it is `tolerant`.

    Raises InvalidArgument.
    """
    fault: Callable[[], Fault | None] = lambda: None  # noqa: E731
    try:
        if kind == "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(parquet_source(name)) as file:
                check_distinct(file.schema_arrow, name)
                return _tame(file.schema_arrow)
        head = head_of(name)
        if kind == "csv":
            return _suggested_by_texts(
                sample_texts(even_rows(head[:_TOLERANT_BYTES], name) if tolerant else head, name)
            )
        more = []
        if kind == "text":
            sample, lines = sample_of(head.removeprefix(BOM), pattern)
            if lines and not sample.num_rows and pattern is not None:
                message = f"{name}: none of its first {lines:,} lines matches --pattern"
                raise InvalidArgument(message, path=name)
            if pattern is None or pattern.name != JSON_INSIDE:
                return _suggested_by_texts(sample)
            more = [pa.field(PREFIX, pa.string())]
            head = "\n".join(sample["object"].to_pylist()).encode()
        if tolerant:
            head = _good_lines(head)
        fault = partial(_fault_in, head)
        found = _suggested_by_json(head, name)
        return pa.schema([*more, *found])
    except UNREADABLE as cause:
        raise unreadable(name, cause, fault=fault) from cause


def whole_schema(name: str, kind: Format, pattern: Pattern | None = None, *, tolerant: bool = False) -> pa.Schema:
    """The same of all that a file has, wherever in it a column comes; of a stream, of its first megabytes.

    A column that is text in one place and something else in another is text. Raises InvalidArgument.
    """
    is_json = kind == "jsonl" or (pattern is not None and pattern.name == JSON_INSIDE)
    if not is_json or is_stream(name):
        return infer_schema(name, kind, pattern, tolerant=tolerant)
    found = infer_schema(name, kind, pattern, tolerant=tolerant)
    try:
        stream, _, _ = open_stream(name)
        with stream:
            for block in blocks_of(stream, end_of_lines, size=_SCAN_BYTES):
                head = block.data
                if kind == "text":
                    objects = sample_of(head, pattern)[0]["object"].to_pylist()
                    head = "\n".join(objects).encode()
                # Lines that cannot be read are for the reader to complain about, with their place.
                head = _good_lines(head, len(head))
                if head.strip():
                    found = _unified(found, _suggested_by_json(head, name))
    except UNREADABLE as cause:
        raise unreadable(name, cause) from cause
    return found


def _unified(before: pa.Schema, now: pa.Schema) -> pa.Schema:
    """Columns of both; where they differ, the type that holds both, or that of `before`."""
    known = {field.name: field for field in before}
    fields = []
    for field in now:
        had = known.pop(field.name, field)
        if had.type == field.type:
            fields.append(had)
            continue
        try:
            both = pa.unify_schemas([pa.schema([had]), pa.schema([field])], promote_options="permissive")
            fields.append(both.field(0))
        except pa.ArrowException:
            fields.append(had)
    order = {name: place for place, name in enumerate([*before.names, *now.names][::-1])}
    return pa.schema(sorted([*known.values(), *fields], key=lambda field: -order[field.name]))


def _suggested_by_json(head: bytes, name: str) -> pa.Schema:
    check_objects(head, ended=False)
    sample = _read_sample(head, {})
    check_distinct(sample.schema, name)
    whole = _whole_numbers(sample, head)
    return _suggested(sample, whole, lambda types: _read_sample(head, types))


def _good_lines(head: bytes, size: int = _TOLERANT_BYTES) -> bytes:
    """The JSON objects of a sample, without those that do not go with the ones before them."""
    lines = [line for line in head[:size].split(b"\n") if _is_object(line)]
    for _ in range(_MOST_BAD):
        if _is_sample(lines):
            break
        good, bad = 0, len(lines)
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if _is_sample(lines[:middle]) else (good, middle)
        del lines[good]
    return b"\n".join(lines)


def _is_sample(lines: list[bytes]) -> bool:
    try:
        _read_sample(b"\n".join(lines), {})
    except pa.ArrowException:
        return False
    return True


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _fault_in(head: bytes) -> Fault | None:
    lines = [line for line in head.split(b"\n") if not is_blank(line)]

    def read(text: bytes) -> None:
        check_objects(text, ended=False)
        _read_sample(text, {})

    found = first_fault(lines, read)
    return None if found is None else (found[0] + 1, *found[1:])


def _read_sample(head: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The sample of JSON lines as a table; the columns of `types` as these, the others as Arrow takes them."""
    block = max(len(head), 1)
    import pyarrow.json as pajson

    parse = pajson.ParseOptions(explicit_schema=pa.schema(list(types.items())) if types else None)
    return pajson.read_json(
        pa.BufferReader(head), read_options=pajson.ReadOptions(block_size=block), parse_options=parse
    )


_Reread = Callable[[Mapping[str, pa.DataType]], pa.Table]


def _whole_numbers(sample: pa.Table, head: bytes) -> dict[str, pa.DataType]:
    """Columns that Arrow takes for doubles, and that hold whole numbers too large for them: a type that holds these.

    Raises InexactNumber for one that has fractions as well, or more than 38 digits.
    """
    large = large_numbers(head, sample.schema)
    for column, (number, row) in large.items():
        try:
            _read_sample(head, {column: _WHOLE})
        except pa.ArrowInvalid:
            raise InexactNumber(column, number, pa.float64(), row) from None
    return dict.fromkeys(large, _WHOLE)


def _suggested_by_texts(sample: pa.Table) -> pa.Schema:
    """The types that the texts of a CSV file state."""
    fields = []
    for column in sample.schema.names:
        texts = sample.column(column).combine_chunks()
        fields.append(pa.field(column, suggested_type(texts, column) or _time_type(texts)))
    return pa.schema(fields)


def _suggested(sample: pa.Table, whole: Mapping[str, pa.DataType], reread: _Reread) -> pa.Schema:
    """The sample's schema with times made out of texts where every text is one."""
    times = [field.name for field in sample.schema if pa.types.is_temporal(field.type)]
    texts = reread(dict.fromkeys(times, pa.string())) if times else sample
    fields = []
    for field in sample.schema:
        data_type = whole.get(field.name, field.type)
        if pa.types.is_string(data_type) or field.name in times:
            data_type = _time_type(texts.column(field.name).combine_chunks())
        fields.append(pa.field(field.name, data_type))
    return _tame(pa.schema(fields))


def _time_type(texts: pa.Array) -> pa.DataType:
    """The kind of time that all the texts state, or text."""
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    if texts.null_count == len(texts):
        return pa.string()
    # Arrow takes long to say that many texts are no times: most columns of text tell by their first ones.
    few = texts.drop_null()[:_FEW]
    dates = _are_dates(few) and _are_dates(texts)
    for candidate in [pa.date32()] if dates else [pa.timestamp("us", "UTC"), pa.timestamp("us")]:
        try:
            pc.cast(few, candidate)
            pc.cast(texts, candidate)
        except pa.ArrowInvalid:
            continue
        # What Arrow reads and we would not (the year 0) is not a time either.
        if cast_or_null(texts, candidate).null_count == texts.null_count:
            return candidate
    return pa.string()


def _are_dates(texts: pa.Array) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")).as_py())


def _tame(schema: pa.Schema) -> pa.Schema:
    """The types a table can have: nothing but nulls becomes text, times have microseconds."""
    return pa.schema([pa.field(field.name, _tamed(field.type)) for field in schema])


def _tamed(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_null(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", None if data_type.tz is None else "UTC")
    if pa.types.is_date(data_type):
        return pa.date32()
    if pa.types.is_dictionary(data_type):
        return _tamed(data_type.value_type)
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(f.name, _tamed(f.type)) for f in data_type.fields])
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return pa.list_(_tamed(data_type.value_type))
    return data_type
