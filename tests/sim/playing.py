"""Playing schedules by their seeds, and single faults by the number of a call; what the tests of every script share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.sim.truth import Broken
from tests.sim.world import PUT_FAULTS, Actor, World

FAULTS = ("die", "die-after", *PUT_FAULTS)


def play(script: ModuleType, seeds: range) -> Counter[str]:
    """What the schedules of a script came to, all together; the first that breaks a promise fails the test."""
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        try:
            outcomes += script.run(seed).outcomes
        except AssertionError as error:
            pytest.fail(f"{error}\n\n{tell(script, seed)}", pytrace=False)
    return outcomes


class Report(NamedTuple):
    """What one schedule came to."""

    seed: int
    trace: str
    outcomes: Counter[str]


def played(
    world: World, outcomes: Counter[str], settle: Callable[[World, Counter[str]], None], most_steps: int
) -> Report:
    """Play a world to its end and look at what is left. Raises Broken or Stuck, which name the seed."""
    try:
        world.run(most_steps)
        settle(world, outcomes)
    except Exception as error:
        if not isinstance(error, AssertionError):
            raise Broken(f"seed {world.seed}: {type(error).__name__}: {error}") from error
        raise
    return Report(world.seed, world.trace.hexdigest(), outcomes + world.happened())


def faults_of(call: str) -> tuple[str, ...]:
    """What can befall a call: to a read all faults are alike, a put can also land unseen, be refused, or come late."""
    return FAULTS if call.startswith(("put", "delete")) else ("die", "5xx")


def run_with_fault(
    world: World, victim: Actor, fault: str, step: int, *, forever: bool, most: int = 20_000, spared: str = "\0"
) -> list[str]:
    """The calls that the victim made, with the fault at one of them (from 1) or from there on.

    Calls whose text holds `spared` are neither counted nor disturbed. Afterwards the world has no plan.
    """
    calls: list[str] = []
    hits = 0

    def plan(actor: Actor) -> str | None:
        if actor is not victim or spared in actor.about_to:
            return None
        calls.append(actor.about_to.split()[0])
        hit = len(calls) >= step if forever else len(calls) == step
        nonlocal hits
        hits += hit
        return fault if hit else None

    world.plan = plan
    world.run(most)
    world.plan = lambda _actor: None
    if fault != "none" and not hits:
        raise AssertionError(f"seed {world.seed}: {fault} at call {step} did not happen: {len(calls)} calls were made")
    return calls


def retold(script: ModuleType, seed: int) -> tuple[World, Counter[str], BaseException | None]:
    """A schedule played once more, with a line for every step; and what ended it, if something did."""
    world, outcomes = script.build(seed)
    world.lines = []
    try:
        world.run(script.MOST_STEPS)
        script.settle(world, outcomes)
    except BaseException as error:  # noqa: BLE001 - the story is what is wanted
        world.lines.append(repr(error))
        return world, outcomes, error
    return world, outcomes, None


def tell(script: ModuleType, seed: int) -> str:
    """The last steps of a schedule, for the report."""
    return "\n".join((retold(script, seed)[0].lines or [])[-60:])
