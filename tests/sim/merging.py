"""Merge splits among appends, deletes, purges, checkpoints and readers of old versions, in an order that a seed fixes.

A split here is an object that lists the numbers of its rows, so that what can be seen at any version is known exactly.
Planning, committing, skipping, intents and leases are the library's; only the reading and writing of split files is
done by a runner of ours.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from indextables.errors import (
    CommitConflict,
    CommitStateUnknown,
    IndexTablesError,
    LogError,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from indextables.log.care.intents import protect_version
from indextables.log.commit.create import create_table
from indextables.log.commit.transaction import Transaction
from indextables.log.read.log import Log, Snapshot
from indextables.log.wire.actions import Add, DeletionVector, Metadata, Remove
from indextables.split.file import dv
from indextables.split.write.merge import Broken as BrokenSource
from indextables.table.maintenance.purge.verb import purge
from indextables.table.merge.unit import MergeAnswer, MergeUnit, Piece
from indextables.table.merge.verb import merge_splits
from indextables.table.read.order import POSITION, position_tag, positions
from indextables.table.requests import MergeSplits, Purge
from indextables.table.running import Answer, Job, Threads
from tests.log.commits import open_log
from tests.sim.playing import Report, played
from tests.sim.schedule import SCHEMA, TROUBLE, cleaner
from tests.sim.truth import Broken, Truth, Version
from tests.sim.watching import told
from tests.sim.world import COMMIT, Actor, Chances, Sleeper, World
from tests.world.commits import append

RETENTION_S = 10
"""Longer than any writer here sleeps between its data and its commit, shorter than a merge may take."""

REFUSED = (*TROUBLE, CommitConflict, CommitStateUnknown)
MOST_STEPS = 60_000
BROKEN = b"these bytes are no split"


NAPS_MS = (4_000 * RETENTION_S, 8_000 * RETENTION_S)
"""How long a sleeper sleeps: until what it was about to follow is committed, covered and cleaned up."""


class RowTruth(Truth):
    """Also knows the rows: every version's, in their order, and the objects that may not go."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.contents: dict[str, bytes] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.added_at: dict[str, tuple[int, int]] = {}
        self.rows: list[list[int]] = []
        self.leased: Counter[int] = Counter()
        self.live_files: list[dict[str, dict[str, Any]]] = []

    def landing(self, key: str, data: bytes) -> None:
        super().landing(key, data)
        self._keep(key, data)

    def replacing(self, key: str) -> None:
        super().replacing(key)

    def put(self, key: str, data: bytes) -> None:
        """A data file is written."""
        self._keep(key, data)

    def deleted(self, key: str) -> None:
        super().deleted(key)
        if key.endswith(".split"):
            self._expect(not self.live or key not in self.live[-1], f"P1: {key} is live and is deleted")
            for version, leases in self.leased.items():
                held = leases and any(key in live for live in self.live[version:])
                self._expect(not held, f"P1: {key} is deleted, and a reader of version {version} holds it")

    def _keep(self, key: str, data: bytes) -> None:
        if key.endswith(".split"):
            self.contents[key] = bytes(data)

    def _commit(self, version: Version) -> None:
        super()._commit(version)
        before = self.rows[-1] if self.rows else []
        for line, (kind, action) in enumerate(version.actions):
            if kind == "remove":
                known = self.files.pop(action["path"])
                same = known.get("deletionVector") == action.get("deletionVector")
                self._expect(same, f"L9: version {version.number} removes {action['path']} with another vector")
            elif kind == "add":
                self.files[action["path"]] = action
                self.added_at[action["path"]] = (version.number, line)
        rows = [row for path in sorted(self.files, key=self._place) for row in self._rows(path)]
        self._expect(len(rows) == len(set(rows)), f"D5: version {version.number} shows a row twice")
        if version.operation == "MERGE SPLITS":
            self._expect(rows == before, f"D5: version {version.number} merges {before} to {rows}")
        elif version.operation == "DELETE":
            self._expect(set(rows) < set(before), f"D3: version {version.number} does not delete")
        elif version.operation == "WRITE":
            self._expect(rows[: len(before)] == before, f"L2: version {version.number} loses rows")
        elif version.operation in {"SKIP", "PURGE", "PURGE INDEXTABLE"}:
            self._expect(rows == before, f"{version.operation} of version {version.number} changes rows")
        self.rows.append(rows)
        self.live_files.append(dict(self.files))

    def _place(self, path: str) -> tuple[int, int, int, int]:
        tag = (self.files[path].get("tags") or {}).get(POSITION)
        at = self.added_at[path]
        place = at if tag is None else tuple(int(part) for part in tag.split("."))
        return (*place, *at)  # type: ignore[return-value]

    def _rows(self, path: str) -> list[int]:
        return live_rows(self.contents[path], self.files[path].get("deletionVector"))


