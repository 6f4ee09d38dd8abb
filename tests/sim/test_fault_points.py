"""Every call of the store of every operation, met by every fault, once and for ever, alone and beside a rival."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from tests.sim import schedule
from tests.sim.world import PUT_FAULTS, Actor, Chances, World

FAULTS = ("die", "die-after", *PUT_FAULTS)
OPTIONS = {
    "state.format": "json",
    "checkpoint.interval": "1000000",
    "logRetention.duration": "0",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
}


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, logger="indextables")


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
    calls: list[str] = []

    def plan(actor: Actor) -> str | None:
        if actor is not victim or ".split" in actor.about_to:
            return None
        calls.append(actor.about_to.split()[0])
        hit = len(calls) >= step if forever else len(calls) == step
        return fault if hit else None

    world.plan = plan
    world.run()
    world.plan = lambda _actor: None
    schedule.settle(world, outcomes)
    return calls


@pytest.mark.parametrize("local", [True, False], ids=["local", "remote"])
@pytest.mark.parametrize("verb", ["create", *schedule.VERB_SCRIPTS, "batch", "read", "clean up"])
def test_a_fault_at_any_call_breaks_nothing(verb, local):
    undisturbed = play(verb, "none", 10**9, forever=False, local=local)
    assert len(undisturbed) >= 3
    for step, call in enumerate(undisturbed, start=1):
        # To a read all faults are alike; a put can also land without an answer, be refused for nothing, or arrive late.
        faults = FAULTS if call.startswith(("put", "delete")) else ("die", "5xx")
        for fault in faults:
            play(verb, fault, step, forever=False, local=local)
        play(verb, "5xx", step, forever=True, local=local)
