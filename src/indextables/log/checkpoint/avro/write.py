"""Writes Avro states: only what is new, compacted where due, checked, and published by one conditional put."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointCorrupt, CheckpointInvalid, ObjectNotFound
from indextables.log.checkpoint.avro.bounds import partition_types
from indextables.log.checkpoint.avro.compaction import Mode, plan
from indextables.log.checkpoint.avro.frame import MAX_ROWS
from indextables.log.checkpoint.avro.layout import chunks, partition_order
from indextables.log.checkpoint.avro.list import (
    NO_TOMBSTONES,
    TOMBSTONES_SCHEMA,
    StateList,
    decode_list,
    encode_list,
    hide,
)
from indextables.log.checkpoint.avro.manifests import ManifestInfo, decode_manifest, encode_manifest
from indextables.log.checkpoint.avro.ranges import ranges
from indextables.log.checkpoint.avro.read import manifest_keys, read_entries
from indextables.log.checkpoint.belonging import left_over_error, withdraw
from indextables.log.checkpoint.columns import totals_of
from indextables.log.checkpoint.publish import put_once, require
from indextables.log.wire import (
    EMPTY,
    MANIFEST_DIR,
    REGISTRY_PREFIX,
    FileIdentity,
    StateHeader,
    StateRef,
    StateTotals,
    TableState,
    bool_array,
    combine,
    combined,
    int64_array,
    int64_values,
    manifest_key,
    set_hash,
    state_key,
    subtract,
)

__all__ = ["Change", "difference", "list_of", "publish_list", "rewrite", "write_increment", "write_whole"]

_LOGGER = logging.getLogger("indextables")

# Entries that a full compaction aims to hold in memory at a time, and manifests that it reads ahead.
RANGE_ENTRIES = 250_000
_AHEAD = 4

# Keys that an object store lists by one request.
_PAGE = 1000

# The list is small and read by everybody.
_LIST_LEVEL = 12

_END_OF_VERSION = 2**62

# Short, because a list names each; a name that is taken already is not used.
_ID_DIGITS = 12


class Change(msgspec.Struct, frozen=True):
    """What separates a state from an older one.

    `added` are the new entries; `removed` are the older state's entries that are no longer live; `tombstones` hide
    exactly these.
    """

    added: pa.Table
    removed: pa.Table
    tombstones: pa.Table


def difference(base: pa.Table, files: pa.Table, version: int) -> Change:
    """The change from the file set `base` to `files`, which is that of `version`."""
    old, new = _identity(base), _identity(files)
    added = files.filter(pc.invert(pc.is_in(new, value_set=old)))
    removed = base.filter(pc.invert(pc.is_in(old, value_set=new)))
    return Change(added=added, removed=removed, tombstones=_tombstones(removed, files, version))


def list_of(state: StateHeader, now_ms: int, token_window: int, version_file: FileIdentity | None = None) -> StateList:
    """The list of a state, still without its files; `version_file` was seen before the state was read."""
    configuration = state.metadata.configuration
    plain = {k: v for k, v in configuration.items() if not k.startswith(REGISTRY_PREFIX)}
    registry = {k[len(REGISTRY_PREFIX) :]: v for k, v in configuration.items() if k.startswith(REGISTRY_PREFIX)}
    return StateList(
        version=state.version,
        created_at=now_ms,
        totals=StateTotals(num_files=0, total_bytes=0, set_hash=EMPTY),
        manifests=(),
        tombstones=NO_TOMBSTONES,
        protocol=state.protocol,
        metadata=msgspec.structs.replace(state.metadata, configuration=plain),
        registry=registry,
        table_id=state.metadata.id,
        txns=state.txns,
        domains=state.domains,
        skips=state.skips,
        tokens=None if state.tokens is None else state.tokens.last(token_window),
        in_commit_timestamp=state.in_commit_timestamp,
        version_file=None if version_file is None else version_file.text,
    )


def write_whole(
    env: Env, state: TableState, *, replace: bool = False, version_file: FileIdentity | None = None
) -> tuple[StateRef, StateList]:
    """A state that shares nothing with older ones: all entries sorted by partition, no tombstones."""
    draft = list_of(state, env.ambient.now_ms(), env.options[opt.COMMIT_TOKEN_WINDOW], version_file)
    infos = write_manifests(env, state.files, partition_types(state.metadata), compacted=True)
    full = msgspec.structs.replace(draft, manifests=tuple(infos), totals=totals_of(state.files))
    return publish_list(env, full, replace=replace)


def write_increment(
    env: Env,
    draft: StateList,
    previous: StateRef,
    base: StateList,
    change: Change,
    mode: Mode = "auto",
    *,
    check: Callable[[StateList], None] | None = None,
) -> tuple[StateRef, StateList]:
    """The state `draft` as a change of `base`, whose manifests it goes on using; compacted where due.

    What `check` raises keeps it from being published.
    """
    types = {} if draft.metadata is None else partition_types(draft.metadata)
    infos = tuple(write_manifests(env, change.added, types, compacted=False))
    full = msgspec.structs.replace(
        draft,
        manifests=base.manifests + infos,
        tombstones=_merged(base.tombstones, change.tombstones),
        totals=_totals(base.totals, change),
    )
    if check is not None:
        check(full)
    return publish_list(env, compacted(env, previous, full, types, mode))


def compacted(env: Env, ref: StateRef, state: StateList, types: dict[str, pa.DataType], mode: Mode) -> StateList:
    """The same files with fewer manifests or tombstones, as `compaction.plan` decides; its manifests are written."""
    todo = plan(state, env.options, mode)
    if todo.kind == "none":
        return state
    if todo.kind == "merge":
        chosen = [state.manifests[at] for at in todo.merge]
        kept = [info for at, info in enumerate(state.manifests) if at not in todo.merge]
        entries = pa.concat_tables(_unhidden(env, ref, state, chosen))
        infos = write_manifests(env, entries, types, compacted=False)
        return msgspec.structs.replace(state, manifests=(*kept, *infos))
    if todo.kind == "hit":
        return msgspec.structs.replace(
            state, manifests=tuple(_without_hidden(env, ref, state, types)), tombstones=NO_TOMBSTONES
        )
    everything = tuple(_sorted_manifests(env, ref, state, types))
    return msgspec.structs.replace(state, manifests=everything, tombstones=NO_TOMBSTONES)


def write_manifests(
    env: Env, entries: pa.Table, types: dict[str, pa.DataType], *, compacted: bool
) -> Iterator[ManifestInfo]:
    """Put `entries` as manifests, sorted by partition and cut by `layout`; each is decoded again before it is put."""
    if len(entries) == 0:
        return
    # Taking rows out of a column in many chunks joins the chunks each time.
    entries = entries.combine_chunks()
    order, groups = partition_order(entries, types)
    cuts = chunks(groups, min(env.options[opt.STATE_ENTRIES_PER_MANIFEST], MAX_ROWS))

    def write(cut: tuple[int, int]) -> ManifestInfo:
        rows = entries.take(int64_array(order[cut[0] : cut[1]]))
        while True:
            key = manifest_key(env.ambient.token()[-_ID_DIGITS:])
            info, data = describe(rows, key)
            if put_once(env, key, data) == data:
                return info

    def describe(rows: pa.Table, key: str) -> tuple[ManifestInfo, bytes]:
        data, info = encode_manifest(
            rows,
            key,
            types,
            codec=env.options[opt.STATE_COMPRESSION],
            level=env.options[opt.STATE_COMPRESSION_LEVEL],
            sync=bytes.fromhex(env.ambient.token()),
            compacted=compacted,
        )
        if set_hash(decode_manifest(data, info)) != info.set_hash:
            message = f"{key} does not read back as it was written; nothing is published"
            raise CheckpointInvalid(message, path=key, reason="set hash")
        return info, data

    yield from env.ambient.map("checkpoint", write, cuts)


def rewrite(env: Env, ref: StateRef, state: StateList, mode: Mode) -> tuple[StateRef, StateList]:
    """Compact a state that exists: the same files, the same version, another list in the place of the old one."""
    types = {} if state.metadata is None else partition_types(state.metadata)
    return publish_list(env, compacted(env, ref, state, types, mode), replace=True)


def publish_list(env: Env, state: StateList, *, replace: bool = False) -> tuple[StateRef, StateList]:
    """Make the state exist. If another writer of this version was first, its state is returned, unless it is replaced.

    What is there and cannot be read is replaced as well: the state in hand is whole, so nothing is lost by it. The
    manifests are looked for before and after the put. A list whose manifests a cleanup took meanwhile stays: readers
    and cleanup pass it over, the next writer of this version replaces it, and a delete could come late and take what
    the log relies on by then. It is taken back only where another table lives by now. Raises CheckpointInvalid.
    """
    _check_counts(state)
    key = state_key(state.version)
    sync = bytes.fromhex(env.ambient.token())
    data = encode_list(state, level=_LIST_LEVEL, sync=sync)
    ref = StateRef(
        version=state.version, format="avro-state", keys=(key,), size=len(data), modified_ms=state.created_at
    )
    needed = manifest_keys(ref, state)
    _require_manifests(env, needed, state.version)
    stored = data if replace else put_once(env, key, data)
    replace = replace or (stored != data and not _usable(env, ref, stored, state.table_id))
    if replace:
        env.store.put(key, data)
        stored = data
    found = decode_list(stored, key, state.version)
    require(found.table_id == state.table_id, key, state.version, "it belongs to another table")
    if state.table_id is not None:
        withdraw(env, ref, state.table_id)
    _require_manifests(env, manifest_keys(ref, found), state.version)
    return ref, found


def _usable(env: Env, ref: StateRef, stored: bytes, table: str | None) -> bool:
    """False for a list that is provably damaged: not decodable, or naming manifests that are gone or cut.

    Raises CheckpointInvalid for a list of another table than `table`: it is not ours to replace.
    """
    try:
        found = decode_list(stored, ref.keys[0], ref.version)
        if found.table_id not in {None, table}:
            raise left_over_error(env.store.url, ref)
        _require_manifests(env, manifest_keys(ref, found), ref.version)
    except (CheckpointCorrupt, CheckpointInvalid, ObjectNotFound) as error:
        if error.details.get("newer") or error.details.get("reason") == "another table":
            raise
        _LOGGER.warning("%s: %s is damaged and is written anew: %s", env.store.url, ref.keys[0], error)
        return False
    return True


def _require_manifests(env: Env, needed: dict[str, int | None], version: int) -> None:
    if not needed:
        return
    # One page tells the most of a small folder. What it does not show, and local files, are looked at by name.
    listing = () if env.store.is_local else itertools.islice(env.store.list_from(MANIFEST_DIR), _PAGE)
    listed: dict[str, int | None] = {meta.key: meta.size for meta in listing}
    others = [key for key in needed if key not in listed]
    listed |= dict(zip(others, env.ambient.map("manifests", lambda key: _size_of(env, key), others), strict=True))
    for key, size in needed.items():
        there = listed[key]
        require(there is not None and (size is None or size == there), key, version, "it is gone or has another size")


def _size_of(env: Env, key: str) -> int | None:
    try:
        return env.store.head(key).size
    except ObjectNotFound:
        return None


def _check_counts(state: StateList) -> None:
    fits = state.totals.num_files <= state.num_entries and (
        len(state.tombstones) > 0 or state.totals.num_files == state.num_entries
    )
    require(fits, state_key(state.version), state.version, f"{state.totals.num_files} files of {state.num_entries}")
    if len(state.tombstones) == 0 and state.totals.set_hash is not None:
        total = EMPTY
        for info in state.manifests:
            if info.set_hash is None:
                return
            total = combine(total, info.set_hash)
        require(total == state.totals.set_hash, state_key(state.version), state.version, "the set hash differs")


def _unhidden(env: Env, ref: StateRef, state: StateList, infos: Iterable[ManifestInfo]) -> Iterator[pa.Table]:
    for table in read_entries(env, ref, state, list(infos), ahead=_AHEAD):
        hidden = hide(table, state.tombstones)
        yield table.filter(bool_array(~hidden)) if hidden.any() else table


def _without_hidden(env: Env, ref: StateRef, state: StateList, types: dict[str, pa.DataType]) -> Iterator[ManifestInfo]:
    """Every manifest is looked at, so that no tombstone is needed afterwards; only those with hidden entries change."""
    for info, table in zip(state.manifests, read_entries(env, ref, state, state.manifests, ahead=_AHEAD), strict=True):
        hidden = hide(table, state.tombstones)
        if not hidden.any():
            yield info
        elif not hidden.all():
            yield from write_manifests(env, table.filter(bool_array(~hidden)), types, compacted=info.compacted)


def _sorted_manifests(
    env: Env, ref: StateRef, state: StateList, types: dict[str, pa.DataType]
) -> Iterator[ManifestInfo]:
    """All entries sorted by partition, holding about RANGE_ENTRIES of them at a time.

    The table is cut into ranges of its first partition column where manifests end, so that a manifest that is sorted
    already is read for the range or two that it overlaps. What does not fit into a range is written in runs.
    """
    for number, infos in ranges(state.manifests, types, RANGE_ENTRIES):
        held: list[pa.Table] = []
        for table in _unhidden(env, ref, state, infos):
            held.append(table if number is None else table.filter(number(table)))
            if sum(map(len, held)) > 2 * RANGE_ENTRIES:
                yield from write_manifests(env, pa.concat_tables(held), types, compacted=True)
                held = []
        if held:
            yield from write_manifests(env, pa.concat_tables(held), types, compacted=True)


def _identity(files: pa.Table) -> pa.Array:
    """Path, version and line of each entry's `add`: what tells one entry from another."""
    version = pc.cast(pc.fill_null(files.column("addedAtVersion"), -1), pa.string())
    line = pc.cast(pc.fill_null(files.column("addedAtLine"), -1), pa.string())
    joined = pc.binary_join_element_wise(version, line, files.column("path"), "/")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _tombstones(removed: pa.Table, files: pa.Table, version: int) -> pa.Table:
    """One per removed entry: up to the live entry of its path, or to the end of `version` if there is none."""
    if len(removed) == 0:
        return NO_TOMBSTONES
    at = pc.index_in(removed.column("path"), value_set=combined(files.column("path")))
    live = files.select(["addedAtVersion", "addedAtLine"]).take(at)
    versions = pc.fill_null(live.column("addedAtVersion"), version)
    lines = pc.fill_null(live.column("addedAtLine"), _END_OF_VERSION)
    return pa.table([removed.column("path"), versions, lines], schema=TOMBSTONES_SCHEMA)