def live_rows(data: bytes, vector: dict[str, Any] | DeletionVector | None) -> list[int]:
    """The rows of an object that its vector leaves."""
    rows = json.loads(data)
    if vector is None:
        return rows
    told = vector if isinstance(vector, DeletionVector) else msgspec.convert(vector, DeletionVector)
    gone = set(dv.decode(dv.z85_decode(told.pathOrInlineDv)[: told.sizeInBytes], len(rows), "split"))
    return [row for number, row in enumerate(rows) if number not in gone]


class SimRunner:
    """Merges listed rows, one unit after the other, with all the time in the world between reading and answering."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._threads = Threads(actor.env())

    @property
    def width(self) -> int:
        return 1

    def run(self, job: Job, units: Sequence[bytes]) -> list[Answer]:
        if job.__name__ != "merge_unit":
            return self._threads.run(job, units)
        answers: list[Answer] = []
        for unit in units:
            try:
                answers.append(self._merged(msgspec.msgpack.decode(unit, type=MergeUnit)))
            except IndexTablesError as error:
                answers.append(error)
        return answers

    def _merged(self, unit: MergeUnit) -> bytes:
        actor = self._actor
        pieces: list[Piece] = []
        broken: list[BrokenSource] = []
        run: list[tuple[int, list[int], int]] = []
        for place, source in enumerate(unit.sources):
            try:
                data = actor.store.get(source.path)
            except ObjectNotFound as error:
                data = BROKEN
                actor.world.note(actor, "source is gone", source.path, error)
            if data == BROKEN:
                broken.append(BrokenSource(source.path, "broken"))
                self._end_piece(run, pieces)
                run = []
            else:
                rows = live_rows(data, source.vector)
                run.append((place, rows, len(json.loads(data)) - len(rows)))
        self._end_piece(run, pieces)
        actor.ambient.sleep(actor.ambient.random() * 2 * RETENTION_S)
        return msgspec.msgpack.encode(MergeAnswer(pieces, broken))

    def _end_piece(self, run: list[tuple[int, list[int], int]], pieces: list[Piece]) -> None:
        if len(run) < 2:
            return
        rows = [row for _, part, _ in run for row in part]
        adds = [put_rows(self._actor, rows, data_change=False)] if rows else []
        pieces.append(Piece(run[0][0], [len(part) for _, part, _ in run], adds, sum(gone for _, _, gone in run)))


def put_rows(actor: Actor, rows: list[int], *, data_change: bool = True, content: bytes | None = None) -> Add:
    """A durable data file. Raises StoreUnavailable."""
    path = f"splits/split-{actor.ambient.token()}.split"
    data = json.dumps(rows).encode() if content is None else content
    truth = actor.world.truth
    assert isinstance(truth, RowTruth)
    truth.put(path, json.dumps(rows).encode())
    made_ms = actor.ambient.now_ms()
    for _ in range(5):
        try:
            actor.store.put(path, data)
        except StoreUnavailable:
            if path not in actor.world.objects:
                continue
        return Add(path, {}, len(data), made_ms, dataChange=data_change, numRecords=len(rows))
    raise StoreUnavailable(f"{path} cannot be put", key=path)


def appender(
    count: int, outcomes: Counter[str], pause_s: float = 1.0, *, delay_s: float = 0.0
) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        actor.doing = "append"
        log = open_log(actor.env())
        if delay_s:
            actor.ambient.sleep(delay_s)
        for _ in range(count):
            rows = [_next_row(actor) for _ in range(1 + int(actor.ambient.random() * 3))]
            damaged = actor.ambient.random() < 0.1
            try:
                done = append(log, [put_rows(actor, rows, content=BROKEN if damaged else None)])
                actor.world.truth.committed(done.version, done.token)
                outcomes["appended"] += 1
            except CommitStateUnknown as unknown:
                actor.world.truth.unknown(str(unknown.token), int(str(unknown.version)))
            except REFUSED:
                outcomes["append in trouble"] += 1
            actor.ambient.sleep(actor.ambient.random() * pause_s)

    return script


def deleter(count: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Deletes rows by vector, as an update or a delete does; the file keeps its place."""

    def script(actor: Actor) -> None:
        actor.doing = "delete"
        log = open_log(actor.env())
        for _ in range(count):
            actor.ambient.sleep(actor.ambient.random() * 3)
            try:
                outcomes["deleted" if _delete_one(actor, log) else "nothing to delete"] += 1
            except REFUSED:
                outcomes["delete refused"] += 1

    return script


