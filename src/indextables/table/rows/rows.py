"""Data as users have it becomes batches of the table's schema, or a SchemaMismatch that names every difference.

Columns are found in any case and put into the table's order. A missing column gets its default, else null where the
table allows it.
The incoming type may be narrower than the table's, never wider; nothing is rounded, cut or guessed.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import InvalidArgument, SchemaMismatch
from indextables.lazy import pc
from indextables.query.stored import MADE_BY, current_default, generated_columns, identity_columns
from indextables.table.rows.dicts import batch_of_dicts

__all__ = [
    "PYTHON_DOOR",
    "SPARK_DOOR",
    "Door",
    "FittedRows",
    "Rows",
    "fit",
    "fits",
    "left_out",
    "read_rows",
    "schema_of",
]


_EXACT_DOUBLES = 2**53
_DICTS = 10_000
"""Dicts of an iterator that become one batch."""


class Rows(msgspec.Struct, frozen=True):
    """A schema and the batches that have it; the batches can be taken once."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


class FittedRows(msgspec.Struct, frozen=True):
    """Rows that `fit` has cast and validated: who is given them does neither again. The batches can be taken once.

    Only `fit` makes them out of other rows.
    """

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]

    def checked_by(self, check: Callable[[pa.RecordBatch], None]) -> FittedRows:
        """The same rows; what `check` raises for a batch is raised when the batch is taken."""

        def checked() -> Iterator[pa.RecordBatch]:
            for batch in self.batches:
                check(batch)
                yield batch

        return FittedRows(self.schema, checked())

    def changed_by(self, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> FittedRows:
        """What `change` makes of each batch, which fits the schema as before."""
        return FittedRows(self.schema, map(change, self.batches))


def read_rows(data: Any, schema: pa.Schema | None = None, *, widens: bool = False, fills: bool = True) -> Rows:
    """What the user gave as Arrow: columns of any library, dicts, or an iterator of either, taken piece by piece.

    `schema` gives the types of dicts, which have none; where it `widens`, a wider one if only that holds their values
    (of an iterator, those of the first piece). Where it `fills`, a dict that lacks a key has the column's default, and
    dicts of an iterator have all columns of the schema; else they have those of the first piece.

    Raises InvalidArgument for anything else, SchemaMismatch for dicts whose values do not fit, if only later pieces
    tell while the batches are taken.
    """
    if isinstance(data, pa.Table):
        return Rows(data.schema, data.to_batches() if data.num_columns else [_without_columns(data.num_rows)])
    if isinstance(data, pa.RecordBatch):
        return Rows(data.schema, [data])
    if isinstance(data, pa.RecordBatchReader):
        return Rows(data.schema, data)
    if type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns"):
        return _pandas_rows(data, schema)
    if hasattr(data, "__arrow_c_stream__"):
        return _stream_rows(data)
    if hasattr(data, "__arrow_c_array__"):
        return _array_rows(data)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes) and all(isinstance(r, Mapping) for r in data):
        batch = batch_of_dicts(data, schema, widens=widens, fills=fills)
        return Rows(batch.schema, [batch])
    of_library = _library_rows(data)
    if of_library is not None:
        return of_library
    if isinstance(data, Iterator | Sequence) and not isinstance(data, str | bytes | bytearray):
        return _piecewise_rows(iter(data), schema, widens=widens, fills=fills)
    raise _not_rows(data)


def schema_of(data: Any) -> pa.Schema:
    """The Arrow schema of a schema, or of data that a table is to be made for. Raises InvalidArgument."""
    if isinstance(data, Iterator) and not hasattr(data, "schema"):
        raise InvalidArgument("rows of an iterator are read once: give the schema, then append the iterator")
    return data if isinstance(data, pa.Schema) else read_rows(data).schema


class Door(msgspec.Struct, frozen=True):
    """How callers ask for other columns, and for another schema altogether, so that an error says it in their words."""

    merge: str
    overwrite: str


PYTHON_DOOR = Door("merge_schema=True", "overwrite_schema=True")
SPARK_DOOR = Door("mergeSchema", "overwriteSchema")


