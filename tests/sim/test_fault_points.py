"""Every call of the store of every operation, met by every fault, once and for ever, alone and beside a rival."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim import schedule
from tests.sim.playing import faults_of, run_with_fault
from tests.sim.world import Chances, World

OPTIONS = {
    "state.format": "json",
    "checkpoint.interval": "1000000",
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
}


def play(verb: str, fault: str, step: int, *, forever: bool, local: bool) -> list[str]:
    """The calls that the operation made, with the fault at one of them (from 1) or from there on. Raises Broken."""
    world = World(5, Chances(), local=local, options=OPTIONS)
    outcomes: Counter[str] = Counter()
    if verb != "create":
        maker = world.spawn("maker", schedule.make)
        world.run()
        world.actors.remove(maker)
    scripts = {"create": schedule.create, "read": schedule.reader(2), "clean up": schedule.cleaner(1)}
    victim = world.spawn("victim", scripts.get(verb) or schedule.writer([verb], outcomes, "app"))
    if verb != "create":
        world.spawn("rival", schedule.writer(["append"], outcomes, "other"))
    calls = run_with_fault(world, victim, fault, step, forever=forever, spared=".split")
    schedule.settle(world, outcomes)
    return calls


@pytest.mark.parametrize("local", [True, False], ids=["local", "remote"])
@pytest.mark.parametrize("verb", ["create", *schedule.VERB_SCRIPTS, "batch", "read", "clean up"])
def test_a_fault_at_any_call_breaks_nothing(verb, local):
    undisturbed = play(verb, "none", 10**9, forever=False, local=local)
    assert len(undisturbed) >= 3
    for step, call in enumerate(undisturbed, start=1):
        for fault in faults_of(call):
            play(verb, fault, step, forever=False, local=local)
        play(verb, "5xx", step, forever=True, local=local)
