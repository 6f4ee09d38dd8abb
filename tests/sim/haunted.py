"""Slots that are refilled after cleanup, while streams, histories, old readers and late checkpointers look on.

Nothing else goes wrong here: about every second schedule has a slot that holds what was never committed.
"""

from __future__ import annotations

import random
from collections import Counter

from tests.sim import schedule
from tests.sim.merging import Report
from tests.sim.truth import Broken
from tests.sim.world import ANY_CALL, CHECKPOINT, COMMIT, Chances, Sleeper, World

MOST_STEPS = 20_000
settle = schedule.settle


def run(seed: int) -> Report:
    """Play the schedule of a seed to its end. Raises Broken or Stuck, which name the seed."""
    world, outcomes = build(seed)
    try:
        world.run(MOST_STEPS)
        settle(world, outcomes)
    except Exception as error:
        if not isinstance(error, AssertionError):
            raise Broken(f"seed {seed}: {type(error).__name__}: {error}") from error
        raise
    return Report(seed, world.trace.hexdigest(), outcomes + world.happened())


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
    world = World(seed, Chances(stall=0.02), local=dice.random() < 0.5, options=options)
    outcomes: Counter[str] = Counter()
    schedule.populate(world)
    for number in range(2):
        asleep = world.spawn(f"writer{number}", schedule.writer(["append", "append"], outcomes, "app", 0.5))
        world.sleepers.append(Sleeper(asleep, COMMIT, dice.randrange(2)))
    world.spawn("steady", schedule.writer(["append"] * 5, outcomes, "app", 0.0, pause_s=0.8))
    late = world.spawn("cleaner", schedule.cleaner(4))
    world.spawn("cleaner2", schedule.cleaner(3))
    if dice.random() < 0.5:
        world.sleepers.append(Sleeper(late, dice.choice((CHECKPOINT, ANY_CALL)), dice.randrange(20)))
    world.spawn("reader", schedule.reader(6))
    for name, watcher in schedule.WATCHERS.items():
        world.spawn(name, watcher(6, outcomes, 1.5))
    return world, outcomes
