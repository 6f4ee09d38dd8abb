"""Processes that look at a table's past: streams, history, reads by time, and readers that protect their version.

Whatever they are told is compared with the truth; to be told that a version has expired is no lie, to be shown what was
never committed is one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from indextables.errors import (
    LogError,
    NotSupported,
    StoreError,
    TableNotFound,
    TableReplaced,
    VersionExpired,
    VersionNotFound,
)
from indextables.log.care.intents import protect_version
from indextables.log.care.schedule import maybe_checkpoint
from indextables.log.care.sweeping import await_sweeps
from indextables.log.checkpoint.write import write_checkpoint
from indextables.log.read.histories import history, version_at
from indextables.log.read.log import Log, Snapshot
from indextables.log.wire.names import version_key
from indextables.table.read.order import in_order
from indextables.table.read.tail import Limits, Place, Tail
from tests.log.commits import open_log
from tests.sim.truth import Broken, Read, Truth
from tests.sim.world import Actor, Sleeper

TROUBLE = (StoreError, LogError, TableNotFound, TableReplaced)
PROTECTED_MS = 3_600_000


def told(snapshot: Snapshot) -> Read:
    """What a snapshot says, for the truth to compare."""
    files = in_order(snapshot.files)
    return Read(
        snapshot.version,
        files["path"].to_pylist(),
        files["deletionVector"].to_pylist(),
        [dict(values) for values in files["partitionValues"].to_pylist()],
        snapshot.metadata.id,
        snapshot.metadata.schemaString,
        {app: txn.version for app, txn in snapshot.txns.items()},
    )


def follower(rounds: int, outcomes: Counter[str], nap_s: float) -> Callable[[Actor], None]:
    """A stream: what it is given between two places is what the versions between them added, in their order."""

    def script(actor: Actor) -> None:
        actor.doing = "stream"
        log = open_log(actor.env())
        place: Place | None = None
        for _ in range(rounds):
            actor.ambient.sleep(actor.ambient.random() * nap_s)
            try:
                tail = Tail(log, log.snapshot().metadata, skip_change_commits=True)
                if place is None:
                    # From an old version on as often as from a whole snapshot: what is old is what can be taken away.
                    oldest = log.versions()[0] if log.versions() and actor.ambient.random() < 0.5 else None
                    place = tail.starting(None if oldest is None else str(oldest))
                end = tail.reach(place, Limits(files=1 + int(actor.ambient.random() * 4)))
                _check_stream(actor, tail, place, end, outcomes)
                place = end
            except VersionExpired:
                outcomes["stream expired"] += 1
                if place is not None:
                    actor.world.truth.expired(place.version)
                place = None
            except (NotSupported, *TROUBLE):
                outcomes["stream in trouble"] += 1
            if actor.ambient.random() < 0.3:
                # As a query that is started again.
                log = open_log(actor.env())

    return script


def _check_stream(actor: Actor, tail: Tail, start: Place, end: Place, outcomes: Counter[str]) -> None:
    truth = actor.world.truth
    given = [(v, p) for v, files in tail.files_between(start, end) for p in files["path"].to_pylist()]
    actor.world.note(actor, "stream", f"{start} {end}", given)
    expected: list[tuple[int, str]] = []
    for version in range(start.version, end.version + 1):
        _expect(actor, version < len(truth.history) or version == end.version, f"S1: a stream passes {version}")
        if version == start.version and start.is_starting_version:
            shown = truth.shown[version]
            files = sorted(shown, key=lambda path: shown[path].place)
        elif version < len(truth.history):
            files = _added(truth, version)
        else:
            files = []
        first = start.index if version == start.version else 0
        last = end.index if version == end.version else None
        expected += [(version, path) for path in files[first:last]]
    _expect(actor, given == expected, f"S1: a stream from {start} to {end} is given {given}, not {expected}")
    outcomes["streamed"] += len(given)


def _added(truth: Truth, version: int) -> list[str]:
    """The files whose rows a version added; none of a version that changed or removed rows."""
    before = truth.shown[version - 1] if version else {}
    adds: list[str] = []
    for kind, action in truth.history[version].actions:
        if kind == "remove" and action["dataChange"]:
            return []
        if kind == "add" and action["dataChange"]:
            if action["path"] in before:
                return []
            adds.append(action["path"])
    return adds


def historian(rounds: int, outcomes: Counter[str], nap_s: float) -> Callable[[Actor], None]:
    """Asks who did what when, and what was newest at a time."""

    def script(actor: Actor) -> None:
        actor.doing = "history"
        log = open_log(actor.env())
        for _ in range(rounds):
            actor.ambient.sleep(actor.ambient.random() * nap_s)
            try:
                _check_history(actor, log, outcomes)
                _check_time(actor, log, outcomes)
            except TROUBLE:
                outcomes["history in trouble"] += 1

    return script


def _check_history(actor: Actor, log: Log, outcomes: Counter[str]) -> None:
    truth = actor.world.truth
    rows = history(log).select(["version", "token", "operation"]).to_pylist()
    versions = [row["version"] for row in rows]
    _expect(actor, versions == sorted(set(versions), reverse=True), f"S2: the history is out of order: {versions}")
    for row in rows:
        known = truth.history[row["version"]]
        told_none = row["token"] is None and row["operation"] is None
        same = told_none or (row["token"], row["operation"]) == (known.token, known.operation)
        _expect(actor, same, f"S2: the history tells {row['operation']} ({row['token']}) of version {known.number}")
    outcomes["told"] += len(rows)


def _check_time(actor: Actor, log: Log, outcomes: Counter[str]) -> None:
    truth = actor.world.truth
    if not truth.history:
        return
    number = int(actor.ambient.random() * len(truth.history))
    until = truth.history[number + 1].time - 1 if number + 1 < len(truth.history) else truth.history[number].time
    time = until if actor.ambient.random() < 0.5 else truth.history[number].time
    try:
        found = version_at(log, time)
    except (VersionExpired, VersionNotFound):
        truth.expired(number)
        outcomes["time expired"] += 1
        return
    _expect(actor, found == number, f"S3: version {found} is told to be newest at {time}, it was {number}")
    outcomes["travelled by time"] += 1


def visitor(writer: Actor, outcomes: Counter[str], *, publishes: bool) -> Callable[[Actor], None]:
    """Reads up to the slot that `writer` is about to fill, asleep from before the read of its file on.

    One that `publishes` is a checkpointer of that version.
    """

    def script(actor: Actor) -> None:
        actor.doing = "visit"
        truth, objects = actor.world.truth, actor.world.objects
        slot = re.compile(r"put_if_absent _transaction_log/([0-9]{20})\.json")
        for _ in range(400):
            found = slot.fullmatch(writer.about_to)
            if found is not None and int(found[1]) < len(truth.history) - 1 and version_key(int(found[1])) in objects:
                break
            actor.ambient.sleep(0.01)
        else:
            return
        version = int(found[1])
        actor.world.sleepers.append(Sleeper(actor, re.compile(f"get {version_key(version)}")))
        try:
            if publishes:
                maybe_checkpoint(actor.env(**{"checkpoint.interval": "1", "cleanup.enabled": "false"}), version)
            truth.read(told(open_log(actor.env()).snapshot(version)))
            outcomes["visited"] += 1
        except VersionExpired:
            truth.expired(version)
            outcomes["visited in vain"] += 1
        except TROUBLE:
            outcomes["visit in trouble"] += 1

    return script


def late_checkpointer(outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Writes the checkpoint of the version that it found when it began, however long that takes it."""

    def script(actor: Actor) -> None:
        actor.doing = "checkpoint late"
        env = actor.env()
        try:
            state = open_log(env).snapshot().state
            write_checkpoint(env, state)
            outcomes["below the cut"] += state.version <= actor.world.truth.cleaned
        except TROUBLE:
            outcomes["late checkpoint in trouble"] += 1

    return script


