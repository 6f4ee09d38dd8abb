"""Makes a table: one version 0, whoever races for it."""

from __future__ import annotations

import uuid

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.ambient import Ambient
from indextables.errors import InvalidArgument, SchemaMismatch, TableNotFound
from indextables.log.commit import lost_base
from indextables.log.commit.conflict import constraints_of
from indextables.log.commit.head import Head
from indextables.log.commit.rule import Encoded, Landed, Undecided, put_slot
from indextables.log.commit.staged import Staged, encode
from indextables.log.read import AfterCommit, Log, clock, tokens
from indextables.log.wire import (
    CHECK_CONSTRAINTS,
    COLUMN_DEFAULTS,
    DELTA_MIRROR,
    EMPTY_TOTALS,
    GENERATED_COLUMNS,
    IDENTITY_COLUMNS,
    REGISTRY_PREFIX,
    CommitInfo,
    Committed,
    Metadata,
    Protocol,
    Unknown,
    assign_ids,
    check_free,
    check_not_foreign,
    engine_info,
    error_of,
    new_table_protocol,
    remember_ids,
    schema_from_json,
    schema_to_json,
    validate_schema,
    with_feature,
)
from indextables.query.stored import CURRENT_DEFAULT, OF_ONE_TABLE, generated_columns, identity_columns

__all__ = ["Created", "create_table", "new_metadata"]


class Created(msgspec.Struct, frozen=True):
    """What `create_table` found or made: the newest version, and whether version 0 is this call's."""

    version: int
    is_new: bool
    metadata: Metadata


