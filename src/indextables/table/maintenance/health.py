"""How is the table? Facts about its log, its files and its caches, and what to do about each problem.

The facts about files come from the newest version's entries, those about orphans from a sample of the store's listing:
nothing is opened and nothing is changed. `advise` is pure.
"""

from __future__ import annotations

from itertools import islice, takewhile

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables import options as opt
from indextables import process
from indextables.env import Env
from indextables.errors import CheckpointError, LimitExceeded, ObjectNotFound
from indextables.log.care import (
    Holder,
    StateDescription,
    Work,
    describe_state,
    last_work,
    leases,
    protections,
    seen_now_ms,
)
from indextables.log.checkpoint import inspect_state, own_states
from indextables.log.commit import retry_times
from indextables.log.mirror import Standing, standing_of
from indextables.log.read import CacheStats, Log, Snapshot, clock
from indextables.log.wire import (
    LOG_DIR,
    READER_VERSION,
    REGISTRY_PREFIX,
    MergeSkip,
    Metadata,
    StateRef,
    combined,
    has_own_splits,
    int64_array,
    is_foreign,
    parse_key,
    path_rule,
    text_array,
)
from indextables.options import Options
from indextables.split.write import stale_in
from indextables.storage.store import ObjectMeta
from indextables.table.environment import table_env
from indextables.table.maintenance.purge import LOG_END, Names, listed_table
from indextables.table.merge import Limits, crowd_of, deleted_shares, plan_due, plan_groups
from indextables.table.read import live_rows, shared_index_cache
from indextables.table.rows import partitionings
from indextables.table.upkeep import LEASE as MERGE_LEASE
from indextables.table.upkeep import tiers_of
from indextables.table.writing import data_keys, target_of

__all__ = ["Advice", "Health", "Upkeep", "advise", "health"]

_MANY = 4
"""So many times `mergeOnWrite.minSplits` small files in a partition are more than upkeep leaves behind."""

_MANY_DELETED = 0.2

_SAMPLE = 2000
_PLACES = 8
_PLANNED = ["path", "partitionValues", "size", "numRecords", "tags", "addedAtVersion", "addedAtLine", "deletionVector"]
_HOUR_MS = 3_600_000


class Advice(msgspec.Struct, frozen=True):
    """A problem, and the command that solves it; `code` is a short name that does not change."""

    code: str
    problem: str
    command: str


class Upkeep(msgspec.Struct, frozen=True):
    """How the table keeps its small files few (`mergeOnWrite`).

    `most_small` is their number in the partition that has the most, `tiers` how many there are of each tier, the
    smallest files first, `due` how many merges the next writer finds. `last_ms` is when one last went well, `failures`
    how many failed since, `reason` why the last of them did, and before `not_before_ms` nobody tries again.
    """

    most_small: int = 0
    tiers: list[int] = []
    due: int = 0
    last_ms: int | None = None
    failures: int = 0
    reason: str | None = None
    not_before_ms: int | None = None


class Health(msgspec.Struct, frozen=True):
    """What is known about a table. Shares are from 0 to 1; what could not be found out is None.

    `small_files` are smaller than `mergeOnWrite.smallSize`; `mergeable_files` are those that merge splits would take
    now. `deleted_share` is the share of the rows in files that vectors delete, `foldable_files` have more than
    `merge.maxDeletedRowsRatio` of them: merge splits writes them anew. `index_coverage` is the share of rows whose
    files were written with the index that the table wants now. `orphans` estimates the data files that the newest
    version does not name and that are older than `purge.defaultRetentionHours`, some of which older versions may need;
    `orphans_exact` says that all files were looked at. `leases` tell who is at work that only one may do at a time.
    `mirror` tells how far the Delta mirror is, None where the table has none.
    `clock_skew_ms` is None where this process has not written to the store: clocks are compared by a write, and this
    writes nothing.
    """

    url: str
    table_id: str
    version: int
    format: str
    reader_version: int
    writer_version: int
    features: list[str]
    partition_columns: list[str]
    files: int
    bytes: int
    rows: int | None
    deleted_rows: int
    deleted_share: float
    foldable_files: int
    small_files: int
    small_share: float
    mergeable_files: int
    upkeep: Upkeep
    index_coverage: float | None
    oldest_version: int
    version_files: int
    versions_since_checkpoint: int
    state: StateDescription
    mirror: Standing | None
    skips: list[MergeSkip]
    orphans: int
    orphan_bytes: int
    orphans_exact: bool
    live_intents: int
    expired_intents: int
    leases: list[Holder]
    clock_skew_ms: int | None
    cache_rates: dict[str, float]
    index_cache: dict[str, int]
    advice: list[Advice] = []


