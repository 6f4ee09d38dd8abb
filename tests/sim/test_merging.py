"""Merge splits under the simulation: no row is lost, doubled or moved, no file that anybody needs is deleted."""

from __future__ import annotations

import logging
import os
from collections import Counter

import pytest

from tests.sim import merging

SCHEDULES = int(os.environ.get("INDEXTABLES_SIM_MERGES", "120"))
SOAK = int(os.environ.get("INDEXTABLES_SIM_MERGE_SOAK", "20000"))


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Faults are logged by the thousand here."""
    caplog.set_level(logging.CRITICAL, logger="indextables")


def play(seeds: range) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        try:
            outcomes += merging.run(seed).outcomes
        except AssertionError as error:
            pytest.fail(f"{error}\n\n{_tell(seed)}", pytrace=False)
    return outcomes


def test_no_schedule_loses_doubles_or_moves_a_row():
    outcomes = play(range(SCHEDULES))
    # A generator that never gets there proves nothing.
    for kind in ("merged", "given up", "carried", "skipped", "purged", "deleted", "old files read"):
        assert outcomes[kind] >= SCHEDULES // 20, outcomes


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_replays_bit_by_bit(seed):
    assert merging.run(seed) == merging.run(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_schedule_of_the_long_run_loses_a_row():
    play(range(10_000_000, 10_000_000 + SOAK))


def _tell(seed: int) -> str:
    """The last steps of a schedule, for the report."""
    world, outcomes = merging.build(seed)
    world.lines = []
    try:
        world.run(60_000)
        merging.settle(world, outcomes)
    except BaseException as error:  # noqa: BLE001 - the story is what is wanted
        world.lines.append(repr(error))
    return "\n".join(world.lines[-60:])
