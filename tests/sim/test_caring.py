"""Care under the simulation: nothing that anybody needs is deleted, and what nobody needs is gone in the end."""

from __future__ import annotations

import os

import pytest

from tests.sim import caring
from tests.sim.playing import play

SCHEDULES = int(os.environ.get("INDEXTABLES_SIM_CARE", "60"))
SOAK = int(os.environ.get("INDEXTABLES_SIM_CARE_SOAK", "20000"))


def test_no_schedule_deletes_what_anybody_needs():
    outcomes = play(caring, range(SCHEDULES))
    # A generator that never gets there proves nothing.
    seen = ("purged", "cut", "truncated", "restored", "too late to restore", "travelled files", "written for long")
    for kind in (*seen, "merged", "removed", "busy"):
        assert outcomes[kind] >= SCHEDULES // 20, outcomes
    for kind in ("written unannounced", "taken from its writer", "in the way of a purge"):
        assert outcomes[kind] >= SCHEDULES // 20, outcomes
    for kind in ("sleep", "refilled", "late", "delete-late", "torn-list", "stale-list", "death", "stall"):
        assert outcomes[kind] >= SCHEDULES // 60, outcomes


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_replays_bit_by_bit(seed):
    assert caring.run(seed) == caring.run(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_schedule_of_the_long_run_deletes_what_anybody_needs():
    play(caring, range(10_000_000, 10_000_000 + SOAK))
