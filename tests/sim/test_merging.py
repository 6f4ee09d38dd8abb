"""Merge splits under the simulation: no row is lost, doubled or moved, no file that anybody needs is deleted."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.sim import merging
from tests.sim.playing import faults_of, play, run_with_fault

SCHEDULES = int(os.environ.get("INDEXTABLES_SIM_MERGES", "80"))
SOAK = int(os.environ.get("INDEXTABLES_SIM_MERGE_SOAK", "20000"))


def test_no_schedule_loses_doubles_or_moves_a_row():
    outcomes = play(merging, range(SCHEDULES))
    # A generator that never gets there proves nothing.
    for kind in ("merged", "given up", "carried", "skipped", "purged", "deleted", "old files read"):
        assert outcomes[kind] >= SCHEDULES // 20, outcomes
    for kind in ("sleep", "refilled", "late", "delete-late", "torn-list", "stale-list", "death", "stall"):
        assert outcomes[kind] >= SCHEDULES // 60, outcomes


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_replays_bit_by_bit(seed):
    assert merging.run(seed) == merging.run(seed)


OPTIONS = {
    "state.format": "json",
    "checkpoint.interval": "1000000",
    "logRetention.duration": "100000",
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
}


def meet(fault: str, step: int, *, forever: bool, local: bool) -> list[str]:
    """The calls of a merge beside an append and a delete, with the fault at one of them (from 1) or from there on."""
    world = merging.small_world(5, OPTIONS, local=local)
    outcomes: Counter[str] = Counter()
    victim = world.spawn("victim", merging.merger(1, outcomes))
    world.spawn("appender", merging.appender(1, outcomes))
    world.spawn("deleter", merging.deleter(1, outcomes))
    calls = run_with_fault(world, victim, fault, step, forever=forever, most=merging.MOST_STEPS)
    merging.settle(world, outcomes)
    return calls


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("local", [True, False], ids=["local", "remote"])
def test_a_fault_at_any_call_of_a_merge_breaks_nothing(local):
    undisturbed = meet("none", 10**9, forever=False, local=local)
    assert len(undisturbed) >= 20
    for step, call in enumerate(undisturbed, start=1):
        for fault in faults_of(call):
            meet(fault, step, forever=False, local=local)
        meet("5xx", step, forever=True, local=local)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_schedule_of_the_long_run_loses_a_row():
    play(merging, range(10_000_000, 10_000_000 + SOAK))
