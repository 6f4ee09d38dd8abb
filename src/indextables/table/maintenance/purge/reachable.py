"""Which data files does any version name that stays readable? Read from the log after the listing of the data.

What stays readable is decided by a plan of cleanup: checkpoints and version files that it does not name. Version files
are read in units of work, so that a cluster can share them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.env import Env
from indextables.errors import CheckpointError, IndexTablesError, LogGap, ObjectNotFound, VersionExpired
from indextables.log.care import CleanupPlan
from indextables.log.checkpoint import find_states, gather_state
from indextables.log.read import Log, Snapshot, Stamp, confirm, read_contents
from indextables.log.wire import (
    PathRule,
    StateRef,
    parse_key,
    path_rule,
    text_array,
    version_key,
)
from indextables.table.maintenance.purge.keys import Hashes, Keys, Named, hashes_of, key_hashes, named_by
from indextables.table.running import Progress, Runner, Step, batches
from indextables.table.writing import data_keys

__all__ = ["MOVED", "Reach", "is_same", "named_since", "reach", "read_versions"]

MOVED = (ObjectNotFound, VersionExpired, LogGap)
"""What is raised where somebody else's cleanup takes what is read, or where it is lost."""

_ATTEMPTS = 3
_VERSIONS_PER_UNIT = 200
_UNITS_PER_SLOT = 8


class Reach(msgspec.Struct, frozen=True):
    """What the log says about data files, at `snapshot`.

    `named` are the keys that a version names which stays readable, from `oldest` on. `removed` are hashes of keys that
    a commit took away, each with the later one of the commit's and the store's time. `doubt` says which version may be
    readable although nobody can tell what it names; empty if there is none.
    """

    snapshot: Snapshot
    oldest: int
    named: Keys
    removed: Hashes
    removed_ms: npt.NDArray[np.int64]
    doubt: str = ""


class _Unit(msgspec.Struct, frozen=True):
    """Versions to read, each with the store's time of its file; `adds` asks for what they add, too."""

    versions: list[tuple[int, int]]
    adds: bool
    rule: PathRule


class _Answer(msgspec.Struct, frozen=True):
    """Hashes of the keys that versions add and remove, the times of the latter in ms, and who the versions are."""

    added: bytes
    removed: bytes
    removed_ms: bytes
    stamps: list[Stamp]


def reach(
    log: Log,
    plan: CleanupPlan,
    runner: Runner,
    *,
    told: tuple[Snapshot, Named],
    cut_removals: bool,
    progress: Progress | None = None,
) -> Reach:
    """What stays named when `plan` is carried out. `cut_removals` also reads what versions that go have removed.

    `told` is a version and what it names: it is not read again while it is the newest. Raises LogError and StoreError:
    nothing can be said by half of a log.
    """
    snapshot = log.snapshot()
    gone = set(plan.keys)
    files = [(meta, file) for meta in plan.listing if (file := parse_key(meta.key)) is not None]
    slots = {file.version: meta.modified_ms for meta, file in files if file.kind == "version" and meta.key not in gone}
    newest_listed = max((file.version for _, file in files if file.kind == "version"), default=-1)
    first = snapshot.version + 1
    while first > 0 and (first - 1 in slots or first - 1 > newest_listed or _is_there(log.env, first - 1, gone)):
        first -= 1
    states = [ref for ref in find_states(plan.listing) if not gone.intersection(ref.keys)]
    rule = path_rule(snapshot.protocol)
    oldest, keys, doubt = _named_by_states(log, states, first, rule)
    now = snapshot.version
    kept = [(version, slots.get(version, 0)) for version in range(first, now + 1)]
    units = _units(kept, rule, adds=True)
    if cut_removals:
        cut = [(file.version, meta.modified_ms) for meta, file in files if file.kind == "version" and meta.key in gone]
        units += _units(cut, rule, adds=False)
    added, removed, removed_ms, stamps = _read(runner, units, progress)
    confirm(log.env, sorted(stamps, key=lambda stamp: stamp.version))
    below = _readable_below(slots, {ref.version for ref in states}, first)
    # No chain of tokens leads to these: they only keep files, and let none go.
    units = _units([(version, slots[version]) for version in below], rule, adds=True)
    added_below, removed_below, removed_below_ms, _ = _read(runner, units, progress)
    named = told[1] if is_same(told[0], snapshot) else named_by(snapshot, log.url)
    return Reach(
        snapshot,
        min([oldest, *below]),
        named.keys.union(keys, Keys(added, added_below)),
        np.concatenate((removed, removed_below)),
        np.concatenate((removed_ms, removed_below_ms)),
        doubt,
    )


