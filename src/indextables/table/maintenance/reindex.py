"""Reindex: splits whose index is missing, foreign, damaged or not what the table wants by now get a new one.

Each split is a unit of work: its index is looked at where the work is done, and rewritten only if it has to be. The new
file holds the same visible rows in the same order and takes the place of the old one; commits change no data.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from indextables import options as opt
from indextables.env import Env
from indextables.errors import IndexTablesError, SplitCorrupt
from indextables.log.care import protect_keys, store_now_ms
from indextables.log.read import Log
from indextables.log.wire import Add, Metadata, check_rows_writable, key_of
from indextables.query.parse import parse
from indextables.split.file import SplitReader, SplitRef
from indextables.split.index import IndexPlan
from indextables.split.write import foreign_index, merge_splits, overridden, stale_fields
from indextables.table.environment import table_env
from indextables.table.merge import Group, Landing, Limits, Merging, Moved, Source, groups_of, land, ref_of
from indextables.table.read import position_tag, prune_files
from indextables.table.requests import Reindex
from indextables.table.running import Progress, Runner, Step
from indextables.table.writing import add_of, discard, split_folder, target_of

__all__ = ["ReindexReport", "reindex", "reindex_unit"]

OPERATION = "REINDEX"
_PROTECTED_MS = 24 * 3_600_000
_WHOLE_BYTES = 3_000_000_000
"""Index memory within which a split stays one split."""


class ReindexReport(msgspec.Struct, frozen=True):
    """What a reindex did. `reasons` counts the rewritten splits by why; `failed` are paths with what went wrong.

    `fresh` splits had nothing to be done, `given_up` ones were changed by somebody else meanwhile.
    """

    versions: list[int] = []
    splits: int = 0
    fresh: int = 0
    reindexed: int = 0
    given_up: int = 0
    rows: int = 0
    bytes: int = 0
    reasons: dict[str, int] = {}
    failed: dict[str, str] = {}


class _Unit(msgspec.Struct, frozen=True):
    """One split, and what its index should be."""

    source: Source
    values: list[str | None]
    metadata: Metadata
    force: bool


class _Done(msgspec.Struct, frozen=True):
    """What became of a split: why it was rewritten, empty if it was not; `adds` as msgpack of the log's actions."""

    reason: str
    adds: list[dict[str, object]] = []
    deleted: int = 0


def reindex(
    log: Log,
    request: Reindex,
    *,
    runner: Runner,
    progress: Progress | None = None,
) -> ReindexReport:
    """Give a new index to every split that needs one: among those that may hold rows for which `where` is true.

    `force` rewrites all of them. Work is committed in batches, so that a run that is ended keeps what it has finished;
    a split that is changed or removed meanwhile is left alone. Rows, their order and their values stay the same.

    Raises QueryInvalid, NotSupported for tables of other systems, MetadataChanged, CommitConflict, CommitStateUnknown,
    LogError, StoreError; what was committed before stays.
    """
    snapshot = log.snapshot()
    check_rows_writable(snapshot.protocol, log.url)
    env = table_env(log.env, snapshot.metadata)
    predicate = (
        None if request.where is None else parse(request.where, snapshot.schema, time_zone=env.options[opt.TIME_ZONE])
    )
    files = prune_files(snapshot, predicate)
    merging = Merging(snapshot.metadata, [], "zorder", Limits(target_bytes=1, max_sources=1, memory_bytes=_WHOLE_BYTES))
    landing, report = Landing(), _Tally(files.num_rows)
    parameters: dict[str, str | None] = {"force": str(request.force).lower()}
    if request.where is not None:
        parameters["predicate"] = request.where
    size = max(1, 8 * runner.width)
    columns = snapshot.partition_columns
    with protect_keys(env, since_ms=store_now_ms(env), ttl_ms=_PROTECTED_MS, table_id=snapshot.table_id) as held:
        for start in range(0, files.num_rows, size):
            groups = _groups(files.slice(start, size), columns)
            moved = _run(env, runner, snapshot.metadata, groups, report, force=request.force)
            if moved:
                held.renew()
                land(log, env, merging, moved, OPERATION, parameters, landing)
            if progress is not None:
                done = min(start + size, files.num_rows)
                progress(Step("reindex", done, files.num_rows, landing.rows, landing.new_bytes, landing.new_splits))
    return report.finished(landing)


