"""Slots that are refilled after cleanup, while streams, histories, old readers and late checkpointers look on.

Nothing else goes wrong here: about every second schedule has a slot that holds what was never committed.
"""

from __future__ import annotations

import random
import re
from collections import Counter

from indextables.errors import VersionExpired
from tests.log.commits import open_log
from tests.sim import schedule, watching
from tests.sim.playing import Report, played
from tests.sim.world import ANY_CALL, CHECKPOINT, COMMIT, Actor, Chances, Sleeper, World

MOST_STEPS = 20_000
SWEEP = re.compile(r"put\S* _transaction_log/_intents/.*")
"""Cleanup says that it deletes, according to the plan that it has made."""


def settle(world: World, outcomes: Counter[str]) -> None:
    """After the storm: as everywhere, and what lies in slots that were refilled is still believed by nobody."""
    schedule.settle(world, outcomes)
    truth = world.truth

    def look(actor: Actor) -> None:
        for version in sorted(set(truth.refilled)):
            try:
                truth.read(watching.told(open_log(actor.env()).snapshot(version)))
            except VersionExpired:
                truth.expired(version)

    world.spawn("visitor", look)
    world.run()


def run(seed: int) -> Report:
    """Play the schedule of a seed to its end. Raises Broken or Stuck, which name the seed."""
    return played(*build(seed), settle, MOST_STEPS)


def build(seed: int) -> tuple[World, Counter[str]]:
    """The world of a seed, before its first step."""
    dice = random.Random(f"haunted {seed}")
    options: dict[str, object] = {
        "checkpoint.interval": "1000000",
        "logRetention.duration": str(schedule.RETENTION_MS),
        "checkpointRetention.duration": "0",
        "state.retention.versions": "1",
        "state.retention.hours": "0",
    }
    world = World(seed, Chances(stall=0.02 if seed % 2 else 0.002), local=dice.random() < 0.5, options=options)
    outcomes: Counter[str] = Counter()
    schedule.populate(world)
    if seed % 2 == 0:
        _dawdle(world, dice, outcomes)
        return world, outcomes
    for number in range(2):
        asleep = world.spawn(f"writer{number}", schedule.writer(["append", "append"], outcomes, "app", 0.5))
        world.sleepers.append(Sleeper(asleep, COMMIT, dice.randrange(2)))
    world.spawn("steady", schedule.writer(["append"] * 5, outcomes, "app", 0.0, pause_s=0.8))
    late = world.spawn("cleaner", schedule.cleaner(4))
    planned = world.spawn("cleaner2", schedule.cleaner(3))
    # A reader that comes between its plan and its deletes is heard.
    world.sleepers.append(Sleeper(planned, SWEEP, dice.randrange(3)))
    if dice.random() < 0.5:
        world.sleepers.append(Sleeper(late, dice.choice((CHECKPOINT, ANY_CALL)), dice.randrange(20)))
    world.spawn("reader", schedule.reader(6))
    for name, watcher in schedule.WATCHERS.items():
        world.spawn(name, watcher(6, outcomes, 1.5))
    return world, outcomes


def _dawdle(world: World, dice: random.Random, outcomes: Counter[str]) -> None:
    """A checkpointer and a writer begin at one version and sleep until cleanup has taken what is above it.

    Then the checkpoint lies below the cut, right below a slot that holds what was never committed.
    """
    world.naps_ms = (2500, 5000)
    world.spawn("first", watching.late_checkpointer(outcomes))
    world.run()
    slow = world.spawn("slow", watching.late_checkpointer(outcomes))
    asleep = world.spawn("writer", schedule.writer(["append", "append"], outcomes, "app"))
    world.sleepers += [Sleeper(slow, CHECKPOINT), Sleeper(asleep, COMMIT)]
    world.spawn("steady", schedule.writer(["append"] * 6, outcomes, "app", 0.5, pause_s=0.8))
    for number in range(2):
        world.spawn(f"cleaner{number}", schedule.cleaner(3))
    for number in range(2):
        world.spawn(f"visitor{number}", watching.visitor(asleep, outcomes, publishes=dice.random() < 0.5))
    name = dice.choice(("follower", "historian"))
    world.spawn(name, schedule.WATCHERS[name](6, outcomes, 1.5))
