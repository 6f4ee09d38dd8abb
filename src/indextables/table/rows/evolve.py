"""Decides how a table's schema becomes another one: merged with columns of new data, or replaced with all rows. Pure.

A merge never takes anything away, so that every file that is there stays readable: rows of a file that lacks a column
hold null in it, values of a narrower type are widened as they are read. New columns come last and may be null, whatever
the data says about them. Types widen along `byte -> short -> int -> long` and `float -> double` and in no other way.
Columns keep their permanent ids; an id that a column had once is never given to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.errors import InvalidArgument, SchemaInvalid, SchemaMismatch
from indextables.log.wire import (
    FIELD_ID,
    MAX_ID_KEY,
    TYPE_WIDENING,
    Metadata,
    Protocol,
    assign_ids,
    check_free,
    field_id,
    highest_ever,
    same_ids,
    schema_from_json,
    schema_to_json,
    validate_schema,
    widened,
    with_feature,
    with_stored_names,
    without_ids,
)
from indextables.options import Options
from indextables.query.stored import MADE_BY, has_stored_name
from indextables.table.rows.indexing import nested_texts, wanted_indexing, without_settings
from indextables.table.rows.partitions import check_partition_columns, remembering
from indextables.table.rows.rows import PYTHON_DOOR, Door, Rows, fits

__all__ = [
    "Evolution",
    "check_merge_options",
    "keep_ids",
    "merged_schema",
    "replaced_schema",
    "typed_only",
    "with_schema",
]

_SPARK_TYPE = b"spark.type"
_OF_COLUMNS = (
    opt.INDEXING_TYPEMAP,
    opt.INDEXING_TOKENIZER,
    opt.INDEXING_RECORD_OPTION,
    opt.INDEXING_TOKEN_LENGTH,
)


class Evolution(msgspec.Struct, frozen=True):
    """What a commit that changes the schema brings: the metadata, and the protocol where that must change too."""

    metadata: Metadata
    protocol: Protocol | None = None


def merged_schema(
    metadata: Metadata,
    protocol: Protocol,
    given: pa.Schema,
    options: Options,
    *,
    url: str = "",
    door: Door = PYTHON_DOOR,
) -> Evolution | None:
    """The table's schema with what `given` adds to it; None if it adds nothing.

    A new column without a type, which holds nothing but nulls, is no new column. Options of the call that say how new
    columns are indexed become the table's.

    Raises SchemaMismatch that names each difference which no merge can bridge, SchemaInvalid for a column that no table
    can have.
    """
    schema = schema_from_json(metadata.schemaString)
    places = {name.lower(): place for place, name in reversed(list(enumerate(given.names)))}
    fields: list[pa.Field] = []
    problems: list[str] = []
    wider = False
    for field in schema:
        place = places.pop(field.name.lower(), None)
        kind = field.type if place is None else _merged_type(field, given.field(place).type)
        if kind is None and place is not None:
            problems.append(f"{field.name} is {given.field(place).type}, the table has {field.type}")
        elif kind != field.type and field.name in metadata.partitionColumns and pa.types.is_floating(kind):
            problems.append(f"{field.name} is {kind}, the table is partitioned by it as {field.type}")
        else:
            wider = wider or kind != field.type
            fields.append(pa.field(field.name, kind, field.nullable, metadata=field.metadata))
    if problems:
        raise _refused(problems, url, door)
    added = [given.field(place) for place in sorted(places.values()) if not pa.types.is_null(given.field(place).type)]
    if not added and not wider:
        return None
    check_free(field.name for field in added)
    plain = schema_from_json(schema_to_json(pa.schema([without_ids(field) for field in added])))
    merged = pa.schema([*fields, *(field.with_nullable(True) for field in plain)])  # noqa: FBT003 - Arrow's order
    properties = _indexing(options, [field.name for field in added])
    properties = {**nested_texts(plain, {**metadata.configuration, **properties}), **properties}
    changed = with_schema(metadata, merged, properties)
    raised = with_feature(protocol, TYPE_WIDENING) if wider else protocol
    return Evolution(changed, None if raised is protocol else raised)


def replaced_schema(
    metadata: Metadata,
    given: pa.Schema,
    options: Options,
    *,
    partition_by: Sequence[str] | None = None,
) -> Evolution | None:
    """The schema of `given` in the place of the table's; None if it is the same.

    Only a commit that replaces every row may bring it. A column whose name and type stay keeps its id. The table stays
    partitioned as it is unless `partition_by` says otherwise. Options of the call that say how columns are indexed
    become the table's.

    Raises SchemaInvalid, InvalidArgument for partition columns that the new schema does not have.
    """
    before = schema_from_json(metadata.schemaString)
    spelled = {field.name.lower(): field for field in before}
    plain = schema_from_json(schema_to_json(pa.schema([without_ids(field) for field in given])))
    fields = []
    check_free(name for name in plain.names if name.lower() not in spelled)
    for field in plain:
        known = spelled.get(field.name.lower())
        _check_plain(given.field(field.name), known)
        if known is not None and known.type == field.type:
            field = pa.field(known.name, known.type, field.nullable, metadata=known.metadata)  # noqa: PLW2901
        fields.append(field)
    schema = pa.schema(fields)
    columns = check_partition_columns(schema, metadata.partitionColumns if partition_by is None else partition_by)
    schema = _unmapped(schema, columns)
    properties = wanted_indexing(options, schema.names)
    unchanged = schema == before and columns == metadata.partitionColumns
    if unchanged and all(metadata.configuration.get(key) == value for key, value in properties.items()):
        return None
    kept = {field.name.lower() for field in fields if field.metadata and FIELD_ID.encode() in field.metadata}
    gone = [field.name for field in before if field.name.lower() not in kept]
    told = msgspec.structs.replace(metadata, configuration=without_settings(metadata.configuration, gone))
    new = [field for field in schema if field.name.lower() not in kept]
    properties = {**nested_texts(new, {**told.configuration, **properties}), **properties}
    changed = with_schema(told, schema, properties)
    return Evolution(remembering(msgspec.structs.replace(changed, partitionColumns=columns), metadata))


def _check_plain(field: pa.Field, known: pa.Field | None) -> None:
    """Raises SchemaInvalid for a column that is to be generated, or numbered, and is not so already."""
    wanted, told = _made(field), {} if known is None else _made(known)
    if wanted and wanted != told:
        message = (
            f"column {field.name} cannot become generated: that is declared when a table is made. Make a new table"
        )
        raise SchemaInvalid(message, column=field.name)


def _made(field: pa.Field) -> dict[bytes, bytes]:
    return {key: value for key, value in (field.metadata or {}).items() if key in MADE_BY}


def _unmapped(schema: pa.Schema, partition_columns: Sequence[str]) -> pa.Schema:
    """The schema in which partition columns that were renamed once are new columns.

    Partition values and folders go by the name of a column. Every row is replaced, so that no file has the old ones.
    """
    return pa.schema(
        [without_ids(f) if f.name in partition_columns and has_stored_name(f) else f for f in schema],
        metadata=schema.metadata,
    )


def keep_ids(metadata: Metadata, newer: Metadata) -> Metadata:
    """`metadata` with what `newer` knows about ids that were ever given, so that none is given again or changes."""
    told = newer.configuration.get(MAX_ID_KEY)
    if told is None or told == metadata.configuration.get(MAX_ID_KEY):
        return metadata
    schema = same_ids(schema_from_json(metadata.schemaString), schema_from_json(newer.schemaString))
    return msgspec.structs.replace(
        metadata, schemaString=schema_to_json(schema), configuration={**metadata.configuration, MAX_ID_KEY: told}
    )


def typed_only(rows: Rows, schema: pa.Schema) -> Rows:
    """The rows without columns that neither have a type nor are the table's: they hold nothing but nulls."""
    known = {name.lower() for name in schema.names}
    kept = [f.name for f in rows.schema if not pa.types.is_null(f.type) or f.name.lower() in known]
    if len(kept) == len(rows.schema):
        return rows
    return Rows(pa.schema([rows.schema.field(name) for name in kept]), (batch.select(kept) for batch in rows.batches))