def _readable_below(slots: Collection[int], states: Collection[int], first: int) -> list[int]:
    """The versions below `first`, in order, that can be read from their files and what is below them. Pure.

    Between them and `first` a version file is lost.
    """
    found: list[int] = []
    for version in sorted(slot for slot in slots if slot < first):
        if version == 0 or version - 1 in states or (found and found[-1] == version - 1):
            found.append(version)
    return found


def _is_there(env: Env, version: int, gone: Collection[str]) -> bool:
    """True for a version that stays and was not listed: a listing may have missed what was put while it was made."""
    key = version_key(version)
    return key not in gone and env.store.exists(key)


def is_same(one: Snapshot, other: Snapshot) -> bool:
    """True if both are one version of one table."""
    return (one.table_id, one.history, one.version) == (other.table_id, other.history, other.version)


def named_since(log: Log, version: int) -> tuple[int, Keys]:
    """The newest version, and the keys that versions above `version` name. Raises LogError, StoreError.

    Where cleanup has taken some of them, what is left to read names what they added: the oldest checkpoint does. One
    that is taken in its turn starts it over, a few times.
    """
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(*MOVED):
            return _named_since(log, version)
        log.invalidate()
    return _named_since(log, version)


def _named_since(log: Log, version: int) -> tuple[int, Keys]:
    newest = log.latest_version()
    rule = path_rule(log.metadata_at().protocol)
    named = Keys()
    first = version + 1
    try:
        contents = log.read_versions(range(first, newest + 1))
    except VersionExpired:
        start = log.versions().start
        states = {ref.version for ref in log.states() if ref.version >= first}
        base = min((number for number in states if number >= start - 1), default=None)
        if base is None:
            raise
        # The base tells what was added before it and lives; those below it can be read alone.
        for number in sorted(number for number in states if number <= base):
            files = log.snapshot(number)
            named = named.union(Named(files.gathered(lambda files: key_hashes(files, log.url, rule))).keys)
        # A slot at or below the base may have been filled by a sleeper since.
        contents = log.read_versions(range(max(first, base + 1), newest + 1))
    hashes = [hashes_of(data_keys(content.under(rule).adds, log.url, rule)) for content in contents]
    return newest, named.union(Keys(*hashes))


def read_versions(env: Env, unit: bytes) -> bytes:
    """Job: what versions add and remove, and who they are, as an `_Answer`. Raises LogError, StoreError."""
    asked = _UNIT.decode(unit)

    stored_ms = dict(asked.versions)
    contents = [content.under(asked.rule) for content in read_contents(env, list(stored_ms))]

    def hashes(tables: list[pa.Table]) -> Hashes:
        return hashes_of(data_keys(pa.concat_tables(tables), env.store.url, asked.rule) if tables else text_array([]))

    removals = [(content.removes, max(stored_ms[content.version], content.timestamp_ms or 0)) for content in contents]
    # A row without a vector names one key: those of many versions are told apart by how many each has.
    plain = [(removes, time_ms) for removes, time_ms in removals if removes.num_rows and not _has_vectors(removes)]
    counts = [removes.num_rows for removes, _ in plain]
    removed = [hashes([removes for removes, _ in plain])]
    times = [np.repeat(np.array([time_ms for _, time_ms in plain], np.int64), counts)]
    for removes, time_ms in removals:
        if _has_vectors(removes):
            removed.append(hashes([removes]))
            times.append(np.full(len(removed[-1]), time_ms, np.int64))
    answer = _Answer(
        added=hashes([content.adds for content in contents] if asked.adds else []).tobytes(),
        removed=np.concatenate(removed).tobytes(),
        removed_ms=np.concatenate(times).tobytes(),
        stamps=[Stamp(content.version, content.commit_info, content.crc32c, content.metadata) for content in contents],
    )
    return msgspec.msgpack.encode(answer)


