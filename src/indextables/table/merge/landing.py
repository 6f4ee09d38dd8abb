"""Merged files go into the log in the place of their sources, whatever else is committed meanwhile.

Before each attempt the newest version is read and every source is compared with what was merged:

    live, same vector       the merged files take its place
    live, more rows gone    the vector moves to the merged files: rows are told by number, where they are sorted by id
    anything else           the group is given up; its files are deleted

So is one between whose sources another file stands by now, because a restore brought it back to its place.

So a delete that comes while a merge runs is never lost, and no row comes back. A group that loses the race for the
version itself goes through the same comparison again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.env import Env
from indextables.errors import CommitConflict, CommitError, DvCorrupt, MetadataChanged, ObjectNotFound
from indextables.log.commit import Staged, Transaction, removes_of
from indextables.log.read import Log, Snapshot
from indextables.log.wire import Add, Committed, DeletionVector, Unknown, error_of, int64_array, key_of
from indextables.split.file import SplitRef, dv
from indextables.table.merge.batch import Merging, Moved
from indextables.table.merge.partly import files_beside
from indextables.table.merge.unit import ref_of
from indextables.table.read import find_again, in_order
from indextables.table.writing import check_kept, discard, registered, target_of

__all__ = ["Landing", "SourceRows", "carried", "land"]

_ROUNDS = 20
_INLINE_BYTES = 1_024
"""Vectors up to this size stand in the log itself."""

_MAX_WAIT_S = 0.2

_Rows = npt.NDArray[np.int64]


class Landing(msgspec.Struct):
    """What the commits of a merge came to."""

    versions: list[int] = []
    groups: int = 0
    given_up: int = 0
    source_splits: int = 0
    new_splits: int = 0
    source_bytes: int = 0
    new_bytes: int = 0
    rows: int = 0
    deleted_rows: int = 0
    carried_vectors: int = 0


class _Ready(msgspec.Struct, frozen=True):
    """A group as it can be committed on top of one version."""

    moved: Moved
    adds: list[Add]
    vectors: int


def land(
    log: Log,
    env: Env,
    merging: Merging,
    moved: Sequence[Moved],
    operation: str,
    parameters: dict[str, str | None],
    landing: Landing,
) -> None:
    """Commit the groups, those that still can be; adds what came of it to `landing`.

    Raises MetadataChanged if the schema changed (nothing of these groups stays), CommitStateUnknown (nothing is
    deleted), CommitConflict where other writers won every time, and CommitError where purge has taken files of them.
    """
    left = list(moved)
    for attempt in range(_ROUNDS):
        snapshot = log.snapshot()
        if snapshot.metadata.schemaString != merging.metadata.schemaString:
            discard(env, [add for group in left for add in group.adds])
            message = (
                f"the schema of {log.url} changed during the merge: nothing of this batch was committed, merge again"
            )
            raise MetadataChanged(message, url=log.url)
        ready = _ready(env, snapshot, left)
        lost = [group for group in left if not any(found.moved is group for found in ready)]
        landing.given_up += len(lost)
        discard(env, [add for group in lost for add in group.adds])
        left = [found.moved for found in ready]
        if not ready:
            return
        attempted = _Attempt(log, env, merging, snapshot, ready, operation, parameters)
        try:
            landed = attempted.commit()
        except CommitError:
            # Provably not in the log: nobody will ever read these files.
            discard(env, [add for group in left for add in group.adds])
            raise
        if landed is not None:
            _count(landing, landed, attempted.kept)
            left = [found.moved for found in ready if found not in attempted.kept]
        if not left:
            return
        env.ambient.sleep(env.ambient.random() * _MAX_WAIT_S * (attempt + 1) / _ROUNDS)
    discard(env, [add for group in left for add in group.adds])
    message = f"{len(left)} merged groups of {log.url} lost against other writers {_ROUNDS} times: merge again later"
    raise CommitConflict(message, url=log.url)


class _Attempt:
    """One transaction over the groups that are ready; `kept` are those of them that it still holds."""

    def __init__(
        self,
        log: Log,
        env: Env,
        merging: Merging,
        snapshot: Snapshot,
        ready: Sequence[_Ready],
        operation: str,
        parameters: dict[str, str | None],
    ) -> None:
        self._log = log
        self._env = env
        self._merging = merging
        self._snapshot = snapshot
        self._operation = operation
        self._parameters = parameters
        self.kept = list(ready)

    def commit(self) -> int | None:
        """The version; None if others won. Raises CommitStateUnknown, MetadataChanged, ProtocolChanged."""
        staged = self._staged()
        transaction = Transaction(
            self._log,
            self._snapshot,
            operation=self._operation,
            parameters=self._parameters,
            metrics=self._metrics(),
        )
        transaction.add(staged.adds).remove(staged.removes, rows=staged.removed_rows).regroup_with(self._regroup)
        transaction.before_put(lambda staged: check_kept(self._env, staged))
        metadata = self._snapshot.metadata
        plan = target_of(self._merging.metadata, self._env.over(self._merging.metadata.configuration)).plan
        mapping = registered(metadata, plan)
        if mapping is not None:
            transaction.set_metadata(mapping)
        outcome = transaction.commit()
        if isinstance(outcome, Committed):
            return outcome.version
        error = error_of(outcome, self._log.url)
        if isinstance(outcome, Unknown):
            raise error
        if outcome.kind in {"protocol", "metadata"}:
            raise error
        return None

    def _regroup(self, staged: Staged, paths: Sequence[str]) -> Staged | None:
        """Without the groups that a winner has touched: they are looked at again after this commit."""
        touched = set(paths)
        self.kept = [
            found for found in self.kept if not touched.intersection(source.path for source in found.moved.sources)
        ]
        if not self.kept:
            return None
        left = self._staged()
        return msgspec.structs.replace(
            staged, adds=left.adds, removes=left.removes, removed_rows=left.removed_rows, metrics=self._metrics()
        )

    def _staged(self) -> Staged:
        paths = [source.path for found in self.kept for source in found.moved.sources]
        files = _files_of(self._env, self._snapshot, [found.moved for found in self.kept])
        gone = files.filter(pc.is_in(files["path"], value_set=pa.array(paths, pa.string())))
        removes = removes_of(gone, self._env.ambient.now_ms())
        moves = pa.repeat(pa.scalar(value=False), gone.num_rows)
        removes = removes.set_column(removes.schema.get_field_index("dataChange"), "dataChange", moves)
        return Staged(adds=tuple(add for found in self.kept for add in found.adds), removes=removes, removed_rows=gone)

    def _metrics(self) -> dict[str, str | None]:
        sources = [source for found in self.kept for source in found.moved.sources]
        adds = [add for found in self.kept for add in found.adds]
        return {
            "numGroups": str(len(self.kept)),
            "numRemovedFiles": str(len(sources)),
            "numRemovedBytes": str(sum(source.size for source in sources)),
            "numAddedFiles": str(len(adds)),
            "numAddedBytes": str(sum(add.size for add in adds)),
            "numOutputRows": str(sum(add.numRecords or 0 for add in adds)),
            "numDeletedRows": str(sum(found.moved.deleted for found in self.kept)),
        }


def _files_of(env: Env, snapshot: Snapshot, moved: Sequence[Moved]) -> pa.Table:
    """The live files of the partitions in which these groups are, and perhaps others."""
    if not all(group.adds for group in moved):
        # Nothing is left of their rows, and sources do not tell where they lie.
        return snapshot.files
    return files_beside(env, snapshot, (add.partitionValues for group in moved for add in group.adds))


def _ready(env: Env, snapshot: Snapshot, moved: Sequence[Moved]) -> list[_Ready]:
    """Those of the groups that can take the place of their sources in this version, with the vectors they need."""
    paths = pa.array([source.path for group in moved for source in group.sources], pa.string())
    files = in_order(_files_of(env, snapshot, moved))
    rows = np.flatnonzero(pc.is_in(files["path"], value_set=paths).to_numpy())
    live = files.take(int64_array(rows))
    places = dict(zip(live["path"].to_pylist(), rows.tolist(), strict=True))
    vectors = {
        path: None if vector is None else msgspec.convert(vector, DeletionVector)
        for path, vector in zip(live["path"].to_pylist(), live["deletionVector"].to_pylist(), strict=True)
    }
    found = []
    for group in moved:
        if any(source.path not in vectors for source in group.sources):
            continue
        if _is_apart(files, places, group):
            continue
        if all(source.vector == vectors[source.path] for source in group.sources):
            found.append(_Ready(group, group.adds, 0))
            continue
        adds = _with_vectors(env, group, vectors)
        if adds is not None:
            count = sum(add.deletionVector is not None for add in adds)
            found.append(_Ready(group, adds, count))
    return found


def _is_apart(ordered: pa.Table, places: dict[str, int], group: Moved) -> bool:
    """True if the rows keep their order and another file of their partition stands between the sources of a group.

    `ordered` are all files in the order of their rows, `places` where the sources are among them.
    """
    at = [places[source.path] for source in group.sources]
    first, last = min(at), max(at)
    if group.is_sorted or last - first < len(at):
        return False
    span = ordered.slice(first, last - first + 1)
    others = span.filter(pc.invert(pc.is_in(span["path"], value_set=pa.array([s.path for s in group.sources]))))
    own = ordered["partitionValues"][first].as_py()
    return any(values == own for values in others["partitionValues"].to_pylist())


def _with_vectors(env: Env, group: Moved, now: dict[str, DeletionVector | None]) -> list[Add] | None:
    """The merged files without the rows that were deleted from their sources since; None if that cannot be told."""
    try:
        sources = [
            SourceRows(
                source.path,
                source.num_rows or 0,
                _payload(env, source.path, source.num_rows, source.vector),
                _payload(env, source.path, source.num_rows, now[source.path]),
            )
            for source in group.sources
        ]
        if group.is_sorted:
            rows = _sorted_away(env, group, sources)
        else:
            rows = carried(sources, [add.numRecords or 0 for add in group.adds])
    except (DvCorrupt, ObjectNotFound):
        return None
    if rows is None:
        return None
    return [_deleting(env, add, gone) for add, gone in zip(group.adds, rows, strict=True)]


def _sorted_away(env: Env, group: Moved, sources: Sequence[SourceRows]) -> list[_Rows] | None:
    """As `carried`, of files whose rows are in another order than those of their sources: by the ids of rows."""
    gone: list[tuple[SplitRef, _Rows]] = []
    for source, rows in zip(group.sources, sources, strict=True):
        was_live = dv.alive_mask(rows.read, rows.num_rows, rows.path)
        is_live = dv.alive_mask(rows.now, rows.num_rows, rows.path)
        if (is_live & ~was_live).any():
            return None
        bare = msgspec.structs.replace(source, vector=None)
        # Ids alone are read, whatever the columns are called.
        ref = ref_of(env, bare, key_of(source.path, env.store.url), pa.schema([]))
        gone.append((ref, np.flatnonzero(was_live & ~is_live)))
    # Rows that were merged bring their ids along: the numbers that the log gives to new files count for none of them.
    outputs = [SplitRef(key_of(add.path, env.store.url), add.size, add.numRecords) for add in group.adds]
    return find_again(env, gone, outputs)


def _payload(env: Env, path: str, num_rows: int | None, vector: DeletionVector | None) -> bytes | None:
    if vector is None:
        return None
    if num_rows is None:
        raise DvCorrupt(f"{path} has a deletion vector but no number of rows in the log", path=path)
    return dv.load(env.store, vector, key_of(path, env.store.url), num_rows)


def _deleting(env: Env, add: Add, rows: npt.NDArray[np.int64]) -> Add:
    if not len(rows):
        return add
    payload = dv.encode(rows)
    if len(payload) <= _INLINE_BYTES:
        made = dv.inline(payload)
    else:
        key = key_of(add.path, env.store.url)
        (made,) = dv.write_file(env.store, [(key, add.numRecords or 0, payload)], env.ambient.token())
    return msgspec.structs.replace(add, deletionVector=msgspec.convert(msgspec.to_builtins(made), DeletionVector))


def _count(landing: Landing, version: int, committed: Sequence[_Ready]) -> None:
    landing.versions.append(version)
    landing.groups += len(committed)
    for found in committed:
        landing.source_splits += len(found.moved.sources)
        landing.new_splits += len(found.adds)
        landing.source_bytes += sum(source.size for source in found.moved.sources)
        landing.new_bytes += sum(add.size for add in found.adds)
        landing.rows += sum(add.numRecords or 0 for add in found.adds)
        landing.deleted_rows += found.moved.deleted
        landing.carried_vectors += found.vectors


class SourceRows(msgspec.Struct, frozen=True):
    """A source of a merge: its rows, the vector with which it was read, and the one that it has now."""

    path: str
    num_rows: int
    read: bytes | None
    now: bytes | None


def carried(sources: Sequence[SourceRows], outputs: Sequence[int]) -> list[_Rows] | None:
    """The rows of each output (given by its number of rows) that are deleted by now.

    A merge without sorting writes the live rows of its sources one after the other: the n-th row of a source that was
    live then is the n-th of its part of the output. None if a source had rows deleted that are there again: those rows
    are in no output. Raises DvCorrupt.
    """
    deleted: list[_Rows] = []
    written = 0
    for source in sources:
        was_live = dv.alive_mask(source.read, source.num_rows, source.path)
        is_live = dv.alive_mask(source.now, source.num_rows, source.path)
        if (is_live & ~was_live).any():
            return None
        deleted.append(np.flatnonzero(~is_live[was_live]) + written)
        written += int(was_live.sum())
    if written != sum(outputs):
        return None
    rows = np.concatenate(deleted) if deleted else np.empty(0, np.int64)
    ends = np.cumsum(outputs)
    starts = ends - np.asarray(outputs)
    return [rows[(rows >= start) & (rows < end)] - start for start, end in zip(starts, ends, strict=True)]