def _merged_type(field: pa.Field, given: pa.DataType) -> pa.DataType | None:
    if fits(given, field.type):
        return field.type
    if _SPARK_TYPE in (field.metadata or {}):
        return None
    try:
        return widened(field.type, schema_from_json(schema_to_json(pa.schema([pa.field("c", given)]))).field(0).type)
    except SchemaInvalid:
        return None


def _refused(problems: list[str], url: str, door: Door) -> SchemaMismatch:
    where = f" of {url}" if url else ""
    message = (
        f"the data cannot be merged into the schema{where}: {'; '.join(problems)}. {door.merge} adds columns and "
        "widens byte to short to int to long and float to double; cast the data, or overwrite the table with "
        f"{door.overwrite}. "
        "Nothing was written"
    )
    return SchemaMismatch(message, differences=problems, url=url)


def with_schema(metadata: Metadata, schema: pa.Schema, properties: Mapping[str, str]) -> Metadata:
    """The metadata with this schema; columns without an id are new, and get an id and a stored name of their own.

    Neither was ever another column's: files may hold the values of that one under it.
    """
    before = highest_ever(schema_from_json(metadata.schemaString), metadata.configuration)
    numbered = assign_ids(schema, before + 1)
    is_new = [field_id(field) is None and not has_stored_name(field) for field in schema]
    numbered = with_stored_names(numbered, is_new, {**metadata.configuration, **properties})
    validate_schema(numbered)
    highest = highest_ever(numbered, {MAX_ID_KEY: str(before)})
    configuration = {**metadata.configuration, **properties, MAX_ID_KEY: str(highest)}
    return msgspec.structs.replace(metadata, schemaString=schema_to_json(numbered), configuration=configuration)


def _indexing(options: Options, columns: Sequence[str]) -> dict[str, str]:
    """What the call says about indexing these columns, as properties of the table."""
    names = {column.lower() for column in columns}
    return {
        key: value
        for key, value in options.from_operator("indexing.").items()
        if any(key.startswith(family) and key[len(family) :] in names for family in _OF_COLUMNS)
    }


def check_merge_options(*, merge_schema: bool, overwrite_schema: bool, partial: bool, door: Door = PYTHON_DOOR) -> None:
    """Raises InvalidArgument for wishes that exclude each other. `partial` tells that some rows stay."""
    if overwrite_schema and merge_schema:
        message = f"{door.merge} and {door.overwrite} exclude each other: give one"
        raise InvalidArgument(message, option="mergeSchema")
    if overwrite_schema and partial:
        message = f"{door.overwrite} replaces all rows: it goes neither with append nor with a part of the partitions"
        raise InvalidArgument(message, option="overwriteSchema")
