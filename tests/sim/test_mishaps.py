"""Clocks that are set, files that are lost and tables that are dropped, among writers that keep their handles."""

from __future__ import annotations

import os

import pytest

from tests.sim import mishaps
from tests.sim.playing import play

SCHEDULES = int(os.environ.get("INDEXTABLES_SIM_MISHAPS", "80"))
SOAK = int(os.environ.get("INDEXTABLES_SIM_MISHAPS_SOAK", "30000"))


def test_no_mishap_makes_anybody_believe_what_is_not_there():
    """A schedule whose mishap does not happen fails by itself."""
    outcomes = play(mishaps, range(SCHEDULES))
    for kind in mishaps.KINDS:
        assert outcomes[kind] >= SCHEDULES // 5, outcomes
    for kind in (
        "ClockSkew",
        "LogGap",
        "TableReplaced",
        "TableNotFound",
        "Unknown",
        "late",
        "delete-late",
        "torn-list",
    ):
        assert outcomes[kind] >= SCHEDULES // 30, outcomes


@pytest.mark.parametrize("seed", [4, 5, 6, 7])
def test_a_seed_replays_bit_by_bit(seed):
    assert mishaps.run(seed) == mishaps.run(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_mishap_of_the_long_run_makes_anybody_believe_what_is_not_there():
    play(mishaps, range(10_000_000, 10_000_000 + SOAK))