def protector(rounds: int, outcomes: Counter[str], nap_s: float) -> Callable[[Actor], None]:
    """Protects a version as `protect` does: once it is told that the version is safe, it stays until it lets go."""

    def script(actor: Actor) -> None:
        actor.doing = "protect"
        env = actor.env()
        for _ in range(rounds):
            actor.ambient.sleep(actor.ambient.random() * nap_s)
            try:
                log = open_log(env)
                version = int(actor.ambient.random() * (log.latest_version() + 1))
                held = protect_version(env, version, ttl_ms=PROTECTED_MS)
                await_sweeps(env)
                log.invalidate()
                actor.world.truth.read(told(log.snapshot(version)))
            except TROUBLE:
                outcomes["protect refused"] += 1
                continue
            actor.ambient.sleep(actor.ambient.random() * nap_s)
            _expect_readable(actor, version, outcomes)
            if not actor.dead:
                try:
                    held.release()
                except StoreError:
                    outcomes["not let go"] += 1

    return script


def _expect_readable(actor: Actor, version: int, outcomes: Counter[str]) -> None:
    try:
        actor.world.truth.read(told(open_log(actor.env()).snapshot(version)))
        outcomes["stayed protected"] += 1
    except VersionExpired as error:
        raise Broken(f"seed {actor.world.seed}: P7: version {version} is protected, and has expired: {error}") from None
    except TROUBLE:
        outcomes["protect in trouble"] += 1


def _expect(actor: Actor, holds: bool, message: str) -> None:
    if not holds:
        raise Broken(f"seed {actor.world.seed}: {message}")
