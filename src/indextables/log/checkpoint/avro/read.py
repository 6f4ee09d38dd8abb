"""Reads Avro states: the list, then only the manifests that matter, then the live entries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import CheckpointCorrupt, SchemaInvalid
from indextables.log.checkpoint.avro.bounds import as_maps, partition_types
from indextables.log.checkpoint.avro.list import StateList, decode_list, hide
from indextables.log.checkpoint.avro.manifests import (
    ManifestInfo,
    check_manifest,
    decode_manifest,
    manifest_location,
)
from indextables.log.checkpoint.avro.ranges import Within, partition_ranges
from indextables.log.checkpoint.columns import newest_per_path, totals_of, validate
from indextables.log.wire import (
    EMPTY,
    LOG_DIR,
    REGISTRY_PREFIX,
    V1,
    MergeSkip,
    Metadata,
    Protocol,
    PrunedState,
    StateRef,
    StateTotals,
    TableState,
    VersionContent,
    bool_array,
    canonical_paths,
    combine,
    combined,
    decode_version,
    empty_files,
    has_own_splits,
    header_fields,
    parse_key,
    path_rule,
    schema_from_json,
    text_hashes,
    under_rule,
    version_key,
)
from indextables.query.expr import Node
from indextables.query.prune import prune, prune_bounds
from indextables.query.stats import FOREIGN, OURS, StatsRules

__all__ = [
    "PathsRepeat",
    "Where",
    "check_manifests",
    "live_parts",
    "live_ranges",
    "manifest_keys",
    "read_avro_pruned",
    "read_avro_state",
    "read_entries",
    "read_list",
    "stats_rules",
]

Where = Callable[[Metadata], Node | None]
"""What to keep: given the table's metadata, a predicate over its columns, or None for everything."""

_ENTRIES_AHEAD = 50_000
"""Entries that are decoded before somebody looks at them, where a part of a table is in memory at a time."""

_MOST_AHEAD = 16
"""Manifests that are read and decoded together."""


class PathsRepeat(Exception):
    """A path may stand in two manifests: only with all entries at hand can be told which of them counts."""


def read_avro_state(env: Env, ref: StateRef, listed: StateList | None = None) -> TableState:
    """The table at `ref.version`; `listed` is its completed list, where that was read before."""
    return _whole(env, ref, listed or complete_list(env, read_list(env, ref)))


def read_avro_pruned(
    env: Env, ref: StateRef, where: Where, listed: StateList | None = None
) -> TableState | PrunedState:
    """Only the manifests and entries that may match; the whole table where there is nothing to match."""
    state = listed or complete_list(env, read_list(env, ref))
    assert state.metadata is not None  # noqa: S101 - complete_list found it
    assert state.protocol is not None  # noqa: S101 - as above
    predicate = where(state.metadata)
    schema = None if predicate is None else _schema(state.metadata)
    if predicate is None or schema is None:
        return _whole(env, ref, state)
    rules = stats_rules(state.protocol)
    columns = state.metadata.partitionColumns
    low, high = as_maps([info.bounds for info in state.manifests])
    kept = prune_bounds(low, high, predicate, schema, columns, rules=rules)
    infos = tuple(itertools.compress(state.manifests, kept.to_pylist()))

    def matching(entries: pa.Table) -> pa.Table:
        return entries.filter(prune(entries, predicate, schema, columns, rules=rules))

    files: pa.Table | None = None
    if sum(info.num_entries for info in infos) > env.options[opt.STATE_FILES_IN_MEMORY]:
        files = _part_by_part(env, ref, state, infos, matching)
    if files is None:
        whole = len(infos) == len(state.manifests)
        files = matching(live_entries(state, read_entries(env, ref, state, infos), complete=whole))
    return PrunedState(**header_fields(state), files=files, num_entries=state.num_entries)


def read_list(env: Env, ref: StateRef, *, only_counts: bool = False) -> StateList:
    """The list of an Avro state. Raises CheckpointCorrupt, LimitExceeded, StoreError."""
    return decode_list(env.store.get(ref.keys[0]), ref.keys[0], ref.version, only_counts=only_counts)