def reindex_unit(env: Env, unit: bytes) -> bytes:
    """Job: look at one split, and write it anew if its index is not what the table wants. Raises SplitError."""
    work = _UNIT.decode(unit)
    target = target_of(work.metadata, env.over(work.metadata.configuration))
    ref = ref_of(env, work.source, key_of(work.source.path, env.store.url), target.schema)
    reason = _why(env, ref, target.plan) or ("forced" if work.force else "")
    if not reason:
        return msgspec.msgpack.encode(_Done(""))
    merged = merge_splits(
        env.store,
        [ref],
        overridden(target.options, opt.SPLIT_MEMORY_BUDGET, _WHOLE_BYTES),
        schema=target.schema,
        plan=target.plan,
        prefix=split_folder(target.partition_columns, work.values),
        partition_columns=target.partition_columns,
        ambient=env.ambient,
    )
    if merged.broken:
        told = merged.broken[0].reason
        raise SplitCorrupt(f"{ref.key} cannot be read: {told}", path=ref.key, part="rows", reason=told)
    adds = [add_of(split, target.partition_columns, work.values) for split in merged.written]
    return msgspec.msgpack.encode(_Done(reason, [msgspec.to_builtins(add) for add in adds], merged.deleted))


class _Tally:
    """What the units have told so far."""

    def __init__(self, splits: int) -> None:
        self.splits = splits
        self.fresh = 0
        self.reasons: dict[str, int] = {}
        self.failed: dict[str, str] = {}

    def finished(self, landing: Landing) -> ReindexReport:
        return ReindexReport(
            versions=landing.versions,
            splits=self.splits,
            fresh=self.fresh,
            reindexed=landing.source_splits,
            given_up=landing.given_up,
            rows=landing.rows,
            bytes=landing.new_bytes,
            reasons=self.reasons,
            failed=self.failed,
        )


def _groups(files: pa.Table, columns: list[str]) -> list[Group]:
    return groups_of(files, [np.array([row]) for row in range(files.num_rows)], columns)


def _run(
    env: Env, runner: Runner, metadata: Metadata, groups: list[Group], tally: _Tally, *, force: bool
) -> list[Moved]:
    units = [msgspec.msgpack.encode(_Unit(group.sources[0], group.values, metadata, force)) for group in groups]
    moved = []
    for group, answer in zip(groups, runner.run(reindex_unit, units), strict=True):
        source = group.sources[0]
        if isinstance(answer, IndexTablesError):
            tally.failed[source.path] = str(answer)
            continue
        done = _READ_DONE.decode(answer)
        if not done.reason:
            tally.fresh += 1
            continue
        adds = [msgspec.convert(add, Add) for add in done.adds]
        lost = _lost_rows(source, sum(add.numRecords or 0 for add in adds), done.deleted)
        if lost is not None:
            discard(env, adds)
            tally.failed[source.path] = lost
            continue
        tally.reasons[done.reason] = tally.reasons.get(done.reason, 0) + 1
        finished = [
            msgspec.structs.replace(
                add,
                dataChange=False,
                tags={**(group.tags[0] or {}), **_placed(group, number)},
                splitTags=group.split_tags[0],
                numMergeOps=group.merge_ops[0],
            )
            for number, add in enumerate(adds)
        ]
        moved.append(Moved([source], finished, done.deleted, is_sorted=False))
    return moved


def _placed(group: Group, number: int) -> dict[str, str | None]:
    """The tag of the file that is the one of this number that its only source became."""
    version, line, part = group.places[0]
    return position_tag(version, line, part + number)


def _lost_rows(source: Source, written: int, deleted: int) -> str | None:
    """Why the new file must not take the place of the old one; None if all rows are there."""
    if source.num_rows is not None and written + deleted != source.num_rows:
        return (
            f"{source.num_rows} rows of {source.path} became {written} and {deleted} deleted ones: please report this"
        )
    return None


def _why(env: Env, ref: SplitRef, plan: IndexPlan) -> str:
    """Why the split needs a new index, in words that many splits share; empty if it does not."""
    try:
        directory = SplitReader(env.store, msgspec.structs.replace(ref, vector=None)).directory
    except SplitCorrupt:
        # The rows may be sound all the same: whoever rewrites them finds out.
        return "the index is damaged"
    foreign = foreign_index(directory)
    if foreign is not None or directory is None:
        return foreign or "the split has no index"
    stale = stale_fields(directory, plan)
    return "" if not stale else next(iter(sorted(stale.values())))


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_UNIT = msgspec.msgpack.Decoder(_Unit)
_READ_DONE = msgspec.msgpack.Decoder(_Done)
