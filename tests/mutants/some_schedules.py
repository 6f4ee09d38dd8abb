"""A slice of the simulation, for the planted bugs that only a schedule shows."""

from __future__ import annotations

import logging
import os

from tests.sim import schedule

COUNT = int(os.environ.get("INDEXTABLES_MUTANT_SCHEDULES", "500"))


def test_some_schedules_keep_the_invariants():
    logging.getLogger("indextables").setLevel(logging.CRITICAL)
    for seed in range(COUNT):
        schedule.run(seed)
