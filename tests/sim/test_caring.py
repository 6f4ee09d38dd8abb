"""Care under the simulation: nothing that anybody needs is deleted, and what nobody needs is gone in the end."""

from __future__ import annotations

import logging
import os
from collections import Counter

import pytest

from tests.sim import caring

SCHEDULES = int(os.environ.get("INDEXTABLES_SIM_CARE", "60"))
SOAK = int(os.environ.get("INDEXTABLES_SIM_CARE_SOAK", "20000"))


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Faults are logged by the thousand here."""
    caplog.set_level(logging.CRITICAL, logger="indextables")


def play(seeds: range) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        try:
            outcomes += caring.run(seed).outcomes
        except AssertionError as error:
            pytest.fail(f"{error}\n\n{_tell(seed)}", pytrace=False)
    return outcomes


def test_no_schedule_deletes_what_anybody_needs():
    outcomes = play(range(SCHEDULES))
    # A generator that never gets there proves nothing.
    seen = ("purged", "cut", "truncated", "restored", "too late to restore", "travelled files", "written for long")
    for kind in (*seen, "merged", "removed", "busy"):
        assert outcomes[kind] >= SCHEDULES // 20, outcomes


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_replays_bit_by_bit(seed):
    assert caring.run(seed) == caring.run(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_schedule_of_the_long_run_deletes_what_anybody_needs():
    play(range(10_000_000, 10_000_000 + SOAK))


def _tell(seed: int) -> str:
    """The last steps of a schedule, for the report."""
    world, outcomes = caring.build(seed)
    world.lines = []
    try:
        world.run(80_000)
        caring.settle(world, outcomes)
    except BaseException as error:  # noqa: BLE001 - the story is what is wanted
        world.lines.append(repr(error))
    return "\n".join(world.lines[-60:])
