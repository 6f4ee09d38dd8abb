"""Calls of the store of purge, truncate and restore, met by faults, once and for ever, beside a writer.

`make test` plays a sample: of all pairs of a call and a fault, in their order, every fifth. `make soak` plays them all.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from indextables.log.care.schedule import checkpoint
from indextables.log.commit.transaction import Transaction
from indextables.log.wire.actions import Remove
from tests.log.commits import open_log
from tests.sim import caring
from tests.sim.merging import RETENTION_S, appender
from tests.sim.playing import faults_of, run_with_fault
from tests.sim.world import Actor, Chances, World

EVERY = int(os.environ.get("INDEXTABLES_CARE_FAULTS_EVERY", "5"))
"""How many pairs of a call and a fault one that is played stands for, outside of `make soak`."""

OPTIONS = {
    "state.format": "json",
    "checkpoint.interval": "1000000",
    "logRetention.duration": str(RETENTION_S * 1000),
    "checkpointRetention.duration": "0",
    "state.retention.versions": "1",
    "state.retention.hours": "0",
}


def old_table(actor: Actor) -> None:
    """Six versions and their checkpoints, orphans, all of it older than anything is kept."""
    caring._make(actor)
    log = open_log(actor.env())
    for _ in range(2):
        snapshot = log.snapshot()
        path = snapshot.files["path"][0].as_py()
        Transaction(log, snapshot, operation="DELETE").remove([Remove(path, dataChange=True)]).commit_or_raise()
        checkpoint(actor.env())
        actor.ambient.sleep(3 * RETENTION_S)


def play(verb: str, fault: str, step: int, *, forever: bool, local: bool) -> list[str]:
    """The calls that the verb made, with the fault at one of them (from 1) or from there on. Raises Broken."""
    world = World(5, Chances(), local=local, options=OPTIONS)
    world.truth = caring.CareTruth(world)
    outcomes: Counter[str] = Counter()
    maker = world.spawn("maker", old_table)
    world.run()
    world.actors.remove(maker)
    scripts = {
        "purge": caring.purger(1, outcomes, dry_share=0),
        "truncate": caring.truncater(outcomes),
        "restore": caring.restorer(1, outcomes),
    }
    victim = world.spawn("victim", scripts[verb])
    world.spawn("rival", appender(1, outcomes))
    calls = run_with_fault(world, victim, fault, step, forever=forever)
    caring.settle(world, outcomes)
    return calls


def play_all(verb: str, every: int, *, local: bool) -> int:
    undisturbed = play(verb, "none", 10**9, forever=False, local=local)
    played = turn = 0
    for step, call in enumerate(undisturbed, start=1):
        for fault, forever in [*((fault, False) for fault in faults_of(call)), ("5xx", True)]:
            turn += 1
            if turn % every == 0:
                play(verb, fault, step, forever=forever, local=local)
                played += 1
    return played


@pytest.mark.parametrize("local", [True, False], ids=["local", "remote"])
@pytest.mark.parametrize("verb", ["purge", "truncate", "restore"])
def test_a_fault_at_a_sample_of_the_calls_of_care_breaks_nothing(verb, local, record_property):
    played = play_all(verb, EVERY, local=local)
    record_property("sample", f"every {EVERY}th pair of a call and a fault: {played} of them")
    assert played >= 10


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("local", [True, False], ids=["local", "remote"])
@pytest.mark.parametrize("verb", ["purge", "truncate", "restore"])
def test_a_fault_at_every_single_call_of_care_breaks_nothing(verb, local):
    assert play_all(verb, 1, local=local) >= 30
