"""Makes the next Avro state from the last one and the versions since, without reading manifests that nobody touched.

New entries go into a new manifest whatever the size of the table. A `remove` needs to know which entry it hits: its
partition values lead to the few manifests that can hold it, and all of them are read only if it is not found there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointInvalid, ObjectNotFound
from indextables.log.checkpoint.avro import (
    ManifestInfo,
    Mode,
    StateList,
    as_maps,
    complete_list,
    difference,
    hide,
    list_of,
    partition_types,
    read_entries,
    read_list,
    write_increment,
)
from indextables.log.read import (
    anchor,
    by_anchor,
    check_newest,
    confirm,
    follows,
    header_after,
    live_files,
    read_contents,
    table_of,
)
from indextables.log.wire import (
    FileIdentity,
    StateHeader,
    StateRef,
    VersionContent,
    bool_array,
    combined,
    empty_files,
    identity,
    token_of,
    under_rule,
    version_key,
)
from indextables.query.partition import partition_from_text
from indextables.query.stats import map_values

__all__ = ["advance_state", "file_of", "read_tail"]


def advance_state(
    env: Env,
    previous: StateRef,
    version: int,
    compact: Mode = "auto",
    *,
    check: Callable[[StateList], None] | None = None,
) -> tuple[StateRef, StateList]:
    """Write the state of `version` as a change of `previous`, an Avro state of ours below it.

    Also returns its list. What `check` raises keeps it from being published. Raises CheckpointError, LogError,
    StoreError, and ObjectNotFound where the tail was cleaned up while it was read: a slot of it may hold what was never
    committed.
    """
    base = complete_list(env, read_list(env, previous))
    seen = anchor(env, base) if env.store.is_local else None
    file = file_of(env, version)
    read = read_tail(env, previous.version, version)
    proven = None if seen is None else by_anchor(env, previous.version, identity(seen), read)
    tail = under_rule(base.protocol, confirm(env, read) if proven is None else proven)
    table = None if base.metadata is None else base.metadata.id
    if any(table_of(content) not in {None, table} for content in tail):
        key = previous.keys[0]
        message = f"the state of version {previous.version} belongs to another table than the versions above it"
        raise CheckpointInvalid(message, version=previous.version, path=key, reason="of another table than the log")
    if tail and not follows(tail[0], token_of(base.tokens, base.version)):
        key = previous.keys[0]
        message = f"the state of version {previous.version} is of another history than the versions above it"
        raise CheckpointInvalid(message, version=previous.version, path=key, reason="another history")
    check_newest(env, tail)
    touched = _touched(env, previous, base, tail)
    assert base.protocol is not None  # noqa: S101 - complete_list found it
    assert base.metadata is not None  # noqa: S101 - as above
    before = StateHeader(
        version=base.version,
        protocol=base.protocol,
        metadata=base.metadata,
        txns=base.txns,
        domains=base.domains,
        skips=base.skips,
        tokens=base.tokens,
        in_commit_timestamp=base.in_commit_timestamp,
    )
    window = env.options[opt.COMMIT_TOKEN_WINDOW]
    draft = list_of(header_after(before, tail, token_window=window), env.ambient.now_ms(), window, file)
    change = difference(touched, live_files(touched, tail), version)
    return write_increment(env, draft, previous, base, change, compact, check=check)


def file_of(env: Env, version: int) -> FileIdentity | None:
    """What a state says of the file of its version, so that a reader who lists need not read it; None on local files.

    It is asked before the version is read and confirmed: then it cannot be the file of a table that came later. Raises
    StoreError.
    """
    try:
        return None if env.store.is_local else identity(env.store.head(version_key(version)))
    except ObjectNotFound:
        return None


def read_tail(env: Env, base: int, version: int) -> list[VersionContent]:
    """The versions after `base` up to `version`. Raises LogCorrupt, ObjectNotFound, StoreError."""
    return read_contents(env, range(base + 1, version + 1))


def _touched(env: Env, ref: StateRef, base: StateList, tail: Sequence[VersionContent]) -> pa.Table:
    """The entries of the base whose paths the tail removes, or gives a vector without removing them."""
    named = [content.removes for content in tail] + [_with_vectors(content.adds) for content in tail]
    removes = [table.select(["path", "partitionValues"]) for table in named if table.num_rows]
    if not removes:
        return empty_files()
    removed = pa.concat_tables(removes)
    paths = combined(removed.column("path")).unique()
    likely = _likely(base, removed)
    found = _entries_of(env, ref, base, [info for info, at in zip(base.manifests, likely, strict=True) if at], paths)
    added = [combined(content.adds.column("path")) for content in tail]
    known = pa.concat_arrays([combined(found.column("path")), *added])
    if not pc.all(pc.is_in(paths, value_set=known), min_count=0).as_py():
        others = [info for info, at in zip(base.manifests, likely, strict=True) if not at]
        found = pa.concat_tables([found, _entries_of(env, ref, base, others, paths)])
    return found


def _with_vectors(adds: pa.Table) -> pa.Table:
    vectors = adds.column("deletionVector")
    return adds.slice(0, 0) if vectors.null_count == len(vectors) else adds.filter(vectors.is_valid())


def _entries_of(env: Env, ref: StateRef, base: StateList, infos: Sequence[ManifestInfo], paths: pa.Array) -> pa.Table:
    tables = [empty_files()]
    for table in read_entries(env, ref, base, infos):
        wanted = table.filter(pc.is_in(table.column("path"), value_set=paths))
        hidden = hide(wanted, base.tombstones)
        tables.append(wanted.filter(bool_array(~hidden)) if hidden.any() else wanted)
    return pa.concat_tables(tables)


def _likely(base: StateList, removed: pa.Table) -> list[bool]:
    """Which manifests can hold files of the partitions that the removes name; all where one names none."""
    assert base.metadata is not None  # noqa: S101 - complete_list found it
    if not base.metadata.partitionColumns or removed.column("partitionValues").null_count:
        return [True] * len(base.manifests)
    low, high = as_maps([info.bounds for info in base.manifests])
    kept = [True] * len(base.manifests)
    for name, kind in partition_types(base.metadata).items():
        texts = map_values(removed.column("partitionValues"), name)
        values, known = partition_from_text(texts, kind)
        if texts.null_count or not pc.all(known, min_count=0).as_py():
            continue
        ordered = values.unique().take(pc.sort_indices(values.unique()))
        lower = partition_from_text(map_values(low, name), kind)[0]
        upper = partition_from_text(map_values(high, name), kind)[0]
        for at, (least, most) in enumerate(zip(lower, upper, strict=True)):
            if least.is_valid and most.is_valid:
                inside = pc.and_(pc.greater_equal(ordered, least), pc.less_equal(ordered, most))
                kept[at] = kept[at] and bool(pc.any(inside).as_py())
    return kept
