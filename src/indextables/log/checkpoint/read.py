"""Reads a checkpoint of any format into a `TableState`, and checks it before anybody believes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointCorrupt
from indextables.log.checkpoint.avro import (
    PathsRepeat,
    StateList,
    Where,
    complete_list,
    live_parts,
    manifest_keys,
    read_avro_pruned,
    read_avro_state,
    read_list,
    stats_rules,
)
from indextables.log.checkpoint.columns import newest_per_path, totals_of, validate
from indextables.log.checkpoint.extras import STATE_DOMAIN, Extras, decode_extras
from indextables.log.checkpoint.json import Parsed, read_json_state
from indextables.log.checkpoint.parquet import read_parquet_state
from indextables.log.wire import (
    V1,
    PrunedState,
    StateRef,
    TableState,
    TokenWindow,
    canonical_paths,
    empty_files,
    has_own_splits,
    header_fields,
    path_rule,
    schema_from_json,
)
from indextables.query.prune import prune

__all__ = ["Inspected", "Opened", "Where", "gather_state", "inspect_state", "open_state", "read_pruned", "read_state"]


class Inspected(msgspec.Struct, frozen=True):
    """A checkpoint without its file entries; `manifests` maps the keys of its manifests to their sizes, if told.

    `table_id` is None where a state of IndexTables4Spark leaves the metadata to the version files.
    """

    tokens: TokenWindow | None
    in_commit_timestamp: int | None
    manifests: dict[str, int | None] = {}
    table_id: str | None = None


Opened: TypeAlias = StateList | TableState
"""What of a checkpoint was read to learn its protocol and metadata: the completed list of an Avro state, else all."""


def open_state(env: Env, ref: StateRef) -> Opened:
    """The least of a checkpoint that tells its protocol, its metadata and its tokens. As `read_state`."""
    return complete_list(env, read_list(env, ref)) if ref.format == "avro-state" else read_state(env, ref)


def read_state(env: Env, ref: StateRef, opened: Opened | None = None) -> TableState:
    """The table at `ref.version`, whole; `opened` is what `open_state` gave.

    Raises CheckpointCorrupt for bytes that are no checkpoint of that version, CheckpointInvalid where counts, sizes or
    the set hash do not agree, ObjectNotFound for a part or a manifest that is gone (by damage or by cleanup),
    LimitExceeded for bombs, PathEscape, StoreError. Never returns fewer files than were written.
    """
    if isinstance(opened, TableState):
        return opened
    if ref.format == "avro-state":
        return read_avro_state(env, ref, opened)
    return _assemble(_parse(env, ref), ref, env.store.url)


def gather_state(env: Env, ref: StateRef, make: Callable[[pa.Table], pa.Table]) -> pa.Table:
    """What `make` makes of the files of a checkpoint; of very many it is given a part at a time, in any order.

    It looks at each row alone. As `read_state`.
    """
    if ref.format != "avro-state":
        return make(read_state(env, ref).files)
    listed = complete_list(env, read_list(env, ref))
    if listed.num_entries > env.options[opt.STATE_FILES_IN_MEMORY]:
        try:
            return pa.concat_tables([make(part) for part in live_parts(env, ref, listed, listed.manifests)])
        except PathsRepeat:
            pass
    return make(read_avro_state(env, ref, listed).files)


def read_pruned(env: Env, ref: StateRef, where: Where, opened: Opened | None = None) -> TableState | PrunedState:
    """The files of the table at `ref.version` that may match the predicate which `where` makes of its metadata.

    Of an Avro state only the manifests are read whose partition bounds may match. Without a predicate it is the whole
    table. `opened` as in `read_state`, and raises as that does.
    """
    if ref.format == "avro-state" and not isinstance(opened, TableState):
        return read_avro_pruned(env, ref, where, opened)
    state = read_state(env, ref, opened)
    predicate = where(state.metadata)
    if predicate is None:
        return state
    schema = schema_from_json(state.metadata.schemaString)
    kept = prune(state.files, predicate, schema, state.metadata.partitionColumns, rules=stats_rules(state.protocol))
    return PrunedState(**header_fields(state), files=state.files.filter(kept))


def inspect_state(env: Env, ref: StateRef) -> Inspected:
    """What a checkpoint says without its file entries being read. As `read_state`."""
    if ref.format == "avro-state":
        state = read_list(env, ref)
        told = state.table_id or (None if state.metadata is None else state.metadata.id)
        return Inspected(state.tokens, state.in_commit_timestamp, manifest_keys(ref, state), told)
    parsed = _parse(env, ref, with_files=False)
    extras = _extras(parsed, ref)
    if extras is None:
        told = None if parsed.metadata is None else parsed.metadata.id
        return Inspected(tokens=None, in_commit_timestamp=None, table_id=told)
    return Inspected(tokens=extras.window, in_commit_timestamp=extras.inCommitTimestamp, table_id=extras.tableId)


def _assemble(parsed: Parsed, ref: StateRef, root_url: str) -> TableState:
    """The state of a JSON or Parquet checkpoint, validated."""
    if parsed.metadata is None:
        message = f"{ref.keys[0]} holds no metaData"
        raise CheckpointCorrupt(message, path=ref.keys[0], reason="no metaData")
    extras = _extras(parsed, ref)
    files = empty_files() if parsed.files is None else parsed.files
    files = files.set_column(0, "path", canonical_paths(files.column("path"), root_url, path_rule(parsed.protocol)))
    if extras is not None:
        if extras.tableId != parsed.metadata.id:
            message = f"{ref.keys[0]} belongs to table {extras.tableId}, not {parsed.metadata.id}"
            raise CheckpointCorrupt(message, path=ref.keys[0], reason="another table")
        validate(extras.totals, totals_of(files), ref.version, ref.keys[0])
    skips = parsed.skips if extras is None else [*parsed.skips, *extras.skips]
    return TableState(
        version=ref.version,
        protocol=parsed.protocol or V1,
        metadata=parsed.metadata,
        files=newest_per_path(files),
        txns={txn.appId: txn for txn in parsed.txns},
        domains={d.domain: d for d in parsed.domains if d.domain != STATE_DOMAIN and not d.removed},
        skips={skip.path: skip for skip in skips},
        tokens=None if extras is None else extras.window,
        in_commit_timestamp=None if extras is None else extras.inCommitTimestamp,
    )


def _parse(env: Env, ref: StateRef, *, with_files: bool = True) -> Parsed:
    read = read_json_state if ref.format == "json" else read_parquet_state
    return read(env, ref, with_files=with_files)


def _extras(parsed: Parsed, ref: StateRef) -> Extras | None:
    action = parsed.extras
    if action is None:
        if parsed.protocol is not None and has_own_splits(parsed.protocol):
            reason = "it does not say of which version it is, as every checkpoint of a table with our splits does"
            message = f"{ref.keys[0]} is not a checkpoint: {reason}"
            raise CheckpointCorrupt(message, path=ref.keys[0], reason=reason)
        return None
    extras = decode_extras(action, ref.keys[0])
    if extras.version != ref.version:
        message = f"{ref.keys[0]} holds the state of version {extras.version}"
        raise CheckpointCorrupt(message, path=ref.keys[0], reason="another version")
    return extras