def _delete_one(actor: Actor, log: Log) -> bool:
    truth = actor.world.truth
    assert isinstance(truth, RowTruth)
    snapshot = log.snapshot()
    files = snapshot.files.to_pylist()
    if not files:
        return False
    number = int(actor.ambient.random() * len(files))
    file = files[number]
    rows = json.loads(truth.contents[file["path"]])
    left = live_rows(truth.contents[file["path"]], file["deletionVector"])
    if not left:
        return False
    goes = left[int(actor.ambient.random() * len(left))]
    gone = [n for n, row in enumerate(rows) if row not in left or row == goes]
    made = dv.inline(dv.encode(gone))
    place = [int(part[number]) for part in positions(snapshot.files)]
    before = None if file["deletionVector"] is None else msgspec.convert(file["deletionVector"], DeletionVector)
    add = Add(
        file["path"],
        {},
        file["size"],
        1,
        dataChange=True,
        numRecords=file["numRecords"],
        tags=position_tag(*place),
        deletionVector=DeletionVector(**msgspec.structs.asdict(made)),
        baseRowId=file["baseRowId"],
    )
    remove = Remove(file["path"], dataChange=True, deletionVector=before)
    Transaction(log, snapshot, operation="DELETE").read_files([file["path"]]).remove([remove]).add(
        [add]
    ).commit_or_raise()
    return True


