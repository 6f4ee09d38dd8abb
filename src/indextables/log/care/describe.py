"""Describes a table's checkpoint, as data."""

from __future__ import annotations

import msgspec
import pyarrow.compute as pc

from indextables.env import Env
from indextables.errors import CheckpointError, LimitExceeded, LogError, ObjectNotFound
from indextables.log.checkpoint import list_checkpoints, own_states, read_pointer, read_state
from indextables.log.checkpoint.avro import complete_list, needs_compaction, read_list
from indextables.log.read import confirm, fold_skips
from indextables.log.wire import (
    MergeSkip,
    Protocol,
    StateRef,
    TokenWindow,
    VersionContent,
    decode_version,
    under_rule,
    version_key,
)

__all__ = ["StateDescription", "describe_state"]


class StateDescription(msgspec.Struct, frozen=True):
    """The newest usable checkpoint. `tombstone_ratio` is tombstones per entry referenced.

    `unusable` are newer checkpoints that cannot be read, each with the reason. `format` is `none` and `version` -1
    where a table has no usable checkpoint.
    """

    format: str = "none"
    version: int = -1
    num_files: int = 0
    total_bytes: int = 0
    num_manifests: int = 0
    num_entries: int = 0
    num_tombstones: int = 0
    tombstone_ratio: float = 0.0
    needs_compaction: bool = False
    skips: tuple[MergeSkip, ...] = ()
    created_ms: int | None = None
    size_bytes: int = 0
    protocol_version: int = 0
    tokens_from: int | None = None
    pointer_version: int | None = None
    checkpoints: int = 0
    unusable: dict[str, str] = {}


def describe_state(env: Env) -> StateDescription:
    """The newest checkpoint that can be used, and the skips as they are now; manifests are not opened.

    Raises StoreError.
    """
    states = own_states(env, list_checkpoints(env))
    pointer = read_pointer(env)
    unusable: dict[str, str] = {}
    about = StateDescription(
        checkpoints=len(states), pointer_version=None if pointer is None else pointer.version, unusable=unusable
    )
    protocol: Protocol | None = None
    for ref in states:
        try:
            described, protocol = _describe(env, ref)
            about = msgspec.structs.replace(described, **_shared(about))
            break
        except (CheckpointError, LimitExceeded, ObjectNotFound) as error:
            unusable[ref.keys[0]] = str(error)
    return msgspec.structs.replace(about, skips=_live_skips(env, about, protocol))


def _live_skips(env: Env, about: StateDescription, protocol: Protocol | None) -> tuple[MergeSkip, ...]:
    """The skips of the checkpoint, whose protocol is given, and what the versions since have made of them."""
    skips = {skip.path: skip for skip in about.skips}
    contents: list[VersionContent] = []
    version = about.version + 1
    try:
        while env.store.exists(version_key(version)):
            contents.append(decode_version(env.store.get(version_key(version)), version, root_url=env.store.url))
            version += 1
        for content in under_rule(protocol, confirm(env, contents)):
            fold_skips(skips, content)
    except (LogError, LimitExceeded, ObjectNotFound) as error:
        about.unusable[version_key(version)] = str(error)
    return tuple(skips.values())


def _shared(about: StateDescription) -> dict[str, object]:
    return {name: getattr(about, name) for name in ("checkpoints", "pointer_version", "unusable")}


def _describe(env: Env, ref: StateRef) -> tuple[StateDescription, Protocol | None]:
    if ref.format != "avro-state":
        state = read_state(env, ref)
        total = pc.sum(state.files.column("size"), min_count=0).as_py()
        about = StateDescription(
            format=ref.format,
            version=ref.version,
            num_files=len(state.files),
            total_bytes=total,
            num_entries=len(state.files),
            skips=tuple(state.skips.values()),
            created_ms=ref.modified_ms,
            size_bytes=ref.size,
            protocol_version=state.protocol.minReaderVersion,
            tokens_from=_first(state.tokens),
        )
        return about, state.protocol
    found = complete_list(env, read_list(env, ref, only_counts=True))
    about = StateDescription(
        format=ref.format,
        version=ref.version,
        num_files=found.totals.num_files,
        total_bytes=found.totals.total_bytes,
        num_manifests=len(found.manifests),
        num_entries=found.num_entries,
        num_tombstones=len(found.tombstones),
        tombstone_ratio=len(found.tombstones) / max(1, found.num_entries),
        needs_compaction=needs_compaction(found, env.options),
        skips=tuple(found.skips.values()),
        created_ms=found.created_at,
        size_bytes=ref.size + sum(info.size or 0 for info in found.manifests),
        protocol_version=0 if found.protocol is None else found.protocol.minReaderVersion,
        tokens_from=_first(found.tokens),
    )
    return about, found.protocol


def _first(tokens: TokenWindow | None) -> int | None:
    return None if tokens is None else tokens.first
