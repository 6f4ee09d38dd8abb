"""Threads that share commits, under the simulation: each is told what became of its own rows."""

from __future__ import annotations

import os

import pytest

from tests.sim import sharing
from tests.sim.playing import play

SCHEDULES = int(os.environ.get("INDEXTABLES_SIM_SHARING", "100"))
SOAK = int(os.environ.get("INDEXTABLES_SIM_SHARING_SOAK", "20000"))


def test_no_schedule_tells_a_thread_the_wrong_outcome():
    outcomes = play(sharing, range(SCHEDULES))
    # A generator that never gets there proves nothing.
    for kind in ("shared", "alone", "repeated", "death"):
        assert outcomes[kind] >= SCHEDULES // 15, outcomes
    for kind in ("in doubt", "refused", "sleep", "late"):
        assert outcomes[kind] >= 3, outcomes


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_replays_bit_by_bit(seed):
    assert sharing.run(seed) == sharing.run(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_schedule_of_the_long_run_tells_a_thread_the_wrong_outcome():
    play(sharing, range(10_000_000, 10_000_000 + SOAK))
