"""Repair: a log without missing files at another place, a log from the splits alone, a pointer that points again.

Nothing here changes or deletes a file that is there. What is written is a new log: version 0 with protocol and
metadata, version 1 with the files, and its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.errors import (
    CheckpointError,
    InvalidArgument,
    LimitExceeded,
    ObjectNotFound,
    SchemaMismatch,
    SplitError,
    TableNotFound,
)
from indextables.log.actions import Action, CommitInfo, Metadata, Protocol
from indextables.log.arrays import combined, int64_array, text_array
from indextables.log.codec import decode_version, encode_version
from indextables.log.env import LogEnv
from indextables.log.files import ADD_TYPE, FILES_SCHEMA
from indextables.log.names import LOG_DIR, version_key
from indextables.log.paths import canonical_paths, encode_path
from indextables.log.protocol import check_readable, new_table_protocol
from indextables.log.replay import replay
from indextables.log.schema import assign_ids, schema_to_json
from indextables.log.sethash import set_hash
from indextables.log.state.base import StateRef, TableState
from indextables.log.state.find import find_states
from indextables.log.state.pointer import pointer_to, read_pointer, replace_pointer
from indextables.log.state.reading import inspect_state
from indextables.log.state.writing import write_checkpoint
from indextables.query.partition import HIVE_NULL
from indextables.storage.store import ObjectMeta, PutAnswer

__all__ = ["RepairReport", "SplitFacts", "rebuild_log", "recreate_pointer", "repair_log"]

_SPLIT_SUFFIX = ".split"


class SplitFacts(msgspec.Struct, frozen=True):
    """What one data file tells about itself.

    `extra` holds further fields of its `add`, `configuration` table properties, such as how columns are indexed.
    """

    schema: pa.Schema
    num_records: int | None = None
    min_values: dict[str, str] = {}
    max_values: dict[str, str] = {}
    extra: dict[str, object] = {}
    configuration: dict[str, str] = {}


class RepairReport(msgspec.Struct, frozen=True):
    """What a repair found and wrote. `missing` files are left out of the new log; `wrong_size` ones are kept in it.

    `unreadable` data files could not be described and are left out. `warnings` are for the operator to read.
    """

    source_version: int
    version: int
    num_files: int
    missing: tuple[str, ...] = ()
    wrong_size: tuple[str, ...] = ()
    unreadable: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


def repair_log(source: LogEnv, target: LogEnv) -> RepairReport:
    """Write the newest readable version of `source` as a new log below `target`, without files that do not exist.

    The paths stay relative to the table's root: to use the new log, put its `_transaction_log` in the place of the
    broken one. Running it again finds its own log and changes nothing. Raises InvalidArgument if `target` holds
    another log, LogError if `source` cannot be read at all, StoreError (then nothing was decided by half a listing).
    """
    from indextables.log.snapshot import Log

    state = Log(source).snapshot().state
    check_readable(state.protocol, source.store.url)
    listed = [(encode_path(meta.key), meta.size) for meta in _data_files(source)]
    names = text_array([name for name, _ in listed])
    sizes = int64_array(np.array([size for _, size in listed], dtype=np.int64))
    at = pc.index_in(canonical_paths(state.files.column("path"), source.store.url), value_set=names)
    there = pc.is_valid(at)
    kept = state.files.filter(there)
    missing = state.files.filter(pc.invert(there)).column("path").to_pylist()
    differs = pc.fill_null(pc.not_equal(sizes.take(at), combined(state.files.column("size"))), fill_value=False)
    wrong = tuple(state.files.filter(differs).column("path").to_pylist())
    version = _write_log(target, msgspec.structs.replace(state, files=kept), "REPAIR")
    return RepairReport(
        source_version=state.version,
        version=version,
        num_files=len(kept),
        missing=tuple(missing),
        wrong_size=wrong,
        warnings=() if not missing else (f"{len(missing)} splits are gone; their rows are lost",),
    )


def rebuild_log(
    env: LogEnv,
    describe: Callable[[ObjectMeta], SplitFacts],
    *,
    target: LogEnv | None = None,
    protocol: Protocol | None = None,
) -> RepairReport:
    """Write a log from the splits that lie under the table's root, for a table whose own log is lost.

    `describe` opens one split; a SplitError from it leaves that file out. Partition columns and values come from the
    folder names (`col=value`). Files that had been removed and not yet purged come back, deletion vectors do not.
    Raises InvalidArgument if a log is there, TableNotFound if there are no splits, SchemaMismatch if their schemas do
    not fit together.
    """
    place = target or env
    metas = [meta for meta in _data_files(env) if meta.key.endswith(_SPLIT_SUFFIX)]
    if not metas:
        raise TableNotFound(f"there is neither a log nor a split at {env.store.url}", url=env.store.url)
    if target is None and any(True for _ in env.store.list_from(LOG_DIR)):
        message = f"{env.store.url} has a log: rebuild overwrites none; repair it, or name another place to write to"
        raise InvalidArgument(message, url=env.store.url)
    unreadable: dict[str, str] = {}
    facts: dict[str, SplitFacts] = {}
    for meta, answer in zip(metas, env.ambient.map("splits", _described(describe), metas), strict=True):
        if isinstance(answer, SplitFacts):
            facts[meta.key] = answer
        else:
            unreadable[meta.key] = answer
    if not facts:
        raise TableNotFound(f"no split at {env.store.url} can be read: {unreadable}", url=env.store.url)
    usable = [meta for meta in metas if meta.key in facts]
    columns = _partition_columns(usable)
    metadata = _metadata(env, facts, columns)
    adds = pa.Table.from_pylist(
        [_add_row(meta, facts[meta.key], columns) for meta in usable], schema=pa.schema(list(ADD_TYPE))
    )
    files = pa.Table.from_arrays(
        [adds.column(f.name) if f.name in adds.column_names else pa.nulls(len(adds), f.type) for f in FILES_SCHEMA],
        schema=FILES_SCHEMA,
    )
    state = TableState(version=-1, protocol=protocol or new_table_protocol(), metadata=metadata, files=files)
    version = _write_log(place, state, "REBUILD")
    return RepairReport(
        source_version=-1,
        version=version,
        num_files=len(files),
        unreadable=unreadable,
        warnings=("splits that had been removed but not purged are back; deletion vectors and history are gone",),
    )


def recreate_pointer(env: LogEnv) -> StateRef | None:
    """Point `_last_checkpoint` to the newest checkpoint that can be used; None if there is none. Raises StoreError."""
    for ref in find_states(env.store.list_from(LOG_DIR)):
        try:
            found = inspect_state(env, ref)
            for key in found.manifests:
                env.store.head(key)
        except (CheckpointError, LimitExceeded, ObjectNotFound):
            continue
        current = read_pointer(env)
        if current is None or current.version != ref.version or current.format not in {None, ref.format}:
            replace_pointer(env, pointer_to(ref, {"sizeInBytes": ref.size, "createdTime": env.ambient.now_ms()}))
        return ref
    return None


def _write_log(env: LogEnv, state: TableState, operation: str) -> int:
    """Versions 0 and 1 and the checkpoint of 1; what is there already must be the same."""
    now = env.ambient.now_ms()
    first: list[Action] = [_commit_info(env, state.metadata, operation, now), state.protocol, state.metadata]
    if env.store.put_if_absent(version_key(0), _encode(env, first, None)) is not PutAnswer.CREATED:
        return _same_log(env, state)
    second: list[Action] = [_commit_info(env, state.metadata, operation, now + 1)]
    second += [*state.txns.values(), *state.domains.values(), *state.skips.values()]
    adds = state.files.select([field.name for field in ADD_TYPE])
    if env.store.put_if_absent(version_key(1), _encode(env, second, adds)) is not PutAnswer.CREATED:
        return _same_log(env, state)
    contents = [decode_version(env.store.get(version_key(v)), v, root_url=env.store.url) for v in (0, 1)]
    write_checkpoint(env, replay(None, contents))
    return 1


def _same_log(env: LogEnv, state: TableState) -> int:
    """Raises InvalidArgument unless the log at this place is what an earlier run of this repair wrote."""
    from indextables.log.snapshot import Log

    snapshot = Log(env).snapshot()
    same = snapshot.metadata.id == state.metadata.id and set_hash(snapshot.files) == set_hash(state.files)
    if not same:
        message = f"{env.store.url} holds another log: a repair overwrites none; name an empty place"
        raise InvalidArgument(message, url=env.store.url)
    return snapshot.version


def _encode(env: LogEnv, actions: Sequence[Action], adds: pa.Table | None) -> bytes:
    return encode_version(actions, adds=adds, compress=env.options[opt.TRANSACTION_COMPRESSION_ENABLED])


def _commit_info(env: LogEnv, metadata: Metadata, operation: str, now: int) -> CommitInfo:
    return CommitInfo(
        timestamp=now,
        inCommitTimestamp=now,
        operation=operation,
        isBlindAppend=False,
        tableId=metadata.id,
        token=env.ambient.token(),
    )


def _data_files(env: LogEnv) -> Iterator[ObjectMeta]:
    """Everything under the root that is not hidden and not a log."""
    for meta in env.store.list_from(""):
        if not any(part.startswith(("_", ".")) for part in meta.key.split("/")):
            yield meta


def _described(describe: Callable[[ObjectMeta], SplitFacts]) -> Callable[[ObjectMeta], SplitFacts | str]:
    def one(meta: ObjectMeta) -> SplitFacts | str:
        try:
            return describe(meta)
        except SplitError as error:
            return str(error)

    return one


def _partition_columns(metas: Sequence[ObjectMeta]) -> list[str]:
    """The folder keys that all splits share, in their order. Raises SchemaMismatch where they differ."""
    found = {tuple(name for name, _ in _folder_values(meta.key)) for meta in metas}
    if len(found) != 1:
        message = f"the splits lie under different partition folders: {sorted(found)[:5]}; move the strays away first"
        raise SchemaMismatch(message, folders=sorted(found))
    return list(found.pop())


def _folder_values(key: str) -> list[tuple[str, str]]:
    pairs = [part.split("=", 1) for part in key.split("/")[:-1] if "=" in part]
    return [(unquote(name), unquote(value)) for name, value in pairs]


def _metadata(env: LogEnv, facts: dict[str, SplitFacts], columns: Sequence[str]) -> Metadata:
    try:
        schema = pa.unify_schemas([fact.schema.remove_metadata() for fact in facts.values()], promote_options="default")
    except pa.ArrowException as error:
        message = f"the schemas of the splits do not fit together: {error}"
        raise SchemaMismatch(message) from error
    for name in columns:
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.string()))
    token = env.ambient.token()
    identity = "-".join((token[:8], token[8:12], token[12:16], token[16:20], token[20:]))
    return Metadata(
        id=identity,
        schemaString=schema_to_json(assign_ids(schema)),
        partitionColumns=list(columns),
        createdTime=env.ambient.now_ms(),
        configuration={key: text for fact in facts.values() for key, text in fact.configuration.items()},
    )


def _add_row(meta: ObjectMeta, facts: SplitFacts, columns: Sequence[str]) -> dict[str, object]:
    values = dict(_folder_values(meta.key))
    return {
        "hasFooterOffsets": False,
        **facts.extra,
        "path": encode_path(meta.key),
        "partitionValues": [(name, None if values[name] == HIVE_NULL else values[name]) for name in columns],
        "size": meta.size,
        "modificationTime": meta.modified_ms,
        "dataChange": True,
        "numRecords": facts.num_records,
        "minValues": list(facts.min_values.items()),
        "maxValues": list(facts.max_values.items()),
    }
