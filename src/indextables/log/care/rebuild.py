"""Rebuilds a log from the splits alone, for a table whose own log is lost.

What the splits hold is the truth: columns, types and partition values come from their rows. Folder names stand in only
for partition columns that are not in the rows, because null and the empty text share a folder, and long values are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from indextables.env import Env
from indextables.errors import InvalidArgument, NotSupported, SchemaMismatch, SplitError, TableNotFound
from indextables.log.care.repair import RepairReport, data_files, write_log
from indextables.log.commit import Staged, counted, permission
from indextables.log.wire import (
    ADD_TYPE,
    FILES_SCHEMA,
    GENERATED_COLUMNS,
    IDENTITY_COLUMNS,
    LOG_DIR,
    TYPE_WIDENING,
    Metadata,
    Protocol,
    TableState,
    assign_ids,
    encode_path,
    field_id,
    new_table_protocol,
    parse_key,
    remember_ids,
    schema_from_json,
    schema_to_json,
    tracks_rows,
    widened,
    with_feature,
)
from indextables.query.partition import HIVE_NULL
from indextables.query.stored import generated_columns, identity_columns
from indextables.storage.store import ObjectMeta

__all__ = ["SplitFacts", "folder_values", "rebuild_log"]

_SPLIT_SUFFIX = ".split"
_SPARK_TYPE = b"spark.type"

_LOST = (
    "splits that had been removed but not purged are back; deletion vectors, constraints, defaults and history are "
    "gone, so that rows that were deleted are back, too"
)

# What is left of a log when its versions and checkpoints are gone: none of it says what the table was.
_REMAINS = frozenset({"crc", "manifest", "pointer", "intent", "claim"})


class SplitFacts(msgspec.Struct, frozen=True):
    """What one data file tells about itself.

    `partition` has the columns of its folders, in their order, with the values that its rows hold; None where the rows
    do not tell. `extra` holds further fields of its `add`, `configuration` table properties, such as how columns are
    indexed.
    """

    schema: pa.Schema
    num_records: int | None = None
    min_values: dict[str, str] = {}
    max_values: dict[str, str] = {}
    extra: dict[str, object] = {}
    configuration: dict[str, str] = {}
    partition: tuple[tuple[str, str | None], ...] | None = None
    row_ids: Any = None
    """Of those of its rows that brought one along, a BitMap64; None if there are none."""


def rebuild_log(
    env: Env,
    describe: Callable[[ObjectMeta], SplitFacts],
    *,
    target: Env | None = None,
    protocol: Protocol | None = None,
    with_old_rows: bool = False,
) -> RepairReport:
    """Write a log from the splits that lie under the table's root, for a table whose own log is lost.

    `describe` opens one split; a SplitError from it leaves that file out. Splits of before and after a widening make
    one table. Files that had been removed and not yet purged come back, deletion vectors do not. In place, the pointer,
    check files and manifests of the lost log may be there: they prove nothing and stay. `with_old_rows` goes on where
    splits hold rows that were updated or moved, and older images of them may come back.

    Raises InvalidArgument if a version or a checkpoint is there, NotSupported for such splits, TableNotFound if there
    are no splits, SchemaMismatch if their schemas do not fit together.
    """
    permission.ask_broken(env)
    metas = [meta for meta in data_files(env) if meta.key.endswith(_SPLIT_SUFFIX)]
    if not metas:
        raise TableNotFound(f"there is neither a log nor a split at {env.store.url}", url=env.store.url)
    if target is None:
        _check_lost(env)
    unreadable: dict[str, str] = {}
    facts: dict[str, SplitFacts] = {}
    for meta, answer in zip(metas, env.ambient.map("splits", _described(describe), metas), strict=True):
        if isinstance(answer, SplitFacts):
            facts[meta.key] = answer
        else:
            unreadable[meta.key] = answer
    if not facts:
        raise TableNotFound(f"no split at {env.store.url} can be read: {unreadable}", url=env.store.url)
    old = _may_be_old(facts)
    if old is not None and not with_old_rows:
        raise _unsure(env, old)
    usable = [meta for meta in metas if meta.key in facts]
    partitions = {meta.key: _partition_of(meta, facts[meta.key]) for meta in usable}
    # The newest file knows the columns as they were last; older ones add what it lacks.
    newest_first = sorted(usable, key=lambda meta: (meta.modified_ms, meta.key), reverse=True)
    schema, is_widened = _merged([facts[meta.key].schema for meta in newest_first])
    metadata = _metadata(env, schema, [facts[meta.key] for meta in newest_first], _partition_columns(partitions))
    adds = pa.Table.from_pylist(
        [_add_row(meta, facts[meta.key], partitions[meta.key]) for meta in usable], schema=pa.schema(list(ADD_TYPE))
    )
    files = pa.Table.from_arrays(
        [adds.column(f.name) if f.name in adds.column_names else pa.nulls(len(adds), f.type) for f in FILES_SCHEMA],
        schema=FILES_SCHEMA,
    )
    numbered = schema_from_json(metadata.schemaString)
    needed = _needed(protocol or new_table_protocol(), numbered, is_widened=is_widened)
    state = TableState(version=-1, protocol=needed, metadata=metadata, files=files)
    version = write_log(target or env, _numbered(state, facts.values()), "REBUILD", _places(numbered, facts.values()))
    return RepairReport(
        source_version=-1,
        version=version,
        num_files=len(files),
        unreadable=unreadable,
        warnings=(_LOST, *(() if old is None else (old,))),
    )


def folder_values(key: str) -> list[tuple[str, str]]:
    """The folders `column=value` above a file, as they are spelled."""
    return [(name, value) for part in key.split("/")[:-1] for name, equals, value in [part.partition("=")] if equals]


def _needed(protocol: Protocol, schema: pa.Schema, *, is_widened: bool) -> Protocol:
    """The protocol with the features that the table must name."""
    wanted = {
        TYPE_WIDENING: is_widened,
        GENERATED_COLUMNS: bool(generated_columns(schema)),
        IDENTITY_COLUMNS: bool(identity_columns(schema)),
    }
    return with_feature(protocol, *(feature for feature, is_wanted in wanted.items() if is_wanted))


def _places(schema: pa.Schema, facts: Iterable[SplitFacts]) -> dict[int, int]:
    """How many places of the sequence of each identity column rows have taken, by the id of the column."""
    found: dict[int, int] = {}
    for name, identity in identity_columns(schema).items():
        number = field_id(schema.field(name))
        for fact in facts if number is not None else ():
            last = (fact.max_values if identity.step > 0 else fact.min_values).get(name)
            if last is not None and number is not None:
                taken = (int(last) - identity.start) // identity.step + 1
                found[number] = max(found.get(number, 0), taken)
    return found


def _numbered(state: TableState, facts: Iterable[SplitFacts]) -> TableState:
    """The table with ids for its rows: those that rows brought along are theirs, others only the lost log knew."""
    if not tracks_rows(state.protocol):
        return state
    kept = [int(fact.row_ids.max()) for fact in facts if fact.row_ids]
    numbered = counted(Staged(adds=state.files), max(kept, default=-1) + 1)
    domains = {domain.domain: domain for domain in numbered.domains}
    assert isinstance(numbered.adds, pa.Table)  # noqa: S101 - columns in, columns out
    return msgspec.structs.replace(state, files=numbered.adds, domains=domains)


def _unsure(env: Env, why: str) -> NotSupported:
    message = (
        f"{env.store.url} cannot be rebuilt for sure: {why}. Put a copy of the log back if there is one. Else "
        "rebuild(path, with_old_rows=True), or `indextables rebuild TABLE --with-old-rows`, makes a table of all rows: "
        "look for those that are twice. Nothing was written"
    )
    return NotSupported(message, url=env.store.url)


def _may_be_old(facts: Mapping[str, SplitFacts]) -> str | None:
    """Why rows of these splits may be older images of others; None if they are not. Pure.

    A row that was updated, or moved by a merge, brought its id along. Where every row did, and no id is there twice,
    each is the only one of its id. The ids of other rows only the lost log knew.
    """
    brought = {key: fact.row_ids for key, fact in facts.items() if fact.row_ids}
    if not brought:
        return None
    example = next(iter(brought))
    counted_rows = [key for key, fact in facts.items() if len(fact.row_ids or ()) != fact.num_records]
    if counted_rows:
        told = f"rows of {len(brought)} splits ({example} is one) were updated or moved from others"
        return (
            f"{told}, and only the lost log knew which rows of {counted_rows[0]} and the like are older images of them"
        )
    seen = BitMap64()
    for key, ids in brought.items():
        if twice := seen & ids:
            return f"{len(twice)} rows of {key} stand in other splits, too, and only the lost log knew which are newer"
        seen |= ids
    return None


def _check_lost(env: Env) -> None:
    """Raises InvalidArgument if a file is there that could tell a version of the table."""
    for meta in env.store.list_from(LOG_DIR):
        file = parse_key(meta.key)
        if file is not None and file.kind not in _REMAINS:
            message = (
                f"{env.store.url} has a log ({meta.key}), and no log is overwritten: name another place, as in "
                'repair(path, at="mended") or `indextables repair TABLE --at mended`, look at it, and put its '
                f"{LOG_DIR} in the place of this one"
            )
            raise InvalidArgument(message, url=env.store.url, key=meta.key)


def _described(describe: Callable[[ObjectMeta], SplitFacts]) -> Callable[[ObjectMeta], SplitFacts | str]:
    def one(meta: ObjectMeta) -> SplitFacts | str:
        try:
            return describe(meta)
        except SplitError as error:
            return str(error)

    return one


def _partition_of(meta: ObjectMeta, facts: SplitFacts) -> tuple[tuple[str, str | None], ...]:
    if facts.partition is not None:
        return facts.partition
    told = [(unquote(name), unquote(value)) for name, value in folder_values(meta.key)]
    return tuple((name, None if value == HIVE_NULL else value) for name, value in told)


def _partition_columns(partitions: dict[str, tuple[tuple[str, str | None], ...]]) -> list[str]:
    """The columns that all splits share, in their order. Raises SchemaMismatch where they differ."""
    found = {tuple(name for name, _ in values) for values in partitions.values()}
    if len(found) != 1:
        message = f"the splits lie under different partition folders: {sorted(found)[:5]}; move those that differ away"
        raise SchemaMismatch(message, folders=sorted(found))
    return list(found.pop())


def _merged(schemas: Sequence[pa.Schema]) -> tuple[pa.Schema, bool]:
    """One schema for all files, and whether a type of some file is narrower. Raises SchemaMismatch."""
    fields: dict[str, pa.Field] = {}
    is_widened = False
    for schema in schemas:
        for field in schema:
            known = fields.setdefault(field.name, field)
            kind = _common_type(known, field)
            is_widened = is_widened or (kind != field.type and not pa.types.is_null(field.type))
            is_widened = is_widened or (kind != known.type and not pa.types.is_null(known.type))
            fields[field.name] = known.with_type(kind).with_nullable(known.nullable or field.nullable)
    everywhere = set[str].intersection(*(set(schema.names) for schema in schemas))
    merged = [field if name in everywhere else field.with_nullable(True) for name, field in fields.items()]  # noqa: FBT003 - Arrow's order
    return pa.schema(merged), is_widened


def _common_type(one: pa.Field, other: pa.Field) -> pa.DataType:
    if one.type == other.type or pa.types.is_null(other.type):
        return one.type
    if pa.types.is_null(one.type):
        return other.type
    has_more_to_say = any(_SPARK_TYPE in (field.metadata or {}) for field in (one, other))
    kind = None if has_more_to_say else widened(one.type, other.type)
    if kind is None:
        message = (
            f"the splits do not fit together: the column {one.name!r} is {one.type} here, {other.type} there: "
            "move those of one kind away, or rebuild each kind at another place"
        )
        raise SchemaMismatch(message, column=one.name)
    return kind


def _metadata(env: Env, schema: pa.Schema, facts: Sequence[SplitFacts], columns: Sequence[str]) -> Metadata:
    for name in columns:
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.string()))
    token = env.ambient.token()
    identity = "-".join((token[:8], token[8:12], token[12:16], token[16:20], token[20:]))
    numbered = assign_ids(schema)
    properties = {key: text for fact in reversed(facts) for key, text in fact.configuration.items()}
    return Metadata(
        id=identity,
        schemaString=schema_to_json(numbered),
        partitionColumns=list(columns),
        createdTime=env.ambient.now_ms(),
        configuration=remember_ids(numbered, properties),
    )


def _add_row(meta: ObjectMeta, facts: SplitFacts, partition: Sequence[tuple[str, str | None]]) -> dict[str, object]:
    return {
        "hasFooterOffsets": False,
        **facts.extra,
        "path": encode_path(meta.key),
        "partitionValues": list(partition),
        "size": meta.size,
        "modificationTime": meta.modified_ms,
        "dataChange": True,
        "numRecords": facts.num_records,
        "minValues": list(facts.min_values.items()),
        "maxValues": list(facts.max_values.items()),
    }