def fit(
    rows: Rows, schema: pa.Schema, *, url: str = "", door: Door = PYTHON_DOOR, has_numbers: bool = False
) -> FittedRows:
    """`rows` in the columns, order and types of `schema`.

    An identity column holds null where a row has no number yet. `has_numbers`: rows that were in a table before bring
    theirs; else only those may that are generated BY DEFAULT.

    Raises SchemaMismatch at once where the schemas tell, and while the batches are taken where only a value tells: a
    null in a column that must not hold one, digits that would be lost.
    """
    sources = _match(rows.schema, schema, url, door)
    fitted = _fitted(rows, schema, sources, has_numbers=has_numbers)
    return FittedRows(schema, _generated(fitted, schema, sources) if generated_columns(schema) else fitted)


def left_out(field: pa.Field, count: int) -> pa.Array:
    """What rows hold in a column of the table that nothing was said about: its default, else null."""
    default = current_default(field)
    return pa.nulls(count, field.type) if default is None else pa.repeat(default, count)


def _match(given: pa.Schema, schema: pa.Schema, url: str, door: Door) -> list[int | None]:
    """For each column of the table its place in the data, or None if it is to be as `left_out` has it."""
    problems: list[str] = []
    places: dict[str, int] = {}
    for index, name in enumerate(given.names):
        if name.lower() in places:
            problems.append(f"{name} is there twice")
        places[name.lower()] = index
    sources: list[int | None] = []
    for field in schema:
        place = places.pop(field.name.lower(), None)
        sources.append(place)
        if place is None:
            is_made = not MADE_BY.isdisjoint(field.metadata or {})
            if not field.nullable and current_default(field) is None and not is_made:
                problems.append(f"{field.name} is missing and must not be null")
        elif not fits(given.field(place).type, field.type):
            problems.append(f"{field.name} is {given.field(place).type}, the table has {field.type}")
    problems += [f"{given.field(place).name} is not a column of the table" for place in places.values()]
    if problems:
        where = f" of {url}" if url else ""
        message = (
            f"the data does not fit the table{where}: {'; '.join(problems)}. Nothing was written; {door.merge} "
            f"adds columns and widens types where that loses nothing, {door.overwrite} replaces the schema with all "
            "rows"
        )
        raise SchemaMismatch(message, differences=problems, url=url)
    return sources


def _pandas_rows(data: Any, schema: pa.Schema | None) -> Rows:
    try:
        # A named index is data; one without a name counts the rows.
        named = [place for place, name in enumerate(data.index.names) if name is not None]
        frame = data.reset_index(level=named) if named else data
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, ValueError) as cause:
        message = f"the DataFrame cannot be read as typed columns: {cause}. Nothing was written"
        raise SchemaMismatch(message, differences=[str(cause)]) from cause
    table = table if schema is None else _with_integers(table, schema)
    return read_rows(table if table.num_columns else pa.table([pa.nulls(len(data))], names=["none"]).select([]))