class _LogFacts(msgspec.Struct, frozen=True):
    oldest: int
    version_files: int
    unusable: dict[str, str]


class _FileFacts(msgspec.Struct, frozen=True):
    rows: int | None
    deleted: int
    deleted_share: float
    foldable: int
    small: int
    mergeable: int
    coverage: float | None


class _Orphans(msgspec.Struct, frozen=True):
    count: int
    bytes: int
    exact: bool


def health(log: Log) -> Health:
    """The newest version, looked at from outside. Raises LogError, StoreError."""
    snapshot = log.snapshot()
    env = table_env(log.env, snapshot.metadata)
    now_ms = seen_now_ms(env)
    facts = _log_facts(env, snapshot.version)
    state = describe_state(env)
    state = msgspec.structs.replace(state, unusable={**state.unusable, **facts.unusable})
    held = protections(env, now_ms, table_id=snapshot.table_id)
    files = snapshot.files
    of_files = _file_facts(snapshot, env, now_ms)
    orphans = _orphans(snapshot, env, now_ms)
    protocol = snapshot.protocol
    found = Health(
        url=log.url,
        table_id=snapshot.table_id,
        version=snapshot.version,
        format="IndexTables4Spark" if is_foreign(protocol) or not has_own_splits(protocol) else "indextables",
        reader_version=protocol.minReaderVersion,
        writer_version=protocol.minWriterVersion,
        features=sorted({*(protocol.readerFeatures or ()), *(protocol.writerFeatures or ())}),
        partition_columns=snapshot.partition_columns,
        files=files.num_rows,
        bytes=int(pc.sum(files["size"], min_count=0).as_py() or 0),
        rows=of_files.rows,
        deleted_rows=of_files.deleted,
        deleted_share=of_files.deleted_share,
        foldable_files=of_files.foldable,
        small_files=of_files.small,
        small_share=of_files.small / max(1, files.num_rows),
        mergeable_files=of_files.mergeable,
        upkeep=_upkeep(snapshot, env, now_ms),
        index_coverage=of_files.coverage,
        oldest_version=facts.oldest,
        version_files=facts.version_files,
        versions_since_checkpoint=snapshot.version - max(state.version, -1),
        state=state,
        mirror=standing_of(log),
        skips=list(snapshot.skips.values()),
        orphans=orphans.count,
        orphan_bytes=orphans.bytes,
        orphans_exact=orphans.exact,
        live_intents=held.live,
        expired_intents=len(held.expired),
        leases=leases(env),
        clock_skew_ms=clock.known_skew_ms(env),
        cache_rates=CacheStats(process.stats()).hit_rates(),
        index_cache=_index_cache(env),
    )
    return msgspec.structs.replace(found, advice=advise(found, env.options, now_ms))