def new_metadata(
    log: Log,
    schema: pa.Schema,
    *,
    partition_by: tuple[str, ...] = (),
    configuration: dict[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
) -> Metadata:
    """The metadata of a new table, with permanent field ids and an id of its own.

    Raises SchemaInvalid, and InvalidArgument for partition columns that the schema does not have.
    """
    validate_schema(schema)
    check_free(schema.names)
    missing = [column for column in partition_by if column not in schema.names]
    if missing:
        message = f"partition columns that are not in the schema: {', '.join(missing)}"
        raise InvalidArgument(message, columns=missing, url=log.env.store.url)
    numbered = assign_ids(pa.schema([_own(field) for field in schema], metadata=schema.metadata))
    return Metadata(
        id=new_id(log.env.ambient),
        schemaString=schema_to_json(numbered),
        name=name,
        description=description,
        partitionColumns=list(partition_by),
        configuration=remember_ids(numbered, configuration or {}),
        createdTime=log.env.ambient.now_ms(),
    )


def _own(field: pa.Field) -> pa.Field:
    """A column of a new table: neither a stored name nor a default of another table's is one of it."""
    kept = {key: value for key, value in (field.metadata or {}).items() if key not in OF_ONE_TABLE}
    return field.with_metadata(kept or None)


def create_table(log: Log, metadata: Metadata, protocol: Protocol | None = None) -> Created:
    """Make the table unless it exists; of any number of racing creators one makes it, the others go on with it.

    Raises SchemaMismatch if a table with another schema or other partition columns is there, CommitStateUnknown if
    the store does not tell whether version 0 landed, LogGap where nothing but a checkpoint is there, ClockSkew,
    StoreUnsafe, StoreUnavailable while a table is being dropped here, StoreError, and InvalidArgument for metadata that
    no reader would accept or that sets an option to a value it cannot have, or if another system's table is there.
    """
    follow = log.after_commit
    existing = _existing(log, metadata)
    if existing is not None:
        return existing
    check_not_foreign(log.env.store)
    clock.check(log.env)
    log.env.options.setting(metadata.configuration)
    return _race(log, metadata, protocol or _protocol_of(log, metadata), follow)


def _protocol_of(log: Log, metadata: Metadata) -> Protocol:
    """What a new table asks for: nobody may write to it who does not know what it has: mirrors, constraints."""
    wanted = new_table_protocol()
    if constraints_of(metadata):
        wanted = with_feature(wanted, CHECK_CONSTRAINTS)
    schema = schema_from_json(metadata.schemaString)
    if generated_columns(schema):
        wanted = with_feature(wanted, GENERATED_COLUMNS)
    if identity_columns(schema):
        wanted = with_feature(wanted, IDENTITY_COLUMNS)
    if any(CURRENT_DEFAULT in (field.metadata or {}) for field in schema):
        wanted = with_feature(wanted, COLUMN_DEFAULTS)
    return with_feature(wanted, DELTA_MIRROR) if log.env.over(metadata.configuration)[opt.MIRROR_DELTA] else wanted


def _race(log: Log, metadata: Metadata, protocol: Protocol, follow: AfterCommit) -> Created:
    env = msgspec.structs.replace(log.env, options=log.env.over(metadata.configuration))
    token = env.ambient.token()
    now_ms = env.ambient.now_ms()
    info = CommitInfo(
        timestamp=now_ms,
        inCommitTimestamp=now_ms,
        operation="CREATE TABLE",
        operationParameters=_parameters(metadata),
        isolationLevel="Serializable" if env.options[opt.ISOLATION_LEVEL] == "serializable" else "WriteSerializable",
        isBlindAppend=True,
        engineInfo=engine_info(),
        user=env.user,
        tableId=metadata.id,
        token=token,
        version=0,
    )
    staged = Staged(metadata=metadata, protocol=protocol)
    compress = env.options[opt.TRANSACTION_COMPRESSION_ENABLED]
    data = encode(staged, info, version=0, root_url=env.store.url, compress=compress)
    try:
        held = put_slot(env, 0, data, token, check=lambda: log.before_create(env))
        # The own file is looked at before the check: what is seen then is known to be older than it.
        ours = tokens.look_at_ours(env, 0) if held.state == "ours" else None
        covering = tokens.survey(env, 0).newest if held.state == "ours" else None
    except Undecided as undecided:
        raise error_of(Unknown(token, 0, undecided.reason), env.store.url) from undecided
    if held.state == "ours" and (covering is None or _is_this(log, metadata)):
        base = Head(-1, protocol, metadata, txns={}, totals=EMPTY_TOTALS, next_row_id=0)
        follow(log, Landed(Committed(0, token, now_ms), Encoded(data, 0, info, staged), base, ours))
        return Created(0, is_new=True, metadata=metadata)
    existing = _existing(log, metadata)
    if existing is None:
        raise error_of(Unknown(token, 0, "version 0 was there and is gone"), env.store.url)
    return existing


def _is_this(log: Log, metadata: Metadata) -> bool:
    """True if the log is the new table's: a checkpoint that lies there is left over from one that was dropped."""
    try:
        return log.metadata_at().metadata.id == metadata.id
    except TableNotFound:
        return False


def _existing(log: Log, metadata: Metadata) -> Created | None:
    try:
        version, _, found = log.metadata_at()
    except TableNotFound:
        return None
    lost_base.check_alone(log, version, found.id)
    theirs, ours = _shape(found), _shape(metadata)
    if theirs != ours:
        message = (
            f"{log.env.store.url} already holds a table with another schema. It has {_words(theirs)}; asked for was "
            f"{_words(ours)}. Use its schema, or another path"
        )
        raise SchemaMismatch(message, url=log.env.store.url)
    return Created(version, is_new=False, metadata=found)


def _shape(metadata: Metadata) -> tuple[pa.Schema, list[str]]:
    """What two tables must have in common to be the same to a creator: names, types, nullability, partitioning."""
    schema = schema_from_json(metadata.schemaString)
    bare = pa.schema([pa.field(field.name, field.type, field.nullable) for field in schema])
    return bare, metadata.partitionColumns


def _words(shape: tuple[pa.Schema, list[str]]) -> str:
    schema, partition_by = shape
    columns = ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)
    return f"({columns})" + (f" partitioned by ({', '.join(partition_by)})" if partition_by else "")


def _parameters(metadata: Metadata) -> dict[str, str | None]:
    """What the table was made with, as the history tells it. Raises InvalidArgument where that is not text."""
    told = {k: text for k, text in metadata.configuration.items() if not str(k).startswith(REGISTRY_PREFIX)}
    try:
        properties = msgspec.json.encode(told, order="sorted").decode()
    except (UnicodeEncodeError, TypeError) as error:
        raise InvalidArgument(f"the properties of a table are text, which these are not: {error}") from None
    return {
        "partitionBy": msgspec.json.encode(metadata.partitionColumns).decode(),
        "properties": properties,
        "description": metadata.description,
    }


def new_id(ambient: Ambient) -> str:
    """An identity that no other table has: a random UUID as RFC 4122 lays it out."""
    return str(uuid.UUID(hex=ambient.token(), version=4))