def _merged(old: pa.Table, new: pa.Table) -> pa.Table:
    """One tombstone a path: the latest, or the one that hides by path alone."""
    if len(old) == 0 or len(new) == 0:
        return new if len(old) == 0 else old
    both = pa.concat_tables([old, new])
    rank = np.where(both.column("version").is_null().to_numpy(), 2**62, int64_values(both.column("version")))
    codes = np.asarray(pc.dictionary_encode(both.column("path")).combine_chunks().indices)
    order = np.lexsort((int64_values(both.column("line")), rank, codes))
    last = np.flatnonzero(np.append(np.diff(codes[order]) != 0, [True]))
    return both.take(int64_array(np.sort(order[last])))


def _as_long(total: int) -> int:
    """The sum as a long holds it, and as a recount gives it: sizes that nobody's files have may go beyond."""
    return (total + 2**63) % 2**64 - 2**63


def _totals(base: StateTotals, change: Change) -> StateTotals:
    added, removed = totals_of(change.added), totals_of(change.removed)
    hashed = base.set_hash
    if hashed is not None:
        hashed = subtract(combine(hashed, added.set_hash or EMPTY), removed.set_hash or EMPTY)
    return StateTotals(
        num_files=base.num_files + added.num_files - removed.num_files,
        total_bytes=_as_long(base.total_bytes + added.total_bytes - removed.total_bytes),
        set_hash=hashed,
    )
