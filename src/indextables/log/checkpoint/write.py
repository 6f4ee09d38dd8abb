"""Writes a `TableState` as a checkpoint, checks it, and only then points to it."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import (
    CheckpointError,
    CheckpointWriteFailed,
    LimitExceeded,
    ObjectNotFound,
    PathEscape,
    StoreError,
)
from indextables.log.checkpoint.avro import (
    Mode,
    StateList,
    difference,
    hide,
    list_of,
    read_entries,
    read_list,
    write_increment,
    write_whole,
)
from indextables.log.checkpoint.belonging import left_over_error, only_as_seen, table_of_state, withdraw
from indextables.log.checkpoint.columns import totals_of, validate
from indextables.log.checkpoint.find import find_states
from indextables.log.checkpoint.json import write_json_state
from indextables.log.checkpoint.parquet import write_parquet_state
from indextables.log.checkpoint.pointer import Pointer, pointer_to, write_pointer
from indextables.log.checkpoint.publish import put_once
from indextables.log.checkpoint.read import read_state
from indextables.log.wire import (
    LOG_DIR,
    FileIdentity,
    StateFormat,
    StateRef,
    StateTotals,
    TableState,
    bool_array,
    empty_files,
    parquet_checkpoint_key,
    state_dir,
)
from indextables.storage.store import ObjectMeta

__all__ = ["point_to", "write_checkpoint"]

_LOGGER = logging.getLogger("indextables")


def write_checkpoint(
    env: Env,
    state: TableState,
    *,
    previous: StateRef | None = None,
    compact: Mode = "auto",
    replace: bool = False,
    version_file: FileIdentity | None = None,
) -> StateRef:
    """Make `state` durable in the format that `state.format` asks for, then move the pointer.

    With `previous` an Avro state is written as a change of that one; `compact="full"` rewrites it sorted by partition.
    A checkpoint of this version and format that cannot be read is written over, and with `replace` any: what is in
    hand is the whole table, so nothing is lost by it. Damaged ones of another format go once this one stands.
    `version_file` is the file of its version, where that was seen before the state was read.

    Writers that race for one version all succeed, and one of their equal states stays. Raises CheckpointInvalid
    (nothing is pointed to) and CheckpointWriteFailed; commits stand whatever happens here.
    """
    try:
        if env.options[opt.STATE_FORMAT] == "avro":
            if replace:
                _check_own(env, state)
            ref, written = _write_avro(env, state, previous, compact, replace=replace, version_file=version_file)
            point_to(env, ref, written.totals, written.num_entries, state.protocol.minReaderVersion)
        else:
            ref = _write_actions(env, state)
        _drop_damaged(env, ref)
    except (StoreError, pa.ArrowException) as error:
        message = f"the checkpoint of version {state.version} could not be written: {error}"
        raise CheckpointWriteFailed(message, version=state.version) from error
    _LOGGER.info("checkpoint of %s: version %d, %d files", env.store.url, state.version, len(state.files))
    return ref


def point_to(env: Env, ref: StateRef, totals: StateTotals, entries: int, protocol_version: int) -> None:
    """Move the pointer to a published checkpoint."""
    write_pointer(env, pointer_of(env, ref, totals, entries, protocol_version))


def pointer_of(env: Env, ref: StateRef, totals: StateTotals, entries: int, protocol_version: int) -> Pointer:
    """All that a pointer says about a checkpoint."""
    facts: dict[str, object] = {
        "size": entries,
        "sizeInBytes": ref.size,
        "numFiles": totals.num_files,
        "createdTime": env.ambient.now_ms(),
        "protocolVersion": protocol_version,
        "checksum": totals.set_hash,
    }
    return pointer_to(ref, facts)


def _write_avro(
    env: Env,
    state: TableState,
    previous: StateRef | None,
    compact: Mode,
    *,
    replace: bool,
    version_file: FileIdentity | None,
) -> tuple[StateRef, StateList]:
    base = None if previous is None or compact == "full" else _base(env, state, previous)
    if previous is None or base is None:
        return write_whole(env, state, replace=replace, version_file=version_file)
    tables = []
    for table in read_entries(env, previous, base, base.manifests):
        hidden = hide(table, base.tombstones)
        tables.append(table.filter(bool_array(~hidden)) if hidden.any() else table)
    entries = pa.concat_tables(tables) if tables else empty_files()
    draft = list_of(state, env.ambient.now_ms(), env.options[opt.COMMIT_TOKEN_WINDOW], version_file)
    change = difference(entries, state.files, state.version)
    return write_increment(env, draft, previous, base, change, compact)


def _base(env: Env, state: TableState, previous: StateRef) -> StateList | None:
    """The list to build on, or None where it is not ours, damaged, of another table or newer than the state."""
    if previous.format != "avro-state" or previous.version >= state.version:
        return None
    try:
        base = read_list(env, previous)
    except (CheckpointError, LimitExceeded):
        return None
    return base if base.table_id == state.metadata.id and base.totals.set_hash is not None else None


def _write_actions(env: Env, state: TableState) -> StateRef:
    """JSON and Parquet: every file anew. What is there afterwards is read back before it is pointed to."""
    totals = totals_of(state.files)
    tokens = None if state.tokens is None else state.tokens.last(env.options[opt.COMMIT_TOKEN_WINDOW])
    kept = msgspec.structs.replace(state, tokens=tokens)
    as_json = env.options[opt.STATE_FORMAT] == "json"
    checkpoint_id = functools.cache(lambda: env.ambient.token()[-12:])

    def pieces() -> Iterator[tuple[str, bytes]]:
        if as_json:
            return write_json_state(env, kept, totals, checkpoint_id)
        return write_parquet_state(env, kept, totals)

    keys: list[str] = []
    for key, data in pieces():
        put_once(env, key, data)
        keys.append(key)
    ref = _published(env, state.version, "json" if as_json else "parquet", keys)
    try:
        _read_back(env, ref, totals)
    except (CheckpointError, ObjectNotFound) as error:
        _check_own(env, state)
        _LOGGER.warning("%s: %s is damaged and is written anew: %s", env.store.url, ref.keys[0], error)
        for key, data in pieces():
            env.store.put(key, data)
        ref = _published(env, state.version, ref.format, keys)
        _read_back(env, ref, totals)
    withdraw(env, ref, state.metadata.id)
    point_to(env, ref, totals, len(state.files), state.protocol.minReaderVersion)
    return ref


def _check_own(env: Env, state: TableState) -> None:
    """Raises CheckpointInvalid if a checkpoint of another table lies where this one is to be written.

    Its writer may be about to take it back: what is put in its place could go with it.
    """
    for ref in _of_version(env, state.version):
        if table_of_state(env, ref) not in {None, state.metadata.id}:
            raise left_over_error(env.store.url, ref)


def _read_back(env: Env, ref: StateRef, totals: StateTotals) -> None:
    """Raises CheckpointError, ObjectNotFound unless the checkpoint that is there holds these files."""
    validate(totals, totals_of(read_state(env, ref).files), ref.version, ref.keys[0])


def _drop_damaged(env: Env, ref: StateRef) -> None:
    """Delete other checkpoints of this version that cannot be read, now that `ref` holds the same."""
    for other in _of_version(env, ref.version):
        if set(other.keys) & set(ref.keys):
            continue
        try:
            guard = only_as_seen(env, other.keys)
            read_state(env, other)
        except CheckpointError as error:
            if not error.details.get("newer"):
                _LOGGER.warning("%s: %s is damaged and is removed: %s", env.store.url, other.keys[0], error)
                env.store.delete_many(other.keys, guard=guard)
        except (LimitExceeded, ObjectNotFound, PathEscape):
            continue


def _published(env: Env, version: int, kind: StateFormat, keys: list[str]) -> StateRef:
    """The checkpoint that is there now: ours, or that of a writer who was first."""
    found = [ref for ref in _of_version(env, version) if ref.format == kind]
    mine = (keys[-1], *keys[:-1]) if kind == "json" else tuple(keys)
    ours = next((ref for ref in found if ref.keys == mine), found[0] if found else None)
    return ours or StateRef(version=version, format=kind, keys=mine, modified_ms=env.ambient.now_ms())


def _of_version(env: Env, version: int) -> list[StateRef]:
    """Every checkpoint of one version, by listing what lies beside its names."""
    found: list[StateRef] = []
    for before in (parquet_checkpoint_key(version).removesuffix("checkpoint.parquet"), state_dir(version)):
        found += find_states(_beside(env, before))
    return found


def _beside(env: Env, before: str) -> Iterator[ObjectMeta]:
    return itertools.takewhile(lambda meta: meta.key.startswith(before), env.store.list_from(LOG_DIR, before))
