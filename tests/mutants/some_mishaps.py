"""Enough schedules of `tests/sim/mishaps.py` to catch a planted bug, few enough to be run for each one."""

from __future__ import annotations

import logging

from tests.sim import mishaps


def test_some_schedules_keep_the_invariants(caplog):
    caplog.set_level(logging.CRITICAL, logger="indextables")
    for seed in range(150):
        mishaps.run(seed)