def read_entries(
    env: Env, ref: StateRef, state: StateList, infos: Sequence[ManifestInfo], *, ahead: int = _MOST_AHEAD
) -> Iterator[pa.Table]:
    """The entries of manifests of a complete list, in order, `ahead` of them read and decoded in parallel.

    Raises as `read_state`.
    """
    folder = ref.keys[0].rsplit("/", 1)[0] + "/"
    root, rule = env.store.url, path_rule(state.protocol)

    def load(info: ManifestInfo) -> pa.Table:
        # A manifest that is gone is ObjectNotFound: cleanup may have overtaken this reader, who then lists again.
        data = env.store.get(manifest_location(info.path, folder))
        table = decode_manifest(data, info)
        return table.set_column(0, "path", canonical_paths(table.column("path"), root, rule))

    for start in range(0, len(infos), ahead):
        yield from env.ambient.map("manifests", load, infos[start : start + ahead])


def check_manifests(env: Env, ref: StateRef, infos: Sequence[ManifestInfo]) -> None:
    """Read the bytes of manifests of a state. Raises as `read_state` for one that is damaged."""
    folder = ref.keys[0].rsplit("/", 1)[0] + "/"

    def check(info: ManifestInfo) -> None:
        check_manifest(env.store.get(manifest_location(info.path, folder)), info)

    for _ in env.ambient.map("manifests", check, infos):
        pass


def live_entries(state: StateList, tables: Iterator[pa.Table], *, complete: bool) -> pa.Table:
    """What the tombstones leave of the entries, one row per path; `complete` means that the totals can be checked."""
    kept = [_unhidden(state, table) for table in tables]
    entries = pa.concat_tables(kept) if kept else empty_files()
    if complete and state.totals.set_hash is not None:
        validate(state.totals, totals_of(entries), state.version, f"state {state.version}")
    return newest_per_path(entries)


def live_parts(env: Env, ref: StateRef, state: StateList, infos: Sequence[ManifestInfo]) -> Iterator[pa.Table]:
    """What the tombstones leave of the entries of manifests, a part at a time.

    A path of two entries counts once. Where there may be such, PathsRepeat is raised at the end, by hashes of all
    paths: what was given is not to be used then. The totals of all entries are checked at the end too. Raises as
    `read_state`.
    """
    proof = _Proof(state, complete=len(infos) == len(state.manifests))
    for table in read_entries(env, ref, state, infos, ahead=_few_ahead(infos)):
        part = _unhidden(state, table)
        proof.take(part)
        yield part
    proof.close()


def live_ranges(env: Env, ref: StateRef, state: StateList, size: int) -> Iterator[tuple[Within, pa.Table]]:
    """What the tombstones leave of all entries, those of some partitions at a time, about `size` where that can be.

    The ranges of partitions cover all that there can be, some without an entry. As `live_parts`.
    """
    assert state.metadata is not None  # noqa: S101 - complete_list found it
    proof = _Proof(state, complete=True)
    for within, infos in partition_ranges(state.manifests, partition_types(state.metadata), size):
        held = [empty_files()]
        for table in read_entries(env, ref, state, infos, ahead=_few_ahead(infos)):
            part = _unhidden(state, table)
            held.append(part.filter(within(part)))
            proof.take(held[-1])
        yield within, pa.concat_tables(held)
    proof.close()


class _Proof:
    """Entries that were given part by part: no path of them stands twice, and the state's totals are theirs."""

    def __init__(self, state: StateList, *, complete: bool) -> None:
        self._state = state
        self._is_checked = complete and state.totals.set_hash is not None
        self._counted = StateTotals(num_files=0, total_bytes=0, set_hash=EMPTY)
        self._hashes: list[np.ndarray[tuple[int], np.dtype[np.uint64]]] = []

    def take(self, part: pa.Table) -> None:
        if self._is_checked:
            self._counted = _sum(self._counted, totals_of(part))
        self._hashes.append(text_hashes(combined(part.column("path"))))

    def close(self) -> None:
        """Raises PathsRepeat, CheckpointInvalid."""
        if self._is_checked:
            validate(self._state.totals, self._counted, self._state.version, f"state {self._state.version}")
        every = np.concatenate([np.zeros(0, np.uint64), *self._hashes])
        self._hashes.clear()
        every.sort()
        if (every[1:] == every[:-1]).any():
            raise PathsRepeat