def _with_integers(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Whole numbers that pandas holds as doubles because some are missing, as the integers that the table has.

    Only those that every double tells apart: beyond them pandas may have rounded.
    """
    wanted = {field.name.lower(): field.type for field in schema if pa.types.is_integer(field.type)}
    for place, field in enumerate(table.schema):
        column, kind = table.column(place), wanted.get(field.name.lower())
        if kind is None or not pa.types.is_float64(field.type) or not column.null_count:
            continue
        ends = pc.min_max(pc.abs(column)).as_py()
        if ends["max"] is not None and ends["max"] >= _EXACT_DOUBLES:
            continue
        with contextlib.suppress(pa.ArrowInvalid):
            table = table.set_column(place, field.name, column.cast(kind))
    return table


def _stream_rows(data: Any) -> Rows:
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as cause:
        message = f"data of type {type(data).__name__} has no rows with named columns: {cause}. Nothing was written"
        raise InvalidArgument(message) from cause
    return Rows(reader.schema, reader)


def _array_rows(data: Any) -> Rows:
    try:
        batch = pa.record_batch(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as cause:
        message = f"data of type {type(data).__name__} has no rows with named columns: {cause}. Nothing was written"
        raise InvalidArgument(message) from cause
    return Rows(batch.schema, [batch])


def _library_rows(data: Any) -> Rows | None:
    """What has rows by a name of its own: a Dataset or Scanner of pyarrow, a LazyFrame of polars."""
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if library == "pyarrow" and hasattr(data, "scanner"):
        return read_rows(data.scanner().to_reader())
    if library == "pyarrow" and kind == "Scanner":
        return read_rows(data.to_reader())
    if library == "polars" and kind == "LazyFrame":
        return read_rows(data.collect(engine="streaming"))
    return None


_NOTHING = object()


def _piecewise_rows(pieces: Iterator[Any], schema: pa.Schema | None, *, widens: bool, fills: bool) -> Rows:
    """Batches, tables or dicts one after the other; dicts become batches of some thousand."""
    first = next(pieces, _NOTHING)
    if first is _NOTHING:
        return Rows(pa.schema([]) if schema is None else schema, [])
    rest = itertools.chain([first], pieces)
    if not isinstance(first, Mapping):
        head = _piece(first)
        return Rows(head.schema, (batch for piece in rest for batch in _piece(piece, "batches or tables").batches))

    # Copies: whoever makes the dicts may fill one and the same again and again.
    kept = (dict(row) if isinstance(row, Mapping) else row for row in rest)
    chunks = iter(lambda: list(itertools.islice(kept, _DICTS)), [])
    head = _chunk(next(chunks), schema, widens=widens, fills=fills)
    known = {field.name.lower(): field for field in (schema or ()) if fills}
    for field in head.schema:
        named = known.get(field.name.lower())
        known[field.name.lower()] = field if named is None else named.with_type(field.type)
    columns = pa.schema(list(known.values()))
    batches = itertools.chain([head], (_chunk(chunk, columns, fills=fills) for chunk in chunks))
    return Rows(columns, (_in_columns(batch, columns) for batch in batches))


def _chunk(rows: list[Any], types: pa.Schema | None, *, widens: bool = False, fills: bool) -> pa.RecordBatch:
    for row in rows:
        if not isinstance(row, Mapping):
            raise _mixed(row, "dicts")
    batch = batch_of_dicts(rows, types, widens=widens, fills=fills)
    names = [name.lower() for name in batch.schema.names]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        message = f"the rows have the column {', '.join(twice)} twice, in upper and lower case. Nothing was written"
        raise SchemaMismatch(message, differences=[f"{name} is there twice" for name in twice])
    return batch


def _in_columns(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """The same rows, as `left_out` has it where they have no value.

    Raises SchemaMismatch for a column that the first dicts lack.
    """
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    unknown = [name for name in batch.schema.names if name.lower() not in {one.lower() for one in columns.names}]
    if unknown:
        message = (
            f"the first {_DICTS:,} rows have no column {', '.join(unknown)}, a later row has. Nothing was written: let "
            "the first rows have all columns, null where they have no value"
        )
        raise SchemaMismatch(message, differences=[f"{name} is not a column of the first rows" for name in unknown])
    arrays = [
        left_out(field, batch.num_rows)
        if field.name.lower() not in places
        else batch.column(places[field.name.lower()])
        for field in columns
    ]
    return pa.record_batch(arrays, schema=columns) if len(columns) else _without_columns(batch.num_rows)


def _piece(piece: Any, began: str = "") -> Rows:
    if isinstance(piece, Mapping) or not (hasattr(piece, "__arrow_c_stream__") or hasattr(piece, "__arrow_c_array__")):
        raise _mixed(piece, began) if began else _not_rows(piece)
    return read_rows(piece)


def _mixed(piece: object, began: str) -> InvalidArgument:
    message = (
        f"the iterator began with {began} and then gave a {type(piece).__name__}: let it give one kind. Nothing was "
        "written"
    )
    return InvalidArgument(message)


def _not_rows(data: object) -> InvalidArgument:
    message = (
        f"data of type {type(data).__name__} cannot be written: give a pyarrow Table, RecordBatch, RecordBatchReader "
        "or Dataset, a pandas or polars frame, a list of dicts, or an iterator of batches or dicts. Nothing was written"
    )
    return InvalidArgument(message)


def _without_columns(count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(count)], names=["none"]).select([])


def _fitted(rows: Rows, schema: pa.Schema, sources: list[int | None], *, has_numbers: bool) -> Iterator[pa.RecordBatch]:
    numbered = identity_columns(schema)
    made = {*numbered, *generated_columns(schema)}
    for batch in rows.batches:
        if batch.schema.names != rows.schema.names or batch.schema.types != rows.schema.types:
            message = f"a batch has the columns {batch.schema}, its reader said {rows.schema}. Nothing was written"
            raise SchemaMismatch(message, differences=["a batch has another schema than its reader"])
        columns = []
        for field, place in zip(schema, sources, strict=True):
            if place is None:
                columns.append(left_out(field, batch.num_rows))
                continue
            identity = numbered.get(field.name)
            if identity is not None and identity.always and not has_numbers:
                from indextables.table.rows.identity import check_not_given

                check_not_given(batch.column(place), field)
            columns.append(_column(batch.column(place), field, may_lack=field.name in made))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _generated(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, sources: list[int | None]
) -> Iterator[pa.RecordBatch]:
    """The batches with generated columns computed where the data lacks them, and compared where it has them."""
    from indextables.table.rows.generated import check_given, computed_column, generators

    nodes = generators(schema)
    for batch in batches:
        columns = list(batch.columns)
        for place, field in enumerate(schema):
            if field.name not in nodes:
                continue
            made = computed_column(nodes[field.name], field, batch)
            if sources[place] is not None:
                check_given(columns[place], made, field)
            columns[place] = made
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: pa.Array, field: pa.Field, *, may_lack: bool) -> pa.Array:
    if not field.nullable and values.null_count and not may_lack:
        message = f"column {field.name} must not be null, the data has {values.null_count} nulls. Nothing was written"
        raise SchemaMismatch(message, differences=[f"{field.name} has nulls"])
    try:
        if not pa.types.is_primitive(values.type):
            values.validate(full=True)
    except pa.ArrowInvalid as cause:
        message = f"column {field.name} holds text that is not UTF-8, or is damaged: {cause}. Nothing was written"
        raise SchemaMismatch(message, differences=[f"{field.name}: {cause}"]) from cause
    if values.type == field.type:
        return values
    try:
        return pc.cast(_castable(values), field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        message = f"column {field.name} does not fit {field.type}: {cause}. Nothing was written"
        raise SchemaMismatch(message, differences=[f"{field.name}: {cause}"]) from cause


def _castable(values: pa.Array) -> pa.Array:
    """A dictionary of views, as Polars has them for categories, as one that Arrow can decode."""
    if not pa.types.is_dictionary(values.type):
        return values
    words = values.type.value_type
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(words)
    if plain is None:
        return values
    return pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(plain))


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """True if every value of `given` is a value of `wanted` (for nanoseconds: if the values turn out to be)."""
    types = pa.types
    if given == wanted or types.is_null(given):
        return True
    if types.is_dictionary(given):
        return fits(given.value_type, wanted)
    if types.is_integer(given):
        return _integer_widens(given, wanted)
    if types.is_floating(given):
        return bool(types.is_floating(wanted) and wanted.bit_width >= given.bit_width)
    if types.is_decimal(given) and types.is_decimal(wanted):
        whole = given.precision - given.scale <= wanted.precision - wanted.scale
        return bool(whole and given.scale <= wanted.scale)
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        return bool((given.tz is None) == (wanted.tz is None))
    if any(is_kind(given) and is_kind(wanted) for is_kind in (types.is_date, types.is_time, types.is_duration)):
        return True
    if _is_text(given) and _is_text(wanted):
        return True
    if _is_bytes(given) and _is_bytes(wanted):
        return True
    return _nested_widens(given, wanted)


def _integer_widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    bits = given.bit_width + (1 if types.is_unsigned_integer(given) else 0)
    if types.is_signed_integer(wanted):
        return bool(bits <= wanted.bit_width)
    if types.is_unsigned_integer(wanted):
        return bool(types.is_unsigned_integer(given) and given.bit_width <= wanted.bit_width)
    if types.is_floating(wanted):
        exact = {64: 53, 32: 24, 16: 11}[wanted.bit_width]
        return bool(given.bit_width <= exact)
    if types.is_decimal(wanted):
        digits = {8: 3, 16: 5, 32: 10, 64: 20}[given.bit_width]
        return bool(wanted.precision - wanted.scale >= digits)
    return False


def _nested_widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if types.is_struct(given) and types.is_struct(wanted):
        ours, theirs = list(wanted.fields), list(given.fields)
        same = [field.name for field in ours] == [field.name for field in theirs]
        return same and all(fits(a.type, b.type) for a, b in zip(theirs, ours, strict=True))
    if types.is_map(given) and types.is_map(wanted):
        return fits(given.key_type, wanted.key_type) and fits(given.item_type, wanted.item_type)
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if any(check(given) for check in lists) and any(check(wanted) for check in lists):
        return fits(given.value_type, wanted.value_type)
    return False


def _is_text(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    types = pa.types
    plain = types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_binary_view(data_type)
    return bool(plain or types.is_fixed_size_binary(data_type))
