"""Which data files does any version name that stays readable? Read from the log after the listing of the data.

What stays readable is decided by a plan of cleanup: checkpoints and version files that it does not name. Version files
are read in units of work, so that a cluster can share them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.env import Env
from indextables.errors import IndexTablesError, LogGap, VersionExpired
from indextables.log.care import CleanupPlan
from indextables.log.checkpoint import find_states, read_state
from indextables.log.read import Log, Snapshot, Stamp, confirm
from indextables.log.wire import (
    PathRule,
    StateRef,
    combined,
    constant,
    decode_version,
    parse_key,
    path_rule,
    text_array,
    version_key,
)
from indextables.table.running import Progress, Runner, Step, batches
from indextables.table.writing import data_keys

__all__ = ["Reach", "from_ipc", "named_since", "reach", "read_versions", "to_ipc"]

_VERSIONS_PER_UNIT = 200
_UNITS_PER_SLOT = 8

_EVENTS = pa.schema([("key", pa.string()), ("removed_ms", pa.int64())])
"""A data file that a version names; with a time if the version removes it."""


class Reach(msgspec.Struct, frozen=True):
    """What the log says about data files, at `snapshot`.

    `named` are the keys that a version names which stays readable, from `oldest` on. `removed` are keys that a commit
    took away, each with the later one of the commit's and the store's time.
    """

    snapshot: Snapshot
    oldest: int
    named: pa.Array
    removed: pa.Array
    removed_ms: pa.Array


class _Unit(msgspec.Struct, frozen=True):
    """Versions to read, each with the store's time of its file; `adds` asks for what they add, too."""

    versions: list[tuple[int, int]]
    adds: bool
    rule: PathRule


class _Answer(msgspec.Struct, frozen=True):
    """What versions add and remove, as a stream of Arrow, and who they are."""

    events: bytes
    stamps: list[Stamp]


def reach(
    log: Log, plan: CleanupPlan, runner: Runner, *, cut_removals: bool, progress: Progress | None = None
) -> Reach:
    """What stays named when `plan` is carried out. `cut_removals` also reads what versions that go have removed.

    Raises LogError and StoreError: nothing can be said by half of a log.
    """
    snapshot = log.snapshot()
    gone = set(plan.keys)
    files = [(meta, file) for meta in plan.listing if (file := parse_key(meta.key)) is not None]
    slots = {file.version: meta.modified_ms for meta, file in files if file.kind == "version" and meta.key not in gone}
    newest_listed = max((file.version for _, file in files if file.kind == "version"), default=-1)
    first = snapshot.version + 1
    while first > 0 and (first - 1 in slots or first - 1 > newest_listed):
        first -= 1
    states = [ref for ref in find_states(plan.listing) if not gone.intersection(ref.keys)]
    rule = path_rule(snapshot.protocol)
    columns = [combined(snapshot.gathered(lambda files: pa.table({"key": data_keys(files, log.url, rule)}))["key"])]
    bases = _bases(log, states, first)
    columns += [data_keys(files, log.url, rule) for files in bases.values()]
    now = snapshot.version
    kept = [(version, slots.get(version, 0)) for version in range(first, now + 1)]
    units = _units(kept, rule, adds=True)
    if cut_removals:
        cut = [(file.version, meta.modified_ms) for meta, file in files if file.kind == "version" and meta.key in gone]
        units += _units(cut, rule, adds=False)
    events, stamps = _read(runner, units, progress)
    confirm(log.env, sorted(stamps, key=lambda stamp: stamp.version))
    is_removal = combined(pc.is_valid(events["removed_ms"]))
    columns.append(combined(events["key"].filter(pc.invert(is_removal))))
    removals = events.filter(is_removal)
    named = pc.unique(pa.concat_arrays([column.cast(pa.string()) for column in columns]))
    return Reach(snapshot, min(bases, default=0), named, combined(removals["key"]), combined(removals["removed_ms"]))


