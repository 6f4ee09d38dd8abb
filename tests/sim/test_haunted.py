"""Refilled slots under the simulation: nobody is shown what was never committed."""

from __future__ import annotations

import os

import pytest

from tests.sim import haunted
from tests.sim.playing import play

SCHEDULES = int(os.environ.get("INDEXTABLES_SIM_HAUNTED", "60"))
SOAK = int(os.environ.get("INDEXTABLES_SIM_HAUNTED_SOAK", "50000"))


def test_nobody_is_shown_what_was_never_committed():
    outcomes = play(haunted, range(SCHEDULES))
    # A generator that never gets there proves nothing.
    for kind in ("refilled", "sleep", "streamed", "told", "travelled by time", "time expired", "stayed protected"):
        assert outcomes[kind] >= SCHEDULES // 4, outcomes
    # Every second one has a late checkpoint, a visitor that slept, and at times both and a refilled slot above it.
    for kind in ("below the cut", "visited in vain"):
        assert outcomes[kind] >= SCHEDULES // 4, outcomes
    assert outcomes["stream expired"] >= SCHEDULES // 40, outcomes
    assert not outcomes["Unknown"], outcomes


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_replays_bit_by_bit(seed):
    assert haunted.run(seed) == haunted.run(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_nobody_is_shown_in_the_long_run_what_was_never_committed():
    play(haunted, range(10_000_000, 10_000_000 + SOAK))
