"""Repairs: writes a log without missing files at another place, and makes the pointer point again.

Nothing here changes or deletes a file that is there. What is written is a new log: version 0 with protocol and
metadata, version 1 with the files, and its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    CheckpointError,
    InvalidArgument,
    LimitExceeded,
    ObjectNotFound,
)
from indextables.log.care.sweeping import await_drops
from indextables.log.checkpoint import (
    Pointer,
    find_states,
    inspect_state,
    own_states,
    pointer_of,
    read_pointer,
    read_state,
    replace_pointer,
    totals_of,
    write_checkpoint,
)
from indextables.log.checkpoint.avro import read_list
from indextables.log.commit import newest_claims, permission, reserve
from indextables.log.read import Log, newest_readable, replay
from indextables.log.wire import (
    ADD_TYPE,
    LOG_DIR,
    READER_VERSION,
    Action,
    CommitInfo,
    Metadata,
    StateRef,
    TableState,
    canonical_paths,
    check_understood,
    combined,
    decode_version,
    encode_version,
    engine_info,
    int64_array,
    parse_key,
    path_rule,
    set_hash,
    text_array,
    version_key,
)
from indextables.storage.store import ObjectMeta, PutAnswer

__all__ = ["RepairReport", "data_files", "recreate_pointer", "repair_log", "write_log"]


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


def repair_log(source: Env, target: Env) -> RepairReport:
    """Write the newest readable version of `source` as a new log below `target`, without files that do not exist.

    The paths stay relative to the table's root: to use the new log, put its `_transaction_log` in the place of the
    broken one. Running it again finds its own log and changes nothing. Raises InvalidArgument if `target` holds
    another log, LogError if `source` cannot be read at all, StoreError (then nothing was decided by half a listing).
    """
    found = newest_readable(source)
    state = found.state
    check_understood(state.protocol, source.store.url)
    rule = path_rule(state.protocol)
    listed = [(rule.logged(meta.key), meta.size) for meta in data_files(source)]
    names = text_array([name for name, _ in listed])
    sizes = int64_array(np.array([size for _, size in listed], dtype=np.int64))
    at = pc.index_in(canonical_paths(state.files.column("path"), source.store.url, rule), value_set=names)
    there = pc.is_valid(at)
    kept = state.files.filter(there)
    missing = state.files.filter(pc.invert(there)).column("path").to_pylist()
    differs = pc.fill_null(pc.not_equal(sizes.take(at), combined(state.files.column("size"))), fill_value=False)
    wrong = tuple(state.files.filter(differs).column("path").to_pylist())
    warnings = [found.lost] if found.lost else []
    if missing:
        warnings.append(f"{len(missing)} splits are gone; their rows are lost")
    places = {field: held.end for field, held in newest_claims(source).items()}
    version = write_log(target, msgspec.structs.replace(state, files=kept), "REPAIR", places)
    return RepairReport(
        source_version=state.version,
        version=version,
        num_files=len(kept),
        missing=tuple(missing),
        wrong_size=wrong,
        warnings=tuple(warnings),
    )


def recreate_pointer(env: Env) -> StateRef | None:
    """Point `_last_checkpoint` to the newest checkpoint that can be used; None if there is none.

    Raises ProtocolUnsupported, StoreError.
    """
    permission.ask_broken(env)
    for ref in own_states(env, env.store.list_from(LOG_DIR)):
        try:
            whole = _pointer(env, ref)
        except (CheckpointError, LimitExceeded, ObjectNotFound):
            continue
        current = read_pointer(env)
        if current is None or msgspec.structs.replace(current, createdTime=whole.createdTime) != whole:
            replace_pointer(env, whole)
        return ref
    return None


def _pointer(env: Env, ref: StateRef) -> Pointer:
    """What its writer would have pointed with. Raises as `read_state`, ObjectNotFound for a lost manifest."""
    if ref.format == "avro-state":
        for key in inspect_state(env, ref).manifests:
            env.store.head(key)
        listed = read_list(env, ref)
        reader = READER_VERSION if listed.protocol is None else listed.protocol.minReaderVersion
        return pointer_of(env, ref, listed.totals, listed.num_entries, reader)
    state = read_state(env, ref)
    return pointer_of(env, ref, totals_of(state.files), len(state.files), state.protocol.minReaderVersion)


def write_log(place: Env, state: TableState, operation: str, places: Mapping[int, int] = MappingProxyType({})) -> int:
    """Versions 0 and 1 and the checkpoint of 1; what is there already must be the same.

    The sequences of identity columns go on behind `places`, by the ids of the columns.
    """
    env = msgspec.structs.replace(place, options=place.over(state.metadata.configuration))
    permission.ask_broken(env)
    if _holds_a_table(env):
        # Also where version 0 is free: it may have been cleaned up.
        return _same_log(env, state)
    # Before there is a table whose writers would count from the start.
    for field, taken in places.items():
        reserve(env, field, taken)
    await_drops(env)
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


def _holds_a_table(env: Env) -> bool:
    """True if there is a version or a checkpoint, from which the log could be read."""
    listing = list(env.store.list_from(LOG_DIR))
    files = (parse_key(meta.key) for meta in listing)
    return any(file is not None and file.kind == "version" for file in files) or bool(find_states(listing))


def _same_log(env: Env, state: TableState) -> int:
    """Raises InvalidArgument unless the log at this place is what an earlier run of this repair wrote."""
    snapshot = Log(env).snapshot()
    same = snapshot.metadata.id == state.metadata.id and set_hash(snapshot.files) == set_hash(state.files)
    if not same:
        message = f"{env.store.url} holds another log: a repair overwrites none; name an empty place"
        raise InvalidArgument(message, url=env.store.url)
    return snapshot.version


def _encode(env: Env, actions: Sequence[Action], adds: pa.Table | None) -> bytes:
    return encode_version(actions, adds=adds, compress=env.options[opt.TRANSACTION_COMPRESSION_ENABLED])


def _commit_info(env: Env, metadata: Metadata, operation: str, now: int) -> CommitInfo:
    return CommitInfo(
        timestamp=now,
        inCommitTimestamp=now,
        operation=operation,
        isolationLevel="Serializable",
        isBlindAppend=False,
        engineInfo=engine_info(),
        user=env.user,
        tableId=metadata.id,
        token=env.ambient.token(),
    )


def data_files(env: Env) -> Iterator[ObjectMeta]:
    """Everything under the root that is not hidden and not a log."""
    for meta in env.store.list_from(""):
        if not any(part.startswith(("_", ".")) for part in meta.key.split("/")):
            yield meta