def advise(found: Health, options: Options, now_ms: int) -> list[Advice]:
    """What to do, the most urgent first; empty for a table that is well. Pure."""
    if found.format != "indextables":
        return [Advice("foreign", "the table is another system's: it can be read, not maintained", "")]
    place = "'" + found.url.replace("'", "''") + "'"
    interval = options[opt.CHECKPOINT_INTERVAL]
    state, table = found.state, _of_properties(options)

    def say(code: str, problem: str, command: str) -> None:
        table.append(Advice(code, problem, command))

    if abs(found.clock_skew_ms or 0) > _usual(options, opt.COMMIT_MAX_CLOCK_SKEW_MS) // 5:
        say("clock", f"the store's clock is {found.clock_skew_ms} ms off this machine's", "set the clock (NTP)")
    if state.unusable:
        say(
            "checkpoint-damaged",
            f"{len(state.unusable)} checkpoints cannot be read: {next(iter(state.unusable.values()))}",
            f"CHECKPOINT INDEXTABLES {place}",
        )
    elif found.versions_since_checkpoint > 5 * interval:
        say(
            "checkpoint-late",
            f"{found.versions_since_checkpoint} versions since the last checkpoint: opening reads all of them",
            f"CHECKPOINT INDEXTABLES {place}",
        )
    elif state.version >= 0 and state.pointer_version != state.version:
        say("pointer", "the pointer does not name the newest checkpoint", f"CHECKPOINT INDEXTABLES {place}")
    if found.reader_version < READER_VERSION:
        say("protocol", f"the table has protocol version {found.reader_version}", f"CHECKPOINT INDEXTABLES {place}")
    if state.needs_compaction:
        say(
            "compaction",
            f"{state.num_tombstones} tombstones ({state.tombstone_ratio:.0%}), {state.num_manifests} manifests",
            f"COMPACT INDEXTABLES {place}",
        )
    table += _of_mirror(found, place)
    table += _of_small_files(found, options, f"MERGE SPLITS {place}")
    if found.index_coverage is not None and found.index_coverage < 1:
        say(
            "index",
            f"{1 - found.index_coverage:.0%} of the rows have no index, or an older one: they are searched by scan",
            f"REINDEX INDEXTABLE {place}",
        )
    ready = [skip for skip in found.skips if skip.retryAfter is None or skip.retryAfter <= now_ms]
    if found.skips:
        say(
            "skips",
            f"{len(found.skips)} splits could not be merged, one because: {found.skips[-1].reason}",
            f"MERGE SPLITS {place}" if ready else f"DESCRIBE INDEXTABLES STATE {place}",
        )
    if found.deleted_share > _MANY_DELETED:
        merges = options[opt.MERGE_MAX_DELETED_ROWS_RATIO] < _MANY_DELETED
        command = f"MERGE SPLITS {place}" if merges else f"REINDEX INDEXTABLE {place} FORCE"
        problem = f"{found.deleted_rows} deleted rows ({found.deleted_share:.0%}) are still in the files"
        say("deleted-rows", problem, command)
    if found.orphans > max(100, found.files // 10) or found.expired_intents > 100:
        about = "" if found.orphans_exact else "about "
        needed = f"versions from {found.oldest_version} on may need some of them, as long as they are retained"
        problem = f"{about}{found.orphans} data files are not in the newest version; {needed}"
        say("orphans", problem, f"PURGE INDEXTABLE {place}")
    return table


def _log_facts(env: Env, newest: int) -> _LogFacts:
    listing = [meta for meta in env.store.list_from(LOG_DIR) if parse_key(meta.key) is not None]
    slots = {file.version for meta in listing if (file := parse_key(meta.key)) and file.kind == "version"}
    states = own_states(env, listing)
    oldest = 0 if 0 in slots else min((ref.version for ref in states), default=newest)
    return _LogFacts(oldest, len(slots), _without_manifests(env, states[:1], {meta.key for meta in listing}))


def _without_manifests(env: Env, states: list[StateRef], there: set[str]) -> dict[str, str]:
    """The checkpoints of these that name a manifest which was not listed, each with the reason."""
    found: dict[str, str] = {}
    for ref in states:
        try:
            named = inspect_state(env, ref).manifests
        except (CheckpointError, LimitExceeded, ObjectNotFound):
            # `describe_state` tells why.
            continue
        missing = sorted(key for key in named if key not in there)
        if missing and env.store.exists(ref.keys[0]) and not env.store.exists(missing[0]):
            found[ref.keys[0]] = f"{len(missing)} of its manifests are gone, {missing[0]} is one"
    return found


def _file_facts(snapshot: Snapshot, env: Env, now_ms: int) -> _FileFacts:
    files = snapshot.files
    small = pc.sum(pc.less(files["size"], env.options[opt.MERGE_ON_WRITE_SMALL_SIZE]), min_count=0).as_py() or 0
    vectors = combined(files["deletionVector"]).drop_null()
    deleted = pc.sum(pc.struct_field(vectors, "cardinality"), min_count=0).as_py() or 0 if len(vectors) else 0
    known = pc.sum(files["numRecords"], min_count=0).as_py() or 0
    foldable = int((deleted_shares(files) > env.options[opt.MERGE_MAX_DELETED_ROWS_RATIO]).sum())
    return _FileFacts(
        rows=live_rows(files),
        deleted=int(deleted),
        deleted_share=deleted / max(1, known),
        foldable=foldable,
        small=int(small),
        mergeable=_mergeable(snapshot, env, now_ms),
        coverage=_coverage(snapshot, files, env.options),
    )


def _mergeable(snapshot: Snapshot, env: Env, now_ms: int) -> int:
    """How many files merge splits would take, asked for nothing in particular."""
    limits = Limits(
        target_bytes=env.options[opt.MERGE_TARGET_SIZE],
        max_sources=env.options[opt.MERGE_MAX_SOURCES],
        memory_bytes=env.options[opt.SPLIT_MEMORY_BUDGET],
        fold_above=env.options[opt.MERGE_MAX_DELETED_ROWS_RATIO],
    )
    plan = plan_groups(
        snapshot.files.select(_PLANNED), snapshot.partition_columns, retry_times(snapshot, now_ms), limits
    )
    return sum(map(len, plan.groups))


def _upkeep(snapshot: Snapshot, env: Env, now_ms: int) -> Upkeep:
    tiers = tiers_of(env)
    crowd = crowd_of(snapshot.files, snapshot.partition_columns, tiers)
    due = plan_due(snapshot.files, snapshot.partition_columns, retry_times(snapshot, now_ms), tiers)
    work = last_work(env, MERGE_LEASE) or Work()
    return Upkeep(
        most_small=crowd.most,
        tiers=crowd.tiers,
        due=len(due.plan.groups),
        last_ms=work.lastMs or None,
        failures=work.failures,
        reason=work.reason or None,
        not_before_ms=work.notBeforeMs if work.failures else None,
    )


def _coverage(snapshot: Snapshot, files: pa.Table, options: Options) -> float | None:
    if not has_own_splits(snapshot.protocol):
        return None
    fresh_refs = _fresh_refs(snapshot.metadata, pc.unique(files["docMappingRef"]).to_pylist(), options)
    rows = pc.fill_null(files["numRecords"], 0)
    total = pc.sum(rows, min_count=0).as_py() or 0
    is_fresh = pc.is_in(files["docMappingRef"], value_set=text_array(fresh_refs))
    fresh = pc.and_kleene(is_fresh, pc.greater(files["hotcacheLength"], 0))
    covered = pc.sum(rows.filter(pc.fill_null(fresh, fill_value=False)), min_count=0).as_py() or 0
    return float(covered / total) if total else 1.0


def _fresh_refs(metadata: Metadata, refs: list[str | None], options: Options) -> list[str]:
    """Those of the mappings by which indexes were built that answer what the table wants: as `reindex` judges it."""
    plan = target_of(metadata, options).plan
    wanted = plan.doc_mapping_ref()
    registered = {ref: metadata.configuration.get(REGISTRY_PREFIX + ref) for ref in refs if ref is not None}
    return [ref for ref, text in registered.items() if ref == wanted or (text is not None and not stale_in(text, plan))]


def _orphans(snapshot: Snapshot, env: Env, now_ms: int) -> _Orphans:
    """How many old files the newest version does not name: counted where they are few, estimated from a sample else."""
    names = Names.of(partitionings(snapshot.metadata))
    known = data_keys(snapshot.files, env.store.url, path_rule(snapshot.protocol))
    sample = _listed(env, None, _SAMPLE + 1)
    exact = len(sample) <= _SAMPLE
    if not exact and len(known):
        # Orphans lie together, in a folder that was dropped or by a write that failed: the sample is from all over.
        places = pc.sort_indices(known).take(int64_array(np.arange(1, _PLACES) * len(known) // _PLACES))
        parts = [_listed(env, after, _SAMPLE // _PLACES) for after in (None, *known.take(places).to_pylist())]
        sample = list({meta.key: meta for part in parts for meta in part}.values())
    listed = listed_table([m.key for m in sample], [m.size for m in sample], [m.modified_ms for m in sample], names)
    named = pc.is_in(listed["path"], value_set=known)
    horizon = now_ms - _usual(env.options, opt.PURGE_DEFAULT_RETENTION_HOURS) * _HOUR_MS
    stray = listed.filter(pc.invert(named))
    stray = stray.filter(pc.less(stray["modified"].cast(pa.int64()), horizon))
    count, size = stray.num_rows, int(pc.sum(stray["size"], min_count=0).as_py() or 0)
    if exact:
        return _Orphans(count, size, exact=True)
    scale = snapshot.files.num_rows / max(1, pc.sum(named, min_count=0).as_py() or 0)
    return _Orphans(round(count * scale), round(size * scale), exact=False)


def _of_mirror(found: Health, place: str) -> list[Advice]:
    mirror = found.mirror
    if mirror is None or (not mirror.behind and mirror.reason is None):
        return []
    shown = "nothing" if mirror.version is None else f"version {mirror.version}"
    problem = f"the Delta mirror shows {shown}, the table has version {found.version}"
    if mirror.reason is not None:
        return [Advice("mirror-stopped", f"{problem}: {mirror.reason}", f"MIRROR INDEXTABLES {place} STOP")]
    return [Advice("mirror-behind", problem, f"MIRROR INDEXTABLES {place}")]


def _of_small_files(found: Health, options: Options, command: str) -> list[Advice]:
    """Those that upkeep should not have left behind, or where it is turned off; and what it failed of."""
    is_kept, fan_in = options[opt.MERGE_ON_WRITE_ENABLED], options[opt.MERGE_ON_WRITE_MIN_SPLITS]
    many = _MANY * fan_in if is_kept else fan_in
    is_crowded = found.upkeep.most_small >= many or not is_kept
    advice = []
    if found.mergeable_files >= many and found.small_share > 0.5 and is_crowded:
        advice.append(Advice("small-files", f"{found.small_files} of {found.files} splits are small", command))
    if found.upkeep.failures and found.upkeep.due:
        problem = f"small splits could not be merged after a write, {found.upkeep.failures} times in a row"
        advice.append(Advice("upkeep", f"{problem}: {found.upkeep.reason}", command))
    return advice


def _of_properties(options: Options) -> list[Advice]:
    return [
        Advice(
            "property",
            f"the table property {key} = {value!r} cannot be read by this version and counts as not given",
            f"give {key} as an option of the call or of the session",
        )
        for key, value in sorted(options.unreadable.items())
    ]


def _usual(options: Options, option: opt.Option[int]) -> int:
    """The value, or the default where a verb that deletes would refuse: a look deletes nothing."""
    value = options.if_readable(option)
    return option.default if value is None else value


def _listed(env: Env, after: str | None, most: int) -> list[ObjectMeta]:
    """The first objects behind a key, but for those of the log."""
    found: list[ObjectMeta] = []
    if after is None or after < LOG_DIR:
        before_log = (meta for meta in env.store.list_from("", after))
        found += islice(takewhile(lambda meta: meta.key < LOG_DIR, before_log), most)
        after = LOG_END
    return found + list(islice(env.store.list_from("", after), most - len(found)))


def _index_cache(env: Env) -> dict[str, int]:
    stats = shared_index_cache(env.options, env.ambient).measure()
    return {name: int(getattr(stats, name)) for name in ("hits", "misses", "evicted", "entries", "size_bytes")}