def _few_ahead(infos: Sequence[ManifestInfo]) -> int:
    """How many manifests are decoded together where a part of a table is in memory at a time. Pure."""
    largest = max((info.num_entries for info in infos), default=0)
    return max(2, min(_MOST_AHEAD, _ENTRIES_AHEAD // max(largest, 1)))


def _unhidden(state: StateList, table: pa.Table) -> pa.Table:
    hidden = hide(table, state.tombstones)
    return table.filter(bool_array(~hidden)) if hidden.any() else table


def _part_by_part(
    env: Env, ref: StateRef, state: StateList, infos: Sequence[ManifestInfo], matching: Callable[[pa.Table], pa.Table]
) -> pa.Table | None:
    """What matches of the live entries of manifests; None where that takes all of them at once. As `read_state`."""
    try:
        return pa.concat_tables([empty_files(), *map(matching, live_parts(env, ref, state, infos))])
    except PathsRepeat:
        return None


def _sum(left: StateTotals, right: StateTotals) -> StateTotals:
    return StateTotals(
        num_files=left.num_files + right.num_files,
        total_bytes=left.total_bytes + right.total_bytes,
        set_hash=combine(left.set_hash or EMPTY, right.set_hash or EMPTY),
    )


def manifest_keys(ref: StateRef, state: StateList) -> dict[str, int | None]:
    """The keys of all manifests of a state, with their sizes where told."""
    folder = ref.keys[0].rsplit("/", 1)[0] + "/"
    return {manifest_location(info.path, folder): info.size for info in state.manifests}


def complete_list(env: Env, state: StateList) -> StateList:
    """The list with its registry in the metadata, and with what IndexTables4Spark leaves to its version files.

    Raises CheckpointCorrupt where no metaData can be found.
    """
    found = _Found() if state.metadata is not None and state.protocol is not None else _from_versions(env, state)
    metadata = state.metadata or found.metadata
    if metadata is None:
        message = f"the state of version {state.version} names no metaData and no version file tells it"
        raise CheckpointCorrupt(message, version=state.version, reason="no metaData")
    registry = {REGISTRY_PREFIX + ref: text for ref, text in state.registry.items()}
    return msgspec.structs.replace(
        state,
        metadata=msgspec.structs.replace(metadata, configuration={**metadata.configuration, **registry}),
        protocol=state.protocol or found.protocol or V1,
        skips={**found.skips, **state.skips},
    )


def stats_rules(protocol: Protocol) -> StatsRules:
    """How this table's statistics are to be read."""
    return OURS if has_own_splits(protocol) else FOREIGN


class _Found(msgspec.Struct):
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    skips: dict[str, MergeSkip] = {}


def _from_versions(env: Env, state: StateList) -> _Found:
    """The newest of each in all version files: their numbers are another line than the states', so all are read."""
    found = _Found()
    skipping: list[VersionContent] = []
    for meta in env.store.list_from(LOG_DIR):
        file = parse_key(meta.key)
        if file is None or file.kind != "version":
            continue
        content = decode_version(env.store.get(version_key(file.version)), file.version, root_url=env.store.url)
        found.protocol = content.protocol or found.protocol
        found.metadata = content.metadata or found.metadata
        skipping += [content] if content.skips else []
    for content in under_rule(state.protocol or found.protocol, skipping):
        found.skips.update((skip.path, skip) for skip in content.skips)
    return found


def _whole(env: Env, ref: StateRef, state: StateList) -> TableState:
    """All of a completed list's entries."""
    assert state.metadata is not None  # noqa: S101 - complete_list found it
    assert state.protocol is not None  # noqa: S101 - as above
    files = live_entries(state, read_entries(env, ref, state, state.manifests), complete=True)
    return TableState(**header_fields(state), files=files)


def _schema(metadata: Metadata) -> pa.Schema | None:
    try:
        return schema_from_json(metadata.schemaString)
    except SchemaInvalid:
        return None