def merger(count: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        actor.doing = "merge"
        env = actor.env()
        log = open_log(env)
        for _ in range(count):
            actor.ambient.sleep(actor.ambient.random() * 4)
            sources = 2 + int(actor.ambient.random() * 4)
            try:
                report = merge_splits(log, MergeSplits(max_source_splits_per_merge=sources), runner=SimRunner(actor))
            except REFUSED as error:
                outcomes[f"merge: {type(error).__name__}"] += 1
                continue
            outcomes["merged"] += report.merged_groups
            outcomes["given up"] += report.given_up
            outcomes["carried"] += report.carried_vectors
            outcomes["skipped"] += len(report.skipped)
            outcomes["cooling"] += report.cooling
            outcomes["failed"] += len(report.failed)

    return script


def purger(count: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        actor.doing = "purge"
        log = open_log(actor.env())
        for _ in range(count):
            actor.ambient.sleep(RETENTION_S * (1 + actor.ambient.random()))
            hours = RETENTION_S / 3600
            try:
                report = purge(
                    log,
                    Purge(older_than_hours=hours, tx_log_retention_hours=hours, force=True),
                    runner=Threads(actor.env()),
                )
            except REFUSED:
                outcomes["purge refused"] += 1
                continue
            outcomes["purged"] += report.count("split")

    return script


def old_reader(count: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    """Holds a version by an intent and reads its files one by one, with all the time that the intent gives it."""

    def script(actor: Actor) -> None:
        actor.doing = "read old"
        env = actor.env()
        log = open_log(env)
        truth = actor.world.truth
        assert isinstance(truth, RowTruth)
        for _ in range(count):
            actor.ambient.sleep(actor.ambient.random() * 5)
            held = None
            try:
                snapshot = log.snapshot()
                held = protect_version(env, snapshot.version, ttl_ms=3_600_000)
                # The intent counts from here on: what is live now cannot go any more.
                snapshot = log.snapshot(log.latest_version())
                truth.leased[snapshot.version] += 1
                _read_slowly(actor, snapshot, outcomes)
            except (StoreError, LogError):
                outcomes["read refused"] += 1
            finally:
                if held is not None and not actor.dead:
                    if truth.leased[snapshot.version]:
                        truth.leased[snapshot.version] -= 1
                    held.release()

    return script


def _read_slowly(actor: Actor, snapshot: Snapshot, outcomes: Counter[str]) -> None:
    truth = actor.world.truth
    assert isinstance(truth, RowTruth)
    for path in snapshot.files["path"].to_pylist():
        actor.ambient.sleep(actor.ambient.random() * RETENTION_S)
        try:
            data = actor.store.get(path)
        except ObjectNotFound:
            raise Broken(f"seed {actor.world.seed}: P7: {path} of version {snapshot.version} is gone") from None
        if data not in {truth.contents[path], BROKEN}:
            raise Broken(f"seed {actor.world.seed}: P7: {path} has changed")
        outcomes["old files read"] += 1


def run(seed: int) -> Report:
    """Play the schedule of a seed to its end. Raises Broken or Stuck, which name the seed."""
    return played(*build(seed), settle, MOST_STEPS)


def small_world(seed: int, options: dict[str, object], *, local: bool) -> World:
    """A table of four files in a quiet world, before anything else happens."""
    world = World(seed, Chances(), local=local, options=options)
    world.truth = RowTruth(world)
    maker = world.spawn("maker", _make)
    world.run()
    world.actors.remove(maker)
    return world


def build(seed: int) -> tuple[World, Counter[str]]:
    dice = random.Random(f"merging {seed}")
    options: dict[str, object] = {
        "state.format": dice.choice(("json", "json", "json", "avro")),
        "checkpoint.interval": dice.choice(("1000000", "3")),
        "logRetention.duration": str(RETENTION_S * 1000),
        "checkpointRetention.duration": "0",
        "state.retention.versions": "1",
        "state.retention.hours": "0",
        "state.gc.minManifestAgeHours": "0",
        "merge.groupsPerCommit": dice.choice(("0", "1")),
        "skippedFiles.cooldownDuration": dice.choice(("0", "24")),
        "transaction.retry.maxAttempts": dice.choice(("10", "3")),
    }
    world = small_world(seed, options, local=dice.random() < 0.5)
    outcomes: Counter[str] = Counter()
    if dice.random() < 0.85:
        world.chances = Chances(
            put=dice.choice((0.0, 0.1, 0.3)),
            read=dice.choice((0.0, 0.0, 0.02)),
            delete=dice.choice((0.0, 0.3)),
            stale=dice.choice((0.0, 0.2)),
            torn=dice.choice((0.0, 0.2)),
            die=dice.choice((0.0, 0.005, 0.02)),
            stall=dice.choice((0.0, 0.05, 0.1)),
        )
    world.spawn("appender", appender(dice.choice((2, 4, 6)), outcomes), lives=2)
    world.spawn("deleter", deleter(dice.choice((1, 3, 5)), outcomes), lives=2)
    for number in range(dice.choice((1, 1, 2))):
        world.spawn(f"merger{number}", merger(dice.choice((1, 2, 3)), outcomes), lives=3)
    world.spawn("purger", purger(dice.choice((2, 3, 4)), outcomes), lives=2)
    world.naps_ms = NAPS_MS
    if dice.random() < 0.7:
        # A table goes on while somebody sleeps.
        world.spawn("cleaner", cleaner(dice.choice((2, 3)), RETENTION_S * 1000), lives=2)
        world.spawn("steady", appender(4, outcomes, RETENTION_S), lives=2)
        sleepy = [a for a in world.actors if a.name.startswith(("deleter", "merger"))]
        world.sleepers = [Sleeper(dice.choice(sleepy), COMMIT, dice.randrange(2))]
    if dice.random() < 0.7:
        world.spawn("reader", old_reader(dice.choice((1, 2)), outcomes))
    return world, outcomes


def settle(world: World, outcomes: Counter[str]) -> None:
    """After the storm: what can be seen is what happened, and every file of it is there; a last merge converges."""
    world.chances = Chances()
    world.land_all()
    truth = world.truth
    assert isinstance(truth, RowTruth)
    truth.leased.clear()

    def look(actor: Actor) -> None:
        log = open_log(actor.env())
        merge_splits(log, MergeSplits(), runner=SimRunner(actor))
        again = merge_splits(log, MergeSplits(), runner=SimRunner(actor))
        if again.merged_groups:
            raise Broken(f"seed {world.seed}: a second merge finds {again.merged_groups} groups")
        snapshot = log.snapshot()
        paths = snapshot.files["path"].to_pylist()
        truth.read(told(snapshot))
        for path in paths:
            if path not in world.objects:
                raise Broken(f"seed {world.seed}: P1: {path} is live and is not there")

    world.actors = []
    world.spawn("last", look)
    world.run(MOST_STEPS)
    outcomes["versions"] += len(truth.history)


def _make(actor: Actor) -> None:
    log = open_log(actor.env())
    create_table(log, Metadata(id=actor.ambient.token(), schemaString=SCHEMA, createdTime=1))
    for _ in range(4):
        append(log, [put_rows(actor, [_next_row(actor) for _ in range(2)])])


def _next_row(actor: Actor) -> int:
    actor.world._row = getattr(actor.world, "_row", -1) + 1  # type: ignore[attr-defined]
    return actor.world._row  # type: ignore[attr-defined,no-any-return]
