"""A new table: schema, partitioning and indexing, fixed in version 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from indextables import options as opt
from indextables.errors import InvalidArgument
from indextables.log.commit import Created, create_table, new_metadata
from indextables.log.read import Log
from indextables.log.wire import CONSTRAINT_PREFIX, Metadata, check_not_foreign, new_table_protocol
from indextables.table.alter import settled, with_defaults
from indextables.table.append import commit_append
from indextables.table.arguments import check_mapping, check_spelling, check_text
from indextables.table.rows import (
    DEFAULT_PREFIX,
    Rows,
    check_indexing,
    check_partition_columns,
    constraint_properties,
    fit,
    indexing_properties,
    nested_texts,
    split_generated,
    wanted_indexing,
    with_generated,
)
from indextables.table.writing import check_there, discard, registered, target_of, write_adds

__all__ = [
    "configuration_of",
    "create",
    "create_with_rows",
    "declared",
    "given_constraints",
    "given_defaults",
    "given_expressions",
    "given_properties",
    "indexing_properties",
]


_MEANT = ("delta.", "enablerowtracking", "columnmapping.", "partitioning.")
"""Properties that say something about a new table, or are not for people to set; others are options and notes."""


def create(
    log: Log,
    schema: pa.Schema,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
) -> Created:
    """Make the table, or find it made with the same schema and partitioning.

    Raises SchemaInvalid, SchemaMismatch if another table is there, InvalidArgument, CommitStateUnknown, StoreError.
    """
    metadata = _metadata(log, schema, partition_by, properties, name, description)
    target = target_of(metadata, log.env.options.setting(metadata.configuration))
    return create_table(log, registered(metadata, target.plan) or metadata)


def create_with_rows(
    log: Log,
    schema: pa.Schema,
    rows: Rows,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    txn: tuple[str, int] | None = None,
    along: tuple[str, int] | None = None,
) -> tuple[int, bool]:
    """Make a table for `rows` and append them. Rows that fail leave no table.

    The version that holds them, and whether the table held their batch before, so that nothing was added. The files
    are written before the table is made, and looked for when it is. Raises as `create` and `append` do.
    """
    check_not_foreign(log.env.store)
    metadata = _metadata(log, schema, partition_by, properties)
    target = target_of(metadata, log.env.options.setting(metadata.configuration))
    adds = write_adds(log.env, target, fit(rows, target.schema, url=log.env.store.url))
    try:
        created = create_table(log, registered(metadata, target.plan) or metadata)
    except InvalidArgument:
        discard(log.env, adds)
        raise
    if not adds and txn is None:
        return created.version, False
    check_there(log.env, adds)
    mapping = registered(created.metadata, target.plan)
    committed = commit_append(log, created.metadata, adds, mapping=mapping, txn=txn, along=along)
    return committed.version, committed.repeated


def _metadata(
    log: Log,
    schema: pa.Schema,
    partition_by: Sequence[str],
    properties: Mapping[str, str] | None,
    name: str | None = None,
    description: str | None = None,
) -> Metadata:
    schema, given = declared(schema, properties)
    columns = check_partition_columns(schema, partition_by)
    defaults = {_column_of_default(key): text for key, text in given.items() if _column_of_default(key)}
    made = new_metadata(
        log,
        schema,
        partition_by=tuple(columns),
        configuration=configuration_of(log, schema, {k: v for k, v in given.items() if not _column_of_default(k)}),
        name=name,
        description=description,
    )
    return with_defaults(made, defaults, log.env.options[opt.TIME_ZONE])


def _column_of_default(key: str) -> str:
    """The column that a property is the default of; empty for any other property."""
    plain = key[len(opt.PREFIX) :] if key.lower().startswith(opt.PREFIX) else key
    return plain[len(DEFAULT_PREFIX) :] if plain.lower().startswith(DEFAULT_PREFIX) else ""


def declared(schema: pa.Schema, properties: Mapping[str, str] | None) -> tuple[pa.Schema, dict[str, str]]:
    """The schema of a new table with the columns that properties `generated.<column>` tell of, and the other ones.

    Raises InvalidArgument, SchemaInvalid.
    """
    expressions, others = split_generated({key: str(value) for key, value in (properties or {}).items()})
    return with_generated(schema, expressions), others


def configuration_of(log: Log, schema: pa.Schema, properties: Mapping[str, str] | None) -> dict[str, str]:
    """The properties of a new table.

    Raises InvalidArgument for indexing of a column that is not there, for a constraint that cannot be evaluated, and
    for a wish of Delta's that is not granted.
    """
    given = {key: str(value) for key, value in (properties or {}).items()}
    constraints, given = constraint_properties(given, schema)
    meant = {key: value for key, value in given.items() if key.lower().removeprefix(opt.PREFIX).startswith(_MEANT)}
    # What these stand for is so in every new table, or comes with the first rename: nothing of it has to be kept.
    kept, _ = settled(meant, new_table_protocol())
    given = {key: value for key, value in given.items() if key not in meant or key in kept}
    check_indexing(given, schema.names, "properties")
    wanted = {**wanted_indexing(log.env.options, schema.names), **given}
    return {**nested_texts(schema, wanted), **wanted, **constraints}


def given_expressions(generated: Mapping[str, str] | None) -> dict[str, str]:
    """Generated columns as properties of a new table. Raises InvalidArgument."""
    given = check_mapping("generated", generated or {})
    return {f"generated.{name}": check_text(f"what generates {name}", text) for name, text in given.items()}


def given_defaults(defaults: Mapping[str, str] | None) -> dict[str, str]:
    """Defaults of columns as properties of a new table. Raises InvalidArgument."""
    given = check_mapping("defaults", defaults or {})
    return {f"{DEFAULT_PREFIX}{name}": check_text(f"the default of {name}", text) for name, text in given.items()}


def given_constraints(constraints: Mapping[str, str] | None) -> dict[str, str]:
    """Constraints by name as properties of a new table. Raises InvalidArgument."""
    given = check_mapping("constraints", constraints or {})
    return {
        CONSTRAINT_PREFIX + check_text("the name of a constraint", name): check_text(f"the constraint {name}", text)
        for name, text in given.items()
    }


def given_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    """Table properties as texts: numbers and booleans are written down. Raises InvalidArgument for anything else."""
    texts: dict[str, str] = {}
    for key, value in check_spelling("properties", properties).items():
        if isinstance(value, bool):
            texts[key] = str(value).lower()
        elif isinstance(value, int | float):
            texts[key] = str(value)
        else:
            texts[key] = check_text(f"property {key}", value)
    return texts
