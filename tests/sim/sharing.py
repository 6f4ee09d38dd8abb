"""Threads of one process share commits, beside another process that appends, changes the table and cleans up.

Each thread is an actor of its own with a log of its own; what they share is the queue. A thread that dies stands for
one that is stopped: the others of its process go on. Where a thread is told a version, that version holds its file;
where it is refused, none does; where it is in doubt, the token that it was given tells.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import greenlet

from indextables.errors import CommitConflict, CommitStateUnknown, TableNotFound
from indextables.log.commit.sharing import Append, Queue, shareable
from indextables.log.commit.transaction import Transaction
from indextables.log.read.log import Log
from indextables.log.wire.actions import Add, Metadata
from tests.log.commits import open_log
from tests.sim import schedule
from tests.sim.playing import Report, played
from tests.sim.schedule import RETENTION_MS, TROUBLE, cleaner, reader, writer
from tests.sim.truth import Broken
from tests.sim.world import COMMIT, Actor, Chances, Sleeper, World

MOST_STEPS = 40_000
BATCHES = 2


def run(seed: int) -> Report:
    """Play the schedule of a seed to its end. Raises Broken or Stuck, which name the seed."""
    world, outcomes = build(seed)
    return played(world, outcomes, settle, MOST_STEPS)


def build(seed: int) -> tuple[World, Counter[str]]:
    """The world of a seed, before its first step."""
    dice = random.Random(f"sharing {seed}")
    chances = Chances(
        put=dice.choice((0.0, 0.2, 0.5)),
        read=dice.choice((0.0, 0.03)),
        delete=dice.choice((0.0, 0.4)),
        stale=dice.choice((0.0, 0.3)),
        die=dice.choice((0.0, 0.01, 0.03)),
        stall=dice.choice((0.0, 0.1)),
    )
    options = {
        "state.format": "json",
        "checkpoint.interval": dice.choice(("1000000", "3")),
        "logRetention.duration": str(RETENTION_MS),
        "checkpointRetention.duration": "0",
        "state.retention.versions": "1",
        "state.retention.hours": "0",
    }
    world = World(seed, chances, local=dice.random() < 0.5, options=options)
    outcomes: Counter[str] = Counter()
    schedule.populate(world)
    process = Process(world)
    for number in range(dice.choice((2, 3, 4))):
        world.spawn(f"thread{number}", thread(process, dice.choice((2, 3)), outcomes))
    others = [dice.choice(("append", "property", "rewrite")) for _ in range(2)]
    world.spawn("writer", writer(others, outcomes, "other"), lives=2)
    if dice.random() < 0.4:
        world.sleepers = [Sleeper(dice.choice(world.actors), COMMIT)]
    world.spawn("cleaner", cleaner(dice.choice((0, 1, 2))))
    world.spawn("reader", reader(2))
    world.process = process  # type: ignore[attr-defined] - for `settle`
    return world, outcomes


class Process:
    """What its threads share: the queue, and which files were written for which batch."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queue = Queue(self._gate, greenlet.getcurrent)
        self.batches: dict[int, set[str]] = {number: set() for number in range(BATCHES)}

    def _gate(self) -> _Gate:
        current = greenlet.getcurrent()
        return _Gate(next(actor for actor in self.world.actors if actor.greenlet is current))


class _Gate:
    """A thread that waits lets the others go on."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._is_open = False

    def set(self) -> None:
        self._is_open = True

    def wait(self) -> None:
        while not self._is_open:
            self._actor.ambient.sleep(0.005)


def thread(process: Process, rounds: int, outcomes: Counter[str]) -> Callable[[Actor], None]:
    def script(actor: Actor) -> None:
        log = open_log(actor.env())
        for _ in range(rounds):
            actor.doing = "append together"
            batch = int(actor.ambient.random() * BATCHES) if actor.ambient.random() < 0.3 else None
            try:
                metadata = log.metadata_at().metadata
            except (TableNotFound, *TROUBLE):
                continue
            file = schedule._file(actor)
            if batch is not None:
                process.batches[batch].add(file.path)
            txn = None if batch is None else ("app", batch)
            _append(actor, process, log, file, metadata, txn, outcomes)

    return script


def _append(
    actor: Actor,
    process: Process,
    log: Log,
    file: Add,
    metadata: Metadata,
    txn: tuple[str, int] | None,
    outcomes: Counter[str],
) -> None:
    def stage(adds: list[Add]) -> Transaction:
        made = Transaction(log, operation="WRITE", table_id=metadata.id, written_for=metadata).add(adds)
        return made if alike is not None or txn is None else made.set_txn(*txn)

    alike: Append | None = shareable([file], metadata, txn=txn, user_metadata=None, changes_table=False)
    truth = actor.world.truth
    try:
        if alike is None:
            committed = stage([file]).commit_or_raise()
        else:
            committed = process.queue.commit(alike, stage, log.url).committed
    except CommitStateUnknown as doubt:
        outcomes["in doubt"] += 1
        truth.unknown(doubt.token, doubt.version)
    except (CommitConflict, *TROUBLE):
        outcomes["refused"] += 1
        if any(file.path in version.adds for version in truth.history):
            raise Broken(f"seed {actor.world.seed}: S2: {file.path} is refused and is in the log") from None
    else:
        if committed.repeated:
            outcomes["repeated"] += 1
            return
        truth.committed(committed.version, committed.token)
        held = truth.history[committed.version].adds
        if file.path not in held:
            raise Broken(f"seed {actor.world.seed}: S1: version {committed.version} holds {held}, not {file.path}")
        outcomes["shared" if len(held) > 1 else "alone"] += 1


def settle(world: World, outcomes: Counter[str]) -> None:
    """After the storm: as in every schedule, and no file and no batch is in the table twice."""
    process: Process = world.process  # type: ignore[attr-defined]
    schedule.settle(world, outcomes)
    written = [path for version in world.truth.history for path in version.adds]
    twice = [path for path, times in Counter(written).items() if times > 1]
    if twice:
        raise Broken(f"seed {world.seed}: S4: {twice} are committed more than once")
    for number, paths in process.batches.items():
        found = [path for path in written if path in paths]
        if len(found) > 1:
            raise Broken(f"seed {world.seed}: S3: batch {number} is in the table as {found}")