def _has_vectors(files: pa.Table) -> bool:
    vectors = files["deletionVector"]
    return bool(vectors.null_count < len(vectors))


def _named_by_states(log: Log, states: Sequence[StateRef], first: int, rule: PathRule) -> tuple[int, Keys, str]:
    """The oldest version that can be read, what states name that no version file does, and what is in doubt.

    These are the oldest version from which version files lead on, and those that stand alone below it.
    """
    if first == 0:
        return 0, Keys(), ""
    chained = min((ref.version for ref in states if ref.version >= first - 1), default=None)
    if chained is None:
        message = (
            f"no checkpoint at {log.url} covers version {first - 1}, whose file is gone. Nothing was deleted: verify it"
        )
        raise LogGap(message, version=first - 1, url=log.url)
    alone: dict[int, list[StateRef]] = {}
    for ref in states:
        if ref.version < first - 1:
            alone.setdefault(ref.version, []).append(ref)

    def hashes(files: pa.Table) -> pa.Table:
        return key_hashes(files, log.url, rule)

    keys, oldest, doubt = Named(log.snapshot(chained).gathered(hashes)).keys, chained, ""
    for version, refs in alone.items():
        named, why = _named_alone(log.env, refs, hashes)
        doubt = doubt or why
        if named is not None:
            keys, oldest = keys.union(named.keys), min(oldest, version)
    return oldest, keys, doubt


def _named_alone(
    env: Env, refs: Sequence[StateRef], hashes: Callable[[pa.Table], pa.Table]
) -> tuple[Named | None, str]:
    """What the checkpoints of a version name that no version file leads to; None where none can be read, and a doubt.

    One that a stalled writer published when the manifests that it names had been collected makes no version readable:
    a manifest that is gone does not come back. Where the version has a file, too, or where bytes are
    damaged, nobody knows. Raises ObjectNotFound where a checkpoint itself is gone by now.
    """
    doubt = ""
    for ref in refs:
        try:
            return Named(gather_state(env, ref, hashes)), ""
        except ObjectNotFound as error:
            if not all(env.store.exists(key) for key in ref.keys):
                raise
            why = str(error) if env.store.exists(version_key(ref.version)) else ""
        except CheckpointError as error:
            why = str(error)
        doubt = doubt or (why and f"version {ref.version} may be read, but not what it names: {why}")
    return None, doubt


def _units(versions: Sequence[tuple[int, int]], rule: PathRule, *, adds: bool) -> list[bytes]:
    return [
        msgspec.msgpack.encode(_Unit(list(versions[start : start + _VERSIONS_PER_UNIT]), adds, rule))
        for start in range(0, len(versions), _VERSIONS_PER_UNIT)
    ]


def _read(
    runner: Runner, units: list[bytes], progress: Progress | None
) -> tuple[Hashes, Hashes, npt.NDArray[np.int64], list[Stamp]]:
    found: list[_Answer] = []
    for part in batches(units, max(1, _UNITS_PER_SLOT * runner.width)):
        for answer in runner.run(read_versions, part):
            if isinstance(answer, IndexTablesError):
                raise answer
            found.append(_ANSWER.decode(answer))
        if progress is not None:
            progress(Step("read the log", len(found), len(units)))
    return (
        np.frombuffer(b"".join(answer.added for answer in found), np.uint64),
        np.frombuffer(b"".join(answer.removed for answer in found), np.uint64),
        np.frombuffer(b"".join(answer.removed_ms for answer in found), np.int64),
        [stamp for answer in found for stamp in answer.stamps],
    )


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_UNIT = msgspec.msgpack.Decoder(_Unit)
_ANSWER = msgspec.msgpack.Decoder(_Answer)
