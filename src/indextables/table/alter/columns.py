"""Decides what a wish about columns makes of a table's schema, without a look at its files. Pure.

A column keeps its id and the name that files have for it, so that no file has to be written anew: a rename changes the
name in the schema, a drop takes the column out of it and reserves what files call it, and a column that is added is
read as its default, or null, from files without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec
import pyarrow as pa

from indextables.errors import InvalidArgument, QueryInvalid
from indextables.log.wire import (
    COLUMN_DEFAULTS,
    COLUMN_MAPPING,
    FORMER_NAMES_KEY,
    TYPE_WIDENING,
    Metadata,
    Protocol,
    check_free,
    former_names,
    schema_from_json,
    schema_to_json,
    validate_schema,
    widens,
    with_feature,
    with_stored_name,
    without_ids,
)
from indextables.query.evaluate import evaluate_value
from indextables.query.expr import columns_of
from indextables.query.parse import parse_value
from indextables.query.stored import CURRENT_DEFAULT, EXISTS_DEFAULT, MADE_BY, default_text, identity_of, stored_name
from indextables.table.alter.wishes import AddColumns, AlterColumn, DropColumns, NewColumn, RenameColumn
from indextables.table.rows import (
    Evolution,
    bound,
    generators,
    nested_texts,
    renamed_settings,
    rules_of,
    with_schema,
    without_settings,
)

__all__ = ["default_value", "evolved", "find"]

_COMMENT = b"comment"
_SPARK_TYPE = b"spark.type"


def evolved(
    metadata: Metadata, protocol: Protocol, wish: AddColumns | RenameColumn | DropColumns | AlterColumn, zone: str
) -> Evolution | None:
    """What a commit brings that grants the wish; None if the table is like that already.

    Times without a zone in defaults are in `zone`. Raises InvalidArgument and SchemaInvalid, which say what to do.
    """
    schema = schema_from_json(metadata.schemaString)
    match wish:
        case AddColumns():
            changed, features = _added(metadata, schema, wish, zone)
        case RenameColumn():
            changed, features = _renamed(metadata, schema, wish)
        case DropColumns():
            changed, features = _dropped(metadata, schema, wish)
        case AlterColumn():
            changed, features = _altered(metadata, schema, wish, zone)
        case _:
            assert_never(wish)
    raised = with_feature(protocol, *features) if features else protocol
    if changed == metadata and raised == protocol:
        return None
    return Evolution(changed, None if raised is protocol else raised)


def find(schema: pa.Schema, name: str) -> pa.Field:
    """The column that a name means, in any case. Raises InvalidArgument."""
    found = next((field for field in schema if field.name.lower() == name.lower()), None)
    if found is None:
        below = name.partition(".")[0]
        if "." in name and any(field.name.lower() == below.lower() for field in schema):
            message = f"{name} is inside the column {below}: only whole columns can be changed; change {below}"
            raise InvalidArgument(message, column=name)
        message = f"there is no column {name}: the table has {', '.join(schema.names)}"
        raise InvalidArgument(message, column=name)
    return found


def default_value(text: str, field: pa.Field, zone: str) -> pa.Scalar:
    """The value of a default that was written in SQL, as the column holds it. Raises InvalidArgument."""
    try:
        node = parse_value(text, pa.schema([]), time_zone=zone)
        found = evaluate_value(node, pa.table({"": pa.nulls(1)}), what=f"the default of {field.name}")
    except QueryInvalid as error:
        message = f"the default of column {field.name} is no constant: {error}"
        raise InvalidArgument(message, column=field.name) from error
    value = found if isinstance(found, pa.Scalar) else found[0]
    try:
        kept = value.cast(field.type)
        same = not value.is_valid or kept.cast(value.type) == value
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        same = False
    if not same:
        message = (
            f"the default {text} of column {field.name} is no value of type {field.type}: write another, or a CAST"
        )
        raise InvalidArgument(message, column=field.name)
    return kept


def with_defaults(metadata: Metadata, defaults: Mapping[str, str], zone: str) -> Metadata:
    """The metadata of a new table whose columns have these defaults, which are SQL.

    Raises InvalidArgument for a column that is not there or is generated, and for what is no constant of its type.
    """
    schema = schema_from_json(metadata.schemaString)
    for name, text in defaults.items():
        field = find(schema, name)
        changed = _with_default(field, text, zone)
        schema = schema.set(schema.get_field_index(field.name), changed)
    return msgspec.structs.replace(metadata, schemaString=schema_to_json(schema)) if defaults else metadata


def _with_default(field: pa.Field, text: str, zone: str) -> pa.Field:
    told = dict(field.metadata or {})
    if not MADE_BY.isdisjoint(told):
        raise InvalidArgument(f"{field.name} is generated, and has no default", column=field.name)
    value = default_value(text, field, zone)
    told.pop(CURRENT_DEFAULT, None)
    if value.is_valid:
        told[CURRENT_DEFAULT] = default_text(value).encode()
    return field.with_metadata(told or None)


def _added(metadata: Metadata, schema: pa.Schema, wish: AddColumns, zone: str) -> tuple[Metadata, list[str]]:
    if not wish.columns:
        raise InvalidArgument("no column is given to add")
    names = {field.name.lower(): field.name for field in schema}
    plain: list[pa.Field] = []
    fields, features = list(schema), []
    for new in wish.columns:
        if new.field.name.lower() in names:
            message = f"there is a column {names[new.field.name.lower()]} already: give another name, or alter it"
            raise InvalidArgument(message, column=new.field.name)
        check_free([new.field.name])
        if not MADE_BY.isdisjoint(new.field.metadata or {}):
            message = (
                f"{new.field.name} cannot be generated: rows that are there have no value of it. Add a plain column"
            )
            raise InvalidArgument(message, column=new.field.name)
        field = _new_field(new, zone)
        features += [COLUMN_DEFAULTS] if EXISTS_DEFAULT in (field.metadata or {}) else []
        names[field.name.lower()] = field.name
        plain.append(field)
        fields.insert(_place(fields, new.after, first=new.first), field)
    told = nested_texts(plain, metadata.configuration)
    return with_schema(metadata, pa.schema(fields), told), features


def _new_field(new: NewColumn, zone: str) -> pa.Field:
    """The column as the log has it. Raises InvalidArgument, SchemaInvalid."""
    given = without_ids(new.field)
    field = schema_from_json(schema_to_json(pa.schema([given]))).field(0)
    told = dict(field.metadata or {})
    if new.comment is not None:
        told[_COMMENT] = new.comment.encode()
    value = None if new.default is None else default_value(new.default, field, zone)
    if value is not None and value.is_valid:
        told[CURRENT_DEFAULT] = told[EXISTS_DEFAULT] = default_text(value).encode()
    elif not field.nullable:
        message = (
            f"column {field.name} is to be NOT NULL, and rows that are there would be null in it: give a default, or "
            "add it without NOT NULL and fill it first"
        )
        raise InvalidArgument(message, column=field.name)
    return field.with_metadata(told or None)


def _renamed(metadata: Metadata, schema: pa.Schema, wish: RenameColumn) -> tuple[Metadata, list[str]]:
    field = find(schema, wish.column)
    if field.name == wish.to:
        return metadata, []
    _check_free_to_change(metadata, field, "renamed")
    other = next((f.name for f in schema if f.name.lower() == wish.to.lower() and f.name != field.name), None)
    if other is not None:
        message = (
            f"there is a column {other} already: rename that one first, over a third name where they change places"
        )
        raise InvalidArgument(message, column=wish.to)
    check_free([wish.to])
    renamed = with_stored_name(field.with_name(wish.to), stored_name(field))
    changed = pa.schema([renamed if f.name == field.name else f for f in schema])
    validate_schema(changed)
    kept = msgspec.structs.replace(
        metadata, configuration=renamed_settings(metadata.configuration, field.name, wish.to)
    )
    return with_schema(kept, changed, {}), [COLUMN_MAPPING]


def _dropped(metadata: Metadata, schema: pa.Schema, wish: DropColumns) -> tuple[Metadata, list[str]]:
    there = {field.name.lower() for field in schema}
    wanted = [name for name in wish.columns if name.lower() in there or not wish.if_exists]
    gone = list({field.name: field for field in (find(schema, name) for name in wanted)}.values())
    if not gone:
        return metadata, []
    for field in gone:
        _check_free_to_change(metadata, field, "dropped")
    names = {field.name for field in gone}
    left = [field for field in schema if field.name not in names]
    if not left:
        message = f"{', '.join(sorted(names))} would leave no column: a table has one at least"
        raise InvalidArgument(message, columns=sorted(names))
    former = sorted({*former_names(metadata.configuration), *map(stored_name, gone)})
    kept = msgspec.structs.replace(metadata, configuration=without_settings(metadata.configuration, names))
    reserved = {FORMER_NAMES_KEY: json.dumps(former, ensure_ascii=False, separators=(",", ":"))}
    return with_schema(kept, pa.schema(left), reserved), [COLUMN_MAPPING]


def _altered(metadata: Metadata, schema: pa.Schema, wish: AlterColumn, zone: str) -> tuple[Metadata, list[str]]:
    field = changed = find(schema, wish.column)
    features: list[str] = []
    if not isinstance(wish.type, msgspec.UnsetType) and wish.type != field.type:
        if identity_of(field) is not None:
            raise InvalidArgument(f"{field.name} is an identity column, and stays BIGINT", column=field.name)
        changed = _widened(metadata, changed, wish.type)
        features.append(TYPE_WIDENING)
    told = dict(changed.metadata or {})
    if wish.comment is None:
        told.pop(_COMMENT, None)
    elif not isinstance(wish.comment, msgspec.UnsetType):
        told[_COMMENT] = wish.comment.encode()
    if wish.default is None:
        told.pop(CURRENT_DEFAULT, None)
    elif not isinstance(wish.default, msgspec.UnsetType):
        told = dict(_with_default(changed.with_metadata(told or None), wish.default, zone).metadata or {})
        features += [COLUMN_DEFAULTS] if CURRENT_DEFAULT in told else []
    changed = changed.with_metadata(told or None)
    if not isinstance(wish.nullable, msgspec.UnsetType):
        changed = changed.with_nullable(wish.nullable)
    fields = [changed if f.name == field.name else f for f in schema]
    if wish.first or wish.after is not None:
        fields.remove(changed)
        fields.insert(_place(fields, wish.after, first=wish.first), changed)
    if pa.schema(fields).equals(schema, check_metadata=True):
        return metadata, []
    return with_schema(metadata, pa.schema(fields), {}), features


def _widened(metadata: Metadata, field: pa.Field, kind: pa.DataType) -> pa.Field:
    by_partition = field.name in metadata.partitionColumns and pa.types.is_floating(kind)
    if by_partition or _SPARK_TYPE in (field.metadata or {}) or not widens(field.type, kind):
        message = (
            f"column {field.name} is {field.type} and cannot become {kind}: files keep their values, so that types "
            "only widen (byte to short to int to long, float to double, a decimal to one with more digits in front, "
            f"byte, short and int to double; a partition column not to double). Add a column of type {kind}, fill it "
            f"with update, drop {field.name}, and rename the new one"
        )
        raise InvalidArgument(message, column=field.name, type=str(kind))
    return field.with_type(kind)


def _place(fields: Sequence[pa.Field], after: str | None, *, first: bool) -> int:
    if after is None:
        return 0 if first else len(fields)
    if first:
        raise InvalidArgument(f"FIRST and AFTER {after} exclude each other: give one")
    return [field.name for field in fields].index(find(pa.schema(fields), after).name) + 1


def _check_free_to_change(metadata: Metadata, field: pa.Field, what: str) -> None:
    """Raises InvalidArgument for a column that something else goes by."""
    if field.name in metadata.partitionColumns:
        message = (
            f"the table is partitioned by {field.name}, which cannot be {what}: folders and partition values go by its "
            "name. Write the rows anew, with overwrite_schema=True and another partition_by"
        )
        raise InvalidArgument(message, column=field.name)
    schema = schema_from_json(metadata.schemaString)
    rules = [
        check for check in rules_of(metadata.configuration).checks if field.name in columns_of(bound(check, schema))
    ]
    if rules:
        told = ", ".join(f"{check.name} ({check.text})" for check in rules)
        message = f"{field.name} cannot be {what} while a constraint names it: {told}. Drop the constraint first"
        raise InvalidArgument(message, column=field.name, constraints=[check.name for check in rules])
    from_it = [name for name, node in generators(schema).items() if field.name in columns_of(node)]
    if from_it:
        message = f"{field.name} cannot be {what}: {', '.join(from_it)} is generated from it. Drop that column first"
        raise InvalidArgument(message, column=field.name, columns=from_it)