def named_since(log: Log, version: int) -> tuple[int, pa.Array]:
    """The newest version, and the keys that versions above `version` name. Raises LogError, StoreError.

    Where cleanup has taken some of them, what is left to read names what they added: the oldest checkpoint does.
    """
    newest = log.latest_version()
    rule = path_rule(log.metadata_at().protocol)
    columns = [text_array([])]
    first = version + 1
    try:
        contents = log.read_versions(range(first, newest + 1))
    except VersionExpired:
        oldest = min((ref.version for ref in log.states()), default=0)
        columns.append(data_keys(log.snapshot(oldest).files, log.url, rule))
        contents = log.read_versions(range(max(first, oldest + 1), newest + 1))
    columns += [data_keys(content.under(rule).adds, log.url, rule) for content in contents]
    return newest, pa.concat_arrays(columns)


def read_versions(env: Env, unit: bytes) -> bytes:
    """Job: what versions add and remove, as a stream of Arrow, and who they are. Raises LogError, StoreError."""
    asked = _UNIT.decode(unit)

    def events(entry: tuple[int, int]) -> tuple[pa.Table, Stamp]:
        version, modified_ms = entry
        content = decode_version(env.store.get(version_key(version)), version, root_url=env.store.url)
        content = content.under(asked.rule)
        added = data_keys(content.adds, env.store.url, asked.rule) if asked.adds else text_array([])
        removed = data_keys(content.removes, env.store.url, asked.rule)
        time_ms = max(modified_ms, content.timestamp_ms or 0)
        times = pa.concat_arrays([constant(None, len(added)), constant(time_ms, len(removed))])
        stamp = Stamp(version, content.commit_info, content.crc32c, content.metadata)
        return pa.table([pa.concat_arrays([added, removed]), times], schema=_EVENTS), stamp

    found = list(env.ambient.map("versions", events, asked.versions))
    return msgspec.msgpack.encode(
        _Answer(to_ipc(pa.concat_tables([table for table, _ in found])), [s for _, s in found])
    )


def to_ipc(table: pa.Table) -> bytes:
    """A table as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_ipc(data: bytes) -> pa.Table:
    """The table of `to_ipc`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _bases(log: Log, states: Sequence[StateRef], first: int) -> dict[int, pa.Table]:
    """The files of the oldest version from which version files lead on, and of those that stand alone below it."""
    if first == 0:
        return {}
    chained = min((ref.version for ref in states if ref.version >= first - 1), default=None)
    if chained is None:
        message = (
            f"no checkpoint at {log.url} covers version {first - 1}, whose file is gone. Nothing was deleted: verify it"
        )
        raise LogGap(message, version=first - 1, url=log.url)
    alone: dict[int, StateRef] = {}
    for ref in states:
        if ref.version < first - 1:
            alone.setdefault(ref.version, ref)
    found = {version: read_state(log.env, ref).files for version, ref in alone.items()}
    return {**found, chained: log.snapshot(chained).files}


def _units(versions: Sequence[tuple[int, int]], rule: PathRule, *, adds: bool) -> list[bytes]:
    return [
        msgspec.msgpack.encode(_Unit(list(versions[start : start + _VERSIONS_PER_UNIT]), adds, rule))
        for start in range(0, len(versions), _VERSIONS_PER_UNIT)
    ]


def _read(runner: Runner, units: list[bytes], progress: Progress | None) -> tuple[pa.Table, list[Stamp]]:
    tables: list[pa.Table] = [_EVENTS.empty_table()]
    stamps: list[Stamp] = []
    for part in batches(units, max(1, _UNITS_PER_SLOT * runner.width)):
        for answer in runner.run(read_versions, part):
            if isinstance(answer, IndexTablesError):
                raise answer
            found = _ANSWER.decode(answer)
            tables.append(from_ipc(found.events))
            stamps += found.stamps
        if progress is not None:
            progress(Step("read the log", len(tables) - 1, len(units)))
    return pa.concat_tables(tables), stamps


# Made when the module is loaded: msgspec crashes if two threads are the first to decode one type.
_UNIT = msgspec.msgpack.Decoder(_Unit)
_ANSWER = msgspec.msgpack.Decoder(_Answer)
